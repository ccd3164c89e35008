"""Prefetching the output that will be written.

A row of output channels or pixels lies in another page than the one before, and stores to lines
that are not in the cache wait for each other. Where the reduction is split, only the first visit of
a register tile finds its output outside of the caches, or the first since these had to keep too
much else: memory would deliver during that visit and idle during the others, so that all of them
ask for a part. And where a register tile writes many rows, asking for all of them at once would
keep its first loads waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mopt_mlir.codegen.accumulators import Accumulators
from mopt_mlir.codegen.index import Condition, Index
from mopt_mlir.codegen.prefetch.lines import last_offset, line_step, run_starts
from mopt_mlir.codegen.prefetch.pace import Pace
from mopt_mlir.codegen.prefetch_budget import AT_ONCE, steps_within
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.upcoming import VisitingLoop
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Tensor

OUTPUT_AHEAD_CYCLES = 700
"""Best between a prefetch of output and its stores: many prefetches come at once, so that the last
of them takes longer."""


def output_prefetch(visit: Visit) -> _AtOnce | _ByRow | None:
    """What asks for the output of a visit's register tile, in the visits that find it outside of
    the caches; where too few outer products come before the stores, for that of a later one."""
    output, upcoming, sizes = visit.accumulators, visit.upcoming, visit.sizes
    if output.operands.nontemporal:
        return None
    start = dict(visit.start)
    steps = prod(part.size for part in visit.reduced.values())
    best = steps_within(OUTPUT_AHEAD_CYCLES, visit.kernel)
    shared, later = None, upcoming.output
    if steps < best and later is not None:
        start[later.dim] = start[later.dim] + later.step
        # beside sums in scratch memory sharing does not help, some plans take 2 to 5% longer
        if later.visits is not None and output.partials is None:
            shared = _Shared(output, sizes, later.visits, visit.ranges, upcoming.since)
    elif steps < best // 2:
        return None
    if shared is not None:
        conditions = shared.conditions
    elif output.partials is not None:
        conditions = output.when_last(visit.reduced)
    else:
        conditions = output.when_first(visit.reduced, upcoming.since)
    all_ = _AtOnce(output, upcoming.into, start, sizes, conditions, shared)
    if upcoming.into == "L1" or upcoming.again or conditions or shared is not None:
        return all_
    return _ByRow.of(all_, visit.kernel, visit.ranges, best // 2) or all_


@dataclass(frozen=True)
class _AtOnce:
    """Asks for the output of `sizes` at `start`, or the part of it that is `shared`, under
    `conditions`, before the reduction."""

    output: Accumulators
    into: str
    start: Mapping[str, Index]
    sizes: Mapping[str, int]
    conditions: Sequence[Condition]
    shared: _Shared | None

    @property
    def dim(self) -> None:
        return None

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for it; `point` does not matter."""

        def ask() -> None:
            part = (self.start, self.sizes) if self.shared is None else self.shared.part(self.start)
            _ask(self.output, self.into, *part)

        self.output.builder.branch(self.conditions, ask)


