// RUN: mopt-opt --mopt-tile="machine=znver5 threads=2" %s | FileCheck %s

// CHECK-DAG: #[[HALF:.*]] = affine_map<(d0) -> (d0 floordiv 8)>
// CHECK-DAG: #[[QUARTER:.*]] = affine_map<(d0, d1) -> ((d0 - d1) floordiv 8)>
// CHECK-DAG: #[[FIRST:.*]] = affine_set<(d0) : (d0 == 0)>
// CHECK-DAG: #[[FIRST4:.*]] = affine_set<(d0) : (-d0 + 3 >= 0)>
// CHECK-DAG: #[[THREE:.*]] = affine_set<(d0) : (-d0 + 11 >= 0)>
// CHECK-DAG: #[[SAME:.*]] = affine_set<(d0, d1) : (d0 - d1 == 0)>
// CHECK-DAG: #[[LAST:.*]] = affine_set<(d0) : (d0 - 8 >= 0)>

// The lines that a register tile will write, a row for each output channel, are asked for in front
// of its reduction.

// CHECK-LABEL: func.func @conv
// CHECK:         affine.for %h = 0 to 14
// CHECK:           affine.prefetch %arg2[0, 0, %h, 13], write
// CHECK-COUNT-14:  affine.prefetch %arg2{{.*}}, write
// CHECK:           affine.prefetch %arg2[0, 15, %h, 13], write
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           affine.for %c
// CHECK:             vector.outerproduct
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           vector.maskedstore %arg2
func.func @conv(%input: memref<1x12x16x16xf32>, %weights: memref<16x12x3x3xf32>,
                %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x12x16x16xf32>, memref<16x12x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Where too few outer products come before the stores, those of the next register tile.

// CHECK-LABEL: func.func @short_reduction
// CHECK:         affine.for %w = 0 to 196 step 14
// CHECK:           affine.prefetch %output[0, 0, %w + 27], write
// CHECK-COUNT-15:  affine.prefetch %output{{.*}}, write
// CHECK-NOT:       affine.prefetch %output
// CHECK:           affine.for %c
func.func @short_reduction(%input: memref<1x4x14x14xf32>, %weights: memref<16x4x1x1xf32>,
                           %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x4x14x14xf32>, memref<16x4x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A whole tile of L1, 8 KB of output, lies between a prefetch and its stores.

// CHECK-LABEL: func.func @next_row
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k = 0 to 32 step 4
// CHECK:             affine.for %w = 0 to 64 step 32
// CHECK:               affine.prefetch %arg2[0, %k, %h_L1 + 1, %w + 31], write
// CHECK-COUNT-7:       affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:           affine.prefetch %arg2
// CHECK:               affine.for %c
func.func @next_row(%input: memref<1x3x16x66xf32>, %weights: memref<32x3x3x3xf32>,
                    %output: memref<1x32x14x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "w", "c", "r", "s", "h"],
                 tile = {k = 32, h = 1, w = 64, c = 3, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x66xf32>, memref<32x3x3x3xf32>)
    outs(%output : memref<1x32x14x64xf32>)
  return
}

// Only the next output channels lie between them where a tile of L1 writes 24 KB, of which L1
// loses some.

// CHECK-LABEL: func.func @next_channels
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k = 0 to 32 step 4
// CHECK:             affine.for %w = 0 to 192 step 32
// CHECK:               affine.prefetch %arg2[0, %k + 4, %h_L1, %w + 31], write
// CHECK:               affine.for %c
func.func @next_channels(%input: memref<1x3x16x194xf32>, %weights: memref<32x3x3x3xf32>,
                         %output: memref<1x32x14x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "w", "c", "r", "s", "h"],
                 tile = {k = 32, h = 1, w = 192, c = 3, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x194xf32>, memref<32x3x3x3xf32>)
    outs(%output : memref<1x32x14x192xf32>)
  return
}

// Behind the second half of the channels no third one follows: a row is asked for as a whole, though
// more than 8 KB of output lie between.

