"""Plans to choose from by measuring: near the best of the model, and far from each other.

The paper's MOpt-5: the model ranks, a few measurements decide. Near the optimum plans are plenty
and mostly alike, so the second is not the next best but one that differs much and costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from mopt_mlir.machine import Machine, resolve
from mopt_mlir.plan import GAP, LEVELS, PACKINGS, TIME_LIMIT, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.certified import Certified, certify
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.plans import plan_of, predicted
from mopt_mlir.solver.search import descend, moves
from mopt_mlir.solver.space import Choice

WITHIN = 0.05
"""A candidate costs at most this much more than the best plan, relative."""

CHOICES = 12
"""Microkernels and splits that are searched, the most promising of different shapes first."""

PER_CHOICE = 200
"""Tilings kept of one choice, the cheapest first."""

DECISION = 1.0
"""Distance of two plans that differ in a loop order, the packing or the lanes: as much as a factor
of e in one tile size."""


@dataclass(frozen=True)
class _Pool:
    """Tilings of one choice that are within reach, with their costs."""

    evaluate: Evaluator
    tilings: Ints
    cost: Floats


def candidates(
    problem: Problem,
    machine: Machine | str,
    threads: int = 1,
    count: int = 5,
    *,
    constant_weights: bool = False,
    gap: float = GAP,
    time_limit: float = TIME_LIMIT,
) -> tuple[Plan, ...]:
    """At most `count` plans that cost no more than 5% above the best, which is the first.

    Each further plan is as far as possible from those before it, in the logarithms of its tile
    sizes and in its decisions, where a distance counts the less the more a plan costs, and nothing
    at 5%; fewer than `count` if there are not so many. Every plan has its own cost and the lower
    bound that is common to all. Other arguments and errors are those of `solve` (but there is no
    `solver`); ValueError for `count` below 1. The result depends on the arguments only, unless the
    time limit is reached.
    """
    if count < 1:
        raise ValueError(f"count is {count}; at least one candidate is needed")
    machine = resolve(machine) if isinstance(machine, str) else machine
    deadline = perf_counter() + time_limit
    found = certify(
        problem, machine, threads, constant_weights=constant_weights, gap=gap, time_limit=time_limit
    )
    pools: list[_Pool] = []
    for choice in _varied(found):
        if not pools or perf_counter() < deadline:
            pools.append(_pool(found, choice, deadline))
    pools = [pool for pool in pools if len(pool.cost)]
    first = plan_of(found.evaluate, found.tiling, threads)
    plans = [first, *(plan_of(*one, threads) for one in _spread(found, pools, count - 1))]
    return tuple(
        predicted(
            problem, machine, plan, constant_weights=constant_weights, lower_bound=found.bound
        )
        for plan in plans
    )


def _varied(found: Certified) -> list[Choice]:
    """Choices whose bound is within reach: the best one, then one of each shape in turn."""
    mine = found.evaluate.choice
    rest = [c for c in found.options if c.bound <= (1 + WITHIN) * found.cost and c is not mine]
    shapes: dict[tuple[object, ...], list[Choice]] = {}
    for choice in rest:
        kernel = choice.kernel
        split = tuple(choice.parallel.items())
        shape = kernel.lanes, kernel.extent(kernel.lanes), choice.reads_panels, split
        shapes.setdefault(shape, []).append(choice)
    turns = max(map(len, shapes.values()), default=0)
    ordered = [row[turn] for turn in range(turns) for row in shapes.values() if turn < len(row)]
    return [mine, *ordered[: CHOICES - 1]]


def _pool(found: Certified, choice: Choice, deadline: float) -> _Pool:
    """The tilings around the best one of a choice that cost little more than the best of all; after
    the `deadline`, around the first that fits."""
    evaluate = Evaluator(found.problem, found.machine, choice)
    sizes = found.tiling * found.evaluate.unit
    start = evaluate.nest(np.rint(sizes / evaluate.unit).astype(np.int64))
    best = descend(evaluate, start, deadline)
    tilings = (start if best is None else best.tiling)[None]
    if best is not None:
        tilings = np.unique(np.concatenate([tilings, moves(evaluate, best.tiling)]), axis=0)
    costs = evaluate(tilings)
    near = (costs.overflow <= 1) & (costs.cost <= (1 + WITHIN) * found.cost)
    kept = np.flatnonzero(near)
    kept = kept[np.argsort(costs.cost[kept], kind="stable")][:PER_CHOICE]
    return _Pool(evaluate, tilings[kept], costs.cost[kept])


def _points(evaluate: Evaluator, tilings: Ints) -> Floats:
    """Coordinates of plans: logarithms of sizes, and for each decision one axis per alternative."""
    costs = evaluate(tilings)
    sizes = np.minimum(tilings * evaluate.unit, evaluate.extents)
    choice, names = evaluate.choice, evaluate.problem.names
    fixed = [np.log([choice.unit(dim) for dim in names]), np.log([choice.ways(d) for d in names])]
    lanes = [DECISION * (dim == choice.kernel.lanes) for dim in names]
    decided = [costs.classes[:, level] for level in range(len(LEVELS))]
    packing = np.array([PACKINGS.index(name) for name in evaluate.packings])[costs.packing]
    axes = [
        *(_one_hot(column, len(evaluate.classes)) for column in decided),
        _one_hot(packing, len(PACKINGS)),
    ]
    same = np.tile(np.concatenate([*fixed, lanes]), (len(tilings), 1))
    return np.concatenate([np.log(sizes).reshape(len(tilings), -1), same, *axes], axis=1)


def _one_hot(column: Ints, size: int) -> Floats:
    return np.asarray(np.eye(size)[column] * DECISION / np.sqrt(2))


def _spread(found: Certified, pools: Sequence[_Pool], number: int) -> list[tuple[Evaluator, Ints]]:
    """Tilings of the pools, each far from those before it and from the best plan, and cheap; of
    equal ones the cheapest.

    (Distance alone takes plans that cost nearly 5% more. Measured on Zen 4, cold: with AVX-512
    code and channels last the best of five takes 1.1% less time than the first, not 0.8%, and the
    four others take 0.6% more, not 2.2%; with AVX2 code and channels first 0.8% less, as before,
    and 1.6% more, not 4.0%. Means of Table 1.)
    """
    points = np.concatenate([_points(pool.evaluate, pool.tilings) for pool in pools])
    cost = np.concatenate([pool.cost for pool in pools])
    origin = [(pool.evaluate, tiling) for pool in pools for tiling in pool.tilings]
    worth = 1 - (cost / found.cost - 1) / WITHIN
    apart = np.linalg.norm(points - _points(found.evaluate, found.tiling[None])[0], axis=1)
    chosen = []
    for _ in range(number):
        ranked = np.lexsort((cost, -np.round(apart * worth, 6)))
        if not len(ranked) or apart[ranked[0]] * worth[ranked[0]] < 1e-6:
            break
        chosen.append(origin[ranked[0]])
        apart = np.minimum(apart, np.linalg.norm(points - points[ranked[0]], axis=1))
    return chosen
