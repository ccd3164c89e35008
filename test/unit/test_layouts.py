"""What surrounds the plain case: no channels, generics, subviews, gaps, axes that run backwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from plain_convolution import Array, close, convolve, random_arrays

import mopt_mlir


@pytest.mark.parametrize("columns", [16, 33])
def test_no_channels(columns: int) -> None:
    image, filters, output = random_arrays((12, columns + 2), (3, 3), (10, columns))
    types = [f"memref<{'x'.join(map(str, a.shape))}xf32>" for a in (image, filters, output)]
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {types[0]}, %f: {types[1]}, %x: {types[2]}) {{
  linalg.conv_2d ins(%a, %f : {types[0]}, {types[1]}) outs(%x : {types[2]})
  return
}}""",
        require_tiled=True,
    )
    old = output.astype(np.float64)
    exe["conv"](image, filters, output)
    close(output, old + convolve(image, filters, "hw_hw"))


def test_strided_generic_without_channels() -> None:
    """Neither output channels nor contiguous pixels: lanes of one channel, still right."""
    image, filters, output = random_arrays((11, 15), (3, 3), (5, 7))
    exe = mopt_mlir.compile(
        """#image = affine_map<(h, w, r, s) -> (h * 2 + r, w * 2 + s)>
#filter = affine_map<(h, w, r, s) -> (r, s)>
#output = affine_map<(h, w, r, s) -> (h, w)>
func.func @conv(%a: memref<11x15xf32>, %f: memref<3x3xf32>, %x: memref<5x7xf32>) {
  linalg.generic {indexing_maps = [#image, #filter, #output],
                  iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %f : memref<11x15xf32>, memref<3x3xf32>) outs(%x : memref<5x7xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %o, %m : f32
    linalg.yield %n : f32
  }
  return
}""",
        require_tiled=True,
    )
    old = output.astype(np.float64)
    exe["conv"](image, filters, output)
    close(output, old + convolve(image, filters, "hw_hw", (2, 2)))


def test_a_filter_of_one_column_that_was_folded() -> None:
    """To MLIR, columns that no filter loop moves over are a batch beside the batch."""
    image, filters, output = random_arrays((2, 9, 5, 4), (3, 4, 20), (2, 7, 5, 20))
    types = [f"memref<{'x'.join(map(str, a.shape))}xf32>" for a in (image, filters, output)]
    exe = mopt_mlir.compile(
        f"""#image = affine_map<(n, h, w, k, r, c) -> (n, h + r, w, c)>
#filter = affine_map<(n, h, w, k, r, c) -> (r, c, k)>
#output = affine_map<(n, h, w, k, r, c) -> (n, h, w, k)>
func.func @conv(%a: {types[0]}, %f: {types[1]}, %x: {types[2]}) {{
  linalg.generic {{indexing_maps = [#image, #filter, #output],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction",
                                    "reduction"]}}
    ins(%a, %f : {types[0]}, {types[1]}) outs(%x : {types[2]}) {{
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  }}
  return
}}""",
        require_tiled=True,
    )
    old = output.astype(np.float64)
    exe["conv"](image, filters, output)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), 3, axis=1)
    close(output, old + np.einsum("nhwcr,rck->nhwk", windows, filters))


def test_subviews_with_offsets() -> None:
    """Crops and every second channel of larger buffers, in place."""
    image, filters, output = random_arrays((1, 6, 14, 20), (5, 3, 3, 3), (1, 10, 16, 16))
    exe = mopt_mlir.compile(
        """func.func @conv(%a: memref<1x6x14x20xf32>, %f: memref<5x3x3x3xf32>,
                %x: memref<1x10x16x16xf32>, %row: index) {
  %image = memref.subview %a[0, 1, 2, 3] [1, 3, 10, 15] [1, 2, 1, 1] : memref<1x6x14x20xf32>
    to memref<1x3x10x15xf32, strided<[1680, 560, 20, 1], offset: 323>>
  %out = memref.subview %x[0, 0, %row, 1] [1, 5, 8, 13] [1, 2, 1, 1] : memref<1x10x16x16xf32>
    to memref<1x5x8x13xf32, strided<[2560, 512, 16, 1], offset: ?>>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32)
    outs(%out : memref<1x5x8x13xf32, strided<[2560, 512, 16, 1], offset: ?>>)
  linalg.conv_2d_nchw_fchw
    ins(%image, %f : memref<1x3x10x15xf32, strided<[1680, 560, 20, 1], offset: 323>>,
                     memref<5x3x3x3xf32>)
    outs(%out : memref<1x5x8x13xf32, strided<[2560, 512, 16, 1], offset: ?>>)
  return
}""",
        require_tiled=True,
    )
    expected = output.astype(np.float64)
    crop = image[:, 1:7:2, 2:12, 3:18]
    expected[:, 0:10:2, 4:12, 1:14] = convolve(crop, filters)
    exe["conv"](image, filters, output, 4)
    close(output, expected)


