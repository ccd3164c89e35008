// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// Symbols go to, and are looked for in, the module around the operation. What two convolutions pack
// alike is there once.

// CHECK:       module {
// CHECK-NOT:     memref.global
// CHECK:         module @inner {
// CHECK-NOT:       @packed_weights_1
// CHECK-DAG:       memref.global "private" constant @packed_weights_0
// CHECK-DAG:       func.func private @convolution_0
// CHECK:           func.func @twice
// CHECK:             memref.get_global @packed_weights_0
// CHECK:             call @convolution_0
// CHECK:             memref.get_global @packed_weights_0
// CHECK:             call @convolution_0
module {
  module @inner {
    memref.global "private" constant @weights : memref<1x1x16x16xf32> = dense<0.5>
    func.func @twice(%a: memref<1x4x4x16xf32>, %x: memref<1x4x4x16xf32>, %y: memref<1x4x4x16xf32>) {
      %f = memref.get_global @weights : memref<1x1x16x16xf32>
      linalg.conv_2d_nhwc_hwcf {mopt.plan = {
          machine = "znver5", threads = 1, packing = "whole", levels = [],
          microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c"]}}}
        ins(%a, %f : memref<1x4x4x16xf32>, memref<1x1x16x16xf32>) outs(%x : memref<1x4x4x16xf32>)
      linalg.conv_2d_nhwc_hwcf {mopt.plan = {
          machine = "znver5", threads = 1, packing = "whole", levels = [],
          microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 4}, reduction = ["c"]}}}
        ins(%a, %f : memref<1x4x4x16xf32>, memref<1x1x16x16xf32>) outs(%y : memref<1x4x4x16xf32>)
      return
    }
  }
}
