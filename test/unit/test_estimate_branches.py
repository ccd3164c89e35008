"""Loops around register tiles, against a walk through all of them."""

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.validation.sample import sample_plans
from mopt_mlir import conv2d
from mopt_mlir.estimate import estimate
from mopt_mlir.estimate.branches import MISPREDICTION_CYCLES, misprediction_cycles, mispredictions
from mopt_mlir.machine import by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.plan import Level, Plan

MACHINE = by_name("znver5")
PROBLEMS = {
    "3x3": conv2d(k=48, h=10, w=27, c=13, r=3, s=3),
    "1x1": conv2d(k=40, h=7, w=9, c=50, r=1, s=1),
    "stride": conv2d(k=32, h=9, w=15, c=6, r=3, s=3, stride=2),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_loops_are_mispredicted_that_do_not_run_as_often_as_most(name):
    problem, found = PROBLEMS[name], []
    for plan in sample_plans(problem, MACHINE, 40, 5):
        loops = walk(problem, plan)
        expected = sum(runs.total() - max(runs.values()) for runs in loops.values())
        assert mispredictions(problem, plan) == pytest.approx(expected)
        found.append(expected)
    assert len(set(found)) > 5


def walk(problem, plan):
    """How often each loop around register tiles runs how many times, one run after the other."""
    units = {dim: plan.microkernel.extent(dim) for dim in problem.parallel_dims}
    loops = [(dim, level.tile[dim]) for level in plan.levels for dim in level.order]
    loops += [(dim, units[dim]) for dim in problem.parallel_dims]
    found: dict[int, Counter] = {}

    def run(at, sizes):
        if at == len(loops):
            return
        dim, step = loops[at]
        starts = range(0, sizes[dim], step)
        found.setdefault(at, Counter())[len(starts)] += 1
        for start in starts:
            run(at + 1, {**sizes, dim: min(step, sizes[dim] - start)})

    run(0, dict(problem.extents))
    return found


def cut(**tile: int) -> Plan:
    """48 channels in register tiles of 16, rows of 24 pixels in register tiles of 4."""
    whole = {"n": 1, "k": 48, "h": 10, "w": 24, "c": 8, "r": 3, "s": 3}
    levels = (
        Level("L3", tuple("nkhwcrs"), whole),
        Level("L2", tuple("nkhwcrs"), whole),
        Level("L1", tuple("nkhwcrs"), {**whole, **tile}),
    )
    kernel = Microkernel("k", 16, {"k": 16, "w": 4}, tuple("crs"))
    return Plan("znver5", 1, kernel, levels)


@pytest.mark.parametrize(
    ("tile", "expected"),
    [
        ({}, 0),
        ({"w": 12}, 0),  # two equal halves of a row
        ({"w": 16}, 30),  # 4 register tiles, then 2, for 3 groups of channels in 10 rows
        ({"k": 32}, 1),  # two groups of channels, then one
        ({"k": 32, "h": 1, "w": 16}, 50),  # 20 of 40 loops over channels, 30 of 60 over pixels
        ({"c": 5, "w": 12}, 0),  # reductions are not around register tiles
    ],
)
def test_unequal_parts_are_what_is_not_foreseen(tile, expected):
    problem = conv2d(k=48, h=10, w=24, c=8, r=3, s=3)
    assert mispredictions(problem, cut(**tile)) == expected


def test_each_costs_what_the_machine_says():
    problem, plan = conv2d(k=48, h=10, w=24, c=8, r=3, s=3), cut(w=16)
    assert misprediction_cycles(problem, MACHINE, plan) == 30 * MISPREDICTION_CYCLES
    slow = replace(MACHINE, misprediction_cycles=20.0)
    assert misprediction_cycles(problem, slow, plan) == 30 * 20
    times = [estimate(problem, machine, plan).seconds["compute"] for machine in (MACHINE, slow)]
    more = 30 * (20 - MISPREDICTION_CYCLES) / (1e9 * MACHINE.frequency)
    assert times[1] - times[0] == pytest.approx(more)


@pytest.mark.parametrize(
    ("rows", "measured"),
    [
        ((27, 27, 9), 0.0),
        ((27, 18, 6), 4.9),
        ((27, 15, 6), 4.2),
        ((18, 18, 9), 3.5),
        ((18, 18, 6), 3.1),
        ((18, 15, 15), 4.1),
    ],
)
def test_rows_in_unequal_parts_take_longer(rows, measured):
    """Cycles per visit of a register tile, beyond those with equal parts, on a Zen 4 with 256 bits
    and warm caches: tiles of L3, L2 and L1 that cut a row of 27 pixels."""
    problem, machine = conv2d(k=120, h=28, w=27, c=128, r=3, s=3), by_name("znver4")
    whole = {"n": 1, "k": 120, "h": 28, "w": 27, "c": 128, "r": 3, "s": 3}
    l3, l2, l1 = rows
    levels = (
        Level("L3", tuple("nhwcsrk"), {**whole, "w": l3}),
        Level("L2", tuple("nkcrshw"), {**whole, "k": 24, "h": 4, "w": l2}),
        Level("L1", tuple("nkcrshw"), {**whole, "k": 24, "h": 1, "w": l1, "c": 16, "r": 1, "s": 1}),
    )
    kernel = Microkernel("k", 8, {"k": 24, "w": 3}, tuple("crs"))
    plan = Plan("znver4", 1, kernel, levels)
    visits = (120 // 24) * 28 * (27 // 3) * (128 // 16) * 3 * 3
    assert misprediction_cycles(problem, machine, plan) / visits == pytest.approx(measured, abs=1.9)
