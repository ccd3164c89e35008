"""Visits of register tiles: long ones take what the solver's model says, short ones overlap."""

from dataclasses import replace

import pytest

from mopt_mlir import conv2d
from mopt_mlir.estimate import estimate
from mopt_mlir.estimate.visits import (
    DRAIN_CYCLES,
    IRREGULAR_CYCLES,
    RESTART_CYCLES,
    RESTORE_CYCLES,
    SAVED_LINE_CYCLES,
    WINDOW,
    Visits,
    visiting_cycles,
)
from mopt_mlir.machine import by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.microkernel import (
    EVICTED_SUMS_CYCLES,
    LOOP_CYCLES,
    TileKind,
    TileOperations,
    issue_cycles,
    register_work,
    tile_kinds,
)
from mopt_mlir.plan import Level, Plan

MACHINE = by_name("znver5")  # two FMAs and two loads per cycle, each FMA takes four
L1 = MACHINE.cache("L1")  # 64 sets of 12 lines of 64 bytes
ONE = {"k": (1, 0), "w": (1, 0)}


def tile(accumulators: int, loads: int, steps: int) -> TileOperations:
    return TileOperations(
        steps=steps,
        accumulators=accumulators,
        slots=1,
        load_slots=loads,
        waiting_cycles=0.0,
        stored_cycles=float(accumulators),
        evicted_cycles=0.0,
        sum_lines=float(accumulators),
        finish_cycles=float(accumulators),
        input=loads,
        weights=loads,
        output=accumulators,
    )


def cycles(
    one: TileOperations, visits: int = 1, counts=ONE, machine=MACHINE, restarts: float = 0.0
) -> float:
    kind = TileKind(frozenset(), one, one.work(machine))
    return visiting_cycles(machine, [kind], counts, Visits(visits, restarts=restarts))


@pytest.mark.parametrize(("rows", "vectors"), [(14, 2), (9, 3), (28, 1), (6, 4)])
def test_a_single_long_visit_takes_what_the_solver_counts(rows, vectors):
    found = tile(rows * vectors, rows + vectors, steps=1000)
    assert cycles(found) == pytest.approx(found.work(MACHINE).cycles, rel=0.01)


def test_latency_binds_a_long_chain_of_a_single_sum():
    steps = 100 * WINDOW
    assert cycles(tile(1, 2, steps)) > 0.95 * MACHINE.fma_latency * steps


def test_short_visits_of_few_sums_overlap():
    """A hundred visits of four products each: in a row, every one would wait for its last sum."""
    short = tile(2, 3, steps=400)
    alone = 100 * (4 * MACHINE.fma_latency + DRAIN_CYCLES)
    assert cycles(short, 100) < 0.1 * alone


@pytest.mark.parametrize("visits", [1, 4, 16, 64, 256])
def test_no_unit_issues_more_than_it_can(visits):
    for accumulators, loads in ((1, 2), (2, 3), (6, 5), (28, 16), (24, 25)):
        steps = 1024
        found = cycles(tile(accumulators, loads, steps), visits)
        assert found >= steps * accumulators / MACHINE.fma_per_cycle
        assert found >= steps * loads / MACHINE.loads_per_cycle
        assert found >= visits * accumulators  # stores


