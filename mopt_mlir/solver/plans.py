"""From tilings, as the solver counts them, to plans with a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.evaluate import Evaluator


def plan_of(evaluate: Evaluator, tiling: Ints, threads: int) -> Plan:
    """A tiling (`[level, dim]` in register tiles) with its best orders and packing, as a plan."""
    costs = evaluate(tiling[None])
    return replace(
        plan_with(evaluate, tiling, costs.classes[0].tolist(), threads),
        packing=evaluate.packings[costs.packing[0]],
        nontemporal=bool(costs.streamed[0]),
    )


def plan_with(evaluate: Evaluator, tiling: Ints, orders: Sequence[int], threads: int) -> Plan:
    """A tiling with the loop order number `orders[level]` at each level, as a plan that does not
    pack."""
    sizes = np.minimum(tiling * evaluate.unit, evaluate.extents)
    levels = tuple(
        Level(
            name,
            evaluate.classes[order].order,
            dict(zip(evaluate.problem.names, tile, strict=True)),
        )
        for name, order, tile in zip(LEVELS, orders, sizes.tolist(), strict=True)
    )
    choice = evaluate.choice
    return Plan(
        machine=evaluate.machine.name,
        threads=threads,
        microkernel=choice.kernel,
        levels=levels,
        parallel=dict(choice.parallel),
        prefetch=evaluate.machine.prefetch_into,
    )


def predicted(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    *,
    constant_weights: bool,
    lower_bound: float,
) -> Plan:
    """`plan` with what the model predicts of it, and a proven bound (seconds)."""
    prediction = predict(
        problem, machine, plan, constant_weights=constant_weights, lower_bound=lower_bound
    )
    return replace(plan, prediction=prediction)
