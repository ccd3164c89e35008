"""Measuring the clock and the bandwidths of this host, on a machine that others use as well.

Everything is measured many times, in sweeps over all quantities, so that a disturbance of a second
meets all of them once rather than one of them always. What counts is what the best runs reach, one
in twenty: most others may have been interrupted, and a single one may have had a lucky moment, such
as a neighbour on the same memory that was idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import pairwise
from math import ceil
from statistics import median
from time import perf_counter
from typing import Protocol

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.calibration import Calibration, Figures, Identity
from mopt_mlir.machine.detection import describe_host
from mopt_mlir.machine.facts import HostFacts, observe
from mopt_mlir.machine.quantities import PEAKS, QUANTITIES, READS, Quantity
from mopt_mlir.machine.registry import names, shipped
from mopt_mlir.measuring.bench import HostBench
from mopt_mlir.wording import counted

SECONDS = 15.0
"""Of measuring; three times as long if the figures contradict each other."""

PATIENCE = 3

SWEEPS = 3  # at the least

RUN_SECONDS = 2e-3
"""Of one run: long enough to be timed, and short enough to fall between two interruptions."""

RUN_SECONDS_PER_THREAD = 0.5e-3
"""More: Python takes the time of one thread after the other."""

EACH_UP_TO = 8
"""Cores: up to so many every number of them is measured, then powers of two, and all."""

TOLERANCE = 1.05
"""Factor between figures that may be due to chance."""

BEST = 0.95
"""The share of the runs that are not faster than the figure that counts."""

BUSY = 0.7
"""Where half of the runs are slower than this share of the figure, others use the machine."""

_MOST_ROUNDS = 1 << 40

Samples = dict[tuple[Quantity, int], list[float]]


class Bench(Protocol):
    """What can be measured, see `bench.HostBench`."""

    def work(self, quantity: Quantity, threads: int) -> float: ...

    def seconds(self, quantity: Quantity, threads: int, rounds: int) -> float: ...


def calibrate(
    threads: int | None = None, progress: Callable[[float], None] = lambda share: None
) -> Calibration:
    """Measure this host with 1 to `threads` cores, by default all that the process may use.

    Takes SECONDS, rarely PATIENCE times as long; `progress` is told the share that is done. Raises
    UserError if the host has fewer cores, or too little memory, or cannot run the generated code.
    """
    facts = observe()
    machine = describe_host(facts, map(shipped, names())).machine
    threads = cores_to_measure(threads, facts)
    places = facts.places[:threads]
    way_out = "a machine file can be written by hand"
    with HostBench(machine, places, facts.sharing(places), way_out) as bench:
        samples = measure(bench, thread_counts(threads), progress=progress)
    figures = best(samples)
    remarks = (*contradictions(figures), *disturbances(samples))
    return Calibration(Identity.of(facts), date.today().isoformat(), figures, remarks)


def cores_to_measure(threads: int | None, facts: HostFacts) -> int:
    """`threads`, or all cores of a host for None. Raises UserError if it has fewer."""
    threads = facts.cores if threads is None else threads
    if not 1 <= threads <= facts.cores:
        raise UserError(
            f"threads={threads}: must be at least 1, and this process may use "
            f"{counted(facts.cores, 'core')}"
        )
    return threads


def thread_counts(threads: int) -> tuple[int, ...]:
    """The numbers of cores to measure with."""
    if threads <= EACH_UP_TO:
        return tuple(range(1, threads + 1))
    powers = (1 << exponent for exponent in range(threads.bit_length()))
    return tuple(sorted({*powers, threads}))


def measure(
    bench: Bench,
    counts: Sequence[int],
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[float], None] = lambda share: None,
) -> Samples:
    """Figures of every run, in GFLOP/s and GB/s, for each quantity and number of cores."""
    samples: Samples = {(quantity, n): [] for n in counts for quantity in QUANTITIES}
    rounds = dict.fromkeys(samples, 1)
    start = clock()
    sweeps = 0
    while sweeps < SWEEPS or clock() - start < _limit(seconds, samples):
        for at, (quantity, threads) in enumerate(samples):
            figure, rounds[quantity, threads] = _run(
                bench, quantity, threads, rounds[quantity, threads]
            )
            samples[quantity, threads].append(figure)
            done = (sweeps + at / len(samples)) / SWEEPS
            progress(min(1.0, done, (clock() - start) / seconds if seconds else 1.0))
        sweeps += 1
    return samples


def _limit(seconds: float, samples: Samples) -> float:
    contradictory = any(contradictions(best(samples)))
    return seconds * PATIENCE if contradictory else seconds


def _run(bench: Bench, quantity: Quantity, threads: int, rounds: int) -> tuple[float, int]:
    """GFLOP/s or GB/s of a run that is long enough, and the rounds that it takes for that."""
    least = RUN_SECONDS + RUN_SECONDS_PER_THREAD * threads
    while True:
        seconds = bench.seconds(quantity, threads, rounds)
        if seconds >= least / 2:
            return 1e-9 * bench.work(quantity, threads) * rounds / seconds, rounds
        assert rounds < _MOST_ROUNDS, f"{quantity.kernel} takes no time"
        rounds *= 2 if seconds > least / 8 else 8


def best(samples: Samples) -> Figures:
    """What the best runs reach of each quantity, by name, for each number of cores."""
    figures: dict[str, dict[int, float]] = {}
    for (quantity, threads), runs in samples.items():
        figures.setdefault(quantity.name, {})[threads] = _best(runs)
    return figures


def _best(runs: Sequence[float]) -> float:
    return sorted(runs)[ceil(BEST * (len(runs) - 1))]


def contradictions(figures: Figures) -> Iterator[str]:
    """What cannot be true of a machine, but comes out of disturbed measurements."""
    for inner, outer in pairwise(READS):
        for threads, near in figures[inner.name].items():
            far = figures[outer.name][threads]
            if far > TOLERANCE * near:
                yield (
                    f"{outer.name} ({far:.0f} GB/s) is faster than {inner.name} ({near:.0f} GB/s) "
                    f"on {counted(threads, 'core')}"
                )
    for quantity in QUANTITIES:
        by_threads = figures[quantity.name]
        for (few, slow), (many, fast) in pairwise(by_threads.items()):
            if slow > TOLERANCE * fast:
                yield (
                    f"{quantity.name} is slower on {counted(many, 'core')} "
                    f"({fast:.0f} {quantity.unit}) than on {counted(few, 'core')} ({slow:.0f})"
                )
    single, double = (figures[peak.name][1] for peak in PEAKS)
    if not 1 / TOLERANCE < single / (2 * double) < TOLERANCE:
        yield f"the f32 peak ({single:.0f} GFLOP/s) is not twice the f64 peak ({double:.0f})"


def disturbances(samples: Samples) -> Iterable[str]:
    """Whether something else that runs on the machine slowed the measurements down."""
    slow = sum(median(runs) < BUSY * _best(runs) for runs in samples.values())
    if slow:
        yield (
            f"the machine was busy: of {slow} of the {len(samples)} figures, half of the runs were "
            f"more than {1 - BUSY:.0%} below the best; measure again when nothing else runs"
        )
