// RUN: mopt-opt --mopt-lower-to-llvm --split-input-file --verify-diagnostics %s

func.func @device(%i: index) -> index {
  // expected-error @+1 {{'gpu.thread_id' cannot be lowered to LLVM}}
  %thread = gpu.thread_id x
  return %thread : index
}

// -----

func.func @tosa(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tosa.abs' is not lowered here: turn TOSA into linalg first, with MLIR's passes tosa-to-linalg-named, tosa-to-linalg and tosa-to-arith on each func.func}}
  %b = tosa.abs %a : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

// expected-warning @+1 {{@mask cannot be called from C: it has a parameter or result of type vector<4xi1>}}
func.func @mask(%mask: vector<4xi1>) {
  return
}

// -----

// expected-error @+1 {{'gpu.module' cannot be lowered to LLVM}}
gpu.module @kernels {
  // expected-error @+1 {{'gpu.func' cannot be lowered to LLVM}}
  gpu.func @kernel(%x: memref<4xf32>) kernel {
    %buffer = memref.alloca() : memref<4xf32>
    memref.copy %buffer, %x : memref<4xf32> to memref<4xf32>
    // expected-error @+1 {{'gpu.return' cannot be lowered to LLVM}}
    gpu.return
  }
}

// -----

memref.global "private" @weights : memref<3x3xf32> = dense<1.0>
// expected-error @+1 {{'memref.get_global' is in no function; put it into one}}
%weights = memref.get_global @weights : memref<3x3xf32>
linalg.copy ins(%weights : memref<3x3xf32>) outs(%weights : memref<3x3xf32>)

// -----

func.func @called() {
  return
}
// expected-error @+1 {{'func.call' is in no function; put it into one}}
func.call @called() : () -> ()

// -----

module {
  module {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // expected-error @+1 {{'scf.for' is in no function; put it into one}}
    scf.for %i = %zero to %one step %one {
      func.call @run(%i) : (index) -> ()
    }
    func.func private @run(%i: index)
  }
}

// -----

module @outer {
  module @inner {
    // expected-error @+1 {{@tensors computes with tensors in a module inside of another: lower that module by itself, or move the function out of it}}
    func.func @tensors(%a: tensor<16xf32>) -> tensor<16xf32> {
      %b = arith.addf %a, %a : tensor<16xf32>
      return %b : tensor<16xf32>
    }
  }
}

// -----

// MLIR would end the process.
// expected-error @+1 {{memref<4294967296x2147483648xf32> has more elements than there are addresses}}
func.func @too_large(%a: memref<4294967296x2147483648xf32>) {
  return
}

// -----

// Here as well: integers have no exponential.
func.func @softmax(%a: tensor<4x8xi32>) -> tensor<4x8xi32> {
  // expected-error @+1 {{'linalg.softmax' cannot be lowered to LLVM; on tensors of floats MLIR can take it apart}}
  %0 = linalg.softmax dimension(1) ins(%a : tensor<4x8xi32>) outs(%a : tensor<4x8xi32>)
      -> tensor<4x8xi32>
  return %0 : tensor<4x8xi32>
}

// -----

// Each iteration would free the same memory.
func.func @hoisted(%x: memref<100xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  // expected-error @+1 {{this memory is freed in another loop or branch than it is allocated in: behind mopt-tile run no passes that move allocations, such as buffer-loop-hoisting}}
  %panels = memref.alloc() {mopt.scratch} : memref<100xf32>
  scf.for %i = %c0 to %c9 step %c1 {
    memref.copy %x, %panels : memref<100xf32> to memref<100xf32>
    memref.copy %panels, %x : memref<100xf32> to memref<100xf32>
    memref.dealloc %panels : memref<100xf32>
  }
  return
}
