"""Convolutions in float64, tap by tap, and operands for them. Nothing here imports the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PIXELS = "dhw"


def convolve(
    image: Array,
    filters: Array,
    layout: str = "nchw_fchw",
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
) -> Array:
    """The convolution of an image that is padded already, in the layout of the image.

    `layout` has the axes of both, as the names of linalg's operations have them, with `d`, `h`, `w`
    of the filters for those of their taps; without channels it is `hw_hw`. There is a stride and a
    dilation for each of the image's `d`, `h`, `w`, in that order.
    """
    image_axes, filter_axes = layout.split("_")
    moved = [axis for axis in PIXELS if axis in image_axes]
    steps = dict(zip(moved, strides or [1] * len(moved), strict=True))
    gaps = dict(zip(moved, dilations or [1] * len(moved), strict=True))
    taps = {axis: filters.shape[filter_axes.index(axis)] for axis in moved}
    sizes = {
        axis: (image.shape[image_axes.index(axis)] - gaps[axis] * (taps[axis] - 1) - 1)
        // steps[axis]
        + 1
        for axis in moved
    }
    channels = "".join(axis for axis in filter_axes if axis not in PIXELS)
    sums = f"{image_axes},{channels}->{image_axes.replace('c', 'f')}"
    image, filters = image.astype(np.float64), filters.astype(np.float64)
    result = None
    for numbers in np.ndindex(*taps.values()):
        tap = dict(zip(moved, numbers, strict=True))
        pixels = tuple(
            slice(tap[axis] * gaps[axis], None, steps[axis]) if axis in tap else slice(None)
            for axis in image_axes
        )
        cropped = tuple(slice(sizes[axis]) if axis in tap else slice(None) for axis in image_axes)
        weights = filters[tuple(tap.get(axis, slice(None)) for axis in filter_axes)]
        product = np.einsum(sums, image[pixels][cropped], weights)
        result = product if result is None else result + product
    assert result is not None
    return result


def random_arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[Array]:
    """Operands: the same ones each time."""
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def close(result: Array, reference: Array) -> None:
    """Check a result in float32, of up to some hundred products of such numbers each."""
    np.testing.assert_allclose(result, reference, rtol=2e-4, atol=2e-4)
