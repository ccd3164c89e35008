// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// Truth values are bytes in memory.
// CHECK-LABEL: llvm.func @not(
// CHECK:         llvm.load %{{.*}} -> i8
// CHECK:         llvm.store %{{.*}} : i8
func.func @not(%a: memref<4xi1>, %i: index) {
  %true = arith.constant true
  %x = memref.load %a[%i] : memref<4xi1>
  %y = arith.xori %x, %true : i1
  memref.store %y, %a[%i] : memref<4xi1>
  return
}
