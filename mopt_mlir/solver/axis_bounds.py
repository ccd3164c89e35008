"""What the SCIP model knows of halos and cache lines: lower bounds on the elements of memory that
tiles along an axis of a tensor bring in, as functions of their sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil, gcd

import numpy as np

from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.convex import lower_hull
from mopt_mlir.solver.touched import touched

Facet = tuple[float, float]
"""`(slope, offset)`, both at least 0: tiles of `n` points bring in `slope * n + offset` or more."""

LONG_FILTER, LONG_WORK = 64, 1 << 28
"""Of more filter points, or where the ways to cut them for all pieces and sizes of tiles are more,
all of them take too long to look at: elements count, and not what their lines hold beside them."""


@lru_cache(maxsize=512)
def of_tile(part: MemoryAxis, taps: int) -> Floats:
    """Elements that a tile of 1, 2, ... image points by `taps` filter points occupies."""
    points = np.arange(1, part.points + 1)
    return touched(part, points, np.full_like(points, taps)).astype(float)


@lru_cache(maxsize=512)
def of_tile_or_more(part: MemoryAxis, taps: int) -> Floats:
    """What a tile with at least so many filter points occupies: one that spans the axis may occupy
    less than one with fewer, as it runs on into the next row."""
    if _is_long(part):
        return _elements(part, taps)
    return np.asarray(np.min([of_tile(part, n) for n in range(taps, part.taps + 1)], axis=0))


@lru_cache(maxsize=512)
def of_pieces(part: MemoryAxis, most: int) -> Floats:
    """What the whole filter brings in, in pieces of at most `most` points, cut in the best way."""
    if _is_long(part):  # the more points in a piece, the less each of them brings in
        return part.taps / most * _elements(part, most)
    least = [np.zeros(part.points)]
    for taps in range(1, part.taps + 1):
        ends = range(1, min(taps, most) + 1)
        least.append(np.min([least[taps - end] + of_tile(part, end) for end in ends], axis=0))
    return least[-1]


def _is_long(part: MemoryAxis) -> bool:
    return part.taps > LONG_FILTER or part.taps**3 * part.points > LONG_WORK


def _elements(part: MemoryAxis, taps: int) -> Floats:
    """Distinct elements of a tile of 1, 2, ... image points."""
    points = np.arange(1, part.points + 1)
    return np.asarray(part.in_elements(points, taps), dtype=float)


def least(values: Floats, sizes: Ints | None = None) -> float:
    """The least value; `values[n - 1]` belongs to tiles of `n` points, and only tiles of `sizes`
    occur (all, if it is None)."""
    return float((values if sizes is None else values[sizes - 1]).min())


def rate(values: Floats, sizes: Ints | None = None) -> float:
    """The least value per point."""
    points = np.arange(1, len(values) + 1) if sizes is None else sizes
    return float((values[points - 1] / points).min())


@lru_cache(maxsize=512)
def facets_of_pieces(part: MemoryAxis, most: int) -> tuple[Facet, ...]:
    """Affine functions that `of_pieces` never undercuts."""
    return facets(of_pieces(part, most))


def facets(values: Floats, sizes: Ints | None = None) -> tuple[Facet, ...]:
    """Affine functions that no value undercuts, each of them the largest for some size."""
    points = np.arange(1, len(values) + 1) if sizes is None else sizes
    heights = values[points - 1]
    last = np.append(np.flatnonzero(np.diff(heights)), len(points) - 1)  # of each step
    xs, ys = _without_inner(points[last], heights[last].astype(float))
    hull = lower_hull(zip(xs, ys, strict=True))
    found = [(0.0, least(values, sizes)), (rate(values, sizes), 0.0)]
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
    values, extent = of_pieces(part, most), part.points
    grid = np.arange(unit, extent + 1, unit)
    rates = np.minimum.accumulate(values[grid - 1] / grid)
    ends = np.arange(extent % unit or unit, min(extent, points) + 1, unit)
    found = []
    for size in (min(size, largest) for size in sizes):
        if size == extent:
            found.append(float(values[-1]))
            continue
        per_point, some = float(rates[size // unit - 1]), ends[ends <= size]
        total = per_point * points
        if extent % unit and len(some):
            total = min(total, float((values[some - 1] + per_point * (points - some)).min()))
        if part.line:
            whole = gcd(part.grain, part.image_pitch)  # what all tiles occupy is a multiple of it
            total = ceil(total / whole - 1e-9) * whole
        tiles = -(-points // size)
        facets = facets_of_pieces(part, most)
        found.append(max(total, *(slope * points + offset * tiles for slope, offset in facets)))
    return found
