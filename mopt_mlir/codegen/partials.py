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
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class Partials:
    """The sums of one register tile after the other in `memref`, for the part of the output that
    begins at `origin`: whole registers of `vector` elements. Each element along a dim of the output
    is `steps[dim]` elements of memory further on, and register tiles have `units[dim]` of them, so
    that where a tile lies takes no quotient."""

    memref: Any
    origin: Mapping[str, Index]
    units: Mapping[str, int]
    steps: Mapping[str, int]
    vector: int

    @staticmethod
    def of(
        problem: Problem, kernel: Microkernel, memref: Any, ranges: Mapping[str, Range]
    ) -> Partials:
        """The sums of the output in `ranges`, in memory of `partials_size` elements."""
        units = {dim: kernel.extent(dim) for dim in problem.parallel_dims}
        step, steps = prod(units.values()), {}
        for dim in reversed(problem.parallel_dims):
            steps[dim] = step // units[dim]
            step *= -(-ranges[dim].size // units[dim])
        origin = {dim: ranges[dim].start for dim in units}
        return Partials(memref, origin, units, steps, kernel.vector)

    def tile(self, start: Mapping[str, Index]) -> Index:
        """Where the register tile at `start` lies."""
        offsets = ((start[dim] - self.origin[dim]) * step for dim, step in self.steps.items())
        return sum(offsets, start=Index())

    def load(self, builder: Builder, tile: Index, count: int) -> list[Any]:
        """The first `count` registers of `tile`."""
        return [
            builder.vector_load(self.memref, [tile + at], self.vector, self.vector, "acc")
            for at in self.places(count)
        ]

    def store(self, builder: Builder, tile: Index, values: Sequence[Any]) -> None:
        """Keep `values` as the first registers of `tile`."""
        for at, value in zip(self.places(len(values)), values, strict=True):
            builder.vector_store(value, self.memref, [tile + at], self.vector)

    def places(self, count: int) -> range:
        """Where the first `count` registers of a register tile begin in it."""
        return range(0, count * self.vector, self.vector)


def partials_size(problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]) -> int:
    """Elements of the partial sums of a part of the output of `sizes`."""
    units = {dim: kernel.extent(dim) for dim in problem.parallel_dims}
    return prod(-(-sizes[dim] // unit) * unit for dim, unit in units.items())
