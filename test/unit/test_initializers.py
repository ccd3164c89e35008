"""What the output of a convolution holds before, a fill or a bias, starts its sums."""

from __future__ import annotations

import numpy as np
import pytest
from plain_convolution import close, convolve, random_arrays

import mopt_mlir


def test_a_fill_that_is_written_over_in_a_region() -> None:
    image, filters, output = random_arrays((1, 3, 6, 18), (16, 3, 3, 3), (1, 16, 4, 16))
    exe = mopt_mlir.compile(
        """func.func @conv(%a: memref<1x3x6x18xf32>, %f: memref<16x3x3x3xf32>,
                %x: memref<1x16x4x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %much = arith.constant 500.0 : f32
  %i = arith.constant 2 : index
  linalg.fill ins(%zero : f32) outs(%x : memref<1x16x4x16xf32>)
  memref.alloca_scope {
    %first = arith.constant 0 : index
    memref.store %much, %x[%first, %i, %i, %i] : memref<1x16x4x16xf32>
  }
  linalg.conv_2d_nchw_fchw ins(%a, %f : memref<1x3x6x18xf32>, memref<16x3x3x3xf32>)
    outs(%x : memref<1x16x4x16xf32>)
  return
}""",
        require_tiled=True,
    )
    expected = convolve(image, filters)
    expected[0, 2, 2, 2] += 500
    exe["conv"](image, filters, output)
    close(output, expected)


def test_a_convolution_in_place_reads_what_was_filled() -> None:
    image, filters = random_arrays((8, 8), (1, 1))
    text = """func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  linalg.fill ins(%two : f32) outs(%x : memref<8x8xf32>)
  linalg.conv_2d ins(%x, %f : memref<8x8xf32>, memref<1x1xf32>) outs(%x : memref<8x8xf32>)
  return
}"""
    with mopt_mlir.sink(lambda _: None):  # the warning
        mopt_mlir.compile(text)["conv"](filters, image)
    close(image, np.full((8, 8), 2 + 2 * np.float64(filters[0, 0])))
    with pytest.raises(mopt_mlir.UserError, match=r":4:3: error: .* its output is its input, too"):
        mopt_mlir.compile(text, require_tiled=True)


