"""What caches keep beyond their tiles: everything where all fits, nothing where tiles fill them."""

from math import prod

import pytest

from mopt_mlir import conv2d, solve
from mopt_mlir.machine import by_name
from mopt_mlir.model.cost import FILLED_FROM, predict
from mopt_mlir.model.residency import resident_volumes
from mopt_mlir.plan import LEVELS, Level, Microkernel, Plan

MACHINE = by_name("haswell")
PROBLEM = conv2d(k=32, h=12, w=12, c=16, r=3, s=3)
ORDER = ("n", "c", "r", "s", "k", "h", "w")


def plan_with(tiles, problem=PROBLEM, order=ORDER, parallel=None):
    kernel = Microkernel("k", 8, {"k": 16, "w": 6}, ("c", "r", "s"))
    levels = tuple(
        Level(name, order, {**problem.extents, **tile})
        for name, tile in zip(LEVELS, tiles, strict=True)
    )
    plan = Plan("haswell", 2 if parallel else 1, kernel, levels, parallel or {}, "whole")
    plan.check(problem)
    return plan


def resident(plan, problem=PROBLEM):
    return resident_volumes(problem, MACHINE, plan, predict(problem, MACHINE, plan))


def compulsory(tensor, problem=PROBLEM):
    axes = (1 + sum(c * (problem.extent(d) - 1) for d, c in axis.terms) for axis in tensor.axes)
    return tensor.element.size * prod(axes)


TINY = {"k": 16, "h": 1, "w": 6, "c": 2, "r": 1, "s": 1}


def test_what_fits_into_a_cache_enters_it_once():
    plan = plan_with([TINY] * 3)
    found, predicted = resident(plan), predict(PROBLEM, MACHINE, plan).volumes
    assert predicted["DRAM"]["output"] > 2 * compulsory(PROBLEM.output)  # as there are tiles of c
    for resource in ("L3", "DRAM"):
        assert found[resource]["input"] == pytest.approx(compulsory(PROBLEM.input), rel=0.2)
        assert found[resource]["weights"] == compulsory(PROBLEM.weights)
        assert found[resource]["output"] == 2 * compulsory(PROBLEM.output)


def test_packing_and_registers_stay_as_they_were():
    plan = plan_with([TINY] * 3)
    predicted, found = predict(PROBLEM, MACHINE, plan).volumes, resident(plan)
    assert found["L1"] == predicted["L1"]
    assert [v.get("packing") for v in found.values()] == [
        v.get("packing") for v in predicted.values()
    ]


def test_whole_tiles_move_what_they_did():
    plan = plan_with([{}] * 3)
    assert resident(plan) == predict(PROBLEM, MACHINE, plan).volumes


def test_nothing_ever_moves_more():
    problem = conv2d(k=64, h=28, w=28, c=64, r=3, s=3, stride=2)
    small = {"k": 32, "c": 8}
    for tiles in ([small, {**small, "h": 7}, TINY], [{}, {"c": 4}, {"c": 4, "h": 2}]):
        plan = plan_with(tiles, problem)
        predicted, found = predict(problem, MACHINE, plan).volumes, resident(plan, problem)
        for resource in FILLED_FROM.values():
            for tensor, amount in found[resource].items():
                assert amount <= predicted[resource][tensor]


def test_the_optimum_fills_its_caches():
    problem = conv2d(k=512, h=28, w=28, c=512, r=3, s=3)
    plan = solve(problem, MACHINE)
    predicted = predict(problem, MACHINE, plan).volumes
    found = resident(plan, problem)
    slowest = max(FILLED_FROM.values(), key=lambda r: plan.prediction.seconds[r])
    before, after = sum(predicted[slowest].values()), sum(found[slowest].values())
    assert after == pytest.approx(before, rel=0.15)


def test_several_cores_are_refused():
    plan = plan_with([{}, {"k": 16}, {"k": 16}], parallel={"k": 2})
    with pytest.raises(ValueError, match="for one core"):
        resident(plan)


ZEN5 = by_name("znver5")


def volumes_from_l2(problem, kernel, orders, tiles, packing):
    levels = tuple(
        Level(name, order, {**problem.extents, **tile})
        for name, order, tile in zip(LEVELS, orders, tiles, strict=True)
    )
    plan = Plan("znver5", 1, kernel, levels, {}, packing)
    plan.check(problem)
    return resident_volumes(problem, ZEN5, plan, predict(problem, ZEN5, plan))["L2"]


def test_lines_that_evict_each_other_come_again_in_each_step():
    """Rows of 4 KiB all begin in the same of the 64 sets of L1, which has 12 ways."""

    def weights(rows):
        problem = conv2d(k=20, h=4, w=4, c=1024, r=1, s=1)
        kernel = Microkernel("w", 16, {"w": 16, "k": rows}, ("c", "r", "s"))
        order = problem.names
        return volumes_from_l2(problem, kernel, [order] * 3, [{}] * 3, "none")["weights"]

    tiles = 4 * 1  # rows of four pixels each
    assert weights(20) >= tiles * 1024 * 20 * 64
    assert weights(10) < weights(20) / 4


def test_sums_between_visits_have_no_gaps():
    """Rows of two pixels: in the output each has a line of its own, as sums eight share one."""
    problem = conv2d(k=64, h=16, w=32, c=16, r=1, s=1)
    kernel = Microkernel("k", 16, {"k": 32, "w": 2}, ("c", "r", "s"))
    order = ("n", "r", "s", "c", "w", "h", "k")
    tiles = [{}, {}, {"k": 32, "h": 16, "w": 2, "c": 4}]
    moved = volumes_from_l2(problem, kernel, [order] * 3, tiles, "whole")["output"]
    assert moved == pytest.approx(2 * 4 * (64 * 16 * 32) * 4)  # both ways, bytes, pixels, visits


def test_taps_of_short_rows_share_lines():
    """One of nine taps at a time: a line holds those of more than one channel."""
    problem = conv2d(k=64, h=16, w=64, c=64, r=3, s=3)
    kernel = Microkernel("w", 16, {"w": 64, "k": 4}, ("c", "r", "s"))
    order = ("n", "k", "r", "s", "h", "w", "c")
    tiles = [{}, {}, {"k": 64, "h": 1, "w": 64, "r": 1, "s": 1}]
    moved = volumes_from_l2(problem, kernel, [order] * 3, tiles, "none")["weights"]
    lines = 64 * (64 * 9 / 16)  # of all taps
    assert moved == pytest.approx(lines * 64 * 9, rel=0.05)
