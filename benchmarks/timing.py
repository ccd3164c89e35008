"""Time single calls: warm, or each after caches were flushed.

Runs in worker processes, in any Python with numpy.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter
from typing import Any

WARM_UP = 3
"""Runs that are not counted at the start of a warm series: another process had the caches."""

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


def _settle() -> None:
    for _ in range(_SETTLE):
        _nothing()
        perf_counter()


def _nothing() -> None:
    pass
