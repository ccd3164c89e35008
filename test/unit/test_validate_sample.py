"""Drawn plans: legal, different, spread, and the same for the same seed."""

import pytest

from benchmarks.validation.sample import sample_plans, subjects
from mopt_mlir import conv2d
from mopt_mlir.machine import by_name
from mopt_mlir.model.classes import permutation_classes
from mopt_mlir.model.footprint import footprint
from mopt_mlir.plan import LEVELS

PROBLEM = conv2d(k=64, h=28, w=28, c=48, r=3, s=3)
MACHINE = by_name("znver5")


@pytest.fixture(scope="module")
def plans():
    return sample_plans(PROBLEM, MACHINE, 60, 7)


def test_plans_are_legal_and_different(plans):
    assert len(plans) == len(set(map(repr, plans))) == 60
    for plan in plans:
        plan.check(PROBLEM)


def test_tiles_fit_into_their_caches(plans):
    for plan in plans:
        for level in plan.levels:
            bytes_ = sum(4 * footprint(PROBLEM, t, level.tile) for t in PROBLEM.tensors)
            assert bytes_ <= MACHINE.cache(level.name).size


def test_prefetches_go_where_the_machine_says(plans):
    assert {plan.prefetch for plan in plans} == {"L1"}
    assert {p.prefetch for p in sample_plans(PROBLEM, by_name("znver4"), 3, 7)} == {"L2"}


def test_every_kind_of_plan_is_drawn(plans):
    assert {plan.packing for plan in plans} == {"none", "whole", *LEVELS}
    orders = {class_.order for class_ in permutation_classes(PROBLEM)}
    for index in range(len(LEVELS)):
        assert {plan.levels[index].order for plan in plans} == orders
    assert len({str(plan.microkernel) for plan in plans}) > 30


def test_weights_that_need_not_be_packed_are_half_of_the_time():
    rows = conv2d(k=64, h=28, w=28, c=48, r=3, s=3, layout="nhwc", weights="hwcf")
    found = [plan.packing for plan in sample_plans(rows, MACHINE, 200, 0)]
    assert 80 < found.count("none") < 120
    assert all(found.count(place) > 10 for place in ("whole", *LEVELS))


def test_tilings_that_fit_are_equally_likely():
    """All do here, so that the middle one of three sizes is in the lower half as often as not."""
    small = conv2d(k=4, h=4, w=4, c=24, r=1, s=1)
    found = sample_plans(small, MACHINE, 400, 0)
    low = sum(plan.levels[1].tile["c"] <= 12 for plan in found)
    assert 0.4 < low / len(found) < 0.6
    for level, (least, most) in enumerate(((1, 24), (2, 23), (1, 22))):
        sizes = {plan.levels[level].tile["c"] for plan in found}
        assert min(sizes) <= least + 6
        assert max(sizes) >= most - 6


def test_a_longer_sample_continues_a_shorter_one(plans):
    assert sample_plans(PROBLEM, MACHINE, 10, 7) == plans[:10]
    assert sample_plans(PROBLEM, MACHINE, 10, 8) != plans[:10]


def test_outputs_that_caches_cannot_hold_are_streamed_only_where_written_once():
    large = conv2d(k=256, h=224, w=224, c=3, r=1, s=1, layout="nhwc", weights="hwcf")
    found = sample_plans(large, MACHINE, 80, 0)
    streamed = [plan for plan in found if plan.nontemporal]
    assert 0 < len(streamed) < len(found)
    assert all(plan.levels[1].tile["c"] == 3 for plan in streamed)


def test_the_models_own_plan_comes_first():
    roles = [subject.role for subject in subjects("x", PROBLEM, MACHINE, 3, 0)]
    assert roles[0] == "own"
    assert roles[-3:] == ["sample"] * 3
    assert set(roles[1:-3]) == {"candidate"}
