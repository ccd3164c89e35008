"""The solver's arrays, design space and SCIP model against the model itself and plain counting."""

from __future__ import annotations

import random
import tracemalloc
from bisect import bisect_right
from dataclasses import replace
from itertools import product
from math import ceil, inf, log
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_cases import STREAMS, streaming_machine

from mopt_mlir.machine import by_name, resolve
from mopt_mlir.model.cost import predict
from mopt_mlir.model.footprint import Axis, MemoryAxis
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver import axis_bounds
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.axis_bounds import of_partitions
from mopt_mlir.solver.convex import facets_of_tiles
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.search import descend
from mopt_mlir.solver.sizes import (
    largest_of,
    tile_sizes,
    useful_sizes,
    with_fewer_lines,
    with_smaller_shares,
)
from mopt_mlir.solver.space import choices, covered_points, extremes, splits
from mopt_mlir.solver.traffic import Traffic
from mopt_mlir.vector_access import whole_to_pack


def random_problem(rng: random.Random) -> Problem:
    return conv2d(
        n=rng.randint(1, 3),
        k=rng.choice([rng.randint(1, 70), 128]),
        h=rng.randint(1, 20),
        w=rng.randint(1, 20),
        c=rng.randint(1, 40),
        r=rng.randint(1, 5),
        s=rng.randint(1, 5),
        stride=rng.randint(1, 3),
        dilation=rng.randint(1, 3),
        layout=rng.choice(["nchw", "nhwc"]),
        weights=rng.choice(["fchw", "hwcf", "fhwc"]),
    )


def random_tilings(rng: random.Random, evaluate: Evaluator, number: int) -> Ints:
    """Nested tilings; whole extents and single register tiles are frequent."""
    rows = []
    for _ in range(number * len(LEVELS)):
        draws = ((1, int(n), rng.randint(1, int(n))) for n in evaluate.units)
        rows.append([rng.choice(draw) for draw in draws])
    return evaluate.nest(np.array(rows).reshape(number, len(LEVELS), -1))


def plan_of(evaluate: Evaluator, tiling: Ints) -> Plan:
    costs = evaluate(tiling[None])
    names, choice = evaluate.problem.names, evaluate.choice
    sizes = np.minimum(tiling * evaluate.unit, evaluate.extents)
    levels = [
        Level(level, evaluate.classes[index].order, dict(zip(names, row.tolist(), strict=True)))
        for level, index, row in zip(LEVELS, costs.classes[0], sizes, strict=True)
    ]
    packing = evaluate.packings[costs.packing[0]]
    streamed = bool(costs.streamed[0])
    parallel = dict(choice.parallel)
    return Plan("m", 8, choice.kernel, tuple(levels), parallel, packing, nontemporal=streamed)


