// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// A marked buffer is taken from its slot, or allocated if the slot is empty, and put back; what the
// slot held meanwhile is freed. Unloading the code empties the slots. Other buffers are untouched.

// CHECK:       llvm.mlir.global internal @mopt_scratch_0() {{.*}} : !llvm.ptr
// CHECK:       llvm.mlir.global internal @mopt_scratch_1() {{.*}} : !llvm.ptr
// CHECK-NOT:   @mopt_scratch_2
// CHECK:       llvm.func internal @mopt_release_scratch()
// CHECK-DAG:     %[[FIRST:.+]] = llvm.mlir.addressof @mopt_scratch_0
// CHECK-DAG:     %[[SECOND:.+]] = llvm.mlir.addressof @mopt_scratch_1
// CHECK-DAG:     %[[NULL:.+]] = llvm.mlir.zero
// CHECK:         %[[KEPT:.+]] = llvm.atomicrmw xchg %[[FIRST]], %[[NULL]] acquire
// CHECK:         llvm.call @free(%[[KEPT]])
// CHECK:         %[[KEPT:.+]] = llvm.atomicrmw xchg %[[SECOND]], %[[NULL]] acquire
// CHECK:         llvm.call @free(%[[KEPT]])
// CHECK:         llvm.return
// CHECK:       llvm.mlir.global_dtors dtors = [@mopt_release_scratch]

// CHECK-LABEL: llvm.func @f(
// CHECK-DAG:     %[[ALIGNMENT:.+]] = llvm.mlir.constant(64 : i64)
// CHECK-DAG:     %[[SIZE:.+]] = llvm.mlir.constant(448 : i64)
// CHECK-DAG:     %[[SLOT:.+]] = llvm.mlir.addressof @mopt_scratch_0
// CHECK-DAG:     %[[NULL:.+]] = llvm.mlir.zero : !llvm.ptr
// CHECK:         %[[OLD:.+]] = llvm.atomicrmw xchg %[[SLOT]], %[[NULL]] acquire
// CHECK:         %[[EMPTY:.+]] = llvm.icmp "eq" %[[OLD]], %[[NULL]]
// CHECK:         llvm.cond_br %[[EMPTY]]
// CHECK:         %[[NEW:.+]] = llvm.call @aligned_alloc(%[[ALIGNMENT]], %[[SIZE]])
// CHECK-NEXT:    llvm.br ^[[USE:.+]](%[[NEW]] : !llvm.ptr)
// CHECK:         llvm.br ^[[USE]](%[[OLD]] : !llvm.ptr)
// CHECK:       ^[[USE]](%[[BLOCK:.+]]: !llvm.ptr):
// CHECK:         llvm.call @malloc
// CHECK:         %[[OTHER:.+]] = llvm.atomicrmw xchg %[[SLOT]], %[[BLOCK]] acq_rel
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

// A block of 2 MiB or more is of whole huge pages, and the operating system is asked for these.

// CHECK-LABEL: llvm.func @huge(
// CHECK-DAG:     %[[PAGE:.+]] = llvm.mlir.constant(2097152 : i64)
// CHECK-DAG:     %[[PAGES:.+]] = llvm.mlir.constant(4194304 : i64)
// CHECK-DAG:     %[[HUGE:.+]] = llvm.mlir.constant(14 : i32)
// CHECK:         %[[NEW:.+]] = llvm.call @aligned_alloc(%[[PAGE]], %[[PAGES]])
// CHECK:         llvm.call @madvise(%[[NEW]], %[[PAGES]], %[[HUGE]])
func.func @huge(%x: memref<100xf32>) {
  %c3 = arith.constant 3 : index
  %panels = memref.alloc() {mopt.scratch} : memref<1024x600xf32>
  %value = memref.load %x[%c3] : memref<100xf32>
  memref.store %value, %panels[%c3, %c3] : memref<1024x600xf32>
  %again = memref.load %panels[%c3, %c3] : memref<1024x600xf32>
  memref.store %again, %x[%c3] : memref<100xf32>
  memref.dealloc %panels : memref<1024x600xf32>
  return
}