IN_PLACE = {
    "cast": """func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  %v = memref.cast %x : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1], offset: ?>>
  linalg.fill ins(%two : f32) outs(%x : memref<8x8xf32>)
  linalg.conv_2d ins(%v, %f : memref<8x8xf32, strided<[8, 1], offset: ?>>, memref<1x1xf32>)
    outs(%x : memref<8x8xf32>)
  return
}""",
    "call": """func.func private @in_place(%a: memref<8x8xf32>, %f: memref<1x1xf32>,
                                            %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  linalg.fill ins(%two : f32) outs(%x : memref<8x8xf32>)
  linalg.conv_2d ins(%a, %f : memref<8x8xf32>, memref<1x1xf32>) outs(%x : memref<8x8xf32>)
  return
}
func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  call @in_place(%x, %f, %x) : (memref<8x8xf32>, memref<1x1xf32>, memref<8x8xf32>) -> ()
  return
}""",
    "part": """func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  %a = memref.subview %x[0, 0] [8, 8] [1, 1] : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1]>>
  %b = memref.subview %x[0, 0] [8, 8] [1, 1] : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1]>>
  linalg.fill ins(%two : f32) outs(%b : memref<8x8xf32, strided<[8, 1]>>)
  linalg.conv_2d ins(%a, %f : memref<8x8xf32, strided<[8, 1]>>, memref<1x1xf32>)
    outs(%b : memref<8x8xf32, strided<[8, 1]>>)
  return
}""",
    "whole": """func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  %b = memref.subview %x[0, 0] [8, 8] [1, 1] : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1]>>
  linalg.fill ins(%two : f32) outs(%b : memref<8x8xf32, strided<[8, 1]>>)
  linalg.conv_2d ins(%x, %f : memref<8x8xf32>, memref<1x1xf32>)
    outs(%b : memref<8x8xf32, strided<[8, 1]>>)
  return
}""",
    "part of its output": """func.func @conv(%f: memref<1x1xf32>, %whole: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  %x = memref.reinterpret_cast %whole to offset: [8], sizes: [7, 8], strides: [8, 1]
    : memref<8x8xf32> to memref<7x8xf32, strided<[8, 1], offset: 8>>
  %a = memref.subview %x[0, 0] [7, 8] [1, 1]
    : memref<7x8xf32, strided<[8, 1], offset: 8>> to memref<7x8xf32, strided<[8, 1], offset: 8>>
  linalg.fill ins(%two : f32) outs(%x : memref<7x8xf32, strided<[8, 1], offset: 8>>)
  linalg.conv_2d ins(%a, %f : memref<7x8xf32, strided<[8, 1], offset: 8>>, memref<1x1xf32>)
    outs(%x : memref<7x8xf32, strided<[8, 1], offset: 8>>)
  %row = memref.subview %whole[0, 0] [1, 8] [1, 1]
    : memref<8x8xf32> to memref<1x8xf32, strided<[8, 1]>>
  %first = memref.subview %x[0, 0] [1, 8] [1, 1]
    : memref<7x8xf32, strided<[8, 1], offset: 8>> to memref<1x8xf32, strided<[8, 1], offset: 8>>
  memref.copy %first, %row
    : memref<1x8xf32, strided<[8, 1], offset: 8>> to memref<1x8xf32, strided<[8, 1]>>
  return
}""",
    "part of all of it": """func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  %all = memref.subview %x[0, 0] [8, 8] [1, 1]
    : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1]>>
  %a = memref.subview %all[0, 0] [4, 8] [1, 1]
    : memref<8x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1]>>
  %b = memref.subview %x[0, 0] [4, 8] [1, 1] : memref<8x8xf32> to memref<4x8xf32, strided<[8, 1]>>
  linalg.fill ins(%two : f32) outs(%b : memref<4x8xf32, strided<[8, 1]>>)
  linalg.conv_2d ins(%a, %f : memref<4x8xf32, strided<[8, 1]>>, memref<1x1xf32>)
    outs(%b : memref<4x8xf32, strided<[8, 1]>>)
  %rest = memref.subview %x[4, 0] [4, 8] [1, 1]
    : memref<8x8xf32> to memref<4x8xf32, strided<[8, 1], offset: 32>>
  memref.copy %b, %rest
    : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32, strided<[8, 1], offset: 32>>
  return
}""",
    "part of a parameter": """func.func private @in_place(%a: memref<8x8xf32>, %f: memref<1x1xf32>,
                                                          %x: memref<8x8xf32>) {
  %two = arith.constant 2.0 : f32
  %s = memref.subview %a[0, 0] [8, 8] [1, 1] : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1]>>
  %t = memref.subview %x[0, 0] [8, 8] [1, 1] : memref<8x8xf32> to memref<8x8xf32, strided<[8, 1]>>
  linalg.fill ins(%two : f32) outs(%t : memref<8x8xf32, strided<[8, 1]>>)
  linalg.conv_2d ins(%s, %f : memref<8x8xf32, strided<[8, 1]>>, memref<1x1xf32>)
    outs(%t : memref<8x8xf32, strided<[8, 1]>>)
  return
}
func.func @conv(%f: memref<1x1xf32>, %x: memref<8x8xf32>) {
  call @in_place(%x, %f, %x) : (memref<8x8xf32>, memref<1x1xf32>, memref<8x8xf32>) -> ()
  return
}""",
}


