// RUN: mopt-opt --mopt-tile="machine=znver5" --mopt-lower-to-llvm="threads=2" %s | FileCheck %s

// Stores past the caches, of a result on tensors: each core has a fence behind its own, which keeps
// nobody from deallocating the buffers around it. The stores go to the result itself, as each run
// looks whether it is aligned.

// CHECK-LABEL: llvm.func @conv
// CHECK:         omp.parallel
// CHECK:           llvm.store {{.*}} {alignment = 32 : i64, nontemporal}
// CHECK:           llvm.inline_asm has_side_effects "sfence", "~{memory}"
// CHECK:           omp.yield
// CHECK-NOT:     memcpy
func.func @conv(%input: tensor<1x3x8x34xf32>, %weights: tensor<4x3x3x3xf32>)
    -> tensor<1x4x6x32xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x4x6x32xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x4x6x32xf32>)
    -> tensor<1x4x6x32xf32>
  %sums = linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 2, parallel = {h = 2}, packing = "none", nontemporal = true,
      levels = [],
      microkernel = {lanes = "w", vector = 8, tile = {k = 4, w = 32}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : tensor<1x3x8x34xf32>, tensor<4x3x3x3xf32>)
    outs(%filled : tensor<1x4x6x32xf32>) -> tensor<1x4x6x32xf32>
  return %sums : tensor<1x4x6x32xf32>
}