// CHECK-LABEL: func.func @two_halves
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k_L1 = 0 to 64 step 32
// CHECK:               affine.prefetch %arg2[0, %k, %h_L1 + 1, %w + 31], write
func.func @two_halves(%input: memref<1x3x16x66xf32>, %weights: memref<64x3x3x3xf32>,
                      %output: memref<1x64x14x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["w", "c", "r", "s", "h", "k"],
                 tile = {k = 32, h = 1, w = 64, c = 3, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x66xf32>, memref<64x3x3x3xf32>)
    outs(%output : memref<1x64x14x64xf32>)
  return
}

// Of two loops that go on to a next step equally often, the outer one.

// CHECK-LABEL: func.func @outermost
// CHECK:         affine.for %w_L2 = 0 to 2048 step 512
// CHECK:             affine.for %w =
// CHECK:               affine.prefetch %arg2[0, 0, 0, %w + 543], write
func.func @outermost(%input: memref<1x32x1x2048xf32>, %weights: memref<4x32x1x1xf32>,
                     %output: memref<1x4x1x2048xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "w", "c"], tile = {k = 4, w = 512, c = 32}},
                {name = "L1", order = ["k", "w", "c"], tile = {k = 4, w = 128, c = 32}}]}}
    ins(%input, %weights : memref<1x32x1x2048xf32>, memref<4x32x1x1xf32>)
    outs(%output : memref<1x4x1x2048xf32>)
  return
}

// Two visits of each register tile, one for each half of the channels, share the rows of the next
// tile of L1: four of its eight each. Nothing decides between them.

// CHECK-LABEL: func.func @visits
// CHECK:         affine.for %k_L1 = 0 to 64 step 8
// CHECK:           affine.for %c_L1 = 0 to 16 step 8
// CHECK:             affine.for %w = 0 to 192 step 32
// CHECK:               %[[PART:.*]] = affine.apply #[[HALF]](%c_L1)
// CHECK-NOT:           affine.if
// CHECK:               affine.prefetch %arg2[0, %k_L1 + %[[PART]] * 4 + 8, 0, %w + 31], write
// CHECK-COUNT-7:       affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:           affine.prefetch %arg2
// CHECK:               affine.for %c
func.func @visits(%input: memref<1x16x1x192xf32>, %weights: memref<64x16x1x1xf32>,
                  %output: memref<1x64x1x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 8, w = 192, c = 8}}]}}
    ins(%input, %weights : memref<1x16x1x192xf32>, memref<64x16x1x1xf32>)
    outs(%output : memref<1x64x1x192xf32>)
  return
}

// Visits of loops over the same channels, one inside the other, are counted together: four ask for a
// quarter each, in the first half of the channels. The second one finds its output near.

// CHECK-LABEL: func.func @nested_visits
// CHECK:         affine.for %c_L3 = 0 to 64 step 32
// CHECK:           affine.for %k_L2 = 0 to 64 step 8
// CHECK:             affine.for %c_L2 =
// CHECK:               affine.for %c_L1 =
// CHECK:                 affine.if #[[FIRST]](%c_L3) {
// CHECK:                   affine.apply #[[QUARTER]](%c_L1, %c_L3)
// CHECK-COUNT-4:           affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:               affine.prefetch %arg2
// CHECK:                 }
func.func @nested_visits(%input: memref<1x64x1x192xf32>, %weights: memref<64x64x1x1xf32>,
                         %output: memref<1x64x1x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L3", order = ["c", "k", "w"], tile = {k = 64, w = 192, c = 32}},
                {name = "L2", order = ["k", "c", "w"], tile = {k = 8, w = 192, c = 16}},
                {name = "L1", order = ["k", "c", "w"], tile = {k = 8, w = 192, c = 8}}]}}
    ins(%input, %weights : memref<1x64x1x192xf32>, memref<64x64x1x1xf32>)
    outs(%output : memref<1x64x1x192xf32>)
  return
}

