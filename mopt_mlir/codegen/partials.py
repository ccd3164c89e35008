"""Partial sums between the visits of a register tile: whole registers in scratch memory.

Where the reduction is split, a register tile is visited several times. Accumulators that would have
to be transposed on their way to the output, or share few sets of the caches there, stay as they are
until the last visit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.upcoming import LINE_BYTES
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import Problem

SUMS_IN_L1 = 16 << 10
"""Bytes of partial sums that are left to the L1 cache, where they stay between visits."""


@dataclass(frozen=True)
class Partials:
    """`memref[register tile along each output dim..., register, lane]`, for the part of the output
    that begins at `origin`; register tiles have `units[dim]` elements."""

    memref: Any
    origin: Mapping[str, Index]
    units: Mapping[str, int]

    def tile(self, builder: Builder, start: Mapping[str, Index]) -> list[Index]:
        """The indices of the register tile at `start`."""
        return [
            builder.apply("tile", start[dim] - self.origin[dim], unit)
            for dim, unit in self.units.items()
        ]

    def load(self, builder: Builder, tile: Sequence[Index], count: int) -> list[Any]:
        """The first `count` registers of `tile`."""
        lanes = self.memref.type.shape[-1]
        return [
            builder.vector_load(self.memref, _place(tile, i), lanes, lanes, "acc")
            for i in range(count)
        ]

    def prefetch(self, builder: Builder, tile: Sequence[Index], along: str, count: int) -> None:
        """Ask for the first `count` registers of the register tile that follows `tile` along a dim,
        unless all partial sums are near anyway."""
        *shape, lanes = self.memref.type.shape
        size = lanes * self.memref.type.element_type.width // 8
        if prod(shape) * size <= SUMS_IN_L1:
            return
        next_ = [index + (dim == along) for dim, index in zip(self.units, tile, strict=True)]
        for i in range(0, count, max(1, LINE_BYTES // size)):
            builder.prefetch(self.memref, _place(next_, i))

    def store(self, builder: Builder, tile: Sequence[Index], values: Sequence[Any]) -> None:
        """Keep `values` as the first registers of `tile`."""
        lanes = self.memref.type.shape[-1]
        for i, value in enumerate(values):
            builder.vector_store(value, self.memref, _place(tile, i), lanes)


def _place(tile: Sequence[Index], register: int) -> list[Index]:
    return [*tile, Index(constant=register), Index()]


def partials_shape(
    problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]
) -> tuple[int, ...]:
    """The shape of the partial sums of a part of the output of `sizes`."""
    tiles = [-(-sizes[dim] // kernel.extent(dim)) for dim in problem.parallel_dims]
    vectors = -(-kernel.extent(kernel.lanes) // kernel.vector)
    rows = prod(size for dim, size in kernel.tile.items() if dim != kernel.lanes)
    return (*tiles, vectors * rows, kernel.vector)
