// RUN: mopt-opt --mopt-tile="machine=znver5" %s | FileCheck %s

// What later register tiles access is asked for into the cache that the plan names, here L2: where
// it is read much later, it would drive out of L1 what is used now. There is no instruction that
// would ask for it into L2 for writing.

// CHECK-LABEL: func.func @later_tiles
// CHECK:         affine.prefetch %arg2{{.*}}, read, locality<2>
// CHECK-NOT:     locality<3>
// CHECK:         affine.prefetch %arg0[0, %{{.+}}, %h + %{{.+}} + 1, %w], read, locality<2>
// CHECK-NOT:     locality<3>
// CHECK:         return
func.func @later_tiles(%input: memref<1x3x16x30xf32>, %weights: memref<16x3x3x3xf32>,
                       %output: memref<1x16x14x28xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x3x16x30xf32>, memref<16x3x3x3xf32>)
    outs(%output : memref<1x16x14x28xf32>)
  return
}

// Panels, too.

// CHECK-LABEL: func.func @next_panel
// CHECK:         %[[PANELS:.+]] = memref.alloc() {{.*}} : memref<4x128x3x3x16xf32>
// CHECK:         affine.prefetch %[[PANELS]][%panel + 1, {{.*}}], read, locality<2>
func.func @next_panel(%input: memref<1x128x8x16xf32>, %weights: memref<64x128x3x3xf32>,
                      %output: memref<1x64x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x128x8x16xf32>, memref<64x128x3x3xf32>)
    outs(%output : memref<1x64x6x14xf32>)
  return
}

// So does the output of the same register tile; and what it reads twelve channels later takes the way
// through L2: it is asked for from there into L1 one channel before it is read.

// CHECK-LABEL: func.func @later_channel
// CHECK:         affine.prefetch %arg2{{.*}}, read, locality<2>
// CHECK:         affine.for %[[C:c.+]] = 0 to 72 iter_args
// CHECK:           arith.select %{{.+}}, %c-18416, %c0 : index
// CHECK-COUNT-2:   memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK:           arith.select %{{.+}}, %c-18416, %c0 : index
// CHECK-COUNT-2:   memref.prefetch %arg0[{{.*}}], read, locality<2>
// CHECK-NOT:       memref.prefetch
// CHECK:         return
func.func @later_channel(%input: memref<1x72x16x16xf32>, %weights: memref<16x72x3x3xf32>,
                         %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32>, memref<16x72x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// With both, each step asks for what later tiles read into L2, and for what it is about to read from
// there, here the next channel, into L1: for all rows of taps at once. Behind the last channel that
// is the first one of the next register tile, 14 further on and 32 channels of 480 back.

// CHECK-LABEL: func.func @both
// CHECK:         affine.prefetch %arg2{{.*}}, read, locality<2>
// CHECK:         affine.for %[[C:c.*]] = 0 to 32 iter_args
// CHECK-NOT:     locality<2>
// CHECK:         %[[BEHIND:.+]] = arith.cmpi uge, %{{.+}}, %c32 : index
// CHECK-NEXT:    %[[WRAP:.+]] = arith.select %[[BEHIND]], %c-15346, %c0 : index
// CHECK-COUNT-6: memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK-NOT:     memref.prefetch
// CHECK:         affine.prefetch %arg0[0, %[[C]], %h + 1, %w], read, locality<2>
// CHECK-COUNT-5: affine.prefetch %arg0[{{.*}}], read, locality<2>
// CHECK-NOT:     prefetch %arg0
// CHECK:         affine.for %r
// CHECK-NOT:     prefetch %arg0
// CHECK:         return
func.func @both(%input: memref<1x32x16x30xf32>, %weights: memref<16x32x3x3xf32>,
                %output: memref<1x16x14x28xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x32x16x30xf32>, memref<16x32x3x3xf32>)
    outs(%output : memref<1x16x14x28xf32>)
  return
}

// Five rows of taps are asked for one by one.

// CHECK-LABEL: func.func @both_row_by_row
// CHECK:         affine.for %[[C:c.*]] = 0 to 20 iter_args
// CHECK:           affine.for %[[R:r.*]] = 0 to 5 iter_args
// CHECK-COUNT-2:     memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK-NEXT:        affine.prefetch %arg0[0, %[[C]], %h + %[[R]] + 1, %w], read, locality<2>
// CHECK:             affine.for %s
// CHECK-NOT:           prefetch %arg0
// CHECK:         return
func.func @both_row_by_row(%input: memref<1x20x18x30xf32>, %weights: memref<16x20x5x3xf32>,
                           %output: memref<1x16x14x28xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x20x18x30xf32>, memref<16x20x5x3xf32>)
    outs(%output : memref<1x16x14x28xf32>)
  return
}

