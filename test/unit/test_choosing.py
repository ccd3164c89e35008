"""`candidates`: plans that are measured at compile time, and which of them is taken."""

from __future__ import annotations

import gc
import os
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mopt_mlir
from mopt_mlir import UserError
from mopt_mlir.bindings import bindings_of
from mopt_mlir.compiler import choosing, trial
from mopt_mlir.compiler.arguments import random_arguments
from mopt_mlir.compiler.choosing import _times_when_cold, choose_plans
from mopt_mlir.compiler.executable import load
from mopt_mlir.compiler.lowered import lower_module
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.linalg.constants import constant_value
from mopt_mlir.linalg.isolation import ENTRY, isolate
from mopt_mlir.lowering.target import host, of_cpu
from mopt_mlir.machine import by_name
from mopt_mlir.normal_form import normalise
from mopt_mlir.pipeline.loading import load_module
from mopt_mlir.planning.plan_attribute import attached
from mopt_mlir.planning.planner import convolutions
from mopt_mlir.reference import evaluate
from mopt_mlir.solver import candidates
from mopt_mlir.tools import mopt_compile

MACHINE = "generic-avx2"
OPTIONS = CompileOptions(machine=MACHINE, candidates=3)

SHAPES = "tensor<1x8x8x14xf32>, tensor<16x8x3x3xf32>"
ON_TENSORS = f"""
func.func @conv(%input: tensor<1x8x8x14xf32>, %weights: tensor<16x8x3x3xf32>,
                %output: tensor<1x16x6x12xf32>) -> tensor<1x16x6x12xf32> {{
  %zero = arith.constant 0.0 : f32
  %filled = linalg.fill ins(%zero : f32) outs(%output : tensor<1x16x6x12xf32>)
      -> tensor<1x16x6x12xf32>
  %result = linalg.conv_2d_nchw_fchw ins(%input, %weights : {SHAPES})
      outs(%filled : tensor<1x16x6x12xf32>) -> tensor<1x16x6x12xf32>
  return %result : tensor<1x16x6x12xf32>
}}
"""
CONSTANT = ON_TENSORS.replace(", %weights: tensor<16x8x3x3xf32>", "").replace(
    "  %zero", "  %weights = arith.constant dense<0.5> : tensor<16x8x3x3xf32>\n  %zero", 1
)
ON_MEMREFS = """
func.func @conv(%input: memref<1x8x8x14xf32, strided<[?, ?, 16, 1], offset: ?>>,
                %weights: memref<16x8x3x3xf32>, %output: memref<1x16x6x12xf32>) {
  linalg.conv_2d_nchw_fchw ins(%input, %weights :
          memref<1x8x8x14xf32, strided<[?, ?, 16, 1], offset: ?>>, memref<16x8x3x3xf32>)
      outs(%output : memref<1x16x6x12xf32>)
  return
}
"""
GLOBAL = """
memref.global "private" constant @w : memref<5x4xf64> = dense<0.25>
func.func @conv(%input: memref<9x8xf64>, %output: memref<5x5xf64>) {
  %weights = memref.get_global @w : memref<5x4xf64>
  linalg.conv_2d ins(%input, %weights : memref<9x8xf64>, memref<5x4xf64>)
      outs(%output : memref<5x5xf64>)
  return
}
"""
BEHIND_A_VIEW = """
func.func @conv(%input: memref<1x8x8x14xf32>, %output: memref<1x16x6x12xf32>) {
  %constant = arith.constant dense<0.5> : tensor<16x8x3x3xf32>
  %weights = bufferization.to_buffer %constant read_only
      : tensor<16x8x3x3xf32> to memref<16x8x3x3xf32, strided<[?, ?, ?, ?], offset: ?>>
  linalg.conv_2d_nchw_fchw ins(%input, %weights : memref<1x8x8x14xf32>,
          memref<16x8x3x3xf32, strided<[?, ?, ?, ?], offset: ?>>)
      outs(%output : memref<1x16x6x12xf32>)
  return
}
"""
SOURCES = {
    "view": BEHIND_A_VIEW,
    "tensors": ON_TENSORS,
    "constant": CONSTANT,
    "memrefs": ON_MEMREFS,
    "global": GLOBAL,
}


