// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Loops come level by level in the plan's order; a loop that would run once is left out; a tile that
// does not divide the next outer one is cut short by a minimum; accumulators that leave the
// registers between tiles of a reduction dim start from the fill the first time, and are added to
// the output every other time.

// CHECK-LABEL: func.func @conv
// CHECK:         affine.for %c_L3 = 0 to 40 step 20
// CHECK-NOT:     affine.for %k_L3
// CHECK:         affine.for %w_L3 = 0 to 30 step 20
// CHECK:           affine.for %w_L1 = {{.*}}(%w_L3) to min {{.*}}(%w_L3) step 10
// CHECK-NEXT:        affine.for %c_L1 = {{.*}}(%c_L3) to {{.*}}(%c_L3) step 8
// CHECK:               affine.if {{.*}}(%c_L1)
// CHECK:                 vector.broadcast
// CHECK:               else
// CHECK-NEXT:            affine.yield %zeros, %zeros, %zeros, %zeros, %zeros
// CHECK-NOT:           load %arg2
// CHECK:               %c:5 = affine.for %c_0 = {{.*}}(%c_L1) to min {{.*}} iter_args
// CHECK:                 vector.outerproduct
// CHECK:               affine.if {{.*}}(%c_L1)
// CHECK:                 affine.vector_store %c#4, %arg2
// CHECK:               else
// CHECK-NEXT:            %[[THERE:.+]] = affine.vector_load %arg2[0, 0, %w, 0]
// CHECK-NEXT:            %[[SUM:.+]] = arith.addf %c#0, %[[THERE]]
// CHECK-NEXT:            affine.vector_store %[[SUM]], %arg2[0, 0, %w, 0]
func.func @conv(%input: memref<1x1x30x40xf32>, %weights: memref<1x1x40x16xf32>,
                %output: memref<1x1x30x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x1x30x16xf32>)
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 5}, reduction = ["c"]},
      levels = [
        {name = "L3", order = ["c", "k", "w"], tile = {k = 16, w = 20, c = 20}},
        {name = "L1", order = ["w", "c", "k"], tile = {k = 16, w = 10, c = 8}}]}}
    ins(%input, %weights : memref<1x1x30x40xf32>, memref<1x1x40x16xf32>)
    outs(%output : memref<1x1x30x16xf32>)
  return
}
