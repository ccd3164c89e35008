"""Timing alternatives in turns, and which is fastest despite noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

TURNS = 15
"""In a turn everybody runs once."""

LEAST_TURNS = 5
"""Also where a turn takes so long that more of them would take longer than SECONDS."""

SECONDS = 1.5
"""Of all turns, so that candidates of a large layer do not take minutes."""

_SETTLE = 64  # rounds: enough to have the interpreter's own code and data back in the caches
_DEVIATIONS = 1.4826
"""Standard deviations of a normal distribution in its median absolute deviation."""

Times = NDArray[np.float64]
"""Seconds, `[turn, candidate]`."""


def time_in_turns(
    candidates: Sequence[Callable[[], Any]], before_each: Callable[[], Any] | None = None
) -> Times:
    """Seconds of single calls. Before each of them `before_each` is called, untimed.

    Candidates take turns, in rotating order, so that what disturbs the machine for a while disturbs
    all of them. A first turn, in which memory is touched for the first time, is not counted.
    """
    count = len(candidates)

    def turn(first: int) -> list[float]:
        order = [(first + place) % count for place in range(count)]
        seconds = {number: time_call(candidates[number], before_each) for number in order}
        return [seconds[number] for number in range(count)]

    start = perf_counter()
    turn(0)
    elapsed = perf_counter() - start
    turns = min(max(int(SECONDS / elapsed), LEAST_TURNS), TURNS)
    return np.array([turn(number) for number in range(turns)])


def fastest(times: Times) -> int:
    """The number of the fastest candidate: 0, the favourite, unless another one takes less time by
    more than the spread of that difference, turn by turn.

    Medians and median deviations, because what else runs on a machine only ever adds time.
    """
    ratios = times / times[:, :1]
    typical = np.median(ratios, axis=0)
    spread = _DEVIATIONS * np.median(np.abs(ratios - typical), axis=0)
    ahead = typical + spread < 1
    return int(np.argmin(np.where(ahead, typical, 1.0))) if ahead.any() else 0


def time_call(run: Callable[[], Any], before: Callable[[], Any] | None = None) -> float:
    """Seconds of one call of `run`, after an untimed one of `before`."""
    if before is not None:
        before()
    for _ in range(_SETTLE):
        perf_counter()
    start = perf_counter()
    run()
    return perf_counter() - start