// A long reduction asks for what it reads 800 cycles later, twelve channels, into L2 as well, in up
// to eight passes.

// CHECK-LABEL: func.func @both_later_channel
// CHECK:         affine.for %c{{.*}} = 0 to 72 iter_args
// CHECK:           arith.select %{{.+}}, %c-18416, %c0 : index
// CHECK-COUNT-6:   memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK:           arith.select %{{.+}}, %c-18416, %c0 : index
// CHECK-COUNT-6:   memref.prefetch %arg0[{{.*}}], read, locality<2>
// CHECK-NOT:       memref.prefetch
// CHECK:         return
func.func @both_later_channel(%input: memref<1x72x16x16xf32>, %weights: memref<128x72x3x3xf32>,
                              %output: memref<1x128x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32>, memref<128x72x3x3xf32>)
    outs(%output : memref<1x128x14x14xf32>)
  return
}

// Where nine register tiles read it, one after the other, all but the first find it in L2.

// CHECK-LABEL: func.func @both_many_passes
// CHECK:         affine.for %c{{.*}} = 0 to 72 iter_args
// CHECK-COUNT-6:   memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK-NOT:       memref.prefetch
// CHECK:         return
func.func @both_many_passes(%input: memref<1x72x16x16xf32>, %weights: memref<144x72x3x3xf32>,
                            %output: memref<1x144x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32>, memref<144x72x3x3xf32>)
    outs(%output : memref<1x144x14x14xf32>)
  return
}

// Two rows of output and three of taps read four rows of input, each of which is asked for once.

// CHECK-LABEL: func.func @both_two_rows
// CHECK:         affine.for %c{{.*}} = 0 to 72 iter_args
// CHECK-COUNT-8:   memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK-NOT:       locality<3>
// CHECK-COUNT-8:   memref.prefetch %arg0[{{.*}}], read, locality<2>
// CHECK-NOT:       memref.prefetch
// CHECK:         return
func.func @both_two_rows(%input: memref<1x72x16x16xf32>, %weights: memref<16x72x3x3xf32>,
                         %output: memref<1x16x14x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "both",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, h = 2, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x72x16x16xf32>, memref<16x72x3x3xf32>)
    outs(%output : memref<1x16x14x14xf32>)
  return
}

// A reduction of 288 outer products takes 2016 cycles: enough for what comes twelve channels later to
// take the way through L2 as well, also in front of the first of all register tiles.

// CHECK-LABEL: func.func @few_passes
// CHECK:         affine.for %[[C:c.+]] = 0 to 32 iter_args
// CHECK:           affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-COUNT-2:     memref.prefetch %arg0[{{.*}}], read, locality<3>
// CHECK-COUNT-2:     memref.prefetch %arg0[{{.*}}], read, locality<2>
// CHECK-NOT:         prefetch %arg0
// CHECK:         return
func.func @few_passes(%input: memref<1x32x16x30xf32>, %weights: memref<256x32x3x3xf32>,
                      %output: memref<1x256x14x28xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x32x16x30xf32>, memref<256x32x3x3xf32>)
    outs(%output : memref<1x256x14x28xf32>)
  return
}

// With more passes through the input most of them find it in L2: the next row is asked for.

// CHECK-LABEL: func.func @many_passes
// CHECK:         affine.for %[[C:c.+]] = 0 to 32 iter_args
// CHECK:           affine.for %[[R:r.+]] = 0 to 3 iter_args
// CHECK-NEXT:        affine.prefetch %arg0[0, %[[C]], %h + %[[R]] + 1, %w], read, locality<2>
// CHECK-NEXT:        affine.prefetch %arg0[0, %[[C]], %h + %[[R]] + 1, %w + 15], read, locality<2>
// CHECK-NOT:         prefetch %arg0
// CHECK:         return
func.func @many_passes(%input: memref<1x32x16x30xf32>, %weights: memref<272x32x3x3xf32>,
                       %output: memref<1x272x14x28xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [], prefetch = "L2",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x32x16x30xf32>, memref<272x32x3x3xf32>)
    outs(%output : memref<1x272x14x28xf32>)
  return
}
