"""What caches keep beyond their tiles: everything where all fits, nothing where tiles fill them."""

import random
from dataclasses import replace
from itertools import product
from math import prod
from statistics import median

import numpy as np
import pytest
from plain_cache import LeastRecentlyUsed

from mopt_mlir import conv2d
from mopt_mlir.estimate.residency import resident_volumes
from mopt_mlir.machine import by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import FILLED_FROM, predict
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.solver import solve

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
        # and as much for sums, which wait in a buffer of the size of the output
        assert found[resource]["output"] == 2 * 2 * compulsory(PROBLEM.output)


def test_packing_and_registers_stay_as_they_were():
    plan = plan_with([TINY] * 3)
    predicted, found = predict(PROBLEM, MACHINE, plan).volumes, resident(plan)
    assert found["L1"] == predicted["L1"]
    assert [v.get("packing") for v in found.values()] == [
        v.get("packing") for v in predicted.values()
    ]


def test_panels_that_were_just_packed_are_there():
    plan = plan_with([{}] * 3)
    predicted, found = predict(PROBLEM, MACHINE, plan).volumes, resident(plan)
    for resource in ("L3", "DRAM"):
        assert predicted[resource]["weights"] == compulsory(PROBLEM.weights)
        assert found[resource]["weights"] == 0
    assert found["L2"] == predicted["L2"]  # with the weights they were made of they exceed L1


def test_panels_that_were_packed_too_long_ago_come_back():
    problem = conv2d(k=1024, h=4, w=6, c=1024, r=3, s=3)  # 36 MiB of weights
    found = resident(plan_with([{}] * 3, problem), problem)
    assert found["DRAM"]["weights"] == compulsory(problem.weights, problem)


def test_whole_tiles_move_what_they_did():
    plan = replace(plan_with([{}] * 3), packing="L3")
    found, predicted = resident(plan), predict(PROBLEM, MACHINE, plan).volumes
    assert found["DRAM"] == predicted["DRAM"]
    assert found["L2"] == predicted["L2"]


def test_nothing_moves_more_but_sums_beside_the_output():
    problem = conv2d(k=64, h=28, w=28, c=64, r=3, s=3, stride=2)
    small = {"k": 32, "c": 8}
    for tiles in ([small, {**small, "h": 7}, TINY], [{}, {"c": 4}, {"c": 4, "h": 2}]):
        plan = plan_with(tiles, problem)
        predicted, found = predict(problem, MACHINE, plan).volumes, resident(plan, problem)
        for resource in FILLED_FROM.values():
            for tensor, amount in found[resource].items():
                sums = 2 * compulsory(problem.output, problem) if tensor == "output" else 0
                assert amount <= predicted[resource][tensor] + sums


def test_packing_reads_the_lines_of_its_block():
    """A tap of each channel at a time: nine blocks read each line of weights, of which they take a
    ninth; panels are as large as what they were packed from."""
    problem = conv2d(k=64, h=16, w=32, c=64, r=3, s=3)
    order = ("n", "r", "s", "k", "c", "h", "w")
    plan = replace(
        plan_with([{}, {"r": 1, "s": 1}, {"r": 1, "s": 1}], problem, order), packing="L2"
    )
    weights = compulsory(problem.weights, problem)
    found = resident(plan, problem)
    assert predict(problem, MACHINE, plan).volumes["L2"]["packing"] == 3 * weights
    assert found["L2"]["packing"] == pytest.approx((9 + 2) * weights, rel=0.01)


def test_weights_that_are_packed_in_l1_come_in_whole_lines():
    problem = conv2d(k=64, h=16, w=32, c=64, r=3, s=3)
    order = ("n", "r", "s", "k", "c", "h", "w")
    plan = replace(plan_with([{}, {}, {"r": 1, "s": 1}], problem, order), packing="L1")
    weights = compulsory(problem.weights, problem)
    assert predict(problem, MACHINE, plan).volumes["L2"]["weights"] == weights
    assert resident(plan, problem)["L2"]["weights"] == pytest.approx(9 * weights, rel=0.01)


def test_weights_that_a_cache_keeps_are_packed_again_from_it():
    """Eight times for as many rows. L2 has 256 KiB, for 144 of input, weights and output and the
    panels of one block; L1 has 32 KiB."""
    problem = conv2d(k=64, h=8, w=32, c=64, r=1, s=1)
    order = ("n", "h", "k", "c", "r", "s", "w")
    plan = replace(plan_with([{"h": 1, "k": 32}] * 3, problem, order), packing="L3")
    once = 3 * compulsory(problem.weights, problem)  # read, and a line read and written for panels
    predicted, found = predict(problem, MACHINE, plan).volumes, resident(plan, problem)
    assert predicted["L3"]["packing"] == predicted["L2"]["packing"] == 8 * once
    assert found["L3"]["packing"] == once
    assert found["L2"]["packing"] == 8 * once
    small = replace(MACHINE, caches=tuple(replace(c, size=32 << 10) for c in MACHINE.caches))
    volumes = resident_volumes(problem, small, plan, predict(problem, small, plan))
    assert volumes["L3"]["packing"] == 8 * once


