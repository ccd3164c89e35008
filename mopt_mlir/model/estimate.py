"""What any plan takes, a bad one as well: the model of `cost` with what such plans have besides.

The solver minimises an objective that is made for plans near the best: their tiles fill the caches
and nothing but the slowest resource matters much. A plan from anywhere in the design space moves
less than its tiles say, as caches keep more (see `residency`), and hides less of it behind its
slowest resource. Both change the order of bad plans among each other, and hardly that of good ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import FILLED_FROM, predict, runs_of
from mopt_mlir.model.residency import resident_volumes
from mopt_mlir.plan import Plan, Prediction
from mopt_mlir.problem import Problem

EXPOSED: Mapping[str, float] = {
    "compute": 0.05,
    "packing": 0.05,
    "L1": 0.5,
    "L2": 0.3,
    "L3": 0.3,
    "DRAM": 1.3,
}
"""Part of each resource's time that comes on top of the slowest one's, the more the further away it
comes from. Fitted to the measured times of sampled plans of Table 1 with cold caches, on Zen 5."""


def estimate(problem: Problem, machine: Machine, plan: Plan) -> Prediction:
    """The prediction for `plan`, which must have all levels and be for one core, with the volumes
    that caches really let pass; `cost` is the time in seconds that is to be expected of it.

    Raises ValueError as `predict` and `resident_volumes` do.
    """
    predicted = predict(problem, machine, plan)
    volumes = resident_volumes(problem, machine, plan, predicted)
    seconds = dict(predicted.seconds)
    runs = runs_of(problem, machine, plan)
    seconds["DRAM"] -= runs
    for resource in FILLED_FROM.values():
        moved = sum(predicted.volumes[resource].values())
        seconds[resource] *= sum(volumes[resource].values()) / moved if moved else 1.0
    seconds["DRAM"] += runs
    core = seconds["compute"] + seconds["packing"]
    slowest = max(core, *(seconds[name] for name in volumes))
    exposed = sum(EXPOSED[name] * time for name, time in seconds.items() if name in EXPOSED)
    return replace(
        predicted,
        seconds=seconds,
        volumes=volumes,
        bottleneck=max(seconds, key=lambda name: seconds[name]),
        cost=slowest + exposed,
    )
