// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// An output that no cache could keep is written past them, if its address allows that: there is one
// nest for each case, and a fence behind the stores.

// CHECK-LABEL: func.func @conv
// CHECK:         memref.extract_aligned_pointer_as_index
// CHECK:         scf.if
// CHECK:           vector.outerproduct
// CHECK:           vector.store {{.*}} {alignment = 64 : i64, nontemporal = true}
// CHECK:           llvm.inline_asm has_side_effects "sfence", "~{memory}"
// CHECK:         else
// CHECK:           vector.outerproduct
// CHECK-NOT:       nontemporal
// CHECK:           affine.vector_store
func.func @conv(%input: memref<1x3x8x34xf32>, %weights: memref<4x3x3x3xf32>,
                %output: memref<1x4x6x32xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", nontemporal = true, levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x8x34xf32>, memref<4x3x3x3xf32>)
    outs(%output : memref<1x4x6x32xf32>)
  return
}
