"""Lower convex hulls: of points, and of what the SCIP model knows of integers, their logarithms."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import ceil, log

Point = tuple[float, float]


def facets_of_tiles(sizes: Iterable[int], extent: int) -> list[tuple[float, float]]:
    """The lower convex hull of the points (log size, log number of tiles) as facets
    `(slope, offset)`: the number of tiles is at least `exp(offset - slope * log(size))`."""
    hull = lower_hull((log(size), log(ceil(extent / size))) for size in sorted(sizes))
    facets = []
    for (x0, y0), (x1, y1) in pairwise(hull):
        slope = (y0 - y1) / (x1 - x0)
        facets.append((slope, y0 + slope * x0))
    return facets


def lower_hull(points: Iterable[Point]) -> list[Point]:
    """The corners of the lower convex hull of points in the order of their first coordinates."""
    hull: list[Point] = []
    for point in points:
        while len(hull) > 1 and _on_or_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _on_or_above(a: Point, b: Point, c: Point) -> bool:
    """Whether `b` lies on or above the line from `a` to `c`."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
