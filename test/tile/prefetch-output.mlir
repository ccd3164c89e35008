// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// The lines that a register tile will write, a row for each output channel, are asked for in front
// of its reduction.

// CHECK-LABEL: func.func @conv
// CHECK:         affine.for %h = 0 to 14
// CHECK:           affine.prefetch %arg2[0, 0, %h, 13], write
// CHECK-COUNT-14:  affine.prefetch %arg2{{.*}}, write
// CHECK:           affine.prefetch %arg2[0, 15, %h, 13], write
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           affine.for %c
// CHECK:             vector.outerproduct
// CHECK-NOT:       affine.prefetch %arg2
// CHECK:           vector.maskedstore %arg2
func.func @conv(%input: memref<1x4x16x16xf32>, %weights: memref<16x4x3x3xf32>,
                %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x4x16x16xf32>, memref<16x4x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// Too few outer products come before the stores for it to be of use.

// CHECK-LABEL: func.func @short_reduction
// CHECK-NOT:     affine.prefetch %arg2
// CHECK:         return
func.func @short_reduction(%input: memref<1x4x14x14xf32>, %weights: memref<16x4x1x1xf32>,
                           %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x4x14x14xf32>, memref<16x4x1x1xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}