def test_single_taps_on_rows_with_gaps() -> None:
    """Rows of 8 pixels in rows of 12: the loops over rows and columns are not one loop."""
    image, filters, output = random_arrays((1, 6, 9, 12), (16, 6, 1, 1), (1, 16, 9, 12))
    exe = mopt_mlir.compile(
        """func.func @conv(%a: memref<1x6x9x12xf32>, %f: memref<16x6x1x1xf32>,
                %x: memref<1x16x9x12xf32>) {
  %image = memref.subview %a[0, 0, 0, 0] [1, 6, 9, 8] [1, 1, 1, 1] : memref<1x6x9x12xf32>
    to memref<1x6x9x8xf32, strided<[648, 108, 12, 1]>>
  %out = memref.subview %x[0, 0, 0, 0] [1, 16, 9, 8] [1, 1, 1, 1] : memref<1x16x9x12xf32>
    to memref<1x16x9x8xf32, strided<[1728, 108, 12, 1]>>
  linalg.conv_2d_nchw_fchw
    ins(%image, %f : memref<1x6x9x8xf32, strided<[648, 108, 12, 1]>>, memref<16x6x1x1xf32>)
    outs(%out : memref<1x16x9x8xf32, strided<[1728, 108, 12, 1]>>)
  return
}""",
        require_tiled=True,
    )
    expected = output.astype(np.float64)
    expected[..., :8] += convolve(image[..., :8], filters)
    exe["conv"](image, filters, output)
    close(output, expected)


@pytest.mark.parametrize("strides", ["[256, 32, 4, 1]", "[7, 32, 4, 1]"])
def test_strides_that_say_that_pixels_are_dense(strides: str) -> None:
    """Rows and columns become one axis, in a type that MLIR computes as well."""
    image, filters, output = random_arrays((1, 8, 8, 4), (1, 1, 4, 8), (1, 8, 8, 8))
    type_ = f"memref<1x8x8x4xf32, strided<{strides}>>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {type_}, %f: memref<1x1x4x8xf32>, %x: memref<1x8x8x8xf32>) {{
  linalg.conv_2d_nhwc_hwcf ins(%a, %f : {type_}, memref<1x1x4x8xf32>)
    outs(%x : memref<1x8x8x8xf32>)
  return
}}""",
        require_tiled=True,
    )
    expected = output + np.einsum("nhwc,ck->nhwk", image.astype(np.float64), filters[0, 0])
    exe["conv"](image, filters, output)
    close(output, expected)


def test_weights_of_one_channel_of_several() -> None:
    """The rows that panels are copied from lie behind an axis of a single element."""
    image, filters, output = random_arrays((1, 1, 10, 10), (32, 4, 3, 3), (1, 32, 8, 8))
    types = "memref<1x1x10x10xf32>", "memref<32x4x3x3xf32>", "memref<1x32x8x8xf32>"
    part = "memref<32x1x3x3xf32, strided<[36, 9, 3, 1], offset: 18>>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {types[0]}, %all: {types[1]}, %x: {types[2]}) {{
  %f = memref.subview %all[0, 2, 0, 0] [32, 1, 3, 3] [1, 1, 1, 1] : {types[1]} to {part}
  linalg.conv_2d_nchw_fchw {{mopt.plan = {{
      machine = "none", threads = 1, packing = "whole", levels = [],
      microkernel = {{lanes = "k", vector = 8, tile = {{k = 8, w = 4}}, reduction = ["r", "s"]}}}}}}
    ins(%a, %f : {types[0]}, {part}) outs(%x : {types[2]})
  return
}}""",
        require_tiled=True,
    )
    expected = output + convolve(image, filters[:, 2:3])
    exe["conv"](image, filters, output)
    close(output, expected)


