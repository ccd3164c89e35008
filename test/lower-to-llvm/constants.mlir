// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s
// RUN: mopt-compile %s -o %t.s --cpu haswell && FileCheck %s --check-prefix=ASM --input-file=%t.s

// LLVM knows that nothing changes constants, so it would load those of several steps together, in
// spite of the assembly that keeps steps in order, and spill sums to have registers for that. So
// they are loaded from where an empty piece of assembly says.

memref.global "private" constant @panel : memref<96x16xf32> = dense<2.0>

// CHECK-LABEL:   llvm.func @reduction
// CHECK-NEXT:      %[[PANEL:.+]] = llvm.mlir.addressof @panel : !llvm.ptr
// CHECK-NEXT:      %[[PLACE:.+]] = llvm.inline_asm "", "=r,0" %[[PANEL]] : (!llvm.ptr) -> !llvm.ptr
// CHECK-NOT:       llvm.mlir.addressof
// CHECK:           %[[BEGIN:.+]] = llvm.getelementptr %[[PLACE]][0, 0, 0]
// CHECK-NOT:       llvm.mlir.addressof
// CHECK:           %[[ROW:.+]] = llvm.getelementptr %[[BEGIN]]
// CHECK:           llvm.load %[[ROW]]
// CHECK:           llvm.inline_asm has_side_effects "", "=v,=v,0,1,~{memory}"
// CHECK:           llvm.return

// Twelve sums, two vectors of weights and a pixel leave one of sixteen registers.
// ASM-LABEL:     reduction:
// ASM-NOT:         rsp
// ASM-COUNT-48:    vfmadd
// ASM-NOT:         rsp
// ASM:             retq
func.func @reduction(%pixels: memref<6x96xf32>, %out: memref<6x16xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %end = arith.constant 96 : index
  %at0 = arith.constant 0 : index
  %at1 = arith.constant 1 : index
  %at2 = arith.constant 2 : index
  %at3 = arith.constant 3 : index
  %at4 = arith.constant 4 : index
  %at5 = arith.constant 5 : index
  %zeros = arith.constant dense<0.0> : vector<8xf32>
  %panel = memref.get_global @panel : memref<96x16xf32>
  %sums:12 = scf.for %c = %zero to %end step %one
      iter_args(%s0 = %zeros, %s1 = %zeros, %s2 = %zeros, %s3 = %zeros, %s4 = %zeros, %s5 = %zeros, %s6 = %zeros, %s7 = %zeros, %s8 = %zeros, %s9 = %zeros, %s10 = %zeros, %s11 = %zeros)
      -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
    %v = vector.load %panel[%c, %zero] : memref<96x16xf32>, vector<8xf32>
    %w = vector.load %panel[%c, %eight] : memref<96x16xf32>, vector<8xf32>
    %p0 = memref.load %pixels[%at0, %c] : memref<6x96xf32>
    %0 = vector.outerproduct %v, %p0, %s0 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %1 = vector.outerproduct %w, %p0, %s1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p1 = memref.load %pixels[%at1, %c] : memref<6x96xf32>
    %2 = vector.outerproduct %v, %p1, %s2 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %3 = vector.outerproduct %w, %p1, %s3 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p2 = memref.load %pixels[%at2, %c] : memref<6x96xf32>
    %4 = vector.outerproduct %v, %p2, %s4 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %5 = vector.outerproduct %w, %p2, %s5 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p3 = memref.load %pixels[%at3, %c] : memref<6x96xf32>
    %6 = vector.outerproduct %v, %p3, %s6 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %7 = vector.outerproduct %w, %p3, %s7 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p4 = memref.load %pixels[%at4, %c] : memref<6x96xf32>
    %8 = vector.outerproduct %v, %p4, %s8 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %9 = vector.outerproduct %w, %p4, %s9 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p5 = memref.load %pixels[%at5, %c] : memref<6x96xf32>
    %10 = vector.outerproduct %v, %p5, %s10 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %11 = vector.outerproduct %w, %p5, %s11 {kind = #vector.kind<add>} : vector<8xf32>, f32
    scf.yield %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
  }
  vector.store %sums#0, %out[%at0, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#1, %out[%at0, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#2, %out[%at1, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#3, %out[%at1, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#4, %out[%at2, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#5, %out[%at2, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#6, %out[%at3, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#7, %out[%at3, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#8, %out[%at4, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#9, %out[%at4, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#10, %out[%at5, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#11, %out[%at5, %eight] : memref<6x16xf32>, vector<8xf32>
  return
}

// Loads that are not kept in order may know it: plain loops are vectorised.

memref.global "private" constant @row : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>

