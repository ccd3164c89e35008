"""From a problem and a machine to a plan with a proof.

Local search gives a plan (`incumbent`), SCIP a lower bound on every plan and better starting points
(`proof`), until plan and bound meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from mopt_mlir.machine import Machine, resolve
from mopt_mlir.plan import GAP, TIME_LIMIT, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver.algorithm1 import algorithm1
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.incumbent import Incumbent
from mopt_mlir.solver.plans import plan_of, predicted
from mopt_mlir.solver.proof import Proof
from mopt_mlir.solver.search import with_fewer_sums
from mopt_mlir.solver.space import Choice, choices

SOLVERS = ("exact", "algorithm1")
"""The certified search, and the paper's Algorithm 1 on the same model, as a baseline."""


@dataclass(frozen=True)
class Certified:
    """The best plan found for a problem, as a tiling of a choice, and the bound that proves it.

    `cost` and `bound` are seconds; `options` is the whole design space, most promising first.
    """

    problem: Problem
    machine: Machine
    options: Sequence[Choice]
    evaluate: Evaluator
    tiling: Ints
    cost: float
    bound: float


def solve(
    problem: Problem,
    machine: Machine | str,
    threads: int = 1,
    *,
    constant_weights: bool = False,
    gap: float = GAP,
    time_limit: float = TIME_LIMIT,
    solver: str = "exact",
) -> Plan:
    """The plan of `mopt_mlir.solve`, whose arguments and errors these are, for `problem` with the
    dims that it has."""
    machine = resolve(machine) if isinstance(machine, str) else machine
    if solver not in SOLVERS:
        raise ValueError(f"solver is '{solver}', not one of {', '.join(SOLVERS)}")
    if solver == "algorithm1":
        _check_limits(gap, time_limit)
        return algorithm1(
            problem, machine, threads, constant_weights=constant_weights, time_limit=time_limit
        )
    found = certify(
        problem, machine, threads, constant_weights=constant_weights, gap=gap, time_limit=time_limit
    )
    plan = plan_of(found.evaluate, found.tiling, threads)
    return predicted(
        problem, machine, plan, constant_weights=constant_weights, lower_bound=found.bound
    )


def certify(
    problem: Problem,
    machine: Machine,
    threads: int,
    *,
    constant_weights: bool,
    gap: float,
    time_limit: float,
) -> Certified:
    """The search behind `solve`, whose arguments and errors these are."""
    _check_limits(gap, time_limit)
    problem.check_size()
    deadline = perf_counter() + time_limit
    options = choices(problem, machine, threads, constant_weights=constant_weights)
    best = Incumbent(problem, machine, deadline)
    best.first(options)
    bound = Proof(best, gap, deadline).bound(options)
    evaluate, found = best.plan
    found = with_fewer_sums(evaluate, found, deadline)
    bound = min(bound, found.cost)
    return Certified(problem, machine, options, evaluate, found.tiling, found.cost, bound)


def _check_limits(gap: float, time_limit: float) -> None:
    """Raise ValueError for one that is out of range, as a NaN is, too."""
    if not 0 < gap < 1:
        raise ValueError(f"gap is {gap}, not between 0 and 1")
    if not time_limit > 0:
        raise ValueError(f"time_limit is {time_limit}, not a positive number of seconds")
