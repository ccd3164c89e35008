"""The decisions of the tile problem as SCIP variables: choice, orders, packing, tile sizes.

Sizes and numbers of tiles are logarithms. A dim with few useful sizes is a *table*, one binary per
size; so is every filter dim, because halos are not posynomials in it. The other dims are
continuous, with the lower convex hull of their integer points as cuts. Whatever integers a plan
has, rounding its sizes down to those of the tables gives a point of this model that costs no more:
what a size of a table occupies and brings in is the least of all sizes that are rounded down to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, log
from typing import Any

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.classes import permutation_classes
from mopt_mlir.model.footprint import Axis, MemoryAxis
from mopt_mlir.model.room import line_axes, room_axes
from mopt_mlir.plan import LEVELS, PLACES_TO_PACK
from mopt_mlir.problem import Problem
from mopt_mlir.solver.convex import facets_of_tiles
from mopt_mlir.solver.sizes import (
    largest_of,
    tile_sizes,
    with_fewer_lines,
    with_smaller_shares,
)
from mopt_mlir.solver.space import Choice, covered_points

TABLE = 100
"""Dims with at most so many useful sizes are tables at first. Where tables may be larger, those of
dims that are split also have the sizes that differ from the next smaller one in nothing but what a
core covers."""

WHOLE_TRIPS = 4
"""Up to how many tiles of the outermost level are counted in whole numbers along a dim."""

Expression = Any
"""A linear expression of pyscipopt, a variable or a number."""


class Variables:
    """A SCIP model with the variables for `choices` of `problem`.

    Per (level, dim): `x` is log(tile size), `trips` log(number of tiles up to that level), `pick`
    the (size, binary) pairs of a table, each of which stands for all sizes up to `until[dim]` of
    it. `covered` has, for dims that are split between cores and have a table, (points, binary)
    pairs of what the busiest core covers. Per (level, tensor): `axes` say what a tile brings in,
    `room` what has to fit into the cache. `choice`, `order[level]` and `place` are binaries for the
    choice, the permutation class of a level and where the weights are packed. It is `exact` where
    larger tables would change nothing.
    """

    def __init__(
        self, problem: Problem, machine: Machine, choices: Sequence[Choice], table: int
    ) -> None:
        from pyscipopt import Model, quicksum

        self.problem, self.choices = problem, choices
        self.model: Any = Model()
        self.sum = quicksum
        self.dims = [dim for dim in problem.names if problem.extent(dim) > 1]
        self.classes = permutation_classes(problem)
        panels = any(choice.reads_panels for choice in choices)
        self.axes, self.room = (
            {
                (level, index): _moving(axes(problem, machine, tensor, level, panels))
                for level in LEVELS
                for index, tensor in enumerate(problem.tensors)
            }
            for axes in (line_axes, room_axes)
        )
        self.x: dict[tuple[str, str], Expression] = {}
        self.trips: dict[tuple[str, str], Expression] = {}
        self.pick: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.until: dict[str, dict[int, int]] = {}
        self.covered: dict[str, list[tuple[int, Any]]] = {}
        self.exact = True
        self._decide()
        for dim in self.dims:
            self._tile(dim, table)

    # ---- building blocks ---------------------------------------------------------------------

    def add(self, constraint: Any) -> None:
        self.model.addCons(constraint)

    def variable(self, name: str, low: float | None = 0.0, high: float | None = None) -> Any:
        return self.model.addVar(name, lb=low, ub=high)

    def binary(self, name: str) -> Any:
        return self.model.addVar(name, vtype="B")

    def exp(self, name: str, exponent: Expression) -> Any:
        """A variable that is at least `exp(exponent)`."""
        from pyscipopt import exp

        bound = self.variable(name)
        self.add(bound >= exp(exponent))
        return bound

    def of_choice(self, values: Iterable[float]) -> Expression:
        """A number that depends on the choice only."""
        numbers = list(values)
        if max(numbers) - min(numbers) < 1e-12 * max(1.0, abs(numbers[0])):
            return numbers[0]
        return self.sum(n * z for n, z in zip(numbers, self.choice, strict=True))

    def of_class(self, level: str, holds: Iterable[bool]) -> list[Any]:
        """The binaries of the classes of a level for which something holds."""
        return [q for q, yes in zip(self.order[level], holds, strict=True) if yes]

    def trips_unless(self, level: str, dim: str, inner: Sequence[Any], name: str) -> Expression:
        """`trips` of this level, or of the next outer one if one of the binaries `inner` is set."""
        trips = self.trips[level, dim]
        if not inner:
            return trips
        index, most = LEVELS.index(level), log(self.problem.extent(dim))
        effective = self.variable(f"{name}:{level}:{dim}", 0.0, most)
        self.add(effective >= trips - most * self.sum(inner))
        if index:
            self.add(effective >= self.trips[LEVELS[index - 1], dim])
        return effective

    def at_least(self, name: str, *bounds: Expression) -> Expression:
        """A variable that is at least each of some expressions; of a single one, itself."""
        if len(bounds) == 1:
            return bounds[0]
        found = self.variable(name, None)
        for bound in bounds:
            self.add(found >= bound)
        return found

    def log_covered(self, level: str, dim: str) -> Expression:
        """log(points along `dim` that enter the caches of a level): all, or one core's."""
        if level == LEVELS[0]:
            return log(self.problem.extent(dim))
        if dim in self.covered:
            return self.sum(y * log(points) for points, y in self.covered[dim])
        return self.of_choice(log(choice.covered[dim]) for choice in self.choices)

    # ---- decisions ---------------------------------------------------------------------------

    def _decide(self) -> None:
        self.choice = [self.binary(f"choice{index}") for index in range(len(self.choices))]
        self.add(self.sum(self.choice) == 1)
        self.order = {
            level: [self.binary(f"{level}:{cls.name}") for cls in self.classes] for level in LEVELS
        }
        for binaries in self.order.values():
            self.add(self.sum(binaries) == 1)
        self.place: dict[str, Any] = {}
        if any(choice.packs for choice in self.choices):
            self.place = {name: self.binary(f"pack:{name}") for name in PLACES_TO_PACK}
            packs = self.of_choice(float(choice.packs) for choice in self.choices)
            self.add(self.sum(self.place.values()) == packs)

    def _tile(self, dim: str, table: int) -> None:
        extent = self.problem.extent(dim)
        units = {choice.step(dim) for choice in self.choices}
        covered = {choice.covered[dim] for choice in self.choices}
        along = dict.fromkeys(
            part
            for row in self.axes.values()
            for part in row
            if part.line and part.axis.image == dim
        )
        sizes = with_fewer_lines(tile_sizes(extent, units, covered), extent, sorted(units), along)
        ways = {choice.ways(dim) for choice in self.choices}
        is_split = len(units) == len(ways) == 1 and max(ways) > 1
        if is_split and table > TABLE and len(sizes) <= table:
            more = with_smaller_shares(sizes, extent, *units, *ways)
            self.exact &= len(more) <= table
            sizes = more if len(more) <= table else sizes  # a table without them beats none
        self.exact &= len(sizes) <= table and not (is_split and table <= TABLE)
        largest = largest_of(sizes, extent, min(units) if len(units) == 1 else 1)
        self.until[dim] = dict(zip(sizes, largest, strict=True))
        one_grid = len(units) == len(covered) == 1 and len(sizes) <= table
        slides = any(part.axis.filter == dim for row in self.axes.values() for part in row)
        for level in LEVELS:
            parts = {extent} if level == "L3" else covered
            if one_grid or slides:
                self._table(level, dim, sizes, *parts)
            else:
                self._continuous(level, dim, sizes, parts)
        if one_grid and is_split:
            self._cover(dim, *units, *ways)
        share = [min(extent, -(-c.units[dim] // c.ways(dim)) * c.unit(dim)) for c in self.choices]
        if min(share) < extent:
            self.add(self.x["L2", dim] <= self.of_choice(map(log, share)))

    def _table(self, level: str, dim: str, sizes: Sequence[int], points: int) -> None:
        row = [(size, self.binary(f"{level}:{dim}={size}")) for size in sizes]
        self.add(self.sum(y for _, y in row) == 1)
        self.pick[level, dim] = row
        self.x[level, dim] = self.sum(y * log(size) for size, y in row)
        self.trips[level, dim] = self.sum(y * log(ceil(points / size)) for size, y in row)
        index = LEVELS.index(level)
        if index:  # the inner tile is at most as large as the outer one
            outer = self.pick[LEVELS[index - 1], dim]
            for end in range(1, len(row)):
                small_inner, small_outer = (self.sum(y for _, y in r[:end]) for r in (row, outer))
                self.add(small_inner >= small_outer)

    def _cover(self, dim: str, unit: int, ways: int) -> None:
        """What the busiest core covers: at least what it does with any outermost tile that is
        rounded down to that of the table."""
        points = covered_points(self.problem.extent(dim), unit, ways)
        row = self.pick[LEVELS[0], dim]
        starts = [-(-size // unit) - 1 for size, _ in row]
        least = np.minimum.reduceat(points, starts).tolist()
        self.covered[dim] = [(n, y) for n, (_, y) in zip(least, row, strict=True)]

    def _continuous(self, level: str, dim: str, sizes: Sequence[int], parts: set[int]) -> None:
        extent = self.problem.extent(dim)
        least = [log(choice.step(dim)) for choice in self.choices]
        x = self.x[level, dim] = self.variable(f"x:{level}:{dim}", min(least), log(extent))
        trips = self.trips[level, dim] = self.variable(f"trips:{level}:{dim}", 0.0, log(extent))
        self.add(x + trips >= self.log_covered(level, dim))
        if len(parts) == 1:
            for slope, offset in facets_of_tiles(sizes, *parts):
                self.add(trips >= offset - slope * x)
        index = LEVELS.index(level)
        if index:
            outer = LEVELS[index - 1], dim
            self.add(x <= self.x[outer])
            self.add(trips >= self.trips[outer])
        if level == LEVELS[-1] and max(least) > min(least):
            self.add(x >= self.of_choice(least))
        if not index and any(choice.start for choice in self.choices):
            self._whole_trips(dim, trips, extent)

    def _whole_trips(self, dim: str, trips: Any, extent: int) -> None:
        """The number of tiles is whole while it is small: handing out work for each is dear."""
        most = min(WHOLE_TRIPS, extent)
        more = [self.binary(f"tiles:{dim}>={count}") for count in range(2, most + 1)]
        for fewer, further in pairwise(more):
            self.add(further <= fewer)
        counted = self.sum(z * log(count / (count - 1)) for count, z in enumerate(more, start=2))
        self.add(trips >= counted)
        self.add(trips <= counted + log(extent / most) * more[-1])

    def filter_row(self, level: str, axis: Axis) -> list[tuple[int, Any]]:
        """The table of the filter dim of an axis."""
        assert axis.filter is not None
        return self.pick[level, axis.filter]


def _moving(parts: Iterable[MemoryAxis]) -> tuple[MemoryAxis, ...]:
    """The axes of a tensor that are longer than one point."""
    return tuple(part for part in parts if part.points > 1)
