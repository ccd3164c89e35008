"""Problems to solve, in this process or in several at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import Machine
from mopt_mlir.planning.plan_cache import PlanCache, version
from mopt_mlir.planning.solving import Request, Solution, look_up, solve_anew, store
from mopt_mlir.problem import NoPlanError, Problem

MANY = 4
"""Fewer are solved here: other processes take a second to be there, in which most of them are."""

Progress = Callable[[int, int], None]
"""Called with the number of plans that are there, and that will be."""


@dataclass(frozen=True)
class Task:
    """One problem to solve; `version` is that of who asks for it."""

    problem: Problem
    machine: Machine
    request: Request
    version: str


Outcome = Solution | str
"""A solution, or why there is none."""

Runner = Callable[[Sequence[Task]], Iterator[tuple[int, Outcome]]]
"""Solves tasks, and gives each outcome with the number of its task, in any order."""


def solve_tasks(
    tasks: Sequence[Task], run: Runner, cache: PlanCache | None, progress: Progress | None = None
) -> dict[Task, Outcome]:
    """The outcome of each task, from `cache` if it is there. Plans are stored as they come."""
    outcomes: dict[Task, Outcome] = {}
    missing: list[Task] = []
    for task in dict.fromkeys(tasks):
        found = look_up(task.problem, task.machine, task.request, cache)
        if found is None:
            missing.append(task)
        else:
            outcomes[task] = found
    total = len(outcomes) + len(missing)
    report = progress or (lambda done, of: None)
    report(len(outcomes), total)
    for number, outcome in run(missing) if missing else ():
        task = missing[number]
        outcomes[task] = outcome
        if isinstance(outcome, Solution):
            store(task.problem, task.machine, task.request, outcome, cache)
        report(len(outcomes), total)
    return outcomes


def work(number: int, task: Task) -> tuple[int, Outcome]:
    """Solve a task; runs in a worker, perhaps on another machine. Raises UserError there if that
    has another version of this package, whose plans are not those of ours."""
    if task.version != version():
        raise UserError(
            "a worker has another version of mopt-mlir, or of the packages it solves with"
        )
    try:
        return number, solve_anew(task.problem, task.machine, task.request)
    except NoPlanError as error:
        return number, str(error)


def in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Solve tasks in up to `jobs` processes of this machine, or in this one; in no more than there
    are cores, as each has a limit of time to itself."""
    if jobs > 1 and len(tasks) >= MANY and (jobs := min(jobs, len(tasks), cores())) > 1:
        return in_parallel(tasks, "loky", jobs)
    return (work(number, task) for number, task in enumerate(tasks))


def in_parallel(tasks: Sequence[Task], backend: str, jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Solve tasks through joblib. What a task raises is no plan's fault, but its worker's."""
    from joblib import Parallel, delayed, parallel_config

    try:
        with parallel_config(backend, n_jobs=jobs):  # which also loads joblib's part of Dask
            parallel = Parallel(return_as="generator_unordered")
        yield from parallel(delayed(work)(number, task) for number, task in enumerate(tasks))
    except UserError:
        raise
    except Exception as error:  # whatever can go wrong between processes and machines
        raise UserError(f"a worker failed: {type(error).__name__}: {error}") from None


def cores() -> int:
    """Those that this process may use; with a part of their time a container may have fewer."""
    from joblib import cpu_count

    try:
        found: int = cpu_count()
    except ValueError:
        name = "LOKY_MAX_CPU_COUNT"
        reason = f"{name}={os.environ.get(name, '')} is no number of cores; correct or unset it"
        raise UserError(reason) from None
    return found
