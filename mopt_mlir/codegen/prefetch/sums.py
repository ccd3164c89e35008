"""Prefetching the partial sums of the next register tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.codegen.builder import Builder, element_bytes
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.partials import Partials
from mopt_mlir.codegen.prefetch_budget import LINE_BYTES
from mopt_mlir.codegen.ranges import innermost
from mopt_mlir.codegen.visit import Visit

LEFT_TO_L1 = 16 << 10
"""Bytes of partial sums that are left to the L1 cache, where they stay between visits."""


@dataclass(frozen=True)
class SumsPrefetch:
    """Asks for the first `count` registers of partial sums from `first` on, before the
    reduction."""

    builder: Builder
    partials: Partials
    first: Index
    count: int

    @staticmethod
    def of(visit: Visit) -> SumsPrefetch | None:
        """That of a visit's register tile for the next one, if sums wait in scratch memory, and
        these are not near anyway."""
        partials = visit.place.partials
        along = innermost(visit.problem.parallel_dims, visit.ranges)
        if partials is None or along is None:
            return None
        if prod(partials.memref.type.shape) * element_bytes(partials.memref) <= LEFT_TO_L1:
            return None
        first = partials.tile(visit.start) + partials.units[along] * partials.steps[along]
        return SumsPrefetch(visit.builder, partials, first, visit.tile.count)

    @property
    def dim(self) -> None:
        """It comes once, before all reduction loops."""

    def emit(self, _point: Mapping[str, Index]) -> None:
        partials, size = self.partials, element_bytes(self.partials.memref)
        registers_per_line = max(1, LINE_BYTES // (partials.vector * size))
        for at in partials.places(self.count)[::registers_per_line]:
            self.builder.prefetch(partials.memref, [self.first + at])
