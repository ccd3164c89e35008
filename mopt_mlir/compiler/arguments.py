"""Random arguments for compiled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from mopt_mlir.buffers import ALIGNMENT, aligned_bytes
from mopt_mlir.diagnostics import UserError
from mopt_mlir.lowering.arrays import DTYPES
from mopt_mlir.lowering.entries import Entry, Parameter


def random_arguments(entry: Entry, seed: int = 0) -> list[Any]:
    """Arguments for a function: reals from the normal distribution, integers from 0 to 7.

    What a type leaves open of strides is dense. Raises UserError if a shape is not static.
    """
    generator = np.random.default_rng(seed)
    inputs = [p for p in entry.parameters if p.access != "result"]
    for parameter in inputs:
        if None in (parameter.shape or ()):
            raise UserError(
                f"'{parameter.name}' has the dynamic shape {parameter}: call the function from "
                "Python",
                entry.location,
            )
    return [_random(parameter, generator) for parameter in inputs]


def bytes_of(parameter: Parameter) -> int:
    shape = [1 if size is None else size for size in parameter.shape or ()]
    return _elements(shape, _steps(shape, parameter.strides)) * DTYPES[parameter.element].itemsize


def _random(parameter: Parameter, generator: np.random.Generator) -> Any:
    dtype = DTYPES[parameter.element]
    if parameter.shape is None:
        return _numbers(generator, dtype, 1)[0]
    shape = [size or 0 for size in parameter.shape]
    steps = _steps(shape, parameter.strides)
    strides = [step * dtype.itemsize for step in steps]
    size = _elements(shape, steps) * dtype.itemsize
    first = sum((n - 1) * -step for n, step in zip(shape, steps, strict=True) if n and step < 0)
    alignment = max(ALIGNMENT, parameter.alignment)
    ahead = -first * dtype.itemsize % alignment
    buffer = aligned_bytes(ahead + size, alignment)[ahead:].view(dtype)
    buffer[:] = _numbers(generator, dtype, buffer.size)
    return as_strided(buffer[first:], shape, strides)


def _elements(shape: Sequence[int], steps: Sequence[int]) -> int:
    """How many lie between the first and the last of an array, with both; one of an empty one."""
    if 0 in shape:
        return 1
    return 1 + sum((n - 1) * abs(step) for n, step in zip(shape, steps, strict=True))


def _steps(shape: Sequence[int], strides: Sequence[int | None]) -> list[int]:
    """The strides in elements; those that are open as if nothing lay between elements."""
    steps: list[int] = []
    dense = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        steps.insert(0, dense if stride is None else stride)
        dense = max(dense, abs(steps[0]) * extent)
    return steps


def _numbers(generator: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    if dtype.kind in "iub":
        return generator.integers(0, 2 if dtype.kind == "b" else 8, count).astype(dtype)
    return generator.standard_normal(count).astype(dtype)
