"""Time single calls: warm, or each after caches were flushed.

Runs in worker processes, in any Python with numpy.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARM_UP = 3
"""Runs that are not counted at the start of a warm series: another process had the caches."""

_DEFAULT_CACHE = 64 << 20  # bytes, where the OS does not describe the caches
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SETTLE = 64  # rounds: enough to have the interpreter's own code and data back


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


def _size(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    digits, unit = text.rstrip("KMG"), _UNITS.get(text[-1:], 1)
    return int(digits) * unit if digits.isdigit() else 0
