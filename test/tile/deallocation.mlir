// RUN: mopt-opt --mopt-tile="machine=znver5" --one-shot-bufferize="bufferize-function-boundaries \
// RUN:   function-boundary-type-conversion=identity-layout-map allow-return-allocs-from-loops" \
// RUN:   --lower-affine --ownership-based-buffer-deallocation %s | FileCheck %s

// MLIR can free what tiling on tensors allocates, once affine.prefetch is lowered.

// CHECK-LABEL: func.func @freed
// CHECK:         %[[RESULT:.+]] = memref.alloc() {alignment = 64 : i64} : memref<1x10x10x20xf32>
// CHECK-NOT:     memref.alloc
// CHECK:         memref.prefetch %[[RESULT]]
// CHECK:         bufferization.dealloc ({{.+}}) if (%false{{.*}}, %false{{.*}}, %false{{.*}}, %{{.+}}) retain (%[[RESULT]] :
// CHECK-NEXT:    return %[[RESULT]]
func.func @freed(%i: tensor<1x12x12x4xf32>, %w: tensor<3x3x4x20xf32>,
                 %o: tensor<1x10x10x20xf32>) -> tensor<1x10x10x20xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf
      ins(%i, %w : tensor<1x12x12x4xf32>, tensor<3x3x4x20xf32>)
      outs(%o : tensor<1x10x10x20xf32>) -> tensor<1x10x10x20xf32>
  return %0 : tensor<1x10x10x20xf32>
}

// Memory for panels is allocated and freed by hand, which deallocation leaves as it is.

// CHECK-LABEL: func.func @packed
// CHECK:         %[[PANELS:.+]] = memref.alloc() {alignment = 64 : i64, bufferization.manual_deallocation, mopt.scratch}
// CHECK:         memref.dealloc %[[PANELS]] {bufferization.manual_deallocation}
// CHECK-NOT:     memref.dealloc %[[PANELS]]
func.func @packed(%i: tensor<1x4x12x12xf32>, %w: tensor<20x4x3x3xf32>,
                  %o: tensor<1x20x10x10xf32>) -> tensor<1x20x10x10xf32> {
  %0 = linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 10}, reduction = ["c", "r", "s"]}}}
      ins(%i, %w : tensor<1x4x12x12xf32>, tensor<20x4x3x3xf32>)
      outs(%o : tensor<1x20x10x10xf32>) -> tensor<1x20x10x10xf32>
  return %0 : tensor<1x20x10x10xf32>
}
