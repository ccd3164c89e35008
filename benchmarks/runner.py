"""The benchmark: ours and the peers in turn, operator by operator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import check_output, room_for_temporary_files, temporary_directory

from . import environment
from .bandwidth import DRAM, measure_bandwidths
from .crew import Crew, Progress
from .peers import OURS, REGISTRY
from .peers.mopt import AVX2_CPU, AVX2_MACHINE
from .protocol import Configuration
from .results import Record, Results, check_continues
from .summary import Summary
from .timing import WARM_UP
from .workloads import Workload, is_right

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine

T = TypeVar("T")

ROUNDS = 10
"""Everybody's runs are divided into so many rounds, which take turns: the clock drifts, and what
else runs on the machine comes and goes."""

COLD_DROPPED = 1
"""Runs at the start of a cold round that are not counted, as the first is not in the paper."""

LEAST_RUNS = 3
"""Also of a peer so slow that all runs would take longer than allowed."""

BUSY = 0.5
"""Others that want to run, on average, from which a user is warned."""

_ELEMENT_BYTES = 4
_SEED = 0


@dataclass(frozen=True)
class Request:
    """What to measure.

    `spec` says where the operators are from, `repeat` how many runs are counted, `seconds` how long
    one peer may take for one operator before it gets fewer, `python` which interpreter has the
    peers. With `resume` the operators that `path` has already are not measured again.
    """

    operators: Sequence[Workload]
    configuration: Configuration
    peers: Sequence[str]
    path: Path
    spec: str = "table1"
    repeat: int = 50
    seconds: float = 10.0
    resume: bool = False
    python: str = field(default_factory=environment.peers_python)

    def arguments(self) -> dict[str, Any]:
        """For the record, and to be compared when a run is resumed."""
        return {
            "operators": self.spec,
            **asdict(self.configuration),
            "protocol": self.configuration.protocol.value,
            "peers": list(self.peers),
            "repeat": self.repeat,
            "seconds": self.seconds,
        }


def run_benchmark(
    request: Request,
    progress: Progress | None = None,
    done: Callable[[Workload, Results], None] = lambda operator, results: None,
) -> Results:
    """Measure, and write `request.path` after each operator; then `done` is called.

    Peers that are not installed, and operators that a peer cannot do, are reported and skipped.
    Raises UserError if the run cannot start or be resumed, or if ours is not available.
    """
    check_output(request.path)
    progress = progress or Progress()
    configuration = request.configuration
    cpus = environment.choose_cpus(configuration.threads)
    results = _start(request, cpus)
    if all(operator.name in results.done for operator in request.operators):
        return results
    with Crew(request.peers, configuration, cpus, request.python, progress) as crew:
        if OURS in crew.unavailable:
            raise UserError(f"{OURS}: {crew.unavailable[OURS]}")
        if (load := environment.load()) > BUSY:
            progress.warn(
                f"the machine is busy (on average {load:.1f} others want to run): figures will "
                "scatter"
            )
        if "bandwidths" not in results.head:  # once for a file: shares of all its records agree
            progress.step("measuring bandwidths")
            results.head["bandwidths"] = measure_bandwidths(cpus)
        if results.done:
            _check_peers(results.head["versions"], crew, request)
        results.head["versions"] |= crew.versions
        for operator in request.operators:
            if operator.name not in results.done:
                crew.failures.clear()
                results.records += measure_operator(operator, request, crew, results.head)
                results.failures += crew.failures
                results.done.append(operator.name)
                results.head["unavailable"] |= crew.unavailable
                results.write(request.path)
            done(operator, results)
    return results


def measure_operator(
    operator: Workload, request: Request, crew: Crew, head: Mapping[str, Any]
) -> list[Record]:
    """One operator by everybody in `crew`; `head` has the bandwidths in GB/s. Who fails has no
    record, but an entry in the crew's failures."""
    return _Contest(operator, request, crew, head).records()


