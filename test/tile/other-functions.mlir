// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// A result leaves a region in a function of another dialect than func, where somebody writes to it
// in front of a convolution that reads it.

// CHECK-LABEL: ml_program.func @leaves_a_region
// CHECK: scf.execute_region
// CHECK: bufferization.to_tensor %{{.*}} restrict : memref<1x4x4x8xf32>
ml_program.func @leaves_a_region(%x: tensor<1x6x6x8xf32>, %w: tensor<3x3x8x8xf32>,
    %e: tensor<1x4x4x8xf32>, %e2: tensor<1x2x2x8xf32>, %v: f32)
    -> (tensor<1x2x2x8xf32>, tensor<1x4x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %a = scf.execute_region -> tensor<1x4x4x8xf32> {
    %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x6x6x8xf32>, tensor<3x3x8x8xf32>)
      outs(%e : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
    scf.yield %r : tensor<1x4x4x8xf32>
  }
  %y = tensor.insert %v into %a[%c0, %c0, %c0, %c0] : tensor<1x4x4x8xf32>
  %b = linalg.conv_2d_nhwc_hwcf ins(%a, %w : tensor<1x4x4x8xf32>, tensor<3x3x8x8xf32>)
    outs(%e2 : tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  ml_program.return %b, %y : tensor<1x2x2x8xf32>, tensor<1x4x4x8xf32>
}

// Nobody does: it may be written to.

// CHECK-LABEL: ml_program.func @is_read_only
// CHECK: bufferization.to_tensor %{{.*}} restrict writable : memref<1x4x4x8xf32>
ml_program.func @is_read_only(%x: tensor<1x6x6x8xf32>, %w: tensor<3x3x8x8xf32>,
    %e: tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32> {
  %a = scf.execute_region -> tensor<1x4x4x8xf32> {
    %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x6x6x8xf32>, tensor<3x3x8x8xf32>)
      outs(%e : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
    scf.yield %r : tensor<1x4x4x8xf32>
  }
  ml_program.return %a : tensor<1x4x4x8xf32>
}
