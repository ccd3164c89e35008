"""Filling one panel of packed weights, in the way that `vector_access.packing_way` says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels, indices_of
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.transpose import transpose
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import packing_way

PREFETCH_BYTES = 256
"""How far ahead a row of weights is prefetched: the rows of a panel are too many streams for the
hardware's prefetchers, and cold weights come at half the speed without. (Not those of a block that
is prefetched while the one before is in use: then it costs more than it helps.)"""

L1_ROUND_BYTES, L1_WAYS = 4096, 8
"""How far apart lines on the same set of L1 lie, and how many of them it holds at least, on all
x86-64 CPUs with AVX2."""

STRETCH_BYTES = 16 << 10
"""How much of a panel is filled while only some of its rows are read, where they crowd L1: half of
it."""


@dataclass(frozen=True)
class PanelCopy(ABC):
    """What fills the panels of the block of `weights` that `ranges` cover."""

    builder: Builder
    problem: Problem
    kernel: Microkernel
    weights: Any
    panels: Panels
    ranges: Mapping[str, Range]

    @abstractmethod
    def emit(self, panel: Index, first: Index, valid: int) -> None:
        """Fill panel number `panel` with output channels `[first, first + valid)`, then zeros."""

    def _each_point(
        self,
        body: Callable[[Mapping[str, Index]], None],
        point: Mapping[str, Index] | None = None,
    ) -> None:
        """Loops over the reduction dims of the block, in panel order, around `body(point)`."""
        point = point or {}
        if len(point) == len(self.panels.reduction):
            body(point)
            return
        dim = self.panels.reduction[len(point)]
        range_ = self.ranges[dim]
        with self.builder.loop(dim, range_.start, range_.ends) as index:
            self._each_point(body, {**point, dim: index})

    def _at(self, reduction: Mapping[str, Index], channel: Index) -> list[Index]:
        """The indices of a weight."""
        return indices_of(self.problem.weights, {**reduction, self.panels.channel: channel})

    def _zeros(self) -> Any:
        """A vector of as many lanes as the microkernel's."""
        builder, element = self.builder, self.weights.type.element_type
        return builder.zeros(builder.vector_type(self.kernel.vector, element))

    def _valid_lanes(self, lane: int, valid: int) -> int:
        """How many of the lanes of a vector at `lane` of a panel are below `valid`."""
        return max(0, min(self.kernel.vector, valid - lane))


class VectorCopy(PanelCopy):
    """Weights lie in memory as in a panel."""

    def emit(self, panel: Index, first: Index, valid: int) -> None:
        lanes, builder = self.kernel.vector, self.builder

        def body(point: Mapping[str, Index]) -> None:
            for lane in range(0, self.panels.width, lanes):
                inside = self._valid_lanes(lane, valid)
                vector = (
                    builder.vector_load(
                        self.weights, self._at(point, first + lane), lanes, inside, "f"
                    )
                    if inside
                    else self._zeros()
                )
                where = self.panels.indices_of(panel, point, Index(constant=lane))
                builder.vector_store(vector, self.panels.memref, where, lanes)

        self._each_point(body)


class ElementCopy(PanelCopy):
    """Weights lie in any other way."""

    def emit(self, panel: Index, first: Index, valid: int) -> None:
        builder = self.builder
        zero = builder.constant(self.weights.type.element_type, 0.0)

        def body(point: Mapping[str, Index]) -> None:
            for lane in range(self.panels.width):
                value = zero
                if lane < valid:
                    value = builder.load(self.weights, self._at(point, first + lane), "f")
                where = self.panels.indices_of(panel, point, Index(constant=lane))
                builder.store(value, self.panels.memref, where)

        self._each_point(body)


