// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s
// RUN: mopt-compile %s -o %t.s --cpu haswell && FileCheck %s --check-prefix=ASM --input-file=%t.s

// CHECK-DAG: #[[FULL:.+]] = #llvm.loop_unroll<full = true>
// CHECK-DAG: #[[GONE:.+]] = #llvm.loop_annotation<{{.*}}unroll = #[[FULL]]>
// CHECK-DAG: #[[KEPT:.+]] = #llvm.loop_annotation<vectorize = #{{[a-z_0-9]+}}>

// Filter taps leave no loops behind, not even where there are two of them, and the loop over channels
// stays: its trips are too many. An empty piece of assembly behind each scalar keeps them in order.
// CHECK-LABEL: llvm.func @taps
// CHECK-NOT:     "=r,0"
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "", "=v,=v,0,1,~{memory}"
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}

// The pixel that two taps share is read twice, and stands in no register meanwhile.
// ASM-LABEL:    taps:
// ASM:          [[LOOP:.+]]:
// ASM-COUNT-12: vbroadcastss
// ASM-NOT:      vbroadcastss
// ASM:          jne [[LOOP]]
// ASM-NOT:      rsp
// ASM:          retq
func.func @taps(%pixels: memref<32x2x4xf32>, %panel: memref<32x2x3x16xf32>,
                %out: memref<4x8xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:4 = affine.for %c = 0 to 32
      iter_args(%c0 = %zero, %c1 = %zero, %c2 = %zero, %c3 = %zero)
      -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
    %of_c:4 = affine.for %r = 0 to 2 iter_args(%r0 = %c0, %r1 = %c1, %r2 = %c2, %r3 = %c3)
        -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
      %of_r:4 = affine.for %s = 0 to 3 iter_args(%s0 = %r0, %s1 = %r1, %s2 = %r2, %s3 = %r3)
          -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
        %v = affine.vector_load %panel[%c, %r, %s, 0] : memref<32x2x3x16xf32>, vector<8xf32>
        %w = affine.vector_load %panel[%c, %r, %s, 8] : memref<32x2x3x16xf32>, vector<8xf32>
        %p = affine.load %pixels[%c, %r, %s] : memref<32x2x4xf32>
        %0 = vector.outerproduct %v, %p, %s0 {kind = #vector.kind<add>} : vector<8xf32>, f32
        %1 = vector.outerproduct %w, %p, %s1 {kind = #vector.kind<add>} : vector<8xf32>, f32
        %q = affine.load %pixels[%c, %r, %s + 1] : memref<32x2x4xf32>
        %2 = vector.outerproduct %v, %q, %s2 {kind = #vector.kind<add>} : vector<8xf32>, f32
        %3 = vector.outerproduct %w, %q, %s3 {kind = #vector.kind<add>} : vector<8xf32>, f32
        affine.yield %0, %1, %2, %3 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
      }
      affine.yield %of_r#0, %of_r#1, %of_r#2, %of_r#3
          : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
    }
    affine.yield %of_c#0, %of_c#1, %of_c#2, %of_c#3
        : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0, 0] : memref<4x8xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[1, 0] : memref<4x8xf32>, vector<8xf32>
  affine.vector_store %sums#2, %out[2, 0] : memref<4x8xf32>, vector<8xf32>
  affine.vector_store %sums#3, %out[3, 0] : memref<4x8xf32>, vector<8xf32>
  return
}

// Of a long loop sixteen trips become one: a loop that vanishes, in one that stays.
// CHECK-LABEL: llvm.func @channels
// CHECK-DAG:     %[[ROUNDS:.+]] = llvm.mlir.constant(4 : index)
// CHECK-DAG:     %[[ONE:.+]] = llvm.mlir.constant(1 : index)
// CHECK-DAG:     %[[STRIDE:.+]] = llvm.mlir.constant(16 : index)
// CHECK:         llvm.icmp "slt" %[[ROUND:.+]], %[[ROUNDS]]
// CHECK:         %[[START:.+]] = llvm.mul %[[ROUND]], %[[STRIDE]]
// CHECK:         llvm.icmp "slt" %[[TRIP:.+]], %[[STRIDE]]
// CHECK:         llvm.add %[[START]], %[[TRIP]]
// CHECK-COUNT-2: llvm.inline_asm has_side_effects "", "=v,=v,0,1,~{memory}"
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK:         llvm.add %[[ROUND]], %[[ONE]]
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK-NOT:     llvm.br {{.*}} {loop_annotation
// CHECK:         llvm.return
// ASM-LABEL:    channels:
// ASM-COUNT-64: {{vfmadd[0-9]+ps}}
// ASM-NOT:      {{vfmadd[0-9]+ps}}
// ASM:          retq
func.func @channels(%pixels: memref<64x3xf32>, %panel: memref<64x16xf32>,
                   %out: memref<16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %c = 0 to 64 iter_args(%x = %zero, %y = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<64x16xf32>, vector<8xf32>
    %w = affine.vector_load %panel[%c, 8] : memref<64x16xf32>, vector<8xf32>
    %p = affine.load %pixels[%c, 0] : memref<64x3xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
    %q = affine.load %pixels[%c, 1] : memref<64x3xf32>
    %x_2 = vector.outerproduct %v, %q, %x_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_2 = vector.outerproduct %w, %q, %y_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.yield %x_2, %y_2 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// Inside of a loop over filter taps, that over channels vanishes if it leaves up to 192 products.
// CHECK-LABEL: llvm.func @inside
// CHECK:         llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK-NEXT:  ^bb
// CHECK-NEXT:    llvm.add
// CHECK-NEXT:    llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK-NOT:     loop_annotation
// CHECK:         llvm.return
func.func @inside(%pixels: memref<3x96xf32>, %panel: memref<3x96x16xf32>, %out: memref<16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %r = 0 to 3 iter_args(%a = %zero, %b = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %of_r:2 = affine.for %c = 0 to 96 iter_args(%x = %a, %y = %b)
        -> (vector<8xf32>, vector<8xf32>) {
      %v = affine.vector_load %panel[%r, %c, 0] : memref<3x96x16xf32>, vector<8xf32>
      %w = affine.vector_load %panel[%r, %c, 8] : memref<3x96x16xf32>, vector<8xf32>
      %p = affine.load %pixels[%r, %c] : memref<3x96xf32>
      %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
      %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
      affine.yield %x_1, %y_1 : vector<8xf32>, vector<8xf32>
    }
    affine.yield %of_r#0, %of_r#1 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// CHECK-LABEL: llvm.func @more_inside
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK-COUNT-3: llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK-NOT:     loop_annotation
// CHECK:         llvm.return
func.func @more_inside(%pixels: memref<3x97xf32>, %panel: memref<3x97x16xf32>, %out: memref<16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %r = 0 to 3 iter_args(%a = %zero, %b = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %of_r:2 = affine.for %c = 0 to 97 iter_args(%x = %a, %y = %b)
        -> (vector<8xf32>, vector<8xf32>) {
      %v = affine.vector_load %panel[%r, %c, 0] : memref<3x97x16xf32>, vector<8xf32>
      %w = affine.vector_load %panel[%r, %c, 8] : memref<3x97x16xf32>, vector<8xf32>
      %p = affine.load %pixels[%r, %c] : memref<3x97xf32>
      %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
      %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
      affine.yield %x_1, %y_1 : vector<8xf32>, vector<8xf32>
    }
    affine.yield %of_r#0, %of_r#1 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// One that nothing is around leaves up to 128, and so do the taps themselves.
// CHECK-LABEL: llvm.func @alone
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK-NOT:     loop_annotation
// CHECK:         llvm.return
func.func @alone(%pixels: memref<96xf32>, %panel: memref<96x16xf32>, %out: memref<16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %c = 0 to 96 iter_args(%x = %zero, %y = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<96x16xf32>, vector<8xf32>
    %w = affine.vector_load %panel[%c, 8] : memref<96x16xf32>, vector<8xf32>
    %p = affine.load %pixels[%c] : memref<96xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.yield %x_1, %y_1 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// CHECK-LABEL: llvm.func @taps_inside
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK-COUNT-2: llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK-NOT:     loop_annotation
// CHECK:         llvm.return
func.func @taps_inside(%pixels: memref<3x3x25xf32>, %panel: memref<3x3x25x16xf32>,
                       %out: memref<16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %r = 0 to 3 iter_args(%a = %zero, %b = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %of_r:2 = affine.for %s = 0 to 3 iter_args(%d = %a, %e = %b)
        -> (vector<8xf32>, vector<8xf32>) {
      %of_s:2 = affine.for %c = 0 to 25 iter_args(%x = %d, %y = %e)
          -> (vector<8xf32>, vector<8xf32>) {
        %v = affine.vector_load %panel[%r, %s, %c, 0] : memref<3x3x25x16xf32>, vector<8xf32>
        %w = affine.vector_load %panel[%r, %s, %c, 8] : memref<3x3x25x16xf32>, vector<8xf32>
        %p = affine.load %pixels[%r, %s, %c] : memref<3x3x25xf32>
        %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
        %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
        affine.yield %x_1, %y_1 : vector<8xf32>, vector<8xf32>
      }
      affine.yield %of_s#0, %of_s#1 : vector<8xf32>, vector<8xf32>
    }
    affine.yield %of_r#0, %of_r#1 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// What is left of a number of trips that nothing divides, as little as can be, has its own loop.
// CHECK-LABEL: llvm.func @prime
// CHECK-DAG:     %[[ROUNDS:.+]] = llvm.mlir.constant(10 : index)
// CHECK-DAG:     %[[LEFT:.+]] = llvm.mlir.constant(130 : index)
// CHECK-DAG:     %[[ALL:.+]] = llvm.mlir.constant(131 : index)
// CHECK:         llvm.icmp "slt" %{{.+}}, %[[ROUNDS]]
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK:         llvm.br ^{{.*}}(%[[LEFT]],
// CHECK:         llvm.icmp "slt" %{{.+}}, %[[ALL]]
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
func.func @prime(%pixels: memref<131x3xf32>, %panel: memref<131x16xf32>,
                %out: memref<16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %c = 0 to 131 iter_args(%x = %zero, %y = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<131x16xf32>, vector<8xf32>
    %w = affine.vector_load %panel[%c, 8] : memref<131x16xf32>, vector<8xf32>
    %p = affine.load %pixels[%c, 0] : memref<131x3xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
    %q = affine.load %pixels[%c, 1] : memref<131x3xf32>
    %x_2 = vector.outerproduct %v, %q, %x_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_2 = vector.outerproduct %w, %q, %y_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.yield %x_2, %y_2 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// So is what is left of trips that nobody knows. The sums stay in registers throughout.
// CHECK-LABEL: llvm.func @unknown
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[GONE]]}
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
// ASM-LABEL:    unknown:
// ASM-NOT:      rsp
// ASM-COUNT-64: {{vfmadd[0-9]+ps}}
// ASM-NOT:      rsp
// ASM-COUNT-4:  {{vfmadd[0-9]+ps}}
// ASM-NOT:      {{vfmadd[0-9]+ps}}
// ASM:          retq
func.func @unknown(%pixels: memref<64x3xf32>, %panel: memref<64x16xf32>,
                  %out: memref<16xf32>, %n: index) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %c = 0 to min affine_map<(d0) -> (d0, 64)>(%n) iter_args(%x = %zero, %y = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<64x16xf32>, vector<8xf32>
    %w = affine.vector_load %panel[%c, 8] : memref<64x16xf32>, vector<8xf32>
    %p = affine.load %pixels[%c, 0] : memref<64x3xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
    %q = affine.load %pixels[%c, 1] : memref<64x3xf32>
    %x_2 = vector.outerproduct %v, %q, %x_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_2 = vector.outerproduct %w, %q, %y_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.yield %x_2, %y_2 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// Of a tile that does not run twice as often nothing is gained.
// CHECK-LABEL: llvm.func @tile
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
func.func @tile(%pixels: memref<64x3xf32>, %panel: memref<64x16xf32>,
               %out: memref<16xf32>, %n: index) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = affine.for %c = %n to min affine_map<(d0) -> (d0 + 23, 64)>(%n)
      iter_args(%x = %zero, %y = %zero) -> (vector<8xf32>, vector<8xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<64x16xf32>, vector<8xf32>
    %w = affine.vector_load %panel[%c, 8] : memref<64x16xf32>, vector<8xf32>
    %p = affine.load %pixels[%c, 0] : memref<64x3xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32
    %q = affine.load %pixels[%c, 1] : memref<64x3xf32>
    %x_2 = vector.outerproduct %v, %q, %x_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y_2 = vector.outerproduct %w, %q, %y_1 {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.yield %x_2, %y_2 : vector<8xf32>, vector<8xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<16xf32>, vector<8xf32>
  affine.vector_store %sums#1, %out[8] : memref<16xf32>, vector<8xf32>
  return
}

// With one product for each scalar sums would be collected in the registers of scalars.
// CHECK-LABEL: llvm.func @one_vector
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
func.func @one_vector(%pixels: memref<64xf32>, %panel: memref<64x8xf32>, %out: memref<8xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sum = affine.for %c = 0 to 64 iter_args(%x = %zero) -> vector<8xf32> {
    %w = affine.vector_load %panel[%c, 0] : memref<64x8xf32>, vector<8xf32>
    %p = affine.load %pixels[%c] : memref<64xf32>
    %next = vector.outerproduct %w, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.yield %next : vector<8xf32>
  }
  affine.vector_store %sum, %out[0] : memref<8xf32>, vector<8xf32>
  return
}

// A loop that carries no sums is no reduction.
// CHECK-LABEL: llvm.func @no_sums
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
func.func @no_sums(%pixels: memref<4xf32>, %weights: memref<16xf32>, %out: memref<4x16xf32>) {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %v = affine.vector_load %weights[0] : memref<16xf32>, vector<8xf32>
  %w = affine.vector_load %weights[8] : memref<16xf32>, vector<8xf32>
  affine.for %i = 0 to 4 {
    %p = affine.load %pixels[%i] : memref<4xf32>
    %x = vector.outerproduct %v, %p, %zero {kind = #vector.kind<add>} : vector<8xf32>, f32
    %y = vector.outerproduct %w, %p, %zero {kind = #vector.kind<add>} : vector<8xf32>, f32
    affine.vector_store %x, %out[%i, 0] : memref<4x16xf32>, vector<8xf32>
    affine.vector_store %y, %out[%i, 8] : memref<4x16xf32>, vector<8xf32>
  }
  return
}

// Not every CPU with AVX2 has a register of 512 bits, and none has one for an outer product of two
// vectors.
// CHECK-LABEL: llvm.func @wide
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
func.func @wide(%pixels: memref<4xf32>, %panel: memref<4x32xf32>, %out: memref<32xf32>) {
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %sums:2 = affine.for %c = 0 to 4 iter_args(%x = %zero, %y = %zero)
      -> (vector<16xf32>, vector<16xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<4x32xf32>, vector<16xf32>
    %w = affine.vector_load %panel[%c, 16] : memref<4x32xf32>, vector<16xf32>
    %p = affine.load %pixels[%c] : memref<4xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<16xf32>, f32
    %y_1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<16xf32>, f32
    affine.yield %x_1, %y_1 : vector<16xf32>, vector<16xf32>
  }
  affine.vector_store %sums#0, %out[0] : memref<32xf32>, vector<16xf32>
  affine.vector_store %sums#1, %out[16] : memref<32xf32>, vector<16xf32>
  return
}

// CHECK-LABEL: llvm.func @two_vectors
// CHECK-NOT:     llvm.inline_asm
// CHECK:         llvm.br {{.*}} {loop_annotation = #[[KEPT]]}
func.func @two_vectors(%pixels: memref<4x2xf32>, %panel: memref<4x4xf32>,
                       %out: memref<4x2x4xf32>) {
  %zero = arith.constant dense<0.0> : vector<4x2xf32>
  %sums:2 = affine.for %c = 0 to 4 iter_args(%x = %zero, %y = %zero)
      -> (vector<4x2xf32>, vector<4x2xf32>) {
    %v = affine.vector_load %panel[%c, 0] : memref<4x4xf32>, vector<4xf32>
    %p = affine.vector_load %pixels[%c, 0] : memref<4x2xf32>, vector<2xf32>
    %x_1 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<4xf32>, vector<2xf32>
    %y_1 = vector.outerproduct %v, %p, %y {kind = #vector.kind<add>} : vector<4xf32>, vector<2xf32>
    affine.yield %x_1, %y_1 : vector<4x2xf32>, vector<4x2xf32>
  }
  %x_row = vector.extract %sums#0[0] : vector<2xf32> from vector<4x2xf32>
  %y_row = vector.extract %sums#1[0] : vector<2xf32> from vector<4x2xf32>
  %at = arith.constant 0 : index
  vector.store %x_row, %out[%at, %at, %at] : memref<4x2x4xf32>, vector<2xf32>
  vector.store %y_row, %out[%at, %at, %at] : memref<4x2x4xf32>, vector<2xf32>
  return
}
