"""Simulate the plans of operators, several at a time, and keep the volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import Machine

from .. import environment
from ..crew import Progress
from ..workloads import Workload
from . import crosscheck
from .planned import machine_for, problem_of
from .records import (
    FORMAT,
    VOLUMES,
    Failed,
    Record,
    Simulated,
    Subject,
    appending,
    generator_version,
)
from .sample import subjects
from .volumes import GivenUpError, simulate

MOST_CHECKED = 50_000_000
"""Accesses of a plan that is run under valgrind, too, which takes some ten seconds then."""


@dataclass(frozen=True)
class Request:
    """What to simulate: the plans that `measure` times with the same arguments, `jobs` at a time;
    one that makes more than `limit` accesses is given up. With `check` the model's own plans run
    under valgrind as well, if there is one and their code is AVX2."""

    operators: Sequence[Workload]
    path: Path
    spec: str
    version: str
    isa: str = "native"
    samples: int = 100
    seed: int = 0
    limit: int = 1_000_000_000
    jobs: int = 1
    check: bool = False


def simulate_plans(
    request: Request,
    progress: Progress,
    done: Callable[[Workload], None] = lambda operator: None,
) -> None:
    """Simulate what `request.path` does not have yet; `done` is called after each operator.

    Raises UserError if the file cannot be written or continued, or if valgrind fails.
    """
    machine = machine_for(request.isa)
    with appending(request.path, _head(request, machine)) as (records, log):
        have = {
            (record.subject.operator, record.subject.key)
            for record in records
            if isinstance(record, Simulated | Failed)
        }
        for operator in request.operators:
            progress.step(f"{operator.name}: planning")
            problem = problem_of(operator)
            plans = subjects(operator.name, problem, machine, request.samples, request.seed)
            wanted = [s for s in plans if (operator.name, s.key) not in have]
            for count, record in enumerate(_records(operator, wanted, machine, request)):
                log(record)
                progress.step(f"{operator.name}: plans {count + 1} of {len(wanted)}")
            done(operator)


def _records(
    workload: Workload, plans: Sequence[Subject], machine: Machine, request: Request
) -> Iterator[Record]:
    """A record for each of `plans`, in their order."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=request.jobs, return_as="generator")
    yield from parallel(delayed(_record)(workload, s, machine, request) for s in plans)


def _record(workload: Workload, subject: Subject, machine: Machine, request: Request) -> Record:
    try:
        result = simulate(workload, subject.plan, machine, request.isa, request.limit)
    except (GivenUpError, UserError) as error:
        return Failed(subject, str(error))
    counted: dict[str, int] = {}
    if _is_checked(subject, request) and result.accesses <= MOST_CHECKED:
        counted = crosscheck.misses(workload, subject.plan, machine)
    return Simulated(subject, result.volumes, result.accesses, result.misses, counted)


def _is_checked(subject: Subject, request: Request) -> bool:
    """Whether valgrind is to count as well."""
    wanted = request.check and request.isa == "avx2" and subject.role == "own"
    return wanted and crosscheck.is_available()


def _head(request: Request, machine: Machine) -> dict[str, Any]:
    caches = ", ".join(f"{c.name} {c.size} bytes in {c.ways} ways" for c in machine.caches)
    return {
        "kind": VOLUMES,
        "format": FORMAT,
        "must_agree": {
            "caches": caches,
            "isa": request.isa,
            "seed": request.seed,
            "operators": request.version,
            "generator": generator_version(),
        },
        "date": environment.today(),
        "commit": environment.commit(),
        "operators": request.spec,
        "limit": request.limit,
        "machine": {"planned_for": asdict(machine)},
        "versions": environment.own_versions(),
    }
