"""What is said of a plan agrees with the generated code, with the model and with itself."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads import Workload
from mopt_mlir import UserError, units
from mopt_mlir.bindings import bindings_of
from mopt_mlir.explain import Explanation, explain
from mopt_mlir.explain.alternatives import KINDS, Alternative
from mopt_mlir.explain.html import to_html
from mopt_mlir.explain.picture import to_png, to_svg
from mopt_mlir.explain.record import to_record
from mopt_mlir.explain.text import to_text
from mopt_mlir.loop_nest import CORES, Loop, Packing
from mopt_mlir.machine import by_name, resolve
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import MEMORY, bottleneck, predict
from mopt_mlir.pipeline.loading import load_module, run_passes
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.planning.operators import operators_of
from mopt_mlir.planning.plan_attribute import attached
from mopt_mlir.problem import LinearForm, conv2d
from mopt_mlir.solver import solve

DOCS = Path(__file__).resolve().parents[2] / "docs" / "explain.md"
MACHINE = by_name("znver5")
PROBLEM = conv2d(k=64, h=28, w=28, c=32, r=3, s=3, layout="nhwc", weights="hwcf")
WHOLE = dict(PROBLEM.extents)
KERNEL = Microkernel("k", 16, {"w": 14, "k": 32}, ("r", "s", "c"))


def level(name: str, order: str = "nkhwcrs", **sizes: int) -> Level:
    return Level(name, tuple(order), {**WHOLE, **sizes})


L3 = level("L3")
L2 = level("L2", "nkcrswh", h=7)
L1 = level("L1", "nhwcrsk", k=32, h=1, w=14, c=16)
PLAN = Plan("znver5", 1, KERNEL, (L3, L2, L1), packing="L2")


@pytest.fixture(scope="module")
def solved() -> Explanation:
    plan = solve(PROBLEM, MACHINE, 4)
    return explain(PROBLEM, MACHINE, plan, rivals=(solve(PROBLEM, MACHINE, 4, gap=0.3),))


# ---- the loop nest -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "machine", "threads"),
    [
        (Workload("plain", 64, 28, 28, 32, 3, 3), "znver5", 1),
        (Workload("large", 256, 40, 39, 200, 3, 3), "haswell", 1),
        (Workload("split", 128, 30, 30, 64, 3, 3, n=2), "haswell", 4),
        (Workload("strided", 96, 28, 28, 48, 3, 3, strides=(2, 2)), "i7-9700k", 3),
        (Workload("pointwise", 512, 28, 28, 1024, 1, 1), "i7-9700k", 8),
        (Workload("last", 70, 19, 23, 300, 5, 3, layout="nhwc_hwcf", element="f64"), "haswell", 2),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_loops_are_those_of_the_generated_code(
    workload: Workload, machine: str, threads: int
) -> None:
    module = load_module(workload.mlir())
    run_passes(module, f"mopt-analyze{{machine={machine} threads={threads}}}")
    plan = planned(module)
    (operator,) = operators_of(module)
    run_passes(module, "mopt-tile")
    nest = explain(operator.problem, by_name(machine), plan).nest
    bands = [step for step in nest if isinstance(step, Loop) and step.band in (*LEVELS, CORES)]
    versions = 1 + plan.nontemporal  # one more for outputs that are not aligned
    loops = [(loop.name, loop.step) for loop in bands] * versions
    assert generated(module.get_asm(use_name_loc_as_prefix=True)) == loops


def planned(module: object) -> Plan:
    plans = []
    bindings = bindings_of(module)

    def visit(operation: object) -> object:
        plans.append(attached(operation, bindings))
        return bindings.ir.WalkResult.ADVANCE

    module.walk(visit)
    (plan,) = [plan for plan in plans if plan is not None]
    return plan


def generated(text: str) -> list[tuple[str, int]]:
    """Name and step of the loops over tiles and shares, in the order of the text."""
    loops = []
    for match in re.finditer(r"affine\.(?:for|parallel) (.*) \{", text):
        names = re.findall(r"%(\w+)", match[1].partition("=")[0])
        step = re.search(r"step \(?([\d, ]+)", match[1])
        steps = step[1].split(", ") if step else ["1"] * len(names)
        found = zip(names, map(int, steps), strict=True)
        loops += [(name, size) for name, size in found if re.fullmatch(r"[a-z]_(L\d|core)", name)]
    return loops


def test_every_point_is_visited_once() -> None:
    for plan in (PLAN, replace(PLAN, levels=(L1,), packing="L1"), replace(PLAN, levels=())):
        plan = plan if plan.levels else replace(plan, packing="whole")
        nest = explain(PROBLEM, MACHINE, plan).nest
        left = dict(PROBLEM.extents)
        for loop in (step for step in nest if isinstance(step, Loop)):
            assert loop.extent == left[loop.dim]
            assert 1 < loop.trips == -(-loop.extent // loop.step)
            left[loop.dim] = loop.step
        assert left == {**dict.fromkeys("nhcrs", 1), "k": 32, "w": 14}


@pytest.mark.parametrize("place", ["whole", "L3", "L2", "L1"])
def test_weights_are_packed_once_all_loops_that_move_them_are_open(place: str) -> None:
    nest = explain(PROBLEM, MACHINE, replace(PLAN, packing=place)).nest
    (at,) = [i for i, step in enumerate(nest) if isinstance(step, Packing)]
    tile = WHOLE if place == "whole" else {"L3": L3, "L2": L2, "L1": L1}[place].tile
    assert nest[at].sizes == {dim: tile[dim] for dim in "kcrs"}
    assert nest[at].bytes == 4 * tile["k"] * tile["c"] * 9
    band = [step.dim for step in nest[at:] if isinstance(step, Loop) and step.band == place]
    assert not PROBLEM.weights.dims & set(band)


def test_a_last_panel_is_padded_and_packed_by_a_core_of_its_own() -> None:
    problem = conv2d(k=65, h=28, w=28, c=32, r=3, s=3, layout="nhwc", weights="hwcf")
    levels = tuple(Level(lv.name, lv.order, {**lv.tile, "k": 65}) for lv in (L3, L2, L1))
    plan = replace(PLAN, threads=4, levels=levels, parallel={"h": 4}, packing="whole")
    (step,) = [step for step in explain(problem, MACHINE, plan).nest if isinstance(step, Packing)]
    assert step == Packing("whole", {"k": 65, "c": 32, "r": 3, "s": 3}, 4 * 3 * 32 * 32 * 9, 3)


def test_constant_weights_are_packed_before_the_code_runs() -> None:
    nest = explain(PROBLEM, MACHINE, replace(PLAN, packing="whole"), constant_weights=True).nest
    assert not any(isinstance(step, Packing) for step in nest)


# ---- registers, caches, traffic ------------------------------------------------------------------


def test_registers_of_an_outer_product() -> None:
    use = explain(PROBLEM, MACHINE, PLAN).registers
    assert (use.vectors, use.broadcasts, use.accumulators) == (2, 14, 28)
    assert (use.used, use.available, use.loads) == (31, 32, 16)
    assert (use.fma_cycles, use.load_cycles, use.useful) == (14, 8 * 1.05, 1)
    issued = (14**12 + 8.4**12) ** (1 / 12)
    assert use.step_cycles == pytest.approx((issued**6 + 4**6) ** (1 / 6) + 0.25)


def test_vectors_wider_than_the_units_take_the_cycles_of_two() -> None:
    use = explain(PROBLEM, by_name("znver4"), replace(PLAN, machine="znver4")).registers
    assert (use.fma_cycles, use.load_cycles) == (
        28,
        9 * 1.05,
    )  # two vectors in halves, 14 broadcasts


def test_lanes_beyond_the_last_channel_are_not_useful() -> None:
    problem = conv2d(k=20, h=8, w=14, c=4, r=1, s=1)
    plan = solve(problem, MACHINE)
    kernel = Microkernel("k", 16, {"k": 32, "w": 14}, plan.microkernel.reduction)
    tiles = tuple(Level(lv.name, lv.order, dict(problem.extents)) for lv in plan.levels)
    use = explain(
        problem, MACHINE, replace(plan, microkernel=kernel, levels=tiles, packing="whole")
    ).registers
    assert use.useful == 20 / 32


def test_footprints_are_the_elements_that_a_tile_touches_in_whole_lines() -> None:
    caches = explain(PROBLEM, replace(MACHINE, pixel_room=None), PLAN).caches
    assert [cache.name for cache in caches] == ["L3", "L2", "L1"]
    for cache in caches:
        for name, tensor in zip(("input", "weights", "output"), PROBLEM.tensors, strict=True):
            elements = touched(tensor.axes, cache.tile)
            copies = 2 if (name, cache.name) == ("weights", PLAN.packing) else 1
            assert copies * 4 * elements <= cache.footprint[name] <= copies * 4 * elements * 16 / 9
        assert cache.usable == MACHINE.capacity_factor * cache.size


def touched(axes: tuple[LinearForm, ...], tile: dict[str, int]) -> int:
    """Distinct elements, by counting them along each axis."""
    total = 1
    for axis in axes:
        ranges = [range(0, tile[dim] * factor, factor) for dim, factor in axis.terms]
        total *= len({sum(point) for point in product(*ranges)})
    return total


def test_resources_agree_with_the_prediction(solved: Explanation) -> None:
    forecast = solved.forecast
    predicted = predict(PROBLEM, MACHINE, solved.plan)
    assert forecast.seconds == predicted.cost
    times = [forecast.core_seconds, *(t.seconds for t in forecast.transfers)]
    assert max(times) == forecast.slowest
    slacks = [forecast.core_slack, *(t.slack for t in forecast.transfers)]
    assert min(slacks) == 0
    assert all(0 <= slack < 1 for slack in slacks)
    for transfer in forecast.transfers:
        assert transfer.bytes == sum(predicted.volumes[transfer.source].values())
        if transfer.source != "DRAM":  # writing takes longer there than reading
            assert transfer.seconds == pytest.approx(transfer.bytes / transfer.bandwidth)
    assert forecast.performance == PROBLEM.flops / predicted.cost


def test_intensity_counts_the_traffic_of_all_cores(solved: Explanation) -> None:
    assert solved.cores == 4
    for transfer in solved.forecast.transfers:
        cores = 1 if transfer.source == "DRAM" else 4
        total = transfer.bytes * cores
        assert transfer.intensity == pytest.approx(PROBLEM.flops / total)
        assert transfer.roof == pytest.approx(PROBLEM.flops / transfer.seconds)
        if transfer.source != "DRAM":  # writing takes longer there than reading
            assert transfer.roof == pytest.approx(transfer.intensity * transfer.bandwidth * cores)
        assert transfer.roof >= solved.forecast.performance


def test_the_bound_is_that_of_the_solver_for_this_machine(solved: Explanation) -> None:
    known = solved.plan.prediction
    assert solved.forecast.bound == known.lower_bound
    assert solved.forecast.gap == pytest.approx(known.gap)
    elsewhere = explain(PROBLEM, by_name("znver4"), solved.plan)
    assert elsewhere.forecast.bound is None
    assert "none is known" in to_text((elsewhere,))


def test_a_bound_for_other_figures_of_a_machine_of_this_name_does_not_count() -> None:
    def with_bound(bound: float, cost: float = 1.0) -> Plan:
        seconds = predicted.cost
        figures = replace(predicted, cost=cost * seconds, lower_bound=bound * seconds)
        return replace(PLAN, prediction=figures)

    predicted = predict(PROBLEM, MACHINE, PLAN)
    assert explain(PROBLEM, MACHINE, with_bound(0.99)).forecast.bound == 0.99 * predicted.cost
    stale = with_bound(0.99, cost=1.1)
    assert explain(PROBLEM, MACHINE, stale).forecast.bound is None
    rivals = with_bound(0.9), with_bound(2.0, cost=2.1)
    explained = explain(PROBLEM, MACHINE, stale, rivals=rivals)
    assert explained.forecast.bound == 0.9 * predicted.cost


def test_a_bound_above_the_cost_is_not_believed() -> None:
    cost = predict(PROBLEM, MACHINE, PLAN)
    stale = replace(PLAN, prediction=replace(cost, lower_bound=2 * cost.cost))
    assert explain(PROBLEM, MACHINE, stale).forecast.bound is None


def test_a_plan_that_costs_less_than_the_bound_of_the_solver_is_said_to() -> None:
    """It is not one that the solver may choose, as its tiles do not fit."""
    small = MACHINE.override({"L1.size": "6144", "L2.size": "16384"})
    whole = replace(PLAN, levels=(L3, level("L2"), level("L1")), packing="whole")
    cost = predict(PROBLEM, small, whole).cost
    best = solve(PROBLEM, small)
    assert best.prediction is not None
    assert cost < best.prediction.lower_bound
    explained = explain(PROBLEM, small, whole, rivals=(best,))
    assert (explained.forecast.bound, explained.forecast.gap) == (None, None)
    assert explained.forecast.undercut == best.prediction.lower_bound
    bound = units.seconds(best.prediction.lower_bound)
    told = f"Bound: the solver's, {bound}, does not cover this plan, which costs less.\n"
    assert told in to_text((explained,))
    (record,) = to_record((explained,))["operators"]
    assert record["prediction"]["lower_bound"] is None
    for rivals, known in (((0.9, 1.1), 0.9 * cost), ((0.0,), None)):
        others = [
            replace(best, prediction=replace(best.prediction, lower_bound=part * cost))
            for part in rivals
        ]
        explained = explain(PROBLEM, small, whole, rivals=others)
        assert (explained.forecast.bound, explained.forecast.undercut) == (known, None)


# ---- plans that somebody wrote -------------------------------------------------------------------


def test_a_plan_without_outer_levels_is_that_with_one_tile_there() -> None:
    short = explain(PROBLEM, MACHINE, replace(PLAN, levels=(L2, L1)))
    full = explain(PROBLEM, MACHINE, PLAN)
    assert short.forecast.transfers == full.forecast.transfers
    assert short.nest == full.nest
    assert [cache.name for cache in short.caches] == ["L2", "L1"]
    assert "the plan has no L3" in " ".join(short.notes)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"levels": (L3, L2)}, "lacks L1, and the model needs every level inside"),
        ({"levels": (L3, L1), "packing": "L1"}, "lacks L2, and the model needs every level inside"),
        ({"levels": (L1,), "packing": "L1"}, None),
        (
            {"levels": (L2, L1), "parallel": {"h": 2}, "threads": 2},
            "lacks L3, and the model cannot split the tiles of an inner level",
        ),
    ],
)
def test_what_cannot_be_predicted_is_said(change: dict[str, object], why: str | None) -> None:
    explained = explain(PROBLEM, MACHINE, replace(PLAN, **change))
    if why is None:
        assert explained.forecast is not None
        return
    assert explained.forecast is None
    assert explained.alternatives == ()
    assert why in explained.unpredicted
    text = to_text((explained,))
    assert why in text.replace("\n  ", " ")
    assert "Loop nest" in text
    assert to_record((explained,))["operators"][0]["prediction"] is None
    with pytest.raises(UserError, match="nothing to draw: the plan lacks"):
        to_png([explained])
    assert "<svg" not in to_html((explained,))


def test_vectors_of_another_machine_are_not_predicted() -> None:
    explained = explain(PROBLEM, by_name("haswell"), PLAN)
    assert "vectors of 16 elements are wider than those of haswell" in explained.unpredicted


def test_registers_that_are_not_there_are_noted() -> None:
    kernel = replace(KERNEL, vector=8, tile={"w": 14, "k": 16})
    (note, *_) = explain(PROBLEM, by_name("haswell"), replace(PLAN, microkernel=kernel)).notes
    assert note.startswith("the microkernel needs 31 vector registers, and there are 16")


def test_a_problem_too_large_for_the_missing_level() -> None:
    small = MACHINE.override({"L3.size": str(2 << 20), "L2.size": str(1 << 19)})
    large = conv2d(k=512, h=28, w=28, c=512, r=3, s=3, layout="nhwc", weights="hwcf")
    inner = tuple(
        Level(name, tuple("nkhwcrs"), {**large.extents, "k": 32, "h": 1, "w": 14, "c": 8})
        for name in ("L2", "L1")
    )
    plan = Plan("own", 1, KERNEL, inner)
    assert "does not fit into L3 of znver5" in explain(large, small, plan).unpredicted


def test_tiles_that_do_not_fit_are_noted() -> None:
    full = replace(PLAN, levels=(L3, L2, replace(L1, tile=dict(L2.tile))))
    explained = explain(PROBLEM, MACHINE, full)
    assert explained.caches[-1].filled > 1
    assert any("L1 takes" in note for note in explained.notes)
    assert any(alternative.loss is not None for alternative in explained.alternatives)


def test_a_plan_that_does_not_fit_its_problem_is_refused() -> None:
    with pytest.raises(ValueError, match=r"L3.tile\[h\] = 28 is not in"):
        explain(conv2d(k=64, h=7, w=28, c=32, r=3, s=3), MACHINE, PLAN)


# ---- runners-up ----------------------------------------------------------------------------------


def test_alternatives_are_plans_that_cost_what_is_said(solved: Explanation) -> None:
    cost = solved.forecast.seconds
    for alternative in solved.alternatives:
        alternative.plan.check(PROBLEM)
        predicted = predict(PROBLEM, MACHINE, alternative.plan)
        assert alternative.bottleneck == predicted.bottleneck
        if alternative.loss is None:
            assert alternative.obstacle
        else:
            assert alternative.loss == pytest.approx(predicted.cost / cost - 1)
            assert predicted.cost >= solved.forecast.bound


@pytest.mark.parametrize(("k", "some"), [(16, False), (64, True)])
def test_output_that_stays_in_the_caches_has_no_alternative_past_them(k: int, some: bool) -> None:
    """The model has no price for what is lost by them: such a plan could cost less than a proven
    one. An output of 3 MB fits into L3, one of 13 MB with its input does not."""
    machine = resolve("znver5,L3.size=8388608")
    problem = conv2d(k=k, h=224, w=224, c=16, r=1, s=1, layout="nhwc")
    plan = solve(problem, machine)
    assert plan.prediction is not None
    explained = explain(problem, machine, plan)
    stores = [other for other in explained.alternatives if other.kind == "stores"]
    assert any(other.plan.nontemporal != plan.nontemporal for other in stores) == some
    bound = plan.prediction.lower_bound
    for other in explained.alternatives:
        assert other.loss is None or predict(problem, machine, other.plan).cost >= bound


def test_alternatives_differ_in_what_they_say(solved: Explanation) -> None:
    plan = solved.plan
    for other in solved.alternatives:
        levels = [(a, b) for a, b in zip(plan.levels, other.plan.levels, strict=True) if a != b]
        changed = {
            "microkernel": other.plan.microkernel != plan.microkernel,
            "packing": other.plan.packing != plan.packing,
            "parallel": dict(other.plan.parallel) != dict(plan.parallel),
            "stores": other.plan.nontemporal != plan.nontemporal,
            "order": any(a.order != b.order for a, b in levels),
            "tile": any(dict(a.tile) != dict(b.tile) for a, b in levels),
        }
        if other.kind != "plan":
            assert changed[other.kind], other.change
        if other.kind in ("order", "packing", "stores", "tile"):
            assert sum(changed.values()) == 1, other.change
        if other.kind in ("order", "tile"):
            assert levels[0][0].name == other.level


def test_alternatives_come_by_kind_and_loss(solved: Explanation) -> None:
    found = set()
    for explained in (solved, explain(PROBLEM, MACHINE, PLAN)):
        kinds = [alternative.kind for alternative in explained.alternatives]
        assert kinds == sorted(kinds, key=KINDS.index)
        found |= set(kinds)
        for key in {(a.kind, a.level) for a in explained.alternatives}:
            losses = [a.loss for a in explained.alternatives if (a.kind, a.level) == key]
            known = [loss for loss in losses if loss is not None]
            assert known == sorted(known)
            assert losses[: len(known)] == known
            assert 0.0 not in known
    assert found >= {"microkernel", "order", "packing", "parallel", "tile"}


def test_what_does_not_fit_says_how_full_which_cache_would_be(solved: Explanation) -> None:
    def too_large(change: str, obstacle: str) -> Alternative:
        return Alternative("packing", "", change, PLAN, None, "compute", obstacle)

    some = too_large("L2", "L2 filled to 120%"), too_large("L1", "L1 filled to 188%")
    text = to_text((replace(solved, alternatives=some),))
    told = [line.split() for line in text.splitlines() if "does not fit" in line]
    assert told == [f"packing does not fit {a.obstacle} {a.change}".split() for a in some]
    alike = too_large("L2", "L3 filled to 300%"), too_large("L1", "L3 filled to 300%")
    text = to_text((replace(solved, alternatives=alike),))
    assert re.search(r"does not fit +L3 filled to 300% +L2 or L1\n", f"{text}\n")


def test_the_solvers_plan_shows_what_a_worse_one_loses() -> None:
    best = solve(PROBLEM, MACHINE)
    worse = replace(PLAN, levels=(L3, L2, replace(L1, tile={**L1.tile, "c": 1})))
    explained = explain(PROBLEM, MACHINE, worse, rivals=(best,))
    (rival,) = [a for a in explained.alternatives if a.kind == "plan"]
    assert rival.loss < 0
    assert "L1" in rival.change
    assert explained.forecast.bound == best.prediction.lower_bound


# ---- formats -------------------------------------------------------------------------------------


def test_text_has_each_part(solved: Explanation) -> None:
    text = to_text((replace(solved, name="mine", places=("a.mlir:1:2",)),))
    assert text.startswith("mine: n=1 k=64 h=28")
    for title in ("Loop nest", "Microkernel", "Tiles", "Data volumes and times", "Runners-up"):
        assert f"\n{title}\n{'-' * len(title)}\n" in text
    assert "at a.mlir:1:2" in text
    assert "parallel " in text
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"nontemporal": False}, "stores           through the caches"),
        ({"nontemporal": True}, "stores           past the caches"),
        (
            {"nontemporal": True},
            "prefetches       of what later register tiles read, into L1",
        ),
        (
            {"prefetch": "L1"},
            "prefetches       of output, and of what later register tiles read, into L1",
        ),
        (
            {"prefetch": "L2"},
            "prefetches       of output, and of what later register tiles read, into L2",
        ),
        (
            {"prefetch": "both"},
            "prefetches       of output, and of what later register tiles read, into L2, input "
            "from there into L1",
        ),
    ],
)
def test_text_says_where_stores_and_prefetches_go(change: dict[str, Any], line: str) -> None:
    plan = replace(PLAN, levels=(L3, L2, L1), **change)
    assert f"\n  {line}\n" in to_text((explain(PROBLEM, MACHINE, plan),))


def test_text_says_where_handing_out_work_takes_longest() -> None:
    problem = conv2d(k=32, h=2, w=14, c=2, r=1, s=1, layout="nhwc", weights="hwcf")
    share = {**problem.extents, "h": 1}
    sizes = {"L3": problem.extents, "L2": share, "L1": share}
    levels = tuple(Level(name, problem.names, tile) for name, tile in sizes.items())
    plan = Plan("znver5", 2, KERNEL, levels, parallel={"h": 2}, packing="none")
    told = explain(problem, MACHINE, plan)
    assert told.forecast is not None
    assert told.forecast.prediction.bottleneck == "parallel"
    text = to_text((told,))
    assert "Bottleneck: handing out work, " in text
    assert re.search(r"^  handing out work +5\.00 us$", text, re.MULTILINE)
    assert "Handing out work comes on top." in text.replace("\n", " ")
    alone = to_text((explain(problem, MACHINE, replace(plan, threads=1, parallel={})),))
    assert "anding out work" not in alone


@pytest.mark.parametrize(
    ("compute", "packing", "what"),
    [
        (3.0, 2.0, "computing and packing"),
        (2.0, 3.0, "packing and computing"),
        (5.0, 0.0, "computing"),
    ],
)
def test_text_says_what_the_core_does_where_it_is_slowest(
    solved: Explanation, compute: float, packing: float, what: str
) -> None:
    forecast = solved.forecast
    assert forecast is not None
    seconds = {**forecast.prediction.seconds, "compute": compute, "packing": packing}
    prediction = replace(forecast.prediction, seconds=seconds)
    forecast = replace(forecast, prediction=prediction, core_seconds=5.0, slowest=5.0)
    told = to_text((replace(solved, forecast=forecast),))
    assert f"\nBottleneck: {what}, 5.00 s. Next comes " in told


@pytest.mark.parametrize(
    ("compute", "packing", "memory", "slowest"),
    [
        (3.0, 2.0, 4.0, "compute"),  # five seconds of the core
        (2.0, 3.0, 4.0, "packing"),
        (2.0, 3.0, 6.0, "L2"),
    ],
)
def test_the_core_is_the_bottleneck_where_both_that_it_does_take_longest(
    compute: float, packing: float, memory: float, slowest: str
) -> None:
    seconds = dict.fromkeys(MEMORY, 1.0) | {"L2": memory, "parallel": 0.0}
    assert bottleneck({**seconds, "compute": compute, "packing": packing}) == slowest


def test_text_says_when_cores_idle() -> None:
    plan = replace(PLAN, threads=3, parallel={"h": 2}, levels=(L3, L2, L1))
    assert "2 of 3 cores get work" in to_text((explain(PROBLEM, MACHINE, plan),))


def test_cores_without_a_register_tile_or_a_panel_get_no_work() -> None:
    """There are two of each along the channels."""
    plan = replace(PLAN, threads=8, parallel={"k": 4}, levels=(), packing="whole")
    found = explain(PROBLEM, MACHINE, plan)
    assert "2 of 8 cores get work" in to_text((found,))
    assert found.cores == 2
    assert [step.cores for step in found.nest if isinstance(step, Packing)] == [2]


def test_text_says_when_stores_past_the_caches_come_back() -> None:
    """The model knows them for output that is stored once."""
    once = replace(L1, tile={**L1.tile, "c": 32})
    for last, told in ((L1, True), (once, False)):
        plan = replace(PLAN, nontemporal=True, levels=(L3, L2, last))
        text = to_text((explain(PROBLEM, MACHINE, plan),))
        assert ("stored past the caches at each of their 2 visits" in text) == told


def test_other_microkernels_read_otherwise() -> None:
    """Also one of the same tile, with longer vectors."""
    plan = replace(PLAN, microkernel=Microkernel("k", 8, {"w": 14, "k": 32}, ("r", "s", "c")))
    others = explain(PROBLEM, MACHINE, plan).alternatives
    changes = [other.change for other in others if other.kind == "microkernel"]
    assert changes
    assert all(change.endswith(", vectors of 16") for change in changes)


def test_record_is_json_and_documented(solved: Explanation) -> None:
    partial = explain(PROBLEM, MACHINE, replace(PLAN, levels=(L3, L2)))
    record = to_record((solved, partial))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    described = DOCS.read_text()
    for key in keys(record):
        assert f"`{key}`" in described, key
    first = record["operators"][0]
    assert Plan.from_dict(first["plan"]) == replace(solved.plan, prediction=None)
    assert all(Plan.from_dict(a["plan"]).levels for a in first["alternatives"])


def keys(data: object, open_ended: bool = False) -> set[str]:
    """Keys of nested data, but for those that are names of dims and tensors, or a plan's own."""
    if isinstance(data, list):
        return {key for item in data for key in keys(item)}
    if not isinstance(data, dict):
        return set()
    inner = {key: item for key, item in data.items() if key not in ("plan",)}
    named = {"dims", "tile", "sizes", "footprint", "volumes"}
    found = set(data)
    for key, item in inner.items():
        if key not in named:
            found |= keys(item)
    return found


