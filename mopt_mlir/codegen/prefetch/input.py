"""Prefetching the input.

Each step of the outermost reduction dim (an input channel, as a rule) reads a short run of pixels
from another page, which hardware prefetchers do not foresee: without help every step waits for
memory. So the lines of a later step are asked for, once per run of filter taps: some steps ahead,
from the end of a register tile on in the next one, or, where the whole reduction is short, the same
step of a later tile. Where several register tiles share what is read next, each asks for a part.
Where pixels hold all of their channels, and these are few, a row of taps is a run like that. What
later tiles read may go to L2, and be asked for from there once more, a few steps ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.prefetch.lines import line_step, run_starts, stretches
from mopt_mlir.codegen.prefetch.pace import Pace
from mopt_mlir.codegen.prefetch_budget import (
    AHEAD_CYCLES,
    LINE_BYTES,
    power_of_two_up_to,
    steps_within,
)
from mopt_mlir.codegen.ranges import Range, innermost
from mopt_mlir.codegen.upcoming import NextInput, part_of, shifted, shifts_to
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.problem import Tensor

NEAR_CYCLES = 90
"""Between a prefetch of input from L2 and its use. Measured on Granite Rapids: as good with 70 and
with 110; without any, the core waits for every row that it reads from L2, up to 10% of the time."""

SHORT_REDUCTION = 576
"""Below so many outer products the prefetch goes to a later register tile, since the first steps of
a tile, which nobody would prefetch, are too large a part of it. Measured on Zen 5: with 288 of them
(3x3 taps of 32 channels) this is 7% faster, from 576 on it is as fast or slower."""

TIMES_AHEAD = 2
"""A reduction that takes so many times AHEAD_CYCLES is long, however few outer products it has, if
what a later step reads is asked for into L2 and then into L1: a later register tile's input would
only come into L2, and nobody would ask for that of the first one. (Measured on Zen 4, cold, with
own plans of AVX-512 code: 1x1 layers with images of 14x14 take 3 to 16% less time, ones with few
output channels and images of 65x65 5 and 23%, others between 4% less and 2% more.)"""

FEW_PASSES = 16
"""Passes through the input, at most, for which later steps are prefetched into L2: only the first
one finds it outside of L2, so that of more passes most such prefetches are in vain. (L1 alone has
room for too few misses: 2048 lines that are 1 KB apart come within 25 us into L1, within 19 into
L2, on Zen 4.) Measured on Zen 4, cold, against asking for it into L1 at once: a 1x1 layer of 6
passes takes 9% less time, 13 others 0.4%; of 9 to 16 passes, ten 1x1 layers with images of 7x7 and
14x14 4 to 8% less, F1 6%, 28 others between 1.6% less and 1.2% more, with AVX2 code four layers 0.6
to 5% less; of up to 64 passes no more is gained."""

FEW_PASSES_AGAIN = 8
"""The same where input of later tiles is asked for from L2 into L1 once more. Measured on Granite
Rapids, cold: 3x3 layers of 2 to 8 passes take up to 10% less time, a 1x1 layer of 900 takes 5%
more."""

MOST_ASKED_AGAIN = 1.25
"""How often, at most and on average, rows of what is read later are asked for, where each register
tile that shares them asks for whole rows, now and then. A line of each row in every step, as they
would ask for otherwise, is more at a time, we suppose, than the buffers hold through which all
misses of L1 go. Measured on Granite Rapids, cold: 16 layers take 1.8% less time, two of them 14%,
six 1 to 3% more; of four whose rows would be asked for 1.5 times or more, one would take 8% more,
two 2 to 3% more, and one 2% less."""

ROWS_AT_ONCE = 4
"""Rows of taps, at most, that are prefetched together: their addresses are one and constant
distances from it. Measured on Granite Rapids, cold: layers of 3x3 take up to 9% less time, of 5x5
up to 8% more."""

SHORT_RUN_BYTES = 512
"""A reduction dim that moves by less than this is left to the hardware's prefetchers."""


