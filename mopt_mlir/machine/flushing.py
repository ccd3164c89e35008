"""Flushing the caches before a cold run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Barrier
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.machine.facts import observe
from mopt_mlir.machine.registry import host

_FLUSH_FACTOR = 4  # times the largest cache
_MOST_BALLAST = 512 << 20  # bytes: evicts as much of 480 MiB as four times these (Granite Rapids)
_KEPT_PARTS = 8  # of the largest cache: each core reads one of them
_KEPT_READS = 8  # times after each other


def flush_caches() -> None:
    """Read more memory than the caches hold, on every core, and then a little several times: from
    nothing but the former the last cache of some CPUs learns to keep nothing, which slows a run
    down that depends on it."""
    places = observe().places
    ballast, kept = _ballast(len(places))
    together = Barrier(len(places))

    def read(place: int, much: NDArray[Any], little: NDArray[Any]) -> None:
        if hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # it was taken away meanwhile: the scheduler decides
                os.sched_setaffinity(0, {place})  # 0 is the calling thread
        np.max(much)
        together.wait()  # what is read last stays
        for _ in range(_KEPT_READS):
            np.max(little)

    with ThreadPoolExecutor(len(places)) as pool:
        list(pool.map(read, places, ballast, kept))


@cache
def _ballast(cores: int) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Parts for each core: one that alone is larger than a core's own caches, with many cores also
    a part of others', and one that stays in the last cache beside those of the others."""
    largest = max(cache.size for cache in host().caches)
    ballast = np.ones(max(min(_FLUSH_FACTOR * largest, _MOST_BALLAST), largest), np.uint8)
    part = max(ballast.nbytes // cores, ballast.nbytes // 8)
    starts = (core * (ballast.nbytes - part) // max(1, cores - 1) for core in range(cores))
    kept = largest // max(_KEPT_PARTS, 2 * cores)  # in all at most half of it
    return (
        [ballast[start : start + part] for start in starts],
        [np.ones(kept, np.uint8) for _ in range(cores)],
    )
