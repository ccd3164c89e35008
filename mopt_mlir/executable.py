"""Compile MLIR and run it in this process, on numpy arrays and on what exports DLPack."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import UserError

if TYPE_CHECKING:
    from mopt_mlir.lowering.entries import Entry
    from mopt_mlir.lowering.function import Function


class Executable:
    """Compiled functions, by name: `executable["conv"](input, weights, output)`.

    Safe to use from several threads. The code stays loaded as long as this object or one of its
    functions lives.
    """

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = dict(functions)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The signatures of the functions."""
        return tuple(function.entry for function in self._functions.values())

    def __getitem__(self, name: str) -> Function:
        """The function `name`. Raises UserError, with the known names, if there is none."""
        if name not in self._functions:
            raise UserError(_unknown(name, tuple(self._functions)))
        return self._functions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __repr__(self) -> str:
        return f"Executable({', '.join(map(str, self.entries))})"


def compile(
    source: Any,
    *,
    machine: str = "auto",
    threads: int = 1,
    cpu: str | None = None,
    require_tiled: bool = False,
    passes: str | None = None,
    plan_cache: bool = True,
) -> Executable:
    """Compile `source` to native code in this process.

    `source` is a path, MLIR text, bytecode, or a module of any MLIR Python bindings, which is left
    as it is. `machine` is what convolutions are tiled for: `auto` is the host, with what the module
    says of its target. `threads` is the number of cores, `cpu` (LLVM's name) what instructions are
    selected for: the host unless given. `passes` replaces `mopt-tile`, written as between the
    parentheses of a pipeline. With `plan_cache` plans are kept on disk, see `solver.cache`.

    An operation that cannot be tiled is compiled to plain loops with a warning, or refused with
    `require_tiled`. Raises UserError, which carries the location, for whatever is wrong.
    """
    from mopt_mlir.compilation import lower_source
    from mopt_mlir.lowering import target
    from mopt_mlir.lowering.constants import take_constants
    from mopt_mlir.lowering.function import Function
    from mopt_mlir.lowering.jit import LoadedCode
    from mopt_mlir.lowering.native import compile_module
    from mopt_mlir.lowering.scratch import RELEASE

    chosen = target.of_cpu(cpu or "host")
    target.check_runs_here(chosen)
    lowered = lower_source(
        source,
        machine=machine,
        threads=threads,
        require_tiled=require_tiled,
        passes=passes,
        plan_cache=plan_cache,
    )
    constants = take_constants(lowered.module)
    symbols = [entry.symbol for entry in lowered.entries]
    native = compile_module(lowered.module, chosen, [*symbols, RELEASE])
    code = LoadedCode(native, symbols, constants)
    return Executable({entry.name: Function(entry, code) for entry in lowered.entries})


def _unknown(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(name, known, 1)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known) or 'none'}"
    return f"no function '{name}'; {hint}"
