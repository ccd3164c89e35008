// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// A bias that was broadcast over the output is read by the microkernel instead; what else writes
// the output before the convolution is kept.

// CHECK-LABEL: func.func @broadcast
// CHECK-NOT:     linalg.broadcast
// CHECK:         affine.vector_load %arg3[0] : memref<16xf32>, vector<16xf32>
func.func @broadcast(%input: memref<1x3x6x6xf32>, %weights: memref<16x3x3x3xf32>,
                     %output: memref<1x16x4x4xf32>, %bias: memref<16xf32>) {
  linalg.broadcast ins(%bias : memref<16xf32>) outs(%output : memref<1x16x4x4xf32>)
    dimensions = [0, 2, 3]
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x6x6xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x4x4xf32>)
  return
}

// CHECK-LABEL: func.func @generic
// CHECK-NOT:     linalg.generic
// CHECK:         vector.maskedload %arg3[
#bias = affine_map<(n, h, w, k) -> (k)>
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
func.func @generic(%input: memref<1x6x34x1xf32>, %weights: memref<3x3x1x2xf32>,
                   %output: memref<1x4x32x2xf32, strided<[512, 128, 1, 64]>>,
                   %bias: memref<2xf32>) {
  linalg.generic {indexing_maps = [#bias, #all],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%bias : memref<2xf32>) outs(%output : memref<1x4x32x2xf32, strided<[512, 128, 1, 64]>>) {
  ^bb0(%b: f32, %old: f32):
    linalg.yield %b : f32
  }
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 4, tile = {k = 4, w = 4}, reduction = ["r", "s"]}}}
    ins(%input, %weights : memref<1x6x34x1xf32>, memref<3x3x1x2xf32>)
    outs(%output : memref<1x4x32x2xf32, strided<[512, 128, 1, 64]>>)
  return
}

// CHECK-LABEL: func.func @other_writer
// CHECK:         linalg.fill
// CHECK:         memref.store
// CHECK-NOT:     vector.broadcast
// CHECK:         vector.maskedload %arg2
func.func @other_writer(%input: memref<1x3x6x6xf32>, %weights: memref<16x3x3x3xf32>,
                        %output: memref<1x16x4x4xf32>, %index: index) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x16x4x4xf32>)
  memref.store %one, %output[%index, %index, %index, %index] : memref<1x16x4x4xf32>
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x6x6xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x4x4xf32>)
  return
}

// CHECK-LABEL: func.func @writer_in_a_region
// CHECK:         linalg.fill
// CHECK:         memref.alloca_scope
// CHECK-NOT:     vector.broadcast
// CHECK:         vector.maskedload %arg2
func.func @writer_in_a_region(%input: memref<1x3x7x6xf32>, %weights: memref<16x3x3x3xf32>,
                              %output: memref<1x16x5x4xf32>, %index: index) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x16x5x4xf32>)
  memref.alloca_scope {
    memref.store %one, %output[%index, %index, %index, %index] : memref<1x16x5x4xf32>
  }
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x7x6xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x5x4xf32>)
  return
}

// A vector that runs along the pixels is none of output channels.

// CHECK-LABEL: func.func @along_pixels
// CHECK:         linalg.broadcast
// CHECK:         vector.maskedload %arg2
func.func @along_pixels(%input: memref<1x3x6x18xf32>, %weights: memref<16x3x3x3xf32>,
                        %output: memref<1x16x4x16xf32>, %row: memref<16xf32>) {
  linalg.broadcast ins(%row : memref<16xf32>) outs(%output : memref<1x16x4x16xf32>)
    dimensions = [0, 1, 2]
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x6x18xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x4x16xf32>)
  return
}

// Where vectors run along the pixels, a scalar for each output channel of the register tile.

