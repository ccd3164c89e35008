"""Threads that run a kernel on several cores at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from mopt_mlir.machine.facts import pin

if TYPE_CHECKING:
    from mopt_mlir.lowering.function import Function


class Team:
    """Threads, each on a core of its own: on the logical CPUs `places`, as far as the OS allows it;
    where it likes for None."""

    def __init__(self, places: Sequence[int | None]) -> None:
        self._places = places
        self._pool = ThreadPoolExecutor(len(places))

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def seconds(self, kernel: Function, rounds: int, arguments: Sequence[Sequence[Any]]) -> float:
        """How long `rounds` of a function of `kernels` take, on as many places as there are lists
        of `arguments`: what follows `rounds` in its parameters."""
        arrived, threads = np.zeros(1, np.int64), len(arguments)
        return self.run([kernel.bind(arrived, threads, rounds, *more) for more in arguments])

    def run(self, tasks: Sequence[Callable[[], object]]) -> float:
        """Run tasks together, the first on the first place and so on: seconds from when the last
        starts, which is when kernels stop waiting for each other, until the last has finished."""
        barrier = Barrier(len(tasks))

        def run(place: int | None, task: Callable[[], object]) -> tuple[float, float]:
            if place is not None:
                pin(place)
            barrier.wait()
            start = perf_counter()
            task()
            return start, perf_counter()

        times = list(self._pool.map(run, self._places, tasks))
        return max(end for _, end in times) - max(start for start, _ in times)
