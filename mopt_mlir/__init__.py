"""Convolutions in MLIR's linalg dialect to native vector code, by a model solved to optimality.

    import mopt_mlir
    executable = mopt_mlir.compile("conv.mlir")
    executable["conv"](input, weights, output)

Names are loaded when first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from os.path import dirname, isdir, join
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mopt_mlir import machine as machine
    from mopt_mlir.compiler.compilation import compile
    from mopt_mlir.compiler.executable import Executable
    from mopt_mlir.diagnostics import Diagnostic, UserError, sink
    from mopt_mlir.machine import Machine
    from mopt_mlir.normal_form import normalised
    from mopt_mlir.pipeline.steps import add_passes
    from mopt_mlir.plan import Plan
    from mopt_mlir.planning.by_hand import solve
    from mopt_mlir.planning.plan_attribute import attach_plan, attached_plan
    from mopt_mlir.problem import Problem, conv2d

    __version__: str

__all__ = [
    "Diagnostic",
    "Executable",
    "Machine",
    "Plan",
    "Problem",
    "UserError",
    "add_passes",
    "attach_plan",
    "attached_plan",
    "compile",
    "conv2d",
    "normalised",
    "sink",
    "solve",
]

_HOMES = {
    "Diagnostic": "diagnostics",
    "UserError": "diagnostics",
    "sink": "diagnostics",
    "Executable": "compiler.executable",
    "compile": "compiler.compilation",
    "Machine": "machine",
    "add_passes": "pipeline.steps",
    "Plan": "plan",
    "Problem": "problem",
    "conv2d": "problem",
    "normalised": "normal_form",
    "solve": "planning.by_hand",
    "attach_plan": "planning.plan_attribute",
    "attached_plan": "planning.plan_attribute",
}


_PACKAGES = ("machine",)
"""Of which something is public, as `mopt_mlir.machine.resolve` is."""

# In a checkout `passes` and `benchmarks` lie beside this directory, which hides an installed copy
# from a Python that starts there.
if not isdir(join(__path__[0], "passes")):
    __path__.append(dirname(__path__[0]))

if not TYPE_CHECKING:  # to which every name would be known

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("importlib.metadata").version("mopt-mlir")
        if name in _PACKAGES:
            return import_module(f"mopt_mlir.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'mopt_mlir' has no attribute '{name}'")
        return getattr(import_module(f"mopt_mlir.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_PACKAGES, "__version__"})
