// RUN: mopt-opt --mopt-tile="machine=znver4" %s | FileCheck %s

// With channels last each step over the channels asks for what the next register tile reads of another
// pixel. 16 steps, after which a new line of each pixel begins, come to 14 pixels and two of the tile
// after the next.

// CHECK-DAG:     #[[MOD16:.*]] = affine_map<(d0) -> (d0 mod 16)>
// CHECK-DAG:     #[[IN_PAIRS:.*]] = affine_map<(d0) -> ((d0 floordiv 2) mod 8)>
// CHECK-DAG:     #[[MOD2:.*]] = affine_map<(d0) -> (d0 mod 2)>
// CHECK-DAG:     #[[IN_EIGHTS:.*]] = affine_map<(d0) -> ((d0 floordiv 8) mod 2)>
// CHECK-DAG:     #[[BEHIND:.*]] = affine_map<(d0) -> ((d0 + 4) mod 8)>
// CHECK-DAG:     #[[EIGHTHS:.*]] = affine_map<(d0, d1) -> ((d0 - d1) floordiv 8)>
// CHECK-DAG:     #[[TURN8:.*]] = affine_map<(d0, d1) -> ((d0 - d1) mod 8)>
// CHECK-DAG:     #[[TWICE8:.*]] = affine_set<(d0, d1) : (-d0 + d1 + 15 >= 0)>
// CHECK-DAG:     #[[THRICE8:.*]] = affine_set<(d0, d1) : (-d0 + d1 + 23 >= 0)>
// CHECK-DAG:     #[[NEXT24:.*]] = affine_map<(d0) -> (d0 + 24)>
// CHECK-DAG:     #[[ALL3:.*]] = affine_map<(d0, d1, d2) -> (d0 + d1 + d2)>
// CHECK-DAG:     #[[LINE24:.*]] = affine_map<(d0, d1, d2) -> (d0 + d1 + d2 * 16 + 24)>
// CHECK-LABEL: func.func @pixels
// CHECK:         affine.for %w = 0 to 28 step 14
// CHECK:           affine.for %[[C:c.+]] = 0 to 64 iter_args
// CHECK-NEXT:        %[[TURN:.*]] = affine.apply #[[MOD16]](%[[C]])
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + %[[TURN]] + 14, %[[C]]], read, locality<3>
// CHECK-NOT:         affine.prefetch
// CHECK:             vector.outerproduct
func.func @pixels(%input: memref<1x1x28x64xf32>, %weights: memref<1x1x64x16xf32>,
                  %output: memref<1x1x28x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x28x64xf32>, memref<1x1x64x16xf32>)
    outs(%output : memref<1x1x28x16xf32>)
  return
}

// Three taps along a row of 16 pixels share them, six each (and two of the next ones), so that every
// second step is enough. The rows of the next tile are asked for at the taps of this one.