// Of the visits for two halves of the channels and for three rows of taps, the three share, in the
// first half of the channels.

// CHECK-LABEL: func.func @most_visits
// CHECK:         affine.for %k_L1 = 0 to 64 step 6
// CHECK:           affine.for %c_L1 = 0 to 4 step 2
// CHECK:             affine.for %r_L1 = 0 to 3
// CHECK:               affine.if #[[FIRST]](%c_L1) {
// CHECK-NOT:             affine.apply
// CHECK:                 affine.prefetch %arg2[0, %k_L1 + %r_L1 * 2 + 6, %h, %w + 31], write
// CHECK-COUNT-3:         affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:             affine.prefetch %arg2
// CHECK:                 affine.for %c
func.func @most_visits(%input: memref<1x4x4x194xf32>, %weights: memref<64x4x3x3xf32>,
                       %output: memref<1x64x2x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 6, w = 32}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "c", "r", "s", "h", "w"],
                 tile = {k = 6, h = 2, w = 192, c = 2, r = 1, s = 3}}]}}
    ins(%input, %weights : memref<1x4x4x194xf32>, memref<64x4x3x3xf32>)
    outs(%output : memref<1x64x2x192xf32>)
  return
}

// Sums in scratch memory: only the last visit asks for output, for all of it.

// CHECK-LABEL: func.func @last_visit
// CHECK:         affine.for %k_L1 = 0 to 64 step 16
// CHECK:           affine.for %c_L1 = 0 to 16 step 8
// CHECK:               affine.if #[[LAST]](%c_L1) {
// CHECK-NEXT:            affine.prefetch %arg2[0, %k_L1 + 16, 0, %w + 7], write
// CHECK-COUNT-15:        affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:             affine.prefetch %arg2
// CHECK:                 affine.for %c
func.func @last_visit(%input: memref<1x16x1x64xf32>, %weights: memref<64x16x1x1xf32>,
                      %output: memref<1x64x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 8}, reduction = ["c"]},
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 16, w = 64, c = 8}}]}}
    ins(%input, %weights : memref<1x16x1x64xf32>, memref<64x16x1x1xf32>)
    outs(%output : memref<1x64x1x64xf32>)
  return
}

// A single row cannot be shared: the first visit asks for it.

// CHECK-LABEL: func.func @single_row
// CHECK:         affine.for %w_L1 = 0 to 1024 step 128
// CHECK:           affine.for %s_L1 = 0 to 8 step 4
// CHECK:               affine.if #[[FIRST4]](%s_L1) {
// CHECK-NEXT:            affine.prefetch %arg2[%w + 159], write
// CHECK-NEXT:            affine.prefetch %arg2[%w + 143], write
// CHECK-NOT:           affine.prefetch %arg2
// CHECK:               affine.for %s
func.func @single_row(%input: memref<1031xf32>, %weights: memref<8xf32>,
                      %output: memref<1024xf32>) {
  linalg.conv_1d {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 1, w = 32}, reduction = ["s"]},
      levels = [{name = "L1", order = ["k", "w", "s"], tile = {k = 1, w = 128, s = 4}}]}}
    ins(%input, %weights : memref<1031xf32>, memref<8xf32>)
    outs(%output : memref<1024xf32>)
  return
}

// Four visits, and three rows: the last visit asks for nothing.

// CHECK-LABEL: func.func @more_visits_than_rows
// CHECK:           affine.for %c_L1 = 0 to 16 step 4
// CHECK:               affine.if #[[THREE]](%c_L1) {
// CHECK:                 affine.prefetch %arg2[0, %k_L1 + %{{.*}} + 3, 0, %w + 31], write
// CHECK-NEXT:            affine.prefetch %arg2[0, %k_L1 + %{{.*}} + 3, 0, %w + 15], write
// CHECK-NEXT:          }
func.func @more_visits_than_rows(%input: memref<1x16x1x192xf32>, %weights: memref<60x16x1x1xf32>,
                                 %output: memref<1x60x1x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 3, w = 32}, reduction = ["c"]},
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 3, w = 192, c = 4}}]}}
    ins(%input, %weights : memref<1x16x1x192xf32>, memref<60x16x1x1xf32>)
    outs(%output : memref<1x60x1x192xf32>)
  return
}

