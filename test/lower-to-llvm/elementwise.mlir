// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s
// RUN: mopt-compile %s -o %t.s --cpu skylake-avx512 2>&1 | FileCheck %s --check-prefix=SAID
// RUN: FileCheck %s --check-prefix=ASM --input-file=%t.s

// LLVM may vectorise the innermost loops of what was not tiled, and no others: all others are
// marked, also those that stand in the source.
// CHECK:         #[[OFF:.+]] = #llvm.loop_vectorize<disable = true>
// CHECK:         #[[MARK:.+]] = #llvm.loop_annotation<vectorize = #[[OFF]]>
// CHECK-LABEL:   llvm.func @add
// CHECK-COUNT-1:   llvm.br {{.*}} {loop_annotation = #[[MARK]]}
// CHECK-NOT:       loop_annotation
// CHECK-LABEL:   llvm.func @loop
// CHECK-COUNT-2:   llvm.br {{.*}} {loop_annotation = #[[MARK]]}

// Neither does LLVM say which ones it vectorises, or cannot.
// SAID-NOT: loop not vectorized
// SAID:     warning: 'linalg.matmul' is not tiled: {{.*}} it becomes plain loops
// SAID-NOT: loop not vectorized

// ASM-LABEL:     add:
// ASM:             vaddps {{.*}}%zmm
// ASM-LABEL:     loop:
// ASM-NOT:         {{vaddps|vmulps}}
// ASM:             vaddss
// ASM-NOT:         {{vaddps|vmulps}}
// ASM:             vmulss

// The reduction of a matrix product moves outwards, that of a matrix-vector product stays inside,
// and its sum is computed in vectors.
// ASM-LABEL:     matmul:
// ASM:             vfmadd{{.*}}ps {{.*}}%zmm
// ASM-LABEL:     matvec:
// ASM:             vfmadd{{.*}}ps {{.*}}%zmm
func.func @add(%a: memref<8x64xf32>, %b: memref<8x64xf32>) {
  linalg.add ins(%a, %b : memref<8x64xf32>, memref<8x64xf32>) outs(%b : memref<8x64xf32>)
  return
}

func.func @loop(%a: memref<64xf32>) {
  affine.for %i = 0 to 64 {
    %0 = affine.load %a[%i] : memref<64xf32>
    %1 = arith.addf %0, %0 : f32
    affine.store %1, %a[%i] : memref<64xf32>
  }
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    %0 = memref.load %a[%i] : memref<64xf32>
    %1 = arith.mulf %0, %0 : f32
    memref.store %1, %a[%i] : memref<64xf32>
  }
  return
}

func.func @matmul(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%c : memref<64x64xf32>)
  return
}

func.func @matvec(%a: memref<64x64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  linalg.matvec ins(%a, %b : memref<64x64xf32>, memref<64xf32>) outs(%c : memref<64xf32>)
  return
}
