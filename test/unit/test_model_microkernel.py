"""Microkernels: which are on the menu, and how fast the model takes them to be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plain_enumeration import register_tiles
from problems import conv1d, conv3d, matmul

from mopt_mlir.machine import Machine, by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.footprint import output_runs
from mopt_mlir.model.menu import menu, reduction_order
from mopt_mlir.model.microkernel import (
    CALL_CYCLES,
    count_register_tiles,
    issue_cycles,
    loop_cycles,
    register_work,
    tile_kinds,
)
from mopt_mlir.model.packing import (
    ELEMENT_CYCLES,
    PACK_CYCLES,
    PACK_ROW_CYCLES,
    pack_cycles,
)
from mopt_mlir.problem import ElementType, Problem, conv2d
from mopt_mlir.vector_access import needs_panels, whole_to_pack

ZEN5, HASWELL = by_name("znver5"), by_name("haswell")
ZEN4 = by_name("znver4")


def share_of_peak(rows: int, vectors: int) -> float:
    cycles = loop_cycles(1) + issue_cycles(ZEN5, rows * vectors, rows + vectors)
    return rows * vectors / ZEN5.fma_per_cycle / cycles


@pytest.mark.parametrize(
    ("rows", "vectors", "measured"),
    [
        (14, 1, 0.887), (28, 1, 0.919), (14, 2, 0.968), (10, 2, 0.978), (8, 2, 0.951),
        (5, 2, 0.903), (4, 2, 0.797), (3, 2, 0.702), (9, 3, 0.958), (4, 3, 0.925),
        (6, 4, 0.946), (3, 4, 0.903), (4, 5, 0.955), (2, 8, 0.939),
    ],
)  # fmt: skip
def test_shares_of_peak_are_those_measured(rows: int, vectors: int, measured: float) -> None:
    assert share_of_peak(rows, vectors) == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(
    ("rows", "vectors", "measured"),
    [(28, 1, 1.248), (14, 1, 1.225), (8, 2, 1.013), (7, 3, 0.985), (9, 3, 0.992), (6, 4, 0.986)],
)
def test_loads_take_more_time_on_granite_rapids(rows: int, vectors: int, measured: float) -> None:
    """That of a multiply-add, in parts of what it takes in a register tile of 14 by two vectors,
    with all data in L1. Without the machine's norm 28 by one would take 1.11."""
    rapids = by_name("graniterapids")

    def each(rows: int, vectors: int) -> float:
        issued = issue_cycles(rapids, rows * vectors, rows + vectors)
        return (loop_cycles(1) + issued) / (rows * vectors)

    assert each(rows, vectors) / each(14, 2) == pytest.approx(measured, rel=0.04)


@pytest.mark.parametrize(
    ("rows", "vectors", "bits", "measured"),
    [
        (7, 1, 512, 7.01), (14, 1, 512, 14.1), (26, 1, 512, 26.7), (4, 2, 512, 8.2),
        (7, 2, 512, 14.7), (14, 2, 512, 28.8), (3, 3, 512, 9.2), (9, 3, 512, 27.7),
        (6, 4, 512, 24.4), (3, 7, 512, 21.6), (1, 13, 512, 15.3),
        (10, 1, 256, 5.8), (12, 1, 256, 6.8), (7, 2, 256, 7.4), (6, 4, 256, 12.1),
    ],
)  # fmt: skip
def test_vectors_wider_than_the_units_take_several_slots(
    rows: int, vectors: int, bits: int, measured: float
) -> None:
    """Cycles of a step in registers and L1, measured on a Zen 4: two units of 256 bits each."""
    machine = ZEN4.with_field("vector_bits", bits)
    lanes = machine.lanes(ElementType.F32)
    kernel = Microkernel("k", lanes, {"k": vectors * lanes, "w": rows}, ("c",))
    problem = conv2d(k=vectors * lanes, h=1, w=rows, c=1000, r=1, s=1)
    (kind,) = tile_kinds(problem, machine, kernel, panels=True)
    assert kind.work.cycles / 1000 == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(("layout", "stores"), [("nhwc", 7 * 2), ("nchw", 16)])
