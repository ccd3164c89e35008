"""The names of our passes and where they live; a pass is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.pipeline.pass_base import Pass
from mopt_mlir.wording import instead_of

REGISTRY = {
    "mopt-analyze": "mopt_mlir.passes.analyze:AnalyzePass",
    "mopt-tile": "mopt_mlir.passes.tile:TilePass",
    "mopt-lower-to-llvm": "mopt_mlir.passes.lower_to_llvm:LowerToLLVMPass",
}
"""Pass name -> "module:Class"."""


def load(name: str) -> type[Pass]:
    """The class of the pass `name`; UserError, with a way out, if there is none."""
    if name not in REGISTRY:
        raise UserError(f"no pass of mopt-mlir is called '{name}'; {instead_of(name, REGISTRY)}")
    module, _, cls = REGISTRY[name].partition(":")
    found: type[Pass] = getattr(import_module(module), cls)
    return found


def create(name: str, **options: str | int | float | bool) -> Pass:
    """The pass `name`, with options by the names of its fields."""
    cls: Any = load(name)
    made: Pass = cls(**options)
    return made
