// RUN: mopt-opt --mopt-tile="machine=znver4" %s | FileCheck %s

// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-DAG: #[[TURN:.*]] = affine_map<(d0) -> (d0 mod 2)>
// CHECK-DAG: #[[COMES:.*]] = affine_set<(d0, d1) : (d0 == 0, -d1 + 31 >= 0)>

// Thirty-two lines are more than a core waits for at once: every second step of the reduction asks
// for one of the sixteen rows, as long as there are any. Then more than half of it is left.

// CHECK-LABEL: func.func @every_second_step
// CHECK-NOT:     affine.prefetch %output
// CHECK:         affine.for %[[C:c.+]] = 0 to 96 iter_args
// CHECK-NEXT:      %[[NOW:.+]] = affine.apply #[[TURN]](%[[C]])
// CHECK-NEXT:      affine.if #[[COMES]](%[[NOW]], %[[C]]) {
// CHECK-NEXT:        %[[NUMBER:.+]] = affine.apply #[[ROW]](%[[C]])
// CHECK-NEXT:        affine.prefetch %output[0, %[[NUMBER]], %w + 27], read, locality<2>
// CHECK-NEXT:        affine.prefetch %output[0, %[[NUMBER]], %w + 11], read, locality<2>
// CHECK-NEXT:      }
// CHECK-NOT:       affine.prefetch %output
// CHECK:           vector.outerproduct
func.func @every_second_step(%input: memref<1x96x14x14xf32>, %weights: memref<16x96x1x1xf32>,
                             %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x96x14x14xf32>, memref<16x96x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Eight channels have to ask for two rows each.

// CHECK-LABEL: func.func @two_rows_at_once
// CHECK-NOT:     affine.prefetch %arg2
// CHECK:         affine.for %[[C:c.*]] = 0 to 8 iter_args
// CHECK-NOT:       affine.if
// CHECK:           affine.prefetch %arg2[0, %[[C]] * 2, %h, %w + 27], read, locality<2>
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2, %h, %w + 11], read, locality<2>
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2 + 1, %h, %w + 27], read, locality<2>
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2 + 1, %h, %w + 11], read, locality<2>
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           affine.for %r
func.func @two_rows_at_once(%input: memref<1x8x16x58xf32>, %weights: memref<16x8x3x3xf32>,
                            %output: memref<1x16x14x56xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x8x16x58xf32>, memref<16x8x3x3xf32>)
    outs(%output : memref<1x16x14x56xf32>)
  return
}

// Twenty-four lines are asked for at once, in front of the reduction.

// CHECK-LABEL: func.func @few_lines
// CHECK:         affine.for %w = 0 to 128 step 32
// CHECK-COUNT-24:  affine.prefetch %output{{.*}}, read, locality<2>
// CHECK-NOT:       affine.prefetch %output
// CHECK:           affine.for %c
// CHECK-NOT:       affine.prefetch %output
// CHECK:           return
func.func @few_lines(%input: memref<1x96x2x64xf32>, %weights: memref<12x96x1x1xf32>,
                     %output: memref<1x12x2x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", levels = [], prefetch = "L2",
      microkernel = {lanes = "w", vector = 16, tile = {k = 12, w = 32}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x96x2x64xf32>, memref<12x96x1x1xf32>)
    outs(%output : memref<1x12x2x64xf32>)
  return
}

// Where each visit of several asks for a part, that part is asked for at once.

// CHECK-LABEL: func.func @visits
// CHECK:           affine.for %c_L1 = 0 to 16 step 8
// CHECK:             affine.for %w = 0 to 192 step 32
// CHECK:               affine.apply
// CHECK-COUNT-14:      affine.prefetch %arg2{{.*}}, read, locality<2>
// CHECK-NOT:           affine.prefetch %arg2
// CHECK:               affine.for %c
func.func @visits(%input: memref<1x16x1x192xf32>, %weights: memref<56x16x1x1xf32>,
                  %output: memref<1x56x1x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      microkernel = {lanes = "w", vector = 16, tile = {k = 14, w = 32}, reduction = ["c"]},
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 14, w = 192, c = 8}}]}}
    ins(%input, %weights : memref<1x16x1x192xf32>, memref<56x16x1x1xf32>)
    outs(%output : memref<1x56x1x192xf32>)
  return
}
