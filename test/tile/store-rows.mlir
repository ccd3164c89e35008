// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// A register tile of two whole rows of seven pixels: they follow each other in memory, so that each
// output channel is one store of fourteen pixels.

// CHECK-LABEL: func.func @whole_rows
// CHECK:         %[[MASK:.+]] = vector.constant_mask [14] : vector<16xi1>
// CHECK:         vector.outerproduct
// CHECK:         %[[ROWS:.+]] = memref.collapse_shape %arg2 {{\[\[}}0], [1], [2, 3]] : memref<1x16x4x7xf32> into memref<1x16x28xf32>
// CHECK-NOT:     memref.collapse_shape
// CHECK:         vector.maskedstore %[[ROWS]][%{{.+}}], %[[MASK]]
// CHECK-NOT:     vector.maskedstore %arg2
func.func @whole_rows(%input: memref<1x8x6x9xf32>, %weights: memref<16x8x3x3xf32>,
                      %output: memref<1x16x4x7xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, h = 2, w = 7},
                     reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x8x6x9xf32>, memref<16x8x3x3xf32>)
    outs(%output : memref<1x16x4x7xf32>)
  return
}

// Rows of a strided output have gaps between them: a store each.

// CHECK-LABEL: func.func @rows_apart
// CHECK:         %[[SEVEN:.+]] = vector.constant_mask [7] : vector<16xi1>
// CHECK:         vector.maskedstore %arg2[%{{.+}}], %[[SEVEN]]
func.func @rows_apart(%input: memref<1x8x6x9xf32>, %weights: memref<16x8x3x3xf32>,
                      %output: memref<1x16x4x7xf32, strided<[512, 32, 8, 1]>>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, h = 2, w = 7},
                     reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x8x6x9xf32>, memref<16x8x3x3xf32>)
    outs(%output : memref<1x16x4x7xf32, strided<[512, 32, 8, 1]>>)
  return
}

// Vectors of 256 bits are stored in parts of powers of two, as AVX has no fast masked stores.

// CHECK-LABEL: func.func @in_parts
// CHECK-NOT:     vector.maskedstore
// CHECK:         %[[FOUR:.+]] = vector.extract_strided_slice %[[ROW:.+]] {offsets = [0], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
// CHECK:         affine.vector_store %[[FOUR]], %arg2[{{.*}}] : {{.*}}, vector<4xf32>
// CHECK:         %[[TWO:.+]] = vector.extract_strided_slice %[[ROW]] {offsets = [4], sizes = [2], strides = [1]} : vector<8xf32> to vector<2xf32>
// CHECK:         affine.vector_store %[[TWO]], %arg2[{{.*}}, 4] : {{.*}}, vector<2xf32>
// CHECK:         %[[ONE:.+]] = vector.extract %[[ROW]][6] : f32 from vector<8xf32>
// CHECK:         affine.store %[[ONE]], %arg2[{{.*}}, 6]
// CHECK-NOT:     vector.maskedstore
func.func @in_parts(%input: memref<1x8x6x9xf32>, %weights: memref<16x8x3x3xf32>,
                    %output: memref<1x16x4x7xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "haswell", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, h = 1, w = 7},
                     reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x8x6x9xf32>, memref<16x8x3x3xf32>)
    outs(%output : memref<1x16x4x7xf32>)
  return
}
