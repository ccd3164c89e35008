"""A plan as a pass or a tool asks for one: from the plan cache, else from the solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.spec import MachineSpec
from mopt_mlir.plan import GAP, TIME_LIMIT
from mopt_mlir.problem import NoPlanError
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from mopt_mlir.machine import Machine
    from mopt_mlir.plan import Plan
    from mopt_mlir.planning.plan_cache import PlanCache
    from mopt_mlir.problem import Problem

    Search = Callable[[Problem, Machine, "Request"], "Solution"]

_ROUNDING = 1e-6
"""A gap that exceeds the one asked for by less is the same in floating point."""

_EXACT = "exact"
"""The solver that proves how good its plans are."""

_LONGER = 60
"""Seconds, to give the solver once it has run out of fewer: no layer that we know takes longer."""


@dataclass(frozen=True)
class Request:
    """What is asked of the solver: see `mopt_mlir.solve`, whose arguments these are."""

    threads: int = 1
    constant_weights: bool = False
    solver: str = _EXACT
    gap: float = GAP
    time_limit: float = TIME_LIMIT

    def check(self) -> None:
        """Raise UserError, naming the option and a way out, where a value makes no sense."""
        if self.threads < 1:
            raise UserError(f"threads={self.threads}: at least one is needed")
        if self.solver != _EXACT:  # which is always there; the solver takes long to import
            from mopt_mlir.solver.certified import SOLVERS

            if self.solver not in SOLVERS:
                raise UserError(f"solver={self.solver}: not one of {', '.join(SOLVERS)}")
        # `not <` rather than `>=`, so that a NaN is caught as well
        if not 0 < self.gap < 1:
            raise UserError(f"gap={self.gap}: must be more than 0 and less than 1; {GAP} is 0.5%")
        if not self.time_limit > 0:
            raise UserError(f"time-limit={self.time_limit}: not a positive number of seconds")

    def check_cores(self, machine: Machine, spec: str) -> None:
        """Raise UserError if `machine`, which `spec` named, has fewer cores than are asked for."""
        if self.threads > machine.cores:
            larger = MachineSpec.parse(spec).but("cores", self.threads)
            raise UserError(
                f"threads={self.threads}: machine '{machine.name}' has "
                f"{counted(machine.cores, 'core')}; use fewer threads, or say of how many cores it "
                f"is: {larger}"
            )


def check_jobs(jobs: int) -> None:
    """Raise UserError if so many processes cannot solve anything."""
    if jobs < 1:
        raise UserError(f"jobs={jobs}: at least one is needed")


def longer_search(request: Request, *, of_list: bool = False) -> str:
    """How to get a plan for which there was too little time. Of a list of operators it has to be
    said that weights are constant, which a module says itself."""
    seconds = max(_LONGER, 10 * request.time_limit)
    threads = f" --threads {request.threads}" * (request.threads > 1)
    solver = f" --solver {request.solver}" * (request.solver != _EXACT)
    gap = f" --gap {request.gap}" * (request.gap != GAP)
    constant = " --constant-weights" * (of_list and request.constant_weights)
    return (
        f"mopt-plan{threads}{solver}{gap}{constant} --time-limit {seconds:g}, with the same "
        "--machine, looks longer, and keeps the plan if it is done by then"
    )


@dataclass(frozen=True)
class Solution:
    """A plan and how it came about: in `seconds`, perhaps `cached`, perhaps `late`, when the time
    limit was over, and perhaps `cut_short` by that before its gap was down to the one asked for."""

    plan: Plan
    seconds: float
    cached: bool = False
    late: bool = False
    cut_short: bool = False

    def shortfall(
        self, request: Request, way_out: Callable[[Request], str] = longer_search
    ) -> str | None:
        """What there is to tell if less is proven than was asked for, with a way out if it was the
        time limit; of a solver that proves nothing only then."""
        if self.plan.prediction is None:
            return None
        reached = self.plan.prediction.gap
        if not _misses(reached, request):
            return None
        if request.solver == _EXACT:
            merit = (
                f"the one found may cost {reached * 100:.3g}% more than the best possible one, "
                f"{request.gap * 100:g}% was asked for"
            )
        elif self.cut_short:
            merit = f"{request.solver} may find a better one in more"
        else:
            return None
        if not self.cut_short:
            return f"SCIP found no better bound for plans: {merit}"
        limit = f"the time limit of {request.time_limit:g} s ended the search for a plan"
        return f"{limit}: {merit}; {way_out(request)}"


def key_of(problem: Problem, machine: Machine, request: Request, **more: str | float) -> str:
    """The key of a plan in the cache; `more` is what else the plan depends on. The time limit is no
    part of it: what was found when that was over, and maybe not by another run, is never stored."""
    from mopt_mlir.planning.plan_cache import plan_key

    options: dict[str, str | float] = {
        "constant_weights": request.constant_weights,
        "solver": request.solver,
        "gap": request.gap,
        **more,
    }
    return plan_key(problem, machine, request.threads, options)


@dataclass(frozen=True)
class Planning:
    """What plans are made for, what is asked of them, and where they are kept, if anywhere; those
    that are not there are found by `search`, by default `solve_anew`."""

    machine: Machine
    request: Request
    cache: PlanCache | None = None
    search: Search | None = None

    @staticmethod
    def of(
        machine: str, request: Request, module: Any = None, *, plan_cache: bool = True
    ) -> Planning:
        """For the machine that `machine` names, see `machine.resolve`, with what `module` says of
        its target. Raises UserError where an option makes no sense."""
        from mopt_mlir.machine import resolve
        from mopt_mlir.planning.plan_cache import PlanCache

        request.check()
        found = resolve(machine, module)
        request.check_cores(found, machine)
        return Planning(found, request, PlanCache() if plan_cache else None)

    def request_for(self, *, constant_weights: bool) -> Request:
        """What is asked of the plan for a convolution."""
        return replace(self.request, constant_weights=constant_weights)

    def solve(self, problem: Problem, *, constant_weights: bool) -> Solution:
        """The plan for `problem`. Raises NoPlanError if there is none, with the machine's name."""
        request = self.request_for(constant_weights=constant_weights)
        try:
            return solve(problem, self.machine, request, self.cache, self.search)
        except NoPlanError as error:
            raise NoPlanError(no_plan(self.machine, error)) from None


