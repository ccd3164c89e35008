"""The time to expect of any plan: `model.cost`, and what only poor plans suffer from.

The solver minimises an objective that is made for plans near the best: their tiles fill the caches,
their reductions are cut into few pieces, and nothing but the slowest resource matters much. A plan
from anywhere in the design space moves less than its tiles say, as caches keep more (`residency`),
computes for less time than its visits say, as they overlap (`visits`), and hides less of its
traffic behind its slowest resource. That changes the order of bad plans among each other, and
hardly that of good ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mopt_mlir.estimate.branches import misprediction_cycles
from mopt_mlir.estimate.residency import evicted_again, resident_volumes
from mopt_mlir.estimate.visits import Visits, visiting_cycles
from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import (
    FILLED_FROM,
    bottleneck,
    breakdown,
    busy_times,
    prediction_of,
)
from mopt_mlir.model.microkernel import tile_kinds, vector_slots
from mopt_mlir.model.packing import PACK_CYCLES, PACK_PASSES, in_place_wait, pack_cycles
from mopt_mlir.model.rates import OUTPUT_PASSES
from mopt_mlir.plan import Plan, Prediction
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import packing_way

EXPOSED_OF_ANY_PLAN: Mapping[str, float] = {
    "core": 0.05,
    "L1": 0.13,
    "L2": 0.42,
    "L3": 0.54,
    "DRAM": 0.9,
}
"""Part of each resource's time that comes on top of the slowest one's, the more the further away it
comes from. Fitted to the measured times of sampled plans of Table 1 with cold caches, on Zen 5 with
512 and 256 bits."""

BRIDGED = ("L2", "L3")
"""Resources so near that what a core has in flight keeps it busy for a part of each miss: for twice
as long if an operation takes two slots. (That it is these two was seen in sampled plans of Table 1
and of validation's held-out set on Zen 4, with 512 bits, whose times ask for 0.23 to 0.25 and 0.31
in place of 0.42 and 0.54. More slots than two were not seen.)"""


def estimate(problem: Problem, machine: Machine, plan: Plan) -> Prediction:
    """The prediction for `plan`, which must have all levels and be for one core, with the volumes
    that caches really let pass; `cost` is the time in seconds that is to be expected of it.

    Raises ValueError as `breakdown` and `resident_volumes` do.
    """
    found = breakdown(problem, machine.at_rest, plan)  # `EXPOSED_OF_ANY_PLAN` goes with these rates
    predicted = prediction_of(problem, machine, plan, found)
    volumes = resident_volumes(problem, machine, plan, predicted)
    kinds = tile_kinds(problem, machine, plan.microkernel, panels=plan.reads_panels)
    visits = Visits.of(problem, plan, found.visits, machine.cache("L1"))
    cycles = visiting_cycles(machine, kinds, found.register_tiles, visits)
    cycles += misprediction_cycles(problem, machine, plan)
    # without `first_block_seconds`: the part of DRAM's time that is exposed covers that wait
    packing = found.packing_seconds - _packed_again_seconds(problem, machine, plan, predicted)
    seconds = {**predicted.seconds, "compute": cycles / found.rates.cycles, "packing": packing}
    # lines that a register tile evicts of itself are paid for in its cycles
    _, again = evicted_again(problem, machine, plan)
    rows = in_place_wait(problem, machine, plan.microkernel) * _of_rows(plan, predicted, volumes)
    for resource in FILLED_FROM.values():
        moved = sum(found.volumes[resource].values())
        waited = _waited_for(resource, volumes[resource]) - (again if resource == "L2" else 0.0)
        seconds[resource] = found.moving_seconds(resource) * (waited / moved if moved else 1.0)
    seconds["DRAM"] += found.runs_seconds
    busy = busy_times(seconds)
    slots = vector_slots(problem, machine, plan.microkernel)
    exposed = sum(_exposed(name, slots) * time for name, time in busy.items())
    return replace(
        predicted,
        seconds=seconds,
        volumes=volumes,
        bottleneck=bottleneck(seconds),
        cost=max(busy.values()) + exposed + rows,
    )


def _of_rows(
    plan: Plan, predicted: Prediction, volumes: Mapping[str, Mapping[str, float]]
) -> float:
    """Seconds that rows of weights take from L3 if they are read in place."""
    moved = sum(predicted.volumes["L3"].values())
    if plan.reads_panels or not moved:
        return 0.0
    return predicted.seconds["L3"] * volumes["L3"]["weights"] / moved


def _exposed(resource: str, slots: int) -> float:
    """EXPOSED_OF_ANY_PLAN, where an operation takes so many slots."""
    return EXPOSED_OF_ANY_PLAN[resource] / (slots if resource in BRIDGED else 1)


def _waited_for(resource: str, volumes: Mapping[str, float]) -> float:
    """Bytes that a core waits for, of those that a resource moves: output that goes back from one
    cache to another does so while others are read."""
    returned = volumes["output"] * (1 - 1 / OUTPUT_PASSES) if resource != "DRAM" else 0.0
    return sum(volumes.values()) - returned


def _packed_again_seconds(
    problem: Problem, machine: Machine, plan: Plan, predicted: Prediction
) -> float:
    """Seconds that the prediction for a plan on one core counts too much for weights that are
    packed again: their rows come from a cache then, and take PACK_CYCLES. The objective counts all
    of them alike, as good plans hardly pack any weight twice. (Measured on Zen 4 with weights that
    are packed at L1 up to 56 times: 2 to 3 cycles for a row of 16, 4 for one of 24, 6 to 8 for one
    of 32. Sampled plans of Table 1 with channels last ask for the same.)"""
    kernel, place = plan.microkernel, plan.packing
    if place == "none" or packing_way(problem, kernel, problem.extents) != "vectors":
        return 0.0
    element = problem.weights.element.size
    packed = predicted.volumes["L1"].get("packing", 0.0) / (PACK_PASSES * element)
    again = packed - problem.points(problem.weights.dims)
    more = pack_cycles(problem, kernel, place) - PACK_CYCLES[place]
    return max(0.0, again) * more / (1e9 * machine.frequency)