// CHECK-LABEL: func.func @taps
// CHECK:         affine.for %h_L1 = 0 to 28
// CHECK:           affine.for %w = 0 to 56 step 14
// CHECK:             affine.for %[[R:r.+]] = 0 to 3
// CHECK:               affine.for %[[S:s.+]] = 0 to 3
// CHECK:                 affine.for %[[C:c.+]] = 0 to 64
// CHECK-NEXT:              %[[TURN:.*]] = affine.apply #[[IN_PAIRS]](%[[C]])
// CHECK-NEXT:              %[[DUE:.*]] = affine.apply #[[MOD2]](%[[C]])
// CHECK-NEXT:              affine.if #{{.*}}(%[[DUE]]) {
// CHECK-NEXT:                affine.prefetch %arg0[0, %h_L1 + %[[R]] + 1, %w + %[[S]] * 6 + %[[TURN]], %[[C]]], read, locality<2>
// CHECK-NEXT:              }{{$}}
func.func @taps(%input: memref<1x30x58x64xf32>, %weights: memref<3x3x64x64xf32>,
                %output: memref<1x28x56x64xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["r", "s", "c"]},
      levels = [{name = "L1", order = ["k", "c", "r", "s", "w", "h"],
                 tile = {k = 16, h = 1, w = 56, c = 64, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x30x58x64xf32>, memref<3x3x64x64xf32>)
    outs(%output : memref<1x28x56x64xf32>)
  return
}

// Four register tiles read the same pixels, of two rows: each asks for every second of two pixels in
// both, as the stride is two, in every eighth step, and not in those in which a line begins.

// CHECK-LABEL: func.func @shared
// CHECK:         affine.for %h_L1 = 0 to 28 step 2
// CHECK:           affine.for %w_L1 = 0 to 28 step 7
// CHECK:             affine.for %c_L1 = 0 to 64 step 32
// CHECK:               affine.for %k = 0 to 64 step 16
// CHECK:                 %[[PART:.*]] = affine.apply #{{.*}}(%k)
// CHECK:                 affine.for %[[C:c_.+]] = #{{.*}}(%c_L1) to
// CHECK-NEXT:              %[[TURN:.*]] = affine.apply #[[IN_EIGHTS]](%[[C]])
// CHECK-NEXT:              %[[DUE:.*]] = affine.apply #[[BEHIND]](%[[C]])
// CHECK-NEXT:              affine.if #{{.*}}(%[[DUE]]) {
// CHECK-NEXT:                affine.prefetch %arg0[0, %h_L1 * 2 + 4, %w_L1 * 2 + %[[PART]] * 4 + %[[TURN]] * 2, %[[C]]]
// CHECK-NEXT:                affine.prefetch %arg0[0, %h_L1 * 2 + 6, %w_L1 * 2 + %[[PART]] * 4 + %[[TURN]] * 2, %[[C]]]
// CHECK-NEXT:              }{{$}}
func.func @shared(%input: memref<1x56x56x64xf32>, %weights: memref<1x1x64x64xf32>,
                  %output: memref<1x28x28x64xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, h = 2, w = 7}, reduction = ["c"]},
      levels = [{name = "L1", order = ["k", "h", "w", "c"], tile = {k = 64, h = 2, w = 7, c = 32}}]},
      strides = dense<2> : tensor<2xi64>}
    ins(%input, %weights : memref<1x56x56x64xf32>, memref<1x1x64x64xf32>)
    outs(%output : memref<1x28x28x64xf32>)
  return
}

// Of tiles of 24 channels, which are parts of two lines, eight steps ask for the first line of all
// pixels, and eight more for the second one.

// CHECK-LABEL: func.func @parts_of_lines
// CHECK:         affine.for %c_L1 = 0 to 72 step 24
// CHECK:           affine.for %[[C:c_.+]] = #{{.*}}(%c_L1) to
// CHECK-NEXT:        %[[LINE:.*]] = affine.apply #[[EIGHTHS]](%[[C]], %c_L1)
// CHECK-NEXT:        %[[TURN:.*]] = affine.apply #[[TURN8]](%[[C]], %c_L1)
// CHECK-NEXT:        affine.if #[[TWICE8]](%[[C]], %c_L1) {
// CHECK-NEXT:          affine.prefetch %arg0[0, 0, %w + %[[TURN]], %c_L1 + %[[LINE]] * 16 + 24], read
// CHECK-NEXT:          affine.prefetch %arg0[0, 0, %w + %[[TURN]] + 8, %c_L1 + %[[LINE]] * 16 + 24], read
// CHECK-NEXT:        }{{$}}
func.func @parts_of_lines(%input: memref<1x1x56x72xf32>, %weights: memref<1x1x72x16xf32>,
                          %output: memref<1x1x56x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "w", "c"], tile = {k = 16, w = 56, c = 24}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x72xf32>, memref<1x1x72x16xf32>)
    outs(%output : memref<1x1x56x16xf32>)
  return
}

// Pixels of 72 channels begin inside of lines: a tile of 32 may touch three.

// CHECK-LABEL: func.func @pixels_inside_of_lines
// CHECK:         affine.for %c_L1 = 0 to 72 step 32
// CHECK:             affine.if #[[THRICE8]](%{{.*}}, %c_L1) {
// CHECK-NEXT:          affine.prefetch %arg0[0, 0, %w + %{{.*}}, %c_L1 + %{{.*}} * 16 + 32], read
func.func @pixels_inside_of_lines(%input: memref<1x1x56x72xf32>, %weights: memref<1x1x72x16xf32>,
                                  %output: memref<1x1x56x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "w", "c"], tile = {k = 16, w = 56, c = 32}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x72xf32>, memref<1x1x72x16xf32>)
    outs(%output : memref<1x1x56x16xf32>)
  return
}

