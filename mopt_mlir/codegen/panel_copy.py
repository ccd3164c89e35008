"""Filling one panel of packed weights, by the layout of the weights.

Output channels next to each other in memory are copied a vector at a time; weights whose reduction
dims lie along memory in the panel's order are transposed in registers, a square of vectors at a
time; anything else goes element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mopt_mlir.codegen.accumulators import runs_along
from mopt_mlir.codegen.builder import Builder, Index
from mopt_mlir.codegen.operands import Panels, element
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.transpose import transpose
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class PanelCopy:
    """What all panels of one block of weights have in common."""

    builder: Builder
    problem: Problem
    kernel: Microkernel
    weights: Any
    panels: Panels
    ranges: Mapping[str, Range]


def copy_panel(copy: PanelCopy, panel: Index, first: Index, valid: int) -> None:
    """Fill panel number `panel` with output channels `[first, first + valid)`, then zeros."""
    tensor, lanes = copy.problem.weights, copy.kernel.vector
    if runs_along(tensor, copy.panels.channel) and copy.panels.width % lanes == 0:
        _copy_vectors(copy, panel, first, valid)
    elif _is_flat(copy) and copy.panels.width % lanes == 0 and lanes > 1:
        _copy_transposed(copy, panel, first, valid)
    else:
        _copy_elements(copy, panel, first, valid)


def _is_flat(copy: PanelCopy) -> bool:
    """Whether the reduction dims are the last axes of the weights, dense and in panel order, and
    the block covers all but the outermost of them whole: a panel then comes from flat rows."""
    tensor, order = copy.problem.weights, copy.panels.reduction
    if not order:
        return False
    used = [
        (axis, stride)
        for axis, stride in zip(tensor.axes, tensor.strides, strict=True)
        if axis.dims
    ]
    if [axis.dims[0] for axis, _ in used] != [copy.panels.channel, *order]:
        return False
    step = 1
    for axis, stride in reversed(used[1:]):
        if stride != step:
            return False
        step *= copy.problem.extent(axis.dims[0])
    return all(copy.ranges[dim].size == copy.problem.extent(dim) for dim in order[1:])


def _point(copy: PanelCopy, reduction: Mapping[str, Index], channel: Index) -> list[Index]:
    return element(copy.problem.weights, {**reduction, copy.panels.channel: channel})


def _packed(
    copy: PanelCopy, panel: Index, reduction: Mapping[str, Index], lane: int
) -> list[Index]:
    inner = [reduction[dim] - copy.panels.starts[dim] for dim in copy.panels.reduction]
    return [panel, *inner, Index(constant=lane)]


def _each_point(copy: PanelCopy, body: Any, point: Mapping[str, Index] | None = None) -> None:
    """Loops over the reduction dims of the block, in panel order, around `body(point)`."""
    point = point or {}
    if len(point) == len(copy.panels.reduction):
        body(point)
        return
    dim = copy.panels.reduction[len(point)]
    range_ = copy.ranges[dim]
    with copy.builder.loop(dim, range_.start, range_.ends) as (index, *_):
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
            builder.vector_store(
                vector, copy.panels.memref, _packed(copy, panel, point, lane), lanes
            )

    _each_point(copy, body)


def _copy_elements(copy: PanelCopy, panel: Index, first: Index, valid: int) -> None:
    builder = copy.builder
    zero = builder.constant(copy.weights.type.element_type, 0.0)

    def body(point: Mapping[str, Index]) -> None:
        for lane in range(copy.panels.width):
            value = zero
            if lane < valid:
                value = builder.load(copy.weights, _point(copy, point, first + lane), "f")
            builder.store(value, copy.panels.memref, _packed(copy, panel, point, lane))

    _each_point(copy, body)


def _copy_transposed(copy: PanelCopy, panel: Index, first: Index, valid: int) -> None:
    """Rows of `lanes` consecutive reduction points, transposed square by square.

    The weights are seen as `[channel, flat]` and the panels as `[panel, flat, lane]`.
    """
    builder, lanes, order = copy.builder, copy.kernel.vector, copy.panels.reduction
    rank = len(copy.problem.weights.axes)
    at = next(i for i, a in enumerate(copy.problem.weights.axes) if a.dims == (order[0],))
    rows = builder.collapse(copy.weights, [tuple(range(at)), tuple(range(at, rank))], "rows")
    packed = builder.collapse(
        copy.panels.memref, [(0,), tuple(range(1, len(order) + 1)), (len(order) + 1,)], "panels"
    )
    inner = 1
    for dim in order[1:]:
        inner *= copy.problem.extent(dim)
    outer = copy.ranges[order[0]]
    start = outer.start * inner
    ends = [end * inner for end in outer.ends]
    shift = copy.panels.starts[order[0]] * inner

    def square(flat: Index, lane: int, points: int) -> None:
        inside = max(0, min(lanes, valid - lane))
        zeros = builder.zeros(builder.vector_type(lanes, copy.weights.type.element_type))
        vectors = [
            builder.vector_load(rows, [first + (lane + i), flat], lanes, points, "f")
            for i in range(inside)
        ]
        columns = transpose(
            builder, vectors + [zeros] * (lanes - inside), copy.problem.weights.element.size
        )
        for i, column in enumerate(columns[:points]):
            where = [panel, flat - shift + i, Index(constant=lane)]
            builder.vector_store(column, packed, where, lanes)

    def all_lanes(flat: Index, points: int) -> None:
        for lane in range(0, copy.panels.width, lanes):
            square(flat, lane, points)

    if outer.exact:
        length = outer.size * inner
        whole = length - length % lanes
        if whole:
            with builder.loop("flat", start, [start + whole], lanes) as (flat, *_):
                all_lanes(flat, lanes)
        if length % lanes:
            all_lanes(start + whole, length % lanes)
        return
    with builder.loop("flat", start, ends, lanes) as (flat, *_):
        _cut_square(copy, flat, ends, all_lanes)


def _cut_square(copy: PanelCopy, flat: Index, ends: list[Index], all_lanes: Any) -> None:
    """A full square where `lanes` points are left, else the points one after the other."""
    builder, lanes = copy.builder, copy.kernel.vector

    def full() -> list[Any]:
        all_lanes(flat, lanes)
        return []

    def rest() -> list[Any]:
        with builder.loop("flat", flat, ends) as (point, *_):
            all_lanes(point, 1)
        return []

    room = [(end - flat + -lanes, False) for end in ends]
    builder.branch(room, full, rest)
