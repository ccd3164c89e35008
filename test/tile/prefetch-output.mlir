// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

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
