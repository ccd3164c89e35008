"""Plans as the passes and `compile` ask for them: options, time limits, and the plan cache."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_convolution import close, convolve

import mopt_mlir
from mopt_mlir import solver
from mopt_mlir.diagnostics import Diagnostic, UserError
from mopt_mlir.machine import by_name
from mopt_mlir.pipeline.steps import add_passes
from mopt_mlir.plan import Plan
from mopt_mlir.planning.plan_cache import PlanCache
from mopt_mlir.planning.solving import (
    Request,
    longer_search,
    look_up,
    solve,
    solve_anew,
    store,
)
from mopt_mlir.problem import conv2d
from mopt_mlir.tools import mopt_compile, mopt_opt, mopt_run

PROBLEM = conv2d(k=64, h=56, w=56, c=64, r=3, s=3)
MACHINE = by_name("znver5")
CONV = """
func.func @conv(%input: memref<1x8x8x14xf32>, %weights: memref<16x8x3x3xf32>,
                %output: memref<1x16x6x12xf32>) {
  linalg.conv_2d_nchw_fchw
      ins(%input, %weights : memref<1x8x8x14xf32>, memref<16x8x3x3xf32>)
      outs(%output : memref<1x16x6x12xf32>)
  return
}
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, which is the user's."""
    monkeypatch.setenv("MOPT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems that reach the solver."""
    problems: list[Any] = []
    honest = solver.solve

    def counted(problem: Any, *arguments: Any, **options: Any) -> Plan:
        problems.append(problem)
        return honest(problem, *arguments, **options)

    monkeypatch.setattr(solver, "solve", counted)
    return problems


def entries(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def analyzed(options: str = "", text: str = CONV, package: str = "mlir") -> str:
    ir = import_module(f"{package}.ir")
    manager = import_module(f"{package}.passmanager")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        pipeline = manager.PassManager("builtin.module")
        add_passes(pipeline, f"mopt-analyze{{machine=znver5 {options}}}")
        pipeline.run(module.operation)
        return str(module)


# The cache


def test_a_plan_from_the_cache_is_the_solved_one_byte_for_byte(
    directory: Path, solved: list[Any], told: list[Diagnostic]
) -> None:
    first = analyzed()
    assert (len(solved), len(entries(directory))) == (1, 1)
    kept = [analyzed(), analyzed(package="torch_mlir")]
    assert len(solved) == 1
    assert kept == [first, first]
    assert analyzed("plan-cache=false") == first
    assert len(solved) == 2
    assert told == []


def test_a_damaged_entry_is_solved_again_with_a_remark(
    directory: Path, solved: list[Any], told: list[Diagnostic]
) -> None:
    first = analyzed()
    (path,) = entries(directory)
    path.write_bytes(path.read_bytes()[:100])
    assert analyzed() == first
    assert len(solved) == 2
    assert [(one.severity, one.location) for one in told] == [("remark", str(path))]
    assert analyzed() == first
    assert (len(solved), len(told)) == (2, 1)


def test_the_time_limit_does_not_matter_to_a_plan_that_it_does_not_touch(
    directory: Path, solved: list[Any]
) -> None:
    analyzed("time-limit=60")
    analyzed("time-limit=30")
    assert len(solved) == 1
    analyzed("gap=0.02")
    analyzed("threads=2")
    assert len(solved) == 3


def test_without_the_plan_cache_nothing_is_read_or_written(
    directory: Path, tmp_path: Path, solved: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "conv.mlir"
    source.write_text(CONV)
    command = [str(source), "--machine=generic-avx2", "--no-plan-cache"]
    mopt_mlir.compile(CONV, machine="generic-avx2", plan_cache=False)
    assert mopt_run.main([*command, "--repeat=1"]) == 0
    assert mopt_compile.main([*command, "-o", str(tmp_path / "conv.ll")]) == 0
    assert len(solved) == 3
    assert entries(directory) == []
    assert mopt_compile.main([*command[:-1], "-o", str(tmp_path / "kept.ll")]) == 0
    assert len(entries(directory)) == 1
    assert (tmp_path / "kept.ll").read_bytes() == (tmp_path / "conv.ll").read_bytes()


def test_a_kept_plan_computes_the_same(directory: Path, solved: list[Any]) -> None:
    generator = np.random.default_rng(0)
    image = generator.standard_normal((1, 8, 8, 14), dtype=np.float32)
    weights = generator.standard_normal((16, 8, 3, 3), dtype=np.float32)
    results = []
    for _ in range(2):
        output = np.zeros((1, 16, 6, 12), np.float32)
        mopt_mlir.compile(CONV, machine="generic-avx2")["conv"](image, weights, output)
        results.append(output)
    assert len(solved) == 1
    np.testing.assert_array_equal(*results)
    close(results[0], convolve(image, weights))


# Time limits

SHORT = "time-limit=0.000001 gap=0.000001"


def test_a_time_limit_that_is_hit_is_told_with_the_true_gap_and_not_kept(
    directory: Path, solved: list[Any], told: list[Diagnostic]
) -> None:
    text = analyzed(SHORT, f"module {{{CONV}}}")
    gap = float(text.partition("gap = ")[2].partition(" ")[0])
    (remark,) = told
    assert remark.severity == "remark"
    assert remark.location == "-:4:3"
    assert (
        f"found may cost {gap * 100:.3g}% more than the best possible one, 0.0001% was asked for"
        in remark.message
    )
    assert remark.message.endswith(
        "; mopt-plan --gap 1e-06 --time-limit 60, with the same --machine, looks longer, and keeps "
        "the plan if it is done by then"
    )
    assert entries(directory) == []


def test_a_time_limit_that_cuts_algorithm_1_short_is_told(
    directory: Path, told: list[Diagnostic]
) -> None:
    """It proves nothing, so that no gap is told, and nothing of a search that came to its end."""
    analyzed("solver=algorithm1 time-limit=0.000001")
    (remark,) = told
    assert (remark.severity, remark.location) == ("remark", "-:4:3")
    assert remark.message == (
        "the time limit of 1e-06 s ended the search for a plan: algorithm1 may find a better one "
        "in more; mopt-plan --solver algorithm1 --time-limit 60, with the same --machine, looks "
        "longer, and keeps the plan if it is done by then"
    )
    assert entries(directory) == []
    analyzed("solver=algorithm1 time-limit=60")
    assert len(told) == 1
    assert len(entries(directory)) == 1


def test_every_operation_with_such_a_plan_gets_the_remark(
    directory: Path, solved: list[Any], told: list[Diagnostic]
) -> None:
    analyzed(SHORT, CONV + CONV.replace("@conv", "@again"))
    assert len(solved) == 1
    assert len(told) == 2


@pytest.mark.parametrize(
    ("gap", "seconds", "cut_short"), [(0.1, 9.0, True), (0.1, 1.0, False), (0.001, 9.0, False)]
)
def test_only_the_clock_cuts_a_search_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: float, seconds: float, cut_short: bool
) -> None:
    """A gap that stays open within the time limit is as good as it gets, and the same each time."""
    plan = solver.solve(PROBLEM, MACHINE)
    assert plan.prediction is not None
    bound = plan.prediction.cost / (1 + gap)
    plan = replace(plan, prediction=replace(plan.prediction, lower_bound=bound))
    clock = iter((0.0, seconds))
    monkeypatch.setattr(solver, "solve", lambda *_, **__: plan)
    monkeypatch.setattr("mopt_mlir.planning.solving.perf_counter", lambda: next(clock))
    request = Request(time_limit=5.0, gap=0.005)
    solution = solve_anew(PROBLEM, MACHINE, request)
    assert solution.cut_short == cut_short
    told = solution.shortfall(request)
    assert (told is not None) == (gap > request.gap)
    assert told is None or told.startswith("the time limit of" if cut_short else "SCIP found")
    cache = PlanCache(tmp_path)
    store(PROBLEM, MACHINE, request, solution, cache)
    assert (len(entries(tmp_path)) == 0) == (seconds >= request.time_limit)


def test_weights_that_are_constant_have_plans_of_their_own(tmp_path: Path) -> None:
    cache, request = PlanCache(tmp_path), Request()
    solve(PROBLEM, MACHINE, request, cache)
    assert look_up(PROBLEM, MACHINE, request, cache) is not None
    assert look_up(PROBLEM, MACHINE, replace(request, constant_weights=True), cache) is None


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("threads=0", "threads=0: at least one is needed"),
        ("solver=simplex", "solver=simplex: not one of exact, algorithm1"),
        ("gap=0", "gap=0.0: must be more than 0 and less than 1; 0.005 is 0.5%"),
        ("gap=nan", "gap=nan: must be more than 0"),
        ("gap=5", "gap=5.0: must be more than 0"),
        (
            "threads=1, gap=0.1",
            "threads='1,' is not an integer; spaces go between options, not commas",
        ),
        ("time-limit=-1", "time-limit=-1.0: not a positive number of seconds"),
        ("time-limit=nan", "time-limit=nan: not a positive number of seconds"),
        ("time-limit=soon", "time-limit='soon' is not a number"),
        ("plan-cache=maybe", "plan-cache='maybe' is not true or false"),
        ("plan-cach=false", "no option is called 'plan-cach'; did you mean 'plan-cache'?"),
    ],
)
def test_an_option_without_sense_is_refused_where_the_pass_is_added(
    options: str, message: str
) -> None:
    with pytest.raises(UserError) as refusal:
        analyzed(options)
    assert str(refusal.value).startswith("pipeline:1:1: error: ")
    assert message in str(refusal.value)


