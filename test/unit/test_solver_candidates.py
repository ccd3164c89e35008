"""`candidates`: plans that are near the best, and unlike each other."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import log

import pytest
from problems import tile_bytes

from mopt_mlir import UserError
from mopt_mlir.machine import by_name, resolve
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import Plan
from mopt_mlir.problem import conv2d
from mopt_mlir.solver import candidates, solve

PROBLEM, MACHINE = conv2d(k=128, h=28, w=28, c=128, r=3, s=3), by_name("znver5")


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, ...]:
    return candidates(PROBLEM, MACHINE, 2, 5)


def test_all_are_near_the_best_which_is_the_first(plans: tuple[Plan, ...]) -> None:
    best = solve(PROBLEM, MACHINE, 2)
    assert plans[0] == best
    assert best.prediction is not None
    for plan in plans:
        plan.check(PROBLEM)
        assert plan.prediction is not None
        assert plan.prediction.cost == predict(PROBLEM, MACHINE, plan).cost
        assert plan.prediction.cost <= best.prediction.cost * 1.05
        assert plan.prediction.lower_bound == best.prediction.lower_bound
        for level in plan.levels:
            assert tile_bytes(PROBLEM, level.tile) <= 0.75 * MACHINE.cache(level.name).size


def test_no_two_are_alike(plans: tuple[Plan, ...]) -> None:
    assert len(plans) == 5
    assert all(a != b for a, b in combinations(plans, 2))


def test_each_is_far_from_those_before_it_and_cheap(plans: tuple[Plan, ...]) -> None:
    """The least distance to an earlier one, times how much less than 5% it costs, falls from plan
    to plan."""
    least = [min(apart(plan, other) for other in plans[:n]) for n, plan in enumerate(plans) if n]
    left = [0.05 - above_best(plan, plans) for plan in plans[1:]]
    worth = [far * cheap for far, cheap in zip(least, left, strict=True)]
    assert all(less <= more + 1e-6 for more, less in pairwise(worth))
    assert max(above_best(plan, plans) for plan in plans) < 0.03


def above_best(plan: Plan, plans: tuple[Plan, ...]) -> float:
    assert plan.prediction is not None
    assert plans[0].prediction is not None
    return plan.prediction.cost / plans[0].prediction.cost - 1


def apart(a: Plan, b: Plan) -> float:
    """In the logarithms of sizes and in decisions; a core's ways count as sizes do."""
    names = PROBLEM.names
    total = sum(
        log(x.tile[dim] / y.tile[dim]) ** 2
        for x, y in zip(a.levels, b.levels, strict=True)
        for dim in names
    )
    for dim in names:
        total += log(a.microkernel.extent(dim) / b.microkernel.extent(dim)) ** 2
        total += log(a.parallel.get(dim, 1) / b.parallel.get(dim, 1)) ** 2
    total += sum(x.order != y.order for x, y in zip(a.levels, b.levels, strict=True))
    total += (a.packing != b.packing) + 2 * (a.microkernel.lanes != b.microkernel.lanes)
    return float(total**0.5)


def test_more_are_not_made_up() -> None:
    few = candidates(conv2d(k=1, h=1, w=1, c=1, r=1, s=1), MACHINE, count=50)
    assert len({str(plan) for plan in few}) == len(few) < 10
    assert candidates(PROBLEM, MACHINE, count=1) == (solve(PROBLEM, MACHINE),)
    with pytest.raises(ValueError, match="count is 0; at least one candidate is needed"):
        candidates(PROBLEM, MACHINE, count=0)


def test_machines_have_names() -> None:
    problem = conv2d(k=1, h=1, w=1, c=1, r=1, s=1)
    named = "znver5,L2.size=524288"
    assert candidates(problem, named) == candidates(problem, resolve(named))
    with pytest.raises(UserError, match=r"unknown machine 'znver55'; did you mean 'znver5'\?"):
        candidates(problem, "znver55")
