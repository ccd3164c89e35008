// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Each step of the input channels reads rows from another page. An outer product of 14 registers
// takes 7 cycles, the nine of a channel 63: the rows of twelve channels later are asked for, 800
// cycles before they are read, in every line that they may touch, once per run of taps; from the last
// channels on those of the next row of output, a row of 16 further on and 72 channels of 256 back.

// CHECK-DAG:     #[[LATER:.+]] = affine_map<(d0) -> (d0 + 12)>
// CHECK-DAG:     #[[MUCH_LATER:.+]] = affine_map<(d0) -> (d0 + 22)>
// CHECK-LABEL: func.func @later_channel
// CHECK:         affine.for %h = 0 to 14
// CHECK:           affine.for %[[C:c.+]] = 0 to 72 iter_args
// CHECK:             affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:          %[[AT:.+]] = affine.apply #[[LATER]](%[[C]])
// CHECK-NEXT:          %[[BEHIND:.+]] = arith.cmpi uge, %[[AT]], %c72 : index
// CHECK-NEXT:          %[[WRAP:.+]] = arith.select %[[BEHIND]], %c-18416, %c0 : index
// CHECK-NEXT:          %[[CHANNEL:.+]] = affine.apply #[[LATER]](%[[C]])
// CHECK-NEXT:          %[[ROW:.+]] = affine.apply #{{.+}}(%h, %[[R]])
// CHECK-NEXT:          memref.prefetch %arg0[%c0, %[[CHANNEL]], %[[ROW]], %[[WRAP]]], read, locality<3>
// CHECK:               %[[END:.+]] = affine.apply #{{.+}}(%[[WRAP]])
// CHECK-NEXT:          memref.prefetch %arg0[%c0, %{{.+}}, %{{.+}}, %[[END]]], read, locality<3>
// CHECK-NEXT:          affine.for %s{{.*}} = 0 to 3 iter_args
// CHECK-NOT:             prefetch
// CHECK:         return
func.func @later_channel(%input: memref<1x72x16x16xf32>, %weights: memref<16x72x3x3xf32>,
                         %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32>, memref<16x72x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Two registers: each of them waits four cycles for its last sum, so nine outer products take 36.

// CHECK-LABEL: func.func @latency
// CHECK:           affine.for %[[C:c.+]] = 0 to 72 iter_args
// CHECK:             arith.select
// CHECK-NEXT:        %[[CHANNEL:.+]] = affine.apply #[[MUCH_LATER]](%[[C]])
// CHECK:             memref.prefetch %arg0[%c0, %[[CHANNEL]], %{{.+}}, %{{.+}}], read
func.func @latency(%input: memref<1x72x16x16xf32>, %weights: memref<16x72x3x3xf32>,
                   %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 2}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32>, memref<16x72x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A loop through parts of the channels, around the register tile: only the last part is followed by
// the next row.

// CHECK-LABEL: func.func @parts_of_channels
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %c_L1 = 0 to 144 step 72
// CHECK:             affine.for %[[C:c.+]] = #{{.+}}(%c_L1) to #{{.+}}(%c_L1) iter_args
// CHECK:               affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:            %[[AT:.+]] = affine.apply #[[LATER]](%[[C]])
// CHECK-NEXT:            %[[BEHIND:.+]] = arith.cmpi uge, %[[AT]], %c144 : index
// CHECK-NEXT:            %[[WRAP:.+]] = arith.select %[[BEHIND]], %c-36848, %c0 : index
// CHECK:                 memref.prefetch %arg0[%c0, %{{.+}}, %{{.+}}, %[[WRAP]]], read
func.func @parts_of_channels(%input: memref<1x144x16x16xf32>, %weights: memref<16x144x3x3xf32>,
                             %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L1",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "h", "w", "r", "s", "c"],
                 tile = {k = 16, h = 1, w = 14, c = 72, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x144x16x16xf32>, memref<16x144x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A reduction so short that most of it would come before the first prefetch is of use: the same
// channel is asked for where it is read next, a row further down, as a row stays in L1.

// CHECK-LABEL: func.func @next_row
// CHECK:         affine.for %w = 0 to 28 step 14
// CHECK:           affine.for %[[C:c.+]] = 0 to 3 iter_args
// CHECK:             affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:          affine.prefetch %arg0[0, %[[C]], %h + %[[R]] + 1, %w], read, locality<3>
func.func @next_row(%input: memref<1x3x16x30xf32>, %weights: memref<16x3x3x3xf32>,
                     %output: memref<1x16x14x28xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x16x30xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x14x28xf32>)
  return
}

// One row of taps at a time, in a loop around the tile: what the same row reads in the next tile.

// CHECK-LABEL: func.func @one_row_of_taps
// CHECK:         affine.for %h_L1 = 0 to 14 step 2
// CHECK:           affine.for %r_L1 = 0 to 3
// CHECK:             affine.for %h =
// CHECK:               affine.for %[[C:c.+]] = 0 to 3 iter_args
// CHECK-NEXT:            affine.prefetch %arg0[0, %[[C]], %h + %r_L1 + 2, 0], read
func.func @one_row_of_taps(%input: memref<1x3x16x16xf32>, %weights: memref<16x3x3x3xf32>,
                           %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "w", "c", "s", "h", "r"],
                 tile = {k = 16, h = 2, w = 14, c = 3, r = 1, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x16xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A single run of taps of one channel at a time: its lines are asked for once, before it.

// CHECK-LABEL: func.func @single_run
// CHECK:         affine.for %r_L1 = 0 to 3
// CHECK:           affine.for %h =
// CHECK-NOT:         affine.for
// CHECK:             affine.prefetch %arg0[0, %c_L1, %h + %r_L1 + 2, 0], read
// CHECK-NEXT:        affine.prefetch %arg0[0, %c_L1, %h + %r_L1 + 2, 15], read
// CHECK-NEXT:        affine.for %s
// CHECK-NOT:           affine.prefetch %arg0
// CHECK:               vector.outerproduct
func.func @single_run(%input: memref<1x3x16x16xf32>, %weights: memref<16x3x3x3xf32>,
                      %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "w", "s", "h", "c", "r"],
                 tile = {k = 16, h = 2, w = 14, c = 1, r = 1, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x16xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A loop over taps does not tell what is read next, as that has been read for the tap before.

// CHECK-LABEL: func.func @taps_outside
// CHECK:         affine.for %s_L1 = 0 to 3
// CHECK:           affine.for %h_L1 = 0 to 14
// CHECK:               affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:            affine.prefetch %arg0[0, %{{.+}}, %h_L1 + %[[R]] + 1, %s_L1], read
func.func @taps_outside(%input: memref<1x3x16x16xf32>, %weights: memref<16x3x3x3xf32>,
                        %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "w", "c", "r", "s", "h"],
                 tile = {k = 16, h = 1, w = 14, c = 3, r = 3, s = 1}}]}}
    ins(%input, %weights : memref<1x3x16x16xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Four register tiles read the same row of input: each asks for one of the two lines in which the
// next row may lie.

// CHECK-LABEL: func.func @shared_by_tiles
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k_L1 = 0 to 64 step 16
// CHECK:             affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:          %part = affine.apply #[[PART:.+]](%k_L1)
// CHECK-NEXT:          affine.prefetch %arg0[0, %{{.+}}, %h_L1 + %[[R]] + 1, %part * 15], read, locality<3>
// CHECK-NEXT:          affine.for %s
func.func @shared_by_tiles(%input: memref<1x32x16x16xf32>, %weights: memref<64x32x3x3xf32>,
                           %output: memref<1x64x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["h", "w", "c", "r", "s", "k"],
                 tile = {k = 16, h = 1, w = 14, c = 32, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x32x16x16xf32>, memref<64x32x3x3xf32>)
    outs(%output : memref<1x64x14x14xf32>)
  return
}

// In a short reduction also if they read the row in several parts: eight register tiles along k share
// the next row of each part.

// CHECK-LABEL: func.func @shared_by_parts
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k = 0 to 32 step 4
// CHECK:             affine.for %w = 0 to 64 step 32
// CHECK:               affine.for %[[C:c.+]] = 0 to 3 iter_args
// CHECK:                 affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:              %part = affine.apply #[[PART:.+]](%k)
// CHECK-NEXT:              affine.prefetch %arg0[0, %[[C]], %h_L1 + %[[R]] + 1, %w + %part * 11], read
// CHECK-NOT:               affine.prefetch
// CHECK:                   vector.outerproduct
func.func @shared_by_parts(%input: memref<1x3x16x66xf32>, %weights: memref<32x3x3x3xf32>,
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

// Rows that are more than stays in L2 are left to the loop over their parts.

// CHECK-LABEL: func.func @far_apart
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k_L1 = 0 to 32 step 4
// CHECK:             affine.for %w = 0 to 8192 step 32
// CHECK:                   affine.prefetch %arg0[0, %{{.+}}, %h_L1 + %{{.+}}, %w + 32], read
func.func @far_apart(%input: memref<1x3x16x8194xf32>, %weights: memref<32x3x3x3xf32>,
                     %output: memref<1x32x14x8192xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["w", "c", "r", "s", "h", "k"],
                 tile = {k = 4, h = 1, w = 8192, c = 3, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x8194xf32>, memref<32x3x3x3xf32>)
    outs(%output : memref<1x32x14x8192xf32>)
  return
}

// Rows that stay there are not: from L2 the next one comes soon enough, where the next part of this
// one would be asked for a hundred cycles before it is read.

// CHECK-LABEL: func.func @from_l2
// CHECK:         affine.for %h_L1 = 0 to 14
// CHECK:           affine.for %k_L1 = 0 to 32 step 4
// CHECK:             affine.for %w = 0 to 2048 step 32
// CHECK:                   affine.prefetch %arg0[0, %{{.+}}, %h_L1 + %{{.+}} + 1, %w + %{{.+}}], read
func.func @from_l2(%input: memref<1x3x16x2050xf32>, %weights: memref<32x3x3x3xf32>,
                     %output: memref<1x32x14x2048xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["w", "c", "r", "s", "h", "k"],
                 tile = {k = 4, h = 1, w = 2048, c = 3, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x3x16x2050xf32>, memref<32x3x3x3xf32>)
    outs(%output : memref<1x32x14x2048xf32>)
  return
}

// Two halves of the channels inside ten steps along a row: behind the second half nothing follows, so
// each asks for its channels of the next step, though a step reads more than stays in L1.

// CHECK-LABEL: func.func @few_steps
// CHECK:         affine.for %w_L1 = 0 to 960 step 96
// CHECK:           affine.for %c_L1 = 0 to 128 step 64
// CHECK:             affine.for %w =
// CHECK:               affine.for %[[C:c.+]] = #
// CHECK:                 affine.prefetch %arg0[0, %[[C]], 0, %w + %{{.+}} + 96], read
func.func @few_steps(%input: memref<1x128x1x960xf32>, %weights: memref<16x128x1x1xf32>,
                     %output: memref<1x16x1x960xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c"]},
      levels = [{name = "L1", order = ["w", "c", "k"], tile = {k = 16, w = 96, c = 64}}]}}
    ins(%input, %weights : memref<1x128x1x960xf32>, memref<16x128x1x1xf32>)
    outs(%output : memref<1x16x1x960xf32>)
  return
}

