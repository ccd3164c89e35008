// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// A tensor result is written in place; a parameter is copied rather than overwritten.
// CHECK-LABEL: llvm.func @accumulate(
// CHECK-SAME:    %[[A:.+]]: !llvm.ptr, %[[OLD:.+]]: !llvm.ptr, %[[OUT:.+]]: !llvm.ptr)
// CHECK-SAME:    {access = "read", name = "arg1"
// CHECK-SAME:    {access = "result", name = "result"
// CHECK-NOT:     @malloc
// CHECK:         "llvm.intr.memcpy"(%[[OUT]], %[[OLD]]
// CHECK:         llvm.return
func.func @accumulate(%a: tensor<8x8xf32>, %old: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %sum = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>)
                       outs(%old : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %sum : tensor<8x8xf32>
}

// A parameter that may be overwritten says so.
// CHECK-LABEL: llvm.func @in_place(
// CHECK-SAME:    {access = "write", name = "arg0"
// CHECK-SAME:    {access = "result"
func.func @in_place(%a: tensor<8xf32> {bufferization.writable = true}) -> tensor<8xf32> {
  %one = arith.constant 1.0 : f32
  %filled = linalg.fill ins(%one : f32) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %filled : tensor<8xf32>
}

// Each temporary is freed, by whoever made it.
// CHECK-LABEL: llvm.func @temporaries(
// CHECK-COUNT-2: llvm.call @malloc
// CHECK-COUNT-2: llvm.call @free
// CHECK-NOT:     llvm.call @free
// CHECK:         llvm.return
func.func @temporaries(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %own = memref.alloc() : memref<8x8xf32>
  linalg.fill ins(%zero : f32) outs(%own : memref<8x8xf32>)
  %start = bufferization.to_tensor %own restrict : memref<8x8xf32> to tensor<8x8xf32>
  %empty = tensor.empty() : tensor<8x8xf32>
  %copy = linalg.copy ins(%start : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %square = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>)
                          outs(%copy : tensor<8x8xf32>) -> tensor<8x8xf32>
  %result = linalg.matmul ins(%square, %a : tensor<8x8xf32>, tensor<8x8xf32>)
                          outs(%copy : tensor<8x8xf32>) -> tensor<8x8xf32>
  memref.dealloc %own : memref<8x8xf32>
  return %result : tensor<8x8xf32>
}

// A result of dynamic shape is the caller's to free, so a parameter is returned as a copy.
// CHECK-LABEL: llvm.func @dynamic(
// CHECK:         llvm.call @malloc
// CHECK-NOT:     llvm.call @free
// CHECK:         llvm.return
func.func @dynamic(%a: tensor<?xf32>) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}