def _start(request: Request, cpus: Sequence[int]) -> Results:
    """Empty results, or those to continue."""
    machine = _machine(request.configuration, cpus)
    head: dict[str, Any] = {
        "date": environment.today(),
        "commit": environment.commit(),
        **environment.provenance(machine),
        "arguments": request.arguments(),
        "machine": environment.describe_machine(machine),
        "versions": environment.own_versions(),
        "operators": {operator.name: sizes_of(operator) for operator in request.operators},
        "unavailable": {},
    }
    if not (request.resume and request.path.exists()):
        return Results(head)
    results = Results.read(request.path)
    check_continues(results.head, head, request.path)
    known = results.head["operators"]
    for name in results.done:
        if head["operators"].get(name, known[name]) != known[name]:
            reason = f"cannot resume: '{name}' was measured with other sizes"
            raise UserError(f"{reason}; name another file", str(request.path))
    known |= head["operators"]
    return results


def _machine(configuration: Configuration, cpus: Sequence[int]) -> Machine:
    """What ours is planned for in its worker, which has `cpus` only."""
    from mopt_mlir.machine import resolve

    with _pinned(cpus):
        return resolve(AVX2_MACHINE if configuration.isa == "avx2" else "host")


def _check_peers(before: Mapping[str, str], crew: Crew, request: Request) -> None:
    """Raise UserError where a file that is continued has figures of other peers, or of another
    version of one: the best peer must be that of the same ones everywhere."""
    now = crew.versions
    for peer in request.peers:
        if before.get(peer) == now.get(peer):
            continue
        if peer not in before:
            reason = f"measured without {peer}, which is available now"
        elif peer not in now:
            why = crew.unavailable[peer]
            reason = f"measured with {peer}, which is not available now ({why})"
        else:
            reason = f"measured with {peer} {before[peer]}, and this is {now[peer]}"
        way_out = "remove it, or write to another file"
        raise UserError(f"cannot resume: {reason}; {way_out}", str(request.path))


def sizes_of(operator: Workload) -> dict[str, Any]:
    """Extents, strides and dilations, for the record: as JSON has them."""
    data = asdict(operator)
    lists = {key: list(data[key]) for key in ("strides", "dilations")}
    return {key: data[key] for key in "nkhwcrs"} | lists


@dataclass
class _Entrant:
    """A peer that has prepared the operator. `answer` is what it said then, `runs` how many are to
    be counted; it is out once it fails."""

    peer: str
    answer: dict[str, Any]
    runs: int
    is_limited: bool
    seconds: list[list[float]] = field(default_factory=list)
    is_out: bool = False


