"""Which lines of memory a register tile touches in a tensor that it accesses in runs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import indices_of
from mopt_mlir.codegen.prefetch_budget import LINE_BYTES
from mopt_mlir.problem import Tensor


def run_starts(
    tensor: Tensor, at: Mapping[str, Index], sizes: Mapping[str, int], run_axes: int = 1
) -> list[list[Index]]:
    """The first element of each run along so many of the last axes that a register tile at `at`
    reads."""
    along = {dim for axis in tensor.axes[-run_axes:] for dim in axis.dims}
    dims = [dim for dim in sizes if dim in tensor.dims and dim not in along]
    found: dict[tuple[Index, ...], None] = {}  # in order, each once
    for offsets in product(*(range(sizes[dim]) for dim in dims)):
        moved = {dim: at[dim] + offset for dim, offset in zip(dims, offsets, strict=True)}
        found[tuple(indices_of(tensor, {**at, **moved}))] = None
    return [list(run) for run in found]


def last_offset(tensor: Tensor, sizes: Mapping[str, int], run_axes: int = 1) -> int:
    """The offset of the last element of a run along so many of the last axes, in elements of the
    last one."""
    steps = zip(tensor.axes[-run_axes:], tensor.strides[-run_axes:], strict=True)
    return sum(axis.reach(sizes) * (step or 1) for axis, step in steps) // (tensor.strides[-1] or 1)


def stretches(tensor: Tensor, sizes: Mapping[str, int], run_axes: int = 1) -> list[tuple[int, int]]:
    """The first and the last offset of each part of a run along so many of the last axes that is
    read without skipping lines, in elements of the last axis."""
    unit = tensor.strides[-1] or 1
    steps = sorted(
        (coefficient * (stride or 1) // unit, sizes.get(dim, 1))
        for axis, stride in zip(tensor.axes[-run_axes:], tensor.strides[-run_axes:], strict=True)
        for dim, coefficient in axis.terms
    )
    found = [(0, 0)]
    for step, count in steps:
        if len(found) == 1 and step <= found[0][1] + line_step(tensor):
            found = [(0, found[0][1] + step * (count - 1))]
        else:
            found = [
                (first + step * i, last + step * i) for i in range(count) for first, last in found
            ]
    return found


def line_step(tensor: Tensor) -> int:
    """Elements of the last axis in a cache line, one at least."""
    return max(LINE_BYTES // tensor.element.size // abs(tensor.strides[-1] or 1), 1)
