// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// Static shapes: plain pointers. What is only read is known to be.
// CHECK-LABEL: llvm.func @pointers(
// CHECK-SAME:    %{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr, %{{.+}}: f32) attributes
// CHECK-SAME:    {access = "read", name = "arg0", {{.*}}type = memref<4xf32, strided<[2], offset: 3>>}
// CHECK-SAME:    {access = "write", name = "target", {{.*}}type = memref<4xf32>}
func.func @pointers(%source: memref<4xf32, strided<[2], offset: 3>>,
                    %target: memref<4xf32> {mopt.name = "target"}, %scale: f32) {
  affine.for %i = 0 to 4 {
    %x = affine.load %source[%i] : memref<4xf32, strided<[2], offset: 3>>
    %y = arith.mulf %x, %scale : f32
    affine.store %y, %target[%i] : memref<4xf32>
  }
  return
}

// A buffer that is handed on is written to if the callee does so.
// CHECK-LABEL: llvm.func @caller(
// CHECK-SAME:    {access = "read", name = "arg0"
// CHECK-SAME:    {access = "write", name = "arg1"
func.func @caller(%a: memref<4xf32, strided<[2], offset: 3>>, %b: memref<4xf32>, %c: f32) {
  call @pointers(%a, %b, %c) : (memref<4xf32, strided<[2], offset: 3>>, memref<4xf32>, f32) -> ()
  call @private(%b) : (memref<4xf32>) -> ()
  return
}

// CHECK-LABEL: llvm.func internal @private(
// CHECK-NOT:     mopt.entry
// CHECK:         llvm.return
func.func private @private(%a: memref<4xf32>) {
  return
}

// What nothing uses is dropped, a constant of which another form was made as well.
// CHECK-NOT:     unused
func.func private @unused(%a: memref<4xf32>) {
  return
}
memref.global "private" constant @unused_weights : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>

// CHECK:         llvm.mlir.global external constant @weights
memref.global constant @weights : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>

// A dynamic shape: descriptors, through upstream's C interface.
// CHECK-LABEL: llvm.func @descriptors(
// CHECK-SAME:    mopt.entry = {{.*}}{access = "read", {{.*}}type = memref<?xf32>}
// CHECK-LABEL: llvm.func @_mlir_ciface_descriptors(
// CHECK-SAME:    %{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr)
// CHECK-NOT:     mopt.entry
func.func @descriptors(%a: memref<?xf32>, %b: memref<1xf32>) {
  %x = affine.load %a[0] : memref<?xf32>
  affine.store %x, %b[0] : memref<1xf32>
  return
}

// A bool is zero or one; a buffer of them is none.
// CHECK-LABEL: llvm.func @bool(
// CHECK-SAME:    -> (i1 {llvm.zeroext})
func.func @bool(%x: f32) -> i1 {
  %0 = arith.cmpf ogt, %x, %x : f32
  return %0 : i1
}

// CHECK:       llvm.func @bools(
// CHECK-NOT:     zeroext
// CHECK:       llvm.func @_mlir_ciface_bools(
// CHECK-NOT:     zeroext
func.func @bools(%x: tensor<?xf32>) -> tensor<?xi1> {
  %0 = arith.cmpf ogt, %x, %x : tensor<?xf32>
  return %0 : tensor<?xi1>
}

// What is known of results that stay is kept.
// CHECK:       llvm.func @kept(
// CHECK-SAME:    -> (i32 {my.tag})
func.func @kept(%x: tensor<4xf32>) -> (tensor<4xf32>, i32 {my.tag}) {
  %0 = arith.addf %x, %x : tensor<4xf32>
  %c = arith.constant 1 : i32
  return %0, %c : tensor<4xf32>, i32
}
