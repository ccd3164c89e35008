// RUN: mopt-opt %s --affine-super-vectorize="virtual-vector-size=8" --cse --dump-pass-pipeline 2>&1 | FileCheck %s
// RUN: not mopt-opt %s --pass-pipeline='builtin.module(affine-super-vectorize)' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EXPLICIT

// As in mlir-opt, a flag is nested where its pass has to be; a pipeline says everything itself.
// CHECK: builtin.module(func.func(affine-super-vectorize{{.*}}),cse)
// EXPLICIT: --pass-pipeline:1:16: error: Can't add pass 'AffineVectorize' restricted to 'func.func'

// CHECK-LABEL: func.func @zero
// CHECK:         vector.transfer_write
func.func @zero(%out: memref<64xf32>) {
  %zero = arith.constant 0.0 : f32
  affine.for %i = 0 to 64 {
    affine.store %zero, %out[%i] : memref<64xf32>
  }
  return
}
