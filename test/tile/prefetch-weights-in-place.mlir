// RUN: mopt-opt --mopt-tile="machine=znver5" %s --split-input-file | FileCheck %s

// Weights in place, 512 KB of them: of the four register tiles that read four rows each asks for one
// of the next four.

// CHECK:         #[[PART:.+]] = affine_map<(d0) -> ((d0 floordiv 16) mod 4)>
// CHECK-LABEL: func.func @next_rows
// CHECK:         affine.for %k = 0 to 64 step 4
// CHECK:           affine.for %w = 0 to 64 step 16
// CHECK:             %[[ROW:.+]] = affine.apply #[[PART]](%w)
// CHECK:             affine.for %[[C:c.+]] = 0 to 2048 iter_args
// CHECK:               affine.prefetch %weights[%k + %[[ROW]] + 4, %[[C]]], read, locality<3>
// CHECK-NOT:           affine.prefetch %weights
// CHECK:               vector.outerproduct
func.func @next_rows(%input: memref<1x2048x1x64xf32>, %weights: memref<64x2048x1x1xf32>,
                     %output: memref<1x64x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x2048x1x64xf32>, memref<64x2048x1x1xf32>)
    outs(%output : memref<1x64x1x64xf32>)
  return
}

// -----

// Rows of the same tile of L2 are there already when they are read again.

// CHECK-LABEL: func.func @rows_in_l2
// CHECK-NOT:     affine.prefetch %weights
// CHECK:         return
func.func @rows_in_l2(%input: memref<1x2048x1x64xf32>, %weights: memref<64x2048x1x1xf32>,
                     %output: memref<1x64x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["k", "w", "c"], tile = {k = 32, w = 32, c = 2048}}],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x2048x1x64xf32>, memref<64x2048x1x1xf32>)
    outs(%output : memref<1x64x1x64xf32>)
  return
}

// -----

// A tile of L2 with all pixels: nobody has read the next rows before.

// CHECK-LABEL: func.func @rows_read_once
// CHECK:         affine.for %k_L2 = 0 to 64 step 32
// CHECK:           affine.for %[[K:k.*]] = #{{.+}}(%k_L2) to
// CHECK:             affine.for %w = 0 to 64 step 16
// CHECK:               affine.prefetch %weights[%[[K]] + %{{.+}} + 4, %{{.+}}], read, locality<3>
func.func @rows_read_once(%input: memref<1x2048x1x64xf32>, %weights: memref<64x2048x1x1xf32>,
                          %output: memref<1x64x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["k", "w", "c"], tile = {k = 32, w = 64, c = 2048}}],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x2048x1x64xf32>, memref<64x2048x1x1xf32>)
    outs(%output : memref<1x64x1x64xf32>)
  return
}

// -----

// A register tile with all pixels: one of four rows of the next tile, in turn.

// CHECK:         #[[TURN:.+]] = affine_map<(d0) -> (d0 mod 4)>
// CHECK-LABEL: func.func @rows_of_one_tile
// CHECK:         affine.for %k = 0 to 64 step 4
// CHECK:           affine.for %[[C:c.+]] = 0 to 2048 iter_args
// CHECK:             %[[ROW:.+]] = affine.apply #[[TURN]](%[[C]])
// CHECK:             affine.prefetch %weights[%k + %[[ROW]] + 4, %[[C]]], read, locality<3>
// CHECK-NOT:         affine.prefetch %weights
// CHECK:             vector.outerproduct
func.func @rows_of_one_tile(%input: memref<1x2048x1x64xf32>, %weights: memref<64x2048x1x1xf32>,
                            %output: memref<1x64x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 64}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x2048x1x64xf32>, memref<64x2048x1x1xf32>)
    outs(%output : memref<1x64x1x64xf32>)
  return
}

// -----

// Three multiply-adds per step leave no room for a prefetch.

// CHECK-LABEL: func.func @no_room_for_rows
// CHECK-NOT:     affine.prefetch %weights
// CHECK:         return
func.func @no_room_for_rows(%input: memref<1x2048x1x64xf32>, %weights: memref<64x2048x1x1xf32>,
                     %output: memref<1x64x1x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 3, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x2048x1x64xf32>, memref<64x2048x1x1xf32>)
    outs(%output : memref<1x64x1x64xf32>)
  return
}

