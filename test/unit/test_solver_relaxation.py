"""The program of SCIP against plain enumeration: a bound that exceeded what some plan costs would
prove a worse plan to be the best.

In a whole search the bound never exceeds the cost of the plan that was found, which is mostly the
best one: a program that is wrong would pass. Here it is on its own, with room above the best plan.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from plain_enumeration import Enumeration, One
from tiny_cases import (
    STREAMS,
    random_case,
    random_machine,
    streaming_machine,
    with_pixels_apart,
)

from mopt_mlir.machine import Machine, by_name
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver import axis_bounds, solve
from mopt_mlir.solver.axis_bounds import Listed, facets
from mopt_mlir.solver.incumbent import Incumbent
from mopt_mlir.solver.proof import EXACT, MARGIN
from mopt_mlir.solver.relaxation import Formulation, _least_from
from mopt_mlir.solver.sizes import tile_sizes, with_smaller_shares
from mopt_mlir.solver.space import Choice, choices
from mopt_mlir.solver.variables import TABLE

ROOM = 3
"""The program looks for plans up to so many times the cost of the best one."""

TABLES = (0, 4, 10**6)
"""Dims with at most so many sizes are tabulated: none, some, all."""


def check(
    problem: Problem, machine: Machine, threads: int, constant: bool, some: Sequence[Choice]
) -> None:
    """The bounds of `some` choices, each by itself and all together."""
    enumeration = Enumeration(problem, machine, threads, constant)
    best = {}
    for index, choice in enumerate(some):
        least = One(enumeration, choice.kernel, dict(choice.parallel), choice.packs).best()
        if least < inf:
            best[index] = least
    for group in (*([index] for index in best), list(best)):
        least = min((best[index] for index in group), default=inf)
        for table in TABLES if group else ():
            together = [some[index] for index in group]
            program = Formulation(problem, machine, together, least, table=table)
            found = program.solve(below=ROOM * least, time_limit=20, gap=1e-4)
            assert found.starts, "the program has no solution, and the enumeration has"
            assert 0 < found.bound <= least * (1 + 1e-9)


def test_a_proof_takes_few_nodes() -> None:
    """Here 5; 1572 if SCIP branches by inference, 8265 by its own rule."""
    problem, machine = conv2d(k=256, h=68, w=68, c=128, r=3, s=3), by_name("i7-9700k")
    plan = solve(problem, machine, gap=0.005, time_limit=60)
    assert plan.prediction is not None
    below = plan.prediction.cost / 1.005
    options = choices(problem, machine, 1, constant_weights=False)
    mine = [c for c in options if c.kernel == plan.microkernel]
    program = Formulation(problem, machine, mine, plan.prediction.cost, table=40)
    found = program.solve(below=below, time_limit=60, gap=1e-3, nodes=100)
    assert found.bound >= below * (1 - 1e-4)


def test_tiles_too_small_for_all_cores_are_not_cut_off() -> None:
    """Rows that come one at a time, of which one core of eight takes each: it brings in more of
    them than the eighth that a core covers at least."""
    problem = conv2d(k=8, h=56, w=6, c=4, r=3, s=1)
    machine = replace(by_name("haswell"), cores=8)
    options = choices(problem, machine, 8, constant_weights=True)
    split = next(choice for choice in options if choice.ways("h") == 8)
    program = Formulation(problem, machine, [split], 1.0, table=0)
    program.add(program.x["L3", "h"] <= 1e-9)
    assert program.solve(below=1.0, time_limit=20, gap=0.01).starts


@pytest.mark.parametrize("seed", [*range(40), 86, 112, 119])
def test_no_plan_costs_less_than_the_bound(seed: int) -> None:
    problem, machine, threads, constant = random_case(1000 + seed)
    options = choices(problem, machine, threads, constant_weights=constant)
    some = random.Random(3).sample(options, min(3, len(options)))
    check(problem, machine, threads, constant, some)


@pytest.mark.parametrize("roomy", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_nor_than_the_bound_by_which_its_choice_is_discarded(seed: int, roomy: bool) -> None:
    """Before SCIP sees it. It is close where caches have room for everything."""
    problem, machine, threads, constant = random_case(2000 + seed)
    if roomy:
        caches = (replace(cache, size=64 * cache.size) for cache in machine.caches)
        machine = replace(machine, caches=tuple(caches))
    enumeration = Enumeration(problem, machine, threads, constant)
    options = choices(problem, machine, threads, constant_weights=constant)
    closest = 0.0
    for choice in random.Random(7).sample(options, min(12, len(options))):
        least = One(enumeration, choice.kernel, dict(choice.parallel), choice.packs).best()
        assert choice.bound <= least * (1 + 1e-9)
        closest = max(closest, choice.bound / least)
    assert closest > 0.5 or not roomy


@pytest.fixture
def long_filters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All filters count as long."""
    known = axis_bounds.of_tile_or_more, axis_bounds.of_pieces, axis_bounds.facets_of_pieces
    monkeypatch.setattr(axis_bounds, "LONG_FILTER", 1)
    for function in known:
        function.cache_clear()
    yield
    for function in known:
        function.cache_clear()