// So does a tile of sixteen behind one of 36: they begin at multiples of four.

// CHECK-LABEL: func.func @tiles_inside_of_lines
// CHECK:         affine.for %c_L2 = 0 to 128 step 36
// CHECK:           affine.for %c_L1 =
// CHECK:             affine.if #[[TWICE8]](%{{.*}}, %c_L1) {
// CHECK-NEXT:          affine.prefetch %arg0[0, 0, %w + %{{.*}}, %c_L1 + %{{.*}} * 16 + 36], read
func.func @tiles_inside_of_lines(%input: memref<1x1x56x128xf32>, %weights: memref<1x1x128x16xf32>,
                                 %output: memref<1x1x56x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L2", order = ["k", "w", "c"], tile = {k = 16, w = 56, c = 36}},
                {name = "L1", order = ["k", "w", "c"], tile = {k = 16, w = 56, c = 16}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x128xf32>, memref<1x1x128x16xf32>)
    outs(%output : memref<1x1x56x16xf32>)
  return
}

// Tiles of eight channels lie in one line each.

// CHECK-LABEL: func.func @half_lines
// CHECK:         affine.for %c_L1 = 0 to 72 step 8
// CHECK:           affine.for %[[C:c_.+]] = #{{.*}}(%c_L1) to
// CHECK-NEXT:        %[[TURN:.*]] = affine.apply #{{.*}}(%[[C]])
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + %[[TURN]], %[[C]] + 8], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + %[[TURN]] + 8, %[[C]] + 8], read
func.func @half_lines(%input: memref<1x1x56x72xf32>, %weights: memref<1x1x72x16xf32>,
                      %output: memref<1x1x56x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "w", "c"], tile = {k = 16, w = 56, c = 8}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x72xf32>, memref<1x1x72x16xf32>)
    outs(%output : memref<1x1x56x16xf32>)
  return
}

// Where four steps per line would each ask for too much, as with eleven channels, which are parts of
// two lines, it is as with whole lines.

// CHECK-LABEL: func.func @part_of_a_line
// CHECK:         affine.for %c_L1 = 0 to 66 step 11
// CHECK:           affine.for %[[C:c_.+]] = #{{.*}}(%c_L1) to
// CHECK-NEXT:        %[[TURN:.*]] = affine.apply #{{.*}}(%[[C]])
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + %[[TURN]], %[[C]] + 11], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + %[[TURN]] + 8, %[[C]] + 11], read
func.func @part_of_a_line(%input: memref<1x1x56x66xf32>, %weights: memref<1x1x66x16xf32>,
                          %output: memref<1x1x56x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "w", "c"], tile = {k = 16, w = 56, c = 11}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x66xf32>, memref<1x1x66x16xf32>)
    outs(%output : memref<1x1x56x16xf32>)
  return
}

// Nine of 64 channels are nine of them or the last one: a loop over them is not unrolled. Before it
// comes all that is asked for, the next nine channels of six pixels, which are parts of two lines.

// CHECK-LABEL: func.func @not_equally_often
// CHECK:         affine.for %c_L1 = 0 to 64 step 9
// CHECK:           affine.for %w = 0 to 56 step 6
// CHECK:             affine.prefetch %arg0[0, 0, %w, %c_L1 + 9], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + 1, %c_L1 + 9], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + 2, %c_L1 + 9], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + 3, %c_L1 + 9], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + 4, %c_L1 + 9], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w + 5, %c_L1 + 9], read
// CHECK-NEXT:        affine.prefetch %arg0[0, 0, %w, %c_L1 + 25], read
// CHECK-COUNT-5:     affine.prefetch %arg0
// CHECK:             affine.for %{{c_.+}} = #{{.*}}(%c_L1) to min
// CHECK-NOT:           affine.prefetch %arg0
// CHECK:               vector.outerproduct
func.func @not_equally_often(%input: memref<1x1x56x64xf32>, %weights: memref<1x1x64x32xf32>,
                             %output: memref<1x1x56x32xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 32, w = 56, c = 9}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 6}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x64xf32>, memref<1x1x64x32xf32>)
    outs(%output : memref<1x1x56x32xf32>)
  return
}

