"""What is expected of any plan: of a good one nearly what the solver minimised, of a bad one more,
and less than its tiles say."""

from dataclasses import replace

import pytest

from benchmarks.validation.sample import sample_plans
from mopt_mlir import conv2d
from mopt_mlir.estimate.branches import misprediction_cycles
from mopt_mlir.estimate.residency import evicted_again
from mopt_mlir.estimate.times import EXPOSED_OF_ANY_PLAN, estimate
from mopt_mlir.estimate.visits import Visits
from mopt_mlir.machine import by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import predict, sums_seconds
from mopt_mlir.model.footprint import output_runs
from mopt_mlir.model.menu import reduction_order
from mopt_mlir.model.packing import ELEMENT_CYCLES, PACK_CYCLES
from mopt_mlir.model.rates import RUN_SECONDS
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.solver import solve

MACHINE = by_name("znver5")
PROBLEMS = {
    "3x3": conv2d(k=64, h=28, w=28, c=64, r=3, s=3),
    "1x1": conv2d(k=128, h=14, w=14, c=256, r=1, s=1),
    "stride": conv2d(k=64, h=14, w=14, c=64, r=3, s=3, stride=2),
}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def test_no_sampled_plan_is_expected_to_beat_the_solvers(problem):
    own = estimate(problem, MACHINE, solve(problem, MACHINE)).cost
    for plan in sample_plans(problem, MACHINE, 60, 3):
        assert estimate(problem, MACHINE, plan).cost > 0.98 * own


def test_input_moves_at_most_what_tiles_say(problem):
    for plan in sample_plans(problem, MACHINE, 20, 4):
        predicted, expected = (of(problem, MACHINE, plan) for of in (predict, estimate))
        for resource in ("L3", "DRAM"):
            assert expected.volumes[resource]["input"] <= predicted.volumes[resource]["input"]


def test_output_that_returns_from_a_cache_is_not_waited_for(problem):
    """Weights and input at the cache's bandwidth, and one of the two passes of output."""
    for plan in sample_plans(problem, MACHINE, 20, 6):
        expected = estimate(problem, MACHINE, plan)
        for name in ("L2", "L3"):
            moved = expected.volumes[name]
            waited = sum(moved.values()) - moved["output"] / 2
            bandwidth = 1e9 * MACHINE.cache(name).bandwidth
            assert expected.seconds[name] == pytest.approx(waited / bandwidth)


def test_short_visits_compute_faster_than_one_after_the_other(problem):
    """Loops that do not run equally often are another matter, which the solver does not count."""
    plans = [
        plan
        for plan in sample_plans(problem, MACHINE, 40, 7)
        if not Visits.of(problem, plan, 1, MACHINE.cache("L1")).irregular
    ]
    assert len(plans) >= 10
    for plan in plans:
        one_by_one = predict(problem, MACHINE, plan).seconds["compute"]
        unforeseen = misprediction_cycles(problem, MACHINE, plan) / (1e9 * MACHINE.frequency)
        assert estimate(problem, MACHINE, plan).seconds["compute"] - unforeseen < one_by_one


def test_the_slowest_resource_counts_once_and_a_part_of_each_besides(problem):
    plan = solve(problem, MACHINE)
    seconds = estimate(problem, MACHINE, plan).seconds
    core = seconds["compute"] + seconds["packing"]
    caches = {name: seconds[name] for name in ("L1", "L2", "L3", "DRAM")}
    part = EXPOSED_OF_ANY_PLAN["core"] * core + sum(
        EXPOSED_OF_ANY_PLAN[name] * caches[name] for name in caches
    )
    assert estimate(problem, MACHINE, plan).cost == pytest.approx(
        max(core, *caches.values()) + part
    )


def test_memory_counts_once_for_the_first_block_that_is_packed():
    """As a part of the time of DRAM, which the objective lets overlap."""
    problem = PROBLEMS["3x3"]
    plans = [plan for plan in sample_plans(problem, MACHINE, 40, 8) if plan.packing == "whole"]
    assert plans
    for plan in plans:
        packing = PACK_CYCLES["whole"] * 64 * 64 * 9 / (1e9 * MACHINE.frequency)
        assert estimate(problem, MACHINE, plan).seconds["packing"] == pytest.approx(packing)
        assert predict(problem, MACHINE, plan).seconds["packing"] > 1.3 * packing


@pytest.mark.parametrize(
    ("layout", "weights", "again"),
    [
        ("nhwc", "hwcf", PACK_CYCLES["L1"]),  # rows of output channels
        ("nchw", "fchw", PACK_CYCLES["L1"]),  # transposed
        ("nchw", "fhwc", ELEMENT_CYCLES),  # one by one
    ],
)
def test_rows_of_channels_that_are_packed_again_take_what_other_weights_do(layout, weights, again):
    """By what one more time takes: all of them are packed once for each part of the rows."""
    problem = conv2d(k=32, h=8, w=8, c=16, r=3, s=3, layout=layout, weights=weights)
    kernel = Microkernel("k", 16, {"k": 16, "w": 8}, reduction_order(problem))

    def packing(rows: int) -> float:
        tiles = {"L3": {}, "L2": {"h": rows}, "L1": {"h": rows, "k": 16}}
        levels = tuple(
            Level(name, ("n", "h", "w", "k", "c", "r", "s"), {**problem.extents, **tiles[name]})
            for name in LEVELS
        )
        plan = Plan(MACHINE.name, 1, kernel, levels, {}, "L1")
        return estimate(problem, MACHINE, plan).seconds["packing"] * 1e9 * MACHINE.frequency

    assert packing(2) - packing(4) == pytest.approx(2 * 32 * 16 * 9 * again)
    assert packing(1) - packing(2) == pytest.approx(4 * 32 * 16 * 9 * again)


