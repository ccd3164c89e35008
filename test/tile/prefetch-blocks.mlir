// RUN: mopt-opt --mopt-tile="machine=znver5" %s --split-input-file | FileCheck %s

// Panels that hold one block of 32 output channels at a time: the register tiles that use the block,
// six for each of two panels, ask for three rows each of the block that is packed next, which eleven
// of them have done.

// CHECK:         #[[ELEVEN:.+]] = affine_map<(d0, d1) -> ((d0 + d1 * 6) mod 11)>
// CHECK-LABEL: func.func @next_block
// CHECK:         affine.for %k_L2 = 0 to 64 step 32
// CHECK:           affine.for %k =
// CHECK:             affine.for %h = 0 to 6
// CHECK:               %[[PANEL:turn.*]] = affine.apply #{{.+}}(%k, %k_L2)
// CHECK:               %[[PART:.+]] = affine.apply #[[ELEVEN]](%h, %[[PANEL]])
// CHECK:               affine.for %[[C:c.+]] = 0 to 16 iter_args
// CHECK-NEXT:            affine.prefetch %arg1[%k_L2 + %[[PART]] * 3 + 32, %[[C]], 0, 0], read, locality<3>
// CHECK:                 affine.prefetch %arg1[%k_L2 + %[[PART]] * 3 + 34, %[[C]], 0, 0], read, locality<3>
// CHECK-NOT:           affine.prefetch %arg1
// CHECK:               vector.outerproduct
func.func @next_block(%input: memref<1x16x8x16xf32>, %weights: memref<64x16x3x3xf32>,
                      %output: memref<1x64x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {k = 32, h = 6, w = 14, c = 16, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x8x16xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x6x14xf32>)
  return
}

// -----

// The next block has the same output channels and the input channels that follow.

// CHECK-LABEL: func.func @next_block_of_reduction
// CHECK:         affine.for %c_L2 = 0 to 16 step 8
// CHECK:           affine.for %[[C:c.+]] = #{{.+}}(%c_L2) to #{{.+}}(%c_L2) iter_args
// CHECK-NEXT:        affine.prefetch %arg1[%{{.+}} * 3, %[[C]] + 8, 0, 0], read, locality<3>
func.func @next_block_of_reduction(%input: memref<1x16x8x16xf32>, %weights: memref<32x16x3x3xf32>,
                                   %output: memref<1x32x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "c", "h", "w", "r", "s"],
                 tile = {k = 32, h = 6, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x8x16xf32>, memref<32x16x3x3xf32>)
    outs(%output : memref<1x32x6x14xf32>)
  return
}

// -----

// The last block along the input channels is followed by the first one of the next output channels.

// CHECK:         #[[WRAP:.+]] = affine_map<(d0) -> ((d0 + 8) floordiv 16)>
// CHECK-LABEL: func.func @next_block_of_channels
// CHECK:         affine.for %k_L2 = 0 to 64 step 32
// CHECK:           affine.for %c_L2 = 0 to 16 step 8
// CHECK:             %[[WRAPS:.+]] = affine.apply #[[WRAP]](%c_L2)
// CHECK:             affine.for %[[C:c.+]] = #{{.+}}(%c_L2) to #{{.+}}(%c_L2) iter_args
// CHECK-NEXT:          affine.prefetch %arg1[%k_L2 + %{{.+}} * 3 + %[[WRAPS]] * 32, %[[C]] - %[[WRAPS]] * 16 + 8, 0, 0], read
func.func @next_block_of_channels(%input: memref<1x16x8x16xf32>, %weights: memref<64x16x3x3xf32>,
                                  %output: memref<1x64x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "c", "h", "w", "r", "s"],
                 tile = {k = 32, h = 6, w = 14, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x8x16xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x6x14xf32>)
  return
}

// -----

// More register tiles than rows: they take turns, a row each.

// CHECK:         #[[TURN:.+]] = affine_map<(d0) -> (d0 mod 16)>
// CHECK-LABEL: func.func @more_tiles_than_rows
// CHECK:         affine.for %h = 0 to 20
// CHECK:           %[[PART:.+]] = affine.apply #[[TURN]](%h)
// CHECK:           affine.prefetch %arg1[%k_L2 + %[[PART]] + 16, %{{.+}}, 0, 0], read, locality<3>
// CHECK-NOT:       affine.prefetch %arg1
// CHECK:           vector.outerproduct
func.func @more_tiles_than_rows(%input: memref<1x16x22x16xf32>, %weights: memref<32x16x3x3xf32>,
                                %output: memref<1x32x20x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {k = 16, h = 20, w = 14, c = 16, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x22x16xf32>, memref<32x16x3x3xf32>)
    outs(%output : memref<1x32x20x14xf32>)
  return
}

