"""Time single calls: warm, or with the caches of every core flushed before each.

Runs in worker processes, in any Python with numpy.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARM_UP = 3
"""Runs that are not counted at the start of a warm series: another process had the caches."""

_FLUSH_FACTOR = 4  # times the largest cache: more than any replacement policy keeps
_MOST_BALLAST = 512 << 20  # bytes: evicts as much of 480 MiB as four times these (Granite Rapids)
_KEPT_PARTS = 8  # of the largest cache: each CPU reads one of them
_KEPT_READS = 8  # times after each other
_DEFAULT_CACHE = 64 << 20  # bytes, where the OS does not describe the caches
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SETTLE = 64  # rounds: enough to have the interpreter's own code and data back


class CacheFlush:
    """Call it to evict everything from the caches of `cpus`, private ones included.

    One thread per CPU reads ballast of its own; reading leaves no dirty lines behind whose
    write-back would fall into the timed run. Then it reads a little that fits a few times over. The
    last cache of some CPUs learns from what it sees whether new lines are worth to be kept: after
    nothing but ballast it may not keep what the timed run reads again, and that depends on what ran
    long before (measured on Zen 5: plans that count on L3 take up to 1.6 times as long). Raises
    OSError for a CPU that cannot be used.
    """

    def __init__(self, cpus: Iterable[int], cache_bytes: int | None = None) -> None:
        self.cpus = tuple(cpus)
        largest = largest_cache() if cache_bytes is None else cache_bytes
        size = ballast_bytes(largest)
        # a share must exceed a core's private caches as well, which are a small part of `size`
        share = max(size // len(self.cpus), size // 8)
        kept = largest // max(_KEPT_PARTS, 2 * len(self.cpus))  # in all at most half of it
        self._pools = [ThreadPoolExecutor(1, initializer=_pin, initargs=(c,)) for c in self.cpus]
        self._ballast = [np.ones(share // 8, np.int64) for _ in self.cpus]
        self._kept = [np.ones(kept // 8, np.int64) for _ in self.cpus]
        barrier = Barrier(len(self.cpus))
        for future in [pool.submit(barrier.wait) for pool in self._pools]:
            future.result()

    def __call__(self) -> None:
        self._read(self._ballast)
        for _ in range(_KEPT_READS):
            self._read(self._kept)

    def _read(self, blocks: Iterable[NDArray[np.int64]]) -> None:
        """Each CPU its block, at the same time."""
        parts = zip(self._pools, blocks, strict=True)
        for future in [pool.submit(np.max, block) for pool, block in parts]:
            future.result()


def time_runs(
    run: Callable[[], Any], count: int, drop: int, flush: Callable[[], Any] | None = None
) -> list[float]:
    """Seconds of each of `count` calls, after `drop` calls that are not counted.

    `flush` is called before each, untimed. After it a little Python runs, so that it is the
    operands that are cold and not the interpreter.
    """
    seconds = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(drop + count):
            if flush is not None:
                flush()
                _settle()
            start = perf_counter()
            run()
            seconds.append(perf_counter() - start)
    finally:
        if collecting:
            gc.enable()
    return seconds[drop:]


def ballast_bytes(cache_bytes: int) -> int:
    """What is read to evict all that a last cache of so many bytes keeps."""
    return max(min(_FLUSH_FACTOR * cache_bytes, _MOST_BALLAST), cache_bytes)


def largest_cache(sysfs: Path = _SYSFS) -> int:
    """Bytes of the largest cache that the OS describes, or a generous guess."""
    return max(filter(None, map(_size, sysfs.glob("index*/size"))), default=_DEFAULT_CACHE)


def aligned_copy(array: NDArray[Any], alignment: int = 64) -> NDArray[Any]:
    """A contiguous copy that starts at a multiple of `alignment` bytes."""
    memory = np.empty(array.nbytes + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    copy: NDArray[Any] = memory[start : start + array.nbytes].view(array.dtype)
    copy = copy.reshape(array.shape)
    copy[...] = array
    return copy


def _settle() -> None:
    for _ in range(_SETTLE):
        _nothing()
        perf_counter()


def _nothing() -> None:
    pass


def _pin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})  # of this thread only


def _size(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    digits, unit = text.rstrip("KMG"), _UNITS.get(text[-1:], 1)
    return int(digits) * unit if digits.isdigit() else 0