def only(text: str):
    """The bindings, the module and the one convolution of a source."""
    module = load_module(text)
    bindings = bindings_of(module)
    (found,) = convolutions(module, bindings)
    return bindings, module, found


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOPT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _quick_flush(monkeypatch):
    monkeypatch.setattr("mopt_mlir.machine.flushing.largest_cache", lambda: 1 << 20)


@pytest.fixture
def take(monkeypatch):
    """Decides, instead of measured times, which candidate is taken; `.asked` counts decisions."""

    class Taken:
        number = 1
        asked = 0

        def __call__(self, times):
            self.asked += 1
            assert (times > 0).all()
            return self.number

    taken = Taken()
    monkeypatch.setattr(choosing, "fastest", taken)
    monkeypatch.setattr(trial, "TURNS", 1)
    monkeypatch.setattr(trial, "LEAST_TURNS", 1)
    return taken


# Which one is fastest


def sampled(*typical, noise=0.02, turns=15):
    """Times around `typical`, as noise has them: sometimes longer, never much shorter."""
    generator = np.random.default_rng(0)
    return np.array(typical) * (1 + noise * generator.exponential(size=(turns, len(typical))))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (sampled(1.0, 1.1, 0.8, 0.9), 2),
        (sampled(1.0, 1.2, 1.1), 0),
        (sampled(1.0, 0.999, 1.0), 0),  # not by more than they scatter
        (sampled(1.0, 0.93, noise=0.3), 0),
        (sampled(1.0), 0),
    ],
)
def test_the_first_is_left_only_for_one_that_is_surely_faster(times, expected):
    assert trial.fastest(times) == expected


def test_what_disturbs_whole_turns_does_not_count():
    times = sampled(1.0, 0.9)
    times[::2] *= 3
    assert trial.fastest(times) == 1


def test_candidates_take_turns_after_the_caches_are_flushed():
    calls = []
    runs = [lambda n=n: calls.append(n) for n in range(3)]
    times = trial.time_in_turns(runs, lambda: calls.append("flush"))
    assert times.shape == (trial.TURNS, 3)
    assert calls[::2] == ["flush"] * (3 * (trial.TURNS + 1))
    firsts = calls[1::6]
    assert firsts[:5] == [0, 0, 1, 2, 0]


def test_each_time_is_that_of_the_candidate_at_its_place(monkeypatch):
    """Whose turn it is first changes, but not where its time is found."""
    monkeypatch.setattr(trial, "time_call", lambda run, _: run())
    runs = [lambda seconds=seconds: seconds for seconds in (3.0, 1.0, 2.0)]
    for times in (trial.time_in_turns(runs), _times_when_cold(runs)):
        assert times.tolist() == [[3.0, 1.0, 2.0]] * trial.TURNS


def test_the_process_has_all_its_cpus_again_after_what_binds_it_to_one():
    before = os.sched_getaffinity(0)
    seen = []

    def run():
        seen.append(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {min(before)})

    _times_when_cold([run])
    assert os.sched_getaffinity(0) == before
    assert all(cpus == before for cpus in seen)


def assert_computes(function, module):
    """What `conv` of `module` does, in its result or its last argument."""
    arguments = random_arguments(function.entry)
    expected = evaluate(module, "conv", arguments)
    reference = expected.results[0] if expected.results else expected.arguments[-1]
    result = function(*arguments)
    computed = arguments[-1] if result is None else result
    np.testing.assert_allclose(computed, reference.value, atol=1e-4)


# A convolution by itself


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_convolution_by_itself_is_the_same_problem_and_computes_the_same(source):
    bindings, module, convolution = only(source)
    constant = constant_value(convolution.weights, bindings)
    alone, operation = isolate(convolution, constant, bindings)
    alone.verify()
    (again,) = convolutions(alone, bindings)
    assert again.operation == operation
    assert normalise(again.problem) == normalise(convolution.problem)
    assert (again.initializer is None) == (convolution.initializer is None)
    known = constant_value(again.weights, bindings)
    assert (known is None) == (constant is None)
    function = load(lower_module(alone.clone().operation, CompileOptions()), host())[ENTRY]
    assert_computes(function, module)


