"""Random arguments for compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.buffers import ALIGNMENT
from mopt_mlir.diagnostics import UserError
from mopt_mlir.lowering.arrays import DTYPES, allocate, completed, reach
from mopt_mlir.lowering.signature import Entry, Parameter


def random_arguments(entry: Entry, seed: int = 0) -> list[Any]:
    """Arguments for a function: reals from the normal distribution, integers from 0 to 7.

    What a type leaves open of strides is such that no two elements share memory. Raises UserError
    if a shape is not static.
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
    """The bytes of a scalar, or from the first to the last of a buffer; open sizes count as 1."""
    shape = [1 if size is None else size for size in parameter.shape or ()]
    begin, end = reach(shape, _strides(shape, parameter), DTYPES[parameter.element].itemsize)
    return end - begin


def _random(parameter: Parameter, generator: np.random.Generator) -> Any:
    dtype = DTYPES[parameter.element]
    if parameter.shape is None:
        return _numbers(generator, dtype, 1)[0]
    shape = [size or 0 for size in parameter.shape]
    alignment = max(ALIGNMENT, parameter.alignment)
    memory, array = allocate(shape, _strides(shape, parameter), dtype, alignment)
    memory[:] = _numbers(generator, dtype, memory.size)
    return array


def _strides(shape: list[int], parameter: Parameter) -> list[int]:
    size = DTYPES[parameter.element].itemsize
    known = [None if stride is None else stride * size for stride in parameter.strides]
    return completed(shape, known, size)


def _numbers(generator: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    if dtype.kind in "iub":
        return generator.integers(0, 2 if dtype.kind == "b" else 8, count).astype(dtype)
    return generator.standard_normal(count).astype(dtype)
