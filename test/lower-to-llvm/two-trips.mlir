// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// LLVM may know how often a loop runs, except twice: it would replace the induction variable by a
// choice of two constants, and keep one pointer for each address that depends on it.

// CHECK-LABEL: llvm.func @twice
// CHECK:         %[[SIX:.+]] = llvm.mlir.constant(6 : i64)
// CHECK:         %[[BOUND:.+]] = llvm.inline_asm "", "=r,0" %[[SIX]]
// CHECK:         llvm.icmp "slt" %{{.+}}, %[[BOUND]]
func.func @twice(%data: memref<6xf32>, %value: f32) {
  affine.for %i = 0 to 6 step 4 {
    affine.store %value, %data[%i] : memref<6xf32>
  }
  return
}

// CHECK-LABEL: llvm.func @three_times
// CHECK-NOT:     llvm.inline_asm
func.func @three_times(%data: memref<6xf32>, %value: f32) {
  affine.for %i = 0 to 6 step 2 {
    affine.store %value, %data[%i] : memref<6xf32>
  }
  return
}