# Choosing


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_plan_whose_code_takes_least_time_is_attached(monkeypatch, number):
    """Each time belongs to the plan that the code was generated for."""
    bindings, module, convolution = only(ON_MEMREFS)
    plans = candidates(normalise(convolution.problem)[0], by_name(MACHINE), 1, 3)
    assert len({str(plan.as_dict()) for plan in plans}) == 3
    compiled = choosing._Chooser._compiled

    def compiled_for_its_plan(chooser, alone):
        """Binding its arguments gives the plan, in place of a call."""
        (found,) = convolutions(alone, bindings)
        plan = attached(found.operation, bindings)
        entry = compiled(chooser, alone).entry
        return SimpleNamespace(entry=entry, bind=lambda *_: plan)

    def times(bound):
        return sampled(*(1.0 if plan == plans[number] else 1.5 for plan in bound))

    monkeypatch.setattr(choosing._Chooser, "_compiled", compiled_for_its_plan)
    monkeypatch.setattr(choosing, "_times_when_cold", times)
    choose_plans(module, OPTIONS, host())
    assert attached(convolution.operation, bindings) == plans[number]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_candidate_computes_what_the_source_says(take, source):
    for take.number in (0, 1):
        function = mopt_mlir.compile(source, machine=MACHINE, candidates=2, plan_cache=False)
        assert_computes(function["conv"], load_module(source))
    assert take.asked == 2


def test_a_module_says_what_it_is_for(take):
    bindings, module, convolution = only(f"module attributes {{mine.target = 5}} {{{ON_MEMREFS}}}")
    alone, _ = isolate(convolution, None, bindings)
    assert alone.attributes["mine.target"] == module.attributes["mine.target"]


def test_equal_problems_are_measured_once(take):
    both = ON_MEMREFS + ON_MEMREFS.replace("@conv", "@again")
    module = load_module(both)
    choose_plans(module, OPTIONS, host())
    bindings = bindings_of(module)
    first, second = (attached(c.operation, bindings) for c in convolutions(module, bindings))
    assert first == second
    assert take.asked == 1
    choose_plans(load_module(ON_TENSORS), OPTIONS, host())  # which does not accumulate
    assert take.asked == 2


def test_what_was_measured_is_kept_with_all_that_it_depends_on(take):
    def chosen(options=OPTIONS, target=None):
        module = load_module(ON_MEMREFS)
        choose_plans(module, options, target or host())
        (found,) = convolutions(module, bindings_of(module))
        return attached(found.operation, bindings_of(module))

    first = chosen()
    take.number = 0  # would be another one
    assert chosen() == first
    assert take.asked == 1
    others = (
        {"options": CompileOptions(machine=MACHINE, candidates=2)},
        {"options": CompileOptions(machine="haswell", candidates=3)},
        {"target": of_cpu("x86-64-v3")},
        {"options": CompileOptions(machine=MACHINE, candidates=3, plan_cache=False)},
    )
    for count, other in enumerate(others, 2):
        chosen(**other)
        assert take.asked == count


def test_a_plan_that_is_attached_stays(take):
    bindings, module, convolution = only(ON_MEMREFS)
    choose_plans(module, OPTIONS, host())
    before = attached(convolution.operation, bindings)
    take.number = 0
    choose_plans(module, OPTIONS, host())
    assert attached(convolution.operation, bindings) == before
    assert take.asked == 1


def test_one_candidate_measures_nothing(take):
    mopt_mlir.compile(ON_MEMREFS, machine=MACHINE)
    assert take.asked == 0


def test_what_is_not_tiled_is_told_once(take):
    dynamic = ON_TENSORS.replace("1x8x8x14", "?x8x8x14").replace("1x16x6x12", "?x16x6x12")
    told = []
    with mopt_mlir.sink(told.append):
        mopt_mlir.compile(dynamic, candidates=3)
    assert ["is not tiled" in one.message for one in told] == [True]


# Refusals


