// RUN: mopt-opt %s --canonicalize --mopt-analyze=machine=znver5 --cse | FileCheck %s
// RUN: mopt-opt %s --pass-pipeline='builtin.module(canonicalize,mopt-analyze{machine=znver5},func.func(cse))' | FileCheck %s
// RUN: mopt-opt %s --canonicalize --mopt-analyze="threads=2 machine=znver5" --cse \
// RUN:   --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// Passes of both kinds run in the order of the command line, in one pass manager.
// PIPELINE: builtin.module(canonicalize{{.*}},mopt-analyze{machine=znver5 threads=2},cse)

// CHECK-LABEL: func.func @conv
// CHECK-NOT:     arith.addi
// CHECK:         linalg.conv_2d {mopt.plan =
func.func @conv(%image: memref<6x6xf32>, %filter: memref<3x3xf32>, %out: memref<4x4xf32>) {
  %one = arith.constant 1 : index
  %two = arith.addi %one, %one : index
  linalg.conv_2d ins(%image, %filter : memref<6x6xf32>, memref<3x3xf32>) outs(%out : memref<4x4xf32>)
  return
}
