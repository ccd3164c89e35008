"""Prefetching the weights that are packed next, and those that are read next.

Several register tiles share what is used after the current block or panels: each asks for a part of
it, so that memory delivers while they compute, instead of all at once when they have done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels, element
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.upcoming import (
    LINE_BYTES,
    NextBlock,
    NextWeights,
    Turn,
    has_room,
    part_of,
    rows_at_once,
)
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import Problem, Role, Tensor

MOST_STEP_BYTES = 256
"""Weights that are further apart from step to step are not the dense rows that this is made for."""

MOST_AT_ONCE = 24
"""Lines that are asked for one after the other: we take it for what a core waits for at the same
time."""

LEFT_TO_L2 = 256 << 10
"""Bytes of weights that are left to the L2 cache, where they stay between their uses."""


@dataclass(frozen=True)
class RowPrefetch:
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
    ) -> RowPrefetch | None:
        """That of the register tile at `tile`, while `panels` hold the current block, if the next
        one is known and its rows are dense."""
        block = panels.upcoming
        if block is None:
            return None
        dim = panels.reduction[0]
        if block.moved not in (None, dim) or not _is_dense(problem, dim):
            return None
        rows = block.rows
        part = _number(builder, block.turns, tile, -(-block.count // rows))
        first, shift = _beyond(builder, block, block.first + part * rows)
        return RowPrefetch(builder, problem, weights, dim, first, rows, shift)

    @staticmethod
    def in_place(
        builder: Builder,
        problem: Problem,
        kernel: Microkernel,
        weights: Any,
        following: NextWeights,
        ranges: Mapping[str, Range],
    ) -> RowPrefetch | None:
        """That of the register tile at the start of `ranges`, if the output channels that follow
        are known and worth while: in each row, which begins on another page, the hardware's
        prefetchers start anew."""
        (channel,) = problem.by_role(Role.OUT_CHANNEL)
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
        return RowPrefetch(builder, problem, weights, dim, first, rows)

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`; dims of inner loops count as 0."""
        tensor = self.problem.weights
        (channel,) = self.problem.by_role(Role.OUT_CHANNEL)
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
class StripPrefetch:
    """The part of the weights in place that are read next, in vectors, which one register tile asks
    for: at each step over `dim` `each` of the lines, from line `first` on, that the same step will
    read then, by `shifts` further along each dim.

    Vectors of one step after the other lie whole rows of output channels apart, often pages, which
    hardware prefetchers do not foresee.
    """

    builder: Builder
    problem: Problem
    weights: Any
    dim: str
    shifts: Mapping[str, Index]
    channel: Index
    first: Index
    each: int
    into: str

    @staticmethod
    def of(
        builder: Builder,
        problem: Problem,
        kernel: Microkernel,
        weights: Any,
        following: NextWeights,
        ranges: Mapping[str, Range],
    ) -> StripPrefetch | None:
        """That of the register tile at the start of `ranges`, if it is worth while: if what follows
        has not been read before, and its rows are long."""
        (channel,) = problem.by_role(Role.OUT_CHANNEL)
        tensor = problem.weights
        if kernel.lanes != channel or not tensor.runs_along(channel):
            return None
        if _stays_in_l2(problem) or not following.fresh:
            return None
        open_ = [dim for dim in kernel.reduction if not ranges[dim].is_point]
        if not open_ or _step_bytes(problem, open_[-1]) <= MOST_STEP_BYTES:
            return None
        lines = -(-kernel.extent(channel) * tensor.element.size // LINE_BYTES)
        each, part = part_of(builder, lines, following, ranges)
        start = ranges[channel].start
        shifts = _shifts(builder, following, ranges[following.dim].start)
        return StripPrefetch(
            builder, problem, weights, open_[-1], shifts, start, part * each, each, following.into
        )

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`."""
        tensor = self.problem.weights
        (channel,) = self.problem.by_role(Role.OUT_CHANNEL)
        at = {dim: point.get(dim, Index()) for dim in tensor.dims}
        at[channel] = self.channel
        at |= {dim: at[dim] + shift for dim, shift in self.shifts.items()}
        *outer, run = element(tensor, at)
        for line in range(self.each):
            shift = (self.first + line) * (LINE_BYTES // tensor.element.size)
            self.builder.prefetch(self.weights, [*outer, run + shift], self.into)


@dataclass(frozen=True)
class BlockPrefetch:
    """The part of the weights that are packed next, in rows of `lines` of output channels from
    `first` on, which one register tile asks for: at each step of the loop over `dim`, around the
    innermost one, or once before that (None), `rows` of those that it reads, from `row` on,
    `shift` further along `moved`.
    """

    builder: Builder
    weights: Any
    tensor: Tensor
    dim: str | None
    inner: str
    starts: Mapping[str, Index]
    first: Index
    moved: str | None
    shift: Index
    row: Index
    rows: int
    lines: int
    into: str

    @staticmethod
    def of(
        builder: Builder,
        problem: Problem,
        weights: Any,
        panels: Panels,
        ranges: Mapping[str, Range],
    ) -> BlockPrefetch | None:
        """That of the register tile at the start of `ranges`, while `panels` hold the current
        block, if the next one is known, its rows lie far apart, and not too many are asked for at
        once."""
        block, tensor = panels.upcoming, problem.weights
        open_ = [dim for dim in panels.reduction if not ranges[dim].is_point]
        if block is None or not open_ or not tensor.runs_along(panels.channel):
            return None
        if _stays_in_l2(problem) or _step_bytes(problem, open_[-1]) <= MOST_STEP_BYTES:
            return None
        *outer, inner = open_
        rows = -(-ranges[inner].size // prod(turn.tiles for turn in block.turns))
        lines = -(-block.count * tensor.element.size // LINE_BYTES)
        if rows * lines > MOST_AT_ONCE:
            return None
        tile = {dim: range_.start for dim, range_ in ranges.items()}
        part = _number(builder, block.turns, tile, -(-ranges[inner].size // rows))
        first, shift = _beyond(builder, block, block.first)
        return BlockPrefetch(
            builder,
            weights,
            tensor,
            outer[-1] if outer else None,
            inner,
            tile,
            first,
            block.moved,
            shift,
            part * rows,
            rows,
            lines,
            block.into,
        )

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the rows of the step at `point`."""
        at = {**self.starts, **point}
        (channel,) = (d for d in self.tensor.dims if self.tensor.step(d) == 1)
        at[channel], at[self.inner] = self.first, at[self.inner] + self.row
        if self.moved is not None:
            at[self.moved] = at[self.moved] + self.shift
        for row in range(self.rows):
            *outer, run = element(self.tensor, {**at, self.inner: at[self.inner] + row})
            for line in range(self.lines):
                shift = line * (LINE_BYTES // self.tensor.element.size)
                self.builder.prefetch(self.weights, [*outer, run + shift], self.into)


def _beyond(builder: Builder, block: NextBlock, first: Index) -> tuple[Index, Index]:
    """The output channel `first` of `block`, and how much further it lies along the reduction dim,
    if the block may be behind the last one of these channels."""
    shift = Index(constant=block.shift)
    if block.wraps is None:
        return first, shift
    end, length = block.wraps
    wrap = builder.apply("wrap", end, length)  # 1 where the end is reached, else 0
    return first + wrap * block.count, shift - wrap * length


def _shifts(builder: Builder, following: NextWeights, start: Index) -> dict[str, Index]:
    """By how much what is read next lies further along each dim, where the current weights begin at
    `start` along that of the innermost loop: behind its last step it is the first one of the next
    step of the loop around."""
    step, around = Index(constant=following.step), following.around
    if around is None:
        return {following.dim: step}
    back = -(-around.length // following.step) * following.step
    passed = start + following.step - around.start

    def wrap(by: int) -> Index:
        return builder.step_if_reached("wrap", passed, around.length, by)

    return {following.dim: step + wrap(-back), around.dim: wrap(around.step)}


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
    """Whether the rows of weights, of which each step of `dim` reads a part, are dense."""
    known = problem.weights.step(dim) is not None
    return known and _step_bytes(problem, dim) <= MOST_STEP_BYTES


@dataclass(frozen=True)
class PanelPrefetch:
    """The part of the panels that are read next which one register tile asks for.

    At each step of a long reduction loop, over `dim`, `each` of their lines are asked for, from
    line `first` on, `spacing` elements further on at each step: where all that lies between two
    steps is read, those of one register tile follow each other. So memory delivers while the
    current panels are used, instead of all at once when they change.
    """

    builder: Builder
    panels: Panels
    following: NextWeights
    panel: Index
    dim: str
    ranges: Mapping[str, Range]
    first: Index
    each: int
    spacing: int

    @staticmethod
    def of(
        builder: Builder,
        panels: Panels,
        following: NextWeights | None,
        panel: Index,
        ranges: Mapping[str, Range],
    ) -> PanelPrefetch | None:
        """That of the register tile at the start of `ranges`, which reads `panel`, if it is worth
        while."""
        if following is None or not panels.reduction:
            return None
        size = _element_size(panels.memref)
        if prod(panels.memref.type.shape) * size <= LEFT_TO_L2:
            return None
        dim = _asking(panels, ranges)
        read, step = _per_step(panels, ranges, dim)
        lines = -(-read * size // LINE_BYTES)
        each, part = part_of(builder, lines, following, ranges)
        together = ranges[dim].size if read == step else 1
        spacing = each * (LINE_BYTES // size) if read == step else step
        first = part * (together * each)
        return PanelPrefetch(builder, panels, following, panel, dim, ranges, first, each, spacing)

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`, which has the reduction dims that are known."""
        panels, following = self.panels, self.following
        begin = {dim: self.ranges[dim].start for dim in panels.reduction}
        panel, step = self.panel, point[self.dim] - begin[self.dim]
        at = {dim: point.get(dim, start) for dim, start in begin.items()}
        at[self.dim] = begin[self.dim]
        if following.dim == panels.channel:
            panel = panel + following.step // panels.width
        else:
            at[following.dim] = at[following.dim] + following.step
        inner = [at[dim] - panels.starts[dim] for dim in panels.reduction]
        per_line = LINE_BYTES // _element_size(panels.memref)
        for line in range(self.each):
            lane = (self.first + line) * per_line + step * self.spacing
            self.builder.prefetch(panels.memref, [panel, *inner, lane], following.into)


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


def _element_size(memref: Any) -> int:
    """Bytes of an element of a memref of floats."""
    width: int = memref.type.element_type.width
    return width // 8