class Page(HTMLParser):
    """What an HTML page consists of."""

    VOID = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attributes}
        self.tags.append((tag, known))
        if "id" in known:
            self.ids.append(known["id"])
        if tag not in self.VOID and tag != "li":  # a list item needs no end tag
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_self_contained_and_accessible(solved: Explanation) -> None:
    text = to_html((solved, replace(solved, name="<other>")))
    page = Page(text)
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    links = [known["href"] for _, known in page.tags if "href" in known]
    assert all(link.startswith("#") and link[1:] in page.ids for link in links)
    assert set(re.findall(r"url\((.)", text)) == {"#"}
    assert not re.search(r"https?:|\bsrc=|@import|<script|<link", text)
    assert "<other>" not in text
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == 1
    assert page.tags[0] == ("html", {"lang": "en"})
    assert all(known["aria-label"] for tag, known in page.tags if tag == "svg")
    assert tags.count("svg") == 2
    assert all(known.get("scope") for tag, known in page.tags if tag == "th")
    assert "prefers-color-scheme: dark" in text


def test_pictures_are_the_same_every_time_and_say_what_they_show(solved: Explanation) -> None:
    svg = to_svg(solved)
    assert svg == to_svg(solved)
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {"Data volumes", "Roofline of 4 cores", "speed (GFLOP/s)"} <= set(labels)
    assert {"arithmetic intensity (FLOP per byte moved)", "L1 to registers"} <= set(labels)
    png = to_png([solved, solved])
    assert png == to_png([solved, solved])
    assert png.startswith(b"\x89PNG\r\n")
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert width > 1000
    assert height > width / 2, "a row per operator"


