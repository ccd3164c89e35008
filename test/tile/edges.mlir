// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// 9 output channels and 7 pixels in register tiles of 8 and 4: four specialised microkernels, and
// masks where lanes are missing; nothing is read or written outside the operands.

// CHECK-LABEL: func.func @conv
// CHECK:         affine.for %k = 0 to 9 step 8
// CHECK:           affine.for %w = 0 to 7 step 4
// CHECK:             affine.if {{.*}}(%k)
// CHECK:               affine.if {{.*}}(%w)
// CHECK-COUNT-4:         vector.outerproduct
// CHECK-NOT:             vector.outerproduct
// CHECK:               else
// CHECK-COUNT-3:         vector.outerproduct
// CHECK-NOT:             vector.outerproduct
// CHECK:             else
// CHECK:               affine.if {{.*}}(%w)
// CHECK-COUNT-4:         vector.outerproduct
// CHECK-NOT:             vector.outerproduct
// CHECK:               else
// CHECK-COUNT-3:         vector.outerproduct
// CHECK-NOT:             vector.outerproduct
// CHECK:                 vector.maskedload %arg2
// CHECK:                 vector.maskedstore %arg2
func.func @conv(%input: memref<1x1x9x2xf64>, %weights: memref<1x3x2x9xf64>,
                %output: memref<1x1x7x9xf64>) {
  linalg.conv_2d_nhwc_hwcf {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 4}, reduction = ["s", "c"]}}}
    ins(%input, %weights : memref<1x1x9x2xf64>, memref<1x3x2x9xf64>)
    outs(%output : memref<1x1x7x9xf64>)
  return
}