def test_stores_of_wide_vectors_take_several_slots(layout: str, stores: int) -> None:
    """Whole vectors of channels, or a row of pixels for each: once more for the second half."""
    problem = conv2d(k=32 if layout == "nhwc" else 16, h=1, w=7, c=8, r=1, s=1, layout=layout)
    kernel = Microkernel("k", 16, {"k": problem.extent("k"), "w": 7}, ("c",))
    machines = (ZEN5, replace(ZEN4, queued_stores=None))
    (zen5,), (zen4,) = (tile_kinds(problem, m, kernel, panels=True) for m in machines)
    assert zen4.tile.finish_cycles - zen5.tile.finish_cycles == stores


@pytest.mark.parametrize(
    ("rows", "vectors", "bits", "measured"),
    [(8, 1, 512, 1), (12, 1, 512, 1), (16, 1, 512, 13), (10, 2, 512, 31), (12, 2, 512, 50),
     (14, 2, 512, 66), (30, 1, 512, 69), (14, 1, 256, 4)],
)  # fmt: skip
def test_stores_that_find_no_room_in_the_queue_wait(
    rows: int, vectors: int, bits: int, measured: float
) -> None:
    """Cycles that storing all sums after each other takes on a Zen 4, beyond 16 or 64 outer
    products: the mean of both, wherever in L1 or L2 they go."""
    machine = ZEN4.with_field("vector_bits", bits)
    lanes = machine.lanes(ElementType.F32)
    kernel = Microkernel("k", lanes, {"k": vectors * lanes, "w": rows}, ("c",))
    problem = conv2d(k=vectors * lanes, h=1, w=rows, c=64, r=1, s=1, layout="nhwc")
    (kind,) = tile_kinds(problem, machine, kernel, panels=True)
    assert kind.tile.stored_cycles == pytest.approx(measured, abs=6)
    assert (
        kind.tile.finish_cycles == kind.tile.stored_cycles
    )  # the last visit's stores are the output's
    registers = rows * vectors * machine.slots(bits)
    restore = registers / machine.loads_per_cycle
    assert kind.work.cycles_per_visit == CALL_CYCLES + kind.tile.stored_cycles + restore


@pytest.mark.parametrize(
    ("vectors", "pixels", "measured"),
    [(1, 8, 29), (1, 14, 54), (1, 20, 101), (2, 4, 79), (2, 10, 108), (2, 14, 130), (3, 8, 145)],
)
def test_outputs_that_are_transposed_first_are_stored_less_closely(
    vectors: int, pixels: int, measured: float
) -> None:
    """Cycles of a register tile on a Zen 4 beyond its outer products, which are 8 to 40; from one
    vector to two it is not twice as many, as a queue fills."""
    kernel = Microkernel("k", 16, {"k": 16 * vectors, "w": pixels}, ("c",))
    problem = conv2d(k=16 * vectors, h=1, w=pixels, c=64, r=1, s=1)
    (kind,) = tile_kinds(problem, ZEN4, kernel, panels=True)
    assert kind.tile.finish_cycles == pytest.approx(measured, abs=16)


@pytest.mark.parametrize(
    ("channels", "bits", "measured"),
    [(512, 256, 0.45), (1024, 256, 3.0), (1056, 256, 0.2), (2048, 256, 3.2), (1024, 512, 0.5)],
)
def test_filters_whose_rows_share_sets_of_l1_are_waited_for(
    channels: int, bits: int, measured: float
) -> None:
    """Cycles of an outer product by a line of an HWCF filter on a Zen 4 that it takes longer than
    with a filter that was packed before."""
    machine = ZEN4.with_field("vector_bits", bits)
    lanes = machine.lanes(ElementType.F32)
    kernel = Microkernel("k", lanes, {"k": 16, "w": 6}, ("r", "s", "c"))
    problem = conv2d(k=channels, h=6, w=24, c=64, r=3, s=3, layout="nhwc", weights="hwcf")
    in_place, packed = (
        tile_kinds(problem, machine, kernel, panels=panels)[0].tile.waiting_cycles
        for panels in (False, True)
    )
    assert in_place - packed == pytest.approx(measured, abs=0.3)
    assert in_place - packed > (0.1 if bits == 256 else 0)  # so much where pitches share nothing


