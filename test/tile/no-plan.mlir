// RUN: mopt-opt --mopt-tile="machine={znver5,L1.size=64,L1.ways=1}" --verify-diagnostics %s

// A machine whose cache holds no register tile is an error at the operation, not a wrong plan.

func.func @conv(%input: memref<1x64x58x58xf32>, %weights: memref<64x64x3x3xf32>,
                %output: memref<1x64x56x56xf32>) {
  // expected-error @+1 {{no plan for machine 'znver5}}
  linalg.conv_2d_nchw_fchw
    ins(%input, %weights : memref<1x64x58x58xf32>, memref<64x64x3x3xf32>)
    outs(%output : memref<1x64x56x56xf32>)
  return
}
