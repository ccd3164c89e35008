// RUN: mopt-opt --mopt-tile="machine=znver5 threads=2" %s --split-input-file | FileCheck %s

// A register tile that is visited once per half of the input channels, and whose lanes lie across
// the output: between the visits its 14 accumulators are whole registers in scratch memory, for 4 x 6
// register tiles. Where those of a tile lie takes no quotient: a row is 224 elements on, a channel 84.
// The first visit starts from the fill and the last writes the output, which
// nothing reads.

// CHECK:         #[[FIRST:.+]] = affine_set<(d0) : (d0 == 0)>
// CHECK:         #[[LAST:.+]] = affine_set<(d0) : (d0 - 8 >= 0)>
// CHECK-LABEL: func.func @conv
// CHECK:         %[[SUMS:.+]] = memref.alloc() {{.*}}mopt.scratch} : memref<5376xf32>
// CHECK:         affine.for %c_L2 = 0 to 16 step 8
// CHECK-NOT:     vector_load %arg2
// CHECK:           affine.if #[[FIRST]](%c_L2)
// CHECK:             vector.broadcast
// CHECK:           else
// CHECK:             affine.vector_load %[[SUMS]][%k * 84 + %h * 224] {{.*}}, vector<16xf32>
// CHECK-COUNT-13:    affine.vector_load %[[SUMS]]{{.*}}, vector<16xf32>
// CHECK:           vector.outerproduct
// CHECK:           affine.if #[[LAST]](%c_L2)
// CHECK:             vector.maskedstore %arg2
// CHECK:           else
// CHECK-COUNT-13:    affine.vector_store {{.*}} %[[SUMS]]{{.*}}, vector<16xf32>
// CHECK:             affine.vector_store {{.*}} %[[SUMS]][%k * 84 + %h * 224 + 208]
// CHECK:         memref.dealloc %[[SUMS]]
func.func @conv(%input: memref<1x16x8x16xf32>, %weights: memref<64x16x3x3xf32>,
                %output: memref<1x64x6x14xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x64x6x14xf32>)
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["c", "k", "h", "w", "r", "s"],
                 tile = {k = 64, h = 6, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x8x16xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x6x14xf32>)
  return
}

// -----

// In tiles of 7 and of 5 inside them, the visit from input channel 5 on ends at 7: that its own 5
// channels would reach the end of 10 does not make it the last.

// CHECK:         #[[LAST:.+]] = affine_set<(d0, d1) : (d0 - 5 >= 0, d1 - 3 >= 0)>
// CHECK-LABEL: func.func @cut_short
// CHECK:         affine.for %c_L2 = 0 to 10 step 7
// CHECK:           affine.for %c_L1 = {{.*}} to min {{.*}} step 5
// CHECK:             affine.if #[[LAST]](%c_L1, %c_L2)
// CHECK:               vector.maskedstore %arg2
// CHECK:             else
// CHECK:               affine.vector_store {{.*}} %sums
func.func @cut_short(%input: memref<1x10x8x16xf32>, %weights: memref<16x10x3x3xf32>,
                     %output: memref<1x16x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [
        {name = "L2", order = ["c", "k", "h", "w", "r", "s"],
         tile = {k = 16, h = 6, w = 14, c = 7, r = 3, s = 3}},
        {name = "L1", order = ["c", "k", "h", "w", "r", "s"],
         tile = {k = 16, h = 6, w = 14, c = 5, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x10x8x16xf32>, memref<16x10x3x3xf32>)
    outs(%output : memref<1x16x6x14xf32>)
  return
}

// -----

// Split outside the cores: they share the memory, each with the register tiles of its own rows.

// CHECK-LABEL: func.func @split_outside_cores
// CHECK:         memref.alloc() {{.*}} : memref<1344xf32>
// CHECK:         affine.for %c_L3 = 0 to 16 step 8
// CHECK:           affine.parallel (%h_core) = (0) to (6) step (3)
// CHECK:             affine.for %h = {{.*}}(%h_core)
// CHECK:               affine.vector_load %sums[%h * 224]
// CHECK-NOT:           affine.prefetch %sums
// CHECK:         memref.dealloc %sums
// CHECK-NOT:     memref.dealloc %sums
func.func @split_outside_cores(%input: memref<1x16x8x16xf32>, %weights: memref<16x16x3x3xf32>,
                               %output: memref<1x16x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 2, packing = "whole", parallel = {h = 2},
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L3", order = ["c", "k", "h", "w", "r", "s"],
                 tile = {k = 16, h = 6, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x8x16xf32>, memref<16x16x3x3xf32>)
    outs(%output : memref<1x16x6x14xf32>)
  return
}

// -----

// Split inside the share of a core: each core has memory for its own register tiles, counted from
// where its share begins.

// CHECK-LABEL: func.func @split_inside_cores
// CHECK:         affine.parallel (%h_core) = (0) to (6) step (3)
// CHECK:           memref.alloc() {{.*}} : memref<672xf32>
// CHECK:           affine.for %c_L2 = 0 to 16 step 8
// CHECK:             affine.for %h = {{.*}}(%h_core)
// CHECK:               affine.vector_load %sums[%h * 224 - %h_core * 224]
// CHECK:           memref.dealloc %sums
func.func @split_inside_cores(%input: memref<1x16x8x16xf32>, %weights: memref<16x16x3x3xf32>,
                              %output: memref<1x16x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 2, packing = "whole", parallel = {h = 2},
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [
        {name = "L3", order = ["k", "h", "w", "c", "r", "s"],
         tile = {k = 16, h = 6, w = 14, c = 16, r = 3, s = 3}},
        {name = "L2", order = ["c", "k", "h", "w", "r", "s"],
         tile = {k = 16, h = 3, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x8x16xf32>, memref<16x16x3x3xf32>)
    outs(%output : memref<1x16x6x14xf32>)
  return
}

// -----

// Where lanes run along the output, it keeps the sums itself,

// CHECK-LABEL: func.func @lanes_along_output
// CHECK-NOT:     %sums
// CHECK:         vector.outerproduct
// CHECK:         affine.vector_load %arg2
// CHECK:         affine.vector_store {{.*}} %arg2
func.func @lanes_along_output(%input: memref<1x1x14x16xf32>, %weights: memref<1x1x16x16xf32>,
                              %output: memref<1x1x14x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 7}, reduction = ["c"]},
      levels = [{name = "L2", order = ["c", "k", "w"], tile = {k = 16, w = 14, c = 8}}]}}
    ins(%input, %weights : memref<1x1x14x16xf32>, memref<1x1x16x16xf32>)
    outs(%output : memref<1x1x14x16xf32>)
  return
}

