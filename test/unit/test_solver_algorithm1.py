"""The paper's Algorithm 1 on our model: correct plans, never better than what is proven."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plain_convolution import convolve
from problems import tile_bytes

import mopt_mlir
from mopt_mlir.machine import by_name
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver import solve
from mopt_mlir.tools import mopt_opt, mopt_plan

CONV = """
func.func @conv(%input: memref<1x10x10x16xf32>, %weights: memref<3x3x16x32xf32>,
                %output: memref<1x8x8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x8x8x32xf32>)
  linalg.conv_2d_nhwc_hwcf
      ins(%input, %weights : memref<1x10x10x16xf32>, memref<3x3x16x32xf32>)
      outs(%output : memref<1x8x8x32xf32>)
  return
}
"""


def cost(plan: Plan) -> float:
    assert plan.prediction is not None
    return plan.prediction.cost


@pytest.mark.parametrize(
    ("problem", "machine", "threads"),
    [
        (conv2d(k=64, h=56, w=56, c=64, r=3, s=3), "znver5", 1),
        (conv2d(k=512, h=7, w=7, c=512, r=3, s=3), "i7-9700k", 8),
        (conv2d(k=64, h=28, w=28, c=192, r=3, s=3, stride=2, layout="nhwc"), "haswell", 2),
        (conv2d(k=1, h=1, w=1, c=1, r=1, s=1), "znver5", 2),
    ],
    ids=["one core", "eight cores", "strided", "extents of 1"],
)
def test_its_plans_are_correct_and_not_better_than_proven(
    problem: Problem, machine: str, threads: int
) -> None:
    target = by_name(machine)
    plan = solve(problem, target, threads, solver="algorithm1", time_limit=2.0)
    plan.check(problem)
    for level in plan.levels:
        assert tile_bytes(problem, level.tile) <= 0.75 * target.cache(level.name).size
    exact = solve(problem, target, threads)
    assert exact.prediction is not None
    assert cost(plan) == predict(problem, target, plan).cost
    assert exact.prediction.lower_bound <= cost(plan)


def test_output_that_stays_in_no_cache_is_stored_past_them() -> None:
    problem = conv2d(k=32, h=544, w=544, c=3, r=3, s=3)
    plan = solve(problem, by_name("znver5"), solver="algorithm1")
    through = replace(plan, nontemporal=False)
    assert plan.nontemporal
    assert cost(plan) < predict(problem, by_name("znver5"), through).cost


def test_orders_are_decided_level_by_level() -> None:
    problem = conv2d(k=64, h=56, w=56, c=64, r=1, s=1)
    plan = solve(problem, by_name("znver5"), solver="algorithm1")
    assert len({level.order for level in plan.levels}) > 1


def test_passes_tools_and_compile_take_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "conv.mlir"
    path.write_text(CONV)
    options = "machine=haswell solver=algorithm1 time-limit=0.5 plan-cache=false"
    assert mopt_opt.main([str(path), f"--mopt-tile={options}"]) == 0
    assert "vector.outerproduct" in capsys.readouterr().out
    flags = ["--machine=haswell", "--solver=algorithm1", "--time-limit=0.5", "--no-plan-cache"]
    assert mopt_plan.main([str(path), *flags, "--format=json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["cost"] >= record["lower_bound"]
    executable = mopt_mlir.compile(CONV, passes=f"mopt-tile{{{options}}}")
    rng = np.random.default_rng(0)
    image, weights = (
        rng.standard_normal(shape, dtype=np.float32) for shape in ((1, 10, 10, 16), (3, 3, 16, 32))
    )
    output = np.empty((1, 8, 8, 32), np.float32)
    executable["conv"](image, weights, output)
    np.testing.assert_allclose(output, convolve(image, weights, "nhwc_hwcf"), atol=1e-3)
