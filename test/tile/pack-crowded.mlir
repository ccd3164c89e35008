// RUN: mopt-opt --mopt-tile="machine=znver4" %s --split-input-file | FileCheck %s

// Rows of weights 4 KiB apart fall on one set of L1, which has no room for the 24 of a panel. So the
// panel is filled eight rows at a time, and in stretches, so that it stays in L1 until it is full.

// CHECK-LABEL: func.func @crowded
// CHECK:         affine.for %stretch = #{{.+}}(%c_L2) to #{{.+}}(%c_L2) step 128 {
// CHECK-NEXT:      affine.for %[[FLAT:flat.*]] = #{{.+}}(%stretch) to #{{.+}}(%stretch) step 8 {
// CHECK-NOT:         vector_load %rows[%k_L2 + 8, 
// CHECK:             vector_store %{{.+}}, %panels[0, %[[FLAT]] - %c_L2 + 7, 0]
// CHECK-NEXT:      }
// CHECK-NEXT:      affine.for %[[FLAT:flat.*]] = #{{.+}}(%stretch) to #{{.+}}(%stretch) step 8 {
// CHECK:             vector_store %{{.+}}, %panels[0, %[[FLAT]] - %c_L2 + 7, 8]
// CHECK-NEXT:      }
// CHECK-NEXT:      affine.for %[[FLAT:flat.*]] = #{{.+}}(%stretch) to #{{.+}}(%stretch) step 8 {
// CHECK:             vector_store %{{.+}}, %panels[0, %[[FLAT]] - %c_L2 + 7, 16]
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @crowded(%input: memref<1x1024x4x6xf32>, %weights: memref<48x1024x1x1xf32>,
                   %output: memref<1x48x4x6xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 8, tile = {k = 24, w = 3}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"],
                 tile = {k = 24, w = 24, c = 512}}]}}
    ins(%input, %weights : memref<1x1024x4x6xf32>, memref<48x1024x1x1xf32>)
    outs(%output : memref<1x48x4x6xf32>)
  return
}

// -----

// Rows 2 KiB apart fall on two sets, which hold the 16 of this panel: it is filled step by step.

// CHECK-LABEL: func.func @roomy
// CHECK-NOT:     %stretch
// CHECK:         affine.for %[[FLAT:flat.*]] = #{{.+}}(%c_L2) to #{{.+}}(%c_L2) step 8 {
// CHECK:           vector_store %{{.+}}, %panels[0, %[[FLAT]] - %c_L2 + 7, 0]
// CHECK-NOT:       affine.for
// CHECK:           vector_store %{{.+}}, %panels[0, %[[FLAT]] - %c_L2 + 7, 8]
// CHECK-NEXT:    }
func.func @roomy(%input: memref<1x512x4x6xf32>, %weights: memref<32x512x1x1xf32>,
                 %output: memref<1x32x4x6xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver4", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 8, tile = {k = 16, w = 3}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"],
                 tile = {k = 16, w = 24, c = 256}}]}}
    ins(%input, %weights : memref<1x512x4x6xf32>, memref<32x512x1x1xf32>)
    outs(%output : memref<1x32x4x6xf32>)
  return
}
