"""A worker process: one peer, pinned, that prepares operators and times them on request.

Requests and answers are JSON, one per line. Each peer has a process of its own because their
libraries bring thread pools and OpenMP runtimes that do not get along in one.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import numpy as np

from mopt_mlir.cache_flush import CacheFlush, FlushedCpus

from . import peers
from .peers.interface import Peer, Prepared, Task, UnavailableError
from .protocol import Configuration, Protocol
from .timing import time_runs
from .workloads import Array, Workload, aligned_copy

_PR_SET_PDEATHSIG = 1
_ARRAYS = ("input", "weights", "reference")
_SLOW = 1.0  # seconds of a run that says how long the next one takes


@dataclass
class Session:
    """The peer, and the operator that it has prepared. It runs on `cpus`; `flush` makes what
    flushes the caches before cold runs."""

    peer: Peer
    cpus: list[int]
    flush: Callable[[], CacheFlush]
    task: Task | None = None
    prepared: Prepared | None = None
    reference: Array | None = None
    _caches: CacheFlush | None = None

    def prepare(
        self, workload: dict[str, Any], configuration: dict[str, Any], directory: str
    ) -> dict[str, Any]:
        """Prepare the operator whose arrays are in `directory`, run and check it, and say how long
        a run takes."""
        self.task = self.prepared = self.reference = None  # their memory is needed
        input_, weights = (aligned_copy(_load(directory, name)) for name in _ARRAYS[:2])
        self.reference = _load(directory, "reference")
        measured = _configuration(configuration)
        flush = self._flush if measured.cold else None
        self.task = Task(read_workload(workload), measured, input_, weights, flush)
        with _unbound(self.cpus):
            start = perf_counter()
            self.prepared = self.peer.prepare(self.task)
            prepare_seconds = perf_counter() - start
        (seconds,) = time_runs(self.prepared.run, 1, 0)
        checked = self.check()
        if seconds < _SLOW:  # the first run of a fast one does not say much
            (seconds,) = time_runs(self.prepared.run, 1, 0)
        return {
            "detail": self.prepared.detail,
            "prepare_seconds": prepare_seconds,
            "run_seconds": seconds,
            **checked,
        }

    def run(self, count: int, drop: int, cold: bool) -> dict[str, Any]:
        """Seconds of `count` runs after `drop` that are not counted."""
        assert self.prepared is not None
        flush = self._flush if cold else None
        return {"seconds": time_runs(self.prepared.run, count, drop, flush)}

    def _flush(self) -> None:
        if self._caches is None:
            self._caches = self.flush()
        self._caches()

    def check(self) -> dict[str, Any]:
        """How far the last result is from the reference: relative to the largest value, and in
        units of what rounding can explain. NaN becomes None."""
        assert self.task is not None
        assert self.prepared is not None
        assert self.reference is not None
        result, reference = np.asarray(self.prepared.output()), self.reference
        if result.shape != reference.shape:
            raise UnavailableError(f"the result has the shape {result.shape}")
        relative = float(np.abs(result - reference).max() / np.abs(reference).max())
        bound = self.task.workload.error(result, reference, self.task.input, self.task.weights)
        return {
            "max_rel_err": relative if np.isfinite(relative) else None,
            "error_of_bound": bound if np.isfinite(bound) else None,
        }


def main(name: str, cpus: str, flushed: str) -> None:
    """Serve the peer `name` on standard input and output, pinned to `cpus` (a JSON list); `flushed`
    is what `flush_of` takes."""
    answers = begin(cpus)
    try:
        peer = peers.load(name)
    except UnavailableError as reason:
        send(answers, {"error": _first_line(reason)})
        return
    send(answers, {"result": {"version": peer.version}})
    session = Session(peer, json.loads(cpus), partial(flush_of, flushed))
    serve(
        {"prepare": session.prepare, "run": session.run, "check": session.check},
        sys.stdin,
        answers,
    )


def flush_of(flushed: str) -> CacheFlush:
    """What flushes caches: `flushed` is JSON, the fields of FlushedCpus and the `cache_bytes` of
    the largest cache."""
    fields = json.loads(flushed)
    cache_bytes = fields.pop("cache_bytes")
    return CacheFlush(FlushedCpus(**fields), cache_bytes)


def begin(cpus: str) -> IO[str]:
    """Pin this process to `cpus` (a JSON list), and let it end with its parent. Returns where its
    answers go."""
    _die_with_parent()
    os.sched_setaffinity(0, set(json.loads(cpus)))
    return _private_stdout()


def serve(
    functions: Mapping[str, Callable[..., dict[str, Any]]], requests: IO[str], answers: IO[str]
) -> None:
    """Answer each request until there are no more. What a library raises is an answer as well."""
    for line in requests:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"result": functions[request["call"]](**request["arguments"])}
        except UnavailableError as reason:
            answer = {"error": _first_line(reason)}
        except Exception as error:  # libraries raise anything
            answer = {"error": f"{type(error).__name__}: {_first_line(error)}"}
        send(answers, answer)


def send(answers: IO[str], answer: dict[str, Any]) -> None:
    """Write one answer."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "no reason given")


def _private_stdout() -> IO[str]:
    """Standard output for answers only: what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _die_with_parent() -> None:
    """Also when the parent is killed while this process is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def _unbound(cpus: Collection[int]) -> Iterator[None]:
    """Inside, the main thread may use all of `cpus`, though OpenMP may have bound it to one: what
    is prepared counts the cores that it sees, and threads that start inherit them."""
    bound = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        if os.sched_getaffinity(0) == set(cpus):  # not bound meanwhile
            os.sched_setaffinity(0, bound)


def _load(directory: str, name: str) -> Array:
    array: Array = np.load(Path(directory, f"{name}.npy"), mmap_mode="r")
    return array


def read_workload(data: dict[str, Any]) -> Workload:
    """A workload as JSON gives it."""
    pairs = {name: tuple(data[name]) for name in ("strides", "dilations")}
    return Workload(**{**data, **pairs})


def _configuration(data: dict[str, Any]) -> Configuration:
    return Configuration(**{**data, "protocol": Protocol(data["protocol"])})
