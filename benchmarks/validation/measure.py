"""Time the plans of operators: each in turn with one reference plan, whose drift is the machine's.

Every plan meets the reference in several rounds. When all are through, the foremost (by prediction
and by time), the model's own plans and the reference itself meet it in further rounds, so that what
the report says of the best does not rest on the luckiest of a hundred short measurements.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import Plan

from .. import environment
from ..crew import Progress
from ..protocol import Configuration, Protocol
from ..runner import BUSY, fma_peak, sizes_of
from ..workers import Worker, WorkerError
from ..workloads import Workload
from .planned import machine_for, problem_of
from .records import (
    FORMAT,
    MEASUREMENTS,
    Choice,
    Failed,
    Log,
    Measurement,
    Record,
    Start,
    Subject,
    appending,
    generator_version,
    operator_of,
    plan_data,
)
from .sample import subjects
from .session import MODULE
from .statistics import paired_ratio

FINAL_PREDICTED, FINAL_MEASURED = 5, 10
"""How many of the plans that are predicted best, and of those measured best, meet once more."""

LEAST_ROUNDS = 3
"""Also of a plan so slow that all rounds would take longer than allowed; of one that alone takes
longer than that in a single run, one round."""

BATCH_BYTES = 256 << 20
"""Packed weights of the plans that are loaded at the same time, which each of them keeps."""

MOST_LOADED = 12


@dataclass(frozen=True)
class Request:
    """What to measure: `samples` plans of each operator beside the model's own, in `rounds` rounds
    and the foremost in `final_rounds` more; for one plan at most about `seconds`. `spec` says where
    the operators are from."""

    operators: Sequence[Workload]
    path: Path
    spec: str
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
    """Measure what `request.path` does not have yet; `done` is called after each operator, with
    what was found in a line.

    Raises UserError if the file cannot be written or continued.
    """
    cpus = environment.choose_cpus(1)
    if (load := environment.load()) > BUSY:
        progress.warn(f"the machine is busy (load {load:.1f}): figures will scatter")
    with appending(request.path, _head(request)) as (records, log):
        for operator in request.operators:
            known = [record for record in records if operator_of(record) == operator.name]
            _Trial(operator, request, known, log, progress, cpus).run()
            done(_in_short(operator.name, known))


def _in_short(operator: str, records: Sequence[Record]) -> str:
    ratios = {r.subject.key: paired_ratio(r) for r in records if isinstance(r, Measurement)}
    own = next(r for r in reversed(records) if isinstance(r, Choice)).keys[0]
    if own not in ratios:
        return f"{operator}: the model's own plan could not be measured"
    best = min(ratios.values())
    return f"{operator}: own plan {ratios[own] / best:.3f} times the fastest of {len(ratios)}"


def _head(request: Request) -> dict[str, Any]:
    machine = environment.describe_machine()
    return {
        "kind": MEASUREMENTS,
        "format": FORMAT,
        "must_agree": {
            "cpu": machine["cpu"],
            "isa": request.isa,
            "cold": request.cold,
            "seed": request.seed,
            "generator": generator_version(),
        },
        "date": environment.today(),
        "commit": environment.commit(),
        "operators": request.spec,
        "rounds": request.rounds,
        "final_rounds": request.final_rounds,
        "machine": {**machine, "planned_for": asdict(machine_for(request.isa))},
        "versions": environment.own_versions(),
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
    worker: Worker | None = None
    loaded: set[str] = field(default_factory=set)

    def run(self) -> None:
        self.progress.step(f"{self.operator.name}: planning")
        self.workload = self.request.configuration.protocol.workload(self.operator)
        self.problem, self.machine = problem_of(self.workload), machine_for(self.request.isa)
        samples, seed = self.request.samples, self.request.seed
        plans = subjects(self.operator.name, self.problem, self.machine, samples, seed)
        wanted = {subject.key: subject for subject in plans}
        start = next((r for r in self.known if isinstance(r, Start)), None)
        if start is None:
            peak = fma_peak(self.request.configuration, self.cpus)
            own = next(iter(wanted.values())).plan
            start = Start(self.operator.name, sizes_of(self.operator), own, peak)
            self._note(start)
        self.reference = start.reference
        chosen = (key for key, s in wanted.items() if s.role != "sample")
        choice = Choice(self.operator.name, tuple(chosen))
        if choice != next((r for r in reversed(self.known) if isinstance(r, Choice)), None):
            self._note(choice)
        again = Subject(self.operator.name, "again", self.reference)
        wanted[again.key] = again
        try:
            self._measure(wanted.values(), self.request.rounds, final=False)
            self._measure(self._foremost(wanted), self.request.final_rounds, final=True)
        finally:
            self._close()

    def _note(self, record: Record) -> None:
        self.known.append(record)
        self.log(record)

    def _foremost(self, wanted: dict[str, Subject]) -> list[Subject]:
        """The plans that meet again."""
        first = {
            record.subject.key: paired_ratio(record)
            for record in self.known
            if isinstance(record, Measurement) and not record.final
        }
        measured = [subject for key, subject in wanted.items() if key in first]
        cost = {s.key: predict(self.problem, self.machine, s.plan).cost for s in measured}
        sample = [subject for subject in measured if subject.role == "sample"]
        chosen = [subject for subject in measured if subject.role != "sample"]
        chosen += sorted(sample, key=lambda s: cost[s.key])[:FINAL_PREDICTED]
        chosen += sorted(measured, key=lambda s: first[s.key])[:FINAL_MEASURED]
        return list({subject.key: subject for subject in chosen}.values())

    def _measure(self, plans: Iterable[Subject], rounds: int, final: bool) -> None:
        have = {
            record.subject.key
            for record in self.known
            if isinstance(record, Failed)
            or (isinstance(record, Measurement) and record.final == final)
        }
        left = [subject for subject in plans if subject.key not in have]
        size = self._batch_size()
        for first in range(0, len(left), size):
            what = "final rounds" if final else "plans"
            self.progress.step(f"{self.operator.name}: {what} {first} of {len(left)}")
            batch = {subject.key: subject for subject in left[first : first + size]}
            answers = self._load_all(batch)
            self._rounds(batch, answers, rounds, final)
            self._unload(answers)

    def _batch_size(self) -> int:
        shape = self.workload.weights_shape
        weights = 4 * shape[0] * shape[1] * shape[2] * shape[3]
        return max(1, min(MOST_LOADED, BATCH_BYTES // weights))

    def _rounds(
        self,
        batch: dict[str, Subject],
        answers: dict[str, dict[str, Any]],
        rounds: int,
        final: bool,
    ) -> None:
        """Time the plans that are loaded, in turns, and note the result."""
        pairs: dict[str, list[tuple[list[float], list[float]]]] = {key: [] for key in answers}
        number = {k: self._affordable(a["run_seconds"], rounds) for k, a in answers.items()}
        for turn in range(rounds):
            keys = [key for key in _rotated(list(answers), turn) if turn < number[key]]
            if not keys:
                break
            answer = self._ask("round", keys=keys, against="reference", cold=self.request.cold)
            if answer is None:
                reason = "the process ended while it ran"
                for key in answers:
                    self._note(Failed(batch[key], reason))
                return
            for key, (reference, seconds) in answer["pairs"].items():
                pairs[key].append((reference, seconds))
        for key, timed in pairs.items():
            self._note(
                Measurement(
                    batch[key],
                    final,
                    seconds=tuple(tuple(seconds) for _, seconds in timed),
                    reference=tuple(tuple(reference) for reference, _ in timed),
                    compile_seconds=answers[key]["compile_seconds"],
                    error=answers[key]["error_of_bound"],
                    counters=self._count(key),
                )
            )

    def _affordable(self, run_seconds: float, rounds: int) -> int:
        if run_seconds > self.request.seconds:
            return 1
        return min(rounds, max(int(self.request.seconds / run_seconds), LEAST_ROUNDS))

    def _count(self, key: str) -> dict[str, float]:
        if not self._counting:
            return {}
        answer = self._ask("count", key=key, cold=self.request.cold) or {"counters": {}}
        counts: dict[str, float] = answer["counters"]
        return counts

    # ---- the process -------------------------------------------------------------------------

    def _load_all(self, batch: Mapping[str, Subject]) -> dict[str, dict[str, Any]]:
        """Have plans compiled: by key, what is known of those that are loaded then. Those that a
        dying process takes with it are compiled once more."""
        answers: dict[str, dict[str, Any]] = {}
        for key in batch:
            if (answer := self._load(batch[key])) is not None:
                answers[key] = answer
        for key in [key for key in answers if key not in self.loaded]:
            self._load(batch[key])
        return {key: answer for key, answer in answers.items() if key in self.loaded}

    def _load(self, subject: Subject) -> dict[str, Any] | None:
        """Have a plan compiled; None after noting why that failed."""
        try:
            return self._compile(subject.key, subject.plan)
        except WorkerError as error:
            self._note(Failed(subject, str(error)))
            self.progress.warn(f"{self.operator.name}: a plan failed: {error}")
            self._recover()
            return None

    def _compile(self, key: str, plan: Plan) -> dict[str, Any]:
        worker = self._started()
        answer = worker.ask("load", key=key, plan=plan_data(plan), isa=self.request.isa)
        self.loaded.add(key)
        return answer

    def _started(self) -> Worker:
        """The process, with the operator open and the reference loaded."""
        if self.worker is None:
            self.worker = Worker(
                "plans",
                sys.executable,
                environment.worker_environment(1, self.request.isa),
                self.cpus,
                environment.available_cpus(),
                MODULE,
            )
            hello = self.worker.ask("hello")
            self._counting = bool(hello["counters"])
            self.worker.ask("open", workload=asdict(self.workload))
            try:
                self._compile("reference", self.reference)
            except WorkerError as error:
                reason = f"{self.operator.name}: the model's own plan fails: {error}"
                raise UserError(reason) from None
        return self.worker

    def _ask(self, call: str, **arguments: Any) -> dict[str, Any] | None:
        try:
            return self._started().ask(call, **arguments)
        except WorkerError as error:
            self.progress.warn(f"{self.operator.name}: {error}")
            self._recover()
            return None

    def _unload(self, keys: Iterable[str]) -> None:
        if left := [key for key in keys if key in self.loaded]:
            self._ask("unload", keys=left)
            self.loaded.difference_update(left)

    def _recover(self) -> None:
        if self.worker is not None and not self.worker.is_alive:
            self._close()

    def _close(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None
        self.loaded = set()


def _rotated(keys: list[str], turn: int) -> list[str]:
    first = turn % len(keys) if keys else 0
    return keys[first:] + keys[:first]
