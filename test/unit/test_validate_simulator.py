"""Simulated caches against plain ones in Python, and the trace of generated code against counts
that hold for any right code."""

from collections import OrderedDict
from ctypes import CFUNCTYPE, c_int64
from dataclasses import replace
from math import prod
from statistics import median

import numpy as np
import pytest

from benchmarks.operators import problem_of
from benchmarks.validation import trace, volumes
from benchmarks.validation.sample import sample_plans
from benchmarks.validation.simulator import READ, WRITTEN, Layout, Level, Simulation
from benchmarks.validation.volumes import ASSOCIATIVE, FULL, GivenUpError, simulate
from benchmarks.workloads import Workload
from mopt_mlir import UserError
from mopt_mlir.estimate.residency import resident_volumes
from mopt_mlir.lowering.jit import LoadedCode
from mopt_mlir.lowering.native import compile_text
from mopt_mlir.lowering.target import of_cpu
from mopt_mlir.machine import by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import Level as PlanLevel
from mopt_mlir.plan import Plan
from mopt_mlir.solver.candidates import candidates

REPLAY = f"""
define void @replay(ptr %trace, i64 %count) {{
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %next, %join ]
  %at = mul i64 %i, 3
  %address.at = getelementptr i64, ptr %trace, i64 %at
  %size.at = getelementptr i64, ptr %address.at, i64 1
  %store.at = getelementptr i64, ptr %address.at, i64 2
  %address = load i64, ptr %address.at
  %size = load i64, ptr %size.at
  %store = load i64, ptr %store.at
  %pointer = inttoptr i64 %address to ptr
  %is.store = icmp ne i64 %store, 0
  br i1 %is.store, label %write, label %read
read:
  call void @{trace.LOAD}(ptr %pointer, i64 %size)
  br label %join
write:
  call void @{trace.STORE}(ptr %pointer, i64 %size)
  br label %join
join:
  %next = add i64 %i, 1
  %is.last = icmp eq i64 %next, %count
  br i1 %is.last, label %done, label %each
done:
  ret void
}}
"""


class PlainCache:
    """The same rules over ordered dictionaries, a set each: line -> written to, oldest first."""

    def __init__(self, sets, ways, outer):
        self.sets, self.ways, self.outer = [OrderedDict() for _ in range(sets)], ways, outer
        self.fills, self.written = {}, {}

    def access(self, line, dirty, how):
        """`how` is None for a line that the cache inside displaces."""
        lines = self.sets[line % len(self.sets)]
        if line in lines:
            lines[line] |= dirty
            lines.move_to_end(line)
            return
        if how is not None:
            self.fills[how] = self.fills.get(how, 0) + 1
            if self.outer:
                self.outer.access(line, False, how)
        if len(lines) == self.ways:
            victim, was_dirty = lines.popitem(last=False)
            if was_dirty:
                self.written[victim] = self.written.get(victim, 0) + 1
                if self.outer:
                    self.outer.access(victim, True, None)
        lines[line] = dirty


