// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// A dense 1x1 convolution of stride 1 in NCHW: rows of pixels become one dim, vectors run over
// pixels, weights are broadcast from where they are, nothing is packed or transposed.

// CHECK-LABEL: func.func @pointwise
// CHECK-SAME:    %[[IN:.+]]: memref<1x24x10x8xf32>, %[[W:.+]]: memref<6x24x1x1xf32>, %[[OUT:.+]]: memref<1x6x10x8xf32>
// CHECK:         %[[V:.+]] = memref.collapse_shape %[[W]] {{\[\[}}0], [1, 2, 3]]
// CHECK:         %[[X:.+]] = memref.collapse_shape %[[IN]] {{\[\[}}0], [1], [2, 3]]
// CHECK:         %[[Y:.+]] = memref.collapse_shape %[[OUT]]
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     vector.shuffle
// CHECK:         affine.for %w = 0 to 80 step 16
// CHECK:           affine.for %c{{.*}} = 0 to 24 iter_args
// CHECK:             affine.vector_load %[[X]][0, %{{.+}}, %w]
// CHECK:             affine.load %[[V]]
// CHECK-COUNT-6:     vector.outerproduct
// CHECK:           affine.vector_load %[[Y]]
// CHECK:           arith.addf
// CHECK:           affine.vector_store {{.*}} %[[Y]]
func.func @pointwise(%input: memref<1x24x10x8xf32>, %weights: memref<6x24x1x1xf32>,
                     %output: memref<1x6x10x8xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 16, tile = {k = 6, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x24x10x8xf32>, memref<6x24x1x1xf32>)
    outs(%output : memref<1x6x10x8xf32>)
  return
}