@dataclass(frozen=True)
class InputPrefetch:
    """The input that the register tile of a `visit` asks for.

    In a long reduction it is that of a later step, in a short one that of a later register tile;
    where several tiles read the same input, each asks for a part of it. What is asked for may lie
    outside of the input.
    """

    visit: Visit

    @staticmethod
    def of(visit: Visit) -> InputPrefetch | None:
        """None where hardware prefetchers foresee what is read, or nothing is read that is worth
        asking for."""
        found, tensor = InputPrefetch(visit), visit.problem.input
        step = tensor.pitch(visit.kernel.reduction[0]) if found._loops else None
        if step is None or step * tensor.element.size < SHORT_RUN_BYTES or not found._run:
            return None
        return None if found._is_short and visit.upcoming.input is None else found

    @cached_property
    def dim(self) -> str | None:
        """The loop that asks, in each of its steps: around the run of taps along a row. Where there
        is none, it is asked for once, before it (None). Of several loops it is the innermost; or
        the outermost, for few rows of taps at once, where input is asked for once more."""
        around = [dim for dim in self._loops if dim not in self._run]
        if not around:
            return None
        rows = prod(self.visit.ranges[dim].size for dim in around[1:])
        at_once = self.visit.upcoming.again and rows <= ROWS_AT_ONCE
        return around[0] if at_once else around[-1]

    @cached_property
    def _loops(self) -> list[str]:
        return [dim for dim in self.visit.kernel.reduction if not self.visit.ranges[dim].is_point]

    @cached_property
    def _sizes_at_once(self) -> Mapping[str, int]:
        """What is asked for at once: a register tile, and rows of taps that inner loops read."""
        visit = self.visit
        if not visit.upcoming.again or self.dim is None:
            return visit.sizes
        inside = visit.kernel.reduction[visit.kernel.reduction.index(self.dim) + 1 :]
        return {**visit.sizes, **{dim: visit.ranges[dim].size for dim in inside}}

    @cached_property
    def _run(self) -> frozenset[str]:
        """The dims that move along a run of pixels in memory, if the input has such runs."""
        tensor = self.visit.problem.input
        along = frozenset(dim for axis in tensor.axes[-self._run_axes :] for dim in axis.dims)
        is_run = tensor.strides[-1] == 1 and not along.isdisjoint(self.visit.problem.parallel_dims)
        return along if is_run else frozenset()

    @cached_property
    def _run_axes(self) -> int:
        """How many of the last axes are a run: one of pixels, and one of their channels if these
        are less than a line."""
        tensor = self.visit.problem.input
        pixel = tensor.strides[-2] if len(tensor.axes) > 1 else None
        few = pixel is not None and pixel * tensor.element.size < LINE_BYTES
        channels = not any(dim in tensor.axes[-1].dims for dim in self.visit.problem.parallel_dims)
        return 2 if few and channels else 1

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for it at `point`, which has the reduction dims whose loops are open; the others
        count with all that the register tile reads of them."""
        visit = self.visit
        inner = [dim for dim in visit.kernel.reduction if dim not in point]
        at = {**point, **{dim: visit.ranges[dim].start for dim in inner}}
        read = {**visit.sizes, **{dim: visit.ranges[dim].size for dim in inner}}
        lines = _line_offsets(visit.problem.input, read, self._run_axes)
        later = visit.upcoming.input
        if later is not None and (self._is_short or self._is_shared(later)):
            if visit.upcoming.again:
                self._ask_ahead(at, NEAR_CYCLES, lines, "L1")
            self._ask_later(at, lines, later)
            return
        if self._goes_through_l2:
            self._ask_ahead(at, NEAR_CYCLES, lines, "L1")
        self._ask_ahead(at, AHEAD_CYCLES, lines, "L2" if self._goes_through_l2 else "L1")

    @property
    def _taps(self) -> int:
        """Steps of the reduction for each of its outermost dim."""
        return prod(self.visit.ranges[dim].size for dim in self.visit.kernel.reduction[1:])

    @property
    def _is_short(self) -> bool:
        """Whether the reduction is over too soon after what a later step reads has arrived."""
        visit = self.visit
        products = self._taps * visit.ranges[visit.kernel.reduction[0]].size
        most = SHORT_REDUCTION
        if self._goes_through_l2 and not visit.upcoming.again:
            most = min(most, TIMES_AHEAD * steps_within(AHEAD_CYCLES, visit.kernel))
        return products < most

    @property
    def _goes_through_l2(self) -> bool:
        """Whether a later step is asked for into L2, and from there, a few steps ahead, into L1."""
        few = FEW_PASSES_AGAIN if self.visit.upcoming.again else FEW_PASSES
        return self.visit.upcoming.into == "L2" and self._passes <= few

    def _ask_later(self, at: Mapping[str, Index], lines: Sequence[Index], later: NextInput) -> None:
        """Ask for what is read `later`, or for the part of it that falls to this register tile:
        whole rows, in some of the steps, or in each step some of `lines`."""
        visit = self.visit
        at_later = shifted(at, shifts_to(visit.builder, later, visit.ranges[later.dim].start))
        pace = self._pace_of_rows(later)
        if pace is not None:
            _, row = part_of(visit.builder, pace.apart, later, visit.ranges)
            at_row = shifted(at_later, {pace.dim: row})
            conditions = pace.conditions(visit.builder, at)
            visit.builder.branch(conditions, lambda: self._ask(at_row, lines, visit.upcoming.into))
            return
        if _evenly_spread(lines, visit.problem.input):
            lines = _part(visit.builder, lines, visit.ranges, later)
        self._ask(at_later, lines, visit.upcoming.into)

    def _pace_of_rows(self, later: NextInput) -> Pace | None:
        """At what pace each of the register tiles that share `later` asks for whole rows of it, so
        that each row is asked for by one of them, or a few by two; None where that does not pay,
        or was not tried: where input is asked for only once."""
        if self.dim is None or not self.visit.upcoming.again:
            return None
        steps = self.visit.ranges[self.dim]
        apart = power_of_two_up_to(min(later.tiles, steps.size))
        if later.tiles > MOST_ASKED_AGAIN * apart:
            return None
        return Pace(self.dim, steps.start, 1, apart)

    def _ask(self, at: Mapping[str, Index], lines: Sequence[Index], into: str) -> None:
        """Ask for `lines` of each run that a register tile at `at` reads."""
        visit = self.visit
        for run in run_starts(visit.problem.input, at, self._sizes_at_once, self._run_axes):
            for start in lines:
                visit.builder.prefetch(visit.operands.input, [*run[:-1], run[-1] + start], into)

    def _ask_ahead(
        self,
        at: Mapping[str, Index],
        cycles: int,
        lines: Sequence[Index],
        into: str,
    ) -> None:
        """Ask for `lines` of what is read so many cycles after `at`."""
        at, wrap = self._moved_ahead(at, cycles)
        self._ask(at, [wrap + line for line in lines], into)

    def _moved_ahead(self, at: Mapping[str, Index], cycles: int) -> tuple[dict[str, Index], Index]:
        """`at` so many cycles on, in whole channels, and elements from there: behind the last
        channel come the first ones of the next register tile. What lies behind them in memory
        is not read soon, if ever: asking for that would only take room in the caches."""
        visit = self.visit
        at, steps = {**at}, max(1, steps_within(cycles, visit.kernel) // self._taps)
        channel, tile = visit.kernel.reduction[0], self._next_tile
        part = visit.ranges[channel]
        first, count = part.start, part.size
        if tile is not None and part.depth > visit.ranges[tile].depth:  # it sees all parts
            first, count = Index(), part.within
            tile = tile if count == visit.problem.extent(channel) else None
        at[channel] = at[channel] + min(steps, count)
        if tile is None:
            return at, Index()
        tensor = visit.problem.input
        back, on = tensor.pitch(channel), tensor.pitch(tile)
        if back is None or on is None:
            return at, Index()
        step = on * visit.ranges[tile].size - back * count
        return at, visit.builder.step_if_reached("wrap", at[channel] - first, count, step)

    @property
    def _passes(self) -> int:
        """How often the same input is read, by register tiles of different output channels."""
        problem, kernel = self.visit.problem, self.visit.kernel
        return -(-problem.extent(problem.out_channel) // kernel.extent(problem.out_channel))

    @cached_property
    def _next_tile(self) -> str | None:
        """The dim along which the next register tile lies, if there is one."""
        return innermost(self.visit.problem.pixel_dims, self.visit.ranges)

    def _is_shared(self, later: NextInput) -> bool:
        """Whether several register tiles, one after the other, read the same input until then."""
        depth = 0 if self._next_tile is None else self.visit.ranges[self._next_tile].depth
        return later.along is not None and depth < self.visit.ranges[later.along].depth


def _evenly_spread(lines: Sequence[Index], tensor: Tensor) -> bool:
    """Whether nothing lies between the lines, as it does between taps that are dilated far."""
    gaps = (second.constant - first.constant for first, second in pairwise(lines))
    return max(gaps, default=0) <= line_step(tensor)


def _part(
    builder: Builder, lines: Sequence[Index], ranges: Mapping[str, Range], later: NextInput
) -> list[Index]:
    """The part of `lines`, evenly spread, that the register tile at the start of `ranges` asks
    for."""
    each, part = part_of(builder, len(lines), later, ranges)
    if each == len(lines):
        return list(lines)
    spacing = -(-lines[-1].constant // (len(lines) - 1))
    return [(part * each + i) * spacing for i in range(each)]


def _line_offsets(tensor: Tensor, sizes: Mapping[str, int], run_axes: int) -> list[Index]:
    """Offsets into a run, one in each cache line that it may touch."""
    step = line_step(tensor)
    offsets = (
        offset
        for first, last in stretches(tensor, sizes, run_axes)
        for offset in (*range(first, last, step), last)
    )
    return [Index(constant=offset) for offset in sorted(set(offsets))]