// Where there are taps, each asks for its part of the next row: three of nine pixels.

// CHECK-LABEL: func.func @taps_not_equally_often
// CHECK:             affine.for %[[R:r.+]] = 0 to 3
// CHECK-NEXT:          %{{.+}} = affine.for %[[S:s.+]] = 0 to 3
// CHECK-NEXT:            affine.prefetch %arg0[0, %h + %[[R]] + 1, %w + %[[S]] * 3, %c_L1], read
// CHECK-NEXT:            affine.prefetch %arg0[0, %h + %[[R]] + 1, %w + %[[S]] * 3 + 1, %c_L1], read
// CHECK-NEXT:            affine.prefetch %arg0[0, %h + %[[R]] + 1, %w + %[[S]] * 3 + 2, %c_L1], read
// CHECK-NEXT:            affine.prefetch %arg0[0, %h + %[[R]] + 1, %w + %[[S]] * 3, %c_L1 + 16], read
// CHECK-COUNT-2:         affine.prefetch %arg0
// CHECK-NEXT:            %{{.+}} = affine.for %{{c_.+}} = #{{.*}}(%c_L1) to min
// CHECK-NOT:               affine.prefetch %arg0
// CHECK:                   vector.outerproduct
func.func @taps_not_equally_often(%input: memref<1x10x58x64xf32>, %weights: memref<3x3x64x32xf32>,
                                  %output: memref<1x8x56x32xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "whole", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "c", "r", "s", "h", "w"],
                 tile = {k = 32, h = 8, w = 56, c = 9, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 6}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x10x58x64xf32>, memref<3x3x64x32xf32>)
    outs(%output : memref<1x8x56x32xf32>)
  return
}

// Three channels of six pixels leave no room for twelve prefetches.

// CHECK-LABEL: func.func @three_of_64
// CHECK-NOT:     prefetch %arg0
// CHECK:         return
func.func @three_of_64(%input: memref<1x1x54x64xf32>, %weights: memref<1x1x64x16xf32>,
                       %output: memref<1x1x54x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "c", "w"], tile = {k = 16, w = 54, c = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 6}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x54x64xf32>, memref<1x1x64x16xf32>)
    outs(%output : memref<1x1x54x16xf32>)
  return
}

// Nine of 27 of 72 channels are always nine: no outer bound cuts them short.

// CHECK-LABEL: func.func @always_nine
// CHECK:         affine.for %c_L1 =
// CHECK:           affine.for %{{c_.+}} = #{{.*}}(%c_L1) to #{{.*}}(%c_L1)
// CHECK:             affine.prefetch %arg0
func.func @always_nine(%input: memref<1x1x56x72xf32>, %weights: memref<1x1x72x32xf32>,
                       %output: memref<1x1x56x32xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L2", order = ["k", "c", "w"], tile = {k = 32, w = 56, c = 27}},
                {name = "L1", order = ["k", "c", "w"], tile = {k = 32, w = 56, c = 9}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 6}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x56x72xf32>, memref<1x1x72x32xf32>)
    outs(%output : memref<1x1x56x32xf32>)
  return
}

// Pixels of half a line of channels that follow each other are left to the hardware.

// CHECK-LABEL: func.func @few_channels
// CHECK:         %input = memref.collapse_shape %arg0
// CHECK-NOT:     prefetch %{{arg0|input}}
// CHECK:         return
func.func @few_channels(%input: memref<1x28x28x8xf32>, %weights: memref<1x1x8x16xf32>,
                        %output: memref<1x28x28x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x28x28x8xf32>, memref<1x1x8x16xf32>)
    outs(%output : memref<1x28x28x16xf32>)
  return
}

// Pixels of three channels: 18 pixels that three taps read are a run of 54 elements. The lines of one
// row after the other are asked for, for the register tile to the right.

