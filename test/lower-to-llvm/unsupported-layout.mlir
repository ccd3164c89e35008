// RUN: mopt-opt --mopt-lower-to-llvm --split-input-file --verify-diagnostics %s

// expected-warning @+2 {{@blocks cannot be called from C}}
// expected-error @+1 {{the layout of 'memref<4x4xf32, affine_map<(d0, d1) -> (d0 floordiv 2, d1, d0 mod 2)>>' is not strided, and cannot be lowered to LLVM: order its sizes as they lie in memory, or give it a strided layout}}
func.func @blocks(%out: memref<4x4xf32, affine_map<(i, j) -> (i floordiv 2, j, i mod 2)>>, %v: f32) {
  affine.for %i = 0 to 4 {
    affine.store %v, %out[%i, 0] : memref<4x4xf32, affine_map<(i, j) -> (i floordiv 2, j, i mod 2)>>
  }
  return
}

// -----

func.func @inside(%v: f32) {
  // expected-error @+1 {{the layout of 'memref<4x2xf32, affine_map<(d0, d1) -> (d1, d0)>>' is not strided}}
  %columns = memref.alloc() : memref<4x2xf32, affine_map<(i, j) -> (j, i)>>
  memref.dealloc %columns : memref<4x2xf32, affine_map<(i, j) -> (j, i)>>
  return
}
