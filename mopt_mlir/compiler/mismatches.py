"""Warnings of plans that do not suit what is compiled for: they are taken as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.compiler.options import closest_machine
from mopt_mlir.diagnostics import emit
from mopt_mlir.linalg.extract import UnsupportedError, extract
from mopt_mlir.linalg.memory import Memory
from mopt_mlir.lowering.target import vector_unit
from mopt_mlir.machine import resolve
from mopt_mlir.normal_form import normalised
from mopt_mlir.operations import inside
from mopt_mlir.plain_data import DataError
from mopt_mlir.planning import plan_attribute
from mopt_mlir.planning.planner import unplanned

if TYPE_CHECKING:
    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.lowering.target import Target
    from mopt_mlir.plan import Plan
    from mopt_mlir.problem import Problem


def warn_of_mismatches(module: Any, options: CompileOptions, target: Target) -> None:
    """Warn of plans that `module` carries, or that will be made for it, for other vectors than the
    CPU of `target` has, or for other threads than are asked for."""
    _warn_of_machine(module, options, target)
    _warn_of_carried_plans(module, options, target)


def _warn_of_machine(module: Any, options: CompileOptions, target: Target) -> None:
    """Plans for narrower vectors may be what is wanted, unless machine and CPU were both named."""
    if options.passes is not None:
        return
    machine, bits = resolve(options.planned_machine, module), vector_unit(target).bits
    is_other = machine.vector_bits > bits or (options.cpu and machine.vector_bits < bits)
    if is_other and unplanned(module, bindings_of(module)):
        emit(
            "warning",
            "",
            f"the plan is for vectors of {machine.vector_bits} bits (machine '{machine.name}'), "
            f"but CPU '{options.cpu or target.cpu}' has {bits}: expect a fraction of its speed; "
            f"'{closest_machine(target)}' is a machine that fits",
        )


def _warn_of_carried_plans(module: Any, options: CompileOptions, target: Target) -> None:
    for operation, problem, plan in _plans(module):
        plan_attribute.warn_of_other_threads(plan, options.threads, operation.location)
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