def test_rows_that_overlap() -> None:
    """Of rows of 10 pixels, each begins where the eighth of the one before ends: those that are
    read follow each other, but the rows are no axis."""
    pixels, filters, output = random_arrays((8 * 8 + 2, 4), (1, 1, 4, 8), (1, 8, 8, 8))
    type_ = "memref<1x8x10x4xf32, strided<[288, 32, 4, 1]>>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {type_}, %f: memref<1x1x4x8xf32>, %x: memref<1x8x8x8xf32>) {{
  linalg.conv_2d_nhwc_hwcf ins(%a, %f : {type_}, memref<1x1x4x8xf32>)
    outs(%x : memref<1x8x8x8xf32>)
  return
}}""",
        require_tiled=True,
    )
    image = np.lib.stride_tricks.as_strided(pixels, (1, 8, 10, 4), (1152, 128, 16, 4))
    expected = output + np.einsum(
        "nhwc,ck->nhwk", image[:, :, :8].astype(np.float64), filters[0, 0]
    )
    exe["conv"](image, filters, output)
    close(output, expected)


def test_weights_that_are_packed_for_the_taps_of_a_single_channel() -> None:
    """No loop over output channels goes around the blocks that are packed one after the other."""
    image, filters, output = random_arrays((20,), (6,), (15,))
    exe = mopt_mlir.compile(
        """func.func @conv(%a: memref<20xf32>, %f: memref<6xf32>, %x: memref<15xf32>) {
  linalg.conv_1d {mopt.plan = {
      machine = "none", threads = 1, packing = "L1",
      microkernel = {lanes = "k", vector = 4, tile = {k = 4}, reduction = ["s"]},
      levels = [{name = "L1", order = ["k", "s", "w"], tile = {k = 1, w = 15, s = 2}}]}}
    ins(%a, %f : memref<20xf32>, memref<6xf32>) outs(%x : memref<15xf32>)
  return
}""",
        require_tiled=True,
    )
    expected = output + convolve(image, filters, "w_w")
    exe["conv"](image, filters, output)
    close(output, expected)


def check_nhwc(
    image: Array,
    filters: Array,
    output: Array,
    types: Sequence[str],
    name: str = "conv",
    attributes: str = "",
) -> None:
    """Compile a convolution of arrays of these types as function `name`, run it and compare."""
    exe = mopt_mlir.compile(
        f"""func.func @{name}(%a: {types[0]}, %f: {types[1]}, %x: {types[2]}) {{
  linalg.conv_2d_nhwc_hwcf {attributes}
    ins(%a, %f : {types[0]}, {types[1]}) outs(%x : {types[2]})
  return
}}""",
        require_tiled=True,
    )
    expected = output + convolve(image, filters, "nhwc_hwcf")
    exe[name](image, filters, output)
    close(output, expected)


def test_a_function_by_the_name_of_a_buffer_that_is_kept() -> None:
    image, filters, output = random_arrays((1, 6, 6, 4), (3, 3, 4, 8), (1, 4, 4, 8))
    types = "memref<1x6x6x4xf32>", "memref<3x3x4x8xf32>", "memref<1x4x4x8xf32>"
    plan = """{mopt.plan = {
      machine = "none", threads = 1, levels = [], packing = "whole",
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 4}, reduction = ["r", "s", "c"]}}}
    """
    check_nhwc(image, filters, output, types, "mopt_scratch_0", plan)


def test_weights_that_are_not_initialized() -> None:
    """Nobody can tell what they are, and nobody asks: the convolution is tiled all the same."""
    exe = mopt_mlir.compile(
        """memref.global "private" constant @weights : memref<3x3x4x8xf32> = uninitialized
func.func @conv(%a: memref<1x6x6x4xf32>, %x: memref<1x4x4x8xf32>) {
  %f = memref.get_global @weights : memref<3x3x4x8xf32>
  linalg.conv_2d_nhwc_hwcf ins(%a, %f : memref<1x6x6x4xf32>, memref<3x3x4x8xf32>)
    outs(%x : memref<1x4x4x8xf32>)
  return
}""",
        require_tiled=True,
    )
    exe["conv"](*random_arrays((1, 6, 6, 4), (1, 4, 4, 8)))


def backwards(array: Array, axes: tuple[int, ...], *, whole: bool) -> tuple[Array, str]:
    """`array` with `axes` reversed, and its type: of all of its memory, or from its first element
    on, in front of which the others then are."""
    view = np.flip(array, axes)
    strides = [stride // array.itemsize for stride in view.strides]
    offset = (view.ctypes.data - array.ctypes.data) // array.itemsize if whole else 0
    shape = "x".join(map(str, array.shape))
    return view, f"memref<{shape}xf32, strided<{strides}, offset: {offset}>>"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("axes", [(2,), (0, 1, 2), (3,), (0, 1, 2, 3)])
def test_axes_that_run_backwards(axes: tuple[int, ...], taps: int, whole: bool) -> None:
    size = 10 - taps
    arrays = random_arrays((2, 9, 9, 4), (taps, taps, 4, 8), (2, size, size, 8))
    views = [backwards(array, axes, whole=whole) for array in arrays]
    (image, filters, output), types = zip(*views, strict=True)
    check_nhwc(image, filters, output, types)


def test_two_equal_convolutions_share_one_nest() -> None:
    image, f, g = random_arrays((1, 8, 10, 10), (8, 8, 3, 3), (8, 8, 3, 3))
    big, small = "tensor<1x8x10x10xf32>", "tensor<1x8x8x8xf32>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {big}, %f: tensor<8x8x3x3xf32>, %g: tensor<8x8x3x3xf32>)
    -> ({small}, {small}) {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {small}
  %init = linalg.fill ins(%zero : f32) outs(%empty : {small}) -> {small}
  %x = linalg.conv_2d_nchw_fchw ins(%a, %f : {big}, tensor<8x8x3x3xf32>)
    outs(%init : {small}) -> {small}
  %y = linalg.conv_2d_nchw_fchw ins(%a, %g : {big}, tensor<8x8x3x3xf32>)
    outs(%init : {small}) -> {small}
  return %x, %y : {small}, {small}
}}""",
        require_tiled=True,
    )
    x, y = exe["conv"](image, f, g)
    close(x, convolve(image, f))
    close(y, convolve(image, g))
