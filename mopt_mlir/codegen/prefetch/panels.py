"""Prefetching packed weights, the panels that are read next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.codegen.builder import Builder, element_bytes
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels
from mopt_mlir.codegen.prefetch.pace import Pace
from mopt_mlir.codegen.prefetch_budget import (
    LEFT_TO_L2,
    LINE_BYTES,
    MANY_PRODUCTS,
    power_of_two_up_to,
)
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.upcoming import part_of, shifted, shifts_to
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.microkernel import Microkernel

MOST_STEPS = 8
"""Of which one asks: as many as become one where reductions of few multiply-adds are unrolled, so
that nothing is left to decide. (Measured on Zen 3, channels last, constant weights, warm caches:
twelve layers whose register tiles each asked for all of the next panels in every step take 5% less
time, up to 14%.)"""


@dataclass(frozen=True)
class PanelPrefetch:
    """The part of the panels that are read next which one register tile asks for.

    In a long reduction loop they are asked for at a `pace`, so that memory delivers while the
    current panels are used, instead of all at once when they change. If there are more register
    tiles than lines of a step, each may ask in some steps only.
    """

    builder: Builder
    panels: Panels
    shifts: Mapping[str, Index]
    """How much further than the current ones they lie along each dim, of output channels in panels.
    """
    into: str
    panel: Index
    pace: Pace
    ranges: Mapping[str, Range]
    first: Index
    """The line that is asked for first."""
    spacing: int
    """Elements from what is asked for at a time to what is the next time: where all that lies
    between two steps is read, the lines of one register tile follow each other."""

    @staticmethod
    def of(visit: Visit, panels: Panels, panel: Index) -> PanelPrefetch | None:
        """That of a visit's register tile, which reads `panel`, if it is worth while."""
        builder, ranges, following = visit.builder, visit.ranges, visit.upcoming.weights
        if following is None or not panels.reduction:
            return None
        size = element_bytes(panels.memref)
        if prod(panels.memref.type.shape) * size <= LEFT_TO_L2:
            return None
        dim = _asking(panels, ranges)
        read, step = _per_step(panels, ranges, dim)
        lines = -(-read * size // LINE_BYTES)
        if read == step:  # without gaps: the lines of one register tile follow each other
            every = _every(visit.kernel, following.tiles // lines)
            each, part = part_of(builder, lines * every, following, ranges)
            first = part * (-(-ranges[dim].size // every) * each)
            spacing = each * (LINE_BYTES // size)
        else:
            every = 1
            each, part = part_of(builder, lines, following, ranges)
            first, spacing = part * each, step
        start, units = ranges[following.dim].start, {panels.channel: panels.width}
        return PanelPrefetch(
            builder=builder,
            panels=panels,
            shifts=shifts_to(builder, following, start, units),
            into=visit.upcoming.into,
            panel=panel,
            pace=Pace(dim, ranges[dim].start, each, every),
            ranges=ranges,
            first=first,
            spacing=spacing,
        )

    @property
    def dim(self) -> str:
        return self.pace.dim

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`, which has the reduction dims that are known, if
        it is one that asks."""
        conditions = self.pace.conditions(self.builder, point)
        turn = self.pace.turn(self.builder, point)
        self.builder.branch(conditions, lambda: self._ask(point, turn))

    def _ask(self, point: Mapping[str, Index], turn: Index) -> None:
        """Ask for the lines of the `turn` at `point`."""
        panels = self.panels
        begin = {dim: self.ranges[dim].start for dim in panels.reduction}
        at = {dim: point.get(dim, start) for dim, start in begin.items()}
        at = shifted({**at, self.dim: begin[self.dim], panels.channel: self.panel}, self.shifts)
        per_line = LINE_BYTES // element_bytes(panels.memref)
        for line in range(self.pace.each):
            lane = (self.first + line) * per_line + turn * self.spacing
            where = panels.indices_of(at[panels.channel], at, lane)
            self.builder.prefetch(panels.memref, where, self.into)


def _every(kernel: Microkernel, tiles: int) -> int:
    """Of how many steps one asks, if so many register tiles share each of the lines of a step."""
    if kernel.accumulators >= MANY_PRODUCTS:
        return 1
    return power_of_two_up_to(min(max(tiles, 1), MOST_STEPS))


def _asking(panels: Panels, ranges: Mapping[str, Range]) -> str:
    """The longest loop of the reduction, or the first one inside of it that reads without gaps."""
    longest = max(panels.reduction, key=lambda dim: ranges[dim].size)
    loops = panels.reduction[panels.reduction.index(longest) :]
    dense = (dim for dim in loops if ranges[dim].size > 1 and _reads_run(panels, ranges, dim))
    return next(dense, longest)


def _reads_run(panels: Panels, ranges: Mapping[str, Range], dim: str) -> bool:
    """Whether a step of `dim` reads one run of a panel."""
    extents = dict(zip(panels.reduction, panels.memref.type.shape[1:-1], strict=True))
    inner = panels.reduction[panels.reduction.index(dim) + 1 :]
    moving = [i for i, name in enumerate(inner) if ranges[name].size > 1]
    rest = inner[min(moving, default=0) + 1 :]
    return all(ranges[name].size == extents[name] for name in rest)


def _per_step(panels: Panels, ranges: Mapping[str, Range], dim: str) -> tuple[int, int]:
    """Elements of a panel that one step of `dim` reads, and from one step to the next."""
    extents = dict(zip(panels.reduction, panels.memref.type.shape[1:-1], strict=True))
    step: int = panels.memref.type.shape[-1]
    read = step
    for inner in reversed(panels.reduction[panels.reduction.index(dim) + 1 :]):
        read += (ranges[inner].size - 1) * step
        step *= extents[inner]
    return read, step
