// RUN: mopt-opt --mopt-tile="machine=znver5 threads=4" %s | FileCheck %s

// The outermost tile is split between cores over output channels and rows; a block of weights that
// is packed per L2 tile belongs to one core, so its panels are allocated inside.

// CHECK-LABEL: func.func @conv
// CHECK:         affine.parallel (%k_core, %h_core) = (0, 0) to (64, 12) step (32, 6)
// CHECK:           %[[PANELS:.+]] = memref.alloc() {{.*}} : memref<1x8x3x3x32xf32>
// CHECK:           affine.for %c_L2 = 0 to 16 step 8
// CHECK:             affine.for %h = {{.*}}(%h_core) to {{.*}}(%h_core)
// CHECK:               vector.outerproduct
// CHECK:           memref.dealloc %[[PANELS]]
func.func @conv(%input: memref<1x16x14x14xf32>, %weights: memref<64x16x3x3xf32>,
                %output: memref<1x64x12x12xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 4, packing = "L2", parallel = {k = 2, h = 2},
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 12}, reduction = ["c", "r", "s"]},
      levels = [
        {name = "L3", order = ["k", "h", "w", "c", "r", "s"],
         tile = {k = 64, h = 12, w = 12, c = 16, r = 3, s = 3}},
        {name = "L2", order = ["k", "h", "w", "c", "r", "s"],
         tile = {k = 32, h = 6, w = 12, c = 8, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x14x14xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x12x12xf32>)
  return
}

// All cores together pack what they share.

// CHECK-LABEL: func.func @shared_panels
// CHECK:         memref.alloc() {{.*}} : memref<8x16x3x3x16xf32>
// CHECK:         affine.parallel (%[[FIRST:.+]]) = (0) to (8) step (2)
// CHECK-NEXT:      affine.for %panel = {{.*}}(%[[FIRST]]) to min {{.*}}(%[[FIRST]])
// CHECK:         affine.parallel (%h_core) = (0) to (12) step (3)
// CHECK:           vector.outerproduct
func.func @shared_panels(%input: memref<1x16x14x14xf32>, %weights: memref<128x16x3x3xf32>,
                         %output: memref<1x128x12x12xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 4, packing = "whole", parallel = {h = 4}, levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 12}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x16x14x14xf32>, memref<128x16x3x3xf32>)
    outs(%output : memref<1x128x12x12xf32>)
  return
}

// Of two dims, only one is of tiles that do not divide it: the share of a core ends with the tile, or
// with the dim.

// CHECK-LABEL: func.func @partial_tile
// CHECK:         affine.for %h_L3 = 0 to 12 step 8
// CHECK:           affine.parallel (%k_core, %h_core) = (0, %h_L3) to (64, min(%h_L3 + 8, 12)) step (32, 4)
// CHECK:             affine.for %h = {{.*}}(%h_core) to {{.*}}(%h_core)
// CHECK:               vector.outerproduct
func.func @partial_tile(%input: memref<1x16x14x14xf32>, %weights: memref<64x16x3x3xf32>,
                        %output: memref<1x64x12x12xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 4, packing = "whole", parallel = {k = 2, h = 2},
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 12}, reduction = ["c", "r", "s"]},
      levels = [
        {name = "L3", order = ["k", "h", "w", "c", "r", "s"],
         tile = {k = 64, h = 8, w = 12, c = 16, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x16x14x14xf32>, memref<64x16x3x3xf32>)
    outs(%output : memref<1x64x12x12xf32>)
  return
}
