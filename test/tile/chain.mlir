// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// A convolution that reads, or adds to, the result of another one.

// CHECK-LABEL: func.func @chain
// CHECK:         %[[FIRST:.+]] = bufferization.to_tensor %{{.+}} restrict writable
// CHECK:         bufferization.to_buffer %[[FIRST]] read_only
// CHECK:         %[[SECOND:.+]] = bufferization.to_tensor
// CHECK:         %[[OLD:.+]] = bufferization.to_buffer %[[SECOND]] read_only
// CHECK:         memref.copy %[[OLD]]
// CHECK-NOT:     linalg
func.func @chain(%a: tensor<1x8x8x16xf32>, %f: tensor<3x3x16x16xf32>, %g: tensor<1x1x16x16xf32>)
    -> tensor<1x4x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %big = tensor.empty() : tensor<1x6x6x16xf32>
  %small = tensor.empty() : tensor<1x4x4x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%big : tensor<1x6x6x16xf32>) -> tensor<1x6x6x16xf32>
  %x = linalg.conv_2d_nhwc_hwcf ins(%a, %f : tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>)
    outs(%zeros : tensor<1x6x6x16xf32>) -> tensor<1x6x6x16xf32>
  %more = linalg.fill ins(%zero : f32) outs(%small : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<1x6x6x16xf32>, tensor<3x3x16x16xf32>)
    outs(%more : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %z = linalg.conv_2d_nhwc_hwcf ins(%y, %g : tensor<1x4x4x16xf32>, tensor<1x1x16x16xf32>)
    outs(%y : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  return %z : tensor<1x4x4x16xf32>
}
