// The convolution of conv.mlir with a plan written by hand, which mopt-tile takes as it is.
func.func @conv(%input: memref<1x58x58x64xf32>, %weights: memref<3x3x64x64xf32>,
    %output: memref<1x56x56x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x56x56x64xf32>)
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1,
      microkernel = {lanes = "k", vector = 16, tile = {w = 14, k = 32}, reduction = ["r", "s", "c"]},
      levels = [
        {name = "L2", order = ["k", "c", "r", "s", "h", "w"],
         tile = {k = 64, h = 56, w = 14, c = 64, r = 3, s = 3}},
        {name = "L1", order = ["k", "c", "r", "s", "w", "h"],
         tile = {k = 32, h = 1, w = 14, c = 32, r = 3, s = 3}}],
      parallel = {}, packing = "whole"}}
      ins(%input, %weights : memref<1x58x58x64xf32>, memref<3x3x64x64xf32>)
      outs(%output : memref<1x56x56x64xf32>)
  return
}
