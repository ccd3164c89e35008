"""Files of results as trials: what was found of each plan, beside what today's model predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.estimate import estimate
from mopt_mlir.machine import Cache, Machine, by_name, names
from mopt_mlir.model.cost import predict
from mopt_mlir.problem import Problem

from ..operators import problem_of
from ..workloads import Workload, is_right
from . import estimators
from .expected import Expected
from .judgement import Flow, Point, Trial, Verdict
from .records import (
    COMPRESSED,
    OF_VOLUMES,
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
    passes,
    read,
)

_LEARNT = (
    "evicted_store_cycles",
    "saved_line_cycles",
    "crossing_cycles",
    "issue_norm",
    "loop_cycles",
    "queued_stores",
    "misprediction_cycles",
)
"""Fields of a machine that trials have taught us, which the trials themselves lack."""

_LEARNT_OF_CACHES = {
    "exposed": ("exposed", "bandwidth", "bandwidth_all"),
    "busy_bandwidth": ("busy_bandwidth", "exposed"),
}
"""The same of a cache: what is known now, if it has such a figure and a trial does not. Until then
the bandwidth stood for the first, and `exposed` for the second."""


def read_trials(paths: Sequence[Path]) -> list[Trial]:
    """The files of `mopt-validate measure`, each with its volumes if these are among `paths`; none
    of those of which nothing was measured yet.

    Raises UserError for a file that is none of ours, and for volumes of something else.
    """
    files = {path: read(path) for path in paths}
    volumes = {
        title_of(path).removesuffix(OF_VOLUMES): path
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
        workload = workload_of(start)
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
    known = {machine.cpu: machine for machine in map(by_name, names())}.get(data["cpu"])
    caches = tuple(_cache_of(cache, known, data["cores"]) for cache in data["caches"])
    learnt = {name: getattr(known, name, None) for name in _LEARNT}
    if "queued_stores" not in data:  # with which the cost of a line of sums was fitted anew
        data = {name: value for name, value in data.items() if name != "saved_line_cycles"}
    return Machine(**{**learnt, **data, "caches": caches})


def _cache_of(data: dict[str, Any], known: Machine | None, cores: int) -> Cache:
    """A cache of a machine with so many cores, of which CPU what is `known` now."""
    now = None if known is None else known.with_cores(cores).cache(data["name"])
    if now is None:
        return Cache(**data)
    learnt = {
        name: getattr(now, name)
        for figure, names in _LEARNT_OF_CACHES.items()
        if figure not in data and getattr(now, figure) is not None
        for name in names
    }
    return Cache(**{**data, **learnt})


def workload_of(start: Start) -> Workload:
    """The operator that a record begins."""
    pairs = {name: tuple(start.sizes[name]) for name in ("strides", "dilations")}
    return Workload(name=start.operator, **{**start.sizes, **pairs})


def _verdict(
    start: Start, workload: Workload, problem: Problem, machine: Machine, records: list[Record]
) -> Verdict:
    measured, rounds = joined(records), passes(records)
    plans = {key: record for key, record in measured.items() if not record.subject.is_again}
    wrong = frozenset(key for key, record in plans.items() if not is_right(record.error))
    reference = median(s for r in measured.values() for one in r.reference for s in one)
    again = [abs(estimators.paired_ratio(r) - 1) for r in measured.values() if r.subject.is_again]
    choices = [record for record in records if isinstance(record, Choice)]
    return Verdict(
        workload,
        start.peak_gflops,
        {
            key: _point(record, rounds[key], reference, problem, machine)
            for key, record in plans.items()
            if key not in wrong
        },
        choices[-1].keys if choices else (),
        again[0] if again else nan,
        tuple(record for record in records if isinstance(record, Failed)),
        wrong,
    )


def _point(
    record: Measurement,
    rounds: Sequence[Measurement],
    reference: float,
    problem: Problem,
    machine: Machine,
) -> Point:
    return Point(
        record.subject.key,
        record.subject.plan,
        estimate(problem, machine, record.subject.plan),
        predict(problem, machine, record.subject.plan).cost,
        record.subject.role == "sample",
        reference * estimators.paired_ratio(record),
        tuple(tuple(estimators.round_ratios(one)) for one in rounds),
        tuple(median(median(runs) for runs in one.reference) for one in rounds),
        record.final,
        record.counters,
    )


def _flow(record: Simulated, problem: Problem, machine: Machine) -> Flow:
    subject = record.subject
    return Flow(
        subject.operator,
        subject.key,
        subject.role == "sample",
        record.picked,
        Expected.of(problem, machine, subject.plan),
        record.volumes,
        record.misses,
        record.valgrind,
    )
