"""Prefetching the output that will be written.

A row of output channels or pixels lies in another page than the one before, and stores to lines
that are not in the cache wait for each other. Where the reduction is split, only the first visit of
a register tile finds its output outside of the caches: memory would deliver during that visit and
idle during the others, so that all of them ask for a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.codegen.accumulators import AccumulatorTile
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.prefetch import last_offset, runs, steps_within
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.upcoming import LINE_BYTES, Upcoming, Visits
from mopt_mlir.plan import Microkernel

OUTPUT_AHEAD_CYCLES = 700
"""Best between a prefetch of output and its stores: the prefetches of a register tile come all at
once, so that the last of them takes longer."""


def emit_output_prefetch(
    output: AccumulatorTile,
    kernel: Microkernel,
    ranges: Mapping[str, Range],
    sizes: Mapping[str, int],
    upcoming: Upcoming,
) -> None:
    """Ask for the output of the register tile of `sizes` at the start of `ranges`, in the only
    visit that finds it outside of the caches; where too few outer products come before the stores,
    for that of a later one, which `upcoming` tells."""
    builder, problem, operands = output.builder, output.problem, output.operands
    if operands.nontemporal:
        return
    reduced = {dim: ranges[dim] for dim in problem.reduction_dims}
    start = dict(output.start)
    steps = prod(part.size for part in reduced.values())
    best = steps_within(OUTPUT_AHEAD_CYCLES, kernel)
    shared, later = None, upcoming.output
    if steps < best and later is not None:
        start[later.dim] = start[later.dim] + later.step
        # beside sums in scratch memory sharing does not help, some plans take 2 to 5% longer
        if later.visits is not None and output.partials is None:
            shared = _Shared(output, sizes, later.visits, ranges)
    elif steps < best // 2:
        return
    if shared is not None:
        conditions = shared.conditions
    elif output.partials is not None:
        conditions = output.is_last(reduced)
    else:
        conditions = output.is_first(reduced)

    def emit() -> None:
        _ask(output, upcoming.into, *((start, sizes) if shared is None else shared.part(start)))

    if conditions:
        builder.branch(conditions, emit, lambda: None)
    else:
        emit()


@dataclass(frozen=True)
class _Shared:
    """Output of `sizes` that `visits` share, row by row as far as there are several; the current
    visit is that at the start of `ranges`."""

    output: AccumulatorTile
    sizes: Mapping[str, int]
    visits: Visits
    ranges: Mapping[str, Range]

    @property
    def conditions(self) -> list[tuple[Index, bool]]:
        """Those of `Builder.branch` under which the visit asks for a part: the reduction outside of
        `visits` is at its start, and there are rows left."""
        visits, problem = self.visits, self.output.problem
        reduced = {dim: self.ranges[dim] for dim in problem.reduction_dims}
        begins = self.output.is_first({**reduced, visits.dim: visits.through})
        parts = -(-self._count // self._each)
        left = Index(constant=parts * visits.unit - 1) - self._done
        return begins + ([(left, False)] if parts < visits.count else [])

    def part(self, start: Mapping[str, Index]) -> tuple[Mapping[str, Index], Mapping[str, int]]:
        """Of the output at `start`, where the visit's part begins, and its sizes."""
        dim, unit = self._rows, self.visits.unit
        if dim is None:
            return start, self.sizes
        number = self.output.builder.apply("part", self._done, unit) if unit > 1 else self._done
        return (
            {**start, dim: start[dim] + number * self._each},
            {**self.sizes, dim: self._each},
        )

    @property
    def _done(self) -> Index:
        """What the visits before have reduced."""
        return self.ranges[self.visits.dim].start - self.visits.through.start

    @property
    def _rows(self) -> str | None:
        """The dim with most rows, if any has several."""
        tensor = self.output.problem.output
        rows = [dim for dim in tensor.dims if dim not in tensor.axes[-1].dims]
        dim = max(sorted(rows), key=lambda dim: self.sizes[dim], default=None)
        return dim if dim and self.sizes[dim] > 1 else None

    @property
    def _count(self) -> int:
        return 1 if self._rows is None else self.sizes[self._rows]

    @property
    def _each(self) -> int:
        """Rows per visit."""
        return -(-self._count // self.visits.count)


def _ask(
    output: AccumulatorTile, into: str, start: Mapping[str, Index], sizes: Mapping[str, int]
) -> None:
    """Ask for all lines of the output of `sizes` at `start`, for writing."""
    tensor = output.problem.output
    last = last_offset(tensor, sizes)
    for run in runs(tensor, start, sizes):
        for shift in range(last, -1, -LINE_BYTES // tensor.element.size):
            where = [*run[:-1], run[-1] + shift]
            output.builder.prefetch(output.operands.output, where, into, write=True)