// -----

// A single pixel: no register tile reads what others do, and there is nothing to look ahead from.

// CHECK-LABEL: func.func @one_pixel
// CHECK-NOT:     affine.prefetch %arg1
// CHECK:         vector.outerproduct
// CHECK:         return
func.func @one_pixel(%input: memref<1x1x1x1024xf32>, %weights: memref<1x1x1024x512xf32>,
                     %output: memref<1x1x1x512xf32>) {
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x1x1x1024xf32>, memref<1x1x1024x512xf32>)
    outs(%output : memref<1x1x1x512xf32>)
  return
}

// -----

// Vectors of weights in place, a row of 512 channels from step to step: a tile of L2 has all pixels,
// so that nobody has read the next channels before. Of the register tiles that read a step of two
// lines each asks for one of those of 32 channels on.

// CHECK:         #[[LINE:.+]] = affine_map<(d0) -> (d0 mod 2)>
// CHECK-LABEL: func.func @next_strip
// CHECK:         affine.for %[[K:k.*]] = 0 to 512 step 32
// CHECK:           affine.for %h = 0 to 4
// CHECK:             %[[PART:.+]] = affine.apply #[[LINE]](%h)
// CHECK:             affine.for %[[C:c.*]] = 0 to 64 iter_args
// CHECK:               affine.prefetch %arg1[%{{.+}}, %{{.+}}, %[[C]], %[[K]] + %[[PART]] * 16 + 32], read, locality<3>
// CHECK-NOT:           affine.prefetch %arg1
// CHECK:               vector.outerproduct
func.func @next_strip(%input: memref<1x6x6x64xf32>, %weights: memref<3x3x64x512xf32>,
                      %output: memref<1x4x4x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["k", "h", "w", "c", "r", "s"],
           tile = {k = 512, h = 4, w = 4, c = 64, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x64xf32>, memref<3x3x64x512xf32>)
    outs(%output : memref<1x4x4x512xf32>)
  return
}

// -----

// Six tiles of L2 read them, of which the first finds them in memory and asks.

// CHECK:         #[[FIRST:.+]] = affine_set<(d0) : (d0 == 0)>
// CHECK-LABEL: func.func @strip_in_first_pass
// CHECK:         affine.for %[[H:h.*]] = 0 to 6
// CHECK:           affine.for %[[K:k.*]] = 0 to 512 step 32
// CHECK:             affine.for %[[C:c.*]] = 0 to 64 iter_args
// CHECK:               affine.if #[[FIRST]](%[[H]])
// CHECK-NEXT:            affine.prefetch %arg1[%{{.+}}, %{{.+}}, %[[C]], %[[K]] + 32], read
// CHECK-NEXT:            affine.prefetch %arg1[%{{.+}}, %{{.+}}, %[[C]], %[[K]] + 48], read
// CHECK-NEXT:          }
// CHECK-NOT:           affine.prefetch %arg1
// CHECK:               vector.outerproduct
func.func @strip_in_first_pass(%input: memref<1x8x6x64xf32>, %weights: memref<3x3x64x512xf32>,
                               %output: memref<1x6x4x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 512, h = 1, w = 4, c = 64, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x8x6x64xf32>, memref<3x3x64x512xf32>)
    outs(%output : memref<1x6x4x512xf32>)
  return
}

// -----

// The rows that the next tile of L2 reads: each pass finds them beyond L2 and asks.

// CHECK-LABEL: func.func @strip_beyond_l2
// CHECK:         affine.for %h_L2 = 0 to 6
// CHECK:           affine.for %[[K:k.*]] = 0 to 512 step 32
// CHECK-NOT:         affine.if #{{.+}}(%h_L2)
// CHECK:             affine.prefetch %arg1[%{{.+}}, %{{.+}}, %{{.+}}, %[[K]] + %{{.+}} + 32], read
// CHECK:             vector.outerproduct
func.func @strip_beyond_l2(%input: memref<1x8x10x64xf32>, %weights: memref<3x3x64x512xf32>,
                           %output: memref<1x6x8x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 32, h = 1, w = 8, c = 64, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x8x10x64xf32>, memref<3x3x64x512xf32>)
    outs(%output : memref<1x6x8x512xf32>)
  return
}