// Of a row in two steps of eight register tiles, a register tile asks for what lies a step further
// on: what the next register tile reads would come too late.

// CHECK-LABEL: func.func @too_late
// CHECK:         affine.for %w_L1 = 0 to 512 step 256
// CHECK:             affine.for %w =
// CHECK:               affine.for %[[C:c.+]] = 0 to 8
// CHECK-NEXT:            affine.prefetch %arg0[0, %[[C]], 0, %w + 256], read
func.func @too_late(%input: memref<1x8x1x512xf32>, %weights: memref<4x8x1x1xf32>,
                    %output: memref<1x4x1x512xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c"]},
      levels = [{name = "L1", order = ["w", "c", "k"], tile = {k = 4, w = 256, c = 8}}]}}
    ins(%input, %weights : memref<1x8x1x512xf32>, memref<4x8x1x1xf32>)
    outs(%output : memref<1x4x1x512xf32>)
  return
}

// Of two loops that go on to a next step equally often, the outer one.

// CHECK-LABEL: func.func @outermost
// CHECK:         affine.for %w_L2 = 0 to 2048 step 512
// CHECK:           affine.for %w_L1 =
// CHECK:             affine.for %k = 0 to 64 step 4
// CHECK:               affine.for %w =
// CHECK:                 affine.for %[[C:c.+]] = 0 to 8
// CHECK:                   affine.prefetch %arg0[0, %[[C]], 0, %w + %{{.+}} + 512], read
func.func @outermost(%input: memref<1x8x1x2048xf32>, %weights: memref<64x8x1x1xf32>,
                     %output: memref<1x64x1x2048xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "w", "c"], tile = {k = 64, w = 512, c = 8}},
                {name = "L1", order = ["k", "w", "c"], tile = {k = 64, w = 128, c = 8}}]}}
    ins(%input, %weights : memref<1x8x1x2048xf32>, memref<64x8x1x1xf32>)
    outs(%output : memref<1x64x1x2048xf32>)
  return
}

