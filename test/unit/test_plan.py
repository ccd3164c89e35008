"""Plans: to and from plain data, and what does not fit a problem is named."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from mopt_mlir.microkernel import Microkernel
from mopt_mlir.plan import Level, Plan, Prediction
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


def test_a_share_is_not_more_than_the_tile() -> None:
    """Of ten pixels and vectors of sixteen a single core has all."""
    problem = conv2d(k=64, h=28, w=10, c=16, r=3, s=3)
    outer = {**problem.extents, "k": 32}
    kernel = Microkernel("w", 16, {"w": 16, "k": 4}, ("c", "r", "s"))

    def plan(inner: dict[str, int]) -> Plan:
        levels = Level("L3", ORDER, outer), Level("L1", ORDER, {**outer, **inner})
        return Plan("znver5", 2, kernel, levels, {"w": 2})

    assert plan({}).core_tile("w", 10) == 10
    plan({}).check(problem)
    with pytest.raises(ValueError, match=r"L1.tile\[w\] = 16 is not in \[1, 10\]"):
        plan({"w": 16}).check(problem)


def tile(**sizes: int) -> dict[str, Any]:
    return {"levels": (Level("L1", ORDER, {**TILE, **sizes}),)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"microkernel": replace(KERNEL, lanes="c")}, "lanes is 'c', not an output dim"),
        ({"microkernel": replace(KERNEL, tile={"k": 24})}, "24 is not a multiple of the vector"),
        ({"microkernel": replace(KERNEL, tile={"k": 16, "c": 2})}, "tile names 'c'"),
        ({"microkernel": replace(KERNEL, vector=1, tile={"w": 7})}, "tile lacks 'k', along which"),
        ({"microkernel": replace(KERNEL, tile={"k": 16, "w": 0})}, "is not positive"),
        ({"microkernel": replace(KERNEL, reduction=("c", "r"))}, "must order c, r, s"),
        ({"threads": 0}, "threads = 0 is not positive"),
        ({"microkernel": replace(KERNEL, vector=12, tile={"k": 12})}, "12 is not a power of two"),
        ({"microkernel": replace(KERNEL, vector=32)}, "32 is not a power of two up to 16"),
        ({"microkernel": replace(KERNEL, tile={"k": 16, "w": 65})}, "needs 65 accumulators"),
        ({"packing": "none"}, "packing is 'none', but 'k' is not contiguous in the weights"),
        ({"nontemporal": True}, "nontemporal stores need whole vectors of 'k'"),
        ({"prefetch": "L3"}, "prefetch is 'L3', not one of L1, L2, both"),
        ({"packing": "L2"}, "packing at L2, which is not a level"),
        ({"packing": "disk"}, "packing is 'disk', not one of"),
        ({"parallel": {"c": 2}}, "parallel names 'c'"),
        ({"parallel": {"h": 3}}, "parallel needs more than threads = 2"),
        (tile(h=29), r"L1.tile\[h\] = 29 is not in \[1, 28\]: the operation has 28"),
        ({"parallel": {"w": 2}}, r"w\] = 28 .* \[1, 14\]: a core's share of the tile of L3 has 14"),
        (
            {"levels": (PLAN.levels[1], Level("L1", ORDER, TILE))},
            "levels must be a subset of",
        ),
        (
            {"levels": (Level("L2", ORDER, {**TILE, "h": 4}), Level("L1", ORDER, TILE))},
            r"L1.tile\[h\] = 28 is not in \[1, 4\]: the tile of L2 has 4",
        ),
        (tile(h=0), r"L1.tile\[h\] = 0 is not positive"),
        (tile(w=15), "nor a multiple of the register tile's 14"),
        ({"levels": (Level("L1", ORDER[1:], TILE),)}, "L1.order must name each of"),
        ({"levels": (Level("L1", ORDER, {"k": 16, "w": 4}),)}, "L1.tile lacks n, h, c, r, s"),
        ({"levels": (Level("L4", ORDER, TILE),)}, "levels must be a subset of"),
        ({"levels": PLAN.levels[::-1]}, "levels must be a subset of L3, L2, L1 in that order"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change).check(PROBLEM)


def test_a_plan_that_fits() -> None:
    PLAN.check(PROBLEM)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The plan as plain data, with another value at `path`, or a new one."""
    predicted = Prediction(
        {"compute": 0.5}, {"L1": {"input": 8.0}}, {"L1": "w"}, "compute", 0.5, 0.25
    )
    data = replace(PLAN, prediction=predicted).as_dict()
    *places, name = path.split(".")
    inner: Any = data
    for place in places:
        inner = inner[int(place) if place.isdecimal() else place]
    inner[name] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("machine", 5, "machine = 5 is not a text"),
        ("threads", "two", "threads = 'two' is not an integer"),
        ("threads", 1.0, "threads = 1.0 is not an integer"),
        ("threads", True, "threads = True is not an integer"),
        ("packing", ["L1"], r"packing = \['L1'\] is not a text"),
        ("nontemporal", "no", "nontemporal = 'no' is neither true nor false"),
        ("nontemporal", 1, "nontemporal = 1 is neither true nor false"),
        ("prefetch", 1, "prefetch = 1 is not a text"),
        ("parallel", [2], r"parallel = \[2\] is not a dictionary"),
        ("parallel", {"k": "2"}, r"parallel\[k\] = '2' is not an integer"),
        ("levels", 3, "levels = 3 is not a list"),
        ("levels", ["L1"], r"levels\[0\] = 'L1' is not a dictionary"),
        ("levels.1.order", "nkhwcrs", r"levels\[1\].order = 'nkhwcrs' is not a list"),
        ("levels.1.order", [1], r"levels\[1\].order\[0\] = 1 is not a text"),
        ("levels.0.tile", {"k": 1.5}, r"levels\[0\].tile\[k\] = 1.5 is not an integer"),
        ("levels.0.tiles", {}, r"no field 'levels\[0\].tiles'; did you mean 'tile'\?"),
        ("microkernel", "k", "microkernel = 'k' is not a dictionary"),
        ("microkernel.vector", None, "microkernel.vector = None is not an integer"),
        ("microkernel.reduction", "crs", "microkernel.reduction = 'crs' is not a list"),
        ("microkernel.lane", "k", "no field 'microkernel.lane'; did you mean 'lanes'"),
        ("nontemproal", True, "the plan has no field 'nontemproal'; did you mean 'nontemporal'"),
        ("paralel", {"k": 2}, "the plan has no field 'paralel'; did you mean 'parallel'"),
        ("xyz", 1, "the plan has no field 'xyz'; known: machine, threads, microkernel, levels,"),
        ("prediction", None, "prediction = None is not a dictionary"),
        ("prediction.cost", "much", "prediction.cost = 'much' is not a number"),
        ("prediction.seconds", {"L1": True}, r"prediction.seconds\[L1\] = True is not a number"),
        ("prediction.volumes", {"L1": 8}, r"prediction.volumes\[L1\] = 8 is not a dictionary"),
        ("prediction.classes", {"L1": 8}, r"prediction.classes\[L1\] = 8 is not a text"),
    ],
)
def test_a_field_of_another_kind_is_named(path: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan.from_dict(changed(path, value))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("", "machine"),
        ("", "packing"),
        ("microkernel", "lanes"),
        ("prediction", "seconds"),
        ("levels[1]", "order"),
    ],
)
def test_a_field_that_is_missing_is_named(place: str, name: str) -> None:
    data = changed("prediction.gap", 1.0)
    del {"": data, "levels[1]": data["levels"][1], **data}[place][name]
    path = f"{place}.{name}" if place else name
    with pytest.raises(ValueError, match=f"the plan lacks '{re.escape(path)}'"):
        Plan.from_dict(data)


def test_fields_that_have_defaults_may_be_missing() -> None:
    data = PLAN.as_dict()
    for name in ("parallel", "nontemporal", "prefetch"):
        del data[name]
    assert Plan.from_dict(data) == PLAN


def test_a_plan_that_is_no_dictionary() -> None:
    with pytest.raises(ValueError, match="the plan is not a dictionary"):
        Plan.from_dict(3)  # type: ignore[arg-type]