def test_every_further_visit_costs_something():
    found = [cycles(tile(28, 16, 1024), visits) for visits in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert found == sorted(set(found))


def test_waiting_for_evicted_lines_comes_on_top():
    plain = tile(28, 16, 100)
    evicted = replace(plain, waiting_cycles=3.0, evicted_cycles=15.0)
    assert cycles(evicted, 5) - cycles(plain, 5) == pytest.approx(100 * 3 + 4 * 15)


def test_stores_that_a_queue_hides_cost_nothing_and_others_every_visit():
    machine, plain = replace(MACHINE, queued_stores=24), tile(28, 16, 100)
    hidden = replace(plain, stored_cycles=0.0, finish_cycles=0.0)
    assert cycles(hidden, 5, machine=machine) == pytest.approx(cycles(plain, 5))
    waiting = replace(hidden, stored_cycles=8.0, finish_cycles=8.0)
    found = cycles(waiting, 5, machine=machine) - cycles(hidden, 5, machine=machine)
    assert found == pytest.approx(5 * 8)


@pytest.mark.parametrize(("slots", "each"), [(1, LOOP_CYCLES), (2, 0.0)])
def test_loops_hide_behind_operations_of_several_slots(slots, each):
    short, long = (
        replace(
            tile(28, 16, steps), slots=slots, stored_cycles=28.0 * slots, finish_cycles=28.0 * slots
        )
        for steps in (10_000, 20_000)
    )
    expected = pytest.approx(14 * slots + each, abs=0.02)
    assert (cycles(long) - cycles(short)) / 10_000 == expected
    solver = (long.work(MACHINE).cycles - short.work(MACHINE).cycles) / 10_000
    alone = issue_cycles(MACHINE, 28 * slots, 16)
    assert solver == pytest.approx(alone + each)


@pytest.mark.parametrize(("given", "each"), [(None, SAVED_LINE_CYCLES), (2.5, 2.5)])
def test_lines_of_sums_that_are_left_behind_cost_every_visit_but_the_last(given, each):
    machine, plain = replace(MACHINE, saved_line_cycles=given), tile(28, 16, 576)
    none = replace(plain, sum_lines=0.0)
    lines = cycles(plain, 5, machine=machine) - cycles(none, 5, machine=machine)
    assert lines == pytest.approx(4 * 28 * each)
    problem = conv2d(k=40, h=1, w=14, c=64, r=1, s=1)
    wide, narrow = (
        tile_kinds(problem, MACHINE, Microkernel("k", v, {"k": 32, "w": 14}, ("c",)), panels=True)
        for v in (16, 8)
    )
    assert [kind.tile.sum_lines for kind in wide] == [28, 14]  # eight channels in a whole vector
    assert [kind.tile.sum_lines for kind in narrow] == [28, 7]


@pytest.mark.parametrize(("given", "each"), [(None, LOOP_CYCLES), (2.5, 2.5)])
def test_each_outer_product_costs_what_the_machine_says(given, each):
    """The sums of a single visit wait for nothing, so that issue and steps are all there is."""
    short, long = (
        cycles(tile(28, 16, steps), machine=replace(MACHINE, loop_cycles=given))
        for steps in (10_000, 20_000)
    )
    assert (long - short) / 10_000 == pytest.approx(14 + each, rel=0.01)


def test_a_vector_of_several_slots_takes_as_many_of_each_unit():
    narrow = tile(28, 16, steps=1000)
    wide = replace(narrow, slots=2, stored_cycles=56.0, finish_cycles=56.0)
    assert cycles(wide) >= 2 * 1000 * 28 / MACHINE.fma_per_cycle > 1.5 * cycles(narrow)
    stored = replace(wide, steps=0)  # nothing but storing once
    assert cycles(stored) == pytest.approx(56, rel=0.01)


def test_partial_tiles_are_counted_for_themselves():
    """70 columns in tiles of 14 and 33 channels in tiles of 32: five whole columns, and of channels
    a whole tile and one of a single channel, which still computes a whole vector."""
    problem = conv2d(k=33, h=1, w=70, c=64, r=1, s=1)
    kernel = Microkernel("k", 16, {"k": 32, "w": 14}, ("c",))
    kinds = tile_kinds(problem, MACHINE, kernel, panels=True)
    counts = {"n": (1, 0), "k": (1, 1), "h": (1, 0), "w": (5, 0)}
    twice = Visits(2)
    whole, partial = (
        5 * visiting_cycles(MACHINE, [kind], dict.fromkeys(counts, (1, 1)), twice) for kind in kinds
    )
    assert visiting_cycles(MACHINE, kinds, counts, twice) == pytest.approx(whole + partial)
    assert register_work(kinds, counts).output_per_visit == 2 * 70 * 33
    assert 0.4 * whole < partial < 0.7 * whole


def cut(**tile: int) -> Visits:
    """Of a reduction over 64 channels and 3x3 taps, these innermost."""
    problem = conv2d(k=32, h=14, w=14, c=64, r=3, s=3)
    kernel = Microkernel("k", 16, {"k": 32, "w": 14}, ("c", "r", "s"))
    levels = [
        Level(name, problem.names, {**problem.extents, **(tile if name == "L1" else {})})
        for name in ("L3", "L2", "L1")
    ]
    return Visits.of(problem, Plan(MACHINE.name, 1, kernel, levels), 1, L1)


def test_loops_that_do_not_run_equally_often_are_irregular():
    def irregular(**tile: int) -> int:
        return cut(**tile).irregular

    assert irregular() == irregular(c=16) == irregular(r=1) == irregular(r=1, s=1) == 0
    assert irregular(c=48) == 0  # the outermost runs long enough
    assert irregular(r=2) == irregular(s=2) == irregular(r=2, s=1) == 1  # two taps, then one
    assert irregular(r=2, s=2) == 2


def test_irregular_loops_start_again_and_again():
    """For each channel, two pieces of three taps by one are two starts in three steps. Of two by
    two pieces of taps, each starts a loop over rows, and each row of them one over columns: 4 and 6
    in 9 steps."""
    assert cut(r=3, s=3).restarts == cut(r=1, s=1).restarts == cut(c=48).restarts == 0
    assert cut(r=2, s=1).restarts == pytest.approx(2 / 3)
    assert cut(r=2, s=2).restarts == pytest.approx((4 + 6) / 9)
    started = tile(8, 6, steps=90)
    wide = replace(started, slots=2)
    for kind, part in ((started, 1.0), (wide, 0.25)):
        more = cycles(kind, 1, restarts=2 / 3) - cycles(kind, 1)
        assert more == pytest.approx(90 * 2 / 3 * RESTART_CYCLES * part)


def test_what_is_predicted_wrongly_costs_each_visit():
    one = tile(28, 16, 576)
    kind = TileKind(frozenset(), one, one.work(MACHINE))
    regular, irregular = (
        visiting_cycles(MACHINE, [kind], ONE, Visits(4, loops)) for loops in (0, 2)
    )
    assert irregular - regular == pytest.approx(4 * 2 * IRREGULAR_CYCLES)


def test_sums_have_to_come_back_for_every_visit_but_the_first():
    loads = 62 * (16 / MACHINE.loads_per_cycle) + 62 * RESTORE_CYCLES * 28
    assert cycles(tile(28, 16, steps=63), 63) > loads > 1.5 * 63 * 28 / MACHINE.fma_per_cycle


@pytest.mark.parametrize(
    ("width", "rows", "inner", "together", "high", "evicted"),
    [
        (32, 6, 6, 48, 1, 6 * (48 - 12) / 48),  # channels 4 KB apart: 36 lines too many on a set
        (32, 6, 12, 48, 1, 6 * (48 - 12) / 48),  # tiles of two loops follow each other
        (32, 6, 6, 12, 1, 0),
        (32, 6, 6, 24, 1, 6 * (24 - 12) / 24),
        (32, 6, 6, 24, 2, 6 * (24 - 12) / 24 / 2),  # every other visit is on other sets
        (32, 16, 16, 48, 1, 16 * (48 - 12) / 48 - (16 - 12)),  # beside a register tile's own
        (31, 6, 6, 48, 1, 0),  # channels on other sets
    ],
)
def test_sums_on_the_same_sets_evict_each_other(width, rows, inner, together, high, evicted):
    """Visits of 16 pixels of `rows` channels, one channel of the input at a time; between two of
    them so many channels are gone through `together`, in tiles of `inner` ones."""
    found = evicted_sums("nhwcrsk", width, rows, inner, together, high)
    assert found == pytest.approx(evicted)


def test_visits_that_follow_each_other_evict_nothing():
    assert evicted_sums("nhwkcrs", 32, 6, 6, 48, 1) == 0


def test_the_loop_that_evicts_most_counts():
    """Tiles of 24 channels follow each other at once, those of all 48 after the other row."""
    problem, plan = split_into_visits("nwcrskh", 32, 6, 24, 48, 2)
    l3, l2, l1 = plan.levels
    plan = replace(plan, levels=(l3, l2, replace(l1, tile={**l1.tile, "h": 1})))
    assert 6 * (24 - 12) / 24 > 6 * (48 - 12) / 48 / 2
    assert Visits.of(problem, plan, 64, L1).evicted == pytest.approx(6 * (24 - 12) / 24)


def test_sums_that_wait_outside_of_the_output_are_not_evicted():
    """Pixels of 1024 channels lie a page apart: in the output their sums would share a set."""
    problem = conv2d(k=1024, h=6, w=30, c=8, r=1, s=1, layout="nhwc", weights="hwcf")
    kernel = Microkernel("k", 16, {"k": 16, "w": 10}, ("c",))
    sizes = {**problem.extents, "k": 16, "c": 4}
    levels = tuple(Level(name, problem.names, sizes) for name in ("L3", "L2", "L1"))
    plan = Plan("m", 1, kernel, levels)
    assert Visits.of(problem, plan, 2, L1).evicted == 0
    (kind,) = tile_kinds(problem, by_name("znver4"), kernel, panels=False)
    assert kind.tile.evicted_cycles == 0
    nearer = conv2d(k=1040, h=6, w=30, c=8, r=1, s=1, layout="nhwc", weights="hwcf")
    (other,) = tile_kinds(nearer, by_name("znver4"), kernel, panels=False)
    assert (
        kind.tile.finish_cycles > other.tile.finish_cycles
    )  # where the output is written they do conflict


def test_expected_times_count_sums_that_are_evicted():
    """Of all visits of a register tile but the first."""
    (problem, plan), (_, kept) = (
        split_into_visits("nhwcrsk", 32, 6, 6, together, 1) for together in (24, 12)
    )
    seconds = [estimate(problem, MACHINE, p).seconds["compute"] for p in (plan, kept)]
    visits = (48 / 6) * 32 * (32 / 16) * 63
    cycles = visits * 6 * (24 - 12) / 24 * EVICTED_SUMS_CYCLES
    assert seconds[0] - seconds[1] == pytest.approx(cycles / (1e9 * MACHINE.frequency))


def evicted_sums(*visits):
    problem, plan = split_into_visits(*visits)
    return Visits.of(problem, plan, 64, L1).evicted


def split_into_visits(order, width, rows, inner, together, high):
    problem = conv2d(k=48, h=32, w=width, c=64, r=1, s=1)
    kernel = Microkernel("w", 16, {"w": 16, "k": rows}, ("c",))
    outer = {**problem.extents, "k": together, "h": high, "w": 16}
    tiles = (outer, outer, {**outer, "k": inner, "c": 1})
    levels = (Level(n, tuple(order), t) for n, t in zip(("L3", "L2", "L1"), tiles, strict=True))
    return problem, Plan(MACHINE.name, 1, kernel, tuple(levels), packing="none")


def test_sums_that_are_evicted_between_visits_cost_each_but_one():
    one = tile(28, 16, 576)
    kind = TileKind(frozenset(), one, one.work(MACHINE))
    kept, lost = (
        visiting_cycles(MACHINE, [kind], ONE, Visits(4, evicted=lines)) for lines in (0, 8)
    )
    assert lost - kept == pytest.approx(3 * 8 * EVICTED_SUMS_CYCLES)
