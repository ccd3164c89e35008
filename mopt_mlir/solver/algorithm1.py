"""The paper's Algorithm 1, as a baseline for the exact solver, on the same model.

Sec. 8, as printed, with these readings:
- `pm` is one class of loop orders per level, and the loop over all of them is left to the solver,
  which has them as binaries (`solver.arg_min_solve`);
- the register tile is fixed: that of the most promising microkernel and split between cores of the
  exact solver, so that what is compared is how tiles and orders are found. The level of the
  registers takes part in the comparisons, but there is nothing to find for it;
- `MinCost` of the loop that ends first is that of the plan, not that of the loop that ends last,
  which belongs to its fastest level;
- tile sizes are rounded down to whole register tiles; the load balancer rounds the outermost tile
  down to a multiple of the cores that share it, where that leaves something.
What the paper does not decide is decided in its favour: the cheapest packing for its tiles, and
outermost tiles that span a dim if that costs less, because the paper's threads start for free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import LEVELS, TIME_LIMIT, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arg_min_solve import REGISTERS, LevelSolution, StepSolution, arg_min_solve
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.fitting import first_that_fits
from mopt_mlir.solver.plans import plan_with, predicted
from mopt_mlir.solver.space import Choice, choices

TIE = 2e-3
"""Times that differ by less, relative, are equal; SCIP stops at half of that."""


def algorithm1(
    problem: Problem,
    machine: Machine,
    threads: int = 1,
    *,
    constant_weights: bool = False,
    time_limit: float = TIME_LIMIT,
) -> Plan:
    """The plan of Algorithm 1 for `problem` on `threads` cores of `machine`.

    The algorithm proves nothing: the lower bound of the prediction is the quick one of the design
    space, which holds for every plan but is seldom reached. After `time_limit` seconds the levels
    that are still open keep the tiles of the last step. Errors as for `solve`.
    """
    problem.check_size()
    deadline = perf_counter() + time_limit
    options = choices(problem, machine, threads, constant_weights=constant_weights)
    evaluate, smallest = first_that_fits(problem, machine, options)
    found = _levels(problem, machine, evaluate.choice, deadline)
    tiling = _grown(evaluate, _balanced(evaluate, _floored(evaluate, found), smallest))
    orders = [found[name].order if name in found else 0 for name in LEVELS]
    plan = plan_with(evaluate, tiling, orders, threads)
    stores = (False, True) if evaluate.choice.streams else (False,)
    plans = [
        replace(plan, packing=packing, nontemporal=nontemporal)
        for packing in evaluate.packings
        for nontemporal in stores
    ]
    plans = [plan for plan in plans if _fits(problem, machine, plan)]
    return min(
        (
            predicted(
                problem,
                machine,
                plan,
                constant_weights=constant_weights,
                lower_bound=options[0].bound,
            )
            for plan in plans
        ),
        key=lambda plan: plan.prediction.cost if plan.prediction else 0.0,
    )


def _levels(
    problem: Problem, machine: Machine, choice: Choice, deadline: float
) -> dict[str, LevelSolution]:
    """Lines 4 to 18: fix the tiles of the most constrained level, until none is open."""
    open_levels = [REGISTERS, *reversed(LEVELS)]
    fixed: dict[str, LevelSolution] = {}
    last: Mapping[str, LevelSolution] = {}

    def arg_min(
        objective: str | None, among: Sequence[str], at_least: float = 0.0
    ) -> StepSolution | None:
        left = deadline - perf_counter()
        if left <= 0:
            return None
        return arg_min_solve(
            problem,
            machine,
            choice,
            objective,
            among,
            fixed,
            at_least=at_least,
            time_limit=left,
        )

    while open_levels:
        least = arg_min(None, open_levels)
        if least is None:  # out of time, or SCIP found no solution: keep what there is
            break
        bound = (1 - TIE) * least.bound
        found = {level: arg_min(level, open_levels, bound) for level in open_levels}
        steps = {level: _better(step, least) for level, step in found.items()}
        cost = min(step.seconds for step in steps.values())
        tied = [level for level, step in steps.items() if step.seconds <= (1 + TIE) * cost]
        constrained = tied[0]
        if len(tied) > 1:
            alone = {level: arg_min(None, [level]) for level in tied}
            constrained = max(tied, key=lambda level: _seconds(alone[level]))
        last = steps[constrained].levels
        open_levels.remove(constrained)
        fixed[constrained] = last[constrained]
    return {**last, **fixed}


def _better(step: StepSolution | None, least: StepSolution) -> StepSolution:
    """`step`, unless SCIP stopped before it was as good as what is known already."""
    return step if step is not None and step.seconds <= (1 + TIE) * least.seconds else least


def _seconds(step: StepSolution | None) -> float:
    return step.seconds if step else 0.0


def _floored(evaluate: Evaluator, found: Mapping[str, LevelSolution]) -> Ints:
    """Line 23: whole register tiles, at least one; levels that were not found have one."""
    tiling = np.ones((len(LEVELS), len(evaluate.units)), dtype=np.int64)
    for index, level in enumerate(LEVELS):
        for position, dim in enumerate(evaluate.problem.names):
            if level in found and dim in found[level].tile:
                size = found[level].tile[dim] * (1 + TIE)
                extent, unit = evaluate.problem.extent(dim), evaluate.choice.unit(dim)
                tiles = evaluate.units[position] if size >= extent else int(size) // unit
                tiling[index, position] = max(1, tiles)
    return evaluate.nest(tiling)


def _balanced(evaluate: Evaluator, tiling: Ints, smallest: Ints) -> Ints:
    """Line 24, and smaller tiles where rounding has left one that does not fit."""
    l3 = tiling[0]
    tiling[0] = np.where(l3 > evaluate.ways, l3 // evaluate.ways * evaluate.ways, l3)
    tiling = evaluate.nest(tiling)
    while evaluate(tiling[None]).overflow[0] > 1 and (tiling > 1).any():
        halves = np.repeat(tiling[None], len(LEVELS), axis=0)
        for level, half in enumerate(halves):  # the tiles of a level and of those inside
            half[level:] = -(-half[level:] // 2)
        halves = evaluate.nest(halves[::-1])
        less = evaluate(halves).overflow < evaluate(tiling[None]).overflow
        tiling = halves[int(np.argmax(less)) if less.any() else -1]
    return tiling if evaluate(tiling[None]).overflow[0] <= 1 else smallest


def _grown(evaluate: Evaluator, tiling: Ints) -> Ints:
    """`tiling` with outermost tiles that span a dim, where they fit and cost less."""
    for position, units in enumerate(evaluate.units):
        grown = tiling.copy()
        grown[0, position] = units
        costs = evaluate(np.stack([tiling, grown]))
        if costs.overflow[1] <= 1 and costs.cost[1] < costs.cost[0]:
            tiling = grown
    return tiling


def _fits(problem: Problem, machine: Machine, plan: Plan) -> bool:
    """Whether every tile fits into its cache, with what is packed there."""
    for level in plan.levels:
        packs = plan.packing == level.name
        tile, panels = level.tile, plan.reads_panels
        used = cache_bytes(problem, machine, level.name, tile, panels=panels, packs=packs)
        if sum(used.values()) > usable(machine, level.name):
            return False
    return True
