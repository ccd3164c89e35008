// RUN: mopt-opt --mopt-lower-to-llvm="threads=2" %s | FileCheck %s
// RUN: mopt-opt --mopt-lower-to-llvm="threads=1" %s | FileCheck %s --check-prefix=SERIAL
// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s --check-prefix=ANY

// A buffer on the stack belongs to a thread, and is made once.
// CHECK:       llvm.mlir.constant(2 : i32)
// CHECK:       omp.parallel num_threads(
// CHECK:         llvm.alloca
// CHECK:         omp.wsloop
// CHECK-NEXT:      omp.loop_nest
// CHECK-NOT:         llvm.alloca
// CHECK-NOT:         llvm.intr.stacksave

// SERIAL-NOT:  omp.
// SERIAL:      llvm.alloca
// SERIAL-NOT:  omp.

// ANY:         omp.parallel {
func.func @parallel(%a: memref<8x4xf32>, %b: memref<8xf32>) {
  affine.parallel (%i) = (0) to (8) {
    %row = memref.alloca() : memref<4xf32>
    affine.for %j = 0 to 4 {
      %x = affine.load %a[%i, %j] : memref<8x4xf32>
      affine.store %x, %row[%j] : memref<4xf32>
    }
    %y = affine.load %row[3] : memref<4xf32>
    affine.store %y, %b[%i] : memref<8xf32>
  }
  return
}

// The counter of a loop around the region is known inside to be a multiple of 64; one that may begin
// anywhere is not.
// CHECK-LABEL: llvm.func @multiples(
// CHECK:         %[[MASK:.*]] = llvm.mlir.constant(-64 : index)
// CHECK:         omp.parallel
// CHECK:           llvm.and %{{.*}}, %[[MASK]]
// CHECK-NOT:       llvm.and
// CHECK:           omp.wsloop
// CHECK-NOT:       llvm.and
// CHECK:         llvm.return
func.func @multiples(%a: memref<?xf32>, %from: index, %to: index) {
  %x = arith.constant 0.0 : f32
  affine.for %c = 64 to 1024 step 192 {
    affine.for %d = %from to %to step 16 {
      affine.parallel (%i) = (0) to (8) {
        affine.store %x, %a[%c + %d + %i] : memref<?xf32>
      }
    }
  }
  return
}