// -----

// but not if its pixels are a multiple of 512 bytes apart, so that the same channels of all of them
// share few sets of the caches.

// CHECK-LABEL: func.func @far_apart
// CHECK:         %[[SUMS:.+]] = memref.alloc() {{.*}}mopt.scratch} : memref<1792xf32>
// CHECK:         affine.for %c_L2 = 0 to 16 step 8
// CHECK-NOT:         load %arg2
// CHECK:           affine.if
// CHECK:             affine.yield %zeros
// CHECK:           else
// CHECK-COUNT-7:     affine.vector_load %[[SUMS]]
// CHECK:           vector.outerproduct
// CHECK:           affine.if
// CHECK:             %[[THERE:.+]] = affine.vector_load %arg2
// CHECK:             %[[SUM:.+]] = arith.addf %{{.+}}, %[[THERE]]
// CHECK:             affine.vector_store %[[SUM]], %arg2
// CHECK:           else
// CHECK-COUNT-7:     affine.vector_store {{.*}} %[[SUMS]]
func.func @far_apart(%input: memref<1x1x14x16xf32>, %weights: memref<1x1x16x128xf32>,
                     %output: memref<1x1x14x128xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 7}, reduction = ["c"]},
      levels = [{name = "L2", order = ["c", "k", "w"], tile = {k = 128, w = 14, c = 8}}]}}
    ins(%input, %weights : memref<1x1x14x16xf32>, memref<1x1x16x128xf32>)
    outs(%output : memref<1x1x14x128xf32>)
  return
}

// -----

// More partial sums than L1 keeps: a register tile asks for those of the next one before it begins.

// CHECK-LABEL: func.func @sums_ahead
// CHECK:         %[[SUMS:.+]] = memref.alloc() {{.*}}mopt.scratch} : memref<7168xf32>
// CHECK:           affine.for %h = 0 to 8
// CHECK:             affine.prefetch %[[SUMS]][%k * 112 + %h * 224 + 224], read, locality<3>
// CHECK-COUNT-12:    affine.prefetch %[[SUMS]]{{.*}}, read, locality<3>
// CHECK:             affine.prefetch %[[SUMS]][%k * 112 + %h * 224 + 432], read, locality<3>
// CHECK-NOT:         affine.prefetch %[[SUMS]]
// CHECK:             vector.outerproduct
func.func @sums_ahead(%input: memref<1x16x10x16xf32>, %weights: memref<64x16x3x3xf32>,
                      %output: memref<1x64x8x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["c", "k", "h", "w", "r", "s"],
                 tile = {k = 64, h = 8, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x10x16xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x8x14xf32>)
  return
}

// -----

// The next one along a row is five pixels on, and the last is cut short, but takes as much room. Two
// of its registers share a line.

// CHECK-LABEL: func.func @sums_ahead_in_a_row
// CHECK:         %[[SUMS:.+]] = memref.alloc() {{.*}}mopt.scratch} : memref<7680xf32>
// CHECK:           affine.for %w = 0 to 14 step 5
// CHECK:             affine.prefetch %[[SUMS]][%k * 120 + %h * 240 + %w * 16 + 80], read, locality<3>
// CHECK-COUNT-3:     affine.prefetch %[[SUMS]]{{.*}}, read, locality<3>
// CHECK:             affine.prefetch %[[SUMS]][%k * 120 + %h * 240 + %w * 16 + 144], read, locality<3>
// CHECK-NOT:         affine.prefetch %[[SUMS]]
// CHECK:             vector.outerproduct
func.func @sums_ahead_in_a_row(%input: memref<1x16x10x16xf32>, %weights: memref<64x16x3x3xf32>,
                               %output: memref<1x64x8x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 8, tile = {k = 16, w = 5}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["c", "k", "h", "w", "r", "s"],
                 tile = {k = 64, h = 8, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x10x16xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x8x14xf32>)
  return
}

