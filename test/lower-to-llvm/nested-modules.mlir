// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// What code needs is declared in the module that it is in. Nobody calls it from outside.

// CHECK:       module {
// CHECK-NEXT:    llvm.func @expm1(f64) -> f64
// CHECK-NEXT:    module @inner {
// CHECK-NEXT:      llvm.func @expm1f(f32) -> f32
// CHECK:           llvm.mlir.global internal @mopt_scratch_0()
// CHECK:           llvm.func @aligned_alloc(i64, i64) -> !llvm.ptr
// CHECK:           llvm.func internal @mopt_release_scratch()
// CHECK:           llvm.func @f(
// CHECK:             llvm.call @aligned_alloc
// CHECK:             llvm.call @expm1f
// CHECK:         llvm.func @g(
// CHECK:           llvm.call @expm1
module {
  module @inner {
    func.func @f(%x: memref<100xf32>) {
      %c3 = arith.constant 3 : index
      %panels = memref.alloc() {mopt.scratch} : memref<10x10xf32>
      %value = memref.load %x[%c3] : memref<100xf32>
      %less = math.expm1 %value : f32
      memref.store %less, %panels[%c3, %c3] : memref<10x10xf32>
      %again = memref.load %panels[%c3, %c3] : memref<10x10xf32>
      memref.store %again, %x[%c3] : memref<100xf32>
      memref.dealloc %panels : memref<10x10xf32>
      return
    }
  }
  func.func @g(%x: f64) -> f64 {
    %0 = math.expm1 %x : f64
    return %0 : f64
  }
}
