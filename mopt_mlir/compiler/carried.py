"""Plans that operations carry already, beside what is asked of the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import emit
from mopt_mlir.linalg.extract import UnsupportedError, extract
from mopt_mlir.linalg.memory import Memory
from mopt_mlir.lowering.target import vector_unit
from mopt_mlir.normal_form import normalised
from mopt_mlir.operations import inside
from mopt_mlir.plain_data import DataError
from mopt_mlir.planning import plan_attribute

if TYPE_CHECKING:
    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.lowering.target import Target
    from mopt_mlir.plan import Plan
    from mopt_mlir.problem import Problem


def compare_plans(module: Any, options: CompileOptions, target: Target) -> None:
    """Warn of plans in `module` for other threads than the options' and for wider vectors than the
    target's: plans are taken as they are."""
    for operation, problem, plan in _plans(module):
        plan_attribute.compare_threads(plan, options.threads, operation.location)
        bits, widest = (
            8 * problem.output.element.size * plan.microkernel.vector,
            vector_unit(target),
        )
        if bits > widest.bits:
            emit(
                "warning",
                operation.location,
                f"its plan is for vectors of {bits} bits, but CPU '{target.cpu}' has "
                f"{widest.bits}: expect a fraction of its speed; name another CPU, "
                f"{plan_attribute.PLAN_ANEW}",
            )


def _plans(module: Any) -> Iterator[tuple[Any, Problem, Plan]]:
    """The convolutions that carry a plan. What is wrong with others is for `mopt-tile` to say."""
    bindings = bindings_of(module)
    memory = Memory(bindings)
    for operation in inside(module):
        try:
            plan = plan_attribute.attached(operation, bindings)
            if plan is None:
                continue
            problem = normalised(extract(operation, bindings, memory).problem)
            plan.check(problem)
        except (DataError, UnsupportedError):
            continue
        yield operation, problem, plan