// -----

// A block that only three register tiles use: their multiply-adds leave no room for 22 rows each.

// CHECK-LABEL: func.func @too_many_rows
// CHECK-NOT:     affine.prefetch %arg1
// CHECK:         return
func.func @too_many_rows(%input: memref<1x16x5x16xf32>, %weights: memref<128x16x3x3xf32>,
                         %output: memref<1x128x3x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 7}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {k = 64, h = 3, w = 7, c = 16, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x5x16xf32>, memref<128x16x3x3xf32>)
    outs(%output : memref<1x128x3x14xf32>)
  return
}

// -----

// Rows of output channels that are packed next: 16 steps of the innermost loop are shared by four
// register tiles, each asks for four rows of two lines at each tap, behind the last block of channels
// for the first one of the next 32 output channels.

// CHECK:         #[[WRAP:.+]] = affine_map<(d0) -> ((d0 + 16) floordiv 64)>
// CHECK-LABEL: func.func @next_block_of_rows
// CHECK:         affine.for %k_L2 = 0 to 512 step 32
// CHECK:           affine.for %c_L2 = 0 to 64 step 16
// CHECK:             affine.for %h = 0 to 4
// CHECK:               %[[WRAPS:.+]] = affine.apply #[[WRAP]](%c_L2)
// CHECK:               affine.for %[[R:r.*]] = 0 to 3 iter_args
// CHECK:                 affine.for %[[S:s.*]] = 0 to 3 iter_args
// CHECK-NEXT:              affine.prefetch %arg1[%[[R]], %[[S]], %c_L2 + %h * 4 - %[[WRAPS]] * 64 + 16, %k_L2 + %[[WRAPS]] * 32], read, locality<2>
// CHECK-NEXT:              affine.prefetch %arg1[%[[R]], %[[S]], %c_L2 + %h * 4 - %[[WRAPS]] * 64 + 16, %k_L2 + %[[WRAPS]] * 32 + 16], read, locality<2>
// CHECK-NEXT:              affine.prefetch %arg1[%[[R]], %[[S]], %c_L2 + %h * 4 - %[[WRAPS]] * 64 + 17, %k_L2 + %[[WRAPS]] * 32], read, locality<2>
func.func @next_block_of_rows(%input: memref<1x6x6x64xf32>, %weights: memref<3x3x64x512xf32>,
                              %output: memref<1x4x4x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "L2", prefetch = "L2", levels = [
          {name = "L2", order = ["k", "c", "h", "w", "r", "s"],
           tile = {k = 32, h = 4, w = 4, c = 16, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x64xf32>, memref<3x3x64x512xf32>)
    outs(%output : memref<1x4x4x512xf32>)
  return
}

// -----

// Without taps between: each of the four register tiles asks for ten of 40 rows, of two lines each, at
// once. (A row or a channel at each step would be too much beside eight multiply-adds.)

// CHECK-LABEL: func.func @next_block_of_1x1
// CHECK:         affine.for %k_L2 = 0 to 1024 step 32
// CHECK:           affine.for %h = 0 to 4
// CHECK:             affine.prefetch %arg1[0, 0, %h * 10, %k_L2 + 32], read
// CHECK-NEXT:        affine.prefetch %arg1[0, 0, %h * 10, %k_L2 + 48], read
// CHECK-NEXT:        affine.prefetch %arg1[0, 0, %h * 10 + 1, %k_L2 + 32], read
// CHECK:             affine.prefetch %arg1[0, 0, %h * 10 + 9, %k_L2 + 48], read
// CHECK-NOT:         affine.prefetch %arg1
// CHECK:             vector.outerproduct
func.func @next_block_of_1x1(%input: memref<1x7x7x40xf32>, %weights: memref<1x1x40x1024xf32>,
                             %output: memref<1x4x4x1024xf32>) {
  linalg.conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>, mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2", levels = [
          {name = "L2", order = ["k", "h", "w", "c"],
           tile = {k = 32, h = 4, w = 4, c = 40}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x7x7x40xf32>, memref<1x1x40x1024xf32>)
    outs(%output : memref<1x4x4x1024xf32>)
  return
}

// -----

// Fourteen rows of two lines would be too much at once: in every second step of the first 28 each
// register tile asks for one of them.

// CHECK-DAG:     #[[HALF:.+]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-DAG:     #[[DUE:.+]] = affine_set<(d0, d1) : (d0 == 0, -d1 + 27 >= 0)>
// CHECK-LABEL: func.func @next_block_by_steps
// CHECK:         affine.for %k_L2 = 0 to 1024 step 32
// CHECK:           affine.for %h = 0 to 4
// CHECK:             affine.for %[[C:c.*]] = 0 to 54 iter_args
// CHECK:               %[[ROW:turn.*]] = affine.apply #[[HALF]](%[[C]])
// CHECK-NEXT:          affine.if #[[DUE]](%{{.+}}, %[[C]]) {
// CHECK-NEXT:            affine.prefetch %arg1[0, 0, %[[ROW]] + %h * 14, %k_L2 + 32], read
// CHECK-NEXT:            affine.prefetch %arg1[0, 0, %[[ROW]] + %h * 14, %k_L2 + 48], read
// CHECK-NEXT:          }{{$}}
// CHECK-NOT:         affine.prefetch %arg1
// CHECK:             vector.outerproduct
func.func @next_block_by_steps(%input: memref<1x7x7x54xf32>, %weights: memref<1x1x54x1024xf32>,
                               %output: memref<1x4x4x1024xf32>) {
  linalg.conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>, mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2", levels = [
          {name = "L2", order = ["k", "h", "w", "c"],
           tile = {k = 32, h = 4, w = 4, c = 54}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x7x7x54xf32>, memref<1x1x54x1024xf32>)
    outs(%output : memref<1x4x4x1024xf32>)
  return
}

// -----

// Rows of 28 lines are too much by themselves.

// CHECK-LABEL: func.func @next_block_of_long_rows
// CHECK:         affine.for %k_L2 = 0 to 1792 step 448
// CHECK:           affine.for %w = 0 to 64
// CHECK-NOT:         affine.prefetch %arg1
// CHECK:         return
func.func @next_block_of_long_rows(%input: memref<1x1x64x32xf32>, %weights: memref<1x1x32x1792xf32>,
                                   %output: memref<1x1x64x1792xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2", levels = [
          {name = "L2", order = ["k", "w", "c"], tile = {k = 448, w = 64, c = 32}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1x64x32xf32>, memref<1x1x32x1792xf32>)
    outs(%output : memref<1x1x64x1792xf32>)
  return
}

// -----

// So few that L2 keeps them, 126 KB, that are packed anew for each row of the image: they are asked
// for in the first one only.

// CHECK:         #[[FIRST:.+]] = affine_set<(d0) : (d0 == 0)>
// CHECK-LABEL: func.func @small_filter
// CHECK:         affine.for %[[H:h.*]] = 0 to 4
// CHECK:           affine.for %[[K:k.*]] = 0 to 512 step 64
// CHECK:             affine.for %[[S:s.*]] = 0 to 3 iter_args
// CHECK-NEXT:          affine.if #[[FIRST]](%[[H]])
// CHECK-NEXT:            affine.prefetch %arg1[%{{.+}}, %[[S]], %{{.+}}, %[[K]] + 64], read
// CHECK:               vector.outerproduct
func.func @small_filter(%input: memref<1x6x10x7xf32>, %weights: memref<3x3x7x512xf32>,
                        %output: memref<1x4x8x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2", levels = [
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 64, h = 1, w = 8, c = 7, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x10x7xf32>, memref<3x3x7x512xf32>)
    outs(%output : memref<1x4x8x512xf32>)
  return
}

// -----

// More than that is asked for in each pass.

// CHECK-LABEL: func.func @large_filter
// CHECK:         affine.for %h_L2 = 0 to 4
// CHECK:           affine.for %[[K:k.*]] = 0 to 512 step 32
// CHECK-NOT:         affine.if #{{.+}}(%h_L2)
// CHECK:             affine.prefetch %arg1[%{{.+}}, %{{.+}}, %{{.+}}, %[[K]] + 32], read
// CHECK:             vector.outerproduct
func.func @large_filter(%input: memref<1x6x18x32xf32>, %weights: memref<3x3x32x512xf32>,
                        %output: memref<1x4x16x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2", levels = [
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 32, h = 1, w = 16, c = 32, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x18x32xf32>, memref<3x3x32x512xf32>)
    outs(%output : memref<1x4x16x512xf32>)
  return
}

