// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Where L1 tiles only step through the reduction of one register tile, the microkernel runs through
// all of them and the accumulators never leave the registers: no loop over c_L1, no load of %arg2.

// CHECK-LABEL: func.func @conv
// CHECK-NOT:     affine.for %c_L1
// CHECK:         affine.for %w_L1 = 0 to 12 step 6
// CHECK-NOT:     vector_load %arg2
// CHECK:           affine.for %c{{.*}} = 0 to 32 iter_args
// CHECK-COUNT-6:     vector.outerproduct
func.func @conv(%input: memref<1x1x12x32xf32>, %weights: memref<1x1x32x16xf32>,
                %output: memref<1x1x12x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x1x12x16xf32>)
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 6}, reduction = ["c"]},
      levels = [{name = "L1", order = ["w", "k", "c"], tile = {k = 16, w = 6, c = 8}}]}}
    ins(%input, %weights : memref<1x1x12x32xf32>, memref<1x1x32x16xf32>)
    outs(%output : memref<1x1x12x16xf32>)
  return
}
