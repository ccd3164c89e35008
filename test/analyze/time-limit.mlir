// RUN: mopt-opt --mopt-analyze="machine=znver5 time-limit=0.000001 gap=0.000001" --verify-diagnostics %s

// The best plan so far is taken, and the gap that it has is told.

func.func @conv(%input: memref<1x64x58x58xf32>, %weights: memref<64x64x3x3xf32>,
                %output: memref<1x64x56x56xf32>) {
  // expected-remark-re @+1 {{the time limit of 1e-06 s ended the search for a plan: the one found may cost {{[0-9.]+}}% more than the best possible one, 0.0001% was asked for}}
  linalg.conv_2d_nchw_fchw
    ins(%input, %weights : memref<1x64x58x58xf32>, memref<64x64x3x3xf32>)
    outs(%output : memref<1x64x56x56xf32>)
  return
}