def test_no_plan_is_told_once_as_without_candidates():
    told = []
    for number in (1, 3):
        with pytest.raises(UserError) as refusal:
            mopt_mlir.compile(ON_MEMREFS, machine="znver5,L1.size=64,L1.ways=1", candidates=number)
        told.append(str(refusal.value))
    assert told[0] == told[1]
    assert "no plan for machine" in told[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": 0}, "candidates=0: not from 1 to 100"),
        ({"candidates": 5, "passes": "cse"}, "candidates=5 are plans for mopt-tile, which passes"),
    ],
)
def test_options_without_sense(options, message):
    with pytest.raises(UserError, match=message):
        mopt_mlir.compile(ON_MEMREFS, **options)


def test_code_that_does_not_run_here_cannot_be_measured(tmp_path, capsys, monkeypatch):
    def lacks(target):
        raise UserError(f"code for '{target.cpu}' does not run here: this CPU lacks avx512f")

    monkeypatch.setattr("mopt_mlir.lowering.target.check_runs_here", lacks)
    source, output = tmp_path / "conv.mlir", tmp_path / "conv.s"
    source.write_text(ON_MEMREFS)
    command = [str(source), "-o", str(output), "--cpu=skylake-avx512", "--candidates=5"]
    assert mopt_compile.main(command) == 1
    assert capsys.readouterr().err == (
        f"{source}:4:3: error: candidates=5 are measured on this host, but code for "
        "'skylake-avx512' does not run here: this CPU lacks avx512f; leave out candidates, or "
        "compile where the code will run\n"
    )
    assert not output.exists()


def test_the_interpreter_settles_before_a_call_is_timed(monkeypatch):
    """So that it is the operands that are cold, and not its own code and data."""
    calls = []
    monkeypatch.setattr(trial, "perf_counter", lambda: calls.append("clock") or 0.0)
    trial.time_call(lambda: calls.append("run"), lambda: calls.append("flush"))
    assert calls[0] == "flush"
    assert calls.index("run") > 50
    assert calls[-1] == "clock"


def test_what_was_measured_depends_on_the_packages_that_make_code(monkeypatch):
    choosing._host.cache_clear()
    before = choosing._host()
    monkeypatch.setattr("importlib.metadata.version", lambda package: f"{package} 99")
    choosing._host.cache_clear()
    after = choosing._host()
    choosing._host.cache_clear()
    assert set(after) - set(before) == {"xtc-mlir-python-bindings 99", "llvmlite 99"}


EXAMPLE = Path(__file__).parents[2] / "examples" / "conv.mlir"


@pytest.fixture
def cut_short(monkeypatch):
    """The time limit ends every search for candidates; these are counted."""
    search, searches = choosing.solve_candidates, []

    def solve_candidates(*arguments):
        searches.append(arguments)
        (plan, *_), best = search(*arguments)
        loose = replace(plan, prediction=replace(plan.prediction, lower_bound=1e-9))
        return (loose,), replace(best, plan=loose, late=True, cut_short=True)

    monkeypatch.setattr(choosing, "solve_candidates", solve_candidates)
    return searches


@pytest.mark.usefixtures("cut_short")
def test_a_longer_search_by_mopt_plan_is_no_way_to_candidates():
    """It would find another plan, and candidates would be looked for as briefly as before."""
    module = load_module(EXAMPLE)
    options, seen = CompileOptions(machine="znver5", candidates=2, plan_cache=False), []
    with mopt_mlir.sink(seen.append):
        choose_plans(module, options, host())
    (told,) = (diagnostic.message for diagnostic in seen)
    assert "the time limit of" in told
    assert "; leave out candidates, or attach a plan" in told


def test_what_was_found_in_too_little_time_is_not_kept(cut_short):
    options = CompileOptions(machine="znver5", candidates=2)
    for searches in (1, 2):
        choose_plans(load_module(EXAMPLE), options, host())
        assert len(cut_short) == searches


@pytest.mark.usefixtures("take")
def test_constant_weights_of_candidates_go_with_them(monkeypatch):
    """Constants stay as long as the context that they are in: not that of what is compiled."""
    contexts = []
    compiled = choosing._Chooser._compiled

    def noted(chooser, alone):
        contexts.append(weakref.ref(alone.context))
        return compiled(chooser, alone)

    monkeypatch.setattr(choosing._Chooser, "_compiled", noted)
    module = load_module(CONSTANT)
    choose_plans(module, OPTIONS, host())
    gc.collect()
    assert len(contexts) == OPTIONS.candidates
    assert all(context() is None for context in contexts)