def test_only_plans_for_one_core(problem):
    with pytest.raises(ValueError, match="for one core"):
        estimate(problem, MACHINE, solve(problem, MACHINE, threads=2))


def test_runs_of_output_take_as_long_whatever_the_volumes(problem):
    for plan in sample_plans(problem, MACHINE, 20, 5):
        predicted, expected = (of(problem, MACHINE, plan) for of in (predict, estimate))
        before, after = (sum(p.volumes["DRAM"].values()) for p in (predicted, expected))
        runs = RUN_SECONDS * output_runs(problem, plan.levels[-1].tile)
        sums = sums_seconds(problem, MACHINE, plan)  # volumes have them
        moved = (predicted.seconds["DRAM"] - runs - sums) * after / before
        assert expected.seconds["DRAM"] == pytest.approx(moved + runs)


def test_lines_that_a_register_tile_evicts_of_itself_count_once():
    """In its cycles: the volume from L2 has them as well, but nothing waits for it."""
    problem = conv2d(k=20, h=4, w=16, c=1024, r=1, s=1)  # rows of weights of 4 KiB
    kernel = Microkernel("w", 16, {"w": 16, "k": 20}, ("c", "r", "s"))
    levels = tuple(Level(name, problem.names, problem.extents) for name in LEVELS)
    expected = estimate(problem, MACHINE, Plan("znver5", 1, kernel, levels, {}, "none"))
    name, again = evicted_again(problem, MACHINE, Plan("znver5", 1, kernel, levels, {}, "none"))
    moved = expected.volumes["L2"]
    assert name == "weights"
    assert moved["weights"] > again > 0.9 * moved["weights"]
    waited = sum(moved.values()) - moved["output"] / 2 - again
    assert expected.seconds["L2"] == pytest.approx(waited / (1e9 * MACHINE.cache("L2").bandwidth))


@pytest.mark.parametrize(("bits", "slots"), [(512, 2), (256, 1)])
def test_near_caches_hide_behind_operations_of_several_slots(bits, slots):
    """By the seconds that it tells, what comes on top of the slowest: of L2 and L3 by so many times
    less as an operation takes slots on Zen 4, of the others as ever."""
    machine = by_name("znver4").with_field("vector_bits", bits)
    problem = conv2d(k=64, h=14, w=14, c=64, r=3, s=3)
    found = estimate(problem, machine, solve(problem, machine))
    core = found.seconds["compute"] + found.seconds["packing"]
    busy = {"core": core, **{name: found.seconds[name] for name in ("L1", "L2", "L3", "DRAM")}}
    near = sum(EXPOSED_OF_ANY_PLAN[name] * busy[name] for name in ("L2", "L3"))
    other = sum(EXPOSED_OF_ANY_PLAN[name] * busy[name] for name in ("core", "L1", "DRAM"))
    assert found.cost == pytest.approx(max(busy.values()) + near / slots + other)
    assert near > 0.02 * found.cost


@pytest.mark.parametrize(
    ("weights", "slots", "waits"),
    [("fchw", 1, 1.0), ("fchw", 2, 1.0), ("hwcf", 1, 1.0), ("hwcf", 2, 0.25)],
)
def test_rows_of_weights_that_come_from_l3_in_place_wait_longer(weights, slots, waits):
    """Weights of 4 MB do not fit into L2: where each register tile of pixels reads all of them in
    place, what comes on top of the slowest resource has their time from L3 once more; a quarter of
    it if they run along the output channels and operations take two slots."""
    problem = conv2d(k=1024, h=14, w=16, c=1024, r=1, s=1, weights=weights)
    machine = replace(MACHINE, unit_bits=512 // slots)
    kernel = Microkernel("w", 16, {"w": 16, "k": 8}, ("c",))
    whole = dict(problem.extents)
    tiles = (whole, {**whole, "k": 64, "c": 256}, {**whole, "k": 8, "h": 1, "c": 64})
    levels = tuple(
        Level(name, ("n", "h", "w", "k", "c", "r", "s"), tile)
        for name, tile in zip(LEVELS, tiles, strict=True)
    )
    plan = Plan("znver5", 1, kernel, levels, packing="none")
    found = estimate(problem, machine, plan)
    names = ("L1", "L2", "L3", "DRAM")
    busy = {"core": found.seconds["compute"], **{name: found.seconds[name] for name in names}}
    hidden = {"L2": slots, "L3": slots}
    on_top = sum(EXPOSED_OF_ANY_PLAN[name] * busy[name] / hidden.get(name, 1) for name in busy)
    rows = found.volumes["L3"]["weights"] / (1e9 * machine.cache("L3").bandwidth)
    assert found.cost == pytest.approx(max(busy.values()) + on_top + waits * rows)
    assert found.volumes["L3"]["weights"] >= 4 << 20
    assert rows > 0.005 * found.cost
