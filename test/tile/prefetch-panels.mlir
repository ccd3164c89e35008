// RUN: mopt-opt --mopt-tile="machine=znver5" %s --split-input-file | FileCheck %s

// More panels than L2 keeps: the six register tiles that read a panel ask for two of the nine lines
// per channel of the next one; the five parts that there are begin 128 * 2 lines after each other.

// CHECK-LABEL: func.func @next_panel
// CHECK:         %[[PANELS:.+]] = memref.alloc() {{.*}} : memref<4x128x3x3x16xf32>
// CHECK:         affine.for %k = 0 to 64 step 16
// CHECK:           affine.for %h = 0 to 6
// CHECK:             %part = affine.apply {{.*}}(%h)
// CHECK:             affine.for %[[C:c.+]] = 0 to 128 iter_args
// CHECK-NEXT:          affine.prefetch %[[PANELS]][%panel + 1, 0, 0, 0, %part * 4096 + %[[C]] * 32], read, locality<3>
// CHECK-NEXT:          affine.prefetch %[[PANELS]][%panel + 1, 0, 0, 0, %part * 4096 + %[[C]] * 32 + 16], read, locality<3>
// CHECK-NOT:           affine.prefetch %[[PANELS]]
// CHECK:               vector.outerproduct
func.func @next_panel(%input: memref<1x128x8x16xf32>, %weights: memref<64x128x3x3xf32>,
                      %output: memref<1x64x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]}}}
    ins(%input, %weights : memref<1x128x8x16xf32>, memref<64x128x3x3xf32>)
    outs(%output : memref<1x64x6x14xf32>)
  return
}

// -----

// A line of a panel per channel, and twenty register tiles that read it: each asks in one of eight
// steps, for the 128 lines of its eighth part.

// CHECK-LABEL: func.func @next_panel_in_turns
// CHECK:         affine.for %w = 0 to 280 step 14
// CHECK:           %part = affine.apply {{.+}}(%w)
// CHECK:           affine.for %[[C:c.*]] = 0 to 1024 iter_args
// CHECK:             %[[DUE:due.*]] = affine.apply {{.+}}(%[[C]])
// CHECK-NEXT:        %[[TURN:turn.*]] = affine.apply {{.+}}(%[[C]])
// CHECK-NEXT:        affine.if {{.+}}(%[[DUE]]) {
// CHECK-NEXT:          affine.prefetch %panels[%panel + 1, 0, %part * 2048 + %[[TURN]] * 16], read, locality<3>
// CHECK-NEXT:        }
// CHECK-NOT:         affine.prefetch %panels
// CHECK:             vector.outerproduct
func.func @next_panel_in_turns(%input: memref<1x1024x20x14xf32>, %weights: memref<128x1024x1x1xf32>,
                               %output: memref<1x128x20x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1024x20x14xf32>, memref<128x1024x1x1xf32>)
    outs(%output : memref<1x128x20x14xf32>)
  return
}

// -----

// Beside sixteen multiply-adds a prefetch in each step does not weigh.

// CHECK-LABEL: func.func @next_panel_each_step
// CHECK:           affine.for %[[C:c.*]] = 0 to 1024 iter_args
// CHECK:             affine.prefetch %panels[%panel + 1, 0, %[[C]] * 16], read, locality<3>
// CHECK-NOT:         affine.prefetch %panels
// CHECK:             vector.outerproduct
func.func @next_panel_each_step(%input: memref<1x1024x20x16xf32>, %weights: memref<128x1024x1x1xf32>,
                                %output: memref<1x128x20x16xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 16}, reduction = ["c"]}}}
    ins(%input, %weights : memref<1x1024x20x16xf32>, memref<128x1024x1x1xf32>)
    outs(%output : memref<1x128x20x16xf32>)
  return
}

// -----

// One tap at a time: only the line that a tap reads of each channel, three taps apart; behind the
// last tap the first one of the next panel.

