// RUN: mopt-opt --linalg-generalize-named-ops --mopt-tile="machine=znver5" %s | FileCheck %s

// A generic that MLIR recognises as a convolution takes the same path as the named operation.

// CHECK-LABEL: func.func @conv
// CHECK-NOT:     linalg.generic
// CHECK:         affine.load %arg0[%n, %[[R:r.*]], %[[S:s.*]] * 2, %[[C:c.*]]]
// CHECK-NEXT:    vector.outerproduct
// CHECK-NEXT:    affine.load %arg0[%n, %[[R]], %[[S]] * 2 + 1, %[[C]]]
// CHECK:         affine.load %arg0[%n, %[[R]] + 3, %[[S]] * 2, %[[C]]]
// CHECK-NOT:     linalg.generic
func.func @conv(%a: memref<2x15x9x4xf32>, %f: memref<3x3x4x16xf32>, %x: memref<2x5x5x16xf32>) {
  linalg.conv_2d_nhwc_hwcf {dilations = dense<[1, 2]> : tensor<2xi64>,
                             strides = dense<[3, 1]> : tensor<2xi64>}
    ins(%a, %f : memref<2x15x9x4xf32>, memref<3x3x4x16xf32>) outs(%x : memref<2x5x5x16xf32>)
  return
}
