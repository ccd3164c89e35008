// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s
// RUN: mopt-compile %s -o %t.s --cpu skylake-avx512 && FileCheck %s --check-prefix=ASM --input-file=%t.s

// LLVM vectorises the loops of what was not tiled, and only those: the innermost ones of linalg
// operations are marked, loops that stand in the source are not.
// CHECK-LABEL:   llvm.func @add
// CHECK:           llvm.br {{.*}} {loop_annotation = #[[MARK:.+]]}
// CHECK-NOT:       loop_annotation
// CHECK-LABEL:   llvm.func @loop
// CHECK-NOT:       loop_annotation
// CHECK:           llvm.return

// ASM-LABEL:     add:
// ASM:             vaddps {{.*}}%zmm
// ASM-LABEL:     loop:
// ASM-NOT:         {{vaddps|vmulps}}
// ASM:             vaddss
// ASM-NOT:         {{vaddps|vmulps}}
// ASM:             vmulss
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
