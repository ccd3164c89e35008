"""From a module to one of the LLVM dialect: what running and writing files share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import NOT_TILED, Diagnostic, UserError, current_sink, emit, sink
from mopt_mlir.func_ops import name_of, public_functions
from mopt_mlir.lowering.demands import Requirement
from mopt_mlir.lowering.entries import entry_functions, read_entry
from mopt_mlir.lowering.kept_requirements import keep_requirements, kept_requirements
from mopt_mlir.lowering.requirements import requirements
from mopt_mlir.lowering.signature import Entry
from mopt_mlir.pipeline.loading import run_passes
from mopt_mlir.pipeline.pass_registry import create

if TYPE_CHECKING:
    from mopt_mlir.compiler.options import CompileOptions


@dataclass(frozen=True)
class LoweredModule:
    """A module of the LLVM dialect, the functions that can be called in it, and by name what these
    demand of the sizes that their types leave open, where it is known."""

    module: Any
    entries: tuple[Entry, ...]
    requirements: Mapping[str, tuple[Requirement, ...]]


def lower_module(module: Any, options: CompileOptions) -> LoweredModule:
    """Tile the convolutions of `module` and lower all of it to the LLVM dialect, in place.

    Raises UserError, or Failure after diagnostics.
    """
    demands = _kept(module) | {name_of(f): requirements(f) for f in public_functions(module)}
    with _fallback_reported(options.require_tiled):
        run_passes(module, options.first_passes())
    run_passes(module, create("mopt-lower-to-llvm", threads=options.threads))
    entries = tuple(map(read_entry, entry_functions(module)))
    known = {entry.name: demands[entry.name] for entry in entries if entry.name in demands}
    return LoweredModule(module, entries, known)


def keep_demands(lowered: LoweredModule) -> None:
    """Have the module itself say what its functions demand, for whoever compiles it on."""
    for function, entry in zip(entry_functions(lowered.module), lowered.entries, strict=True):
        if entry.name in lowered.requirements:
            keep_requirements(function, lowered.requirements[entry.name])


def _kept(module: Any) -> dict[str, tuple[Requirement, ...]]:
    """What functions that were lowered before demand; there is a warning where nobody knows."""
    known = {}
    for function in entry_functions(module):
        if function.name == "func.func":
            continue  # the attribute is written anew
        entry, demands = read_entry(function), kept_requirements(function)
        if demands is not None:
            known[entry.name] = demands
        elif any(None in (parameter.shape or ()) for parameter in entry.parameters):
            message = (
                f"calls of @{entry.name} do not check the sizes that its types leave open, as it "
                "is lowered already, not by mopt-compile: compile what it was made from instead"
            )
            emit("warning", function.location, message)
    return known


@contextmanager
def _fallback_reported(is_error: bool) -> Iterator[None]:
    """Make warnings, or one error, of the remarks on operations that are not tiled."""
    outer = current_sink()
    refused: list[Diagnostic] = []

    def handle(diagnostic: Diagnostic) -> None:
        if diagnostic.topic != NOT_TILED:
            outer(diagnostic)
        elif is_error:
            refused.append(diagnostic)
        else:
            message = f"{diagnostic.message}; it becomes plain loops"
            outer(replace(diagnostic, severity="warning", message=message))

    with sink(handle):
        yield
    if refused:
        first = refused[0]
        raise UserError(f"{first.message}, but all operations must be tiled", first.location)