@dataclass(frozen=True)
class TransposedCopy(PanelCopy):
    """The weights of a channel are a row in the order of the reduction: squares of as many points
    as a vector has lanes, by as many channels, are transposed.

    `rows[channel, flat]` are the weights and `packed[panel, flat, lane]` the panels, where one step
    of the outermost reduction dim is `inner` steps of `flat`.
    """

    rows: Any
    packed: Any
    inner: int

    def emit(self, panel: Index, first: Index, valid: int) -> None:
        outer = self.ranges[self.panels.reduction[0]]
        points = outer.times(self.inner)
        columns = range(0, self.panels.width, self.kernel.vector)

        def squares(some: Sequence[int], at: Index, count: int) -> None:
            for lane in some:
                channels = self._valid_lanes(lane, valid)
                self._square(panel, lane, first + lane, channels, at, count)

        if len(columns) == 1 or not self._crowd():
            self._each_square(points, partial(squares, columns))
            return

        def stretch(part: Range) -> None:
            for lane in columns:
                self._each_square(part, partial(squares, [lane]))

        size = self._stretch(points.size)
        if size == points.size:
            stretch(points)
            return
        with self.builder.loop("stretch", points.start, points.ends, size) as at:
            stretch(points.tile(at, size, points.depth))

    def _crowd(self) -> bool:
        """Whether the rows of a panel, a multiple of 1 KiB apart as a rule, have more lines on the
        same set of L1 than it has ways: then lines of a square are gone before the next square
        along the rows reads the rest of them, and so is what was asked for ahead."""
        tensor = self.problem.weights
        pitch = (tensor.pitch(self.panels.channel) or 0) * tensor.element.size
        return self.panels.width * gcd(pitch, L1_ROUND_BYTES) > L1_ROUND_BYTES * L1_WAYS

    def _stretch(self, size: int) -> int:
        """Of `size` reduction points, those that are copied of the channels of one square before
        those of the next: as many as the panel has room for in L1, in equal parts, or else all."""
        row = self.panels.width * self.problem.weights.element.size
        parts = range(-(-size * row // STRETCH_BYTES), size // self.kernel.vector + 1)
        return next((size // n for n in parts if size % (n * self.kernel.vector) == 0), size)

    def _each_square(self, points: Range, squares: Callable[[Index, int], None]) -> None:
        """`squares(at, count)` for all `points`, `lanes` at a time, and for what is left over."""
        builder, lanes, start = self.builder, self.kernel.vector, points.start
        if points.exact:
            rest = points.size % lanes
            whole = points.size - rest
            if whole:
                with builder.loop("flat", start, [start + whole], lanes) as at:
                    squares(at, lanes)
            if rest:
                squares(start + whole, rest)
            return
        ends = list(points.ends)
        with builder.loop("flat", start, ends, lanes) as at:
            self._cut_square(at, ends, squares)

    def _cut_square(
        self, at: Index, ends: list[Index], square: Callable[[Index, int], None]
    ) -> None:
        """`square(at, lanes)` where so many points are left, else one of a single point after the
        other."""
        builder, lanes = self.builder, self.kernel.vector

        def rest() -> None:
            with builder.loop("flat", at, ends) as point:
                square(point, 1)

        room = [(end - at).at_least(lanes) for end in ends]
        builder.branch(room, lambda: square(at, lanes), rest)

    def _square(
        self, panel: Index, lane: int, channel: Index, channels: int, at: Index, points: int
    ) -> None:
        """Copy so many output `channels` by reduction `points`, which begin at `rows[channel, at]`,
        to `lane` and those behind it."""
        builder, lanes = self.builder, self.kernel.vector
        if points == lanes and self.panels.next_block is None:
            ahead = PREFETCH_BYTES // self.problem.weights.element.size
            for i in range(channels):
                builder.prefetch(self.rows, [channel + i, at + ahead])
        vectors = [
            builder.vector_load(self.rows, [channel + i, at], lanes, points, "f")
            for i in range(channels)
        ]
        if channels < lanes:
            vectors += [self._zeros()] * (lanes - channels)
        columns = transpose(builder, vectors, self.problem.weights.element.size)
        shift = self.panels.starts[self.panels.reduction[0]] * self.inner
        for i, column in enumerate(columns[:points]):
            where = [panel, at - shift + i, Index(constant=lane)]
            builder.vector_store(column, self.packed, where, lanes)


def panel_copy(
    builder: Builder,
    problem: Problem,
    kernel: Microkernel,
    weights: Any,
    panels: Panels,
    ranges: Mapping[str, Range],
) -> PanelCopy:
    """What fills panels in the way that fits a block of weights; views of them, where it needs
    some, come at once, in front of the loops."""
    way = packing_way(problem, kernel, {dim: range_.size for dim, range_ in ranges.items()})
    block = builder, problem, kernel, weights, panels, ranges
    if way == "vectors":
        return VectorCopy(*block)
    if way == "transposed":
        return TransposedCopy(*block, *_flat_views(builder, problem, weights, panels))
    return ElementCopy(*block)


def _flat_views(
    builder: Builder, problem: Problem, weights: Any, panels: Panels
) -> tuple[Any, Any, int]:
    """`rows`, `packed` and `inner` of a `TransposedCopy`."""
    order, axes = panels.reduction, problem.weights.axes
    rank, depth = len(axes), len(order)
    at = next(i for i, axis in enumerate(axes) if axis.dims == (order[0],))
    rows = builder.collapse(weights, [tuple(range(at)), tuple(range(at, rank))], "rows")
    packed = builder.collapse(
        panels.memref, [(0,), tuple(range(1, depth + 1)), (depth + 1,)], "packed"
    )
    return rows, packed, problem.points(order[1:])