@pytest.mark.parametrize(
    ("channels", "pixels", "bits", "measured"),
    [
        (24, 4, 256, 0.4),
        (16, 6, 256, 0.6),
        (8, 12, 256, 0.9),
        (40, 2, 256, 0.7),
        (48, 8, 512, 0.4),
        (32, 12, 512, 1.1),
        (80, 4, 512, 0.1),
    ],
)
def test_filters_whose_rows_begin_inside_of_lines_take_longer(
    channels: int, pixels: int, bits: int, measured: float
) -> None:
    """Cycles of an outer product on a Zen 4 that it takes longer with 2883 output channels than
    with 2880."""
    machine = ZEN4.with_field("vector_bits", bits)
    kernel = Microkernel("k", machine.lanes(ElementType.F32), {"k": channels, "w": pixels}, ("c",))
    inside, begin = (
        tile_kinds(
            conv2d(k=k, h=1, w=336, c=256, r=1, s=1, layout="nhwc", weights="hwcf"),
            machine,
            kernel,
            panels=False,
        )[0].tile.waiting_cycles
        for k in (2883, 2880)
    )
    assert inside - begin == pytest.approx(measured, abs=0.6)
    assert inside > begin


@pytest.mark.parametrize(("bits", "cycles"), [(512, 0.0), (256, 0.25)])
def test_loops_hide_behind_operations_of_several_slots(bits: int, cycles: float) -> None:
    assert loop_cycles(ZEN4.slots(bits)) == cycles


def test_rows_of_channels_are_stored_in_parts_as_well() -> None:
    problem = conv2d(k=15, h=1, w=7, c=8, r=1, s=1, layout="nhwc")
    kernel = Microkernel("k", 8, {"k": 16, "w": 7}, ("c",))
    (kind,) = tile_kinds(problem, HASWELL, kernel, panels=True)
    assert kind.tile.finish_cycles == 7 * (1 + 3)  # eight channels, then four, two and one


def test_more_rows_never_take_less_time() -> None:
    for vectors in range(1, 8):
        cycles = [issue_cycles(ZEN5, rows * vectors, rows + vectors) for rows in range(1, 29)]
        assert cycles == sorted(cycles)


def test_a_kernel_that_loads_as_often_as_it_multiplies_is_slower_in_a_plan() -> None:
    """Fourteen pixels of 8 channels against five of 16: with AVX2 code on Zen 4, four convolutions
    take 1.04 to 1.15 times as long with the first, side by side."""
    cycles = [issue_cycles(ZEN4, fmas, loads) / fmas for fmas, loads in ((14, 15), (10, 7))]
    assert 1.06 < cycles[0] / cycles[1] < 1.12


def test_no_more_accumulators_than_code_is_generated_for() -> None:
    problem = conv2d(k=64, h=28, w=28, c=8, r=3, s=3)
    for kernel in menu(problem, replace(ZEN5, vector_registers=128)):
        kernel.check(problem)


@pytest.mark.parametrize("machine", [ZEN5, HASWELL], ids=lambda machine: machine.name)
@pytest.mark.parametrize("element", list(ElementType))
def test_accumulators_fit_in_registers(machine: Machine, element: ElementType) -> None:
    problem = conv2d(k=64, h=7, w=30, c=8, r=3, s=3, element=element)
    for kernel in menu(problem, machine):
        assert kernel.vector == machine.lanes(element)
        vectors = kernel.extent(kernel.lanes) // kernel.vector
        rows = 1
        for dim, size in kernel.tile.items():
            rows *= 1 if dim == kernel.lanes else size
        assert rows * vectors + vectors + 1 <= machine.vector_registers


@pytest.mark.parametrize("registers", [8, 16, 32])
@pytest.mark.parametrize(
    "problem",
    [
        conv2d(k=20, h=3, w=5, c=2, r=3, s=2),
        conv2d(k=70, h=6, w=4, c=2, r=1, s=1, layout="nhwc", weights="hwcf"),
        conv2d(k=3, h=1, w=40, c=2, r=1, s=3, n=2, element="f64"),
        conv2d(k=4, h=9, w=1, c=5, r=2, s=1, stride=2, layout="nhwc", weights="fhwc"),
        conv2d(k=8, h=1, w=1, c=5, r=2, s=2, n=6),
        conv2d(k=1, h=4, w=3, c=1, r=2, s=2),
        matmul(6, 9, 5),
        conv1d(5, 9, 3, 3, stride=2),
        conv3d(17, 2, 3, 4, 2, 2, 1, 2),
    ],
    ids=[
        *("plain", "channels last", "f64", "column", "batch", "one channel"),
        *("matmul", "1-d", "3-d"),
    ],
)  # fmt: skip
def test_the_menu_has_every_register_tile(problem: Problem, registers: int) -> None:
    def parts(kernel: Microkernel) -> tuple[object, ...]:
        sizes = frozenset((dim, size) for dim, size in kernel.tile.items() if size > 1)
        return kernel.lanes, kernel.vector, sizes, kernel.reduction

    for machine in (ZEN5, HASWELL):
        machine = replace(machine, vector_registers=registers)
        kernels = [parts(kernel) for kernel in menu(problem, machine)]
        assert len({*kernels}) == len(kernels)
        assert {*kernels} == {parts(kernel) for kernel in register_tiles(problem, machine)}


