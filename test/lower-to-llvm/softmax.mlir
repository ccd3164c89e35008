// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// MLIR has no pass that takes a softmax apart; here it becomes loops all the same.

// CHECK-LABEL: llvm.func @soft
// CHECK:         llvm.intr.exp
// CHECK-NOT:     linalg
// CHECK:         llvm.fdiv
func.func @soft(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.softmax dimension(1) ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