@pytest.mark.usefixtures("long_filters")
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_nor_where_filters_are_long(seed: int, stride: int, dilation: int) -> None:
    layout, weights = [("nchw", "fchw"), ("nhwc", "hwcf")][seed % 2]
    sizes = {"k": 4, "h": 1, "w": 7, "c": 2, "r": 1, "s": 5, "stride": stride, "dilation": dilation}
    problem = conv2d(**sizes, layout=layout, weights=weights)
    rng = random.Random(seed)
    machine, threads = random_machine(rng), rng.choice([1, 2])
    options = choices(problem, machine, threads, constant_weights=True)
    check(problem, machine, threads, True, rng.sample(options, min(3, len(options))))


@pytest.mark.parametrize("place", ["whole", "L3", "L2", "L1"])
def test_nor_where_weights_are_packed_elsewhere_than_at_the_best_place(place: str) -> None:
    problem, machine = conv2d(k=8, h=2, w=4, c=4, r=1, s=1), random_machine(random.Random(4))
    enumeration = Enumeration(problem, machine, 2, False)
    options = choices(problem, machine, 2, constant_weights=False)
    packing = [choice for choice in options if choice.packs]
    some = random.Random(5).sample(packing, min(6, len(packing)))
    best = [One(enumeration, c.kernel, dict(c.parallel), True).best(place) for c in some]
    assert min(best) < inf
    for choice, least in zip(some, best, strict=True):
        for table in TABLES if least < inf else ():
            program = Formulation(problem, machine, [choice], least, table=table)
            program.add(program.place[place] >= 1)
            found = program.solve(below=ROOM * least, time_limit=20, gap=1e-4)
            assert 0 < found.bound <= least * (1 + 1e-9)


@pytest.mark.parametrize("apart", [False, True])
def test_nor_where_sums_have_to_wait(apart: bool) -> None:
    """They do not wait in rows across vectors, nor in pixels that lie far apart."""
    problem, machine = conv2d(k=8, h=2, w=2, c=8, r=1, s=1), random_machine(random.Random(4))
    if apart:
        problem = with_pixels_apart(conv2d(k=8, h=2, w=2, c=8, r=1, s=1, layout="nhwc"))
    machine = replace(machine, dram_bandwidth=0.01, dram_bandwidth_all=0.01)  # what counts most
    enumeration = Enumeration(problem, machine, 2, False)
    options = choices(problem, machine, 2, constant_weights=False)
    along = [problem.output.runs_along(choice.kernel.lanes) for choice in options]
    some = [choice for choice, one in zip(options, along, strict=True) if one is apart]
    for choice in random.Random(6).sample(some, min(6, len(some))):
        one = One(enumeration, choice.kernel, dict(choice.parallel), choice.packs)
        one.cuts["c"] = tuple(cut for cut in one.cuts["c"] if cut.sizes[1] <= 4)
        least = one.best()
        program = Formulation(problem, machine, [choice], least, table=10**6)
        program.add(program.x["L2", "c"] <= log(4) + 1e-9)
        found = program.solve(below=ROOM * least, time_limit=20, gap=1e-4)
        assert 0.9 * least < found.bound <= least * (1 + 1e-9)


