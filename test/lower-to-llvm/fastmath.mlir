// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// Where the innermost loop of an operation that is not tiled is its reduction, sums may be computed
// in another order, so that LLVM can vectorise them. Elsewhere they are fused with their products
// and no more, and what is no reduction stays as it is written.

// CHECK-LABEL: llvm.func @matrix_vector
// CHECK:         llvm.fmul {{.*}}fastmathFlags = #llvm.fastmath<{{(reassoc, contract|contract, reassoc)}}>
// CHECK:         llvm.fadd {{.*}}fastmathFlags = #llvm.fastmath<{{(reassoc, contract|contract, reassoc)}}>
func.func @matrix_vector(%a: memref<16x32xf32>, %x: memref<32xf32>, %y: memref<16xf32>) {
  linalg.matvec ins(%a, %x : memref<16x32xf32>, memref<32xf32>) outs(%y : memref<16xf32>)
  return
}

// CHECK-LABEL: llvm.func @matrix_matrix
// CHECK:         llvm.fmul {{.*}}fastmathFlags = #llvm.fastmath<contract>
// CHECK:         llvm.fadd {{.*}}fastmathFlags = #llvm.fastmath<contract>
func.func @matrix_matrix(%a: memref<16x32xf32>, %b: memref<32x24xf32>, %c: memref<16x24xf32>) {
  linalg.matmul ins(%a, %b : memref<16x32xf32>, memref<32x24xf32>) outs(%c : memref<16x24xf32>)
  return
}

// CHECK-LABEL: llvm.func @no_reduction
// CHECK:         llvm.fadd %{{[^ ,]+}}, %{{[^ ,]+}} : f32
// CHECK-NOT:     fastmath
func.func @no_reduction(%a: memref<16xf32>, %b: memref<16xf32>, %c: memref<16xf32>) {
  linalg.add ins(%a, %b : memref<16xf32>, memref<16xf32>) outs(%c : memref<16xf32>)
  return
}
