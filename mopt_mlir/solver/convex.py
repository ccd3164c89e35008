"""What the SCIP model knows of integers: useful tile sizes, hulls and chords of their logs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import ceil, log

import numpy as np

from mopt_mlir.solver.search import useful_sizes
from mopt_mlir.solver.space import covered_points


def tile_sizes(extent: int, units: Iterable[int], covered: Iterable[int]) -> list[int]:
    """Sizes in elements that any tile of a dim can be shrunk to without more tiles: of the whole
    `extent`, or of one of the parts of it that a core may cover. Tiles are multiples of one of
    `units`."""
    sizes = set()
    for unit in units:
        for points in {extent, *covered}:
            for tiles in useful_sizes(ceil(points / unit)).tolist():
                sizes.add(min(tiles * unit, extent))
    return sorted(sizes)


def with_smaller_shares(sizes: list[int], extent: int, unit: int, ways: int) -> list[int]:
    """`sizes`, and between each and the next those of which the busiest of `ways` cores covers less
    than of any smaller one there."""
    points = covered_points(extent, unit, ways)
    starts = [-(-size // unit) - 1 for size in sizes]
    found = set(sizes)
    for first, end in pairwise([*starts, len(points)]):
        least = np.minimum.accumulate(points[first:end])
        smaller = first + 1 + np.flatnonzero(np.diff(least))
        found.update(min(extent, (int(at) + 1) * unit) for at in smaller)
    return sorted(found)


def lower_hull(sizes: Iterable[int], extent: int) -> list[tuple[float, float]]:
    """The lower convex hull of the points (log size, log number of tiles) as facets
    `(slope, offset)`: the number of tiles is at least `exp(offset - slope * log(size))`."""
    hull: list[tuple[float, float]] = []
    for size in sorted(sizes):
        point = log(size), log(ceil(extent / size))
        while len(hull) > 1 and _on_or_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    facets = []
    for (x0, y0), (x1, y1) in pairwise(hull):
        slope = (y0 - y1) / (x1 - x0)
        facets.append((slope, y0 + slope * x0))
    return facets


def _on_or_above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether `b` lies on or above the line from `a` to `c`."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
