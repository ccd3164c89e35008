"""What tiles occupy along an axis of a tensor in memory, for many tiles at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.solver.arrays import Ints

MOST_TABULATED = 1 << 16
"""What tiles of so many sizes along an axis occupy is looked up: it is asked for a lot."""


def occupied(part: MemoryAxis, points: Ints, taps: Ints) -> Ints:
    """`MemoryAxis.occupied` over arrays."""
    if (part.points + 1) * (part.taps + 1) <= MOST_TABULATED:
        return np.asarray(_table(part)[points, taps])
    return _occupied(part, points, taps)


@lru_cache(maxsize=256)
def _table(part: MemoryAxis) -> Ints:
    """What tiles of any number of points (rows) and taps (columns) of an axis occupy."""
    return _occupied(part, *np.ogrid[: part.points + 1, : part.taps + 1])


def _occupied(part: MemoryAxis, points: Ints, taps: Ints) -> Ints:
    if part.line:
        spans = (points == part.points) & (taps == part.taps)
        return np.where(spans, part.whole, part.in_lines(points, taps))
    return np.asarray(part.in_elements(points, taps))