// -----

// Half of 16 lines beside eight multiply-adds would be too much.

// CHECK-LABEL: func.func @no_room_for_next_block
// CHECK-NOT:     affine.prefetch %arg1
// CHECK:         return
func.func @no_room_for_next_block(%input: memref<1x6x10x16xf32>, %weights: memref<3x3x16x512xf32>,
                                  %output: memref<1x4x8x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2", levels = [
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 256, h = 1, w = 8, c = 16, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x10x16xf32>, memref<3x3x16x512xf32>)
    outs(%output : memref<1x4x8x512xf32>)
  return
}

// -----

// Rows of 64 output channels lie 256 bytes apart, as steps of dense rows do where each output channel
// has its own. They are asked for once: here in the first pass, as L2 keeps so few.

// CHECK:         #[[FIRST:.+]] = affine_set<(d0) : (d0 == 0)>
// CHECK-LABEL: func.func @next_block_of_near_rows
// CHECK:         affine.for %w_L2 = 0 to 128 step 64
// CHECK:           affine.for %c_L2 = 0 to 128 step 64
// CHECK:             affine.for %w = #{{.*}}(%w_L2) to
// CHECK:               affine.if #[[FIRST]](%w_L2)
// CHECK-NEXT:            affine.prefetch %arg1
// CHECK-COUNT-15:        affine.prefetch %arg1
// CHECK-NEXT:          }{{$}}
// CHECK-NOT:             affine.prefetch %arg1
// CHECK:               vector.outerproduct
func.func @next_block_of_near_rows(%input: memref<1x8x16x128xf32>, %weights: memref<1x1x128x64xf32>,
                                   %output: memref<1x8x16x64xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver4", threads = 1, packing = "L2", prefetch = "L2", levels = [
          {name = "L2", order = ["w", "c", "k"], tile = {k = 64, w = 64, c = 64}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 64, w = 4}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x8x16x128xf32>, memref<1x1x128x64xf32>)
    outs(%output : memref<1x8x16x64xf32>)
  return
}