@pytest.mark.parametrize("sets", [4, 3, 1])  # a power of two, none, and full associativity
def test_caches_behave_as_plain_ones(sets):
    layout = Layout((0, 40), 96, 64)
    levels = [Level("L1", sets, 2), Level("L2", 2 * sets, 3)]
    simulation = Simulation.of(layout, {"a": levels}, 1 << 40)
    generator = np.random.default_rng(sets)
    count = 4000
    lines = generator.integers(0, 95, count) * generator.integers(0, 2, count)
    accesses = np.stack(
        [64 * lines + generator.integers(0, 64, count),
         generator.choice([4, 32, 64], count), generator.integers(0, 2, count)], axis=1
    )  # fmt: skip
    native = compile_text(REPLAY + simulation.ir(), of_cpu("host"), ["replay"])
    code = LoadedCode(native, ["replay"], simulation.symbols)
    replay = CFUNCTYPE(None, c_int64, c_int64)(code.address("replay"))
    replay(accesses.ctypes.data, count)

    outer = PlainCache(levels[1].sets, levels[1].ways, None)
    inner = PlainCache(levels[0].sets, levels[0].ways, outer)
    for address, size, store in accesses.tolist():
        first, last = address // 64, (address + size - 1) // 64
        for line in range(first, last + 1):
            inner.access(line, bool(store), (first >= 40, store))
    counts, dirty = simulation.counts("a"), set()
    for cache, name in ((inner, "L1"), (outer, "L2")):
        expected = [
            [cache.fills.get((region, how), 0) for how in (READ, WRITTEN)]
            for region in (False, True)
        ]
        assert counts[name].fills.tolist() == expected
        dirty |= {line for lines in cache.sets for line, written in lines.items() if written}
        for region in (0, 1):
            back = [line for line in cache.written if (line >= 40) == region]
            left = sum((line >= 40) == region for line in dirty)
            expected_back = sum(cache.written[line] for line in back) + left
            assert counts[name].written[region] == expected_back
    assert simulation.accesses == count
    assert simulation.moved.sum() == accesses[:, 1].sum()


TINY = Workload("tiny", k=20, h=5, w=7, c=6, r=3, s=2, strides=(2, 1))
PROBLEM = problem_of(TINY)
MACHINE = by_name("haswell")
ORDER = PROBLEM.names


def plan_with(packing, tile, levels=("L3", "L2", "L1")):
    kernel = Microkernel("k", 8, {"k": 8, "w": 3}, ("c", "r", "s"))
    whole = dict(PROBLEM.extents)
    tiles = [{**whole, **(tile if name == "L1" else {})} for name in levels]
    made = tuple(PlanLevel(name, ORDER, one) for name, one in zip(levels, tiles, strict=True))
    return Plan("haswell", 1, kernel, made, {}, packing)


