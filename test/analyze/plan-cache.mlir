// RUN: rm -rf %t && mkdir %t
// RUN: env MOPT_CACHE_DIR=%t/cache mopt-opt --mopt-analyze="machine=znver5" %s -o %t/solved.mlir
// RUN: env MOPT_CACHE_DIR=%t/cache mopt-opt --mopt-analyze="machine=znver5" %s -o %t/kept.mlir
// RUN: env MOPT_CACHE_DIR=%t/none mopt-opt --mopt-analyze="machine=znver5 plan-cache=false" %s -o %t/none.mlir
// RUN: cmp %t/solved.mlir %t/kept.mlir
// RUN: cmp %t/solved.mlir %t/none.mlir
// RUN: ls %t | FileCheck %s
// RUN: env MOPT_CACHE_DIR=%t/cache mopt-plan --clear-cache 2>&1 | FileCheck %s --check-prefix=CLEAR

// A plan that was kept is the one that was solved for, and not keeping it leaves no trace.

// CHECK:      cache
// CHECK-NEXT: kept.mlir
// CHECK-NEXT: none.mlir
// CLEAR: mopt-plan: 1 plan removed
func.func @conv(%input: memref<1x34x34x64xf32>, %weights: memref<64x3x3x64xf32>,
                %output: memref<1x32x32x64xf32>) {
  linalg.conv_2d_nhwc_fhwc
    ins(%input, %weights : memref<1x34x34x64xf32>, memref<64x3x3x64xf32>)
    outs(%output : memref<1x32x32x64xf32>)
  return
}
