"""Time the plans of operators: each in turn with one reference plan, whose drift is the machine's.

Every plan meets the reference in several rounds. When all are through, the foremost of the sample
(by prediction and by time), the model's own plans and the reference itself meet it in further
rounds, so that what the report says of the best does not rest on the luckiest of a hundred short
measurements. Those are spread over several passes through all operators: other guests of a host
take away memory bandwidth and room in the last cache for minutes, from which plans suffer that
depend on them and the reference hardly does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from mopt_mlir.estimate import estimate
from mopt_mlir.machine import Machine
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem

from .. import environment
from ..crew import Progress
from ..operators import problem_of
from ..protocol import Configuration, Protocol
from ..runner import BUSY, fma_peak, sizes_of
from ..workers import WorkerError
from ..workloads import Workload, is_right
from .counters import Counters
from .estimators import paired_ratio
from .planned import machine_for
from .process import Pair, PlanProcess
from .records import (
    FORMAT,
    MEASUREMENTS,
    Choice,
    Failed,
    Latency,
    Log,
    Measurement,
    Record,
    Start,
    Subject,
    appending,
    joined,
    operator_of,
)
from .sample import subjects

FINAL_PREDICTED, FINAL_MEASURED = 5, 10
"""How many of the sampled plans that are predicted best, and of those measured best, meet once
more."""

PROTOCOL = 5
"""How plans are timed. Before it had a number, ballast alone flushed the caches, and final rounds
were not spread. Until 2 the own plan, the other candidates and the reference, which meet once more
anyway, took places of the sampled plans that were measured best. Until 3 flushing ended with an
eighth of the last cache for each core, or less of many, however large that is. Until 4 ballast was
read once, and a plan nearly always followed the same other one."""

FINAL_PASSES = 4
"""Through all operators, among which the final rounds are divided."""

LEAST_ROUNDS = 3
"""Also of a plan so slow that all rounds would take longer than allowed; of one that alone takes
longer than that in a single run, one round."""

BATCH_BYTES = 1 << 30
"""Packed weights of the plans that are loaded at the same time, which each of them keeps."""

LATENCIES = 3
"""So many looks at what the core has of its caches, before and after the rounds of a batch."""

PEAKS = 5
"""So many looks at the rate of FMAs before an operator: another guest may slow down any of them."""

MOST_LOADED = 50
"""So many that their rounds lie some time apart: a disturbance of seconds meets few of each."""


@dataclass(frozen=True)
class Request:
    """What to measure: `samples` plans of each operator beside the model's own, in `rounds` rounds
    and the foremost in `final_rounds` more; for one plan at most about `seconds`. `spec` says where
    the operators are from, `version` identifies what that has (see `operators.version`)."""

    operators: Sequence[Workload]
    path: Path
    spec: str
    version: str
    isa: str = "native"
    cold: bool = True
    samples: int = 100
    seed: int = 0
    rounds: int = 7
    final_rounds: int = 20
    seconds: float = 4.0

    @property
    def configuration(self) -> Configuration:
        """The paper's protocol, on one core."""
        return Configuration(Protocol.PAPER, self.cold, 1, self.isa)


def measure(
    request: Request,
    progress: Progress,
    done: Callable[[str], None] = lambda line: None,
) -> None:
    """Measure what `request.path` does not have yet; `done` is called for each operator at the end,
    after the last pass, with what was found in a line.

    Raises UserError if the file cannot be written or continued, or if the host cannot time plans.
    """
    cpus = environment.choose_cpus(1)
    if (load := environment.load()) > BUSY:
        progress.warn(f"the machine is busy (load {load:.1f}): figures will scatter")
    counters = Counters()
    counters.close()
    if counters.reason:
        progress.warn(f"{counters.reason}; data volumes can only be simulated")
    with appending(request.path, _head(request, cpus)) as (records, log):
        trials = []
        for operator in request.operators:
            known = [record for record in records if operator_of(record) == operator.name]
            trials.append(_Trial(operator, request, known, log, progress, cpus))
            trials[-1].meet()
        for number, rounds in enumerate(_divided(request.final_rounds, FINAL_PASSES)):
            for trial in trials:
                trial.meet_again(number, rounds)
        for trial in trials:
            done(_in_short(trial.operator.name, trial.known))


def _divided(rounds: int, passes: int) -> list[int]:
    """`rounds` in at most so many parts, none of them empty."""
    return [len(range(first, rounds, passes)) for first in range(min(rounds, passes))]


