"""Compiling a convolution with a plan that is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..environment import machine_of
from ..peers.mopt import AVX2_CPU, AVX2_MACHINE
from ..workloads import Workload

if TYPE_CHECKING:
    from mopt_mlir import Executable
    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.machine import Machine
    from mopt_mlir.plan import Plan


def machine_for(isa: str, cpus: Sequence[int]) -> Machine:
    """The host as plans are made for it on `cpus`, its instructions limited to `isa`."""
    from mopt_mlir.machine.spec import MachineSpec

    limits = MachineSpec.parse(AVX2_MACHINE).overrides if isa == "avx2" else {}
    return machine_of(cpus).override(limits)


def options_for(isa: str) -> CompileOptions:
    """How code is generated for the host with instructions of `isa`."""
    from mopt_mlir.compiler.options import CompileOptions

    machine, cpu = (AVX2_MACHINE, AVX2_CPU) if isa == "avx2" else ("host", None)
    return CompileOptions(machine=machine, cpu=cpu, require_tiled=True, plan_cache=False)


def module_with(workload: Workload, plan: Plan) -> Any:
    """The MLIR of a workload, its convolution carrying `plan`."""
    from mopt_mlir.bindings import bindings_of
    from mopt_mlir.pipeline.loading import load_module
    from mopt_mlir.planning import plan_attribute
    from mopt_mlir.planning.planner import convolutions

    module = load_module(workload.mlir())
    bindings = bindings_of(module)
    with module.context, module.location:
        (convolution,) = convolutions(module, bindings)
        plan_attribute.attach(convolution.operation, plan, bindings)
    return module


def compile_plan(workload: Workload, plan: Plan, isa: str) -> Executable:
    """Raises UserError if the plan does not fit or code cannot be generated."""
    from mopt_mlir.compiler.compilation import compile_with

    return compile_with(module_with(workload, plan), options_for(isa))
