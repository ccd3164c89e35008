// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Constant weights are packed now; the plain ones go where nothing else uses them. Output channel 2
// of 3 is the last lane of four.

// CHECK:       memref.global "private" constant @packed_weights_1 : memref<1x2x4xf32> = dense_resource<packed_weights_1>
// CHECK:       memref.global "private" constant @packed_weights_0 : memref<1x2x4xf32> = dense_resource<packed_weights_0>

// CHECK-LABEL: func.func @global
// CHECK-NOT:     @plain
// CHECK:         memref.get_global @packed_weights_0
// CHECK-NOT:     memref.alloc
memref.global "private" constant @plain : memref<3x1x1x2xf32> =
  dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]], [[[5.0, 6.0]]]]>
func.func @global(%input: memref<1x1x1x5xf32>, %output: memref<1x3x1x4xf32>) {
  %weights = memref.get_global @plain : memref<3x1x1x2xf32>
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 4, w = 2}, reduction = ["s"]}}}
    ins(%input, %weights : memref<1x1x1x5xf32>, memref<3x1x1x2xf32>)
    outs(%output : memref<1x3x1x4xf32>)
  return
}

// CHECK-LABEL: func.func @tensor
// CHECK-NOT:     arith.constant dense_resource
// CHECK:         memref.get_global @packed_weights_1
func.func @tensor(%input: tensor<1x1x1x5xf32>, %output: tensor<1x3x1x4xf32>) -> tensor<1x3x1x4xf32> {
  %weights = arith.constant dense_resource<weights> : tensor<3x1x1x2xf32>
  %result = linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 4, w = 2}, reduction = ["s"]}}}
    ins(%input, %weights : tensor<1x1x1x5xf32>, tensor<3x1x1x2xf32>)
    outs(%output : tensor<1x3x1x4xf32>) -> tensor<1x3x1x4xf32>
  return %result : tensor<1x3x1x4xf32>
}

// A buffer that may be written holds what was written.
// CHECK-LABEL: func.func @written
// CHECK-NOT:     @packed_weights
// CHECK:       func.func @read_only
// CHECK:         memref.get_global @packed_weights_2
func.func @written(%x: f32, %input: memref<1x1x1x5xf32>, %output: memref<1x3x1x4xf32>) {
  %plain = arith.constant dense<1.0> : tensor<3x1x1x2xf32>
  %weights = bufferization.to_buffer %plain : tensor<3x1x1x2xf32> to memref<3x1x1x2xf32>
  %zero = arith.constant 0 : index
  memref.store %x, %weights[%zero, %zero, %zero, %zero] : memref<3x1x1x2xf32>
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 4, w = 2}, reduction = ["s"]}}}
    ins(%input, %weights : memref<1x1x1x5xf32>, memref<3x1x1x2xf32>)
    outs(%output : memref<1x3x1x4xf32>)
  return
}
func.func @read_only(%input: memref<1x1x1x5xf32>, %output: memref<1x3x1x4xf32>) {
  %plain = arith.constant dense<1.0> : tensor<3x1x1x2xf32>
  %weights = bufferization.to_buffer %plain read_only
    : tensor<3x1x1x2xf32> to memref<3x1x1x2xf32>
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 4, w = 2}, reduction = ["s"]}}}
    ins(%input, %weights : memref<1x1x1x5xf32>, memref<3x1x1x2xf32>)
    outs(%output : memref<1x3x1x4xf32>)
  return
}

// What lies between goes with them.
// CHECK-LABEL: func.func @cast
// CHECK-NOT:     @behind_a_cast
// CHECK-NOT:     memref.cast
// CHECK:         memref.get_global @packed_weights
// CHECK:         return
memref.global "private" constant @behind_a_cast : memref<3x1x1x2xf32> = dense<2.0>
func.func @cast(%input: memref<1x1x1x5xf32>, %output: memref<1x3x1x4xf32>) {
  %dense = memref.get_global @behind_a_cast : memref<3x1x1x2xf32>
  %weights = memref.cast %dense
    : memref<3x1x1x2xf32> to memref<3x1x1x2xf32, strided<[2, 2, 2, 1]>>
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 4, w = 2}, reduction = ["s"]}}}
    ins(%input, %weights : memref<1x1x1x5xf32>, memref<3x1x1x2xf32, strided<[2, 2, 2, 1]>>)
    outs(%output : memref<1x3x1x4xf32>)
  return
}

// Taps innermost but one: all first taps (1, 3, 5, 0), then all second ones (2, 4, 6 or 7, 0).
// CHECK-DAG:   packed_weights_0: "0x40000000{{0000803F000040400000A0400000000000000040000080400000C04000000000}}"
// CHECK-DAG:   packed_weights_1: "0x40000000{{0000803F000040400000A0400000000000000040000080400000E04000000000}}"
{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F0000004000004040000080400000A0400000E040"
    }
  }
#-}
