"""Caches that hold nothing of what ran before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.machine.registry import host

_FLUSH_FACTOR = 4  # times the largest cache
_KEPT_PARTS = 8  # of the largest cache: each core reads one of them
_KEPT_READS = 8  # times after each other


def flush_caches() -> None:
    """Read more memory than the caches hold, on every core, and then a little several times: from
    nothing but the former the last cache of some CPUs learns to keep nothing, which slows a run
    down that depends on it."""
    ballast, kept = _ballast()
    with ThreadPoolExecutor(len(ballast)) as pool:
        list(pool.map(np.max, ballast))
        for _ in range(_KEPT_READS):
            list(pool.map(np.max, kept))


@cache
def _ballast() -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Parts for each core: one that alone is larger than a core's own caches, and one that stays in
    the last cache beside those of the others."""
    machine = host()
    largest = max(cache.size for cache in machine.caches)
    sizes = (
        _FLUSH_FACTOR * largest // machine.cores,
        largest // max(_KEPT_PARTS, 2 * machine.cores),  # in all at most half of it
    )
    ballast, kept = ([np.ones(size, np.uint8) for _ in range(machine.cores)] for size in sizes)
    return ballast, kept