@pytest.mark.parametrize("seed", range(4))
def test_arrays_and_the_model_agree(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(15):
        problem = random_problem(rng)
        machine = by_name(rng.choice(["znver5", "znver4", "znver3", "haswell"])).with_cores(8)
        constant = rng.random() < 0.3
        options = choices(problem, machine, rng.choice([1, 2, 3, 8]), constant_weights=constant)
        choice = rng.choice(options)
        evaluate = Evaluator(problem, machine, choice)
        tilings = random_tilings(rng, evaluate, 4)
        for tiling, cost in zip(tilings, evaluate(tilings).cost, strict=True):
            plan = plan_of(evaluate, tiling)
            plan.check(problem)
            predicted = predict(problem, machine, plan, constant_weights=constant)
            assert predicted.cost == pytest.approx(cost, rel=1e-9)
            assert predicted.cost >= choice.bound * (1 - 1e-9)


@pytest.mark.parametrize("stream", STREAMS)
def test_so_they_do_where_the_output_goes_past_the_caches(stream: float) -> None:
    """Stores past the caches are taken where they are faster, whatever the tiles."""
    rng, machine, streamed = random.Random(3), streaming_machine(stream), set()
    for layout in ("nchw", "nhwc"):
        problem = conv2d(k=9, h=3, w=8, c=2, r=1, s=1, layout=layout)
        for choice in choices(problem, machine, 1, constant_weights=False):
            evaluate = Evaluator(problem, machine, choice)
            for tiling in random_tilings(rng, evaluate, 6):
                plan = plan_of(evaluate, tiling)
                predicted = predict(problem, machine, plan).cost
                assert predicted == pytest.approx(float(evaluate(tiling[None]).cost[0]), rel=1e-9)
                other = replace(plan, nontemporal=not plan.nontemporal)
                if plan.nontemporal or choice.streams:
                    assert predicted <= predict(problem, machine, other).cost * (1 + 1e-9)
                streamed.add(plan.nontemporal)
    assert streamed == ({False} if stream < 1.5 else {False, True})


def moves_one_by_one(problem: Problem, plan: Plan) -> bool:
    """Whether weights are packed without spanning the inner reduction dims."""
    return any(
        level.tile[dim] < problem.extent(dim)
        for level in plan.levels
        if level.name == plan.packing
        for dim in whole_to_pack(problem, plan.microkernel)
    )


def test_no_order_or_packing_beats_the_one_that_is_chosen() -> None:
    rng = random.Random(11)
    problem, machine = conv2d(k=40, h=6, w=9, c=6, r=3, s=1, stride=2), by_name("znver5")
    orders = [tuple(rng.sample(problem.names, len(problem.names))) for _ in range(60)]
    for choice in rng.sample(choices(problem, machine, 2, constant_weights=False), 6):
        evaluate = Evaluator(problem, machine, choice)
        for tiling in random_tilings(rng, evaluate, 2):
            plan = plan_of(evaluate, tiling)
            best = predict(problem, machine, plan).cost
            packings = ("none",) if plan.packing == "none" else ("whole", *LEVELS)
            for _ in range(60):
                levels = tuple(replace(level, order=rng.choice(orders)) for level in plan.levels)
                other = replace(plan, levels=levels, packing=rng.choice(packings))
                if moves_one_by_one(problem, other):  # not offered
                    continue
                assert predict(problem, machine, other).cost >= best * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_no_tiling_costs_less_than_the_quick_bound_of_its_choice(seed: int) -> None:
    """Of long rows: cores that cover more pixels than they have to may read fewer lines, where
    their parts begin as lines do."""
    rng = random.Random(seed)
    sizes = {"k": 16, "h": rng.choice([1, 3]), "w": rng.choice([64, 96, 112, 128, 144]), "c": 4}
    problem = conv2d(**sizes, r=1, s=rng.choice([1, 1, 3]), layout=rng.choice(["nchw", "nhwc"]))
    slow = rng.choice(["L2.bandwidth=0.01", "L3.bandwidth=0.01,L3.bandwidth_all=0.01"])
    machine, threads = resolve(f"haswell,{slow}"), rng.choice([2, 3, 4])
    for choice in choices(problem, machine, threads, constant_weights=True):
        evaluate = Evaluator(problem, machine, choice)
        at = problem.names.index("w")
        outer = np.arange(1, evaluate.units[at] + 1)
        tilings = np.tile(evaluate.units, (len(outer), 3, 1))
        tilings[:, 0, at] = outer
        tilings[:, 1:, at] = -(-outer // choice.ways("w"))[:, None]
        assert choice.bound <= evaluate(tilings).cost.min() * (1 + 1e-9)


def test_choices_come_most_promising_first_and_split_the_work() -> None:
    options = choices(
        conv2d(k=64, h=8, w=30, c=8, r=3, s=3), by_name("znver5"), 4, constant_weights=False
    )
    assert [c.bound for c in options] == sorted(c.bound for c in options)
    assert {len(c.parallel) for c in options} >= {1, 2}
    assert all(np.prod(list(c.parallel.values())) <= 4 for c in options)


@pytest.mark.parametrize(
    ("units", "threads"), [((4, 7, 1), 5), ((2, 3), 4), ((1, 1), 8), ((6,), 4)]
)
def test_splits_are_those_that_no_other_beats(units: tuple[int, ...], threads: int) -> None:
    every = [
        ways for ways in product(*(range(1, n + 1) for n in units)) if np.prod(ways) <= threads
    ]

    def shares(ways: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ceil(n / w) for n, w in zip(units, ways, strict=True))

    def beaten(share: tuple[int, ...]) -> bool:
        return any(
            other != share and all(a <= b for a, b in zip(other, share, strict=True))
            for other in map(shares, every)
        )

    expected = {share for share in map(shares, every) if not beaten(share)} | {units}
    found = splits(units, threads)
    assert {shares(ways) for ways in found} == expected
    assert len(found) == len(expected)
    assert all(np.prod(ways) <= threads for ways in found)


@pytest.mark.parametrize(
    ("extent", "unit", "ways"), [(70, 32, 2), (64, 48, 2), (56, 9, 4), (7, 1, 3)]
)
def test_the_first_core_covers_at_least_what_is_claimed(extent: int, unit: int, ways: int) -> None:
    points = []
    for tile in range(1, ceil(extent / unit) + 1):
        mine = 0
        for start in range(0, extent, tile * unit):
            end = min(start + tile * unit, extent)
            mine += min(end, start + ceil(tile / ways) * unit) - start
        points.append(mine)
    assert min(extremes(extent, unit, ways)) == min(points)


@pytest.mark.parametrize("grain", [1, 4, 16])
@pytest.mark.parametrize(("extent", "unit"), [(40, 1), (88, 1), (34, 3), (120, 8), (56, 6)])
def test_every_tile_is_stood_for_by_one_that_brings_in_no_more_lines(
    extent: int, unit: int, grain: int
) -> None:
    part = MemoryAxis(Axis("c"), extent, 1, line=16, grain=grain)
    sizes = with_fewer_lines(tile_sizes(extent, [unit], [extent]), extent, [unit], [part])
    until = largest_of(sizes, extent, unit)
    bounds = of_partitions(part, 1, until, unit=unit, points=extent, largest=extent)

    def brought(size: int) -> int:
        full, rest = divmod(extent, size)
        return full * part.occupied(size, 1) + (part.occupied(rest, 1) if rest else 0)

    assert sizes[-1] == extent
    for tile in [*range(unit, extent, unit), extent]:
        index = bisect_right(sizes, tile) - 1
        assert tile <= until[index]
        alike = [n for n in sizes[: index + 1] if ceil(extent / n) == ceil(extent / tile)]
        assert min(part.occupied(n, 1) for n in alike) <= part.occupied(tile, 1)
        assert min(brought(n) for n in alike) <= brought(tile)
        assert bounds[index] <= brought(tile) + 1e-9


@pytest.mark.parametrize("line", [0, 4, 16])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_bounds_for_long_filters_are_none_too_high(
    line: int, stride: int, dilation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pitches = {"image_pitch": stride, "tap_pitch": dilation} if line else {}
    part = MemoryAxis(Axis("w", "s", stride, dilation), 40, 9, line=line, **pitches)
    caps, points = range(1, part.taps + 1), np.arange(1, part.points + 1)
    exact = [axis_bounds.of_pieces.__wrapped__(part, most).at(points) for most in caps]
    tiles = [axis_bounds.of_tile_or_more.__wrapped__(part, taps).at(points) for taps in caps]
    monkeypatch.setattr(axis_bounds, "LONG_FILTER", 0)
    for most in caps:
        pieces = axis_bounds.of_pieces.__wrapped__(part, most).at(points)
        assert (pieces <= exact[most - 1] + 1e-9).all()
        tile = axis_bounds.of_tile_or_more.__wrapped__(part, most).at(points)
        assert (tile <= tiles[most - 1]).all()
    if not line:
        assert (axis_bounds.of_pieces.__wrapped__(part, part.taps).at(points) == exact[-1]).all()


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (3, 1), (1, 4), (3, 7), (5, 61)])
def test_few_sizes_tell_of_long_filters_what_all_do(stride: int, dilation: int, gaps: bool) -> None:
    part = MemoryAxis(Axis("w", "s", stride, dilation), 40, 9, gaps=gaps)
    every = np.arange(1, part.points + 1)
    for taps, sizes in product((1, 2, 4, 9), (None, every[2::3], every[4:11], every[-1:])):
        values = part.in_elements(every, taps).astype(float)
        if not gaps:
            reached = [np.add.outer(stride * every[:n], dilation * every[:taps]) for n in every]
            assert values.tolist() == [len(np.unique(some)) for some in reached]
        few, all_ = axis_bounds.Bent(part, taps, 9 / taps), axis_bounds.Listed(9 / taps * values)
        assert few.at(every) == pytest.approx(all_.values)
        assert few.least_from(3, 7) == pytest.approx(all_.least_from(3, 7))
        assert few.rates(3, every[2:]) == pytest.approx(all_.rates(3, every[2:]))
        assert axis_bounds.least(few, sizes) == pytest.approx(axis_bounds.least(all_, sizes))
        some = all_.telling(sizes)
        lines, highest = axis_bounds.facets(few, sizes), np.zeros(len(some))
        for slope, offset in lines:
            highest = np.maximum(highest, slope * some + offset)
        assert len(lines) <= 4
        assert (highest <= all_.at(some) * (1 + 1e-9)).all()
        if sizes is None or not gaps:  # or the bend may be none of `sizes`
            assert axis_bounds.rate(few, sizes) == pytest.approx(axis_bounds.rate(all_, sizes))
            best = [slope * some + offset for slope, offset in axis_bounds.facets(all_, sizes)]
            assert highest == pytest.approx(np.max(best, axis=0))


@pytest.mark.parametrize(("points", "taps"), [(10**6, 64), (160_000, 32), (100, 65)])
def test_cuts_of_long_filters_are_not_listed(
    points: int, taps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes longer than the solver has, and looks at no clock."""

    def fail(*_: object) -> None:
        raise AssertionError("pieces are listed one by one")

    monkeypatch.setattr(axis_bounds, "of_tile", fail)
    part = MemoryAxis(Axis("w", "s", 1, 1), points, taps, line=16, image_pitch=1, tap_pitch=1)
    end = np.array([points])
    assert axis_bounds.of_pieces.__wrapped__(part, taps).at(end) == points + taps - 1
    assert axis_bounds.of_tile_or_more.__wrapped__(part, 1).at(end) == points


def test_bounds_for_long_filters_take_no_room() -> None:
    """The numbers of a million pixels for each size of pieces would take gigabytes, and longer than
    the solver has."""
    part = MemoryAxis(Axis("w", "s", 1, 1), 10**6, 1000, line=16, image_pitch=1, tap_pitch=1)
    sizes = np.arange(16, 10**5, 16)
    tracemalloc.start()
    for taps in range(1, part.taps + 1, 9):
        tile, pieces = axis_bounds.of_tile_or_more(part, taps), axis_bounds.of_pieces(part, taps)
        assert axis_bounds.facets(tile, sizes)
        assert axis_bounds.facets_of_pieces(part, taps)
        assert min(axis_bounds.rate(tile, sizes), axis_bounds.rate(pieces)) >= 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 << 20


def test_sizes_of_tables_take_the_least_of_all_that_they_stand_for() -> None:
    """Also where a larger size that takes less has no place in the table."""
    table = SimpleNamespace(until={"c": {1: 2, 3: 4}}, sum=sum)
    values = np.array([30.0, 20.0, 40.0, 50.0])
    amounts = axis_bounds.Listed(values)
    found = [Traffic._least_of(table, [(size, 1.0)], "c", amounts) for size in (1, 3)]
    assert found == [log(20), log(40)]


@pytest.mark.parametrize("units", [1, 2, 7, 12, 97, 3600, 9973])
def test_useful_sizes_are_the_smallest_for_each_number_of_tiles(units: int) -> None:
    smallest: dict[int, int] = {}
    for size in range(units, 0, -1):
        smallest[ceil(units / size)] = size
    assert useful_sizes(units).tolist() == sorted(smallest.values())


@pytest.mark.parametrize("extent", [2, 7, 30, 97])
def test_hulls_lie_below_every_size(extent: int) -> None:
    facets = facets_of_tiles(tile_sizes(extent, [1, 3], [extent, ceil(extent / 2)]), extent)
    for size in range(1, extent + 1):
        trips = log(ceil(extent / size))
        assert all(trips >= offset - slope * log(size) - 1e-9 for slope, offset in facets)


@pytest.mark.parametrize("channels", [512, 544, 1024])
def test_tiles_fill_caches_as_the_model_says(channels: int) -> None:
    """Also weights in place whose rows use few sets of L2."""
    machine, rng = by_name("znver4"), random.Random(channels)
    problem = conv2d(k=channels, h=7, w=7, c=24, r=3, s=3, layout="nhwc", weights="hwcf")
    options = choices(problem, machine, 1, constant_weights=False)
    for packed in (False, True):
        choice = next(choice for choice in options if choice.reads_panels is packed)
        evaluate = Evaluator(problem, machine, choice)
        tilings = random_tilings(rng, evaluate, 100)
        costs = evaluate(tilings)
        sizes = np.minimum(tilings * evaluate.unit, evaluate.extents).tolist()
        for tiles, overflow, place in zip(sizes, costs.overflow, costs.packing, strict=True):
            filled = [
                sum(
                    cache_bytes(
                        problem,
                        machine,
                        level,
                        dict(zip(problem.names, tile, strict=True)),
                        panels=packed,
                        packs=evaluate.packings[place] == level,
                    ).values()
                )
                / usable(machine, level)
                for level, tile in zip(LEVELS, tiles, strict=True)
            ]
            assert overflow == pytest.approx(max(filled), rel=1e-3)


def test_a_descent_that_starts_too_large_ends_in_the_caches() -> None:
    problem, machine = conv2d(k=256, h=28, w=28, c=256, r=3, s=3), by_name("haswell")
    choice = choices(problem, machine, 1, constant_weights=True)[0]
    evaluate = Evaluator(problem, machine, choice)
    start = np.tile(evaluate.units, (len(LEVELS), 1))
    assert evaluate(start[None]).overflow[0] > 1
    found = descend(evaluate, start)
    assert found is not None
    costs = evaluate(found.tiling[None])
    assert costs.overflow[0] <= 1
    assert costs.cost[0] == found.cost


@pytest.mark.parametrize(("extent", "unit", "ways"), [(1024, 24, 2), (97, 4, 3), (64, 4, 2)])
def test_tables_tell_what_cores_cover(extent: int, unit: int, ways: int) -> None:
    """Between an entry and the next no size has a smaller share than the entry."""
    points = covered_points(extent, unit, ways).tolist()
    some = tile_sizes(extent, [unit], [extent])
    sizes = with_smaller_shares(some, extent, unit, ways)
    assert set(some) <= set(sizes)
    entry = iter([*sizes[1:], extent + unit])
    size, following = sizes[0], next(entry)
    for tiles in range(1, len(points) + 1):
        if min(tiles * unit, extent) >= following:
            size, following = following, next(entry)
        assert points[tiles - 1] >= points[ceil(size / unit) - 1]


def test_a_descent_that_is_out_of_time_ends_at_what_fits() -> None:
    problem, machine = conv2d(k=64, h=28, w=28, c=64, r=3, s=3), by_name("znver5")
    evaluate = Evaluator(problem, machine, choices(problem, machine, 1, constant_weights=False)[0])
    start = np.ones((len(LEVELS), len(evaluate.units)), dtype=np.int64)
    early, late = (descend(evaluate, start, deadline) for deadline in (0.0, inf))
    assert early is not None
    assert late is not None
    assert late.penalised < early.penalised
