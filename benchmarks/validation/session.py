"""The process in which plans are compiled, checked and timed; `measure` asks, see `workers`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from mopt_mlir.cache_flush import CacheFlush
from mopt_mlir.plan import Plan

from ..latency import Chains
from ..timing import time_runs
from ..worker import begin, flush_of, read_workload, send, serve
from ..workloads import Array, Workload
from .counters import Counters
from .planned import compile_plan

MODULE = "benchmarks.validation.session"
"""The name of this module where `workers` starts it."""

WARM_RUNS = 3
"""Runs that follow each other in a warm round; the first is not counted."""

SEED = 0


@dataclass
class Operator:
    """A workload with its operands and reference, which all of its plans share."""

    workload: Workload
    input: Array
    weights: Array
    output: Array
    reference: Array
    runs: dict[str, Callable[[], Any]] = field(default_factory=dict)

    @staticmethod
    def of(workload: Workload) -> Operator:
        input_, weights, output = workload.operands(SEED)
        return Operator(workload, input_, weights, output, workload.reference(input_, weights))


class Session:
    """Answers what `measure` asks. `flush` makes what flushes the caches before cold runs."""

    def __init__(self, flush: Callable[[], CacheFlush]) -> None:
        self._make_flush = flush
        self._flush: CacheFlush | None = None
        self._counters = Counters()
        self._chains: Chains | None = None
        self._operator: Operator | None = None

    def hello(self) -> dict[str, Any]:
        """What this process can do: `counters` are the names of what is counted."""
        return {"counters": self._counters.names}

    def open(self, workload: dict[str, Any]) -> dict[str, Any]:
        """Turn to another operator."""
        self._operator = None  # its memory is needed
        self._operator = Operator.of(read_workload(workload))
        return {}

    def load(self, key: str, plan: dict[str, Any], isa: str) -> dict[str, Any]:
        """Compile a plan, run it, check the result, and keep it under `key`."""
        operator = self._current
        start = perf_counter()
        executable = compile_plan(operator.workload, Plan.from_dict(plan), isa)
        compile_seconds = perf_counter() - start
        run = executable["conv"].bind(operator.input, operator.weights, operator.output)
        operator.output[...] = np.nan  # what a run leaves out is found
        (seconds,) = time_runs(run, 1, 0)
        error = operator.workload.error(
            operator.output, operator.reference, operator.input, operator.weights
        )
        operator.runs[key] = run
        return {
            "compile_seconds": compile_seconds,
            "run_seconds": seconds,
            "error_of_bound": error if np.isfinite(error) else None,
        }

    def unload(self, keys: Sequence[str]) -> dict[str, Any]:
        """Forget plans."""
        for key in keys:
            del self._current.runs[key]
        return {}

    def round(self, keys: Sequence[str], against: str, cold: bool) -> dict[str, Any]:
        """Time each plan of `keys`, right before each the plan `against`: by key, a pair of lists
        of seconds, first those of `against`."""
        return {"pairs": {key: [self._time(against, cold), self._time(key, cold)] for key in keys}}

    def count(self, key: str, cold: bool) -> dict[str, Any]:
        """The hardware's counters over one run, by name; empty if there are none."""
        run = self._current.runs[key]
        before = self._caches() if cold else run
        before()
        return {"counters": self._counters.over(run)}

    def latencies(self, caches: Mapping[str, int]) -> dict[str, Any]:
        """Nanoseconds of a load that depends on the one before, through a part of each cache, of
        which `caches` are the bytes by name, and through memory."""
        if self._chains is None:
            self._chains = Chains(caches, self._caches())
        return {"nanoseconds": self._chains.nanoseconds()}

    @property
    def _current(self) -> Operator:
        assert self._operator is not None
        return self._operator

    def _caches(self) -> CacheFlush:
        if self._flush is None:
            self._flush = self._make_flush()
        return self._flush

    def _time(self, key: str, cold: bool) -> list[float]:
        run = self._current.runs[key]
        if cold:
            return time_runs(run, 1, 0, self._caches())
        return time_runs(run, WARM_RUNS - 1, 1)


def main(name: str, cpus: str, flushed: str) -> None:
    """Serve on standard input and output, pinned to `cpus` (a JSON list); `flushed` is what
    `flush_of` takes."""
    answers = begin(cpus)
    session = Session(partial(flush_of, flushed))
    send(answers, {"result": {"version": name}})
    calls = (session.hello, session.open, session.load, session.unload, session.round)
    looks = (session.count, session.latencies)
    serve({call.__name__: call for call in (*calls, *looks)}, sys.stdin, answers)
