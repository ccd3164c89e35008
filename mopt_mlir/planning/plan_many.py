"""Plans for many operators at once: in this process, in several, or on a cluster of machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from os import fspath
from typing import Any

from mopt_mlir.diagnostics import Failure, UserError, describe, emit
from mopt_mlir.machine import Machine
from mopt_mlir.pipeline.loading import errors_raised, load_module
from mopt_mlir.plan import GAP, TIME_LIMIT
from mopt_mlir.planning.operators import OF_LISTS_ONLY, Operator, is_list, operators_of, read_list
from mopt_mlir.planning.plan_cache import version
from mopt_mlir.planning.solving import (
    Planning,
    Request,
    Solution,
    check_jobs,
    longer_search,
    no_plan,
)
from mopt_mlir.planning.tasks import (
    Outcome,
    Progress,
    Runner,
    Task,
    cores,
    in_parallel,
    in_processes,
    solve_tasks,
)

BACKENDS = ("loky", "dask")
"""Those of joblib: processes of this machine, or the workers of a Dask cluster."""

CONNECT = 10.0
"""Seconds to wait for the scheduler of a cluster, and then for a worker."""


@dataclass(frozen=True)
class Planned:
    """An operator, and how it is to be run on `request.threads` cores of `machine`."""

    operator: Operator
    machine: Machine
    request: Request
    solution: Solution

    def record(self) -> dict[str, Any]:
        """Plain data. `seconds` is what finding the plan took, `cost` and `lower_bound` are seconds
        of the model, `tiles` sizes in elements per level, `plan` is the plan without a
        prediction."""
        plan = self.solution.plan
        data = plan.as_dict()
        predicted = data["prediction"]
        return {
            "operator": self.operator.name,
            "machine": plan.machine,
            "threads": plan.threads,
            "seconds": self.solution.seconds,
            "cached": self.solution.cached,
            "cost": predicted["cost"],
            "lower_bound": predicted["lower_bound"],
            "gap": predicted["gap"],
            "classes": predicted["classes"],
            "tiles": {level["name"]: level["tile"] for level in data["levels"]},
            "microkernel": data["microkernel"],
            "parallel": data["parallel"],
            "packing": data["packing"],
            "bottleneck": predicted["bottleneck"],
            "plan": replace(plan, prediction=None).as_dict(),
        }


def plan_many(
    source: Any,
    *,
    machine: str = "auto",
    threads: int = 1,
    constant_weights: bool = False,
    solver: str = "exact",
    gap: float = GAP,
    time_limit: float = TIME_LIMIT,
    jobs: int | None = None,
    backend: str = "loky",
    scheduler: str | None = None,
    plan_cache: bool = True,
    progress: Progress | None = None,
) -> tuple[Planned, ...]:
    """A plan for every convolution of `source`, in its order; equal ones are solved once.

    `source` is `table1`, the path of a JSON file (see `operators`), or whatever
    `mopt_mlir.compile` takes. `jobs` processes of this machine work at it, by default one per CPU;
    with the backend `dask` the workers of the cluster whose scheduler has the address `scheduler`.
    `constant_weights` says that the weights of a list are known when it is compiled; a module says
    so itself. The plan cache is that of this process, whoever solves.

    Raises UserError for whatever is wrong, also where there is no plan for one of the operators;
    the plans of the others are then in the cache.
    """
    request = Request(threads, solver=solver, gap=gap, time_limit=time_limit)
    request.check()
    _check_backend(backend, jobs, scheduler)
    with errors_raised():
        if is_list(source):
            where = fspath(source)
            module, operators = None, read_list(source, constant_weights)
        else:
            if constant_weights:
                raise UserError(OF_LISTS_ONLY)
            module = load_module(source)
            where = describe(module.location)
            operators = operators_of(module)
        planning = Planning.of(machine, request, module, plan_cache=plan_cache)
        if not operators:
            raise UserError("there is no convolution to plan", where)
        tasks = _tasks(operators, planning)
        with ExitStack() as cluster:
            run = _runner(backend, jobs, scheduler, cluster)
            outcomes = solve_tasks(tasks, run, planning.cache, progress)
        way_out = partial(longer_search, of_list=module is None)
        return _planned(operators, tasks, outcomes, way_out)


def _check_backend(backend: str, jobs: int | None, scheduler: str | None) -> None:
    if backend not in BACKENDS:
        raise UserError(f"backend={backend}: not one of {', '.join(BACKENDS)}")
    if jobs is not None:
        check_jobs(jobs)
    if backend == "dask":
        if scheduler is None:
            raise UserError("the backend dask needs the address of a scheduler, as tcp://host:8786")
        if jobs is not None:
            raise UserError("jobs are for the backend loky; a cluster does as much as its workers")
    elif scheduler is not None:
        raise UserError(f"a scheduler is for the backend dask, not for {backend}")


def _tasks(operators: Sequence[Operator], planning: Planning) -> list[Task]:
    """A task for each operator, equal ones for equal problems."""
    return [
        Task(
            operator.problem,
            planning.machine,
            planning.request_for(constant_weights=operator.constant_weights),
            version(),
        )
        for operator in operators
    ]


def _planned(
    operators: Sequence[Operator],
    tasks: Sequence[Task],
    outcomes: dict[Task, Outcome],
    way_out: Callable[[Request], str],
) -> tuple[Planned, ...]:
    planned = []
    for operator, task in zip(operators, tasks, strict=True):
        outcome = outcomes[task]
        if isinstance(outcome, str):
            reason = no_plan(task.machine, outcome)
            emit("error", operator.location, f"'{operator.name}': {reason}")
            continue
        if shortfall := outcome.shortfall(task.request, way_out):
            emit("remark", operator.location, f"'{operator.name}': {shortfall}")
        planned.append(Planned(operator, task.machine, task.request, outcome))
    if len(planned) < len(operators):
        raise Failure("there are operators without a plan")
    return tuple(planned)


def _runner(backend: str, jobs: int | None, scheduler: str | None, cluster: ExitStack) -> Runner:
    """What solves tasks. Raises UserError if it cannot be reached."""
    if backend == "dask":
        assert scheduler is not None
        _connect(scheduler, cluster)
        return lambda tasks: in_parallel(tasks, "dask", -1)
    return lambda tasks: in_processes(tasks, jobs or cores())


def _connect(scheduler: str, cluster: ExitStack) -> None:
    """Make the cluster at `scheduler` the one that joblib uses, as long as `cluster` is open."""
    from asyncio import TimeoutError as NoAnswer  # Python's own since 3.11 only

    try:
        from distributed import Client
    except ImportError:
        raise UserError(
            "the backend dask needs the package distributed: pip install distributed"
        ) from None
    try:
        client = cluster.enter_context(Client(scheduler, timeout=CONNECT))
    except (OSError, NoAnswer, ValueError) as error:
        raise UserError(f"there is no Dask scheduler at '{scheduler}': {error}") from None
    try:
        client.wait_for_workers(1, timeout=CONNECT)
    except NoAnswer:
        raise UserError(
            f"the Dask scheduler at '{scheduler}' has no workers; start some with "
            f"'dask worker {scheduler}'"
        ) from None
