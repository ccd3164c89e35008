"""Plans: to and from plain data, and what does not fit a problem is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mopt_mlir.plan import Level, Microkernel, Plan, Prediction
from mopt_mlir.problem import conv2d

PROBLEM = conv2d(k=64, h=28, w=30, c=16, r=3, s=3)
ORDER = PROBLEM.names
TILE = {"n": 1, "k": 32, "h": 28, "w": 28, "c": 16, "r": 3, "s": 3}
KERNEL = Microkernel("k", 16, {"k": 32, "w": 14}, ("c", "r", "s"))
PLAN = Plan("znver5", 2, KERNEL, (Level("L3", ORDER, TILE), Level("L1", ORDER, {**TILE, "h": 4})))


def test_round_trip() -> None:
    predicted = Prediction(
        {"compute": 0.5}, {"L1": {"input": 8.0}}, {"L1": "w"}, "compute", 0.5, 0.25
    )
    plan = replace(PLAN, parallel={"h": 2}, packing="L1", prediction=predicted)
    assert Plan.from_dict(plan.as_dict()) == plan
    assert plan.as_dict()["prediction"]["gap"] == 1.0


def test_a_share_of_the_outermost_tile_is_whole_register_tiles() -> None:
    plan = replace(PLAN, parallel={"w": 2, "h": 2})
    assert plan.core_tile("w", 30) == 14
    assert plan.core_tile("h", 28) == 14
    assert plan.core_tile("k", 64) == 32


def tile(**sizes: int) -> dict[str, Any]:
    return {"levels": (Level("L1", ORDER, {**TILE, **sizes}),)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"microkernel": replace(KERNEL, lanes="c")}, "lanes is 'c', not an output dim"),
        ({"microkernel": replace(KERNEL, tile={"k": 24})}, "24 is not a multiple of the vector"),
        ({"microkernel": replace(KERNEL, tile={"k": 16, "c": 2})}, "tile names 'c'"),
        ({"microkernel": replace(KERNEL, tile={"k": 16, "w": 0})}, "is not positive"),
        ({"microkernel": replace(KERNEL, reduction=("c", "r"))}, "must order c, r, s"),
        ({"threads": 0}, "threads = 0 is not positive"),
        ({"microkernel": replace(KERNEL, vector=12, tile={"k": 12})}, "12 is not a power of two"),
        ({"microkernel": replace(KERNEL, vector=32)}, "32 is not a power of two up to 16"),
        ({"microkernel": replace(KERNEL, tile={"k": 16, "w": 65})}, "needs 65 accumulators"),
        ({"packing": "none"}, "packing is 'none', but 'k' is not contiguous in the weights"),
        ({"nontemporal": True}, "nontemporal stores need whole vectors of 'k'"),
        ({"packing": "L2"}, "packing at L2, which is not a level"),
        ({"packing": "disk"}, "packing is 'disk', not one of"),
        ({"parallel": {"c": 2}}, "parallel names 'c'"),
        ({"parallel": {"h": 3}}, "parallel needs more than threads = 2"),
        (tile(h=29), r"L1.tile\[h\] = 29 is not in \[1, 28\]"),
        (tile(h=0), r"L1.tile\[h\] = 0 is not positive"),
        (tile(w=15), "nor a multiple of the register tile's 14"),
        ({"levels": (Level("L1", ORDER[1:], TILE),)}, "L1.order must name each of"),
        ({"levels": (Level("L4", ORDER, TILE),)}, "levels must be a subset of"),
        ({"levels": PLAN.levels[::-1]}, "levels must be a subset of L3, L2, L1 in that order"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change).check(PROBLEM)


def test_a_plan_that_fits() -> None:
    PLAN.check(PROBLEM)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "the plan lacks"),
        ({**PLAN.as_dict(), "levels": 3}, "the plan is malformed"),
        ({**PLAN.as_dict(), "threads": "two"}, "'two' is not an integer"),
    ],
)
def test_malformed_data(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan.from_dict(data)