def test_too_many_for_one_picture(solved: Explanation) -> None:
    with pytest.raises(UserError, match="41 operators do not fit into one picture"):
        to_png([solved] * 41)


def test_without_matplotlib_the_way_out_is_said(
    solved: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (lambda: to_png([solved]), lambda: to_html((solved,))):
        with pytest.raises(UserError, match=r"pip install matplotlib"):
            draw()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.size(0), "0 B"),
        (units.size(12), "12 B"),
        (units.size(1023), "1023 B"),
        (units.size(1048000), "1023 KiB"),
        (units.size(1048500), "1.00 MiB"),
        (units.size(147456), "144 KiB"),
        (units.size(5 << 40), "5.00 TiB"),
        (units.size(5000 << 40), "5000 TiB"),
        (units.seconds(999.6e-9), "1.00 us"),
        (units.seconds(8.5e-4), "850 us"),
        (units.seconds(12.34), "12.3 s"),
        (units.seconds(0), "0 ns"),
        (units.speed(2.5e11), "250 GFLOP/s"),
        (units.speed(2.5e12), "2.50 TFLOP/s"),
        (units.bandwidth(4.6e10), "46.0 GB/s"),
        (units.percent(0.0), "0%"),
        (units.percent(0.0123), "1.2%"),
        (units.percent(0.0999), "10%"),
        (units.change(1e-9), "+0.00%"),
        (units.change(-1e-9), "-0.00%"),
        (units.change(0.0036), "+0.36%"),
        (units.change(0.132), "+13.2%"),
        (units.change(3.2), "+320%"),
        (units.digits(9.999), "10.0"),
        (units.digits(0.01234), "0.0123"),
    ],
)
def test_quantities(text: str, expected: str) -> None:
    assert text == expected
