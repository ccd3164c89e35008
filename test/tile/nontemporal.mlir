// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// An output that no cache could keep is written past them, if its address allows that: there is one
// nest for each case, and a fence behind the stores.

// CHECK-LABEL: func.func @conv
// CHECK:         memref.extract_aligned_pointer_as_index
// CHECK:         scf.if
// CHECK:           vector.outerproduct
// CHECK:           vector.store {{.*}} {alignment = 64 : i64, mopt.checked, nontemporal = true}
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

// Where the output begins in a buffer counts as well.

// CHECK-LABEL: func.func @part_of_a_buffer
// CHECK-DAG:     %[[BUFFER:.+]] = memref.extract_aligned_pointer_as_index %arg2
// CHECK-DAG:     %{{.+}}, %[[OFFSET:.+]], %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %arg2
// CHECK:         %[[BYTES:.+]] = arith.muli %[[OFFSET]], %c4
// CHECK:         %[[ADDRESS:.+]] = arith.addi %[[BUFFER]], %[[BYTES]]
// CHECK:         %[[REST:.+]] = arith.remui %[[ADDRESS]], %c64
// CHECK:         %[[ALIGNED:.+]] = arith.cmpi eq, %[[REST]], %c0
// CHECK:         scf.if %[[ALIGNED]]
// CHECK:           vector.store {{.*}} {alignment = 64 : i64, mopt.checked, nontemporal = true}
func.func @part_of_a_buffer(
    %input: memref<1x3x8x34xf32>, %weights: memref<4x3x3x3xf32>,
    %output: memref<1x4x6x32xf32, strided<[768, 192, 32, 1], offset: ?>>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", nontemporal = true, levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x8x34xf32>, memref<4x3x3x3xf32>)
    outs(%output : memref<1x4x6x32xf32, strided<[768, 192, 32, 1], offset: ?>>)
  return
}
