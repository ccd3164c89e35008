"""Prefetching weights whose output channels are dense rows: those packed, or read in place, next.

Several register tiles share what is used after the current block or panels: each asks for a part of
it, so that memory delivers while they compute, instead of all at once when they have done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels, indices_of
from mopt_mlir.codegen.prefetch_budget import (
    DENSE_STEP_BYTES,
    LINE_BYTES,
    has_room,
    lines_of_row,
    power_of_two_from,
    row_lines_at_once,
    rows_at_once,
    stays_in_l2,
    weights_step_bytes,
)
from mopt_mlir.codegen.upcoming import NextWeights, block_from, part_of, part_of_block
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.problem import Problem


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
    def of_block(visit: Visit, panels: Panels) -> FilterRowPrefetch | None:
        """That of a visit's register tile, while `panels` hold the current block, if the next one
        is known and its rows are dense."""
        builder, problem, block = visit.builder, visit.problem, panels.next_block
        if block is None:
            return None
        dim = panels.reduction[0]
        if block.moved not in (None, dim) or not _is_dense(problem, dim):
            return None
        rows = block.rows
        part = part_of_block(builder, block.turns, visit.start, -(-block.count // rows))
        first, shift = block_from(builder, block, block.first + part * rows)
        weights = visit.operands.weights
        return FilterRowPrefetch(builder, problem, weights, dim, first, rows, shift)

    @staticmethod
    def in_place(visit: Visit, following: NextWeights) -> FilterRowPrefetch | None:
        """That of a visit's register tile, if the output channels that follow are known and worth
        while: in each row, which begins on another page, the hardware's prefetchers start anew."""
        problem, kernel, ranges = visit.problem, visit.kernel, visit.ranges
        channel = problem.out_channel
        comes_from_l2 = stays_in_l2(problem) or not following.far
        if following.dim != channel or not kernel.reduction or comes_from_l2:
            return None
        dim, *inner = kernel.reduction
        rows = -(-kernel.extent(channel) // following.tiles)
        taps = prod(ranges[dim].size for dim in inner)
        lines = row_lines_at_once(rows, weights_step_bytes(problem, dim))
        if not has_room(lines, kernel, taps) or not _is_dense(problem, dim):
            return None
        rows, part = part_of(visit.builder, kernel.extent(channel), following, ranges)
        first = ranges[channel].start + following.step + part * rows
        return FilterRowPrefetch(visit.builder, problem, visit.operands.weights, dim, first, rows)

    def emit(self, point: Mapping[str, Index]) -> None:
        """Ask for the lines of the step at `point`; dims of inner loops count as 0."""
        tensor = self.problem.weights
        channel = self.problem.out_channel
        size = weights_step_bytes(self.problem, self.dim)
        at = {dim: point.get(dim, Index()) for dim in tensor.dims}
        at[self.dim] = at[self.dim] + self.shift
        each = rows_at_once(self.rows, size)
        turn = Index()
        if each < self.rows:  # a power of two, as there is no cheap remainder of another number
            turns = power_of_two_from(-(-self.rows // each))
            turn = self.builder.apply("turn", point[self.dim], modulo=turns) * each
        for row in range(each):
            where = indices_of(tensor, {**at, channel: self.first + turn + row})
            for line in range(lines_of_row(size)):
                shift = line * (LINE_BYTES // tensor.element.size)
                self.builder.prefetch(self.weights, [*where[:-1], where[-1] + shift])


def _is_dense(problem: Problem, dim: str) -> bool:
    """Whether each output channel has a dense row of weights, of which a step of `dim` reads a
    part: not where output channels follow each other."""
    channel = problem.out_channel
    if problem.weights.runs_along(channel) or problem.weights.pitch(dim) is None:
        return False
    return weights_step_bytes(problem, dim) <= DENSE_STEP_BYTES
