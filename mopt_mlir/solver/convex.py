"""What the SCIP model knows of integers: the hulls of their logarithms."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import ceil, log


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
