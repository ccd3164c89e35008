// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s
// RUN: mopt-compile %s -o %t.s --cpu skylake-avx512 && FileCheck %s --check-prefix=ASM --input-file=%t.s

// Outer products are one FMA per vector, with the pixel broadcast from memory; shuffles stay
// shuffles, masked stores masked stores; nothing is unrolled or vectorised once more.
// CHECK-LABEL: llvm.func @kernel
// CHECK-COUNT-2: llvm.intr.fmuladd({{.*}}) : (vector<16xf32>
// CHECK-NOT:     llvm.intr.fmuladd
// CHECK:         llvm.shufflevector
// CHECK:         llvm.intr.masked.store

// ASM-LABEL:   kernel:
// ASM-COUNT-2: vfmadd231ps {{.*}}{1to16}, %zmm{{[0-9]+}}, %zmm
// ASM-NOT:     vfmadd
// ASM:         {{vpermi2ps|vpermt2ps|vshufps|vunpcklps}}
// ASM:         vmovups %zmm{{[0-9]+}}, {{.*}} {%k{{[1-7]}}}
// ASM:         retq
func.func @kernel(%pixels: memref<64x2xf32>, %panel: memref<64x16xf32>, %out: memref<27xf32>) {
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %sums:2 = affine.for %c = 0 to 64 iter_args(%x = %zero, %y = %zero)
      -> (vector<16xf32>, vector<16xf32>) {
    %w = affine.vector_load %panel[%c, 0] : memref<64x16xf32>, vector<16xf32>
    %p = affine.load %pixels[%c, 0] : memref<64x2xf32>
    %q = affine.load %pixels[%c, 1] : memref<64x2xf32>
    %x_next = vector.outerproduct %w, %p, %x {kind = #vector.kind<add>} : vector<16xf32>, f32
    %y_next = vector.outerproduct %w, %q, %y {kind = #vector.kind<add>} : vector<16xf32>, f32
    affine.yield %x_next, %y_next : vector<16xf32>, vector<16xf32>
  }
  %mixed = vector.shuffle %sums#0, %sums#1 [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23]
      : vector<16xf32>, vector<16xf32>
  affine.vector_store %mixed, %out[0] : memref<27xf32>, vector<16xf32>
  %mask = vector.constant_mask [11] : vector<16xi1>
  %at = arith.constant 16 : index
  vector.maskedstore %out[%at], %mask, %sums#1 : memref<27xf32>, vector<16xi1>, vector<16xf32>
  return
}