def test_lanes_run_over_channels_or_contiguous_pixels() -> None:
    def lanes(problem: Problem) -> set[str]:
        return {kernel.lanes for kernel in menu(problem, ZEN5)}

    size = {"k": 64, "h": 28, "w": 28, "c": 8, "r": 3, "s": 3}
    assert lanes(conv2d(**size)) == {"k", "w"}
    assert lanes(conv2d(**size, stride=(2, 1))) == {"k", "w"}
    assert lanes(conv2d(**size, stride=(1, 2))) == {"k"}
    assert lanes(conv2d(**size, layout="nhwc")) == {"k"}


def test_small_images_are_tiled_by_whole_rows() -> None:
    tiles = [dict(k.tile) for k in menu(conv2d(k=64, h=7, w=7, c=8, r=3, s=3), ZEN5)]
    assert {"k": 32, "h": 2, "w": 7} in tiles
    assert not [tile for tile in tiles if tile.get("h", 1) > 1 and tile["w"] != 7]


def test_short_vectors_where_one_covers_the_dim() -> None:
    def vectors(k: int) -> set[int]:
        kernels = menu(conv2d(k=k, h=9, w=9, c=4, r=3, s=3, layout="nhwc"), ZEN5)
        return {kernel.vector for kernel in kernels}

    assert vectors(9) == {16}
    assert vectors(8) == {16, 8}
    assert vectors(3) == {16, 8, 4}


def test_only_strided_channels_need_panels() -> None:
    size = {"k": 64, "h": 9, "w": 9, "c": 4, "r": 3, "s": 3}
    for weights, strided in (("fchw", True), ("fhwc", True), ("hwcf", False)):
        problem = conv2d(**size, weights=weights)
        needs = {k.lanes: needs_panels(problem, k) for k in menu(problem, ZEN5)}
        assert needs == {"k": strided, "w": False}


def test_reduction_follows_the_input_in_memory() -> None:
    size = {"k": 8, "h": 9, "w": 9, "c": 4, "r": 3, "s": 3}
    assert reduction_order(conv2d(**size)) == ("c", "r", "s")
    nhwc = conv2d(**size, layout="nhwc")
    assert reduction_order(nhwc) == ("r", "s", "c")
    unknown = replace(nhwc, input=replace(nhwc.input, strides=(None,) * 4))
    assert reduction_order(unknown) == ("r", "s", "c")


def test_sums_a_vector_and_a_broadcast_need_a_register_each() -> None:
    single = conv2d(k=16, h=1, w=1, c=8, r=1, s=1)
    assert menu(single, replace(ZEN5, vector_registers=3))
    assert not menu(single, replace(ZEN5, vector_registers=2))


def test_partial_tiles_are_smaller_kernels_with_whole_vectors() -> None:
    """70 channels and 30 columns in 32 x 14: two whole channel tiles and one of 6, which is one
    vector; two whole column tiles and one of 2."""
    problem = conv2d(k=70, h=3, w=30, c=5, r=3, s=3)
    kernel = Microkernel("k", 16, {"k": 32, "w": 14}, ("c", "r", "s"))
    kinds = tile_kinds(problem, ZEN5, kernel, panels=True)
    work_of = {"".join(sorted(kind.partial)): kind.work for kind in kinds}
    steps = 5 * 3 * 3
    assert set(work_of) == {"", "k", "w", "kw"}
    assert work_of[""].weights == 32 * steps
    assert work_of["k"].weights == 16 * steps
    assert work_of["w"].input == 2 * steps
    counts = {
        dim: count_register_tiles(problem.extent(dim), kernel.extent(dim), problem.extent(dim))
        for dim in problem.parallel_dims
    }
    assert counts == {"n": (1, 0), "k": (2, 1), "h": (3, 0), "w": (2, 1)}
    work = register_work(kinds, counts)
    assert work.input == 3 * 3 * 30 * steps  # three channel tiles, three rows
    assert work.weights == 3 * 3 * (32 + 32 + 16) * steps  # three column tiles, three rows
    # The first visit stores and does not load; each further one loads and stores.
    assert work.output + work.output_per_visit == 70 * 3 * 30
    assert work.output_per_visit == 2 * 70 * 3 * 30


