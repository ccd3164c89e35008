// RUN: mopt-opt --mopt-analyze="machine=znver5" %s | FileCheck %s

// The operation stays and gets a plan, with what the model predicts of it.

// CHECK-LABEL: func.func @conv
// CHECK:         linalg.conv_2d_nchw_fchw
// CHECK-SAME:      mopt.plan = {levels = [{name = "L3"
// CHECK-SAME:      machine = "znver5"
// CHECK-SAME:      microkernel = {lanes = "{{[a-z]}}", reduction = [
// CHECK-SAME:      packing = "
// CHECK-SAME:      prediction = {bottleneck = "
// CHECK-SAME:      cost = {{[0-9.eE-]+}} : f64
// CHECK-SAME:      gap = {{[0-9.eE-]+}} : f64
// CHECK-SAME:      lower_bound = {{[0-9.eE-]+}} : f64
// CHECK-SAME:      volumes = {DRAM = {input =
// CHECK-SAME:      threads = 1
func.func @conv(%input: memref<1x64x58x58xf32>, %weights: memref<64x64x3x3xf32>,
                %output: memref<1x64x56x56xf32>) {
  linalg.conv_2d_nchw_fchw
    ins(%input, %weights : memref<1x64x58x58xf32>, memref<64x64x3x3xf32>)
    outs(%output : memref<1x64x56x56xf32>)
  return
}
