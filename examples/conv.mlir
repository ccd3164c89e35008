// One layer of ResNet-18 in channels-last layouts: 64 channels of 56x56 pixels, 3x3 filters. The
// input is padded to 58x58 already.
func.func @conv(%input: memref<1x58x58x64xf32>, %weights: memref<3x3x64x64xf32>,
    %output: memref<1x56x56x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x56x56x64xf32>)
  linalg.conv_2d_nhwc_hwcf
      ins(%input, %weights : memref<1x58x58x64xf32>, memref<3x3x64x64xf32>)
      outs(%output : memref<1x56x56x64xf32>)
  return
}
