// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// Rounded down by a power of two is shifted, whatever the sign.

// CHECK-LABEL: llvm.func @power_of_two
// CHECK:         %[[THREE:.+]] = llvm.mlir.constant(3 : index)
// CHECK:         %[[DIFFERENCE:.+]] = llvm.sub
// CHECK:         llvm.ashr %[[DIFFERENCE]], %[[THREE]]
// CHECK-NOT:     llvm.sdiv
// CHECK-NOT:     llvm.select
func.func @power_of_two(%a: index, %b: index, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %0 = affine.apply affine_map<(d0, d1) -> ((d0 - d1) floordiv 8)>(%a, %b)
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// Other divisors are divided by.

// CHECK-LABEL: llvm.func @other
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
func.func @other(%a: index, %b: index, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %0 = affine.apply affine_map<(d0, d1) -> ((d0 - d1) floordiv 6)>(%a, %b)
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// So is what only looks similar: a division that rounds towards zero, and one that is corrected by
// something else, or elsewhere.

// CHECK-LABEL: llvm.func @towards_zero
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @towards_zero(%a: index, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %0 = arith.divsi %a, %c4 : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @where_another_is_negative
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @where_another_is_negative(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %b, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @below_one
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @below_one(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c1 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @up_to_zero
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @up_to_zero(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi sle, %a, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @half_of_it_elsewhere
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @half_of_it_elsewhere(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %flag, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @below_another
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @below_another(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c0 : index
  %below = arith.subi %c-1, %b : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @not_by_one
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @not_by_one(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c0 : index
  %below = arith.subi %c0, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @another_way_back
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @another_way_back(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c4 : index
  %corrected = arith.subi %c0, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @by_a_negative_number
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @by_a_negative_number(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c-4 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// CHECK-LABEL: llvm.func @by_nothing
// CHECK-NOT:     llvm.ashr
// CHECK:         llvm.sdiv
// CHECK-NOT:     llvm.ashr
func.func @by_nothing(%a: index, %b: index, %flag: i1, %out: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c-1 = arith.constant -1 : index
  %c-4 = arith.constant -4 : index
  %negative = arith.cmpi slt, %a, %c0 : index
  %below = arith.subi %c-1, %a : index
  %size = arith.select %negative, %below, %a : index
  %quotient = arith.divsi %size, %c0 : index
  %corrected = arith.subi %c-1, %quotient : index
  %0 = arith.select %negative, %corrected, %quotient : index
  memref.store %0, %out[%c0] : memref<1xindex>
  return
}

// Vectors are left as they are, too.

// CHECK-LABEL: llvm.func @vectors
// CHECK:         llvm.sdiv %{{.+}}, %{{.+}} : vector<4xi32>
func.func @vectors(%a: memref<4xi32>) {
  %zero = arith.constant dense<0> : vector<4xi32>
  %four = arith.constant dense<4> : vector<4xi32>
  %ones = arith.constant dense<-1> : vector<4xi32>
  %c0 = arith.constant 0 : index
  %x = vector.load %a[%c0] : memref<4xi32>, vector<4xi32>
  %negative = arith.cmpi slt, %x, %zero : vector<4xi32>
  %below = arith.subi %ones, %x : vector<4xi32>
  %size = arith.select %negative, %below, %x : vector<4xi1>, vector<4xi32>
  %quotient = arith.divsi %size, %four : vector<4xi32>
  %corrected = arith.subi %ones, %quotient : vector<4xi32>
  %0 = arith.select %negative, %corrected, %quotient : vector<4xi1>, vector<4xi32>
  vector.store %0, %a[%c0] : memref<4xi32>, vector<4xi32>
  return
}
