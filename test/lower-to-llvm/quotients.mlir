// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// Rounded down by a power of two is shifted, whatever the sign.

// CHECK-LABEL: llvm.func @power_of_two
// CHECK:         %[[THREE:.+]] = llvm.mlir.constant(3 : index)
// CHECK:         %[[DIFFERENCE:.+]] = llvm.sub
// CHECK:         llvm.ashr %[[DIFFERENCE]], %[[THREE]]
// CHECK-NOT:     llvm.sdiv
// CHECK-NOT:     llvm.select
func.func @power_of_two(%a: index, %b: index, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %0 = affine.apply affine_map<(d0, d1) -> ((d0 - d1) floordiv 8)>(%a, %b)
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// Other divisors are divided by.

// CHECK-LABEL: llvm.func @other
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
func.func @other(%a: index, %b: index, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %0 = affine.apply affine_map<(d0, d1) -> ((d0 - d1) floordiv 6)>(%a, %b)
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// So is what only looks similar: a division that rounds towards zero, and one that is corrected where
// something else is negative.

// CHECK-LABEL: llvm.func @towards_zero
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @towards_zero(%a: index, %b: index, %out: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %0 = arith.divsi %a, %c4 : index
  memref.store %0, %out[%c0] : memref<2xindex>
  %other = arith.cmpi slt, %b, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %other, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %1 = arith.select %other, %corrected, %quotient : index
  memref.store %1, %out[%c1] : memref<2xindex>
  return
}
