"""Filling one panel of packed weights, in the way that `vector_access.packing_way` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd, prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels, indices_of
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.transpose import transpose
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import Way, packing_way

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
class FlatViews:
    """Weights as `rows[channel, flat]` and panels as `packed[panel, flat, lane]`.

    One step of the outermost reduction dim is `inner` steps of `flat`.
    """

    rows: Any
    packed: Any
    inner: int


@dataclass(frozen=True)
class Square:
    """What is transposed at once: `channels` output channels, in a panel from `lane` on, by so many
    reduction `points`."""

    lane: int
    channels: int
    points: int


@dataclass(frozen=True)
class PanelCopy:
    """What all panels of one block of weights have in common; `flat` where rows are dense."""

    builder: Builder
    problem: Problem
    kernel: Microkernel
    weights: Any
    panels: Panels
    ranges: Mapping[str, Range]
    way: Way
    flat: FlatViews | None = None

    @staticmethod
    def of(
        builder: Builder,
        problem: Problem,
        kernel: Microkernel,
        weights: Any,
        panels: Panels,
        ranges: Mapping[str, Range],
    ) -> PanelCopy:
        block = {dim: range_.size for dim, range_ in ranges.items()}
        way = packing_way(problem, kernel, block)
        copy = PanelCopy(builder, problem, kernel, weights, panels, ranges, way)
        return replace(copy, flat=_flat_views(copy)) if way == "transposed" else copy


def copy_panel(copy: PanelCopy, panel: Index, first: Index, valid: int) -> None:
    """Fill panel number `panel` with output channels `[first, first + valid)`, then zeros."""
    if copy.way == "vectors":
        _copy_vectors(copy, panel, first, valid)
    elif copy.flat is not None:
        _copy_transposed(copy, copy.flat, panel, first, valid)
    else:
        _copy_elements(copy, panel, first, valid)


def _flat_views(copy: PanelCopy) -> FlatViews:
    builder, order, axes = copy.builder, copy.panels.reduction, copy.problem.weights.axes
    rank, depth = len(axes), len(order)
    at = next(i for i, axis in enumerate(axes) if axis.dims == (order[0],))
    rows = builder.collapse(copy.weights, [tuple(range(at)), tuple(range(at, rank))], "rows")
    packed = builder.collapse(
        copy.panels.memref, [(0,), tuple(range(1, depth + 1)), (depth + 1,)], "packed"
    )
    return FlatViews(rows, packed, prod(copy.problem.extent(dim) for dim in order[1:]))


def _point(copy: PanelCopy, reduction: Mapping[str, Index], channel: Index) -> list[Index]:
    return indices_of(copy.problem.weights, {**reduction, copy.panels.channel: channel})


def _each_point(
    copy: PanelCopy,
    body: Callable[[Mapping[str, Index]], None],
    point: Mapping[str, Index] | None = None,
) -> None:
    """Loops over the reduction dims of the block, in panel order, around `body(point)`."""
    point = point or {}
    if len(point) == len(copy.panels.reduction):
        body(point)
        return
    dim = copy.panels.reduction[len(point)]
    range_ = copy.ranges[dim]
    with copy.builder.loop(dim, range_.start, range_.ends) as index:
        _each_point(copy, body, {**point, dim: index})


def _copy_vectors(copy: PanelCopy, panel: Index, first: Index, valid: int) -> None:
    lanes, builder = copy.kernel.vector, copy.builder

    def body(point: Mapping[str, Index]) -> None:
        for lane in range(0, copy.panels.width, lanes):
            inside = max(0, min(lanes, valid - lane))
            vector = (
                builder.vector_load(
                    copy.weights, _point(copy, point, first + lane), lanes, inside, "f"
                )
                if inside
                else builder.zeros(builder.vector_type(lanes, copy.weights.type.element_type))
            )
            where = copy.panels.indices_of(panel, point, Index(constant=lane))
            builder.vector_store(vector, copy.panels.memref, where, lanes)

    _each_point(copy, body)


def _copy_elements(copy: PanelCopy, panel: Index, first: Index, valid: int) -> None:
    builder = copy.builder
    zero = builder.constant(copy.weights.type.element_type, 0.0)

    def body(point: Mapping[str, Index]) -> None:
        for lane in range(copy.panels.width):
            value = zero
            if lane < valid:
                value = builder.load(copy.weights, _point(copy, point, first + lane), "f")
            where = copy.panels.indices_of(panel, point, Index(constant=lane))
            builder.store(value, copy.panels.memref, where)

    _each_point(copy, body)


def _copy_transposed(
    copy: PanelCopy, flat: FlatViews, panel: Index, first: Index, valid: int
) -> None:
    """Squares of `lanes` consecutive reduction points by `lanes` channels, transposed."""
    lanes, outer = copy.kernel.vector, copy.ranges[copy.panels.reduction[0]]
    points = outer.times(flat.inner)
    columns = range(0, copy.panels.width, lanes)

    def squares(some: Sequence[int], at: Index, count: int) -> None:
        for lane in some:
            inside = max(0, min(lanes, valid - lane))
            _square(copy, flat, panel, first + lane, at, Square(lane, inside, count))

    if len(columns) == 1 or not _crowd(copy):
        _each_square(copy, points, partial(squares, columns))
        return

    def stretch(part: Range) -> None:
        for lane in columns:
            _each_square(copy, part, partial(squares, [lane]))

    size = _stretch(copy, points.size)
    if size == points.size:
        stretch(points)
        return
    with copy.builder.loop("stretch", points.start, points.ends, size) as at:
        stretch(points.tile(at, size, points.depth))


def _crowd(copy: PanelCopy) -> bool:
    """Whether the rows of a panel, a multiple of 1 KiB apart as a rule, have more lines on the same
    set of L1 than it has ways: then lines of a square are gone before the next square along the
    rows reads the rest of them, and so is what was asked for ahead."""
    tensor = copy.problem.weights
    pitch = (tensor.pitch(copy.panels.channel) or 0) * tensor.element.size
    return copy.panels.width * gcd(pitch, L1_ROUND_BYTES) > L1_ROUND_BYTES * L1_WAYS


def _stretch(copy: PanelCopy, size: int) -> int:
    """Of `size` reduction points, those that are copied of the channels of one square before those
    of the next: as many as the panel has room for in L1, in equal parts, or else all."""
    row = copy.panels.width * copy.problem.weights.element.size
    parts = range(-(-size * row // STRETCH_BYTES), size // copy.kernel.vector + 1)
    return next((size // n for n in parts if size % (n * copy.kernel.vector) == 0), size)


def _each_square(copy: PanelCopy, points: Range, squares: Callable[[Index, int], None]) -> None:
    """`squares(at, count)` for all `points`, `lanes` at a time, and for what is left over."""
    builder, lanes, start = copy.builder, copy.kernel.vector, points.start
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
        _cut_square(copy, at, ends, squares)


def _square(
    copy: PanelCopy,
    flat: FlatViews,
    panel: Index,
    channel: Index,
    at: Index,
    square: Square,
) -> None:
    """Copy `square`, which begins at `rows[channel, at]`."""
    builder, lanes = copy.builder, copy.kernel.vector
    inside, count = square.channels, square.points
    if count == lanes and copy.panels.next_block is None:
        ahead = PREFETCH_BYTES // copy.problem.weights.element.size
        for i in range(inside):
            builder.prefetch(flat.rows, [channel + i, at + ahead])
    vectors = [
        builder.vector_load(flat.rows, [channel + i, at], lanes, count, "f") for i in range(inside)
    ]
    if inside < lanes:
        zeros = builder.zeros(builder.vector_type(lanes, copy.weights.type.element_type))
        vectors += [zeros] * (lanes - inside)
    columns = transpose(builder, vectors, copy.problem.weights.element.size)
    shift = copy.panels.starts[copy.panels.reduction[0]] * flat.inner
    for i, column in enumerate(columns[:count]):
        where = [panel, at - shift + i, Index(constant=square.lane)]
        builder.vector_store(column, flat.packed, where, lanes)


def _cut_square(
    copy: PanelCopy, at: Index, ends: list[Index], square: Callable[[Index, int], None]
) -> None:
    """`square(at, lanes)` where so many points are left, else one of a single point after the
    other."""
    builder, lanes = copy.builder, copy.kernel.vector

    def rest() -> None:
        with builder.loop("flat", at, ends) as point:
            square(point, 1)

    room = [(end - at).at_least(lanes) for end in ends]
    builder.branch(room, lambda: square(at, lanes), rest)
