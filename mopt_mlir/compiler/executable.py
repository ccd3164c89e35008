"""Code in this process, called with numpy arrays and with what exports DLPack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mopt_mlir.diagnostics import UserError
from mopt_mlir.wording import instead_of

if TYPE_CHECKING:
    from mopt_mlir.compiler.lowered import LoweredModule
    from mopt_mlir.lowering.function import Function
    from mopt_mlir.lowering.signature import Entry
    from mopt_mlir.lowering.target import Target


class Executable:
    """Compiled functions, by name: `executable["conv"](input, weights, output)`. To iterate over it
    gives the names.

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
        if not isinstance(name, str):
            raise TypeError(f"a function is named by a text, not by {type(name).__name__}")
        if name not in self._functions:
            raise UserError(no_function(name, tuple(self._functions)))
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __repr__(self) -> str:
        return f"Executable({', '.join(map(str, self.entries))})"


def load(lowered: LoweredModule, target: Target) -> Executable:
    """Generate code for `target` and load it into this process."""
    # numpy among them, which takes longer to import than whoever only writes files should wait
    from mopt_mlir.lowering.constants import take_constants
    from mopt_mlir.lowering.function import Function
    from mopt_mlir.lowering.jit import LoadedCode
    from mopt_mlir.lowering.native import compile_module
    from mopt_mlir.lowering.scratch import RELEASE

    constants = take_constants(lowered.module)
    symbols = [entry.symbol for entry in lowered.entries]
    native = compile_module(lowered.module, target, [*symbols, RELEASE])
    code = LoadedCode(
        native, symbols, {name: constant.data for name, constant in constants.items()}
    )
    return Executable(
        {e.name: Function(e, code, lowered.requirements.get(e.name, ())) for e in lowered.entries}
    )


def no_function(name: str, known: tuple[str, ...]) -> str:
    """That there is no `name`, and which functions there are."""
    none = "the module has none whose arguments could be given from outside"
    return f"no function '{name}'; {instead_of(name, known) if known else none}"
