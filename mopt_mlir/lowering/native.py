"""From the LLVM dialect to optimised LLVM IR, assembly and objects, through llvmlite."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import (
    Diagnostic,
    Failure,
    UserError,
    collected_from,
    current_sink,
    emit,
    sink,
)
from mopt_mlir.lowering.optimiser import optimise
from mopt_mlir.lowering.target import Target, initialize
from mopt_mlir.operations import inside

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SPEED = 1
"""-O1: the first level without GVN, whose load PRE would keep the pixels that two filter taps share
in registers from one tap to the next, and spill accumulators for them (a third of the speed)."""

_OF_FUNCTIONS = ("arg_attrs", "res_attrs", "passthrough", "garbage_collector")
"""Attributes of functions and calls for LLVM."""


@dataclass(frozen=True)
class NativeModule:
    """An optimised LLVM module, the context that it lives in, and the target that it is for."""

    llvm_module: Any
    context: Any
    target_machine: Any

    def ir(self) -> str:
        """LLVM IR as text."""
        return str(self.llvm_module)

    def assembly(self) -> str:
        """Assembly as text."""
        text: str = self.target_machine.emit_assembly(self.llvm_module)
        return text

    def object(self) -> bytes:
        """A relocatable object file."""
        code: bytes = self.target_machine.emit_object(self.llvm_module)
        return code

    @property
    def undefined(self) -> tuple[str, ...]:
        """The functions and data that the code needs from elsewhere."""
        values = (*self.llvm_module.functions, *self.llvm_module.global_variables)
        names = (value.name for value in values if value.is_declaration)
        return tuple(name for name in names if not name.startswith("llvm."))

    def defines(self, function: str) -> bool:
        """Whether the code has this function, callable from outside."""
        found = (f for f in self.llvm_module.functions if f.name == function)
        return any(not f.is_declaration and f.linkage.name == "external" for f in found)

    @property
    def needs_openmp(self) -> bool:
        """Whether the code calls the OpenMP runtime."""
        return any(name.startswith("__kmpc_") for name in self.undefined)

    def define(self, symbol: str, data: NDArray[np.uint8], alignment: int) -> None:
        """Define data that the module refers to, for the module itself only: a variable if `data`
        is writable, else a constant."""
        import llvmlite.binding as llvm

        definition = llvm.parse_assembly(_definition(symbol, data, alignment), self.context)
        self.llvm_module.link_in(definition)
        self.llvm_module.get_global_variable(symbol).linkage = "internal"


def compile_module(module: Any, target: Target, exported: Collection[str]) -> NativeModule:
    """Translate a module of the LLVM dialect and optimise it for `target`.

    Only the functions in `exported` can be called from outside. Raises Failure, after diagnostics,
    where LLVM does not take what a module says to it in the LLVM dialect.
    """
    _check_translation(module)
    translate = bindings_of(module).llvm.translate_module_to_llvmir
    return compile_text(translate(module), target, exported)


def compile_text(text: str, target: Target, exported: Collection[str]) -> NativeModule:
    """Optimise LLVM IR that is given as text. Only the functions in `exported` can be called from
    outside, whatever the text says. Raises UserError for text that LLVM does not take.

    Loops were tiled, vectorised and unrolled as the plan says: LLVM must not do it once more. It
    vectorises the loops that are not marked as off limits, see `lowering.fallback`.
    """
    import llvmlite.binding as llvm

    initialize()
    machine = target.machine()
    context = llvm.create_context()  # the global one would keep types and constants for ever
    try:
        module = llvm.parse_assembly(text, context)
    except RuntimeError as error:
        raise UserError(f"LLVM does not take what the module says to it: {error}") from None
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name in exported else "internal"
    for variable in module.global_variables:  # a program has its own of such names
        if not variable.is_declaration and variable.linkage.name == "external":
            variable.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=_SPEED)
    options.loop_vectorization = True
    options.loop_interleaving = False
    options.loop_unrolling = False
    options.slp_vectorization = False
    optimise(module, machine, options)
    return NativeModule(module, context, machine)


def _check_translation(module: Any) -> None:
    """See to it that LLVM has the intrinsics that are called by name, and that its verifier takes
    the attributes of functions; if not, it prints why itself. A translation that fails leaves the
    bindings without a module to print, and the process ends; an execution engine, which translates
    as well, raises an error."""
    asking = [operation for operation in inside(module) if _says_more_to_llvm(operation)]
    if not asking:
        return
    own = bindings_of(module)
    text = module.get_asm(enable_debug_info=True)
    told: list[Diagnostic] = []
    with module.context as context, sink(told.append), collected_from(context):
        try:
            own.execution_engine.ExecutionEngine(own.ir.Module.parse(text), opt_level=0)
        except RuntimeError:
            pass
        else:
            return
    for diagnostic in told:
        current_sink()(diagnostic)
    if not any(diagnostic.severity == "error" for diagnostic in told):
        place = asking[0] if len(asking) == 1 else module
        reason = "LLVM does not take what is said to it of functions or calls, and has told why"
        emit("error", place.location, f"{reason}; leave that out")
    raise Failure("LLVM does not take the module")


def _says_more_to_llvm(operation: Any) -> bool:
    """Whether an operation has what the lowering does not make, and MLIR does not verify."""
    attributes = operation.attributes
    return operation.name == "llvm.call_intrinsic" or (
        operation.name.startswith("llvm.") and any(name in attributes for name in _OF_FUNCTIONS)
    )


def _definition(symbol: str, data: NDArray[np.uint8], alignment: int) -> str:
    """LLVM IR of data, as a string of bytes: by far the fastest to print and to parse."""
    import numpy as np

    escapes = np.array([f"\\{byte:02X}".encode() for byte in range(256)])
    text = escapes[data].tobytes().decode("ascii")
    kind = "global" if data.flags.writeable else "constant"
    name = "".join(f"\\{byte:02X}" for byte in symbol.encode())
    return f'@"{name}" = {kind} [{len(data)} x i8] c"{text}", align {alignment}\n'
