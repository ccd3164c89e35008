// RUN: mopt-opt --mopt-analyze="machine=haswell" %s | mopt-opt --mopt-tile="machine=znver5" - \
// RUN:   | FileCheck %s
// RUN: mopt-opt --pass-pipeline='builtin.module(mopt-analyze{machine=haswell},mopt-tile{machine=znver5})' %s \
// RUN:   | FileCheck %s

// A plan that is attached counts, whatever machine the later pass names: vectors of 8, not 16.

// CHECK: vector.outerproduct {{.*}} : vector<8xf32>, f32
// CHECK-NOT: vector<16xf32>
func.func @conv(%input: memref<1x34x34x64xf32>, %weights: memref<64x3x3x64xf32>,
                %output: memref<1x32x32x64xf32>) {
  linalg.conv_2d_nhwc_fhwc
    ins(%input, %weights : memref<1x34x34x64xf32>, memref<64x3x3x64xf32>)
    outs(%output : memref<1x32x32x64xf32>)
  return
}
