// RUN: mopt-opt --mopt-tile="machine=znver5" --split-input-file --verify-diagnostics %s | FileCheck %s

// What cannot be tiled stays as it is and says why.

// CHECK-LABEL: func.func @dynamic
// CHECK:         linalg.conv_2d_nchw_fchw
func.func @dynamic(%a: memref<?x3x6x6xf32>, %f: memref<16x3x3x3xf32>, %x: memref<?x16x4x4xf32>) {
  // expected-remark @+1 {{'linalg.conv_2d_nchw_fchw' is not tiled: its operand type memref<?x3x6x6xf32> has a dynamic shape}}
  linalg.conv_2d_nchw_fchw ins(%a, %f : memref<?x3x6x6xf32>, memref<16x3x3x3xf32>)
    outs(%x : memref<?x16x4x4xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @integers
// CHECK:         linalg.conv_2d
func.func @integers(%a: memref<6x6xi32>, %f: memref<3x3xi32>, %x: memref<4x4xi32>) {
  // expected-remark @+1 {{its elements are integers; f32 and f64 are supported}}
  linalg.conv_2d ins(%a, %f : memref<6x6xi32>, memref<3x3xi32>) outs(%x : memref<4x4xi32>)
  return
}

// -----

// CHECK-LABEL: func.func @complex
// CHECK:         linalg.conv_2d
func.func @complex(%a: memref<6x6xcomplex<f32>>, %f: memref<3x3xcomplex<f32>>,
                   %x: memref<4x4xcomplex<f32>>) {
  // expected-remark @+1 {{its elements are complex; f32 and f64 are supported}}
  linalg.conv_2d ins(%a, %f : memref<6x6xcomplex<f32>>, memref<3x3xcomplex<f32>>)
    outs(%x : memref<4x4xcomplex<f32>>)
  return
}

// -----

// CHECK-LABEL: func.func @half
// CHECK:         linalg.conv_2d
func.func @half(%a: memref<6x6xf16>, %f: memref<3x3xf16>, %x: memref<4x4xf16>) {
  // expected-remark @+1 {{its element type is f16; f32 and f64 are supported}}
  linalg.conv_2d ins(%a, %f : memref<6x6xf16>, memref<3x3xf16>) outs(%x : memref<4x4xf16>)
  return
}

// -----

// CHECK-LABEL: func.func @matmul
// CHECK:         linalg.matmul
func.func @matmul(%a: memref<6x6xf32>, %f: memref<6x6xf32>, %x: memref<6x6xf32>) {
  // expected-remark @+1 {{'linalg.matmul' is not tiled: it is not a convolution}}
  linalg.matmul ins(%a, %f : memref<6x6xf32>, memref<6x6xf32>) outs(%x : memref<6x6xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @depthwise
// CHECK:         linalg.depthwise
func.func @depthwise(%a: memref<1x6x6x3xf32>, %f: memref<3x3x3xf32>, %x: memref<1x4x4x3xf32>) {
  // expected-remark @+1 {{it is a depthwise or grouped convolution}}
  linalg.depthwise_conv_2d_nhwc_hwc ins(%a, %f : memref<1x6x6x3xf32>, memref<3x3x3xf32>)
    outs(%x : memref<1x4x4x3xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @pooling
// CHECK:         linalg.pooling_nhwc_max
func.func @pooling(%a: memref<1x6x6x3xf32>, %f: memref<3x3xf32>, %x: memref<1x4x4x3xf32>) {
  // expected-remark @+1 {{it does not multiply and accumulate}}
  linalg.pooling_nhwc_max ins(%a, %f : memref<1x6x6x3xf32>, memref<3x3xf32>)
    outs(%x : memref<1x4x4x3xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @grouped
// CHECK:         linalg.conv_2d_ngchw_gfchw
func.func @grouped(%a: memref<1x2x3x6x6xf32>, %f: memref<2x4x3x3x3xf32>, %x: memref<1x2x4x4x4xf32>) {
  // expected-remark @+1 {{is not tiled: it is a depthwise or grouped convolution}}
  linalg.conv_2d_ngchw_gfchw ins(%a, %f : memref<1x2x3x6x6xf32>, memref<2x4x3x3x3xf32>)
    outs(%x : memref<1x2x4x4x4xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @elementwise
// CHECK:         linalg.add
func.func @elementwise(%a: memref<4xf32>, %b: memref<4xf32>, %x: memref<4xf32>) {
  linalg.add ins(%a, %b : memref<4xf32>, memref<4xf32>) outs(%x : memref<4xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @squares
// CHECK:         linalg.generic
func.func @squares(%a: memref<10xf32>, %f: memref<3xf32>, %x: memref<8xf32>) {
  // expected-remark @+1 {{'linalg.generic' is not tiled: its body does not add input times weights to the output}}
  linalg.generic {indexing_maps = [affine_map<(w, s) -> (w + s)>, affine_map<(w, s) -> (s)>,
                                   affine_map<(w, s) -> (w)>],
                  iterator_types = ["parallel", "reduction"]}
    ins(%a, %f : memref<10xf32>, memref<3xf32>) outs(%x : memref<8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %p : f32
    %n = arith.addf %o, %m : f32
    linalg.yield %n : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @not_strided
// CHECK:         linalg.conv_2d
#rows_apart = affine_map<(i, j) -> (i floordiv 2, j, i mod 2)>
func.func @not_strided(%a: memref<6x6xf32, #rows_apart>, %f: memref<3x3xf32>,
                       %x: memref<4x4xf32>) {
  // expected-remark @+1 {{is not strided}}
  linalg.conv_2d ins(%a, %f : memref<6x6xf32, #rows_apart>, memref<3x3xf32>)
    outs(%x : memref<4x4xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @batches
// CHECK:         linalg.generic
func.func @batches(%a: memref<2x5x3x6x6xf32>, %f: memref<3x3xf32>, %x: memref<2x5x3x4x4xf32>) {
  // expected-remark @+1 {{'linalg.generic' is not tiled: it has 3 batch dims; 1 is supported}}
  linalg.generic {
    indexing_maps = [affine_map<(l, m, n, h, w, r, s) -> (l, m, n, h + r, w + s)>,
                     affine_map<(l, m, n, h, w, r, s) -> (r, s)>,
                     affine_map<(l, m, n, h, w, r, s) -> (l, m, n, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction",
                      "reduction"]}
    ins(%a, %f : memref<2x5x3x6x6xf32>, memref<3x3xf32>) outs(%x : memref<2x5x3x4x4xf32>) {
  ^bb0(%i: f32, %k: f32, %o: f32):
    %p = arith.mulf %i, %k : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @channels
// CHECK:         linalg.generic
func.func @channels(%a: memref<2x3x6x6xf32>, %f: memref<8x2x3x3x3xf32>, %x: memref<8x4x4xf32>) {
  // expected-remark @+1 {{it has 2 input channel dims; 1 is supported}}
  linalg.generic {
    indexing_maps = [affine_map<(k, h, w, c, d, r, s) -> (c, d, h + r, w + s)>,
                     affine_map<(k, h, w, c, d, r, s) -> (k, c, d, r, s)>,
                     affine_map<(k, h, w, c, d, r, s) -> (k, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel",
                      "reduction", "reduction", "reduction", "reduction"]}
    ins(%a, %f : memref<2x3x6x6xf32>, memref<8x2x3x3x3xf32>) outs(%x : memref<8x4x4xf32>) {
  ^bb0(%i: f32, %k: f32, %o: f32):
    %p = arith.mulf %i, %k : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @diagonal
// CHECK:         linalg.generic
func.func @diagonal(%a: memref<7x5xf32>, %f: memref<5x16x5xf32>, %x: memref<7x16xf32>) {
  // expected-remark @+1 {{'linalg.generic' is not tiled: one of its loops moves along two axes of the weights}}
  linalg.generic {indexing_maps = [affine_map<(h, k, c) -> (h, c)>,
                                   affine_map<(h, k, c) -> (c, k, c)>,
                                   affine_map<(h, k, c) -> (h, k)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %f : memref<7x5xf32>, memref<5x16x5xf32>) outs(%x : memref<7x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %o, %m : f32
    linalg.yield %n : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @diagonal_of_the_output
// CHECK:         linalg.generic
func.func @diagonal_of_the_output(%a: memref<7x5xf32>, %f: memref<16x5xf32>,
                                  %x: memref<7x7x16xf32>) {
  // expected-remark @+1 {{'linalg.generic' is not tiled: one of its loops moves along two axes of the output}}
  linalg.generic {indexing_maps = [affine_map<(h, k, c) -> (h, c)>,
                                   affine_map<(h, k, c) -> (k, c)>,
                                   affine_map<(h, k, c) -> (h, h, k)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %f : memref<7x5xf32>, memref<16x5xf32>) outs(%x : memref<7x7x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %o, %m : f32
    linalg.yield %n : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @diagonal_of_the_input
// CHECK:         linalg.generic
func.func @diagonal_of_the_input(%a: memref<7x7x5xf32>, %f: memref<16x5xf32>,
                                 %x: memref<7x16xf32>) {
  // expected-remark @+1 {{'linalg.generic' is not tiled: one of its loops moves along two axes of the input}}
  linalg.generic {indexing_maps = [affine_map<(h, k, c) -> (h, h, c)>,
                                   affine_map<(h, k, c) -> (k, c)>,
                                   affine_map<(h, k, c) -> (h, k)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %f : memref<7x7x5xf32>, memref<16x5xf32>) outs(%x : memref<7x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %o, %m : f32
    linalg.yield %n : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @in_place
// CHECK:         linalg.fill
// CHECK:         linalg.conv_2d
func.func @in_place(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%x : memref<8x8xf32>)
  // expected-remark @+1 {{'linalg.conv_2d' is not tiled: its output is its input, too; give it another buffer}}
  linalg.conv_2d ins(%x, %f : memref<8x8xf32>, memref<1x1xf32>) outs(%x : memref<8x8xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @weights_in_place
// CHECK:         linalg.conv_2d
func.func @weights_in_place(%a: memref<5x5xf32>, %x: memref<3x3xf32>) {
  // expected-remark @+1 {{'linalg.conv_2d' is not tiled: its output is its weights, too; give it another buffer}}
  linalg.conv_2d ins(%a, %x : memref<5x5xf32>, memref<3x3xf32>) outs(%x : memref<3x3xf32>)
  return
}

// -----

#sum = affine_map<(h, w, k, c) -> (h + w, c)>
#weights = affine_map<(h, w, k, c) -> (c, k)>
#result = affine_map<(h, w, k, c) -> (h, w, k)>
// CHECK-LABEL: func.func @sum_of_pixels
// CHECK:         linalg.generic
func.func @sum_of_pixels(%a: memref<9x4xf32>, %f: memref<4x8xf32>, %x: memref<5x5x8xf32>) {
  // expected-remark @+1 {{it sums up others than an image and a filter dim}}
  linalg.generic {indexing_maps = [#sum, #weights, #result],
                  iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%a, %f : memref<9x4xf32>, memref<4x8xf32>) outs(%x : memref<5x5x8xf32>) {
  ^bb0(%i: f32, %k: f32, %o: f32):
    %p = arith.mulf %i, %k : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}

// -----

#sum = affine_map<(n, k, r, s) -> (n, r + s)>
#weights = affine_map<(n, k, r, s) -> (r, s, k)>
#result = affine_map<(n, k, r, s) -> (n, k)>
// CHECK-LABEL: func.func @sum_of_taps
// CHECK:         linalg.generic
func.func @sum_of_taps(%a: memref<4x5xf32>, %f: memref<3x3x8xf32>, %x: memref<4x8xf32>) {
  // expected-remark @+1 {{it sums up others than an image and a filter dim}}
  linalg.generic {indexing_maps = [#sum, #weights, #result],
                  iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %f : memref<4x5xf32>, memref<3x3x8xf32>) outs(%x : memref<4x8xf32>) {
  ^bb0(%i: f32, %k: f32, %o: f32):
    %p = arith.mulf %i, %k : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}

// -----

#image = affine_map<(d, e, h, w, k, p, q, r, s) -> (d + p, e + q, h + r, w + s)>
#weights = affine_map<(d, e, h, w, k, p, q, r, s) -> (p, q, r, s, k)>
#result = affine_map<(d, e, h, w, k, p, q, r, s) -> (d, e, h, w, k)>
// CHECK-LABEL: func.func @four_image_dims
// CHECK:         linalg.generic
func.func @four_image_dims(%a: memref<4x4x4x4xf32>, %f: memref<3x3x3x3x8xf32>,
                           %x: memref<2x2x2x2x8xf32>) {
  // expected-remark @+1 {{it has 4 image dims; 3 are supported}}
  linalg.generic {
    indexing_maps = [#image, #weights, #result],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                      "reduction", "reduction", "reduction", "reduction"]}
    ins(%a, %f : memref<4x4x4x4xf32>, memref<3x3x3x3x8xf32>) outs(%x : memref<2x2x2x2x8xf32>) {
  ^bb0(%i: f32, %k: f32, %o: f32):
    %p = arith.mulf %i, %k : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}

// -----

#image = affine_map<(h, k, r) -> (h + r)>
#weights = affine_map<(h, k, r) -> (r, k)>
#result = affine_map<(h, k, r) -> (h, k)>
// CHECK-LABEL: func.func @another_operand
// CHECK:         linalg.generic
func.func @another_operand(%a: memref<9xf32>, %f: memref<3x8xf32>, %x: memref<7x8xf32>) {
  // expected-remark @+1 {{it has other operands than input, weights and output}}
  linalg.generic {indexing_maps = [#image, #weights, #weights, #result],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %f, %f : memref<9xf32>, memref<3x8xf32>, memref<3x8xf32>) outs(%x : memref<7x8xf32>) {
  ^bb0(%i: f32, %k: f32, %unused: f32, %o: f32):
    %p = arith.mulf %i, %k : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}