@pytest.mark.parametrize("how", IN_PLACE)
def test_a_convolution_of_what_is_its_output_by_another_name(how: str) -> None:
    image, filters = random_arrays((8, 8), (1, 1))
    with mopt_mlir.sink(lambda _: None):  # the warning
        mopt_mlir.compile(IN_PLACE[how])["conv"](filters, image)
    close(image, np.full((8, 8), 2 + 2 * np.float64(filters[0, 0])))


def test_a_bias_that_a_convolution_computes() -> None:
    row, taps, image, filters = random_arrays((18,), (3,), (1, 4, 9, 9), (16, 4, 3, 3))
    exe = mopt_mlir.compile(
        """func.func @conv(%row: tensor<18xf32>, %taps: tensor<3xf32>, %a: tensor<1x4x9x9xf32>,
                %f: tensor<16x4x3x3xf32>) -> tensor<1x16x7x7xf32> {
  %zero = arith.constant dense<0.0> : tensor<16xf32>
  %bias = linalg.conv_1d ins(%row, %taps : tensor<18xf32>, tensor<3xf32>)
    outs(%zero : tensor<16xf32>) -> tensor<16xf32>
  %empty = tensor.empty() : tensor<1x16x7x7xf32>
  %init = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%empty : tensor<1x16x7x7xf32>)
    dimensions = [0, 2, 3]
  %x = linalg.conv_2d_nchw_fchw ins(%a, %f : tensor<1x4x9x9xf32>, tensor<16x4x3x3xf32>)
    outs(%init : tensor<1x16x7x7xf32>) -> tensor<1x16x7x7xf32>
  return %x : tensor<1x16x7x7xf32>
}""",
        require_tiled=True,
    )
    bias = np.correlate(row.astype(np.float64), taps.astype(np.float64), "valid")
    close(exe["conv"](row, taps, image, filters), convolve(image, filters) + bias[:, None, None])


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_bias_on_tensors(layout: str) -> None:
    image, filters, bias = random_arrays((1, 4, 9, 9), (21, 4, 3, 3), (21,))
    reference = convolve(image, filters) + bias.astype(np.float64)[:, None, None]
    if layout == "nchw":
        types = "tensor<1x4x9x9xf32>", "tensor<21x4x3x3xf32>", "tensor<1x21x7x7xf32>"
        name, dimensions = "conv_2d_nchw_fchw", "[0, 2, 3]"
    else:
        types = "tensor<1x9x9x4xf32>", "tensor<3x3x4x21xf32>", "tensor<1x7x7x21xf32>"
        name, dimensions = "conv_2d_nhwc_hwcf", "[0, 1, 2]"
        image, filters = image.transpose(0, 2, 3, 1).copy(), filters.transpose(2, 3, 1, 0).copy()
        reference = reference.transpose(0, 2, 3, 1)
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {types[0]}, %f: {types[1]}, %bias: tensor<21xf32>) -> {types[2]} {{
  %empty = tensor.empty() : {types[2]}
  %init = linalg.broadcast ins(%bias : tensor<21xf32>) outs(%empty : {types[2]})
    dimensions = {dimensions}
  %x = linalg.{name} ins(%a, %f : {types[0]}, {types[1]}) outs(%init : {types[2]}) -> {types[2]}
  return %x : {types[2]}
}}""",
        require_tiled=True,
    )
    close(exe["conv"](image, filters, bias), reference)


NHWC = "memref<1x9x9x4xf32>", "memref<3x3x4x21xf32>", "memref<1x7x7x21xf32>"


def initialised(writer: str) -> str:
    """A convolution whose output `writer` wrote before, in a function with a scalar."""
    return f"""#nothing = affine_map<(n, h, w, k) -> ()>