// CHECK-LABEL: func.func @lanes_over_pixels
// CHECK-NOT:     linalg.broadcast
// CHECK:         affine.for %[[K:k.*]] = 0 to 6 step 3
// CHECK:           %[[BIAS:.+]] = affine.load %arg3[%[[K]]] : memref<6xf32>
// CHECK-NEXT:      vector.broadcast %[[BIAS]] : f32 to vector<16xf32>
// CHECK:           %[[BIAS:.+]] = affine.load %arg3[%[[K]] + 1] : memref<6xf32>
// CHECK-NEXT:      vector.broadcast %[[BIAS]] : f32 to vector<16xf32>
// CHECK:           %[[BIAS:.+]] = affine.load %arg3[%[[K]] + 2] : memref<6xf32>
// CHECK-NEXT:      vector.broadcast %[[BIAS]] : f32 to vector<16xf32>
// CHECK-NOT:       affine.load %arg3
// CHECK:           vector.outerproduct
func.func @lanes_over_pixels(%input: memref<1x3x6x34xf32>, %weights: memref<6x3x3x3xf32>,
                             %output: memref<1x6x4x32xf32>, %bias: memref<6xf32>) {
  linalg.broadcast ins(%bias : memref<6xf32>) outs(%output : memref<1x6x4x32xf32>)
    dimensions = [0, 2, 3]
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 3, w = 32}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x6x34xf32>, memref<6x3x3x3xf32>)
    outs(%output : memref<1x6x4x32xf32>)
  return
}

// A scalar that was broadcast, as --linalg-generalize-named-ops leaves a fill, is read as well.

// CHECK-LABEL: func.func @generic_fill
// CHECK-NOT:     linalg.generic
// CHECK:         vector.broadcast %arg3 : f32 to vector<16xf32>
func.func @generic_fill(%input: memref<1x3x8x6xf32>, %weights: memref<16x3x3x3xf32>,
                        %output: memref<1x16x6x4xf32>, %value: f32) {
  linalg.generic {indexing_maps = [affine_map<(n, k, h, w) -> ()>,
                                   affine_map<(n, k, h, w) -> (n, k, h, w)>],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%value : f32) outs(%output : memref<1x16x6x4xf32>) {
  ^bb0(%v: f32, %old: f32):
    linalg.yield %v : f32
  }
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x8x6xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x6x4xf32>)
  return
}

// What the output holds may be a part of a variable, which the bias is read from, too, if it is the
// module that calls the function, and with that. A constant is not written to.

