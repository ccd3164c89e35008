// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// On tensors the nest writes a new buffer; only old contents that count are copied into it.

// CHECK-LABEL: func.func @filled
// CHECK-NOT:     linalg.fill
// CHECK:         %[[RESULT:.+]] = memref.alloc()
// CHECK-NOT:     memref.copy
// CHECK:         vector.outerproduct
// CHECK:         %[[T:.+]] = bufferization.to_tensor %[[RESULT]] restrict writable
// CHECK:         return %[[T]]
func.func @filled(%input: tensor<1x6x6x4xf32>, %weights: tensor<16x3x3x4xf32>)
    -> tensor<1x4x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x4x4x16xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %result = linalg.conv_2d_nhwc_fhwc {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : tensor<1x6x6x4xf32>, tensor<16x3x3x4xf32>)
    outs(%filled : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  return %result : tensor<1x4x4x16xf32>
}

// CHECK-LABEL: func.func @accumulated
// CHECK:         %[[OLD:.+]] = bufferization.to_buffer %arg2 read_only
// CHECK:         memref.copy %[[OLD]], %[[RESULT:.+]] :
// CHECK:         bufferization.to_tensor %[[RESULT]] restrict writable
func.func @accumulated(%input: tensor<1x6x6x4xf32>, %weights: tensor<16x3x3x4xf32>,
                       %old: tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> {
  %result = linalg.conv_2d_nhwc_fhwc {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%input, %weights : tensor<1x6x6x4xf32>, tensor<16x3x3x4xf32>)
    outs(%old : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  return %result : tensor<1x4x4x16xf32>
}