// CHECK-DAG:     #[[PANEL:.+]] = affine_map<(d0, d1) -> (d0 + d1)>
// CHECK-DAG:     #[[TAP:.+]] = affine_map<(d0, d1) -> (d0 + d1 + 1)>
// CHECK-LABEL: func.func @next_tap
// CHECK:         affine.for %s_L1 = 0 to 3
// CHECK:           arith.cmpi uge, %{{.+}}, %c3
// CHECK-NEXT:      %[[BACK:wrap.*]] = arith.select %{{.+}}, %c-3, %c0
// CHECK:           %[[ON:wrap.*]] = arith.select %{{.+}}, %c1, %c0
// CHECK:             affine.for %[[C:c.+]] = 0 to 256 iter_args
// CHECK-NEXT:          %[[NEXT_PANEL:.+]] = affine.apply #[[PANEL]](%panel, %[[ON]])
// CHECK-NEXT:          %[[NEXT_TAP:.+]] = affine.apply #[[TAP]](%s_L1, %[[BACK]])
// CHECK-NEXT:          %[[LINE:.+]] = affine.apply #{{.+}}(%[[C]])
// CHECK-NEXT:          memref.prefetch %panels[%[[NEXT_PANEL]], %c0, %[[NEXT_TAP]], %[[LINE]]], read, locality<3>
// CHECK-NOT:           prefetch %panels
// CHECK:               vector.outerproduct
func.func @next_tap(%input: memref<1x256x6x16xf32>, %weights: memref<128x256x1x3xf32>,
                    %output: memref<1x128x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "s"]},
      levels = [{name = "L1", order = ["k", "s", "h", "w", "c"],
                 tile = {k = 16, h = 6, w = 14, c = 256, s = 1}}]}}
    ins(%input, %weights : memref<1x256x6x16xf32>, memref<128x256x1x3xf32>)
    outs(%output : memref<1x128x6x14xf32>)
  return
}

// -----

// Two of nine taps at a time: the loop over them asks, so that what lies between is left alone.
// Behind the last column the next two rows begin.

// CHECK-DAG:     #[[ROW:.+]] = affine_map<(d0, d1) -> (d0 + d1)>
// CHECK-DAG:     #[[COLUMN:.+]] = affine_map<(d0, d1) -> (d0 + d1 + 1)>
// CHECK-LABEL: func.func @two_taps
// CHECK:         %[[BACK:wrap.*]] = arith.select %{{.+}}, %c-3, %c0
// CHECK:         %[[ON:wrap.*]] = arith.select %{{.+}}, %c2, %c0
// CHECK:         affine.for %[[C:c.+]] = 0 to 256 iter_args
// CHECK-NOT:       prefetch %panels
// CHECK:           affine.for %[[R:r.+]] = #{{.+}}(%r_L1) to min #{{.+}}(%r_L1) iter_args
// CHECK:             %[[NEXT_ROW:.+]] = affine.apply #[[ROW]](%r_L1, %[[ON]])
// CHECK-NEXT:        %[[NEXT_COLUMN:.+]] = affine.apply #[[COLUMN]](%s_L1, %[[BACK]])
// CHECK-NEXT:        %[[LINE:.+]] = affine.apply #{{.+}}(%[[R]], %r_L1)
// CHECK-NEXT:        memref.prefetch %panels[%panel, %[[C]], %[[NEXT_ROW]], %[[NEXT_COLUMN]], %[[LINE]]], read
// CHECK-NOT:         prefetch %panels
// CHECK:             vector.outerproduct
func.func @two_taps(%input: memref<1x256x8x16xf32>, %weights: memref<64x256x3x3xf32>,
                    %output: memref<1x64x6x14xf32>) {
  linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "znver5", threads = 1, packing = "whole",
      microkernel = {lanes = "k", vector = 16, tile = {k = 16, w = 14}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "r", "s", "h", "w", "c"],
                 tile = {k = 16, h = 6, w = 14, c = 256, r = 2, s = 1}}]}}
    ins(%input, %weights : memref<1x256x8x16xf32>, memref<64x256x3x3xf32>)
    outs(%output : memref<1x64x6x14xf32>)
  return
}
