// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s
// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s --check-prefix=PRODUCTS

// What varies of the indices is added up once; elements at constant distances from each other are
// read and written at constants from there.

// CHECK-LABEL: llvm.func @rows
// CHECK:         llvm.mul
// CHECK:         %[[INDEX:.*]] = llvm.add
// CHECK:         %[[PLACE:.*]] = llvm.getelementptr %{{.*}}[%[[INDEX]]]
// CHECK:         llvm.store %arg{{.*}}, %[[PLACE]]
// CHECK:         %[[SECOND:.*]] = llvm.getelementptr %[[PLACE]][67]
// CHECK:         llvm.store %arg{{.*}}, %[[SECOND]]
// CHECK:         %[[THIRD:.*]] = llvm.getelementptr %[[PLACE]][-1]
// CHECK:         llvm.intr.masked.store %arg{{.*}}, %[[THIRD]]
// CHECK:         "llvm.intr.prefetch"(%[[SECOND]])

// PRODUCTS-LABEL: llvm.func @rows
// PRODUCTS:         llvm.mul
// PRODUCTS-NOT:     llvm.mul
// PRODUCTS-LABEL: llvm.func @part
func.func @rows(%vector: vector<4xf32>, %out: memref<64x64xf32>) {
  %mask = vector.constant_mask [3] : vector<4xi1>
  affine.for %row = 0 to 63 {
    affine.for %column = 1 to 57 {
      affine.vector_store %vector, %out[%row, %column] : memref<64x64xf32>, vector<4xf32>
      affine.vector_store %vector, %out[%row + 1, %column + 3] : memref<64x64xf32>, vector<4xf32>
      %before = affine.apply affine_map<(d0) -> (d0 - 1)>(%column)
      vector.maskedstore %out[%row, %before], %mask, %vector
          : memref<64x64xf32>, vector<4xi1>, vector<4xf32>
      affine.prefetch %out[%row + 1, %column + 3], write, locality<3>, data : memref<64x64xf32>
    }
  }
  return
}

// A buffer that begins anywhere in another one. The view may begin in front of it, so that nothing
// is promised of where the distance is added.

// CHECK-LABEL: llvm.func @part
// CHECK-SAME:      %[[BUFFER:[^:]*]]: !llvm.ptr, %[[OFFSET:[^:]*]]: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64) attr
// CHECK:         %[[INDEX:.*]] = llvm.add %[[OFFSET]]
// CHECK:         %[[VIEW:.*]] = llvm.getelementptr %[[BUFFER]][%[[INDEX]]]
// CHECK:         llvm.getelementptr %[[VIEW]][9]
func.func @part(%value: f32, %out: memref<4x4xf32, strided<[8, 1], offset: ?>>) {
  affine.for %i = -1 to 3 {
    affine.store %value, %out[%i + 1, 1] : memref<4x4xf32, strided<[8, 1], offset: ?>>
  }
  return
}

// Where the distance between two rows is not known, they stay what they are.

// CHECK-LABEL: llvm.func @unknown
// CHECK-COUNT-2: llvm.mul
// CHECK:         llvm.return
func.func @unknown(%value: f32, %out: memref<?x?xf32>) {
  affine.for %i = 0 to 3 {
    affine.store %value, %out[%i, 0] : memref<?x?xf32>
    affine.store %value, %out[%i + 1, 0] : memref<?x?xf32>
  }
  return
}

// CHECK-LABEL: llvm.func @unknown_rows
// CHECK-COUNT-2: llvm.mul
// CHECK:         llvm.return
func.func @unknown_rows(%value: f32, %out: memref<4x4xf32, strided<[?, 1]>>) {
  affine.for %i = 0 to 3 {
    affine.store %value, %out[%i, 0] : memref<4x4xf32, strided<[?, 1]>>
    affine.store %value, %out[%i + 1, 0] : memref<4x4xf32, strided<[?, 1]>>
  }
  return
}

// There is no place in a buffer without elements.

// CHECK-LABEL: llvm.func @nothing
// CHECK:         llvm.store
func.func @nothing(%value: f32, %out: memref<0x8xf32, strided<[16, 1]>>) {
  affine.for %i = 0 to 2 {
    affine.store %value, %out[%i, 0] : memref<0x8xf32, strided<[16, 1]>>
  }
  return
}