// CHECK-LABEL: func.func @rows_of_few_channels
// CHECK:         affine.for %[[W:w.*]] = 0 to 64 step 16
// CHECK:           affine.for %h = 0 to 7
// CHECK:             affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:          affine.prefetch %arg0[0, %h + %[[R]], %[[W]] + 16, 0], read
// CHECK-NEXT:          affine.prefetch %arg0[0, %h + %[[R]], %[[W]] + 16, 16], read
// CHECK-NEXT:          affine.prefetch %arg0[0, %h + %[[R]], %[[W]] + 16, 32], read
// CHECK-NEXT:          affine.prefetch %arg0[0, %h + %[[R]], %[[W]] + 16, 48], read
// CHECK-NEXT:          affine.prefetch %arg0[0, %h + %[[R]], %[[W]] + 16, 53], read
// CHECK-NOT:           affine.prefetch %arg0
// CHECK:               vector.outerproduct
func.func @rows_of_few_channels(%input: memref<1x9x66x3xf32>, %weights: memref<3x3x3x16xf32>,
                                %output: memref<1x7x64x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L1", order = ["w", "h", "r", "s", "c", "k"],
           tile = {k = 16, h = 7, w = 16, c = 3, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 16}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x9x66x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x7x64x16xf32>)
  return
}

// One of 64 channels at a time leaves no row to ask for.

// CHECK-LABEL: func.func @single_channels
// CHECK-NOT:     prefetch %arg0
// CHECK:         return
func.func @single_channels(%input: memref<1x9x66x64xf32>, %weights: memref<3x3x64x16xf32>,
                           %output: memref<1x7x64x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L1", order = ["c", "w", "h", "r", "s", "k"],
           tile = {k = 16, h = 7, w = 16, c = 1, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 16}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x9x66x64xf32>, memref<3x3x64x16xf32>)
    outs(%output : memref<1x7x64x16xf32>)
  return
}

// Behind the last part of the channels comes the first one, of the next pixels.

// CHECK-LABEL: func.func @last_part
// CHECK:         affine.for %w_L1 = 0 to 1120 step 280
// CHECK:           affine.for %[[C_L1:c_L1]] = 0 to 72 step 24
// CHECK:             affine.for %w = {{.+}} step 14
// CHECK-NEXT:          %[[NEXT:.+]] = affine.apply #[[NEXT24]](%[[C_L1]])
// CHECK-NEXT:          %[[BEHIND:.+]] = arith.cmpi uge, %[[NEXT]], %c72 : index
// CHECK-NEXT:          %[[BACK:.+]] = arith.select %[[BEHIND]], %c-72, %c0 : index
// CHECK:               %[[ON:.+]] = arith.select %{{.+}}, %c280, %c0 : index
// CHECK:               affine.for %[[C:c_.+]] = #{{.+}}(%[[C_L1]]) to
// CHECK-NEXT:            %[[LINE:.+]] = affine.apply #[[EIGHTHS]](%[[C]], %[[C_L1]])
// CHECK-NEXT:            %[[TURN:.+]] = affine.apply #[[TURN8]](%[[C]], %[[C_L1]])
// CHECK-NEXT:            affine.if #[[TWICE8]](%[[C]], %[[C_L1]]) {
// CHECK-NEXT:              %[[PIXEL:.+]] = affine.apply #[[ALL3]](%w, %[[ON]], %[[TURN]])
// CHECK-NEXT:              %[[CHANNEL:.+]] = affine.apply #[[LINE24]](%[[BACK]], %[[C_L1]], %[[LINE]])
// CHECK-NEXT:              memref.prefetch %arg0[%c0, %c0, %[[PIXEL]], %[[CHANNEL]]], read, locality<2>
func.func @last_part(%input: memref<1x1x1120x72xf32>, %weights: memref<1x1x72x16xf32>,
                     %output: memref<1x1x1120x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "none", prefetch = "L2",
      levels = [{name = "L1", order = ["k", "w", "c"], tile = {k = 16, w = 280, c = 24}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x1120x72xf32>, memref<1x1x72x16xf32>)
    outs(%output : memref<1x1x1120x16xf32>)
  return
}

// The taps of a long filter follow each other as channels do, but so do pixels, which share their
// lines: nothing is asked for.

// CHECK-LABEL: func.func @long_filter
// CHECK-NOT:     prefetch %arg0
// CHECK:         return
func.func @long_filter(%input: memref<1x64x86xf32>, %weights: memref<32x64x31xf32>,
                       %output: memref<1x32x56xf32>) {
  linalg.conv_1d_ncw_fcw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 14}, reduction = ["c", "s"]}}}
    ins(%input, %weights : memref<1x64x86xf32>, memref<32x64x31xf32>)
    outs(%output : memref<1x32x56xf32>)
  return
}