def no_plan(machine: Machine, reason: object) -> str:
    """That there is no plan for `machine`, and why."""
    return f"no plan for machine '{machine.name}': {reason}"


def solve(
    problem: Problem,
    machine: Machine,
    request: Request,
    cache: PlanCache | None = None,
    search: Search | None = None,
) -> Solution:
    """The plan from `cache` if it is there, else from the solver, and then stored.

    Raises NoPlanError where there is no plan, see `mopt_mlir.solve`.
    """
    found = look_up(problem, machine, request, cache)
    if found is None:
        found = (search or solve_anew)(problem, machine, request)
        store(problem, machine, request, found, cache)
    return found


def look_up(
    problem: Problem, machine: Machine, request: Request, cache: PlanCache | None
) -> Solution | None:
    """The plan if `cache` has it."""
    if cache is None:
        return None
    start = perf_counter()
    plan = cache.get(key_of(problem, machine, request))
    return None if plan is None else Solution(plan, perf_counter() - start, cached=True)


def solve_anew(problem: Problem, machine: Machine, request: Request) -> Solution:
    """The plan from the solver. Raises NoPlanError where there is none, see `mopt_mlir.solve`."""
    from mopt_mlir.solver import solve

    start = perf_counter()
    plan = solve(
        problem,
        machine,
        request.threads,
        constant_weights=request.constant_weights,
        gap=request.gap,
        time_limit=request.time_limit,
        solver=request.solver,
    )
    return _solution(plan, perf_counter() - start, request)


def solve_candidates(
    problem: Problem, machine: Machine, request: Request, count: int
) -> tuple[tuple[Plan, ...], Solution]:
    """At most `count` plans, see `solver.candidates`, and how the first, the model's best one, came
    about. Raises NoPlanError where there is none."""
    from mopt_mlir.solver import candidates

    start = perf_counter()
    plans = candidates(
        problem,
        machine,
        request.threads,
        count,
        constant_weights=request.constant_weights,
        gap=request.gap,
        time_limit=request.time_limit,
    )
    return plans, _solution(plans[0], perf_counter() - start, request)


def _solution(plan: Plan, seconds: float, request: Request) -> Solution:
    reached = 0.0 if plan.prediction is None else plan.prediction.gap
    # only the clock makes a result depend on more than its arguments
    late = seconds >= request.time_limit
    return Solution(plan, seconds, late=late, cut_short=late and _misses(reached, request))


def _misses(gap: float, request: Request) -> bool:
    """Whether less is proven than was asked for."""
    return gap > request.gap * (1 + _ROUNDING)


def store(
    problem: Problem,
    machine: Machine,
    request: Request,
    solution: Solution,
    cache: PlanCache | None,
) -> None:
    """Keep a plan for the next time, unless chance had a part in it."""
    if cache is not None and not solution.cached and not solution.late:
        cache.put(key_of(problem, machine, request), solution.plan)