#whole = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (k)>
func.func @conv(%a: {NHWC[0]}, %f: {NHWC[1]}, %x: {NHWC[2]}, %v: f32, %row: memref<21xf32>) {{
  {writer}
  linalg.conv_2d_nhwc_hwcf ins(%a, %f : {NHWC[0]}, {NHWC[1]}) outs(%x : {NHWC[2]})
  return
}}"""


def test_a_fill_that_was_made_generic() -> None:
    image, filters, output, row = random_arrays((1, 9, 9, 4), (3, 3, 4, 21), (1, 7, 7, 21), (21,))
    text = initialised(f"""linalg.generic {{indexing_maps = [#nothing, #whole],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%v : f32) outs(%x : {NHWC[2]}) {{
  ^bb0(%p: f32, %q: f32):
    linalg.yield %p : f32
  }}""")
    mopt_mlir.compile(text, require_tiled=True)["conv"](image, filters, output, 2.5, row)
    close(output, 2.5 + convolve(image, filters, "nhwc_hwcf"))


@pytest.mark.parametrize("at", [0, 6])
def test_a_bias_that_is_a_part_of_the_output(at: int) -> None:
    """What the convolution writes there is not to be read again."""
    image, filters, output, row = random_arrays((1, 9, 9, 4), (3, 3, 4, 21), (1, 7, 7, 21), (21,))
    bias = f"memref<21xf32, strided<[1], offset: {at * 8 * 21}>>"
    text = initialised(f"""%b = memref.subview %x[0, {at}, {at}, 0] [1, 1, 1, 21] [1, 1, 1, 1]
    : {NHWC[2]} to {bias}
  linalg.broadcast ins(%b : {bias}) outs(%x : {NHWC[2]}) dimensions = [0, 1, 2]""")
    expected = output[0, at, at].astype(np.float64) + convolve(image, filters, "nhwc_hwcf")
    mopt_mlir.compile(text, require_tiled=True)["conv"](image, filters, output, 0, row)
    close(output, expected)


def test_an_operation_that_keeps_both_of_its_outputs() -> None:
    """It has as many operands as a broadcast of a bias, but no input."""
    image, filters, output, row = random_arrays((1, 9, 9, 4), (3, 3, 4, 21), (1, 7, 7, 21), (21,))
    text = initialised(f"""linalg.generic {{indexing_maps = [#channel, #whole],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      outs(%row, %x : memref<21xf32>, {NHWC[2]}) {{
  ^bb0(%p: f32, %q: f32):
    linalg.yield %p, %q : f32, f32
  }}""")
    expected = output.astype(np.float64) + convolve(image, filters, "nhwc_hwcf")
    mopt_mlir.compile(text, require_tiled=True)["conv"](image, filters, output, 0, row)
    close(output, expected)


@pytest.mark.parametrize("type_", ["memref<7xf32>", "memref<7xf32, strided<[3], offset: 2>>"])
def test_a_bias_for_each_channel_of_vectors_of_pixels(type_: str) -> None:
    """Two whole tiles of three channels, and a rest."""
    image, filters, output, numbers = random_arrays(
        (1, 4, 9, 18), (7, 4, 3, 3), (1, 7, 7, 16), (23,)
    )
    bias = numbers[2::3] if "strided" in type_ else numbers[:7]
    types = "memref<1x4x9x18xf32>", "memref<7x4x3x3xf32>", "memref<1x7x7x16xf32>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {types[0]}, %f: {types[1]}, %x: {types[2]}, %bias: {type_}) {{
  linalg.broadcast ins(%bias : {type_}) outs(%x : {types[2]}) dimensions = [0, 2, 3]
  linalg.conv_2d_nchw_fchw {{mopt.plan = {{
      machine = "none", threads = 1, packing = "none", levels = [], microkernel = {{
      lanes = "w", vector = 8, tile = {{k = 3, w = 8}}, reduction = ["c", "r", "s"]}}}}}}
    ins(%a, %f : {types[0]}, {types[1]}) outs(%x : {types[2]})
  return
}}""",
        require_tiled=True,
    )
    exe["conv"](image, filters, output, bias)
    close(output, convolve(image, filters) + bias.astype(np.float64)[:, None, None])
