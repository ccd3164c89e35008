"""The cost of a plan, on a machine of round numbers where it can be worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mopt_mlir.estimate import estimate
from mopt_mlir.machine import Cache, Machine, by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import breakdown, can_stream, objective, predict, sums_seconds
from mopt_mlir.model.packing import PACK_CYCLES
from mopt_mlir.model.rates import RUN_SECONDS, Rates
from mopt_mlir.model.room import cache_bytes
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.problem import conv2d
from mopt_mlir.solver.space import choices

MACHINE = Machine(
    name="round",
    cpu="x86-64",
    cores=4,
    frequency=1.0,
    vector_bits=256,
    vector_registers=16,
    fma_per_cycle=2,
    loads_per_cycle=2,
    fma_latency=4,
    caches=(
        Cache("L1", 4096, 64, 8, False, 100.0, 400.0),
        Cache("L2", 16384, 64, 8, False, 50.0, 200.0),
        Cache("L3", 65536, 64, 8, True, 20.0, 40.0),
    ),
    dram_bandwidth=5.0,
    dram_bandwidth_all=10.0,
)
UNDELAYED = replace(MACHINE, dram_bandwidth=1e4, dram_bandwidth_all=1e4)
"""Memory is so fast that nobody waits while packing."""
PROBLEM = conv2d(k=32, h=8, w=12, c=10, r=3, s=3)
KERNEL = Microkernel("k", 8, {"k": 16, "w": 6}, ("c", "r", "s"))
ACROSS = Microkernel("w", 8, {"w": 8, "k": 4}, ("c", "r", "s"))
IN, KER, OUT = 10 * 10 * 14 * 4, 32 * 10 * 9 * 4, 32 * 8 * 12 * 4


def plan(order: str = "nkhwcrs", **tiles: dict[str, int]) -> Plan:
    size = dict(PROBLEM.extents)
    levels = []
    for name in LEVELS:
        size = {**size, **tiles.get(name, {})}
        levels.append(Level(name, tuple(order), size))
    made = Plan("round", 1, KERNEL, tuple(levels), packing="whole")
    made.check(PROBLEM)
    return made


def test_everything_in_cache_moves_once() -> None:
    predicted = predict(PROBLEM, MACHINE, plan(), constant_weights=True)
    for resource in ("L2", "L3", "DRAM"):
        assert predicted.volumes[resource] == {"input": IN, "weights": KER, "output": 2 * OUT}
    assert predicted.seconds["DRAM"] == pytest.approx((IN + KER + 2 * OUT) / 5e9 + RUN_SECONDS)
    assert predicted.seconds["packing"] == 0


def test_the_outer_of_two_loops_repeats_what_the_inner_one_moves() -> None:
    rows_inside = plan("nkhwcrs", L2={"k": 16, "h": 4})
    moved = predict(PROBLEM, MACHINE, rows_inside, constant_weights=True).volumes
    assert moved["L3"] == {"input": 2 * IN, "weights": KER, "output": 2 * OUT}
    assert moved["DRAM"] == {"input": IN, "weights": KER, "output": 2 * OUT}
    channels_inside = plan("nwcrshk", L2={"k": 16, "h": 4})
    moved = predict(PROBLEM, MACHINE, channels_inside, constant_weights=True).volumes
    assert moved["L3"] == {"input": IN, "weights": 2 * KER, "output": 2 * OUT}


def test_accumulators_stay_in_registers_over_reduction_loops_of_register_tiles() -> None:
    tile = {"k": 16, "w": 6, "h": 1}
    whole = predict(PROBLEM, MACHINE, plan(L1=tile))
    streamed = predict(PROBLEM, MACHINE, plan(L1={**tile, "c": 5}))
    assert streamed.volumes["L1"]["output"] == whole.volumes["L1"]["output"] == OUT
    assert streamed.seconds["compute"] == whole.seconds["compute"]
    for stopped in (
        plan("ncrskhw", L1={**tile, "c": 5}),
        plan(L1={**tile, "h": 2, "c": 5}),
        replace(plan(L1={**tile, "c": 5}), packing="L1"),
    ):
        assert predict(PROBLEM, MACHINE, stopped).volumes["L1"]["output"] == 3 * OUT


def test_cores_share_the_work_and_the_slowest_counts() -> None:
    alone = predict(PROBLEM, MACHINE, plan(), constant_weights=True)
    split = replace(plan(L2={"h": 2}), threads=4, parallel={"h": 4})
    shared = predict(PROBLEM, MACHINE, split, constant_weights=True)
    assert shared.seconds["compute"] == pytest.approx(alone.seconds["compute"] / 4)
    assert shared.volumes["DRAM"] == alone.volumes["DRAM"]
    moved, runs = alone.seconds["DRAM"] - RUN_SECONDS, 32 * 4 * RUN_SECONDS
    assert shared.seconds["DRAM"] == pytest.approx(moved / 2 + runs / 4)  # 10 GB/s, not 5
    assert shared.volumes["L3"]["weights"] == KER  # each core reads them all
    uneven = replace(plan(L2={"h": 3}), threads=3, parallel={"h": 3})
    imbalanced = predict(PROBLEM, MACHINE, uneven, constant_weights=True)
    assert imbalanced.seconds["compute"] == pytest.approx(alone.seconds["compute"] * 3 / 8)


@pytest.mark.parametrize(
    ("rates", "streams"),
    [
        # ns per kB: stores past the caches save 1/10 - 1/25 = 60; reading the output from memory
        # and not from L3, at 30, costs 1/17 - 1/30 = 25
        ({}, True),
        ({"dram_write_bandwidth": 20.0}, False),  # saves 10
        ({"dram_stream_bandwidth": 12.0}, False),  # saves 17
        ({"dram_bandwidth": 9.0}, False),  # costs 78
        ({"dram_write_bandwidth": None}, False),
        ({"dram_stream_bandwidth": None}, False),
    ],
)
def test_an_output_that_fits_is_streamed_where_that_pays(
    rates: dict[str, float | None], streams: bool
) -> None:
    l1, l2, l3 = by_name("sapphirerapids").caches
    slow = {"dram_bandwidth": 17.0, "dram_write_bandwidth": 10.0, "dram_stream_bandwidth": 25.0}
    machine = replace(
        by_name("sapphirerapids"),
        caches=(l1, l2, replace(l3, bandwidth=30.0)),
        **{**slow, **rates},  # type: ignore[arg-type]
    )
    kernel = Microkernel("w", 16, {"w": 32, "k": 13}, ("c", "r", "s"))
    large = conv2d(k=64, h=128, w=128, c=8, r=1, s=1)
    assert can_stream(large, machine, kernel, 1) == streams


def test_many_cores_that_share_the_memory_do_not_stream_what_fits() -> None:
    """All 96 save 1/300 - 1/490 = 0.0013 ns a byte, and lose 1/490 - 1/2100 = 0.0016; 32 of them
    lose 1/490 - 1/944 = 0.001."""
    machine = by_name("graniterapids")
    kernel = Microkernel("w", 16, {"w": 32, "k": 13}, ("c", "r", "s"))
    large = conv2d(k=64, h=128, w=128, c=8, r=1, s=1)
    assert can_stream(large, machine, kernel, 2)
    assert can_stream(large, machine, kernel, 32)
    assert not can_stream(large, machine, kernel, 96)
    options = choices(large, machine, 96, constant_weights=True)
    few, many = ([c for c in options if c.rates.cores == cores] for cores in (1, 96))
    assert any(choice.streams for choice in few)
    assert many
    assert not any(choice.streams for choice in many)


def test_what_is_added_to_the_output_reads_it_first() -> None:
    machine = by_name("graniterapids")
    kernel = Microkernel("w", 16, {"w": 32, "k": 13}, ("c", "r", "s"))
    added = replace(conv2d(k=64, h=128, w=128, c=8, r=1, s=1), accumulates=True)
    assert not can_stream(added, machine, kernel, 1)
    past = replace(plan(), nontemporal=True)
    assert not breakdown(replace(PROBLEM, accumulates=True), MACHINE, past).streamed
    assert breakdown(PROBLEM, MACHINE, past).streamed
    fresh = predict(PROBLEM, MACHINE, plan())
    more = predict(replace(PROBLEM, accumulates=True), MACHINE, plan())
    assert fresh.volumes["L1"]["output"] == OUT
    assert more.volumes["L1"]["output"] == 2 * OUT
    # 12 vectors of each of 2 * 2 * 8 register tiles, two loads per cycle
    loads = 12 * 32 / 2 * 1e-9
    assert more.seconds["compute"] == pytest.approx(fresh.seconds["compute"] + loads)


def test_classes_name_loops_that_run() -> None:
    tiles = {"L3": {}, "L2": {"k": 16, "h": 4}, "L1": {"k": 16, "h": 4, "c": 5}}
    found = predict(PROBLEM, MACHINE, plan("nkhcwrs", **tiles)).classes
    assert found == {"L3": "none", "L2": "h", "L1": "c"}
    shares = replace(plan("nckwrsh", L2={"h": 2}), threads=4, parallel={"h": 4})
    assert predict(PROBLEM, MACHINE, shares).classes["L2"] == "none"


def test_what_stays_in_a_fast_cache_is_not_streamed() -> None:
    """1/10.8 - 1/25 is saved: more than is lost without L3, and less than without L2, at 190."""
    machine = by_name("graniterapids")
    kernel = Microkernel("w", 16, {"w": 32, "k": 13}, ("c", "r", "s"))
    assert can_stream(conv2d(k=64, h=128, w=128, c=8, r=1, s=1), machine, kernel, 1)
    assert not can_stream(conv2d(k=16, h=128, w=128, c=8, r=1, s=1), machine, kernel, 1)


def test_a_cache_that_is_slower_beside_computing_counts_so_in_the_objective_alone() -> None:
    """At rest it is as fast as it was measured, which is what predicted times go on with, and what
    whoever reads the output next finds."""
    busy = MACHINE.override({"L2.busy_bandwidth": "2"})
    quick, slow = predict(PROBLEM, MACHINE, plan()), predict(PROBLEM, busy, plan())
    ratio = MACHINE.cache("L2").bandwidth / 2
    assert slow.seconds["L2"] == pytest.approx(ratio * quick.seconds["L2"])
    assert {**slow.seconds, "L2": 0} == {**quick.seconds, "L2": 0}
    assert estimate(PROBLEM, busy, plan()) == estimate(PROBLEM, MACHINE, plan())
    faster = MACHINE.override({"L2.busy_bandwidth": "99999"})
    assert predict(PROBLEM, faster, plan()) == quick


@pytest.mark.parametrize(
    ("tile", "runs"), [({"w": 6}, 32 * 8 * 2), ({"h": 3}, 32 * 3), ({"k": 16}, 2), ({}, 1)]
)
def test_each_run_of_output_that_an_l1_tile_writes_takes_time(
    tile: dict[str, int], runs: int
) -> None:
    """Their register tiles, of half a row, write them piece by piece, one after the other."""
    predicted = predict(PROBLEM, MACHINE, plan(L1=tile), constant_weights=True)
    moved = sum(predicted.volumes["DRAM"].values()) / 5e9
    assert predicted.seconds["DRAM"] == pytest.approx(moved + runs * RUN_SECONDS)


def packing_seconds(made: Plan, machine: Machine = UNDELAYED) -> float:
    return predict(PROBLEM, machine, made).seconds["packing"]


def test_packing_is_paid_once_per_visit_of_its_tile() -> None:
    elements = KER // 4

    def seconds(made: Plan) -> float:
        return packing_seconds(made) * 1e9 / PACK_CYCLES[made.packing]

    assert seconds(plan()) == pytest.approx(elements)
    rows_outside = replace(plan("nhwkcrs", L2={"h": 4, "c": 8}), packing="L2")
    assert seconds(rows_outside) == pytest.approx(2 * elements)
    rows_inside = replace(plan("nkcrshw", L2={"h": 4, "c": 8}), packing="L2")
    assert seconds(rows_inside) == pytest.approx(elements)
    four = replace(plan(L2={"h": 2}), threads=4, parallel={"h": 4})
    assert seconds(four) == pytest.approx(elements / 4)  # they share it in front of the nest
    assert seconds(replace(four, packing="L2")) == pytest.approx(elements)  # each packs for itself


def test_a_core_waits_for_the_first_block_that_it_packs() -> None:
    def waiting(made: Plan) -> float:
        return packing_seconds(made, MACHINE) - packing_seconds(made)

    def own(weights: float, place: str) -> float:
        return weights * PACK_CYCLES[place] * 1e-9

    weights = KER // 4
    # all weights are read and as much room for panels, at 5 GB/s, while they are packed
    assert waiting(plan()) == pytest.approx(2 * KER / 5e9 - own(weights, "whole"))
    # a block of half of them, whatever is packed after it
    half = replace(plan("nkcrshw", L2={"k": 16}), packing="L2")
    assert waiting(half) == pytest.approx(KER / 5e9 - own(weights / 2, "L2"))
    # two cores read the same weights, each into panels of its own, at 10 GB/s
    rows = replace(plan(), threads=2, parallel={"h": 2}, packing="L2")
    assert waiting(rows) == pytest.approx(3 * KER / 10e9 - own(weights, "L2"))
    # or each of them its half
    channels = replace(plan("nkcrshw", L2={"k": 16}), threads=2, parallel={"k": 2}, packing="L2")
    assert waiting(channels) == pytest.approx(2 * KER / 10e9 - own(weights / 2, "L2"))
    # in front of the nest they share the work
    together = replace(rows, packing="whole")
    assert waiting(together) == pytest.approx(2 * KER / 10e9 - own(weights / 2, "whole"))
    # fast memory makes nobody wait, and constant weights are packed beforehand
    assert packing_seconds(plan()) == pytest.approx(own(weights, "whole"))
    assert predict(PROBLEM, MACHINE, plan(), constant_weights=True).seconds["packing"] == 0
    # but in the nest they are packed when it runs
    inside = predict(PROBLEM, UNDELAYED, half, constant_weights=True)
    assert inside.seconds["packing"] == pytest.approx(packing_seconds(half))


@pytest.mark.parametrize(
    ("weights", "slots", "waits"),
    [("fchw", 1, 1.0), ("fchw", 2, 1.0), ("hwcf", 1, 1.0), ("hwcf", 2, 0.25)],
)
def test_rows_of_weights_that_are_read_in_place_are_waited_for(
    weights: str, slots: int, waits: float
) -> None:
    """Those of each output channel, or of each step: these hide behind operations of two slots."""
    problem = conv2d(k=32, h=8, w=12, c=10, r=3, s=3, weights=weights)
    in_place = replace(plan("nkcrshw", L2={"k": 16}), packing="none", microkernel=ACROSS)
    machine = replace(MACHINE, unit_bits=32 * ACROSS.vector // slots)
    predicted = predict(problem, machine, in_place)
    l3 = replace(MACHINE.caches[2], bandwidth=1e5, bandwidth_all=1e5)
    sooner = predict(problem, replace(machine, caches=(*MACHINE.caches[:2], l3)), in_place)
    moved = predicted.volumes["L3"]["weights"]
    assert moved >= KER
    waited = predicted.seconds["compute"] - sooner.seconds["compute"]
    assert waited == pytest.approx(waits * moved / 20e9, rel=1e-3, abs=1e-15)


def beyond_volumes(made: Plan, rate: float) -> float:
    predicted = predict(PROBLEM, MACHINE, made)
    return predicted.seconds["DRAM"] - sum(predicted.volumes["DRAM"].values()) / rate


def test_memory_for_sums_that_tiles_leave_comes_and_goes() -> None:
    def more(split: Plan, undivided: Plan) -> float:
        """Seconds of DRAM that no volume says and that the loops over the reduction bring."""
        rate = 5e9 * split.threads
        return beyond_volumes(split, rate) - beyond_volumes(undivided, rate)

    # around tiles of L2: their output waits, in memory that is read and written
    assert more(plan(L2={"c": 5}), plan()) == pytest.approx(2 * OUT / 5e9)
    half = plan(L2={"k": 16})
    assert more(plan(L2={"k": 16, "c": 5}), half) == pytest.approx(OUT / 5e9)
    # around tiles of L3, whatever is inside
    rows = plan(L3={"h": 2})
    assert more(plan(L3={"h": 2, "c": 5}), rows) == pytest.approx(2 * OUT / 4 / 5e9)
    # around tiles of L1 it waits in L1
    assert more(plan(L1={"c": 5}), plan()) == pytest.approx(0, abs=1e-15)
    # two cores have a tile of L2 each
    cores = [replace(p, threads=2, parallel={"k": 2}) for p in (plan(L2={"k": 16, "c": 5}), half)]
    assert more(*cores) == pytest.approx(2 * OUT / 10e9)
    # vectors along rows of the output leave sums there
    along = [replace(p, packing="none", microkernel=ACROSS) for p in (plan(L2={"c": 5}), plan())]
    assert more(*along) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(("channels", "waits"), [(128, True), (256, True), (144, False)])
def test_sums_do_not_wait_in_pixels_that_share_few_sets_of_l1(channels: int, waits: bool) -> None:
    problem = conv2d(k=channels, h=4, w=4, c=8, r=1, s=1, layout="nhwc", weights="hwcf")
    whole = dict(problem.extents)
    levels = (
        Level("L3", problem.names, whole),
        *(Level(name, problem.names, {**whole, "c": 4}) for name in ("L2", "L1")),
    )
    made = Plan("m", 1, Microkernel("k", 16, {"k": 16, "w": 4}, ("c",)), levels)
    moved = 2 * 4 * channels * 16 if waits else 0
    seconds = sums_seconds(problem, MACHINE, made)
    assert seconds == pytest.approx(moved / (1e9 * MACHINE.dram_bandwidth), abs=1e-15)


@pytest.mark.parametrize(
    ("packing", "cycles"), [("whole", 0.38), ("L3", 0.38), ("L2", 0.31), ("L1", 0.17)]
)
def test_packing_takes_as_long_as_measured(packing: str, cycles: float) -> None:
    made = replace(plan("nkcrshw"), packing=packing)
    packed = packing_seconds(made) * 1e9 * MACHINE.frequency
    assert packed == pytest.approx(cycles * KER // 4, rel=0.01)


def test_where_weights_are_packed_the_next_block_needs_room_too() -> None:
    for level, copies in (("L3", 2), ("L2", 2), ("L1", 1.5)):
        used = cache_bytes(PROBLEM, MACHINE, level, PROBLEM.extents, panels=True)
        packs = cache_bytes(PROBLEM, MACHINE, level, PROBLEM.extents, panels=True, packs=True)
        assert used["weights"] == KER
        assert packs == {**used, "weights": copies * KER}


@pytest.mark.parametrize(
    ("channels", "expected"), [(1024, 2048), (512, 2048), (256, 128), (544, 128), (1536, 2048)]
)
def test_rows_of_weights_that_use_few_places_of_pages_take_the_room_of_all(
    channels: int, expected: int
) -> None:
    """In L2, of whose sets a page has one for each of its lines; counted line by line. Rows whole
    pages apart take half of what they should."""
    problem = conv2d(k=channels, h=4, w=4, c=16, r=3, s=3, layout="nhwc", weights="hwcf")
    tile = {**problem.extents, "k": 32, "c": 10}
    rows = [
        channels * (c + 16 * (s + 3 * r)) for r in range(3) for s in range(3) for c in range(10)
    ]
    lines = {4 * (row + k) // 64 for row in rows for k in range(32)}
    of_place = Counter(line % 64 for line in lines)
    # as if each place of a page had as many lines as the fullest one, or none at all
    if expected == 2048:
        apart = {1024: 2}.get(channels, 1)
        assert max(of_place.values()) * 4096 == len(rows) * expected * apart
    for level, row in (("L1", 128), ("L2", expected), ("L3", 128)):
        used = cache_bytes(problem, MACHINE, level, tile, panels=False)
        assert used["weights"] == pytest.approx(len(rows) * row, rel=0.3 * (channels == 1536))
    packed = cache_bytes(problem, MACHINE, "L2", tile, panels=True)
    assert packed["weights"] == 4 * len(rows) * 32


CROWDED = replace(
    MACHINE,
    pixel_room=1.0,
    caches=(
        replace(MACHINE.cache("L1"), size=8 * 4096),
        replace(MACHINE.cache("L2"), size=8 * 65536),
        MACHINE.cache("L3"),
    ),
)
"""Whose ways are a page or more."""


@pytest.mark.parametrize(
    ("channels", "expected"), [(1024, 4096), (512, 2048), (256, 1024), (96, 128), (16, 64)]
)
def test_channels_of_pixels_that_use_few_places_of_pages_take_the_room_of_all(
    channels: int, expected: int
) -> None:
    """Of whose lines a page has one for each set of L1, and for each set of L2 that it may fill."""
    problem = conv2d(k=16, h=4, w=16, c=channels, r=1, s=1, layout="nhwc", weights="hwcf")
    pixels = [channels * (w + 16 * h) for h in range(4) for w in range(16)]
    lines = {4 * (pixel + c) // 64 for pixel in pixels for c in range(16)}
    of_place = Counter(line % 64 for line in lines)
    # as if each place of a page had as many lines as the fullest one
    assert max(of_place.values()) * 4096 == len(pixels) * expected
    tile = {**problem.extents, "c": 16}
    for level, pixel in (("L1", expected), ("L2", expected), ("L3", 64)):
        used = cache_bytes(problem, CROWDED, level, tile, panels=True)
        assert used["input"] == len(pixels) * pixel
        used = cache_bytes(problem, MACHINE, level, tile, panels=True)
        assert used["input"] == len(pixels) * 64


@pytest.mark.parametrize("taps", [1, 2, 3])
def test_pixels_that_a_stride_leaves_out_take_room_where_they_lie_half_a_page_apart(
    taps: int,
) -> None:
    problem = conv2d(k=16, h=1, w=8, c=512, r=1, s=3, stride=2, layout="nhwc", weights="hwcf")
    pixels = {2 * w + s for w in range(8) for s in range(taps)}
    lines = {4 * (512 * pixel + c) // 64 for pixel in pixels for c in range(16)}
    of_place = Counter(line % 64 for line in lines)
    tile = {**problem.extents, "s": taps, "c": 16}
    for level in ("L1", "L2"):
        used = cache_bytes(problem, CROWDED, level, tile, panels=True)["input"]
        assert 0 <= max(of_place.values()) * 4096 - used <= 2048
    assert cache_bytes(problem, CROWDED, "L3", tile, panels=True)["input"] == len(pixels) * 64
    for channels, each in (256, 1024), (1024, 4096):  # closer, and on the same sets anyway
        other = conv2d(
            k=16, h=1, w=8, c=channels, r=1, s=3, stride=2, layout="nhwc", weights="hwcf"
        )
        used = cache_bytes(other, CROWDED, "L1", tile, panels=True)
        assert used["input"] == len(pixels) * each


def test_rows_of_pixels_take_no_more_than_their_lines() -> None:
    """Also if a stride leaves out every other one, of rows that are 512 bytes long."""
    problem = conv2d(k=64, h=64, w=64, c=64, r=1, s=1, stride=2)
    dense = replace(problem.input, strides=(64 * 128 * 128, 128 * 128, 128, 1))
    problem, tile = replace(problem, input=dense), {**problem.extents, "c": 1, "h": 1, "w": 16}
    for level in LEVELS:
        assert cache_bytes(problem, CROWDED, level, tile, panels=True)["input"] == 2 * 64


def test_a_machine_may_say_that_channels_of_pixels_take_a_part_of_that_room() -> None:
    problem = conv2d(k=16, h=4, w=16, c=1024, r=1, s=1, layout="nhwc", weights="hwcf")
    tile = {**problem.extents, "c": 16}
    machine = replace(CROWDED, pixel_room=0.25)
    assert cache_bytes(problem, machine, "L1", tile, panels=True)["input"] == 4 * 16 * 1024
    machine = replace(MACHINE, pixel_room=1.0)  # whose L1 has ways of 512 bytes, so many sets
    assert cache_bytes(problem, machine, "L1", tile, panels=True)["input"] == 4 * 16 * 512


@pytest.mark.parametrize(("channels", "pixels"), [(512, 15), (1024, 8)])
def test_whether_pixels_left_out_take_room_depends_on_how_far_they_lie_apart(
    channels: int, pixels: int
) -> None:
    """Half a page, whatever part of that the machine says that they take."""
    problem = conv2d(k=16, h=1, w=8, c=channels, r=1, s=3, stride=2, layout="nhwc", weights="hwcf")
    machine = replace(CROWDED, pixel_room=0.5)
    tile = {**problem.extents, "s": 1, "c": 16}
    used = cache_bytes(problem, machine, "L1", tile, panels=True)["input"]
    assert used == pixels * channels * 4 // 2


def test_rows_of_pixels_take_the_room_of_their_lines() -> None:
    problem = conv2d(k=16, h=64, w=64, c=32, r=1, s=1)
    for level in ("L1", "L2", "L3"):
        used = cache_bytes(problem, CROWDED, level, {**problem.extents, "w": 16}, panels=True)
        assert used["input"] == 32 * 64 * 64


def test_a_single_row_of_weights_takes_the_room_of_its_lines() -> None:
    problem = conv2d(k=1024, h=4, w=4, c=1, r=1, s=1, layout="nhwc", weights="hwcf")
    used = cache_bytes(problem, MACHINE, "L2", {**problem.extents, "k": 32}, panels=False)
    assert used["weights"] == 128


def test_weights_that_are_not_packed_in_whole_vectors_are_dear() -> None:
    def cycles(**tile: int) -> float:
        made = replace(plan(L1=tile), packing="L1")
        packed = predict(PROBLEM, UNDELAYED, made)
        weights = packed.volumes["L2"]["weights"] / 4
        return packed.seconds["packing"] * 1e9 * MACHINE.frequency / weights

    assert cycles() == pytest.approx(0.17)
    assert cycles(c=5, s=1) == pytest.approx(0.75)  # one by one
    rest = 5 * 9 % 8 / (5 * 9)
    assert cycles(c=5) == pytest.approx((1 - rest) * 0.17 + rest * 0.63)


def test_rows_of_weights_that_meet_in_a_set_are_dearer_to_pack() -> None:
    def packing(channels: int) -> float:
        problem = conv2d(k=64, h=8, w=8, c=channels, r=1, s=1)
        kernel = Microkernel("k", 8, {"k": 64, "w": 1}, ("c",))
        tiles = {"L3": {}, "L2": {}, "L1": {"c": 4}}
        levels = tuple(
            Level(name, problem.names, {**problem.extents, **tile}) for name, tile in tiles.items()
        )
        made = Plan(MACHINE.name, 1, kernel, levels, {}, "L1")
        return predict(problem, MACHINE, made).seconds["packing"] / channels

    assert packing(1024) > 1.5 * packing(1040)


def test_packing_passes_the_caches_inside() -> None:
    def traffic(packing: str) -> list[str]:
        volumes = predict(PROBLEM, MACHINE, replace(plan(), packing=packing)).volumes
        return [resource for resource, moved in volumes.items() if moved.get("packing")]

    assert traffic("whole") == ["L1", "L2", "L3", "DRAM"]
    assert traffic("L3") == ["L1", "L2", "L3"]
    assert traffic("L1") == ["L1"]


def test_the_objective_is_the_slowest_resource_and_a_little_of_all() -> None:
    seconds = {"compute": 3.0, "packing": 2.0, "L1": 1.0, "L2": 4.0, "L3": 0.0, "DRAM": 0.0}
    assert objective(MACHINE, {**seconds, "parallel": 0.5}) == pytest.approx(
        0.5 + 5.0 + 0.05 * (5.0 + 1.0) + 0.12 * 4.0
    )
    of_two_slots = by_name("znver4")
    assert objective(of_two_slots, {**seconds, "parallel": 0.5}) == pytest.approx(
        0.5 + 5.0 + 0.05 * (5.0 + 1.0) + 0.06 * 4.0
    )


def test_a_machine_may_know_what_part_of_the_time_of_a_cache_counts() -> None:
    seconds = {"compute": 3.0, "packing": 2.0, "L1": 1.0, "L2": 4.0, "L3": 2.0, "DRAM": 0.0}
    known = by_name("znver4").override({"L2.exposed": "0.3", "L3.exposed": "0.1"})
    assert objective(known, {**seconds, "parallel": 0.0}) == pytest.approx(
        5.0 + 0.05 * (5.0 + 1.0) + 0.3 / 2 * 4.0 + 0.1 * 2.0
    )


def test_rates_of_shared_resources() -> None:
    rates = Rates.of(MACHINE, 4)
    assert rates.bytes == {"L1": 100e9, "L2": 50e9, "L3": 10e9, "DRAM": 10e9}


def test_a_plan_without_all_levels_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a plan with the levels L3, L2, L1"):
        predict(PROBLEM, MACHINE, replace(plan(), levels=plan().levels[:2]))
