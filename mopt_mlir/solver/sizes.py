"""Useful tile sizes: every other size costs at least as much as one of these.

Of all sizes that cut a dim into the same number of tiles the smallest takes the least room. Two
things do not grow with the size, and bring in others: what the busiest core covers, and lines of
cache, of which tiles that begin at lines occupy fewer than smaller ones that do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil, isqrt

import numpy as np

from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.occupied import occupied
from mopt_mlir.solver.space import MOST_TILES, covered_points


@lru_cache(maxsize=256)
def useful_sizes(units: int) -> Ints:
    """The sizes worth a tile along a dim of `units`: the smallest for each number of tiles."""
    few = np.arange(1, isqrt(units) + 2)  # of few tiles all sizes, of many tiles all that are small
    small = few[-(-units // -(-units // few)) == few]
    return np.union1d(-(-units // few), small)


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
    return _with_less(sizes, extent, unit, covered_points(extent, unit, ways))


def with_fewer_lines(
    sizes: list[int], extent: int, units: Iterable[int], parts: Iterable[MemoryAxis]
) -> list[int]:
    """`sizes`, and between each and the next those of which a tile occupies no more along one of
    the axes `parts`, which run along the dim, than of any smaller one there, or all tiles together
    less. (Of very many tiles none.)"""
    for part in parts:
        for unit in (unit for unit in units if extent <= MOST_TILES * unit):
            points = np.minimum(np.arange(unit, extent + unit, unit), extent)
            # filters that are a whole line longer end in the same places of a line
            for taps in {*range(1, min(part.taps, part.line) + 1), part.taps}:
                each = occupied(part, points, np.full_like(points, taps))
                sizes = _with_less(sizes, extent, unit, each, or_as_much=True)
                full, rest = np.divmod(extent, points)
                last = np.where(rest, occupied(part, rest, np.full_like(rest, taps)), 0)
                sizes = _with_less(sizes, extent, unit, full * each + last)
    return sizes


def _with_less(
    sizes: list[int], extent: int, unit: int, values: Ints, *, or_as_much: bool = False
) -> list[int]:
    """`sizes`, and between each and the next those multiples of `unit` whose value is less than
    that of any smaller one there (or no more). `values` are of 1, 2, ... units."""
    starts = np.zeros(len(values), int)
    starts[[-(-size // unit) - 1 for size in sizes]] = 1
    part = np.cumsum(starts)
    # each part lies below the one before it, so that a running minimum starts anew there
    lowered = values - part * (int(values.max()) - int(values.min()) + 1)
    least, own = np.minimum.accumulate(lowered)[:-1], lowered[1:]
    better = np.flatnonzero((own <= least if or_as_much else own < least) & (part[1:] == part[:-1]))
    inside = better[part[better] > 0] + 1
    return sorted({*sizes, *np.minimum(extent, (inside + 1) * unit).tolist()})


def largest_of(sizes: Sequence[int], extent: int, unit: int) -> list[int]:
    """For each of some `sizes` along a dim the largest multiple of `unit` below the next one, or
    the whole: a tile of any size stands for those up to there."""
    ends = [(after - 1) // unit * unit for after in sizes[1:]]
    return [max(size, end) for size, end in zip(sizes, [*ends, extent], strict=True)]
