"""Flushing caches: on every core, more memory is read than they hold.

This module needs numpy and nothing else of the package: benchmarks load it where no more than that
is installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FLUSH_FACTOR = 4  # times the largest cache: more than any replacement policy keeps
_MOST_BALLAST = 512 << 20  # bytes: evicts as much of 480 MiB as four times these (Granite Rapids)
_MOST_PER_CPU = 16 << 20  # bytes: what many CPUs have of their own adds up
_PIECE = 16 << 20  # bytes, at most: more than a CPU has of its own
_PIECE_READS = 2
_PARTS = 8  # of the ballast: each CPU reads at least one of them
_KEPT_PARTS = 8  # of the largest cache: each CPU reads one of them
_MOST_KEPT = 4 << 20  # bytes for each CPU: more than it has of its own
_KEPT_READS = 8  # times after each other
_ITEM = 8  # bytes, of int64


@dataclass(frozen=True)
class FlushedCpus:
    """Logical CPUs whose caches are flushed, in `groups` that share a last cache each; so many as
    `at_once` says may read at the same time."""

    groups: Sequence[Sequence[int]]
    at_once: int


def _pin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})  # of this thread only


class CacheFlush:
    """Call it to evict everything from the caches of `cpus`, private ones included; `cache_bytes`
    are those of the largest. It is a context manager, which ends its threads; the memory that
    it reads (`memory_of`) is there as long as the object.

    The CPUs of each group read ballast; reading leaves no dirty lines behind whose write-back would
    fall into the timed run. They read it piece by piece, each twice: what is read once passes by
    the last cache of some CPUs, which keeps what was written there before (measured on Granite
    Rapids: stores past the caches to output that is still in the last one take up to 1.6 times as
    long, others 0.7 times, after 256 MiB that each of two CPUs has read once, and it is still there
    after 1 GiB each). Then each reads a little that fits a few times over. The last cache of some
    CPUs learns from what it sees whether new lines are worth to be kept: after nothing but ballast
    it may not keep what the timed run reads again, and that depends on what ran long before
    (measured on Zen 5: plans that count on L3 take up to 1.6 times as long).

    `pin` binds the calling thread to a CPU. The default one raises OSError for a CPU that cannot be
    used, and so does this constructor then.
    """

    def __init__(
        self, cpus: FlushedCpus, cache_bytes: int, pin: Callable[[int], None] = _pin
    ) -> None:
        self._at_once = cpus.at_once
        self._ballast, self._kept = _blocks(tuple(map(len, cpus.groups)), cache_bytes)
        numbers = [cpu for group in cpus.groups for cpu in group]
        self._pools = [ThreadPoolExecutor(1) for _ in numbers]
        pinned = zip(self._pools, numbers, strict=True)
        try:
            for future in [pool.submit(pin, cpu) for pool, cpu in pinned]:
                future.result()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> CacheFlush:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:
            pool.shutdown()

    def __call__(self) -> None:
        self._read(self._ballast, _PIECE_READS)
        self._read(self._kept, _KEPT_READS)

    def _read(self, blocks: Iterable[NDArray[np.int64]], times: int) -> None:
        """Each CPU its block, as many as may at the same time."""
        parts = list(zip(self._pools, blocks, strict=True))
        for first in range(0, len(parts), self._at_once):
            together = parts[first : first + self._at_once]
            for future in [pool.submit(_read, block, times) for pool, block in together]:
                future.result()


def _read(block: NDArray[np.int64], times: int) -> None:
    """Piece by piece, each so many times after each other."""
    for piece in np.array_split(block, -(-block.nbytes // _PIECE)):
        for _ in range(times):
            np.max(piece)


def ballast_bytes(cache_bytes: int, cpus: int = 1) -> int:
    """What is read to evict all that a last cache of so many bytes, and the private ones of `cpus`
    that share it, keep."""
    most = max(_MOST_BALLAST, _MOST_PER_CPU * cpus)
    return max(min(_FLUSH_FACTOR * cache_bytes, most), cache_bytes)


def memory_of(cpus: FlushedCpus, cache_bytes: int) -> int:
    """What a `CacheFlush` takes of memory, at most: the ballast, and what stays in the cache."""
    groups = [*map(len, cpus.groups)]
    kept = max(group * _kept_bytes(cache_bytes, group) for group in groups)
    return ballast_bytes(cache_bytes, max(groups)) + kept


def _kept_bytes(cache_bytes: int, cpus: int) -> int:
    """What each of `cpus` that share a last cache reads last: in all at most half of the cache."""
    return min(cache_bytes // max(_KEPT_PARTS, 2 * cpus), _MOST_KEPT)


_Blocks = list[NDArray[np.int64]]


def _blocks(groups: tuple[int, ...], cache_bytes: int) -> tuple[_Blocks, _Blocks]:
    """What each CPU reads, of groups of so many: its part of the ballast, and a little that stays
    in the last cache beside that of the others. Groups read the same memory: each has to read all
    of it, and with one for each the caches of a large machine would take gigabytes."""
    ballast = np.ones(ballast_bytes(cache_bytes, max(groups)) // _ITEM, np.int64)
    kept = [_kept_bytes(cache_bytes, cpus) // _ITEM for cpus in groups]
    little = np.ones(max(cpus * size for cpus, size in zip(groups, kept, strict=True)), np.int64)
    return (
        [part for cpus in groups for part in _parts(ballast, cpus)],
        [
            little[at * size : (at + 1) * size]
            for cpus, size in zip(groups, kept, strict=True)
            for at in range(cpus)
        ],
    )


def _parts(ballast: NDArray[np.int64], cpus: int) -> Iterator[NDArray[np.int64]]:
    """All of it, cut among so many. Each part exceeds a core's private caches as well, which are a
    small part of the whole; parts of many CPUs overlap for that."""
    least = min(ballast.size, _MOST_BALLAST // _ITEM) // _PARTS
    part = max(-(-ballast.size // cpus), least)
    for at in range(cpus):
        start = at * (ballast.size - part) // max(1, cpus - 1)
        yield ballast[start : start + part]
