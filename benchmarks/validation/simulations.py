"""Simulate the plans of a trial, several at a time, and keep the volumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import Machine
from mopt_mlir.output import make_directory
from mopt_mlir.problem import Problem

from .. import environment
from ..crew import Progress
from ..operators import problem_of
from ..workloads import Workload
from . import crosscheck
from .expected import Expected
from .records import (
    FORMAT,
    MEASUREMENTS,
    VOLUMES,
    Choice,
    Failed,
    Measurement,
    Record,
    Simulated,
    Start,
    Subject,
    appending,
    read,
)
from .trials import machine_of, workload_of
from .volumes import GivenUpError, simulate

MOST_CHECKED = 50_000_000
"""Accesses of a plan that is run under valgrind, too, which takes some ten seconds then."""


@dataclass(frozen=True)
class Request:
    """What to simulate of the plans in the file `trial`, for the caches that they were timed with:
    of each operator what the model chose, the first `samples` of its sample, and as many more that
    each memory is the slowest of `slowest`, as predicted. `jobs` at a time; a plan that makes more
    than `limit` accesses is given up. With `check` the model's own plans run under valgrind as
    well, if there is one and their code is AVX2."""

    trial: Path
    path: Path
    samples: int = 8
    slowest: int = 4
    limit: int = 1_000_000_000
    jobs: int = 1
    check: bool = False


def simulate_plans(request: Request, progress: Progress) -> None:
    """Simulate what `request.path` does not have yet.

    Raises UserError if there are no measurements in `request.trial`, if `request.path` cannot be
    written or continued, if valgrind fails, or if the host cannot simulate plans.
    """
    measured, found = read(request.trial)
    if measured["kind"] != MEASUREMENTS:
        raise UserError("it has volumes, and no measurements", str(request.trial))
    machine = machine_of(measured["machine"]["planned_for"])
    make_directory(request.path.parent)
    isa = str(measured["must_agree"]["isa"])
    with appending(request.path, _head(request, measured, machine)) as (records, log):
        have = {
            (record.subject.operator, record.subject.key)
            for record in records
            if isinstance(record, Simulated | Failed)
        }
        for start in (record for record in found if isinstance(record, Start)):
            workload = workload_of(start)
            progress.step(f"{workload.name}: choosing plans")
            plans = _wanted(_timed(start.operator, found), problem_of(workload), machine, request)
            missing = [job for job in plans if (start.operator, job[0].key) not in have]
            for count, record in enumerate(_records(workload, missing, machine, isa, request)):
                log(record)
                progress.step(f"{workload.name}: plans {count + 1} of {len(missing)}")


@dataclass(frozen=True)
class _Timed:
    """The plans of an operator that were timed: what the model chose last, and the sample."""

    chosen: Sequence[Subject]
    sample: Sequence[Subject]


def _timed(operator: str, records: Sequence[Record]) -> _Timed:
    subjects: dict[str, Subject] = {}
    chosen: tuple[str, ...] = ()
    for record in records:
        if isinstance(record, Choice) and record.operator == operator:
            chosen = record.keys
        if isinstance(record, Measurement) and record.subject.operator == operator:
            subjects.setdefault(record.subject.key, record.subject)
    sample = [subject for subject in subjects.values() if subject.role == "sample"]
    return _Timed([subjects[key] for key in chosen if key in subjects], sample)


def _wanted(
    timed: _Timed, problem: Problem, machine: Machine, request: Request
) -> list[tuple[Subject, bool]]:
    """What to simulate, and whether for its slowest memory only."""
    first = [*timed.sample[: request.samples]]
    known = Counter(_slowest(subject, problem, machine) for subject in first)
    picked = []
    for subject in islice(timed.sample, request.samples, None):
        memory = _slowest(subject, problem, machine)
        if known[memory] < request.slowest:
            known[memory] += 1
            picked.append(subject)
    usual = {subject.key: subject for subject in (*timed.chosen, *first)}
    return [(s, False) for s in usual.values()] + [(s, True) for s in picked if s.key not in usual]


def _slowest(subject: Subject, problem: Problem, machine: Machine) -> str:
    return Expected.of(problem, machine, subject.plan).slowest_memory


def _records(
    workload: Workload,
    plans: Sequence[tuple[Subject, bool]],
    machine: Machine,
    isa: str,
    request: Request,
) -> Iterator[Record]:
    """A record for each of `plans`, in their order."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=request.jobs, return_as="generator")
    found = parallel(delayed(_record)(workload, s, machine, isa, request) for s, _ in plans)
    for record, (_, picked) in zip(found, plans, strict=True):
        yield replace(record, picked=picked) if isinstance(record, Simulated) else record


def _record(
    workload: Workload, subject: Subject, machine: Machine, isa: str, request: Request
) -> Record:
    try:
        result = simulate(workload, subject.plan, machine, isa, request.limit)
    except GivenUpError as error:
        return Failed(subject, str(error))
    counted: dict[str, int] = {}
    is_checked = request.check and isa == "avx2" and subject.role == "own"
    if is_checked and crosscheck.is_available() and result.accesses <= MOST_CHECKED:
        counted = crosscheck.misses(workload, subject.plan, machine)
    return Simulated(subject, result.volumes, result.accesses, result.misses, counted)


def _head(request: Request, measured: dict[str, Any], machine: Machine) -> dict[str, Any]:
    caches = ", ".join(f"{c.name} {c.size} bytes in {c.ways} ways" for c in machine.caches)
    of_plans = {key: measured["must_agree"].get(key) for key in ("isa", "seed", "operators")}
    return {
        "kind": VOLUMES,
        "format": FORMAT,
        "must_agree": {
            "caches": caches,
            **of_plans,
            "generator": environment.generator_version(),
            "accesses": request.limit,
            "samples": request.samples,  # with more, some would count as picked
            "valgrind": request.check,
        },
        "date": environment.today(),
        "commit": environment.commit(),
        "operators": measured["operators"],
        "limit": request.limit,
        "machine": {"planned_for": asdict(machine)},
        "versions": environment.own_versions(),
    }
