// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Convolutions with the same problem and plan share one nest; another problem has its own.

// CHECK:       func.func private @convolution_0(%input: {{.+}}, %weights: {{.+}}, %fill: f32, %output:
// CHECK:         vector.outerproduct
// CHECK:       func.func @block
// CHECK:         call @convolution_0(%arg0, %arg1, %{{.+}}, %arg3)
// CHECK-NEXT:    call @convolution_0(%arg0, %arg2, %{{.+}}, %arg4)
// CHECK:         affine.for
func.func @block(%a: memref<1x6x6x4xf32>, %f: memref<16x3x3x4xf32>, %g: memref<16x3x3x4xf32>,
                 %x: memref<1x4x4x16xf32>, %y: memref<1x4x4x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%x : memref<1x4x4x16xf32>)
  linalg.conv_2d_nhwc_fhwc {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%a, %f : memref<1x6x6x4xf32>, memref<16x3x3x4xf32>) outs(%x : memref<1x4x4x16xf32>)
  linalg.fill ins(%zero : f32) outs(%y : memref<1x4x4x16xf32>)
  linalg.conv_2d_nhwc_fhwc {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%a, %g : memref<1x6x6x4xf32>, memref<16x3x3x4xf32>) outs(%y : memref<1x4x4x16xf32>)
  linalg.conv_2d_nhwc_fhwc {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["r", "s", "c"]}}}
    ins(%a, %g : memref<1x6x6x4xf32>, memref<16x3x3x4xf32>) outs(%y : memref<1x4x4x16xf32>)
  return
}
