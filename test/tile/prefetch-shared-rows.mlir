// RUN: mopt-opt --mopt-tile="machine=graniterapids" %s | FileCheck %s

// CHECK-DAG: #[[OF4:.*]] = affine_map<(d0) -> ((d0 floordiv 8) mod 4)>
// CHECK-DAG: #[[FOURTH:.*]] = affine_map<(d0) -> (d0 mod 4)>
// CHECK-DAG: #[[OF3:.*]] = affine_map<(d0) -> ((d0 floordiv 8) mod 3)>
// CHECK-DAG: #[[OF_PIECE:.*]] = affine_map<(d0, d1) -> ((d0 - d1) mod 4)>
// CHECK-DAG: #[[ZERO:.*]] = affine_set<(d0) : (d0 == 0)>

// Four register tiles read the same input until the next pixels come: in every fourth step each asks
// for a row of these, of all rows a fourth.

// CHECK-LABEL: func.func @four
// CHECK:         affine.for %[[K:k.*]] = 0 to 32 step 8
// CHECK:           affine.for %[[C:c.+]] = 0 to 256 iter_args
// CHECK:             %[[TURN:.+]] = affine.apply #[[OF4]](%[[K]])
// CHECK-NEXT:        %[[STEP:.+]] = affine.apply #[[FOURTH]](%[[C]])
// CHECK-NEXT:        affine.if #[[ZERO]](%[[STEP]]) {
// CHECK-NEXT:          affine.prefetch %input[0, %[[C]] + %[[TURN]], %w_L2 + 32], read, locality<2>
// CHECK-NEXT:          affine.prefetch %input[0, %[[C]] + %[[TURN]], %w_L2 + 48], read, locality<2>
// CHECK-NEXT:          affine.prefetch %input[0, %[[C]] + %[[TURN]], %w_L2 + 63], read, locality<2>
// CHECK-NEXT:        }
// CHECK-NOT:         prefetch %input
// CHECK:             vector.outerproduct
func.func @four(%input: memref<1x256x8x64xf32>, %weights: memref<32x256x1x1xf32>,
    %output: memref<1x32x8x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "none", prefetch = "both",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"], tile = {k = 32, w = 32, c = 256}}]}}
    ins(%input, %weights : memref<1x256x8x64xf32>, memref<32x256x1x1xf32>)
    outs(%output : memref<1x32x8x64xf32>)
  return
}

// The fifth asks once more for what the first one has asked for.

// CHECK-LABEL: func.func @five
// CHECK:         affine.for %[[K:k.*]] = 0 to 40 step 8
// CHECK:           affine.for %[[C:c.+]] = 0 to 256 iter_args
// CHECK:             affine.apply #[[OF4]](%[[K]])
// CHECK-NEXT:        %[[STEP:.+]] = affine.apply #[[FOURTH]](%[[C]])
// CHECK-NEXT:        affine.if #[[ZERO]](%[[STEP]]) {
func.func @five(%input: memref<1x256x8x64xf32>, %weights: memref<40x256x1x1xf32>,
    %output: memref<1x40x8x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "none", prefetch = "both",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"], tile = {k = 40, w = 32, c = 256}}]}}
    ins(%input, %weights : memref<1x256x8x64xf32>, memref<40x256x1x1xf32>)
    outs(%output : memref<1x40x8x64xf32>)
  return
}

// Of three tiles one would ask for half of all rows once more: each asks in each step, for a line.

// CHECK-LABEL: func.func @three
// CHECK:         affine.for %[[K:k.*]] = 0 to 24 step 8
// CHECK:           affine.for %[[C:c.+]] = 0 to 256 iter_args
// CHECK:             %[[PART:.+]] = affine.apply #[[OF3]](%[[K]])
// CHECK-NEXT:        affine.prefetch %input[0, %[[C]], %w_L2 + %[[PART]] * 16 + 32], read, locality<2>
// CHECK-NOT:         prefetch %input
// CHECK:             vector.outerproduct
func.func @three(%input: memref<1x256x8x64xf32>, %weights: memref<24x256x1x1xf32>,
    %output: memref<1x24x8x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "none", prefetch = "both",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"], tile = {k = 24, w = 32, c = 256}}]}}
    ins(%input, %weights : memref<1x256x8x64xf32>, memref<24x256x1x1xf32>)
    outs(%output : memref<1x24x8x64xf32>)
  return
}

