// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Axes of dense pixels become one, in a type that keeps strides if the operand's has them, even
// those of a dense buffer. The stride of an axis with one element is none of a group's.

// CHECK-LABEL: func.func @dense
// CHECK:         memref.collapse_shape %arg0 {{\[\[}}0], [1, 2], [3]] : memref<1x8x8x4xf32, strided<[256, 32, 4, 1]>> into memref<1x64x4xf32, strided<[256, 4, 1]>>
// CHECK:         memref.collapse_shape %arg2 {{\[\[}}0], [1, 2], [3]] : memref<1x8x8x8xf32> into memref<1x64x8xf32>
func.func @dense(%input: memref<1x8x8x4xf32, strided<[256, 32, 4, 1]>>,
                 %weights: memref<1x1x4x8xf32>, %output: memref<1x8x8x8xf32>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 4}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x8x8x4xf32, strided<[256, 32, 4, 1]>>, memref<1x1x4x8xf32>)
    outs(%output : memref<1x8x8x8xf32>)
  return
}

// CHECK-LABEL: func.func @single
// CHECK:         memref.collapse_shape %arg1 {{\[\[}}0, 1], [2, 3]] : memref<32x1x3x3xf32, strided<[36, 9, 3, 1]>> into memref<32x9xf32, strided<[36, 1]>>
func.func @single(%input: memref<1x1x10x10xf32>,
                  %weights: memref<32x1x3x3xf32, strided<[36, 9, 3, 1]>>,
                  %output: memref<1x32x8x8xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 4}, reduction = ["r", "s"]}}}
    ins(%input, %weights : memref<1x1x10x10xf32>, memref<32x1x3x3xf32, strided<[36, 9, 3, 1]>>)
    outs(%output : memref<1x32x8x8xf32>)
  return
}
