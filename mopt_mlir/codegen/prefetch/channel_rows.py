"""Prefetching weights in rows of output channels: those that are packed, or read in place, next.

Rows of one step after the other lie all output channels apart, often pages, which hardware
prefetchers do not foresee. Register tiles that share what comes next each ask for a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels, indices_of
from mopt_mlir.codegen.prefetch.pace import Pace
from mopt_mlir.codegen.prefetch_budget import (
    AT_ONCE,
    LINE_BYTES,
    MANY_PRODUCTS,
    stays_in_l2,
    weights_step_bytes,
)
from mopt_mlir.codegen.ranges import Range, starts_of
from mopt_mlir.codegen.upcoming import (
    NextWeights,
    block_from,
    part_of,
    part_of_block,
    shifted,
    shifts_to,
)
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.problem import Problem, Tensor

NEAR_ROWS_BYTES = 128
"""Rows of output channels that are so far apart are left to the hardware's prefetchers. (Measured
on Zen 4, cold: a 1x1 layer whose rows are 192 bytes apart takes 2 to 3% less time if they are asked
for, 18 others between 1.7% less and 1.2% more.)"""


@dataclass(frozen=True)
class ChannelRowPrefetch:
    """The part of the weights, in rows of output channels, that one register tile asks for: those
    which are read in place, or packed, next."""

    builder: Builder
    weights: Any
    tensor: Tensor
    dim: str | None
    """The loop that asks, at each step; None where that is done once before all loops."""
    inner: str
    """The dim along which one row comes after the other."""
    starts: Mapping[str, Index]
    shifts: Mapping[str, Index]
    """How much further along each dim they lie than what is read then."""
    rows: int
    """How many are asked for."""
    first_line: Index
    """The first one that is asked for of each row."""
    lines: int
    """How many are asked for of each row."""
    into: str
    first_pass: tuple[Index, ...]
    """If there are any, they are asked for only while all of these are 0."""
    pace: Pace | None = None
    """At which rows are asked for one by one, `dim` being `inner`; None for all at once."""

    @staticmethod
    def in_place(visit: Visit, following: NextWeights) -> ChannelRowPrefetch | None:
        """That of a visit's register tile, while what follows has not been read before, if its rows
        lie far apart. The tiles that read the same weights share the rows, or, if they are few or
        have time for a prefetch in each step, the lines of each row."""
        builder, problem, ranges = visit.builder, visit.problem, visit.ranges
        kernel, channel = visit.kernel, problem.out_channel
        loops = _loops_in_rows(problem, kernel.reduction, channel, ranges)
        if kernel.lanes != channel or not loops:
            return None
        *outer, inner = loops
        rows, lines, first_line = 1, _lines_touched(problem, kernel.extent(channel)), Index()
        shifts = shifts_to(builder, following, ranges[following.dim].start)
        at_once = -(-ranges[inner].size // following.tiles) * lines
        products = kernel.accumulators
        if at_once <= AT_ONCE and products < MANY_PRODUCTS * -(-lines // following.tiles):
            rows, part = part_of(builder, ranges[inner].size, following, ranges)
            shifts[inner] = shifts.get(inner, Index()) + part * rows
            dim = outer[-1] if outer else None
        else:
            lines, part = part_of(builder, lines, following, ranges)
            first_line, dim = part * lines, inner
        always = following.far and not stays_in_l2(problem)
        return ChannelRowPrefetch(
            builder=builder,
            weights=visit.operands.weights,
            tensor=problem.weights,
            dim=dim,
            inner=inner,
            starts=starts_of(ranges),
            shifts=shifts,
            rows=rows,
            first_line=first_line,
            lines=lines,
            into=visit.upcoming.into,
            first_pass=() if always else following.first_pass,
        )

    @staticmethod
    def of_block(visit: Visit, panels: Panels) -> ChannelRowPrefetch | None:
        """That of a visit's register tile, while `panels` hold the current block, if the next one
        is known, and its rows lie far apart: all at once, or, if these are too many, one row after
        the other, unless a single one is too long.

        (Measured on Zen 4, cold: a 3x3 layer of 1024 output channels whose blocks of 176 input
        channels come row by row takes 8% less time than if nothing asks for them. Where twelve
        lines do, a 1x1 layer with AVX2 code takes 5% more time than if they come at once.)"""
        builder, problem, ranges = visit.builder, visit.problem, visit.ranges
        block = panels.next_block
        loops = _loops_in_rows(problem, panels.reduction, panels.channel, ranges)
        if block is None or not loops:
            return None
        *outer, inner = loops
        rows = -(-ranges[inner].size // prod(turn.tiles for turn in block.turns))
        lines = _lines_touched(problem, block.count)
        starts = starts_of(ranges)
        part = part_of_block(builder, block.turns, starts, -(-ranges[inner].size // rows))
        first, shift = block_from(builder, block, block.first)
        shifts = {inner: part * rows, panels.channel: first - starts[panels.channel]}
        if block.moved is not None:
            shifts[block.moved] = shifts.get(block.moved, Index()) + shift
        found = ChannelRowPrefetch(
            builder=builder,
            weights=visit.operands.weights,
            tensor=problem.weights,
            dim=outer[-1] if outer else None,
            inner=inner,
            starts=starts,
            shifts=shifts,
            rows=rows,
            first_line=Index(),
            lines=lines,
            into=visit.upcoming.into,
            first_pass=block.first_pass if stays_in_l2(problem) else (),
        )
        if rows * lines <= AT_ONCE:
            return found
        if lines > AT_ONCE:
            return None
        pace = Pace.of(rows, ranges[inner].size, inner, starts[inner])
        return replace(found, dim=inner, pace=pace)

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`."""
        conditions = [start.is_zero() for start in self.first_pass]
        at, rows = {**self.starts, **point}, self.rows
        if self.pace is not None:
            conditions += self.pace.conditions(self.builder, point)
            conditions.append(self.pace.done(point).below(self.pace.steps(self.rows)))
            row = self.pace.number(self.builder, point)
            at[self.inner], rows = self.starts[self.inner] + row, self.pace.each
        self.builder.branch(conditions, lambda: self._ask(at, rows))

    def _ask(self, at: Mapping[str, Index], rows: int) -> None:
        at = shifted(at, self.shifts)
        for row in range(rows):
            *outer, run = indices_of(self.tensor, at | {self.inner: at[self.inner] + row})
            for line in range(self.lines):
                shift = (self.first_line + line) * (LINE_BYTES // self.tensor.element.size)
                self.builder.prefetch(self.weights, [*outer, run + shift], self.into)


def _loops_in_rows(
    problem: Problem, reduction: Sequence[str], channel: str, ranges: Mapping[str, Range]
) -> list[str]:
    """The loops over `reduction` in `ranges`, if each step reads a row of output channels far from
    that of the next one."""
    loops = [dim for dim in reduction if not ranges[dim].is_point]
    if not loops or not problem.weights.runs_along(channel):
        return []
    return loops if weights_step_bytes(problem, loops[-1]) > NEAR_ROWS_BYTES else []


def _lines_touched(problem: Problem, channels: int) -> int:
    """Lines of a row of so many output channels, as many as it may touch: it begins at a multiple
    of its own length, and rows where those before end."""
    line = LINE_BYTES // problem.weights.element.size
    strides = (stride or 0 for stride in problem.weights.strides[:-1])  # 0 where it is unknown
    begins = line - gcd(line, channels, *strides)  # at most so far into a line
    return -(-(begins + channels) // line)