// CHECK-LABEL: func.func private @part_of_a_variable
// CHECK:         linalg.broadcast
// CHECK-LABEL: func.func private @apart_from_a_variable
// CHECK-NOT:     linalg.broadcast
// CHECK-LABEL: func.func @called_from_outside
// CHECK-NOT:     linalg.broadcast
// CHECK-LABEL: func.func private @constant
// CHECK-NOT:     linalg.broadcast
// CHECK-LABEL: func.func private @part_of_a_buffer
// CHECK:         linalg.broadcast
// CHECK-LABEL: func.func private @called_by_its_address
// CHECK:         linalg.broadcast
memref.global "private" @sums : memref<2x16xf32> = dense<1.0>
memref.global "private" @all : memref<1x4x16x16xf32> = dense<1.0>
memref.global "private" constant @biases : memref<2x16xf32> = dense<1.0>
func.func private @part_of_a_variable(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
    %output: memref<1x4x16x16xf32>) {
  %values = memref.get_global @all : memref<1x4x16x16xf32>
  %bias = memref.subview %values[0, 0, 0, 0] [1, 1, 1, 16] [1, 1, 1, 1]
    : memref<1x4x16x16xf32> to memref<16xf32>
  linalg.broadcast ins(%bias : memref<16xf32>)
    outs(%output : memref<1x4x16x16xf32>) dimensions = [0, 1, 2]
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x6x18x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x4x16x16xf32>)
  return
}
func.func private @apart_from_a_variable(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
    %output: memref<1x4x16x16xf32>) {
  %values = memref.get_global @sums : memref<2x16xf32>
  %bias = memref.subview %values[1, 0] [1, 16] [1, 1]
    : memref<2x16xf32> to memref<16xf32, strided<[1], offset: 16>>
  linalg.broadcast ins(%bias : memref<16xf32, strided<[1], offset: 16>>)
    outs(%output : memref<1x4x16x16xf32>) dimensions = [0, 1, 2]
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x6x18x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x4x16x16xf32>)
  return
}
func.func @called_from_outside(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
    %output: memref<1x4x16x16xf32>) {
  %values = memref.get_global @sums : memref<2x16xf32>
  %bias = memref.subview %values[1, 0] [1, 16] [1, 1]
    : memref<2x16xf32> to memref<16xf32, strided<[1], offset: 16>>
  linalg.broadcast ins(%bias : memref<16xf32, strided<[1], offset: 16>>)
    outs(%output : memref<1x4x16x16xf32>) dimensions = [0, 1, 2]
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x6x18x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x4x16x16xf32>)
  return
}
func.func private @constant(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
    %output: memref<1x4x16x16xf32>) {
  %values = memref.get_global @biases : memref<2x16xf32>
  %bias = memref.subview %values[1, 0] [1, 16] [1, 1]
    : memref<2x16xf32> to memref<16xf32, strided<[1], offset: 16>>
  linalg.broadcast ins(%bias : memref<16xf32, strided<[1], offset: 16>>)
    outs(%output : memref<1x4x16x16xf32>) dimensions = [0, 1, 2]
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x6x18x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x4x16x16xf32>)
  return
}
func.func private @part_of_a_buffer(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
    %output: memref<1x4x16x16xf32>, %bias: memref<16xf32>) {
  linalg.broadcast ins(%bias : memref<16xf32>)
    outs(%output : memref<1x4x16x16xf32>) dimensions = [0, 1, 2]
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x6x18x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x4x16x16xf32>)
  return
}
func.func private @called_by_its_address(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
    %output: memref<1x4x16x16xf32>) {
  %values = memref.get_global @sums : memref<2x16xf32>
  %bias = memref.subview %values[1, 0] [1, 16] [1, 1]
    : memref<2x16xf32> to memref<16xf32, strided<[1], offset: 16>>
  linalg.broadcast ins(%bias : memref<16xf32, strided<[1], offset: 16>>)
    outs(%output : memref<1x4x16x16xf32>) dimensions = [0, 1, 2]
  linalg.conv_2d_nhwc_hwcf
    ins(%input, %weights : memref<1x6x18x3xf32>, memref<3x3x3x16xf32>)
    outs(%output : memref<1x4x16x16xf32>)
  return
}
func.func @caller(%input: memref<1x6x18x3xf32>, %weights: memref<3x3x3x16xf32>,
                  %output: memref<1x4x16x16xf32>) {
  %bias = memref.subview %output[0, 0, 0, 0] [1, 1, 1, 16] [1, 1, 1, 1]
    : memref<1x4x16x16xf32> to memref<16xf32>
  call @part_of_a_buffer(%input, %weights, %output, %bias)
    : (memref<1x6x18x3xf32>, memref<3x3x3x16xf32>, memref<1x4x16x16xf32>, memref<16xf32>) -> ()
  %all = memref.get_global @all : memref<1x4x16x16xf32>
  call @part_of_a_variable(%input, %weights, %all)
    : (memref<1x6x18x3xf32>, memref<3x3x3x16xf32>, memref<1x4x16x16xf32>) -> ()
  call @apart_from_a_variable(%input, %weights, %output)
    : (memref<1x6x18x3xf32>, memref<3x3x3x16xf32>, memref<1x4x16x16xf32>) -> ()
  call @constant(%input, %weights, %output)
    : (memref<1x6x18x3xf32>, memref<3x3x3x16xf32>, memref<1x4x16x16xf32>) -> ()
  %address = func.constant @called_by_its_address
    : (memref<1x6x18x3xf32>, memref<3x3x3x16xf32>, memref<1x4x16x16xf32>) -> ()
  call_indirect %address(%input, %weights, %output)
    : (memref<1x6x18x3xf32>, memref<3x3x3x16xf32>, memref<1x4x16x16xf32>) -> ()
  return
}
