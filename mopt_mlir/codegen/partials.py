"""Partial sums between the visits of a register tile: whole registers in scratch memory.

Where the reduction is split, a register tile is visited several times. Accumulators that would have
to be transposed on their way to the output, or share few sets of the caches there, stay as they are
until the last visit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm, prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.loop_nest import Loop
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class SumsLayout:
    """How the sums of register tiles follow each other in memory, if `loop` is the outermost that
    splits the reduction: in the order in which the loops inside of it come to them.

    The memory has `size` elements, `tile` of them for each register tile. What a loop moves by,
    along its dim, is `steps` times as much in memory, by the name of the loop.
    """

    loop: Loop
    size: int
    tile: int
    steps: Mapping[str, int]

    @staticmethod
    def of(problem: Problem, kernel: Microkernel, loops: Sequence[Loop]) -> SumsLayout | None:
        """That for the nest of `loops`, if any of them splits the reduction. Steps are rounded up
        to whole elements for each point, so that where a tile lies takes no quotient, and to
        vectors."""
        split = next((i for i, one in enumerate(loops) if one.dim in problem.reduction_dims), None)
        if split is None:
            return None
        tile = size = prod(kernel.extent(dim) for dim in problem.parallel_dims)
        steps: dict[str, int] = {}
        for loop in reversed(loops[split:]):
            if loop.dim in problem.parallel_dims:
                grain = lcm(loop.step, kernel.vector)
                size = -(-size // grain) * grain
                tile = tile if steps else size
                steps[loop.name] = size // loop.step
                size *= loop.trips
        return SumsLayout(loops[split], size, tile, steps)


@dataclass(frozen=True)
class Partials:
    """Sums in `memref`, in registers of `vector` elements; `layout` says where. Those of the part
    of the output that the open loops have come to begin at `first`."""

    memref: Any
    layout: SumsLayout
    vector: int
    first: Index = field(default_factory=Index)

    def inside(self, loop: Loop, distance: Index) -> Partials:
        """What is left in a step of `loop`, at a `distance` from where that begins."""
        return replace(self, first=self.first + distance * self.layout.steps.get(loop.name, 0))

    @property
    def next(self) -> Partials:
        """Those of the register tile that comes next, but behind a loop's last, smaller step."""
        return replace(self, first=self.first + self.layout.tile)

    def load(self, builder: Builder, count: int) -> list[Any]:
        """The first `count` registers of the register tile that all loops have come to."""
        return [
            builder.vector_load(self.memref, [self.first + at], self.vector, self.vector, "acc")
            for at in self.places(count)
        ]

    def store(self, builder: Builder, values: Sequence[Any]) -> None:
        """Keep `values` as its first registers."""
        for at, value in zip(self.places(len(values)), values, strict=True):
            builder.vector_store(value, self.memref, [self.first + at], self.vector)

    def places(self, count: int) -> range:
        """Where the first `count` registers of a register tile begin in it."""
        return range(0, count * self.vector, self.vector)