class _Contest:
    """One operator, by everybody."""

    def __init__(
        self, operator: Workload, request: Request, crew: Crew, head: Mapping[str, Any]
    ) -> None:
        self.name = operator.name
        self.request, self.crew, self.head = request, crew, head
        self.workload = request.configuration.protocol.workload(operator)
        self.peaks: list[float] = []

    def records(self) -> list[Record]:
        """Prepare, run in turns, check."""
        with temporary_directory() as directory:
            _write_arrays(self.workload, directory)
            entrants = list(self._prepared(str(directory)))
            for turn in range(ROUNDS):
                self.crew.progress.step(f"{self.name}: round {turn + 1} of {ROUNDS}")
                self.peaks.append(fma_peak(self.request.configuration, self.crew.cpus))
                for entrant in rotated(entrants, turn):
                    self._take_turn(entrant, turn)
            self._check(entrants)
        return [self._record(entrant) for entrant in entrants if not entrant.is_out]

    def _prepared(self, directory: str) -> Iterator[_Entrant]:
        request = self.request
        for peer in list(self.crew.workers):
            self.crew.progress.step(f"{self.name}: preparing {peer}")
            answer = self.crew.ask(
                peer,
                self.name,
                "prepare",
                workload=asdict(self.workload),
                configuration=asdict(request.configuration),
                directory=directory,
            )
            if answer is not None:
                affordable = max(int(request.seconds / answer["run_seconds"]), LEAST_RUNS)
                runs = min(request.repeat, affordable, REGISTRY[peer].most_runs or affordable)
                yield _Entrant(peer, answer, runs, affordable < request.repeat)

    def _take_turn(self, entrant: _Entrant, turn: int) -> None:
        count = share(entrant.runs, turn)
        if entrant.is_out or not count:
            return
        cold = self.request.configuration.cold
        drop = COLD_DROPPED if cold else WARM_UP
        if entrant.is_limited and not cold:
            drop = 0  # a run that takes so long fills the caches by itself
        answer = self.crew.ask(entrant.peer, self.name, "run", count=count, drop=drop, cold=cold)
        if answer is None:
            entrant.is_out = True
        else:
            entrant.seconds.append(answer["seconds"])

    def _check(self, entrants: Sequence[_Entrant]) -> None:
        """Once more after all runs; the larger error counts, and None, which is a NaN, most."""
        for entrant in entrants:
            answer = None
            if not entrant.is_out:
                answer = self.crew.ask(entrant.peer, self.name, "check")
            if answer is None:
                entrant.is_out = True
                continue
            for key, error in answer.items():
                before = entrant.answer[key]
                worse = None if None in (before, error) else max(before, error)
                entrant.answer[key] = worse

    def _record(self, entrant: _Entrant) -> Record:
        configuration, workload, answer = self.request.configuration, self.workload, entrant.answer
        summary = Summary.of(entrant.seconds, workload.flops)
        peak, moved = median(self.peaks), compulsory_bytes(workload)
        limit = roofline(workload.flops, moved, peak, self.head["bandwidths"][DRAM])
        return Record(
            operator=workload.name,
            protocol=configuration.protocol.value,
            cold=configuration.cold,
            threads=configuration.threads,
            peer=entrant.peer,
            version=self.crew.workers[entrant.peer].version,
            gflops_median=summary.median,
            gflops_mean=summary.mean,
            ci95=summary.ci95,
            max_rel_err=answer["max_rel_err"],
            share_of_peak=summary.median / peak,
            share_of_roofline=summary.median / limit,
            is_correct=is_right(answer["error_of_bound"]),
            isa=configuration.isa,
            flops=workload.flops,
            bytes=moved,
            peak_gflops=peak,
            prepare_seconds=answer["prepare_seconds"],
            detail=answer["detail"],
            seconds=entrant.seconds,
        )


def _write_arrays(workload: Workload, directory: Path) -> None:
    """The same operands and reference for every peer."""
    input_, weights, _ = workload.operands(_SEED)
    reference = workload.reference(input_, weights)
    arrays = {"input": input_, "weights": weights, "reference": reference}
    with room_for_temporary_files():
        for name, array in arrays.items():
            np.save(directory / f"{name}.npy", array)


def share(runs: int, turn: int) -> int:
    """How many of `runs` are made in a round; the first rounds have one more if need be."""
    return runs // ROUNDS + (turn < runs % ROUNDS)


def rotated(entrants: Sequence[T], turn: int) -> list[T]:
    """Their order in a round: nobody is always first, or the first after a measurement of the
    peak."""
    first = turn % len(entrants) if entrants else 0
    return [*entrants[first:], *entrants[:first]]


def fma_peak(configuration: Configuration, cpus: Sequence[int]) -> float:
    """The FMA peak right now, in GFLOP/s, on the cores that are measured."""
    from mopt_mlir.measuring.peak import measure_peak

    cpu = AVX2_CPU if configuration.isa == "avx2" else None
    with _pinned(cpus):
        return measure_peak("f32", configuration.threads, cpu)


@contextmanager
def _pinned(cpus: Sequence[int]) -> Iterator[None]:
    """On `cpus` only, and so are threads that start inside."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def compulsory_bytes(workload: Workload) -> int:
    """Input and weights read once, output written once."""
    shapes = (workload.input_shape, workload.weights_shape, workload.output_shape)
    return _ELEMENT_BYTES * sum(int(np.prod(shape)) for shape in shapes)


def roofline(flops: float, moved: float, peak: float, bandwidth: float) -> float:
    """The GFLOP/s that max(flops / peak, bytes / bandwidth) allows; GFLOP/s and GB/s."""
    return flops / max(flops / peak, moved / bandwidth)
