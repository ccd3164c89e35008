"""Plans from Python: those of `mopt-plan` for the same sizes, attached to operations and read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mopt_mlir
from benchmarks.workloads import Workload
from mopt_mlir import Plan, UserError, solver
from mopt_mlir.machine import by_name, resolve
from mopt_mlir.operations import inside
from mopt_mlir.pipeline.loading import load_module, run_passes
from mopt_mlir.planning.plan_many import plan_many

LAYERS = {
    "1x1": Workload("", k=48, h=7, w=9, c=32, r=1, s=1),
    "1x1, batched": Workload("", n=3, k=48, h=7, w=9, c=32, r=1, s=1, layout="nhwc_hwcf"),
    "1x1, strided": Workload("", k=32, h=7, w=9, c=8, r=1, s=1, strides=(2, 1)),
    "3x3": Workload("", k=32, h=6, w=14, c=8, r=3, s=3),
    "3x3, batched": Workload("", n=3, k=32, h=6, w=14, c=8, r=3, s=3),
    "3x3, strided": Workload("", k=32, h=6, w=14, c=8, r=3, s=3, strides=(2, 2)),
    "a single point": Workload("", k=1, h=1, w=1, c=8, r=1, s=3, layout="nhwc_fhwc"),
}
PLAIN = LAYERS["3x3"]
WITHOUT_PLANS = "znver5,L1.size=64,L1.ways=1"
"""A machine for which there is none: not even one register tile fits."""


def problem_of(layer: Workload) -> mopt_mlir.Problem:
    layout, _, weights = layer.layout.partition("_")
    sizes = {name: getattr(layer, name) for name in "nkhwcrs"}
    return mopt_mlir.conv2d(**sizes, stride=layer.strides, layout=layout, weights=weights)


def operation(module: Any, name: str = "linalg.conv") -> Any:
    (found,) = (one for one in inside(module) if one.name.startswith(name))
    return found


@pytest.fixture(scope="module")
def plan() -> Plan:
    return mopt_mlir.solve(problem_of(PLAIN), "znver5")


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_a_plan_for_sizes_is_that_of_an_operation_that_has_them(name: str, fill: bool) -> None:
    layer = LAYERS[name]
    problem = replace(problem_of(layer), accumulates=not fill)
    plan = mopt_mlir.solve(problem, "znver5", 2)
    plan.check(mopt_mlir.normalised(problem))
    text = layer.mlir(fill=fill)
    (planned,) = plan_many(text, machine="znver5", threads=2, jobs=1, plan_cache=False)
    assert plan == planned.solution.plan
    module = load_module(text)
    mopt_mlir.attach_plan(operation(module), plan)
    assert mopt_mlir.attached_plan(operation(module)) == plan
    run_passes(module, f"mopt-tile{{machine={WITHOUT_PLANS}}}")
    assert "vector.outerproduct" in str(module)
    assert "linalg.conv" not in str(module)


def test_an_attached_plan_replaces_another_one(plan: Plan) -> None:
    module = load_module(PLAIN.mlir())
    conv = operation(module)
    assert mopt_mlir.attached_plan(conv) is None
    mopt_mlir.attach_plan(conv, plan)
    mopt_mlir.attach_plan(conv, replace(plan, packing="L1"))
    assert mopt_mlir.attached_plan(conv) == replace(plan, packing="L1")


def test_a_plan_that_does_not_fit_is_refused_where_the_operation_is(plan: Plan) -> None:
    problem = problem_of(PLAIN)  # with a dim of the batch, which the operation's normal form lacks
    with_batch = solver.candidates(problem, by_name("znver5"), 1, 1)[0]
    for wrong, message in (
        (with_batch, "L3.order must name each of k, h, w, c, r, s"),
        (replace(plan, packing="disk"), "packing is 'disk', not one of"),
    ):
        module = load_module(PLAIN.mlir())
        conv = operation(module)
        with pytest.raises(UserError) as refusal:
            mopt_mlir.attach_plan(conv, wrong)
        assert refusal.value.message.startswith(f"'mopt.plan': {message}")
        assert refusal.value.location == "<text>:4:3"
        assert mopt_mlir.attached_plan(conv) is None


NOT_TILED = """\
func.func @f(%a: memref<6x6xf32>, %w: memref<3x3xi8>, %o: memref<4x4xi8>, %i: memref<6x6xi8>) {
  %one = arith.constant 1 : i32
  linalg.matmul ins(%a, %a : memref<6x6xf32>, memref<6x6xf32>) outs(%a : memref<6x6xf32>)
  linalg.conv_2d ins(%i, %w : memref<6x6xi8>, memref<3x3xi8>) outs(%o : memref<4x4xi8>)
  return
}
"""


@pytest.mark.parametrize(
    ("name", "reason", "location"),
    [
        ("linalg.matmul", "it is not a convolution", "<text>:3:3"),
        ("arith.constant", "it is not a convolution", "<text>:2:10"),
        ("linalg.conv_2d", "its elements are integers", "<text>:4:3"),
        ("builtin.module", "it is not a convolution", "<text>"),
    ],
)
def test_what_is_not_tiled_carries_no_plan(
    plan: Plan, name: str, reason: str, location: str
) -> None:
    module = load_module(NOT_TILED)
    with pytest.raises(UserError) as refusal:
        mopt_mlir.attach_plan(operation(module, name), plan)
    assert refusal.value.message.startswith(f"'{name}' is not tiled: {reason}")
    assert refusal.value.location == location
    assert "mopt.plan" not in str(module)


def test_what_is_no_plan_is_refused_where_it_is_read() -> None:
    text = PLAIN.mlir().replace("{strides", '{mopt.plan = {machine = "znver5"}, strides')
    module = load_module(text)
    with pytest.raises(UserError) as refusal:
        mopt_mlir.attached_plan(operation(module))
    assert refusal.value.message == "'mopt.plan': the plan lacks 'microkernel'"
    assert refusal.value.location == "<text>:4:3"


def test_plans_are_carried_by_operations_of_mlir_only(plan: Plan) -> None:
    for call in (lambda: mopt_mlir.attach_plan("conv", plan), lambda: mopt_mlir.attached_plan(3)):
        with pytest.raises(TypeError, match="is not an object of MLIR's Python bindings"):
            call()


def test_what_is_of_another_type_is_refused(plan: Plan) -> None:
    problem, conv = problem_of(PLAIN), operation(load_module(PLAIN.mlir()))
    for call, message in (
        (lambda: mopt_mlir.solve(problem, Path("mine.toml")), "a machine is a Machine, or a text"),
        (lambda: mopt_mlir.solve("conv", "znver5"), "a problem is a Problem, as of conv2d"),
        (lambda: mopt_mlir.normalised(3), "a problem is a Problem, as of conv2d, not int"),
        (lambda: resolve(Path("mine.toml")), "a machine is named by a text, not by PosixPath"),
        (lambda: resolve(by_name("znver5")), "a machine is named by a text, not by Machine"),
        (lambda: mopt_mlir.attach_plan(conv, plan.as_dict()), "a plan is a Plan, as Plan.from_"),
        (lambda: mopt_mlir.attach_plan(conv.context, plan), "by an operation, not by a Context"),
        (lambda: mopt_mlir.attached_plan(conv.context), "by an operation, not by a Context"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