@dataclass(frozen=True)
class _ByRow:
    """Asks for the output of `sizes` at `start`, at a `pace` in a reduction loop: one row along
    `rows` after the other, or as many at once as are needed. (The last step may ask for a few
    more.)"""

    output: Accumulators
    into: str
    start: Mapping[str, Index]
    sizes: Mapping[str, int]
    rows: str
    pace: Pace

    @staticmethod
    def of(
        all_: _AtOnce, kernel: Microkernel, ranges: Mapping[str, Range], least: int
    ) -> _ByRow | None:
        """In place of `all_`, if that would be too much at once; the last rows come `least` outer
        products before the stores, if not in the first half of the loop."""
        loop = next((dim for dim in kernel.reduction if not ranges[dim].is_point), None)
        rows = _most_rows(all_.output, all_.sizes)
        if _line_count(all_.output, all_.sizes) <= AT_ONCE or loop is None or rows is None:
            return None
        count = ranges[loop].size
        steps = count // 2
        if steps < all_.sizes[rows]:  # several at once
            each = prod(ranges[dim].size for dim in kernel.reduction if dim != loop)
            steps = max(steps, count - -(-least // each))
        return _ByRow(
            output=all_.output,
            into=all_.into,
            start=all_.start,
            sizes=all_.sizes,
            rows=rows,
            pace=Pace.of(all_.sizes[rows], steps, loop, ranges[loop].start),
        )

    @property
    def dim(self) -> str:
        return self.pace.dim

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the rows that come in the step at `point`, if any do."""
        builder, pace = self.output.builder, self.pace

        def ask() -> None:
            number = pace.number(builder, point)
            start = {**self.start, self.rows: self.start[self.rows] + number}
            _ask(self.output, self.into, start, {**self.sizes, self.rows: pace.each})

        left = pace.done(point).below(pace.steps(self.sizes[self.rows]))
        builder.branch([*pace.conditions(builder, point), left], ask)


def _most_rows(output: Accumulators, sizes: Mapping[str, int]) -> str | None:
    """The dim with most rows of the output of `sizes`, if any has several."""
    tensor = output.problem.output
    rows = [dim for dim in tensor.dims if dim not in tensor.axes[-1].dims]
    dim = max(sorted(rows), key=lambda dim: sizes[dim], default=None)
    return dim if dim and sizes[dim] > 1 else None


def _line_count(output: Accumulators, sizes: Mapping[str, int]) -> int:
    """How many prefetches the output of `sizes` takes: at least as many as it has lines."""
    tensor = output.problem.output
    return len(run_starts(tensor, output.start, sizes)) * len(_shifts(tensor, sizes))


def _shifts(tensor: Tensor, sizes: Mapping[str, int]) -> range:
    """Offsets into a run of `tensor`, one in each cache line, from the last element on."""
    return range(last_offset(tensor, sizes), -1, -line_step(tensor))


def _ask(
    output: Accumulators, into: str, start: Mapping[str, Index], sizes: Mapping[str, int]
) -> None:
    """Ask for all lines of the output of `sizes` at `start`, for writing."""
    tensor = output.problem.output
    for run in run_starts(tensor, start, sizes):
        for shift in _shifts(tensor, sizes):
            where = [*run[:-1], run[-1] + shift]
            output.builder.prefetch(output.operands.output, where, into, write=True)


@dataclass(frozen=True)
class _Shared:
    """Output of `sizes` that `visits` share, row by row as far as there are several; the current
    visit is that at the start of `ranges`."""

    output: Accumulators
    sizes: Mapping[str, int]
    visits: VisitingLoop
    ranges: Mapping[str, Range]
    since: Mapping[str, Index]

    @property
    def conditions(self) -> list[Condition]:
        """The conditions under which the visit asks for a part: the reduction outside of `visits`
        is at its start, and there are rows left."""
        visits, problem = self.visits, self.output.problem
        reduced = {dim: self.ranges[dim] for dim in problem.reduction_dims}
        through = {**reduced, visits.dim: visits.through}
        begins = self.output.when_first(through, self.since)
        parts = -(-self._count // self._each)
        return begins + [self._done.below(parts * visits.step)] * (parts < visits.count)

    def part(self, start: Mapping[str, Index]) -> tuple[Mapping[str, Index], Mapping[str, int]]:
        """Of the output at `start`, where the visit's part begins, and its sizes."""
        dim, unit = self._rows, self.visits.step
        if dim is None:
            return start, self.sizes
        number = self.output.builder.apply("part", self._done, unit)
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
        return _most_rows(self.output, self.sizes)

    @property
    def _count(self) -> int:
        return 1 if self._rows is None else self.sizes[self._rows]

    @property
    def _each(self) -> int:
        """Rows per visit."""
        return -(-self._count // self.visits.count)