def test_a_dim_smaller_than_the_register_tile_is_one_tile() -> None:
    assert count_register_tiles(5, 16, 5) == (1, 0)
    assert count_register_tiles(20, 16, 20) == (1, 1)


def test_transposed_outputs_cost_more_than_contiguous_ones() -> None:
    kernel = Microkernel("k", 16, {"k": 32, "w": 14}, ("c", "r", "s"))
    size = {"k": 64, "h": 28, "w": 28, "c": 8, "r": 3, "s": 3}
    nchw, nhwc = (
        tile_kinds(conv2d(**size, layout=layout), ZEN5, kernel, panels=True)[0].work
        for layout in ("nchw", "nhwc")
    )
    shuffles, more_stores = 28 * 4 * 0.75, 32 - 28
    assert nchw.cycles - nhwc.cycles == pytest.approx(shuffles + more_stores)
    assert nchw.cycles_per_visit == nhwc.cycles_per_visit  # whole registers, between visits


@pytest.mark.parametrize(
    ("vector", "pixels", "stores"),
    [(8, 8, 1), (8, 4, 1), (8, 6, 2), (8, 7, 3), (8, 14, 3), (16, 14, 1), (16, 7, 1), (16, 17, 2)],
)
def test_vectors_of_avx_are_stored_in_parts_of_powers_of_two(
    vector: int, pixels: int, stores: int
) -> None:
    """Beyond the shuffles, of as many stages for each accumulator as vectors have halves."""
    problem = conv2d(k=16, h=1, w=pixels, c=8, r=1, s=1)
    kernel = Microkernel("k", vector, {"k": vector, "w": pixels}, ("c",))
    kind, *_ = tile_kinds(problem, ZEN5, kernel, panels=True)
    shuffles = pixels * {8: 3, 16: 4}[vector] * 0.75
    assert kind.tile.finish_cycles == shuffles + vector * stores


@pytest.mark.parametrize(
    ("layout", "weights", "spans", "cycles"),
    [
        ("nchw", "fchw", ("r", "s"), PACK_CYCLES["L2"]),
        ("nhwc", "fhwc", ("s", "c"), PACK_CYCLES["L2"]),
        ("nhwc", "hwcf", (), PACK_ROW_CYCLES / 32),  # vectors as they lie
        ("nchw", "fhwc", (), ELEMENT_CYCLES),  # the input is read by channels, rows are not in them
        ("nhwc", "fchw", (), ELEMENT_CYCLES),
    ],
)
def test_weights_in_another_order_than_the_reduction_are_packed_one_by_one(
    layout: str, weights: str, spans: tuple[str, ...], cycles: float
) -> None:
    problem = conv2d(k=32, h=8, w=8, c=16, r=3, s=3, layout=layout, weights=weights)
    kernel = Microkernel("k", 16, {"k": 32, "w": 4}, reduction_order(problem))
    assert whole_to_pack(problem, kernel) == spans
    assert pack_cycles(problem, kernel, "L2") == cycles


def test_weights_with_gaps_in_their_rows_are_packed_one_by_one() -> None:
    """Gaps between rows of channels do no harm, those within them do."""
    problem = conv2d(k=32, h=8, w=8, c=16, r=3, s=3)
    kernel = Microkernel("k", 16, {"k": 32, "w": 4}, reduction_order(problem))
    for strides, cycles in (((200, 9, 3, 1), PACK_CYCLES["L2"]), ((200, 12, 4, 1), ELEMENT_CYCLES)):
        apart = replace(problem, weights=replace(problem.weights, strides=strides))
        assert pack_cycles(apart, kernel, "L2") == cycles


