"""Whether a bound is honest: many random plans of the design space, none of which may cost less.

Half of them are anything at all, half of them resemble a given plan, where the bound is close.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import LEVELS, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.plans import plan_of
from mopt_mlir.solver.space import Choice, choices

BATCH = 2000
"""Tilings that are drawn for one choice of microkernel and split."""

NEAR = 0.25
"""Choices whose own bound exceeds the plan's cost by less, relative, are drawn half of the time."""

WHOLE = 0.3
"""How often a tile spans a dim."""

CHANGED = 0.3
"""How often a size differs in a plan that resembles the given one, by up to a factor of e."""

BATCHES = 10
"""Batches drawn for each that was asked for, at most: where caches are small few tilings fit."""

PREDICTED = 20
"""Plans that are also evaluated one by one, by the model's own definition: the cheapest ones."""


@dataclass(frozen=True)
class Challenge:
    """`plans` random plans were evaluated; the cheapest costs `least` seconds, and `predicted` by
    the definition of the model, which knows nothing of arrays."""

    plans: int
    least: float
    predicted: float


def challenge(problem: Problem, machine: Machine, plan: Plan, number: int) -> Challenge:
    """Evaluate about `number` random plans that fit into the caches, for the threads of `plan`, on
    whose cost their choice depends; the same ones every time."""
    generator = np.random.default_rng(number)
    options = choices(problem, machine, plan.threads, constant_weights=False)
    count, best = 0, []
    for evaluate, tilings in _batches(problem, machine, plan, options, number, generator):
        costs = evaluate(tilings)
        fitting = np.flatnonzero(costs.overflow <= 1)
        count += len(fitting)
        order = fitting[np.argsort(costs.cost[fitting], kind="stable")]
        best += [(float(costs.cost[at]), evaluate, tilings[at]) for at in order[:PREDICTED]]
        best = sorted(best, key=lambda found: found[0])[:PREDICTED]
        if count >= number:
            break
    if not best:
        return Challenge(0, inf, inf)
    predicted = [
        predict(problem, machine, plan_of(evaluate, tiling, plan.threads)).cost
        for _, evaluate, tiling in best
    ]
    return Challenge(count, best[0][0], min(predicted))


def _batches(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    options: Sequence[Choice],
    number: int,
    generator: np.random.Generator,
) -> Iterator[tuple[Evaluator, Ints]]:
    cost = plan.prediction.cost if plan.prediction else 0.0
    near = sum(choice.bound < (1 + NEAR) * cost for choice in options)
    sizes = np.array([[level.tile[dim] for dim in problem.names] for level in plan.levels])
    for batch in range(BATCHES * -(-number // BATCH)):
        among = near if batch % 2 and near else len(options)
        evaluate = Evaluator(problem, machine, options[int(generator.integers(among))])
        anywhere = _anywhere(generator, evaluate, BATCH // 2)
        alike = _alike(generator, evaluate, sizes, BATCH // 2)
        yield evaluate, evaluate.nest(np.concatenate([anywhere, alike]))


def _anywhere(generator: np.random.Generator, evaluate: Evaluator, number: int) -> Ints:
    """Sizes that are uniform in their logarithms, or whole extents."""
    shape = (number, len(LEVELS), len(evaluate.units))
    sizes = np.exp(generator.random(shape) * np.log(evaluate.units)).astype(np.int64)
    return np.where(generator.random(shape) < WHOLE, evaluate.units, sizes)


def _alike(generator: np.random.Generator, evaluate: Evaluator, sizes: Ints, number: int) -> Ints:
    """Tilings with some sizes other than `sizes`, in elements."""
    shape = (number, *sizes.shape)
    factors: Floats = np.exp(generator.uniform(-1, 1, shape))
    factors = np.where(generator.random(shape) < CHANGED, factors, 1.0)
    return np.asarray(np.rint(sizes * factors / evaluate.unit), dtype=np.int64)
