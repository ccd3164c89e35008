// RUN: mopt-opt --mopt-tile="machine=znver5" %s 2>&1 | FileCheck %s

// What no plan can be made for stays as it is; MLIR itself would end the process where the strides
// of a type overflow.

// CHECK: too-large.mlir:[[#@LINE+3]]:3: remark: 'linalg.conv_2d_nchw_fchw' is not tiled: its loop over n has 200000000 iterations, and plans are made for at most 4194304; split it
func.func @long(%i: memref<200000000x1x8x8xf32>, %w: memref<8x1x3x3xf32>,
                %o: memref<200000000x8x6x6xf32>) {
  linalg.conv_2d_nchw_fchw
    ins(%i, %w : memref<200000000x1x8x8xf32>, memref<8x1x3x3xf32>)
    outs(%o : memref<200000000x8x6x6xf32>)
  return
}

// CHECK: too-large.mlir:[[#@LINE+4]]:3: remark: 'linalg.conv_2d_nhwc_hwcf' is not tiled: its operand type memref<4000000000x4098x4098x2048xf32> has more bytes than there are addresses
func.func @no_addresses(%i: memref<4000000000x4098x4098x2048xf32>,
                        %w: memref<3x3x2048x4096xf32>,
                        %o: memref<4000000000x4096x4096x4096xf32>) {
  linalg.conv_2d_nhwc_hwcf
    ins(%i, %w : memref<4000000000x4098x4098x2048xf32>, memref<3x3x2048x4096xf32>)
    outs(%o : memref<4000000000x4096x4096x4096xf32>)
  return
}

// CHECK: func.func @long
// CHECK: linalg.conv_2d_nchw_fchw
// CHECK: func.func @no_addresses
// CHECK: linalg.conv_2d_nhwc_hwcf
