"""A visit of a register tile: what code is generated for it from, and prefetches are chosen by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mopt_mlir.codegen.accumulators import Accumulators
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Operands
from mopt_mlir.codegen.place import Place
from mopt_mlir.codegen.ranges import Range, Ranges
from mopt_mlir.codegen.register_tile import RegisterTile
from mopt_mlir.codegen.upcoming import Upcoming
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem

FEW_PASSES = 4
"""How often code goes through the memory of sums, at most, if it asks for them one by one, and for
the output. (Measured on Granite Rapids, cold: nine layers of Table 1 that do so up to four times
take 2.2% less time, R6 and M1 5%. Where code comes back more often, and finds sums in a cache, as
many layers take more time as less, Y4 2% more.)"""


@dataclass(frozen=True)
class Visit:
    """One visit of the register tile at the start of `place.ranges`, which is accumulated over the
    reduction dims' ranges.

    `sizes` is the extent of the register tile per output dim. Weights are read in place where
    `place` has no panels.
    """

    builder: Builder
    problem: Problem
    kernel: Microkernel
    operands: Operands
    place: Place
    sizes: Mapping[str, int]

    @property
    def ranges(self) -> Ranges:
        return self.place.ranges

    @property
    def upcoming(self) -> Upcoming:
        return self.place.upcoming

    @cached_property
    def start(self) -> Mapping[str, Index]:
        """Where the register tile begins, by output dim."""
        return {dim: self.ranges[dim].start for dim in self.problem.parallel_dims}

    @cached_property
    def reduced(self) -> Mapping[str, Range]:
        """The part of the reduction that this visit accumulates."""
        return {dim: self.ranges[dim] for dim in self.problem.reduction_dims}

    @property
    def asks_for_sums_in_steps(self) -> bool:
        """Whether partial sums, and the output in the last visit, are asked for step by step in the
        reduction: sums come from memory when they are accessed for the first time, a good part of
        their accesses, and all lines at once keep the input waiting. (So it is where input is asked
        for twice; elsewhere it was not tried.)"""
        partials = self.place.partials
        few = partials is not None and partials.layout.passes <= FEW_PASSES
        return few and self.upcoming.again

    @cached_property
    def tile(self) -> RegisterTile:
        return RegisterTile.of(self.problem, self.kernel, self.sizes)

    @cached_property
    def accumulators(self) -> Accumulators:
        return Accumulators(
            self.builder, self.problem, self.operands, self.tile, self.start, self.place.partials
        )
