// RUN: mopt-opt --mopt-tile="machine=znver4" %s | FileCheck %s

// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-DAG: #[[TURN:.*]] = affine_map<(d0) -> (d0 mod 2)>
// CHECK-DAG: #[[COMES:.*]] = affine_set<(d0, d1) : (d0 == 0, -d1 + 31 >= 0)>
// CHECK-DAG: #[[FIRST2:.*]] = affine_set<(d0) : (-d0 + 1 >= 0)>
// CHECK-DAG: #[[FIRST8:.*]] = affine_set<(d0) : (-d0 + 7 >= 0)>
// CHECK-DAG: #[[LAST:.*]] = affine_set<(d0) : (d0 - 96 >= 0)>
// CHECK-DAG: #[[FIRST14:.*]] = affine_set<(d0) : (-d0 + 13 >= 0)>

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

// Half of sixteen channels have to ask for two rows each.

// CHECK-LABEL: func.func @two_rows_at_once
// CHECK-NOT:     affine.prefetch %arg2
// CHECK:         affine.for %[[C:c.*]] = 0 to 16 iter_args
// CHECK-NEXT:      affine.if #[[FIRST8]](%[[C]]) {
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2, %h, %w + 27], read, locality<2>
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2, %h, %w + 11], read, locality<2>
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2 + 1, %h, %w + 27], read, locality<2>
// CHECK-NEXT:      affine.prefetch %arg2[0, %[[C]] * 2 + 1, %h, %w + 11], read, locality<2>
// CHECK-NEXT:      }
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           affine.for %r
func.func @two_rows_at_once(%input: memref<1x16x16x58xf32>, %weights: memref<16x16x3x3xf32>,
                            %output: memref<1x16x14x56xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x16x16x58xf32>, memref<16x16x3x3xf32>)
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

// Of three channels of 49 taps each, the second one is early enough, too: eight rows each.

// CHECK-LABEL: func.func @long_steps
// CHECK:         affine.for %[[C:c.+]] = 0 to 3 iter_args
// CHECK-NEXT:      affine.if #[[FIRST2]](%[[C]]) {
// CHECK-NEXT:        affine.prefetch %arg2[0, %[[C]] * 8, %h, %w + 27], read, locality<2>
// CHECK-COUNT-15:    affine.prefetch %arg2[0, %[[C]] * 8{{.*}}, read, locality<2>
// CHECK-NOT:         affine.prefetch %arg2
// CHECK:             affine.for %r
func.func @long_steps(%input: memref<1x3x20x62xf32>, %weights: memref<16x3x7x7xf32>,
                      %output: memref<1x16x14x56xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x20x62xf32>, memref<16x3x7x7xf32>)
    outs(%output : memref<1x16x14x56xf32>)
  return
}

// In a short reduction it is the output of the next register tile that comes row by row.