// -----

// Rows of 25 taps of f64 are four lines: eight register tiles that share 64 rows have room for these,
// beside a quarter as many as they have multiply-adds at each input channel.

// CHECK-LABEL: func.func @rows_of_four_lines
// CHECK:         affine.for %[[C:c.*]] = 0 to 16 iter_args
// CHECK-NEXT:      affine.prefetch %arg1[%[[ROW:.+]], %[[C]], 0, 0], read
// CHECK-NEXT:      affine.prefetch %arg1[%[[ROW]], %[[C]], 0, 8], read
// CHECK-NEXT:      affine.prefetch %arg1[%[[ROW]], %[[C]], 0, 16], read
// CHECK-NEXT:      affine.prefetch %arg1[%[[ROW]], %[[C]], 0, 24], read
// CHECK-NOT:       affine.prefetch %arg1
// CHECK:           vector.outerproduct
func.func @rows_of_four_lines(%input: memref<1x16x12x18xf64>, %weights: memref<128x16x5x5xf64>,
                              %output: memref<1x128x8x14xf64>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {k = 64, h = 8, w = 14, c = 16, r = 5, s = 5}}]}}
    ins(%input, %weights : memref<1x16x12x18xf64>, memref<128x16x5x5xf64>)
    outs(%output : memref<1x128x8x14xf64>)
  return
}

// -----

// Two have not.

// CHECK-LABEL: func.func @too_many_lines
// CHECK-NOT:     affine.prefetch %arg1
// CHECK:         return
func.func @too_many_lines(%input: memref<1x16x6x18xf64>, %weights: memref<128x16x5x5xf64>,
                          %output: memref<1x128x2x14xf64>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L2", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {k = 64, h = 2, w = 14, c = 16, r = 5, s = 5}}]}}
    ins(%input, %weights : memref<1x16x6x18xf64>, memref<128x16x5x5xf64>)
    outs(%output : memref<1x128x2x14xf64>)
  return
}