@pytest.mark.parametrize("stream", STREAMS)
def test_nor_where_the_output_goes_past_the_caches(stream: float) -> None:
    for layout in ("nchw", "nhwc"):
        problem = conv2d(k=9, h=3, w=8, c=2, r=1, s=1, layout=layout)
        machine = streaming_machine(stream)
        options = choices(problem, machine, 1, constant_weights=False)
        some = random.Random(8).sample(options, min(8, len(options)))
        check(problem, machine, 1, False, some)


def test_nor_where_one_core_has_several_tiles_and_two_must_be_started() -> None:
    problem, machine = conv2d(k=9, h=3, w=8, c=2, r=1, s=1), streaming_machine(1.0)
    options = choices(problem, machine, 2, constant_weights=False)
    enumeration = Enumeration(problem, machine, 2, False)

    def cost(choice: Choice) -> float:
        return One(enumeration, choice.kernel, dict(choice.parallel), choice.packs).best()

    one = min((choice for choice in options if not choice.parallel), key=cost)
    two = min((choice for choice in options if choice.parallel), key=cost)
    assert cost(one) < cost(two) < inf
    check(problem, machine, 2, False, [one, two])


def test_a_dim_stays_a_table_if_sizes_of_smaller_shares_would_be_too_many() -> None:
    problem, machine = conv2d(n=40009, k=8, h=1, w=1, c=2, r=1, s=1), by_name("haswell")
    options = choices(problem, machine, 4, constant_weights=True)
    split = next(choice for choice in options if choice.ways("n") == 4)
    sizes = tile_sizes(40009, [split.step("n")], [split.covered["n"]])
    more = with_smaller_shares(sizes, 40009, split.step("n"), 4)
    assert TABLE < len(sizes) < len(more) - 1
    for table, length in (
        (len(sizes) - 1, 0),
        (len(sizes), len(sizes)),
        (len(more) - 1, len(sizes)),
        (len(more), len(more)),
    ):
        program = Formulation(problem, machine, [split], 1.0, table=table)
        assert len(program.pick.get(("L3", "n"), ())) == length


@pytest.mark.parametrize("seed", range(20))
def test_facets_touch_the_values_and_never_exceed_them(seed: int) -> None:
    """Some are straight for long, as those of axes are, some are not."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.integers(0, 3, 60) * (seed % 2) + 1) + rng.integers(0, 40)
    values = values.astype(float)
    points = np.arange(1, 61)
    highest = np.max([slope * points + offset for slope, offset in facets(Listed(values))], axis=0)
    assert (highest <= values + 1e-9).all()
    for n in points:  # the convex function below the values, by interpolation
        below = [
            values[a - 1] + (values[b - 1] - values[a - 1]) * (n - a) / max(1, b - a)
            for a in range(1, n + 1)
            for b in range(n, 61)
        ]
        rate = (values / points).min() * n
        assert highest[n - 1] <= min(below) + 1e-9
        assert highest[n - 1] >= max(rate, values.min()) - 1e-9


def test_the_least_among_shares_that_cover_enough() -> None:
    """Which takes memory for the shares, not for each number of points."""
    rng = np.random.default_rng(0)
    covered, times = rng.integers(1, 50, 200), rng.random((2, 200))
    points = [1, 7, 30, 49, 50]
    least = [times[:, covered >= n].min(axis=1, initial=inf) for n in points]
    np.testing.assert_array_equal(_least_from(points, covered, times), np.transpose(least))


def test_rows_of_weights_that_share_sets_of_l2_take_room_in_the_program_too() -> None:
    """Without, its bound is a tenth below the best plan."""
    machine = by_name("znver4").override({"L2.size": str(1 << 17)})
    problem = conv2d(k=512, h=14, w=14, c=64, r=3, s=3, layout="nhwc", weights="hwcf")
    options = choices(problem, machine, 1, constant_weights=False)
    alone = [next(choice for choice in options if not choice.reads_panels)]
    best = Incumbent(problem, machine, inf)
    best.first(alone)
    best.each_family(alone)
    for _ in range(3):  # its solutions are where searches begin
        program = Formulation(problem, machine, alone, best.cost, table=EXACT)
        found = program.solve(below=best.cost * MARGIN, time_limit=60, gap=0.001)
        for _, sizes in found.starts:
            best.from_sizes(alone, sizes)
    assert found.bound <= best.cost <= 1.01 * found.bound