def test_the_solvers_are_those_of_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mopt_mlir.solver.certified.SOLVERS", ("exact", "annealing"))
    Request(solver="annealing").check()
    with pytest.raises(UserError, match="solver=algorithm1: not one of exact, annealing"):
        Request(solver="algorithm1").check()


def test_usual_options_are_checked_without_the_solver() -> None:
    program = (
        "import sys; from mopt_mlir.planning.solving import Request; Request(2, gap=0.1).check(); "
        "print({'mopt_mlir.solver', 'pyscipopt', 'numpy'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_more_threads_than_the_machine_has_cores(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CONV.encode())))
    assert mopt_opt.main(["--mopt-analyze=machine=znver5 threads=9", "-"]) == 1
    assert "threads=9: machine 'znver5' has 8 cores; use fewer threads" in capsys.readouterr().err


def test_a_longer_search_asks_for_the_same() -> None:
    told = longer_search(Request(threads=3))
    assert told.startswith("mopt-plan --threads 3 --time-limit 60, with the same --machine")
    constant = Request(constant_weights=True)
    assert longer_search(constant).startswith("mopt-plan --time-limit 60")  # a module says so
    told = longer_search(constant, of_list=True)
    assert told.startswith("mopt-plan --constant-weights --time-limit 60, with the same --machine")
    told = longer_search(Request(solver="algorithm1", gap=0.1))
    assert told.startswith("mopt-plan --solver algorithm1 --gap 0.1 --time-limit 60, with the same")
