"""Plans for a module: equal problems are solved once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mopt_mlir
from mopt_mlir import UserError
from mopt_mlir.bindings import bindings
from mopt_mlir.machine import by_name
from mopt_mlir.pipeline.loading import run_passes
from mopt_mlir.planning import planner, solving, tasks
from mopt_mlir.planning.solving import Request, Solution, solve

TWO_EQUAL_ONE_OTHER = """
func.func @block(%a: memref<1x6x6x4xf32>, %f: memref<16x3x3x4xf32>, %g: memref<8x3x3x4xf32>,
                 %x: memref<1x4x4x16xf32>, %y: memref<1x4x4x16xf32>, %z: memref<1x4x4x8xf32>) {
  linalg.conv_2d_nhwc_fhwc ins(%a, %f : memref<1x6x6x4xf32>, memref<16x3x3x4xf32>)
    outs(%x : memref<1x4x4x16xf32>)
  linalg.conv_2d_nhwc_fhwc ins(%a, %f : memref<1x6x6x4xf32>, memref<16x3x3x4xf32>)
    outs(%y : memref<1x4x4x16xf32>)
  linalg.conv_2d_nhwc_fhwc ins(%a, %g : memref<1x6x6x4xf32>, memref<8x3x3x4xf32>)
    outs(%z : memref<1x4x4x8xf32>)
  return
}"""


def test_equal_problems_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counting(*arguments: Any) -> Solution:
        calls.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(solving, "solve", counting)
    mlir = bindings()
    with mlir.ir.Context():
        module = mlir.ir.Module.parse(TWO_EQUAL_ONE_OTHER)
        found = planner.Planner(
            module.operation, mlir, solving.Planning(by_name("znver5"), Request())
        )
        plans = [one.plan for one in found.planned()]
    assert plans[0] is plans[1]
    assert plans[0] != plans[2]
    assert len(calls) == 2


FIVE = "".join(
    f"""
func.func @conv{number}(%a: memref<1x6x6x4xf32>, %f: memref<{k}x3x3x4xf32>,
                        %x: memref<1x4x4x{k}xf32>) {{
  linalg.conv_2d_nhwc_fhwc ins(%a, %f : memref<1x6x6x4xf32>, memref<{k}x3x3x4xf32>)
    outs(%x : memref<1x4x4x{k}xf32>)
  return
}}"""
    for number, k in enumerate((8, 16, 24, 16, 32))
)


def test_several_processes_find_the_same_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def counting(some: Sequence[tasks.Task], backend: str, jobs: int) -> Any:
        started.append((len(some), backend, jobs))
        return in_parallel(some, backend, jobs)

    in_parallel = tasks.in_parallel
    monkeypatch.setattr(tasks, "in_parallel", counting)
    monkeypatch.setattr(tasks, "cores", lambda: 2)
    texts = []
    for options in ("", " jobs=8"):
        pipeline = f"mopt-analyze{{machine=generic-avx2 plan-cache=false{options}}}"
        with bindings().ir.Context():
            module = bindings().ir.Module.parse(FIVE)
            run_passes(module.operation, pipeline)
            texts.append(str(module))
    assert texts[0] == texts[1]
    assert texts[0].count("mopt.plan") == 5
    assert started == [(4, "loky", 2)]


def test_few_problems_are_solved_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tasks, "in_parallel")
    mopt_mlir.compile(TWO_EQUAL_ONE_OTHER, machine="generic-avx2", plan_cache=False, jobs=8)


def test_a_single_core_solves_all_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tasks, "in_parallel")
    monkeypatch.setattr(tasks, "cores", lambda: 1)
    mopt_mlir.compile(FIVE, machine="generic-avx2", plan_cache=False, jobs=8)


def test_without_a_process_nothing_is_planned() -> None:
    with pytest.raises(UserError, match="jobs=0: at least one is needed"):
        mopt_mlir.compile(FIVE, jobs=0)


def test_a_problem_without_a_plan_is_located_whoever_finds_that() -> None:
    tiny = "generic-avx2,L1.size=64,L1.ways=1"
    with pytest.raises(UserError, match="no plan for machine") as caught:
        mopt_mlir.compile(FIVE, machine=tiny, plan_cache=False, jobs=2)
    assert caught.value.location == "<text>:4:3"


def test_a_mistake_in_the_solver_is_not_taken_for_a_problem_without_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(*_: Any) -> Solution:
        list(zip("a", "", strict=True))
        raise AssertionError

    monkeypatch.setattr(solving, "solve", mistaken)
    with pytest.raises(UserError, match=r"a mistake of its own: ValueError: zip.*; please report"):
        mopt_mlir.compile(TWO_EQUAL_ONE_OTHER, plan_cache=False)