// -----

// Of so few that L2 keeps all of them, 126 KB, only the first pass does not find them there.

// CHECK:         #[[FIRST:.+]] = affine_set<(d0) : (d0 == 0)>
// CHECK-LABEL: func.func @small_strip
// CHECK:         affine.for %[[H:h.*]] = 0 to 6
// CHECK:           affine.for %[[K:k.*]] = 0 to 512 step 32
// CHECK:             affine.if #[[FIRST]](%[[H]])
// CHECK-NEXT:          affine.prefetch %arg1[
// CHECK:             vector.outerproduct
func.func @small_strip(%input: memref<1x8x10x7xf32>, %weights: memref<3x3x7x512xf32>,
                       %output: memref<1x6x8x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 32, h = 1, w = 8, c = 7, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x8x10x7xf32>, memref<3x3x7x512xf32>)
    outs(%output : memref<1x6x8x512xf32>)
  return
}

// -----

// Rows 192 bytes apart are asked for.

// CHECK-LABEL: func.func @strips_of_three_lines
// CHECK:         affine.for %[[K:k.*]] = 0 to 48 step 16
// CHECK:           affine.prefetch %arg1[%{{.+}}, %{{.+}}, %{{.+}}, %[[K]] + 16], read
// CHECK:           vector.outerproduct
func.func @strips_of_three_lines(%input: memref<1x6x6x64xf32>, %weights: memref<3x3x64x48xf32>,
                                 %output: memref<1x4x4x48xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x64xf32>, memref<3x3x64x48xf32>)
    outs(%output : memref<1x4x4x48xf32>)
  return
}

// -----

// Two cores, each of which begins a pass of its own.

// CHECK:         #[[FIRST:.+]] = affine_set<(d0, d1) : (d0 - d1 == 0)>
// CHECK-LABEL: func.func @first_pass_of_each_core
// CHECK:         affine.parallel (%[[CORE:h.*]]) = (0) to (6) step (3)
// CHECK:           affine.for %[[H:h.*]] = #{{.+}}(%[[CORE]]) to
// CHECK:             affine.if #[[FIRST]](%[[H]], %[[CORE]])
// CHECK-NEXT:          affine.prefetch %arg1
func.func @first_pass_of_each_core(%input: memref<1x8x6x64xf32>, %weights: memref<3x3x64x512xf32>,
                                   %output: memref<1x6x4x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 2, packing = "none", parallel = {h = 2}, levels = [
          {name = "L3", order = ["k", "h", "w", "c", "r", "s"],
           tile = {k = 512, h = 6, w = 4, c = 64, r = 3, s = 3}},
          {name = "L2", order = ["h", "k", "w", "c", "r", "s"],
           tile = {k = 512, h = 1, w = 4, c = 64, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x8x6x64xf32>, memref<3x3x64x512xf32>)
    outs(%output : memref<1x6x4x512xf32>)
  return
}

// -----

// Beside sixteen multiply-adds a prefetch in each step does not weigh, though the four register tiles
// could share the rows: they share the two lines of each row.

// CHECK-LABEL: func.func @strip_by_steps
// CHECK:             affine.for %h = 0 to 4
// CHECK:               %[[PART:.+]] = affine.apply #{{.+}}(%h)
// CHECK:                   affine.for %[[C:c.*]] = 0 to 16 iter_args
// CHECK:                     affine.prefetch %arg1[%{{.+}}, %{{.+}}, %[[C]], %{{.+}} + %[[PART]] * 16 + 32], read
// CHECK-NOT:                 affine.prefetch %arg1
// CHECK:                     vector.outerproduct
func.func @strip_by_steps(%input: memref<1x6x10x16xf32>, %weights: memref<3x3x16x2048xf32>,
                          %output: memref<1x4x8x2048xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["k", "c", "h", "w", "r", "s"],
           tile = {k = 2048, h = 4, w = 8, c = 16, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 8}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x10x16xf32>, memref<3x3x16x2048xf32>)
    outs(%output : memref<1x4x8x2048xf32>)
  return
}

// -----

// Behind the last quarter of the channels comes the first one of the next 32 output channels. That is
// not affine. Four register tiles share 16 rows, and ask for four of them at each tap.

// CHECK-LABEL: func.func @strip_around
// CHECK:         affine.for %[[K:k.*]] = 0 to 512 step 32
// CHECK:           affine.for %[[FIRST:c.*]] = 0 to 64 step 16
// CHECK:             affine.for %h = 0 to 4
// CHECK-DAG:           %[[BACK:.+]] = arith.select %{{.+}}, %c-64, %c0
// CHECK-DAG:           %[[NEXT:.+]] = arith.select %{{.+}}, %c32, %c0
// CHECK:               %[[PART:.+]] = affine.apply #{{.+}}(%h)
// CHECK:               affine.for %[[R:r.*]] = 0 to 3 iter_args
// CHECK:                 affine.for %[[S:s.*]] = 0 to 3 iter_args
// CHECK-NEXT:              %[[AT:.+]] = affine.apply #{{.+}}(%[[FIRST]], %[[BACK]], %[[PART]])
// CHECK-NEXT:              %[[CHANNEL:.+]] = affine.apply #{{.+}}(%[[K]], %[[NEXT]])
// CHECK-NEXT:              memref.prefetch %arg1[%[[R]], %[[S]], %[[AT]], %[[CHANNEL]]], read
// CHECK-COUNT-7:           memref.prefetch %arg1
// CHECK-NEXT:              affine.for
func.func @strip_around(%input: memref<1x6x6x64xf32>, %weights: memref<3x3x64x512xf32>,
                        %output: memref<1x4x4x512xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [
          {name = "L2", order = ["k", "c", "h", "w", "r", "s"],
           tile = {k = 32, h = 4, w = 4, c = 16, r = 3, s = 3}}],
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x64xf32>, memref<3x3x64x512xf32>)
    outs(%output : memref<1x4x4x512xf32>)
  return
}