// -----

// More lines than a core waits for at once: each of the eight channels asks for four of 28, the last
// one for some of the register tile behind.

// CHECK-LABEL: func.func @sums_step_by_step
// CHECK:         %[[SUMS:.+]] = memref.alloc() {{.*}}mopt.scratch} : memref<14336xf32>
// CHECK:         affine.for %c_L2 = 0 to 16 step 8
// CHECK-NOT:       affine.prefetch %[[SUMS]]
// CHECK:           affine.for %[[C:c.+]] = {{.+}}(%c_L2) to {{.+}}(%c_L2) iter_args
// CHECK-NEXT:        affine.prefetch %[[SUMS]][%k * 112 + %h * 448 + %[[C]] * 64 - %c_L2 * 64 + 448]
// CHECK-COUNT-3:     affine.prefetch %[[SUMS]]
// CHECK-NOT:         affine.prefetch %[[SUMS]]
// CHECK:             vector.outerproduct
func.func @sums_step_by_step(%input: memref<1x16x10x16xf32>, %weights: memref<128x16x3x3xf32>,
                             %output: memref<1x128x8x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "whole", prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["c", "k", "h", "w", "r", "s"],
                 tile = {k = 128, h = 8, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x10x16xf32>, memref<128x16x3x3xf32>)
    outs(%output : memref<1x128x8x14xf32>)
  return
}

// -----

// Where input is asked for once, all lines are asked for at once.

// CHECK-LABEL: func.func @sums_at_once
// CHECK:           affine.for %h = 0 to 8
// CHECK-COUNT-28:    affine.prefetch %sums
// CHECK:             affine.for %c
// CHECK-NOT:         affine.prefetch %sums
// CHECK:             vector.outerproduct
func.func @sums_at_once(%input: memref<1x16x10x16xf32>, %weights: memref<128x16x3x3xf32>,
                        %output: memref<1x128x8x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["c", "k", "h", "w", "r", "s"],
                 tile = {k = 128, h = 8, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x10x16xf32>, memref<128x16x3x3xf32>)
    outs(%output : memref<1x128x8x14xf32>)
  return
}

// -----

// Of 64 channels every second one asks for one line.

// CHECK-DAG:     #[[HALF:.+]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-DAG:     #[[TURN:.+]] = affine_map<(d0) -> (d0 mod 2)>
// CHECK-DAG:     #[[NOW:.+]] = affine_set<(d0) : (d0 == 0)>
// CHECK-LABEL: func.func @every_second_channel
// CHECK:         affine.for %r_L2 = 0 to 3
// CHECK:           affine.for %[[C:c.*]] = 0 to 64 iter_args
// CHECK-NEXT:        %[[WHEN:.+]] = affine.apply #[[TURN]](%[[C]])
// CHECK-NEXT:        affine.if #[[NOW]](%[[WHEN]]) {
// CHECK-NEXT:          %[[LINE:.+]] = affine.apply #[[HALF]](%[[C]])
// CHECK-NEXT:          affine.prefetch %sums[%k * 112 + %h * 448 + %[[LINE]] * 16 + 448]
// CHECK-NEXT:        }
// CHECK-NOT:         affine.prefetch %sums
// CHECK:             vector.outerproduct
func.func @every_second_channel(%input: memref<1x64x10x16xf32>, %weights: memref<128x64x3x3xf32>,
                                %output: memref<1x128x8x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "whole", prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["r", "k", "h", "w", "c", "s"],
                 tile = {k = 128, h = 8, w = 14, c = 64, r = 1, s = 3}}]}}
    ins(%input, %weights : memref<1x64x10x16xf32>, memref<128x64x3x3xf32>)
    outs(%output : memref<1x128x8x14xf32>)
  return
}

// -----

// A strip of ten columns has two register tiles along each row; where the strip ends, the next ones
// are those of the next row, and the second strip, of four columns, has as much memory.

// CHECK-LABEL: func.func @strips
// CHECK:         memref.alloc() {{.*}}mopt.scratch} : memref<2560xf32>
// CHECK:         affine.for %c_L1 = 0 to 16 step 8
// CHECK:           affine.for %w_L1 = 0 to 14 step 10
// CHECK:             affine.for %h = 0 to 8
// CHECK:               affine.for %w =
// CHECK:                 affine.vector_load %sums[%w_L1 * 112 + %h * 160 + %w * 16]
func.func @strips(%input: memref<1x16x10x16xf32>, %weights: memref<16x16x3x3xf32>,
                  %output: memref<1x16x8x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 5}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["c", "w", "h", "k", "r", "s"],
                 tile = {k = 16, h = 8, w = 10, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x10x16xf32>, memref<16x16x3x3xf32>)
    outs(%output : memref<1x16x8x14xf32>)
  return
}
