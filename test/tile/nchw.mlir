// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Lanes over output channels: panels of 32 channels, 14 pixels by 2 vectors of accumulators, and an
// output that is transposed in registers on its way to NCHW.

// CHECK-LABEL: func.func @conv
// CHECK-SAME:    %[[IN:.+]]: memref<1x64x58x58xf32>, %[[W:.+]]: memref<64x64x3x3xf32>, %[[OUT:.+]]: memref<1x64x56x56xf32>
// The fill is folded into the first write.
// CHECK-NOT:     linalg.fill
// Packing, per L2 tile of output channels.
// CHECK:         %[[PANELS:.+]] = memref.alloc() {{.*}} : memref<1x64x3x3x32xf32>
// CHECK:         affine.for %k_L2 = 0 to 64 step 32
// CHECK-NEXT:      memref.collapse_shape %[[W]]
// CHECK:           affine.for %flat = 0 to 576 step 16
// CHECK:             vector.shuffle
// CHECK:           affine.for %h_L2 = 0 to 56 step 28
// CHECK:             affine.for %h_L1 = {{.*}}(%h_L2) to {{.*}}(%h_L2) step 4
// CHECK:               affine.for %h = {{.*}}(%h_L1) to {{.*}}(%h_L1) {
// CHECK:                 affine.for %w = 0 to 56 step 14
// CHECK:                   affine.for %c{{.*}} = 0 to 64 iter_args
// CHECK:                     affine.for %r{{.*}} = 0 to 3 iter_args
// CHECK:                       affine.for %s{{.*}} = 0 to 3 iter_args
// CHECK-COUNT-2:                 affine.vector_load %[[PANELS]]{{.*}} vector<16xf32>
// CHECK:                         affine.load %[[IN]]
// CHECK-COUNT-28:                vector.outerproduct {{.*}} : vector<16xf32>, f32
// CHECK-NOT:                     vector.outerproduct
// CHECK:                   vector.shuffle
// CHECK:                   vector.maskedstore %[[OUT]]
// CHECK:         memref.dealloc %[[PANELS]]
func.func @conv(%input: memref<1x64x58x58xf32>, %weights: memref<64x64x3x3xf32>,
                %output: memref<1x64x56x56xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x64x56x56xf32>)
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 32, w = 14}, reduction = ["c", "r", "s"]},
      levels = [
        {name = "L2", order = ["k", "h", "w", "c", "r", "s"],
         tile = {k = 32, h = 28, w = 56, c = 64, r = 3, s = 3}},
        {name = "L1", order = ["k", "h", "w", "c", "r", "s"],
         tile = {k = 32, h = 4, w = 56, c = 64, r = 3, s = 3}}]}}
    ins(%input, %weights : memref<1x64x58x58xf32>, memref<64x64x3x3xf32>)
    outs(%output : memref<1x64x56x56xf32>)
  return
}