// Every second step of a loop over two halves of the channels would ask for channels that nobody
// reads next. One of three rows of pixels has a next one more often, though they need more than L1.

// CHECK-LABEL: func.func @in_vain
// CHECK:         affine.for %w_L1 = 0 to 240 step 96
// CHECK:           affine.for %c_L1 = 0 to 88 step 44
// CHECK:               affine.for %[[C:.*]] = #map{{.*}} iter_args
// CHECK:                 affine.prefetch %arg0[0, %[[C]], 0, %w + %{{.*}} * 16 + 96], read
func.func @in_vain(%input: memref<1x88x1x240xf32>, %weights: memref<16x88x1x1xf32>,
                   %output: memref<1x16x1x240xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none",
      microkernel = {lanes = "w", vector = 16, tile = {k = 4, w = 32}, reduction = ["c"]},
      levels = [{name = "L1", order = ["w", "c", "k"], tile = {k = 16, w = 96, c = 44}}]}}
    ins(%input, %weights : memref<1x88x1x240xf32>, memref<16x88x1x1xf32>)
    outs(%output : memref<1x16x1x240xf32>)
  return
}

// Where the way from row to row is not known, nobody knows the way from behind the last channel to the
// next row: the channels behind it are asked for.

// CHECK-LABEL: func.func @unknown_rows
// CHECK:         affine.for %[[C:c.+]] = 0 to 72 iter_args
// CHECK:           affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:        affine.prefetch %arg0[0, %[[C]] + 12, %h + %[[R]], 0], read, locality<3>
func.func @unknown_rows(%input: memref<1x72x16x16xf32, strided<[?, 300, ?, 1]>>,
                        %weights: memref<16x72x3x3xf32>, %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32, strided<[?, 300, ?, 1]>>, memref<16x72x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A short reduction is over before what its later steps read could arrive, and there is no later
// register tile: nothing is asked for.

// CHECK-LABEL: func.func @short_and_last
// CHECK-NOT:     prefetch %arg0
// CHECK:         return
func.func @short_and_last(%input: memref<1x20x3x46xf32>, %weights: memref<16x20x3x3xf32>,
                          %output: memref<1x16x1x44xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 44}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x20x3x46xf32>, memref<16x20x3x3xf32>)
    outs(%output : memref<1x16x1x44xf32>)
  return
}