// -----

// Rows of 32 channels, 128 bytes: prefetchers of the hardware see the next ones.

// CHECK-LABEL: func.func @short_strips
// CHECK-NOT:     affine.prefetch %arg1
// CHECK:         return
func.func @short_strips(%input: memref<1x6x6x512xf32>, %weights: memref<3x3x512x32xf32>,
                        %output: memref<1x4x4x32xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x512xf32>, memref<3x3x512x32xf32>)
    outs(%output : memref<1x4x4x32xf32>)
  return
}

// -----

// Rows of 50 channels begin anywhere in a line, so that 16 of them may touch two: the register tiles
// of a row of output ask for one or the other.

// CHECK-LABEL: func.func @strips_inside_of_lines
// CHECK:         affine.for %[[K:k.*]] = 0 to 50 step 16
// CHECK:           affine.prefetch %arg1[%{{.+}}, %{{.+}}, %{{.+}}, %[[K]] + %part{{.*}} * 16 + 16], read
// CHECK:           vector.outerproduct
func.func @strips_inside_of_lines(%input: memref<1x6x6x64xf32>, %weights: memref<3x3x64x50xf32>,
                                  %output: memref<1x4x4x50xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x64xf32>, memref<3x3x64x50xf32>)
    outs(%output : memref<1x4x4x50xf32>)
  return
}

// -----

// So may twelve of 96, which begin at multiples of four.

// CHECK-LABEL: func.func @strips_of_twelve
// CHECK:         affine.for %[[K:k.*]] = 0 to 96 step 12
// CHECK:           affine.prefetch %arg1[%{{.+}}, %{{.+}}, %{{.+}}, %[[K]] + %part{{.*}} * 16 + 12], read
// CHECK:           vector.outerproduct
func.func @strips_of_twelve(%input: memref<1x6x6x64xf32>, %weights: memref<3x3x64x96xf32>,
                            %output: memref<1x4x4x96xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 12, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : memref<1x6x6x64xf32>, memref<3x3x64x96xf32>)
    outs(%output : memref<1x4x4x96xf32>)
  return
}
