// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// A marked buffer is taken from its slot, or allocated if the slot is empty, and put back; what the
// slot held meanwhile is freed. Unloading the code empties the slots. Other buffers are untouched.

// CHECK:       llvm.mlir.global internal @mopt_scratch_0() {{.*}} : !llvm.ptr
// CHECK-NOT:   @mopt_scratch_1
// CHECK:       llvm.func internal @mopt_release_scratch()
// CHECK:       llvm.mlir.global_dtors dtors = [@mopt_release_scratch]
// CHECK-LABEL: llvm.func @f(
// CHECK:         %[[OLD:.+]] = llvm.atomicrmw xchg {{.*}} acquire
// CHECK:         llvm.icmp "eq" %[[OLD]]
// CHECK:         llvm.cond_br
// CHECK:         llvm.call @aligned_alloc
// CHECK:         llvm.call @malloc
// CHECK:         %[[OTHER:.+]] = llvm.atomicrmw xchg {{.*}} acq_rel
// CHECK:         llvm.call @free(%[[OTHER]])
func.func @f(%x: memref<100xf32>) {
  %c3 = arith.constant 3 : index
  %panels = memref.alloc() {mopt.scratch} : memref<10x10xf32>
  %plain = memref.alloc() : memref<100xf32>
  memref.copy %x, %plain : memref<100xf32> to memref<100xf32>
  %value = memref.load %plain[%c3] : memref<100xf32>
  memref.store %value, %panels[%c3, %c3] : memref<10x10xf32>
  %again = memref.load %panels[%c3, %c3] : memref<10x10xf32>
  memref.store %again, %x[%c3] : memref<100xf32>
  memref.dealloc %panels : memref<10x10xf32>
  memref.dealloc %plain : memref<100xf32>
  return
}