// A short reduction asks for a later register tile's input. Where that is the next part of the
// channels, the last part is followed by the first one of the next 320 pixels, four parts of 16
// channels further back, though the last one has only 12.

// CHECK-LABEL: func.func @last_part
// CHECK:         affine.for %w_L1 = 0 to 1280 step 320
// CHECK:           affine.for %[[C_L1:c_L1]] = 0 to 60 step 16
// CHECK:             affine.for %w = {{.+}} step 40
// CHECK:               affine.for %[[C:c.+]] = #{{.+}}(%[[C_L1]]) to min #{{.+}}(%[[C_L1]]) iter_args
// CHECK-NEXT:            %[[NEXT:.+]] = affine.apply #[[PART:.+]](%[[C_L1]])
// CHECK-NEXT:            %[[BEHIND:.+]] = arith.cmpi uge, %[[NEXT]], %c60 : index
// CHECK-NEXT:            %[[BACK:.+]] = arith.select %[[BEHIND]], %c-64, %c0 : index
// CHECK:                 %[[ON:.+]] = arith.select %{{.+}}, %c320, %c0 : index
// CHECK-NEXT:            %[[CHANNEL:.+]] = affine.apply #{{.+}}(%[[C]], %[[BACK]])
// CHECK-NEXT:            %[[PIXEL:.+]] = affine.apply #{{.+}}(%w, %[[ON]])
// CHECK-NEXT:            memref.prefetch %arg0[%c0, %[[CHANNEL]], %[[PIXEL]]], read, locality<3>
// CHECK:         return
func.func @last_part(%input: memref<1x60x1280xf32>, %weights: memref<2x60x1xf32>,
                     %output: memref<1x2x1280xf32>) {
  linalg.conv_1d_ncw_fcw {mopt.plan = {
      machine = "haswell", threads = 1, packing = "none", levels = [
        {name = "L1", order = ["k", "w", "c"], tile = {k = 2, w = 320, c = 16}}],
      microkernel = {lanes = "w", vector = 8, tile = {k = 2, w = 40}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x60x1280xf32>, memref<2x60x1xf32>)
    outs(%output : memref<1x2x1280xf32>)
  return
}