// There are not as many rows as tiles.

// CHECK-LABEL: func.func @fewer_rows
// CHECK:         affine.for %[[K:k.*]] = 0 to 32 step 8
// CHECK:           affine.for %[[C:c.+]] = 0 to 3 iter_args
// CHECK:             %[[PART:.+]] = affine.apply #[[OF3]](%[[K]])
// CHECK-NEXT:        affine.prefetch %input[0, %[[C]], %w_L2 + %[[PART]] * 16 + 32], read, locality<2>
// CHECK-NOT:         prefetch %input
// CHECK:             vector.outerproduct
func.func @fewer_rows(%input: memref<1x3x8x64xf32>, %weights: memref<32x3x1x1xf32>,
    %output: memref<1x32x8x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "none", prefetch = "both",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"], tile = {k = 32, w = 32, c = 3}}]}}
    ins(%input, %weights : memref<1x3x8x64xf32>, memref<32x3x1x1xf32>)
    outs(%output : memref<1x32x8x64xf32>)
  return
}

// Where input is asked for only once each tile asks in each step.

// CHECK-LABEL: func.func @asked_once
// CHECK:         affine.for %[[K:k.*]] = 0 to 32 step 8
// CHECK:           affine.for %[[C:c.+]] = 0 to 256 iter_args
// CHECK-NEXT:        %[[PART:.+]] = affine.apply #[[OF3]](%[[K]])
// CHECK-NEXT:        affine.prefetch %input[0, %[[C]], %w_L2 + %[[PART]] * 16 + 32], read, locality<2>
// CHECK-NOT:         prefetch %input
// CHECK:             vector.outerproduct
func.func @asked_once(%input: memref<1x256x8x64xf32>, %weights: memref<32x256x1x1xf32>,
    %output: memref<1x32x8x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "none", prefetch = "L2",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["k", "c", "w"], tile = {k = 32, w = 32, c = 256}}]}}
    ins(%input, %weights : memref<1x256x8x64xf32>, memref<32x256x1x1xf32>)
    outs(%output : memref<1x32x8x64xf32>)
  return
}

// The steps of a piece of the channels count from its first one.

// CHECK-LABEL: func.func @pieces
// CHECK:         affine.for %[[PIECE:c.*]] = 0 to 250 step 50
// CHECK:           affine.for %[[K:k.*]] = 0 to 32 step 8
// CHECK:             affine.for %[[C:c.+]] = #{{.*}}(%[[PIECE]]) to #{{.*}}(%[[PIECE]]) iter_args
// CHECK:               %[[TURN:.+]] = affine.apply #[[OF4]](%[[K]])
// CHECK-NEXT:          %[[STEP:.+]] = affine.apply #[[OF_PIECE]](%[[C]], %[[PIECE]])
// CHECK-NEXT:          affine.if #[[ZERO]](%[[STEP]]) {
// CHECK-NEXT:            affine.prefetch %input[0, %[[C]] + %[[TURN]], %w_L2 + 32], read, locality<2>
func.func @pieces(%input: memref<1x250x8x64xf32>, %weights: memref<32x250x1x1xf32>,
    %output: memref<1x32x8x64xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "graniterapids", threads = 1, packing = "none", prefetch = "both",
      microkernel = {lanes = "w", vector = 16, tile = {k = 8, w = 32}, reduction = ["c"]},
      levels = [{name = "L2", order = ["w", "c", "k"], tile = {k = 8, w = 32, c = 50}}]}}
    ins(%input, %weights : memref<1x250x8x64xf32>, memref<32x250x1x1xf32>)
    outs(%output : memref<1x32x8x64xf32>)
  return
}