// 325 KB of output do not stay in the caches of a core while the other channels are gone through: for
// each half of the channels the first visit asks for it again, but not the second one, which
// follows at once.

// CHECK-LABEL: func.func @leaves_the_caches
// CHECK:         affine.for %c_L3 = 0 to 1024 step 512
// CHECK:           affine.for %k_L1 =
// CHECK:             affine.for %c_L1 =
// CHECK:               affine.if #[[SAME]](%c_L1, %c_L3) {
// CHECK-NEXT:            affine.prefetch %arg2[0, 0, %w, %k_L1 + 15], write
// CHECK-COUNT-9:         affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:             affine.prefetch %arg2
// CHECK:                 affine.for %c
func.func @leaves_the_caches(%input: memref<1x1x80x1024xf32>, %weights: memref<1x1x1024x1040xf32>,
                             %output: memref<1x1x80x1040xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 10}, reduction = ["c"]},
      levels = [{name = "L3", order = ["c", "k", "w"], tile = {k = 1040, w = 80, c = 512}},
                {name = "L1", order = ["k", "c", "w"], tile = {k = 16, w = 80, c = 256}}]}}
    ins(%input, %weights : memref<1x1x80x1024xf32>, memref<1x1x1024x1040xf32>)
    outs(%output : memref<1x1x80x1040xf32>)
  return
}

// So it is asked for in each row of taps, too, that a loop around goes through.

// CHECK-LABEL: func.func @leaves_for_each_tap
// CHECK:         affine.for %r_L3 = 0 to 3
// CHECK:           affine.for %c_L3 = 0 to 1024 step 512
// CHECK:             affine.for %k_L1 =
// CHECK:               affine.for %c_L1 =
// CHECK:                 affine.if #[[SAME]](%c_L1, %c_L3) {
// CHECK-NEXT:              affine.prefetch %arg2[0, 0, %w, %k_L1 + 15], write
func.func @leaves_for_each_tap(%input: memref<1x3x80x1024xf32>, %weights: memref<3x1x1024x1040xf32>,
                               %output: memref<1x1x80x1040xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 10}, reduction = ["r", "c"]},
      levels = [{name = "L3", order = ["r", "c", "k", "w"],
                 tile = {k = 1040, w = 80, c = 512, r = 1}},
                {name = "L1", order = ["k", "c", "w", "r"],
                 tile = {k = 16, w = 80, c = 256, r = 1}}]}}
    ins(%input, %weights : memref<1x3x80x1024xf32>, memref<3x1x1024x1040xf32>)
    outs(%output : memref<1x1x80x1040xf32>)
  return
}

// 203 KB do stay.

// CHECK-LABEL: func.func @stays_in_the_caches
// CHECK:         affine.for %c_L3 = 0 to 1024 step 512
// CHECK:             affine.for %c_L1 =
// CHECK:               affine.if #[[FIRST]](%c_L1) {
// CHECK-NEXT:            affine.prefetch %arg2[0, 0, %w, %k_L1 + 15], write
func.func @stays_in_the_caches(%input: memref<1x1x50x1024xf32>, %weights: memref<1x1x1024x1040xf32>,
                               %output: memref<1x1x50x1040xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 10}, reduction = ["c"]},
      levels = [{name = "L3", order = ["c", "k", "w"], tile = {k = 1040, w = 50, c = 512}},
                {name = "L1", order = ["k", "c", "w"], tile = {k = 16, w = 50, c = 256}}]}}
    ins(%input, %weights : memref<1x1x50x1024xf32>, memref<1x1x1024x1040xf32>)
    outs(%output : memref<1x1x50x1040xf32>)
  return
}

