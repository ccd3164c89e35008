"""Prefetching the input where pixels hold all of their channels.

A register tile then reads a run of channels of each of its pixels, which lie apart: more runs than
hardware prefetchers follow, too short for them, or both. So the innermost loop, over the channels,
asks for what a later register tile will read: in each of its steps for another pixel, so that it
has been through all of them when it comes to the next line. A short loop that does not run equally
often each time asks before its first step, as finding the pixel of a step takes instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Condition, Index
from mopt_mlir.codegen.operands import indices_of
from mopt_mlir.codegen.prefetch_budget import (
    AT_ONCE,
    LINE_BYTES,
    has_room,
    power_of_two_from,
    power_of_two_up_to,
)
from mopt_mlir.codegen.ranges import Range, starts_of
from mopt_mlir.codegen.upcoming import NextInput, part_of, shifted, shifts_to
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem, Tensor

LATE = 4
"""Where one of eight or more steps prefetches, how far that is from the first, in which the
register tile reads new lines itself; of two or four steps it is the first. (Measured on Zen 4,
cold, with AVX-512 code: asking in another one than the first of eight makes a 3x3 layer of 128
channels with stride 2 7% faster.)"""


@dataclass(frozen=True)
class Pixels:
    """Pixels of `tensor` that a register tile asks for: a part of those of each row."""

    tensor: Tensor
    row: int
    """The axis along which they lie."""
    first: Index
    """The first one of the part."""
    count: int
    """How many are asked for; at each step of the loop over `tap` as many further on."""
    apart: int
    """From one to the next, along the axis."""
    tap: str | None
    """The filter dim of that axis, if there is a loop over it."""
    rows: Sequence[Mapping[str, int]]
    """Where rows begin, along the other image dims of the microkernel."""

    @staticmethod
    def of(visit: Visit, later: NextInput) -> Pixels | None:
        """The part of a visit's register tile in `later`, if that has pixels."""
        problem, kernel, ranges = visit.problem, visit.kernel, visit.ranges
        tensor = problem.input
        sizes = {dim: kernel.tile[dim] for dim in problem.pixel_dims if dim in kernel.tile}
        along = max(sizes, key=lambda dim: sizes[dim], default=None)
        if along is None:
            return None
        row = next(i for i, axis in enumerate(tensor.axes) if along in axis.dims)
        outer = kernel.reduction[:-1]
        tap = next((dim for dim in outer if dim in tensor.axes[row].dims), None)
        taps = 1 if tap is None else ranges[tap].size
        apart = dict(tensor.axes[row].terms)[along] if taps == 1 else 1
        last = tensor.axes[row].reach({along: sizes[along], tap or "": taps})
        each, part = part_of(visit.builder, -(-(last // apart + 1) // taps), later, ranges)
        others = [dim for dim in sizes if dim != along]
        rows = [
            dict(zip(others, offsets, strict=True))
            for offsets in product(*(range(sizes[dim]) for dim in others))
        ]
        return Pixels(
            tensor=tensor,
            row=row,
            first=part * (each * taps),
            count=each,
            apart=apart,
            tap=tap if taps > 1 else None,
            rows=rows,
        )

    def places(self, turns: int, at: Mapping[str, Index], offset: Index) -> Iterator[list[Index]]:
        """Where every pixel of so many lies in memory, from `offset` behind that at `at` on."""
        for moved in self.rows:
            where = indices_of(
                self.tensor, {**at, **{dim: at[dim] + n for dim, n in moved.items()}}
            )
            before, pixel, behind = where[: self.row], where[self.row], where[self.row + 1 :]
            for number in range(0, self.count, turns):
                yield [*before, pixel + (offset + number) * self.apart, *behind]


@dataclass(frozen=True)
class PixelPrefetch:
    """The input of a later register tile that one asks for, `into` a cache: `pixels` of each
    channel."""

    builder: Builder
    memref: Any
    pixels: Pixels
    shifts: Mapping[str, Index]
    """How much further along each dim the later register tile lies."""
    into: str
    starts: Mapping[str, Index]
    """Where the register tile begins."""
    channels: str
    """The loop over the channels."""
    dim: str | None
    """The loop that asks, at each step: that one, or one around it, or none."""
    steps: int
    """Of the loop over the channels, after which it begins anew: the channels of a line, or fewer
    if the loop has not as many; a power of two, as there is no cheap remainder of another number.
    """
    lines: int = 0
    """That the channels of the loop are parts of. It goes through one after the other of these, if
    there is room, or, outside of the loop, asks for all at once. 0 where each step asks for the
    line of its own channel."""

    @staticmethod
    def of(visit: Visit) -> PixelPrefetch | None:
        """That of a visit's register tile, whose input `has_channels_last`, if what is read later
        is known, and there is room."""
        kernel, ranges, later = visit.kernel, visit.ranges, visit.upcoming.input
        if later is None:
            return None
        pixels = Pixels.of(visit, later)
        if pixels is None:
            return None
        *outer, dim = kernel.reduction
        found = PixelPrefetch(
            builder=visit.builder,
            memref=visit.operands.input,
            pixels=pixels,
            shifts=shifts_to(visit.builder, later, ranges[later.dim].start),
            into=visit.upcoming.into,
            starts=starts_of(ranges),
            channels=dim,
            dim=dim,
            steps=power_of_two_up_to(min(ranges[dim].size, _line(visit.problem.input))),
        )
        ways = [found._by_lines(ranges[dim]), found]
        if not ranges[dim].exact:
            ways.insert(0, found._before(ranges, outer))
        return next((way for way in ways if way._has_room(kernel, ranges[dim].size)), None)

    def _by_lines(self, channels: Range) -> PixelPrefetch:
        """Asking line by line, if the loop over `channels` begins or ends inside of lines."""
        lines = self._lines_of_loop(channels)
        if lines == max(1, channels.size // _line(self.pixels.tensor)):
            return self
        return replace(self, steps=power_of_two_up_to(channels.size // lines), lines=lines)

    def _before(self, ranges: Mapping[str, Range], outer: Sequence[str]) -> PixelPrefetch:
        """Asking before the loop over the channels, in the innermost loop of `outer`, if any."""
        loops = [dim for dim in outer if not ranges[dim].is_point]
        lines = self._lines_of_loop(ranges[self.channels])
        return replace(self, dim=loops[-1] if loops else None, steps=1, lines=lines)

    def _lines_of_loop(self, channels: Range) -> int:
        """How many lines the channels of a loop are parts of, at most."""
        line = _line(self.pixels.tensor)
        outer = (stride or 0 for stride in self.pixels.tensor.strides[:-1])  # 0 where it is unknown
        grain = gcd(channels.grain, line, *outer)  # it begins at a multiple of that
        begins = line - min(grain, line)  # at most so far into a line
        return -(-(begins + channels.size) // line)

    def _has_room(self, kernel: Microkernel, channels: int) -> bool:
        """Whether the multiply-adds of so many channels leave room for it."""
        if self.dim == self.channels:
            return has_room(self.at_once, kernel, 1)
        return self.at_once <= AT_ONCE and has_room(self.at_once, kernel, channels)

    @property
    def turns(self) -> int:
        """How many of the `steps` ask for other pixels: a power of two."""
        return min(self.steps, power_of_two_from(self.pixels.count))

    @property
    def every(self) -> int:
        """Of so many steps one asks."""
        return self.steps // self.turns

    @property
    def at_once(self) -> int:
        """Lines that each step asks for."""
        lines = 1 if self.dim == self.channels else self.lines
        return lines * len(self.pixels.rows) * -(-self.pixels.count // self.turns)

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`."""
        at = shifted({**self.starts, **point}, self.shifts)
        offset, tap = self.pixels.first, self.pixels.tap
        if tap is not None:
            offset = offset + (point[tap] - self.starts[tap]) * self.pixels.count
            at[tap] = self.starts[tap]
        if self.dim == self.channels:
            self._emit_step(at, offset, point[self.channels])
            return
        line = _line(self.pixels.tensor)
        for number in range(self.lines):
            self._ask({**at, self.channels: at[self.channels] + number * line}, offset)

    def _emit_step(self, at: dict[str, Index], offset: Index, step: Index) -> None:
        """Ask for what comes in a step of the loop over the channels, if anything does."""
        conditions: list[Condition] = []
        if self.lines:
            step = step - self.starts[self.channels]
            line = self.builder.apply("line", step, self.steps)
            at[self.channels] = at[self.channels] - step + line * _line(self.pixels.tensor)
            conditions.append(step.below(self.lines * self.steps))
        if self.turns > 1:
            offset = offset + self.builder.apply("turn", step, self.every, self.turns)
        if self.every > 1:
            due = self.builder.apply("due", step + LATE % self.every, modulo=self.every)
            conditions.insert(0, due.is_zero())
        self.builder.branch(conditions, lambda: self._ask(at, offset))

    def _ask(self, at: Mapping[str, Index], offset: Index) -> None:
        """Ask for a line of every turn's pixel from `offset` on."""
        for where in self.pixels.places(self.turns, at, offset):
            self.builder.prefetch(self.memref, where, self.into)


def _line(tensor: Tensor) -> int:
    """Elements of a line."""
    return LINE_BYTES // tensor.element.size


def has_channels_last(problem: Problem, kernel: Microkernel, ranges: Mapping[str, Range]) -> bool:
    """Whether the innermost loop of `kernel`, if it is one in `ranges`, runs along the channels of
    pixels, which each have a line of them or more; or along filter taps, where pixels are as far
    apart."""
    tensor = problem.input
    if kernel.lanes in tensor.dims or not kernel.reduction:
        return False
    dim = kernel.reduction[-1]
    line = _line(tensor)
    pixels = (other for other in problem.parallel_dims if problem.extent(other) > 1)
    steps = (tensor.pitch(other) for other in pixels if other in tensor.dims)
    apart = all(step is None or abs(step) >= line for step in steps)
    long = problem.extent(dim) >= line
    return tensor.pitch(dim) == 1 and long and apart and not ranges[dim].is_point
