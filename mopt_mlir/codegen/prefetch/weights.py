"""Prefetching the weights that are packed next, and those that are read next.

Several register tiles share what is used after the current block or panels: each asks for a part of
it, so that memory delivers while they compute, instead of all at once when they have done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels, element
from mopt_mlir.codegen.prefetch.budget import (
    AT_ONCE,
    LEFT_TO_L2,
    LINE_BYTES,
    MANY_PRODUCTS,
    has_room,
    power_of_two,
    rows_at_once,
)
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.upcoming import NextBlock, NextWeights, Turn, part_of, shifted, shifts_to
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem, Tensor

MOST_STEP_BYTES = 256
"""Weights that are further apart from step to step are not the dense rows that this is made for."""

NEAR_ROWS_BYTES = 128
"""Rows of output channels that are so far apart are left to the hardware's prefetchers. (Measured
on Zen 4, cold: a 1x1 layer whose rows are 192 bytes apart takes 2 to 3% less time if they are asked
for, 18 others between 1.7% less and 1.2% more.)"""


@dataclass(frozen=True)
class FilterRowPrefetch:
    """The part of the weights that are packed, or read in place, next which one register tile asks
    for, at each step of the reduction dim `dim`: `rows` output channels from `first` on, `shift`
    further along `dim`."""

    builder: Builder
    problem: Problem
    weights: Any
    dim: str
    first: Index
    rows: int
    shift: Index = field(default_factory=Index)

    @staticmethod
    def of_block(
        builder: Builder,
        problem: Problem,
        weights: Any,
        panels: Panels,
        tile: Mapping[str, Index],
    ) -> FilterRowPrefetch | None:
        """That of the register tile at `tile`, while `panels` hold the current block, if the next
        one is known and its rows are dense."""
        block = panels.next_block
        if block is None:
            return None
        dim = panels.reduction[0]
        if block.moved not in (None, dim) or not _is_dense(problem, dim):
            return None
        rows = block.rows
        part = _number(builder, block.turns, tile, -(-block.count // rows))
        first, shift = _beyond(builder, block, block.first + part * rows)
        return FilterRowPrefetch(builder, problem, weights, dim, first, rows, shift)

    @staticmethod
    def in_place(
        builder: Builder,
        problem: Problem,
        kernel: Microkernel,
        weights: Any,
        following: NextWeights,
        ranges: Mapping[str, Range],
    ) -> FilterRowPrefetch | None:
        """That of the register tile at the start of `ranges`, if the output channels that follow
        are known and worth while: in each row, which begins on another page, the hardware's
        prefetchers start anew."""
        channel = problem.out_channel
        comes_from_l2 = _stays_in_l2(problem) or not following.far
        if following.dim != channel or not kernel.reduction or comes_from_l2:
            return None
        dim, *inner = kernel.reduction
        rows = -(-kernel.extent(channel) // following.tiles)
        taps = prod(ranges[dim].size for dim in inner)
        fits = has_room(rows_at_once(rows, _step_bytes(problem, dim)), kernel, taps)
        if not fits or not _is_dense(problem, dim):
            return None
        rows, part = part_of(builder, kernel.extent(channel), following, ranges)
        first = ranges[channel].start + following.step + part * rows
        return FilterRowPrefetch(builder, problem, weights, dim, first, rows)

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`; dims of inner loops count as 0."""
        tensor = self.problem.weights
        channel = self.problem.out_channel
        size = _step_bytes(self.problem, self.dim)
        at = {dim: point.get(dim, Index()) for dim in tensor.dims}
        at[self.dim] = at[self.dim] + self.shift
        each = rows_at_once(self.rows, size)
        turn = Index()
        if each < self.rows:  # a power of two, as there is no cheap remainder of another number
            turns = 1 << (-(-self.rows // each) - 1).bit_length()
            turn = self.builder.apply("turn", point[self.dim], modulo=turns) * each
        for row in range(each):
            where = element(tensor, {**at, channel: self.first + turn + row})
            for start in range(0, max(size, 1), LINE_BYTES):
                shift = start // tensor.element.size
                self.builder.prefetch(self.weights, [*where[:-1], where[-1] + shift])


@dataclass(frozen=True)
class ChannelRowPrefetch:
    """The part of the weights, in rows of output channels, that one register tile asks for: those
    which are read in place, or packed, next.

    At each step of the loop over `dim`, or once before all loops (None), it asks for `lines` of
    `rows` rows, from `first_line` on and one step over `inner` after the other. They lie `shifts`
    further along each dim than what is read then. If there is a `first_pass`, in which all of these
    are 0, it asks in that pass only. Rows of one step after the other lie all output channels
    apart, often pages, which hardware prefetchers do not foresee. Where `every` is set, `dim` is
    `inner`, and every so many of its steps, a power of two, ask for one of the rows.
    """

    builder: Builder
    weights: Any
    tensor: Tensor
    dim: str | None
    inner: str
    starts: Mapping[str, Index]
    shifts: Mapping[str, Index]
    rows: int
    first_line: Index
    lines: int
    into: str
    first_pass: tuple[Index, ...]
    every: int = 0

    @staticmethod
    def in_place(
        builder: Builder,
        problem: Problem,
        kernel: Microkernel,
        weights: Any,
        following: NextWeights,
        ranges: Mapping[str, Range],
    ) -> ChannelRowPrefetch | None:
        """That of the register tile at the start of `ranges`, while what follows has not been read
        before, if its rows lie far apart. The tiles that read the same weights share the rows, or,
        if they are few or have time for a prefetch in each step, the lines of each row."""
        channel = problem.out_channel
        loops = _loops_in_rows(problem, kernel.reduction, channel, ranges)
        if kernel.lanes != channel or not loops:
            return None
        *outer, inner = loops
        rows, lines, first_line = 1, _lines(problem, kernel.extent(channel)), Index()
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
        starts = {name: range_.start for name, range_ in ranges.items()}
        always = following.far and not _stays_in_l2(problem)
        return ChannelRowPrefetch(
            builder=builder,
            weights=weights,
            tensor=problem.weights,
            dim=dim,
            inner=inner,
            starts=starts,
            shifts=shifts,
            rows=rows,
            first_line=first_line,
            lines=lines,
            into=following.into,
            first_pass=() if always else following.first_pass,
        )

    @staticmethod
    def of_block(
        builder: Builder,
        problem: Problem,
        weights: Any,
        panels: Panels,
        ranges: Mapping[str, Range],
    ) -> ChannelRowPrefetch | None:
        """That of the register tile at the start of `ranges`, while `panels` hold the current
        block, if the next one is known, and its rows lie far apart: all at once, or, if these are
        too many, one row after the other, unless a single one is too long.

        (Measured on Zen 4, cold: a 3x3 layer of 1024 output channels whose blocks of 176 input
        channels come row by row takes 8% less time than if nothing asks for them. Where twelve
        lines do, a 1x1 layer with AVX2 code takes 5% more time than if they come at once.)"""
        block = panels.next_block
        loops = _loops_in_rows(problem, panels.reduction, panels.channel, ranges)
        if block is None or not loops:
            return None
        *outer, inner = loops
        rows = -(-ranges[inner].size // prod(turn.tiles for turn in block.turns))
        lines = _lines(problem, block.count)
        starts = {dim: range_.start for dim, range_ in ranges.items()}
        part = _number(builder, block.turns, starts, -(-ranges[inner].size // rows))
        first, shift = _beyond(builder, block, block.first)
        shifts = {inner: part * rows, panels.channel: first - starts[panels.channel]}
        if block.moved is not None:
            shifts[block.moved] = shifts.get(block.moved, Index()) + shift
        found = ChannelRowPrefetch(
            builder=builder,
            weights=weights,
            tensor=problem.weights,
            dim=outer[-1] if outer else None,
            inner=inner,
            starts=starts,
            shifts=shifts,
            rows=rows,
            first_line=Index(),
            lines=lines,
            into=block.into,
            first_pass=block.first_pass if _stays_in_l2(problem) else (),
        )
        if rows * lines <= AT_ONCE:
            return found
        if lines > AT_ONCE:
            return None
        return replace(found, dim=inner, every=power_of_two(ranges[inner].size // rows))

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`."""
        conditions = [start.is_zero() for start in self.first_pass]
        at, rows = {**self.starts, **point}, self.rows
        if self.every:
            step, rows = at[self.inner] - self.starts[self.inner], 1
            due = self.builder.apply("due", step, modulo=self.every)
            conditions += [due.is_zero(), step.below(self.every * self.rows)]
            row = self.builder.apply("row", step, self.every)
            at[self.inner] = self.starts[self.inner] + row
        self.builder.branch(conditions, lambda: self._ask(at, rows))

    def _ask(self, at: Mapping[str, Index], rows: int) -> None:
        at = shifted(at, self.shifts)
        for row in range(rows):
            *outer, run = element(self.tensor, at | {self.inner: at[self.inner] + row})
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
    return loops if _step_bytes(problem, loops[-1]) > NEAR_ROWS_BYTES else []


def _lines(problem: Problem, channels: int) -> int:
    """Lines of a row of so many output channels, as many as it may touch: it begins at a multiple
    of its own length, and rows where those before end."""
    line = LINE_BYTES // problem.weights.element.size
    strides = (stride or 0 for stride in problem.weights.strides[:-1])  # 0 where it is unknown
    begins = line - gcd(line, channels, *strides)  # at most so far into a line
    return -(-(begins + channels) // line)


def _beyond(builder: Builder, block: NextBlock, first: Index) -> tuple[Index, Index]:
    """The output channel `first` of `block`, and how much further it lies along the reduction dim,
    if the block may be behind the last one of these channels."""
    shift = Index(constant=block.shift)
    if block.wraps is None:
        return first, shift
    end, length = block.wraps
    wrap = builder.apply("wrap", end, length)  # 1 where the end is reached, else 0
    return first + wrap * block.count, shift - wrap * length


def _number(
    builder: Builder, turns: Sequence[Turn], tile: Mapping[str, Index], parts: int
) -> Index:
    """Which of so many parts falls to the register tile at `tile`."""
    number, all_ = Index(), 1
    for turn in turns:
        offset = tile[turn.dim] - turn.start
        if offset.terms:
            step = builder.apply("turn", offset, turn.unit) if turn.unit > 1 else offset
        else:
            step = Index(constant=offset.constant // turn.unit)
        number, all_ = number + step * all_, all_ * turn.tiles
    if parts == all_:
        return number
    if not number.terms:
        return Index(constant=number.constant % parts)
    return builder.apply("part", number, modulo=parts)


def _stays_in_l2(problem: Problem) -> bool:
    """Whether there are so few weights that they stay in L2 between their uses."""
    elements = prod(problem.extent(dim) for dim in problem.weights.dims)
    return elements * problem.weights.element.size <= LEFT_TO_L2


def _step_bytes(problem: Problem, dim: str) -> int:
    """Bytes from one step of `dim` to the next in the weights: an element where it is unknown."""
    return (problem.weights.step(dim) or 1) * problem.weights.element.size


def _is_dense(problem: Problem, dim: str) -> bool:
    """Whether each output channel has a dense row of weights, of which a step of `dim` reads a
    part: not where output channels follow each other."""
    channel = problem.out_channel
    if problem.weights.runs_along(channel) or problem.weights.step(dim) is None:
        return False
    return _step_bytes(problem, dim) <= MOST_STEP_BYTES