def _in_short(operator: str, records: Sequence[Record]) -> str:
    ratios = {
        key: paired_ratio(record)
        for key, record in joined(records).items()
        if record.final and is_right(record.error) and not record.subject.is_again
    }
    own = next(r for r in reversed(records) if isinstance(r, Choice)).keys[0]
    if own not in ratios:
        return f"{operator}: the model's own plan could not be measured, or is wrong"
    best = min(ratios.values())
    return f"{operator}: own plan {ratios[own] / best:.3f} times the fastest"


def _head(request: Request, cpus: Sequence[int]) -> dict[str, Any]:
    planned_for = machine_for(request.isa, cpus)
    machine, versions = environment.describe_machine(planned_for), environment.own_versions()
    # own plans of another model may be added to what is there, see Choice
    provenance = environment.provenance(planned_for)
    return {
        "kind": MEASUREMENTS,
        "format": FORMAT,
        "must_agree": {
            "cpu": machine["cpu"],
            "planned for": machine["planned_for"]["cpu"],
            "packages": versions,
            "isa": request.isa,
            "cold": request.cold,
            "seed": request.seed,
            "operators": request.version,
            **{key: value for key, value in provenance.items() if key != "model"},
            "protocol": PROTOCOL,
        },
        "date": environment.today(),
        "commit": environment.commit(),
        "operators": request.spec,
        "rounds": request.rounds,
        "final_rounds": request.final_rounds,
        "seconds": request.seconds,
        "machine": machine,
        "versions": versions,
    }


