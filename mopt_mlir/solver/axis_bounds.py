"""What the SCIP model knows of halos and cache lines: lower bounds on the elements of memory that
tiles along an axis of a tensor bring in, as functions of their sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil, gcd

import numpy as np

from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.convex import lower_hull
from mopt_mlir.solver.occupied import occupied

Facet = tuple[float, float]
"""`(slope, offset)`, both at least 0: tiles of `n` points bring in `slope * n + offset` or more."""

LONG_FILTER, LONG_WORK = 64, 1 << 28
"""Of more filter points, or where the ways to cut them for all pieces and sizes of tiles are more,
all of them take too long to look at: elements count, and not what their lines hold beside them."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Elements of memory by the number of image points of a tile: `values[n - 1]` for `n` points.
    (Arguments `sizes` are of tiles, in ascending order; all, if it is None.)"""

    values: Floats

    def at(self, sizes: Ints) -> Floats:
        return np.asarray(self.values[sizes - 1])

    def telling(self, sizes: Ints | None = None) -> Ints:
        """The sizes that have to be looked at to know what holds for all `sizes`."""
        return np.arange(1, len(self.values) + 1) if sizes is None else sizes

    def least_from(self, first: int, last: int) -> float:
        """The least of tiles of `first` to `last` points."""
        return float(self.values[first - 1 : last].min())

    def rates(self, unit: int, sizes: Ints) -> Floats:
        """For each of `sizes` the least per point of tiles of at most so many, multiples of
        `unit`."""
        grid = np.arange(unit, len(self.values) + 1, unit)
        rates = np.minimum.accumulate(self.values[grid - 1] / grid)
        return np.asarray(rates[sizes // unit - 1])


@dataclass(frozen=True)
class Bent:
    """As `Listed`, but `factor` times the elements of `part` under `taps` filter points: they grow
    with the image points, along one straight line up to the dilation and another from there, so
    that few sizes tell what holds for all between them, however many these are."""

    part: MemoryAxis
    taps: int
    factor: float

    def at(self, sizes: Ints) -> Floats:
        return np.asarray(self.factor * self.part.in_elements(sizes, self.taps))

    def telling(self, sizes: Ints | None = None) -> Ints:
        """Both ends and the bend, and one size on each line, where a facet between them counts."""
        first, last = (1, self.part.points) if sizes is None else (int(sizes[0]), int(sizes[-1]))
        bend = min(max(first, self.part.axis.dilation), last)
        return np.unique([first, (first + bend) // 2, bend, (bend + last) // 2, last])

    def least_from(self, first: int, last: int) -> float:
        return float(self.at(np.array([first]))[0])

    def rates(self, unit: int, sizes: Ints) -> Floats:
        last = sizes // unit * unit
        bend = np.clip(self.part.axis.dilation, unit, last)
        some = np.stack([np.full_like(last, unit), bend, last])
        return np.asarray((self.at(some) / some).min(axis=0))


Amounts = Listed | Bent


@lru_cache(maxsize=512)
def of_tile(part: MemoryAxis, taps: int) -> Floats:
    """Elements that a tile of 1, 2, ... image points by `taps` filter points occupies."""
    points = np.arange(1, part.points + 1)
    return occupied(part, points, np.full_like(points, taps)).astype(float)


@lru_cache(maxsize=512)
def of_tile_or_more(part: MemoryAxis, taps: int) -> Amounts:
    """What a tile with at least so many filter points occupies: one that spans the axis may occupy
    less than one with fewer, as it runs on into the next row."""
    if _is_long(part):
        return Bent(part, taps, 1.0)
    return Listed(np.min([of_tile(part, n) for n in range(taps, part.taps + 1)], axis=0))


@lru_cache(maxsize=512)
def of_pieces(part: MemoryAxis, most: int) -> Amounts:
    """What the whole filter brings in, in pieces of at most `most` points, cut in the best way."""
    if _is_long(part):  # the more points in a piece, the less each of them brings in
        return Bent(part, most, part.taps / most)
    least = [np.zeros(part.points)]
    for taps in range(1, part.taps + 1):
        ends = range(1, min(taps, most) + 1)
        least.append(np.min([least[taps - end] + of_tile(part, end) for end in ends], axis=0))
    return Listed(least[-1])


def _is_long(part: MemoryAxis) -> bool:
    return part.taps > LONG_FILTER or part.taps**3 * part.points > LONG_WORK


def least(amounts: Amounts, sizes: Ints | None = None) -> float:
    """The least of tiles of any of `sizes`."""
    return float(amounts.at(amounts.telling(sizes)).min())


def rate(amounts: Amounts, sizes: Ints | None = None) -> float:
    """The least per point."""
    some = amounts.telling(sizes)
    return float((amounts.at(some) / some).min())


@lru_cache(maxsize=512)
def facets_of_pieces(part: MemoryAxis, most: int) -> tuple[Facet, ...]:
    """Affine functions that `of_pieces` never undercuts."""
    return facets(of_pieces(part, most))


def facets(amounts: Amounts, sizes: Ints | None = None) -> tuple[Facet, ...]:
    """Affine functions that no tile of `sizes` undercuts, each the largest for some of them."""
    points = amounts.telling(sizes)
    heights = amounts.at(points)
    last = np.append(np.flatnonzero(np.diff(heights)), len(points) - 1)  # of each step
    xs, ys = _without_inner(points[last], heights[last].astype(float))
    hull = lower_hull(zip(xs, ys, strict=True))
    found = [(0.0, least(amounts, sizes)), (rate(amounts, sizes), 0.0)]
    for (x0, y0), (x1, y1) in pairwise(hull):
        slope = (y1 - y0) / (x1 - x0)
        if slope > 0 and y0 - slope * x0 > 0:
            found.append((slope, y0 - slope * x0))
    lines = np.array(found)
    largest = np.argmax(np.outer(lines[:, 0], points) + lines[:, 1:] * (1 + 1e-12), axis=0)
    return tuple(found[index] for index in sorted(set(largest.tolist())))


def _without_inner(xs: Ints, ys: Floats) -> tuple[list[int], list[float]]:
    """The points but for most of those that are none of the lower hull's: on or above the line
    between their neighbours, as on a long axis nearly all are."""
    while len(xs) > 2:
        rise, run = np.diff(ys), np.diff(xs)
        below = np.concatenate([[True], rise[:-1] * run[1:] < rise[1:] * run[:-1], [True]])
        if below.all():
            break
        xs, ys = xs[below], ys[below]
    return xs.tolist(), ys.tolist()


def of_partitions(
    part: MemoryAxis, most: int, sizes: Sequence[int], *, unit: int, points: int, largest: int
) -> list[float]:
    """Elements that `points` image points or more bring in, cut in any way into tiles of at most
    each of `sizes` and of at most `largest` points; the filter in pieces of at most `most`.

    All tiles are multiples of `unit`, but that at the end of the axis.
    """
    amounts, extent = of_pieces(part, most), part.points
    whole = gcd(part.grain, part.image_pitch)  # what all tiles occupy is a multiple of it
    lines = facets_of_pieces(part, most)
    limits = np.minimum(sizes, largest)
    some = np.arange(extent % unit, min(extent, points) + 1, unit) if extent % unit else limits[:0]
    found = []
    for size, per_point in zip(limits.tolist(), amounts.rates(unit, limits).tolist(), strict=True):
        if size == extent:
            found.append(amounts.least_from(extent, extent))
            continue
        total = per_point * points
        ends = some[: max(0, (size - extent % unit) // unit + 1)]
        if len(ends):
            ends = amounts.telling(ends)
            total = min(total, float((amounts.at(ends) + per_point * (points - ends)).min()))
        if part.line:
            total = ceil(total / whole - 1e-9) * whole
        tiles = -(-points // size)
        found.append(max(total, *(slope * points + offset * tiles for slope, offset in lines)))
    return found