def lines_entering(problem, plan, depth, capacity):
    """Lines of 64 bytes that a fully associative, least recently used cache of `capacity` bytes
    fetches of input, weights and output, if tiles down to those at `depth` are walked through in
    the order of the plan, and points of each in the order of the dims."""
    kept, fetched = LeastRecentlyUsed(capacity // 64), [0, 0, 0]
    loops = [(dim, level.tile[dim]) for level in plan.levels[:depth] for dim in level.order]
    pitches = np.zeros((len(problem.names), 3), int)  # from one point of a dim to the next
    for index, tensor in enumerate(problem.tensors):
        for axis, stride in zip(tensor.axes, tensor.strides, strict=True):
            for dim, coefficient in axis.terms:
                pitches[problem.names.index(dim), index] += stride * coefficient

    def touch(points):
        before = None
        for lines in (points @ pitches // 16).tolist():
            if lines != before:  # else nothing changes in the cache
                for index, line in enumerate(lines):
                    fetched[index] += kept.fetches((index, line))
            before = lines

    def walk(number, ranges):
        if number == len(loops):
            touch(np.array(list(product(*(range(*ranges[dim]) for dim in problem.names)))))
            return
        dim, step = loops[number]
        for start in range(*ranges[dim], step):
            walk(number + 1, {**ranges, dim: (start, min(start + step, ranges[dim][1]))})

    walk(0, {dim: (0, size) for dim, size in problem.extents.items()})
    return fetched


def random_plan(problem, machine, rng):
    """A plan whose rows are whole and whose innermost tile fits into L1."""
    while True:
        levels, outer = [], problem.extents
        for name in LEVELS:
            outer = {d: n if d == "w" else rng.randint(1, n) for d, n in outer.items()}
            levels.append(Level(name, tuple(rng.sample(problem.names, 7)), outer))
        used = cache_bytes(problem, machine, "L1", outer, panels=False)
        if sum(used.values()) <= usable(machine, "L1"):
            kernel = Microkernel("w", 8, {"w": 16}, ("c", "r", "s"))
            return Plan("haswell", 1, kernel, tuple(levels), {}, "none")


def test_what_enters_a_small_cache_is_what_a_simulated_one_fetches():
    """Random tiles in random orders, of extents that they do not divide."""
    problem, capacity = conv2d(k=12, h=6, w=32, c=32, r=1, s=1), 6 << 10
    caches = tuple(replace(c, size=capacity, ways=capacity // 64) for c in MACHINE.caches)
    machine = replace(MACHINE, caches=caches)
    ratios = []
    for seed in range(12):
        plan = random_plan(problem, machine, random.Random(seed))
        found = resident_volumes(problem, machine, plan, predict(problem, machine, plan))["L2"]
        fetched = lines_entering(problem, plan, 3, capacity)
        expected = sum(64 * n * passes for n, passes in zip(fetched, (1, 1, 2), strict=True))
        ratios.append(sum(found[name] for name in ("input", "weights", "output")) / expected)
    assert all(0.7 < ratio < 1.3 for ratio in ratios)
    assert median(abs(ratio - 1) for ratio in ratios) < 0.1


DILATED = conv2d(k=8, h=16, w=32, c=4, r=3, s=1, dilation=4)
STRIDED = conv2d(k=2, h=8, w=32, c=4, r=16, s=1, stride=(4, 1))


@pytest.mark.parametrize(
    ("problem", "dim", "capacity", "rows"),
    [
        (DILATED, "h", 6 << 10, 3 * 16),
        (DILATED, "h", 16 << 10, 16 + 2 * 4),
        (STRIDED, "r", 10 << 10, 8 * 16),
        (STRIDED, "r", 20 << 10, 4 * 7 + 16),
    ],
)
def test_rows_stay_until_they_are_met_again_if_a_few_tiles_fit(problem, dim, capacity, rows):
    """Tiles of one row, or of one tap, have rows in common with the fourth one after them."""
    machine = replace(
        MACHINE, caches=tuple(replace(cache, size=capacity) for cache in MACHINE.caches)
    )
    order = (*(name for name in problem.names if name != dim), dim)
    levels = tuple(Level(name, order, {**problem.extents, dim: 1}) for name in LEVELS)
    kernel = Microkernel("w", 8, {"w": 16}, ("c", "r", "s"))
    plan = Plan("haswell", 1, kernel, levels, {}, "none")
    fetched = lines_entering(problem, plan, 3, capacity)[0]
    assert fetched == rows * 4 * 2  # channels, and lines of a row
    found = resident_volumes(problem, machine, plan, predict(problem, machine, plan))
    assert found["L2"]["input"] == 64 * fetched


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_short_pixels_share_lines_where_a_filter_moves_over_them(channels):
    """A line has five pixels of three channels, also of those of which a tile takes only some."""
    problem = conv2d(k=16, h=20, w=60, c=3, r=3, s=3, layout="nhwc", weights="hwcf")
    capacity = 12 << 10
    machine = replace(MACHINE, caches=tuple(replace(c, size=capacity) for c in MACHINE.caches))
    order = ("n", "k", "r", "s", "c", "h", "w")
    tile = {**problem.extents, "k": 8, "h": 2, "w": 12, "c": channels}
    levels = tuple(Level(name, order, tile) for name in LEVELS)
    plan = Plan("haswell", 1, Microkernel("k", 8, {"k": 8, "w": 4}, ("r", "s", "c")), levels)
    fetched = lines_entering(problem, plan, 3, capacity)[0]
    found = resident_volumes(problem, machine, plan, predict(problem, machine, plan))
    assert found["L2"]["input"] == pytest.approx(64 * fetched, rel=0.2)


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


@pytest.mark.parametrize(
    ("pixels", "channels", "passes"),
    [(16, 64, 8), (16, 50, 1 + 7 * 26 / 50), (16, 40, 1), (20, 64, 1)],
)
def test_channels_that_fall_on_the_same_sets_come_again_at_each_visit(pixels, channels, passes):
    """Channels of 16x16 pixels lie 1 KiB apart, every fourth on the same of the 64 sets of L1,
    which has 12 ways: more than 48 of them evict each other before the next register tile reads the
    same lines. Of 50, those on the two sets with 13 do. Walked through, line by line."""
    problem = conv2d(k=32, h=pixels, w=pixels, c=2 * channels, r=1, s=1)
    kernel = Microkernel("k", 16, {"k": 16, "w": 4}, ("c", "r", "s"))
    order = ("n", "c", "r", "s", "k", "h", "w")
    tiles = [{}, {}, {"h": 1, "w": pixels, "c": channels}]
    moved = volumes_from_l2(problem, kernel, [order] * 3, tiles, "whole")["input"]
    l1 = ZEN5.cache("L1")
    sets = [LeastRecentlyUsed(l1.ways) for _ in range(l1.size // (l1.line * l1.ways))]
    fetched = 0
    for part, h, _, w in product(range(2), range(pixels), range(2), range(0, pixels, 4)):
        for c in range(part * channels, (part + 1) * channels):
            line = 4 * ((c * pixels + h) * pixels + w) // l1.line
            fetched += sets[line % len(sets)].fetches(line)
    assert fetched * l1.line == pytest.approx(passes * compulsory(problem.input, problem))
    assert moved == pytest.approx(fetched * l1.line, rel=0.02)


@pytest.mark.parametrize(
    ("channels", "block", "rows", "passes"),
    [
        (512, 64, 256, 10),
        (528, 64, 256, 1),
        (512, 512, 64, 1),
        (256, 128, 128, 1),
        (2048, 64, 32, 1),
    ],
)
@pytest.mark.parametrize("level", ["L2", "L3"])
def test_rows_that_share_sets_come_again_in_each_pass(level, channels, block, rows, passes):
    """Blocks of 64 of 512 output channels have 256 bytes of every other KiB, so that they find room
    in an eighth of a cache's sets, wherever pages lie: an eighth of 256 KiB holds half of a block
    of 256 rows. Walked through, line by line, once for each of ten tiles of pixels. Input stays."""
    problem = conv2d(k=channels, h=1, w=60, c=rows, r=1, s=1, layout="nhwc", weights="hwcf")
    kernel, order = Microkernel("k", 8, {"k": 16, "w": 6}, ("c",)), problem.names
    tiles = [{"k": block, "w": 60 if level == "L2" else 6}, {"k": block, "w": 6}, {"k": 16, "w": 6}]
    levels = tuple(
        Level(name, order, {**problem.extents, **tile})
        for name, tile in zip(LEVELS, tiles, strict=True)
    )
    plan = Plan("haswell", 1, kernel, levels, {}, "none")
    cache, page = MACHINE.cache("L2"), 4096
    machine = MACHINE.with_field("L3.size", cache.size).with_field("L3.ways", cache.ways)
    volumes = resident_volumes(problem, machine, plan, predict(problem, machine, plan))
    moved = volumes[FILLED_FROM[level]]
    pages = -(-4 * rows * channels // page)
    places = random.Random(0).sample(range(pages), k=pages)
    sets = [LeastRecentlyUsed(cache.ways) for _ in range(cache.size // (cache.line * cache.ways))]
    fetched = 0
    for first, _, c in product(range(0, channels, block), range(10), range(rows)):
        for k in range(first, min(first + block, channels), cache.line // 4):
            number, offset = divmod(4 * (c * channels + k), page)
            line = (places[number] * page + offset) // cache.line
            fetched += sets[line % len(sets)].fetches(line)
    assert fetched * cache.line == pytest.approx(passes * 4 * rows * channels)
    assert moved["weights"] == pytest.approx(fetched * cache.line, rel=0.02)
    assert moved["input"] == pytest.approx(compulsory(problem.input, problem))


@pytest.mark.parametrize(
    ("pixels", "channels", "passes"), [(64, 8, 4), (65, 8, 1), (64, 4, 8), (65, 4, 1)]
)
def test_short_pixels_are_one_row(pixels, channels, passes):
    """Sixteen pixels of eight channels are 512 bytes of a row of 2 KiB, though a pixel is half a
    line: 120 of them fall on a quarter of the sets, 64 KiB of 256, beside as much output. They come
    again for each of four parts of the output channels, but not if rows are a pixel longer. So do
    the same lines for four of the channels and then the others."""
    problem = conv2d(k=32, h=120, w=pixels, c=8, r=1, s=1, layout="nhwc", weights="hwcf")
    kernel, order = (
        Microkernel("k", 8, {"k": 8, "w": 4}, ("c",)),
        ("n", "w", "c", "k", "h", "r", "s"),
    )
    tiles = [{"w": 16}, {"k": 8, "w": 16, "c": channels}, {"k": 8, "h": 1, "w": 4, "c": channels}]
    levels = tuple(
        Level(name, order, {**problem.extents, **tile})
        for name, tile in zip(LEVELS, tiles, strict=True)
    )
    plan = Plan("haswell", 1, kernel, levels, {}, "none")
    input_ = resident(plan, problem)["L3"]["input"]
    assert input_ == pytest.approx(passes * compulsory(problem.input, problem), rel=0.05)


def test_sums_between_visits_have_no_gaps():
    """Rows of two pixels: in the output each has a line of its own, as sums eight share one."""
    problem = conv2d(k=64, h=16, w=32, c=16, r=1, s=1)
    kernel = Microkernel("k", 16, {"k": 32, "w": 2}, ("c", "r", "s"))
    order = ("n", "r", "s", "c", "w", "h", "k")
    tiles = [{}, {}, {"k": 32, "h": 16, "w": 2, "c": 4}]
    moved = volumes_from_l2(problem, kernel, [order] * 3, tiles, "whole")["output"]
    output = 4 * 64 * 16 * 32  # bytes
    # both ways at each of four visits; and the last one only reads them, and writes the output
    assert moved == pytest.approx((2 * 4 + 1) * output)


@pytest.mark.parametrize(("channels", "far"), [(256, 17), (272, 32)])
def test_sums_of_pixels_far_apart_wait_beside_the_output_without_gaps(channels, far):
    """Both ways, at eight visits, of half a line of each pixel. With 272 channels it is whole lines
    of the output; with 256 no other tile's half comes along, and the output is written once."""
    problem = conv2d(k=channels, h=32, w=64, c=64, r=1, s=1, layout="nhwc", weights="hwcf")
    kernel = Microkernel("k", 8, {"k": 8, "w": 4}, ("c",))
    order = ("n", "r", "s", "k", "c", "h", "w")
    tiles = ({}, {}, {"c": 8, "k": 8, "w": 4, "h": 1})
    levels = tuple(
        Level(name, order, {**problem.extents, **tile})
        for name, tile in zip(LEVELS, tiles, strict=True)
    )
    moved = resident(Plan("haswell", 1, kernel, levels), problem)
    output = 4 * channels * 32 * 64  # bytes
    assert moved["L2"]["output"] == far * output
    scratch = 2 * 4 * 8 * 32 * 64 if far == 17 else 0  # comes from memory once, and goes back
    assert moved["DRAM"]["output"] == 2 * output + scratch


def test_taps_of_short_rows_share_lines():
    """One of nine taps at a time: a line holds those of more than one channel."""
    problem = conv2d(k=64, h=16, w=64, c=64, r=3, s=3)
    kernel = Microkernel("w", 16, {"w": 64, "k": 4}, ("c", "r", "s"))
    order = ("n", "k", "r", "s", "h", "w", "c")
    tiles = [{}, {}, {"k": 64, "h": 1, "w": 64, "r": 1, "s": 1}]
    moved = volumes_from_l2(problem, kernel, [order] * 3, tiles, "none")["weights"]
    lines = 64 * (64 * 9 / 16)  # of all taps
    assert moved == pytest.approx(lines * 64 * 9, rel=0.05)