@dataclass
class _Trial:
    """One operator: `known` is what was measured before."""

    operator: Workload
    request: Request
    known: list[Record]
    log: Log
    progress: Progress
    cpus: Sequence[int]

    def meet(self) -> None:
        """The first rounds, of all plans."""
        self._measure_all(self._plans, self.request.rounds, passed=0, final=False)

    def meet_again(self, passed: int, rounds: int) -> None:
        """A pass of final rounds, after so many others."""
        self._measure_all(self._foremost(), rounds, passed, final=True)

    @cached_property
    def _plans(self) -> list[Subject]:
        """The plans of the operator, the reference once more among them."""
        request, name = self.request, self.operator.name
        self.progress.step(f"{name}: planning")
        plans = subjects(name, self._problem, self._machine, request.samples, request.seed)
        return [*plans, Subject(name, "again", self._start(plans))]

    @cached_property
    def _problem(self) -> Problem:
        return problem_of(self.operator)

    @cached_property
    def _machine(self) -> Machine:
        return machine_for(self.request.isa, self.cpus)

    def _measure_all(self, plans: Sequence[Subject], rounds: int, passed: int, final: bool) -> None:
        workload, request = self.operator, self.request
        size = max(1, min(MOST_LOADED, BATCH_BYTES // (4 * prod(workload.weights_shape))))
        reference = self._plans[-1].plan
        with PlanProcess(workload, request.isa, request.cold, self.cpus, reference) as process:
            for batch in self._batches(plans, size, passed, final):
                self._measure(process, batch, rounds, final)

    def _note(self, record: Record) -> None:
        self.known.append(record)
        self.log(record)

    def _start(self, plans: Sequence[Subject]) -> Plan:
        """Note what the model chooses, and the reference plan, unless they are known: that."""
        start = next((r for r in self.known if isinstance(r, Start)), None)
        if start is None:
            looks = (fma_peak(self.request.configuration, self.cpus) for _ in range(PEAKS))
            peak = median(looks)
            sizes = {**sizes_of(self.operator), "layout": self.operator.layout}
            start = Start(self.operator.name, sizes, plans[0].plan, peak)
            self._note(start)
        keys = tuple(subject.key for subject in plans if subject.role != "sample")
        choice = Choice(self.operator.name, keys)
        if choice != next((r for r in reversed(self.known) if isinstance(r, Choice)), None):
            self._note(choice)
        return start.reference

    def _foremost(self) -> list[Subject]:
        """The plans that meet again."""
        plans = self._plans
        first = {
            record.subject.key: paired_ratio(record)
            for record in self.known
            if isinstance(record, Measurement) and not record.final
        }
        measured = [subject for subject in plans if subject.key in first]
        sample = [subject for subject in measured if subject.role == "sample"]
        cost = {s.key: estimate(self._problem, self._machine, s.plan).cost for s in sample}
        chosen = [subject for subject in measured if subject.role != "sample"]
        chosen += sorted(sample, key=lambda s: cost[s.key])[:FINAL_PREDICTED]
        chosen += sorted(sample, key=lambda s: first[s.key])[:FINAL_MEASURED]
        return list({subject.key: subject for subject in chosen}.values())

    def _batches(
        self, plans: Sequence[Subject], size: int, passed: int, final: bool
    ) -> Iterator[dict[str, Subject]]:
        """Those that are not known after `passed` passes, by key, `size` at a time."""
        failed = {record.subject.key for record in self.known if isinstance(record, Failed)}
        times = Counter(
            record.subject.key
            for record in self.known
            if isinstance(record, Measurement) and record.final == final
        )
        left = [plan for plan in plans if plan.key not in failed and times[plan.key] <= passed]
        what = f"pass {passed + 1} of final rounds" if final else "plans"
        for first in range(0, len(left), size):
            self.progress.step(f"{self.operator.name}: {what} {first} of {len(left)}")
            yield {subject.key: subject for subject in left[first : first + size]}

    def _measure(
        self, process: PlanProcess, batch: Mapping[str, Subject], rounds: int, final: bool
    ) -> None:
        """Time plans in turns, and note the result. If that fails, each of them alone, so that it
        is known which one it was."""
        answers = self._loaded(process, batch)
        if not answers:
            return
        try:
            looks = self._looks(process)
            pairs = self._timed(process, answers, rounds)
            looks += self._looks(process)
            counters = {key: process.count(key) for key in answers}
        except WorkerError as error:
            self._unload(process, answers)
            if len(answers) == 1:
                self._fail(batch[next(iter(answers))], error)
            else:
                for key in answers:
                    self._measure(process, {key: batch[key]}, rounds, final)
            return
        for look in looks:
            self._note(look)
        for key, timed in pairs.items():
            if not is_right(answers[key]["error_of_bound"]):
                self.progress.warn(f"{self.operator.name}: plan {key} computes something else")
            self._note(
                Measurement(
                    batch[key],
                    final,
                    seconds=tuple(seconds for _, seconds in timed),
                    reference=tuple(reference for reference, _ in timed),
                    compile_seconds=answers[key]["compile_seconds"],
                    error=answers[key]["error_of_bound"],
                    counters=counters[key],
                )
            )
        self._unload(process, answers)

    def _unload(self, process: PlanProcess, keys: Iterable[str]) -> None:
        with suppress(WorkerError):  # whoever is dead has forgotten them
            process.unload(keys)

    def _looks(self, process: PlanProcess) -> list[Latency]:
        """What the core has of its caches now."""
        sizes = {cache.name: cache.size for cache in self._machine.caches}
        name = self.operator.name
        return [Latency(name, process.latencies(sizes)) for _ in range(LATENCIES)]

    def _timed(
        self, process: PlanProcess, answers: Mapping[str, dict[str, Any]], rounds: int
    ) -> dict[str, list[Pair]]:
        pairs: dict[str, list[Pair]] = {key: [] for key in answers}
        number = {k: self._affordable(a["run_seconds"], rounds) for k, a in answers.items()}
        for turn in range(rounds):
            # what one leaves behind, in a last cache for example, must not always meet the same one
            shuffled = Random(turn).sample(list(answers), len(answers))
            keys = [key for key in shuffled if turn < number[key]]
            for key, pair in (process.time(keys) if keys else {}).items():
                pairs[key].append(pair)
        return pairs

    def _affordable(self, run_seconds: float, rounds: int) -> int:
        if run_seconds > self.request.seconds:
            return 1
        return min(rounds, max(int(self.request.seconds / run_seconds), LEAST_ROUNDS))

    def _loaded(
        self, process: PlanProcess, batch: Mapping[str, Subject]
    ) -> dict[str, dict[str, Any]]:
        """What is known of the plans that could be loaded. Those that a dying process takes with
        it are loaded once more."""
        answers: dict[str, dict[str, Any]] = {}
        for keys in (list(batch), answers):
            for key in [key for key in keys if key not in process.loaded]:
                try:
                    answers[key] = process.load(key, batch[key].plan)
                except WorkerError as error:
                    self._fail(batch[key], error)
        return {key: answer for key, answer in answers.items() if key in process.loaded}

    def _fail(self, subject: Subject, error: WorkerError) -> None:
        self._note(Failed(subject, str(error)))
        self.progress.warn(f"{self.operator.name}: a plan failed: {error}")
