// RUN: not mopt-opt --mopt-lower-to-llvm %s 2>&1 | FileCheck %s

// CHECK: unsupported-layout.mlir:[[#@LINE+4]]:5: error: 'memref.store' cannot be lowered to LLVM
// CHECK-NOT: mistake
func.func @blocks(%out: memref<4x4xf32, affine_map<(i, j) -> (i floordiv 2, j, i mod 2)>>, %v: f32) {
  affine.for %i = 0 to 4 {
    affine.store %v, %out[%i, 0] : memref<4x4xf32, affine_map<(i, j) -> (i floordiv 2, j, i mod 2)>>
  }
  return
}
