"""What today's model predicts of the plans in files of results, beside what was found of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot, log, nan
from pathlib import Path
from statistics import fmean, median
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import Cache, Machine, by_name, names
from mopt_mlir.model.cost import MEMORY, predict, runs_of
from mopt_mlir.model.estimate import estimate
from mopt_mlir.model.residency import resident_volumes
from mopt_mlir.plan import Plan, Prediction
from mopt_mlir.problem import Problem

from ..workloads import Workload
from . import statistics
from .planned import problem_of
from .records import (
    COMPRESSED,
    VOLUMES,
    Choice,
    Failed,
    Latency,
    Measurement,
    Record,
    Simulated,
    Start,
    joined,
    operator_of,
    read,
)
from .volumes import ASSOCIATIVE, FULL, Volumes


@dataclass(frozen=True)
class Point:
    """A plan that was timed. `seconds` are those of the reference over all of the operator's
    measurements, times the median ratio of this plan's; `ratios` are those of its rounds, `final`
    ones if there are any."""

    key: str
    plan: Plan
    prediction: Prediction
    sampled: bool
    seconds: float
    ratios: tuple[float, ...]
    final: bool
    error: float | None
    counters: Mapping[str, float]

    @property
    def uncertainty(self) -> float:
        """Relative standard error of `seconds`."""
        return statistics.uncertainty(self.ratios)


@dataclass(frozen=True)
class Verdict:
    """One operator. `points` are its plans by key, `chosen` the keys of the model's own plan and
    the other candidates, `again` how the reference compares with itself, relative."""

    workload: Workload
    peak_gflops: float
    points: Mapping[str, Point]
    chosen: tuple[str, ...]
    again: float
    failed: tuple[Failed, ...]

    @property
    def name(self) -> str:
        return self.workload.name

    @cached_property
    def sample(self) -> list[Point]:
        return [point for point in self.points.values() if point.sampled]

    @property
    def own(self) -> Point | None:
        return self.points.get(self.chosen[0]) if self.chosen else None

    @property
    def candidates(self) -> list[Point]:
        """The own plan and those beside it."""
        return [self.points[key] for key in self.chosen if key in self.points]

    @cached_property
    def best_sampled(self) -> Point:
        return _fastest(self.sample)

    @cached_property
    def best(self) -> Point:
        """The fastest of all plans that were timed."""
        return _fastest(list(self.points.values()))

    def top_loss(self, k: int) -> float:
        """Among the sample, of the best of the `k` predicted best, against the best."""
        predicted = [point.prediction.cost for point in self.sample]
        measured = [point.seconds for point in self.sample]
        return statistics.top_loss(predicted, measured, k, self.best_sampled.seconds)

    def chosen_loss(self, k: int) -> float:
        """Of the best of the `k` plans that the model likes best of all, its own first, against the
        best of all; NaN if the own plan was not timed."""
        if self.own is None:
            return nan
        rest = [point for point in self.points.values() if point is not self.own]
        ranked = [self.own, *sorted(rest, key=lambda point: point.prediction.cost)]
        return statistics.loss(min(p.seconds for p in ranked[:k]), self.best.seconds)

    @property
    def gain_of_candidates(self) -> float:
        """How much faster the best of the candidates is than the own plan: a ratio, at least 1."""
        if self.own is None:
            return nan
        return self.own.seconds / min(point.seconds for point in self.candidates)

    @cached_property
    def spearman(self) -> float:
        return statistics.spearman(*self._orders)

    @cached_property
    def kendall(self) -> float:
        return statistics.kendall(*self._orders)

    @property
    def _orders(self) -> tuple[list[float], list[float]]:
        """Of the sample."""
        return [p.prediction.cost for p in self.sample], [p.seconds for p in self.sample]

    @property
    def noise(self) -> float:
        """The relative standard error of a loss: of the two plans that it compares."""
        if self.own is None:
            return nan
        return hypot(self.own.uncertainty, self.best.uncertainty)

    def gflops(self, point: Point) -> float:
        return self.workload.flops / point.seconds * 1e-9


@dataclass(frozen=True)
class Flow:
    """A plan whose accesses were simulated: bytes by resource and tensor, found and predicted;
    `resident` are the predicted ones with what caches keep beyond their tiles, `runs` the seconds
    of DRAM that are due to no volume. `misses` of each cache are in lines, also as `valgrind`
    counts them, if it did."""

    operator: str
    key: str
    plan: Plan
    sampled: bool
    prediction: Prediction
    runs: float
    resident: Mapping[str, Mapping[str, float]]
    found: Mapping[str, Volumes]
    misses: Mapping[str, int]
    valgrind: Mapping[str, int]

    def ratio(self, resource: str) -> float:
        """Predicted / simulated, with what caches keep."""
        return sum(self.resident[resource].values()) / self._simulated(resource)

    def ratio_of_tiles(self, resource: str) -> float:
        """Predicted / simulated, by tiles alone."""
        return sum(self.prediction.volumes[resource].values()) / self._simulated(resource)

    def _simulated(self, resource: str) -> int:
        return sum(self.found[ASSOCIATIVE][resource].values())

    def conflicts(self, resource: str) -> float:
        """How many times as much moves as with full associativity."""
        associative, full = (
            sum(self.found[title][resource].values()) for title in (ASSOCIATIVE, FULL)
        )
        return associative / full

    @property
    def slowest_memory(self) -> str:
        """The resource that the model calls the bottleneck, but for computing: whose volume takes
        the longest."""

        def seconds(name: str) -> float:
            moved = sum(self.resident[name].values())
            tiles = sum(self.prediction.volumes[name].values())
            beside = self.runs if name == "DRAM" else 0.0
            return (self.prediction.seconds[name] - beside) * moved / tiles

        return max(MEMORY, key=seconds)


@dataclass(frozen=True)
class Trial:
    """One list of operators on one instruction set: `table1-native`."""

    title: str
    head: dict[str, Any]
    verdicts: tuple[Verdict, ...]
    flows: tuple[Flow, ...]
    given_up: tuple[Failed, ...]
    latencies: tuple[Latency, ...]

    @property
    def failed(self) -> list[Failed]:
        return [failure for verdict in self.verdicts for failure in verdict.failed]

    def flow_of(self, operator: str, key: str) -> Flow | None:
        return self._flows.get((operator, key))

    @cached_property
    def _flows(self) -> dict[tuple[str, str], Flow]:
        return {(flow.operator, flow.key): flow for flow in self.flows}


def read_trials(paths: Sequence[Path]) -> list[Trial]:
    """The files of `mopt-validate measure`, each with its volumes if these are among `paths`; none
    of those of which nothing was measured yet.

    Raises UserError for a file that is none of ours, and for volumes of something else.
    """
    files = {path: read(path) for path in paths}
    volumes = {
        title_of(path).removesuffix("-volumes"): path
        for path, (head, _) in files.items()
        if head["kind"] == VOLUMES
    }
    trials = []
    for path, (head, records) in files.items():
        if head["kind"] == VOLUMES:
            continue
        # volumes do not depend on whether the caches were warm
        simulated = volumes.get(title_of(path).removesuffix("-warm"))
        if simulated:
            _check_agrees(simulated, files[simulated][0], path, head)
        found = files[simulated][1] if simulated else []
        trials.append(_trial(title_of(path), head, records, found))
    order = sorted(trials, key=lambda trial: (trial.head["operators"] != "table1", trial.title))
    return [trial for trial in order if trial.verdicts]


def _check_agrees(
    volumes: Path, simulated: Mapping[str, Any], path: Path, measured: Mapping[str, Any]
) -> None:
    """Raise UserError if the volumes are not of the plans that were measured, or of other caches.
    (The oldest files do not tell all of it.)"""
    for key in ("isa", "seed", "operators"):
        one, other = (head["must_agree"].get(key) for head in (simulated, measured))
        if None not in (one, other) and one != other:
            reason = f"simulated with {key} {one}, but {path} is of {other}"
            raise UserError(reason, str(volumes))
    if _cache_sizes(simulated) != _cache_sizes(measured):
        raise UserError(f"simulated with other caches than those of {path}", str(volumes))


def _cache_sizes(head: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    caches = head["machine"]["planned_for"]["caches"]
    return [tuple(cache[name] for name in ("size", "ways", "line")) for cache in caches]


def title_of(path: Path) -> str:
    """What a file of results is called in the document: its name without what that ends with."""
    return path.name.removesuffix(COMPRESSED).removesuffix(".jsonl").removesuffix(".json")


def _trial(title: str, head: dict[str, Any], records: list[Record], volumes: list[Record]) -> Trial:
    machine = machine_of(head["machine"]["planned_for"])
    starts = {record.operator: record for record in records if isinstance(record, Start)}
    by_operator: dict[str, list[Record]] = {name: [] for name in starts}
    for record in records:
        by_operator[operator_of(record)].append(record)
    verdicts, flows = [], []
    for name, start in starts.items():
        workload = _workload(start)
        problem = problem_of(workload)
        if any(isinstance(record, Measurement) for record in by_operator[name]):
            verdicts.append(_verdict(start, workload, problem, machine, by_operator[name]))
        flows += [
            _flow(record, problem, machine)
            for record in volumes
            if isinstance(record, Simulated) and record.subject.operator == name
        ]
    given_up = tuple(record for record in volumes if isinstance(record, Failed))
    latencies = tuple(record for record in records if isinstance(record, Latency))
    return Trial(title, head, tuple(verdicts), tuple(flows), given_up, latencies)


def machine_of(data: dict[str, Any]) -> Machine:
    """The machine that plans were measured on. The oldest trials lack what we learnt from them
    about the CPU."""
    caches = tuple(Cache(**cache) for cache in data["caches"])
    stores = {machine.cpu: machine.evicted_store_cycles for machine in map(by_name, names())}
    learnt = {"evicted_store_cycles": stores.get(data["cpu"])}
    return Machine(**{**learnt, **data, "caches": caches})


def _workload(start: Start) -> Workload:
    pairs = {name: tuple(start.sizes[name]) for name in ("strides", "dilations")}
    return Workload(name=start.operator, **{**start.sizes, **pairs})


def _verdict(
    start: Start, workload: Workload, problem: Problem, machine: Machine, records: list[Record]
) -> Verdict:
    measured = joined(records)
    reference = median(s for r in measured.values() for one in r.reference for s in one)
    again = [abs(statistics.paired_ratio(r) - 1) for r in measured.values() if _is_again(r)]
    choices = [record for record in records if isinstance(record, Choice)]
    return Verdict(
        workload,
        start.peak_gflops,
        {
            key: _point(record, reference, problem, machine)
            for key, record in measured.items()
            if not _is_again(record)
        },
        choices[-1].keys if choices else (),
        again[0] if again else nan,
        tuple(record for record in records if isinstance(record, Failed)),
    )


def _is_again(record: Measurement) -> bool:
    return record.subject.role == "again"


def _point(record: Measurement, reference: float, problem: Problem, machine: Machine) -> Point:
    ratios = tuple(statistics.round_ratios(record))
    return Point(
        record.subject.key,
        record.subject.plan,
        estimate(problem, machine, record.subject.plan),
        record.subject.role == "sample",
        reference * median(ratios),
        ratios,
        record.final,
        record.error,
        record.counters,
    )


def _flow(record: Simulated, problem: Problem, machine: Machine) -> Flow:
    subject = record.subject
    prediction = predict(problem, machine, subject.plan)
    return Flow(
        subject.operator,
        subject.key,
        subject.plan,
        subject.role == "sample",
        prediction,
        runs_of(problem, machine, subject.plan),
        resident_volumes(problem, machine, subject.plan, prediction),
        record.volumes,
        record.misses,
        record.valgrind,
    )


def _fastest(points: Sequence[Point]) -> Point:
    """Of those that met in the final rounds, if there are any."""
    final = [point for point in points if point.final]
    return min(final or points, key=lambda point: point.seconds)


def residuals(verdict: Verdict) -> dict[str, float]:
    """By key, the logarithm of measured / predicted seconds, less the operator's mean."""
    found = {p.key: log(p.seconds / p.prediction.cost) for p in verdict.points.values()}
    mean = fmean(found.values())
    return {key: value - mean for key, value in found.items()}