// So do the halves of 325 KB that two cores have.

// CHECK-LABEL: func.func @stays_in_the_caches_of_each
// CHECK:         affine.for %c_L3 = 0 to 1024 step 512
// CHECK:           affine.parallel (%w_core)
// CHECK:               affine.for %c_L1 =
// CHECK:                 affine.if #[[FIRST]](%c_L1) {
// CHECK-NEXT:              affine.prefetch %arg2[0, 0, %w, %k_L1 + 15], write
func.func @stays_in_the_caches_of_each(
    %input: memref<1x1x80x1024xf32>, %weights: memref<1x1x1024x1040xf32>,
    %output: memref<1x1x80x1040xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 2, packing = "none", parallel = {w = 2},
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 10}, reduction = ["c"]},
      levels = [{name = "L3", order = ["c", "k", "w"], tile = {k = 1040, w = 80, c = 512}},
                {name = "L1", order = ["k", "c", "w"], tile = {k = 16, w = 40, c = 256}}]}}
    ins(%input, %weights : memref<1x1x80x1024xf32>, memref<1x1x1024x1040xf32>)
    outs(%output : memref<1x1x80x1040xf32>)
  return
}

// Visits that share rows of the next tile of L1 share them again for each half of the channels.

// CHECK-LABEL: func.func @visits_of_what_leaves
// CHECK:         affine.for %c_L3 = 0 to 32 step 16
// CHECK:           affine.for %k_L1 = 0 to 512 step 8
// CHECK:             affine.for %c_L1 =
// CHECK:               affine.for %w = 0 to 192 step 32
// CHECK-NOT:             affine.if
// CHECK:                 affine.prefetch %arg2[0, %k_L1 + %{{.*}} * 4 + 8, 0, %w + 31], write
// CHECK-COUNT-7:         affine.prefetch %arg2{{.*}}, write
// CHECK-NOT:             affine.prefetch %arg2
// CHECK:                 affine.for %c
func.func @visits_of_what_leaves(%input: memref<1x32x1x192xf32>, %weights: memref<512x32x1x1xf32>,
                                 %output: memref<1x512x1x192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L3", order = ["c", "k", "w"], tile = {k = 512, w = 192, c = 16}},
                {name = "L1", order = ["k", "c", "w"], tile = {k = 8, w = 192, c = 8}}]}}
    ins(%input, %weights : memref<1x32x1x192xf32>, memref<512x32x1x1xf32>)
    outs(%output : memref<1x512x1x192xf32>)
  return
}

// Of two register tiles the second is a rest: what it would ask for in vain costs more than the
// first one saves.

// CHECK-LABEL: func.func @rest
// CHECK:         affine.for %w = 0 to 64 step 48
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           vector.outerproduct
func.func @rest(%input: memref<1x16x1x64xf32>, %weights: memref<4x16x1x1xf32>,
                %output: memref<1x4x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 48}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x16x1x64xf32>, memref<4x16x1x1xf32>)
    outs(%output : memref<1x4x1x64xf32>)
  return
}

// Every other element of a row: half as many to a line.

// CHECK-LABEL: func.func @every_other
// CHECK:         affine.prefetch %arg2[0, 0, 0, %w + 19], write
// CHECK-NEXT:    affine.prefetch %arg2[0, 0, 0, %w + 11], write
// CHECK-NEXT:    affine.prefetch %arg2[0, 0, 0, %w + 3], write
// CHECK-NEXT:    affine.prefetch %arg2[0, 1, 0, %w + 19], write
func.func @every_other(%input: memref<1x800x1x40xf32>, %weights: memref<16x800x1x1xf32>,
                       %output: memref<1x16x1x40xf32, strided<[1280, 80, 80, 2]>>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 20}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x800x1x40xf32>, memref<16x800x1x1xf32>)
    outs(%output : memref<1x16x1x40xf32, strided<[1280, 80, 80, 2]>>)
  return
}
