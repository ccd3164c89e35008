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

    @cached_property
    def tile(self) -> RegisterTile:
        return RegisterTile.of(self.problem, self.kernel, self.sizes)

    @cached_property
    def accumulators(self) -> Accumulators:
        return Accumulators(
            self.builder, self.problem, self.operands, self.tile, self.start, self.place.partials
        )