// CHECK-LABEL:   llvm.func @plain
// CHECK-NOT:       llvm.inline_asm
// CHECK:           llvm.mlir.addressof @row
// CHECK-NOT:       llvm.inline_asm
// CHECK:           llvm.return
func.func @plain(%out: memref<4xf32>) {
  %row = memref.get_global @row : memref<4xf32>
  affine.for %k = 0 to 4 {
    %v = affine.load %row[%k] : memref<4xf32>
    affine.store %v, %out[%k] : memref<4xf32>
  }
  return
}

// What may be written to is no constant.

memref.global "private" @buffer : memref<96x16xf32> = dense<2.0>

// ASM:             .section .rodata,
// ASM:           {{^}}panel:
// ASM:             .data
// ASM:           {{^}}buffer:
// CHECK-LABEL:   llvm.func @written
// CHECK-NOT:       "=r,0"
// CHECK:           llvm.mlir.addressof @buffer
// CHECK-NOT:       "=r,0"
// CHECK:           llvm.return
func.func @written(%pixels: memref<6x96xf32>, %out: memref<6x16xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %end = arith.constant 96 : index
  %at0 = arith.constant 0 : index
  %at1 = arith.constant 1 : index
  %at2 = arith.constant 2 : index
  %at3 = arith.constant 3 : index
  %at4 = arith.constant 4 : index
  %at5 = arith.constant 5 : index
  %zeros = arith.constant dense<0.0> : vector<8xf32>
  %panel = memref.get_global @buffer : memref<96x16xf32>
  %sums:12 = scf.for %c = %zero to %end step %one
      iter_args(%s0 = %zeros, %s1 = %zeros, %s2 = %zeros, %s3 = %zeros, %s4 = %zeros, %s5 = %zeros, %s6 = %zeros, %s7 = %zeros, %s8 = %zeros, %s9 = %zeros, %s10 = %zeros, %s11 = %zeros)
      -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
    %v = vector.load %panel[%c, %zero] : memref<96x16xf32>, vector<8xf32>
    %w = vector.load %panel[%c, %eight] : memref<96x16xf32>, vector<8xf32>
    %p0 = memref.load %pixels[%at0, %c] : memref<6x96xf32>
    %0 = vector.outerproduct %v, %p0, %s0 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %1 = vector.outerproduct %w, %p0, %s1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p1 = memref.load %pixels[%at1, %c] : memref<6x96xf32>
    %2 = vector.outerproduct %v, %p1, %s2 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %3 = vector.outerproduct %w, %p1, %s3 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p2 = memref.load %pixels[%at2, %c] : memref<6x96xf32>
    %4 = vector.outerproduct %v, %p2, %s4 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %5 = vector.outerproduct %w, %p2, %s5 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p3 = memref.load %pixels[%at3, %c] : memref<6x96xf32>
    %6 = vector.outerproduct %v, %p3, %s6 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %7 = vector.outerproduct %w, %p3, %s7 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p4 = memref.load %pixels[%at4, %c] : memref<6x96xf32>
    %8 = vector.outerproduct %v, %p4, %s8 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %9 = vector.outerproduct %w, %p4, %s9 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %p5 = memref.load %pixels[%at5, %c] : memref<6x96xf32>
    %10 = vector.outerproduct %v, %p5, %s10 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %11 = vector.outerproduct %w, %p5, %s11 {kind = #vector.kind<add>} : vector<8xf32>, f32
    scf.yield %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
  }
  vector.store %sums#0, %out[%at0, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#1, %out[%at0, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#2, %out[%at1, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#3, %out[%at1, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#4, %out[%at2, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#5, %out[%at2, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#6, %out[%at3, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#7, %out[%at3, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#8, %out[%at4, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#9, %out[%at4, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#10, %out[%at5, %zero] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#11, %out[%at5, %eight] : memref<6x16xf32>, vector<8xf32>
  vector.store %sums#0, %panel[%zero, %zero] : memref<96x16xf32>, vector<8xf32>
  return
}

// Neither does it matter beside other assembly.

// CHECK-LABEL:   llvm.func @fenced
// CHECK-NOT:       "=r,0"
// CHECK:           llvm.inline_asm has_side_effects "sfence"
// CHECK-NOT:       "=r,0"
// CHECK:           llvm.return
func.func @fenced(%out: memref<4xf32>) {
  %zero = arith.constant 0 : index
  %row = memref.get_global @row : memref<4xf32>
  llvm.inline_asm has_side_effects "sfence", "~{memory}" : () -> ()
  %v = memref.load %row[%zero] : memref<4xf32>
  memref.store %v, %out[%zero] : memref<4xf32>
  return
}