def lines_of(shape):
    return -(-4 * prod(shape) // 64)


@pytest.mark.parametrize("packing", ["whole", "L1"])
def test_what_fits_into_a_cache_is_fetched_once(packing):
    result = simulate(TINY, plan_with(packing, {"k": 8, "h": 2}), MACHINE, "avx2")
    for hierarchy in (ASSOCIATIVE, FULL):
        for resource in ("L2", "L3", "DRAM"):
            found = result.volumes[hierarchy][resource]
            assert found["output"] == 2 * 64 * lines_of(TINY.output_shape)
            assert found["packing"] >= 64 * lines_of(TINY.weights_shape)
            assert found["weights"] == 0  # the panels were just written
            # a stride of 2 along the rows leaves out none of them, as the filter has 3
            assert found["input"] == 64 * lines_of(TINY.input_shape)


def test_registers_exchange_what_the_outer_product_needs():
    """One step reads a vector for each 8 channels and a scalar for each pixel."""
    result = simulate(TINY, plan_with("whole", {}), MACHINE, "avx2")
    steps = TINY.c * TINY.r * TINY.s
    found = result.volumes[FULL]["L1"]
    tiles_w, tiles_k = 3, 3  # 3 + 3 + 1 columns, 8 + 8 + 4 channels
    assert found["weights"] == 4 * steps * TINY.h * tiles_w * tiles_k * 8
    assert found["input"] == 4 * steps * TINY.h * TINY.w * tiles_k
    assert found["output"] == 4 * TINY.k * TINY.h * TINY.w
    assert found["packing"] == 4 * steps * (TINY.k + tiles_k * 8)


def test_predicted_traffic_of_registers_is_that_of_the_code():
    for plan in sample_plans(PROBLEM, MACHINE, 6, 1):
        found = simulate(TINY, plan, MACHINE, "avx2").volumes[FULL]["L1"]
        predicted = predict(PROBLEM, MACHINE, plan).volumes["L1"]
        assert found["input"] == pytest.approx(predicted["input"], rel=0.25)
        assert found["output"] == pytest.approx(predicted["output"], rel=0.25)


def test_the_same_plan_gives_the_same_volumes():
    plan = plan_with("L1", {"c": 3})
    assert simulate(TINY, plan, MACHINE, "avx2") == simulate(TINY, plan, MACHINE, "avx2")


def test_a_plan_that_takes_too_long_is_given_up():
    with pytest.raises(GivenUpError, match="more than 100 accesses"):
        simulate(TINY, plan_with("whole", {}), MACHINE, "avx2", limit=100)


def test_a_plan_that_does_not_fit_is_given_up():
    other = replace(TINY, k=TINY.k - 1)
    with pytest.raises(GivenUpError, match=r"'mopt\.plan'"):
        simulate(other, plan_with("whole", {}), MACHINE, "avx2")


def test_what_the_host_lacks_is_no_plan_that_is_given_up(monkeypatch):
    def lacks(isa):
        raise UserError("this host has no AVX2")

    monkeypatch.setattr(volumes, "options_for", lacks)
    with pytest.raises(UserError, match="this host has no AVX2"):
        simulate(TINY, plan_with("whole", {}), MACHINE, "avx2")


def test_lines_of_different_sizes_are_refused():
    machine = MACHINE.override({"L3.line": "128"})
    with pytest.raises(UserError, match=r"lines of different sizes, .*; leave out"):
        volumes.simulate(TINY, plan_with("whole", {}), machine, "avx2")


def test_stores_past_the_caches_are_counted_apart():
    line = "  store <8 x float> %v, ptr %p, align 32, !nontemporal !1"
    assert trace.traced(line) == f"  call void @{trace.STREAM}(ptr %p, i64 32)\n"


@pytest.mark.parametrize("edge", [4, 5])  # columns: the last tile of 4 is whole, or a single one
def test_only_what_is_inside_of_an_edge_is_written(edge):
    workload = Workload("edge", k=5, h=1, w=edge, c=2, r=1, s=1)
    kernel = Microkernel("k", 8, {"k": 8, "w": 4}, ("c",))
    problem = problem_of(workload)
    whole = PlanLevel("L1", problem.names, problem.extents)
    levels = tuple(PlanLevel(name, whole.order, whole.tile) for name in ("L3", "L2", "L1"))
    plan = Plan("haswell", 1, kernel, levels, {}, "whole")
    found = simulate(workload, plan, MACHINE, "avx2").volumes[FULL]
    assert found["L1"]["output"] == 4 * 5 * edge
    assert found["DRAM"]["output"] == 2 * 64 * lines_of(workload.output_shape)


def test_an_unknown_access_is_not_passed_over():
    with pytest.raises(ValueError, match=r"unknown kind: call void @llvm\.memcpy"):
        trace.traced("  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr %2, i64 64, i1 false)")


def test_predicted_volumes_are_those_of_fully_associative_caches():
    """On a machine whose caches are small beside the problem: of plans that the solver likes, and
    from memory of sampled ones, of which such caches keep parts of blocks that do not fit. Not of
    L1, whose tiles share lines with their neighbours, which the model counts for each of them."""
    workload = Workload("x", k=48, h=14, w=14, c=32, r=3, s=3)
    problem = problem_of(workload)
    sizes = {"L1.size": "8192", "L2.size": "32768", "L3.size": "131072"}
    machine = MACHINE.override(sizes)

    def error(plan, resource):
        found = simulate(workload, plan, machine, "avx2").volumes[FULL][resource]
        predicted = resident_volumes(problem, machine, plan, predict(problem, machine, plan))
        return abs(sum(predicted[resource].values()) / sum(found.values()) - 1)

    liked = candidates(problem, machine, 1, 9)
    for resource in ("L3", "DRAM"):
        assert median(error(plan, resource) for plan in liked) < 0.25
    sampled = sample_plans(problem, machine, 10, 2)
    assert median(error(plan, "DRAM") for plan in sampled) < 0.25