def test_lanes_that_a_plan_leaves_out_are_one() -> None:
    problem = conv2d(k=1, h=1, w=16, c=8, r=1, s=1)
    said, unsaid = (
        tile_kinds(problem, ZEN5, Microkernel("k", 1, tile, ("c",)), panels=True)
        for tile in ({"k": 1, "w": 4}, {"w": 4})
    )
    assert said == unsaid


@pytest.mark.parametrize(
    ("layout", "tile", "runs"),
    [
        ("nchw", {"w": 48, "k": 4}, 32 * 14 * 2),  # rows of channels, in two parts
        ("nchw", {"k": 32, "w": 14}, 32 * 14 * 4),
        ("nchw", {"k": 16, "h": 2, "w": 56}, 32 * 7),  # whole rows follow each other
        ("nchw", {"k": 32}, 32 * 14 * 56),
        ("nhwc", {"k": 16, "w": 14}, 14 * 56 * 2),
        ("nhwc", {"k": 32, "w": 14}, 14 * 4),  # pixels with all of their channels do, too
    ],
)
def test_runs_of_output_are_what_lies_apart(layout: str, tile: dict[str, int], runs: int) -> None:
    problem = conv2d(k=32, h=14, w=56, c=8, r=1, s=1, layout=layout)
    assert output_runs(problem, tile) == runs


def test_rows_of_a_padded_output_do_not_follow_each_other() -> None:
    dense = conv2d(k=32, h=14, w=56, c=8, r=1, s=1)
    padded = replace(dense, output=replace(dense.output, strides=(14 * 64 * 32, 14 * 64, 64, 1)))
    tile = {"k": 16, "h": 2, "w": 56}
    assert output_runs(dense, tile) == 32 * 7
    assert output_runs(padded, tile) == 32 * 14


def test_runs_of_output_are_those_of_its_memory_whatever_the_order_of_its_axes() -> None:
    """Channels lie innermost, in a type that has them second; of unknown strides nothing is known
    that would make runs shorter."""
    nhwc = conv2d(k=32, h=14, w=56, c=8, r=1, s=1, layout="nhwc")
    nchw = conv2d(k=32, h=14, w=56, c=8, r=1, s=1)
    inside_out = replace(nchw.output, strides=(14 * 56 * 32, 1, 56 * 32, 32))
    unknown = replace(nchw.output, strides=(None, None, None, None))
    for tile in ({"k": 16, "w": 14}, {"k": 32, "w": 14}, {"k": 32, "w": 56, "h": 2}):
        found = output_runs(replace(nchw, output=inside_out), tile)
        assert found == output_runs(nhwc, tile)
        assert output_runs(replace(nchw, output=unknown), tile) == output_runs(nchw, tile)


@pytest.mark.parametrize(
    ("size", "slots"),
    [
        ({"w": 64, "r": 1, "s": 1}, 1.0),  # rows, images and channels begin with a line
        ({"w": 62, "r": 3, "s": 3}, 1 + 15 / 16),  # taps lie anywhere
        ({"w": 56, "r": 1, "s": 1}, 1 + 8 / 16),  # every other row in the middle of a line
        ({"h": 1, "w": 64, "r": 1, "s": 3}, 1 + 15 / 16),
    ],
)
def test_vector_loads_that_may_cross_a_line_take_more_slots(size, slots) -> None:
    problem = conv2d(**{"k": 4, "h": 8, "c": 4, **size})
    kernel = Microkernel("w", 16, {"w": 48, "k": 4}, ("c", "r", "s"))
    (whole, *_) = tile_kinds(problem, ZEN5, kernel, panels=False)
    assert whole.tile.load_slots == pytest.approx(4 + 3 * slots)  # a broadcast for each channel
    slow = replace(ZEN5, crossing_cycles=0.5)
    (waiting, *_) = tile_kinds(problem, slow, kernel, panels=False)
    assert waiting.tile.waiting_cycles - whole.tile.waiting_cycles == pytest.approx(
        0.5 * 3 * (slots - 1)
    )
    assert replace(waiting.tile, waiting_cycles=whole.tile.waiting_cycles) == whole.tile


def test_vectors_of_panels_never_cross_a_line() -> None:
    kernel = Microkernel("k", 16, {"k": 32, "w": 7}, ("c", "r", "s"))
    problem = conv2d(k=64, h=7, w=7, c=5, r=3, s=3)
    assert tile_kinds(problem, ZEN5, kernel, panels=True)[0].tile.load_slots == 7 + 2
