// RUN: mopt-opt --mopt-lower-to-llvm --split-input-file --verify-diagnostics %s | FileCheck %s

// Slots of buffers that are kept have names that the module leaves free.

// CHECK-DAG:   llvm.mlir.global internal @mopt_scratch_1()
// CHECK-DAG:   llvm.mlir.global internal @mopt_scratch_2()
// CHECK-LABEL: llvm.func @mopt_scratch_0(
func.func @mopt_scratch_0(%x: memref<100xf32>) {
  %c3 = arith.constant 3 : index
  %panels = memref.alloc() {mopt.scratch} : memref<100xf32>
  %sums = memref.alloc() {mopt.scratch} : memref<100xf32>
  memref.copy %x, %panels : memref<100xf32> to memref<100xf32>
  memref.copy %panels, %sums : memref<100xf32> to memref<100xf32>
  memref.copy %sums, %x : memref<100xf32> to memref<100xf32>
  memref.dealloc %sums : memref<100xf32>
  memref.dealloc %panels : memref<100xf32>
  return
}

// -----

// A module may have been lowered before: this function does what is expected of its name.

// CHECK-LABEL: llvm.func @mopt_release_scratch()
llvm.func @mopt_release_scratch() {
  llvm.return
}

// -----

// Whoever loads the code would call it.

// expected-error @+1 {{give @mopt_release_scratch another name: generated code frees its buffers in a function of that name}}
func.func @mopt_release_scratch(%x: memref<100xf32>) {
  return
}

// -----

func.func @f(%x: memref<100xf32>) {
  %panels = memref.alloc() {mopt.scratch} : memref<100xf32>
  memref.copy %x, %panels : memref<100xf32> to memref<100xf32>
  memref.copy %panels, %x : memref<100xf32> to memref<100xf32>
  memref.dealloc %panels : memref<100xf32>
  return
}
// expected-error @+1 {{give @free another name: generated code calls the C library's function}}
func.func @free(%x: memref<100xf32>) {
  return
}