// CHECK-LABEL: func.func @later_tile
// CHECK:         affine.for %w = 0 to 196 step 28
// CHECK-NOT:       affine.prefetch %output
// CHECK:           affine.for %[[C:c.+]] = 0 to 32 iter_args
// CHECK:             affine.prefetch %output[0, %[[C]], %w + 55], read, locality<2>
// CHECK-NEXT:        affine.prefetch %output[0, %[[C]], %w + 39], read, locality<2>
// CHECK-NOT:         affine.prefetch %output
// CHECK:             vector.outerproduct
func.func @later_tile(%input: memref<1x32x14x14xf32>, %weights: memref<16x32x1x1xf32>,
                      %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x32x14x14xf32>, memref<16x32x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Twenty-eight rows within half of 28 channels: two at once. The two that are left over, a register
// tile of their own, are asked for at once.

// CHECK-LABEL: func.func @rest
// CHECK:         affine.for %k = 0 to 30 step 28
// CHECK:           affine.for %[[C:c.+]] = 0 to 28 iter_args
// CHECK-NEXT:        affine.if #[[FIRST14]](%[[C]]) {
// CHECK-NEXT:          affine.prefetch %arg2[0, %k + %[[C]] * 2, 0, 15], read, locality<2>
// CHECK-NEXT:          affine.prefetch %arg2[0, %k + %[[C]] * 2 + 1, 0, 15], read, locality<2>
// CHECK-NEXT:        }
// CHECK-NOT:         affine.prefetch %arg2
// CHECK:           } else {
// CHECK:             affine.prefetch %arg2[0, %k, 0, 15], read, locality<2>
// CHECK-NEXT:        affine.prefetch %arg2[0, %k + 1, 0, 15], read, locality<2>
// CHECK-NEXT:        affine.for
// CHECK-NOT:         affine.prefetch %arg2
func.func @rest(%input: memref<1x28x1x16xf32>, %weights: memref<30x28x1x1xf32>,
                %output: memref<1x30x1x16xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", levels = [], prefetch = "L2",
      microkernel = {lanes = "w", vector = 16, tile = {k = 28, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x28x1x16xf32>, memref<30x28x1x1xf32>)
    outs(%output : memref<1x30x1x16xf32>)
  return
}

// Of 27 rows the last step asks for one that is there, and one behind.

// CHECK-LABEL: func.func @odd_rows
// CHECK:           affine.for %[[C:c.+]] = 0 to 28 iter_args
// CHECK-NEXT:        affine.if #[[FIRST14]](%[[C]]) {
// CHECK-NEXT:          affine.prefetch %arg2[0, %[[C]] * 2, 0, 15], read, locality<2>
// CHECK-NEXT:          affine.prefetch %arg2[0, %[[C]] * 2 + 1, 0, 15], read, locality<2>
// CHECK-NEXT:        }
func.func @odd_rows(%input: memref<1x28x1x16xf32>, %weights: memref<27x28x1x1xf32>,
                    %output: memref<1x27x1x16xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", levels = [], prefetch = "L2",
      microkernel = {lanes = "w", vector = 16, tile = {k = 27, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x28x1x16xf32>, memref<27x28x1x1xf32>)
    outs(%output : memref<1x27x1x16xf32>)
  return
}

// Into L1, and where input is asked for twice, it was not tried.

// CHECK-LABEL: func.func @into_l1
// CHECK-COUNT-32:  affine.prefetch %output{{.*}}, write, locality<3>
// CHECK:           affine.for %c
// CHECK-NOT:       affine.prefetch %output
// CHECK:           return
func.func @into_l1(%input: memref<1x96x14x14xf32>, %weights: memref<16x96x1x1xf32>,
                   %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "L1",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x96x14x14xf32>, memref<16x96x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// CHECK-LABEL: func.func @both
// CHECK-COUNT-32:  affine.prefetch %output{{.*}}, read, locality<2>
// CHECK:           affine.for %c
// CHECK-NOT:       affine.prefetch %output
// CHECK:           return
func.func @both(%input: memref<1x96x14x14xf32>, %weights: memref<16x96x1x1xf32>,
                %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", levels = [], prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x96x14x14xf32>, memref<16x96x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Beside sums in scratch memory the last visit asks, for all at once.

// CHECK-LABEL: func.func @last_visit
// CHECK:         affine.for %c_L1 = 0 to 192 step 96
// CHECK:           affine.if #[[LAST]](%c_L1) {
// CHECK-COUNT-32:    affine.prefetch %output{{.*}}, read, locality<2>
// CHECK-NOT:         affine.prefetch %output
// CHECK:           affine.for %c
// CHECK-NOT:       affine.prefetch %output
// CHECK:         return
func.func @last_visit(%input: memref<1x192x14x14xf32>, %weights: memref<16x192x1x1xf32>,
                      %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 28}, reduction = ["c"]},
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 16, w = 196, c = 96}}]}}
    ins(%input, %weights : memref<1x192x14x14xf32>, memref<16x192x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}
