// RUN: not mopt-opt %s --cse --mopt-analyze=machine=znver5 --mlir-print-ir-after-failure 2>&1 | FileCheck %s

// CHECK-NOT: IR Dump After CSE
// CHECK:     error:
// CHECK:     IR Dump After mopt-analyze Failed (mopt-analyze{machine=znver5})
// CHECK-NOT: IR Dump
func.func @f(%image: memref<6x6xf32>, %filter: memref<3x3xf32>, %out: memref<4x4xf32>) {
  linalg.conv_2d {mopt.plan = {}}
    ins(%image, %filter : memref<6x6xf32>, memref<3x3xf32>) outs(%out : memref<4x4xf32>)
  return
}
