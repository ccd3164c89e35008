"""Which buffers an entry point writes to, read off the LLVM dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mopt_mlir.lowering.entries import ENTRY, entry_functions, read_entry, write_entry
from mopt_mlir.lowering.signature import C_INTERFACE, Entry
from mopt_mlir.operations import directly_in

_READS = {
    ("llvm.load", 0),
    ("llvm.intr.masked.load", 0),
    ("llvm.intr.masked.gather", 0),
    ("llvm.intr.masked.expandload", 0),
    ("llvm.intr.prefetch", 0),
    ("llvm.intr.memcpy", 1),
    ("llvm.intr.memmove", 1),
}
"""Operands, by operation and position, through which a buffer is only read."""

_ASSUMPTION = "llvm.intr.assume"
"""Says something of a pointer, such as its alignment."""

_POINTERS_OF_DESCRIPTOR = 2  # allocated and aligned pointer; then offset, sizes, strides


def mark_accesses(module: Any) -> None:
    """Complete `mopt.entry` in a module of the LLVM dialect: which buffers are only read.

    What cannot be seen through (a call out of the module, a pointer that is stored) is a write.
    """
    functions = {
        op.attributes["sym_name"].value: op for op in directly_in(module) if op.name == "llvm.func"
    }
    for function in entry_functions(module):
        if function.attributes["sym_name"].value.startswith(C_INTERFACE):
            del function.attributes[ENTRY]  # upstream's wrapper, a copy
            continue
        entry = read_entry(function)
        parameters = tuple(
            replace(parameter, access="read")
            if parameter.access == "write" and not _may_write(pointers, functions)
            else parameter
            for parameter, pointers in zip(
                entry.parameters, _pointers(entry, function), strict=True
            )
        )
        write_entry(function, replace(entry, parameters=parameters))


def _pointers(entry: Entry, function: Any) -> Iterator[list[Any]]:
    """The LLVM function's pointers that belong to each parameter."""
    arguments = iter(function.regions[0].blocks[0].arguments)
    for parameter in entry.parameters:
        if parameter.shape is None:
            next(arguments)
            yield []
        elif entry.takes_pointers:
            yield [next(arguments)]
        else:
            yield [next(arguments) for _ in range(_POINTERS_OF_DESCRIPTOR)]
            for _ in range(1 + 2 * len(parameter.shape)):
                next(arguments)


def _may_write(pointers: list[Any], functions: Mapping[str, Any]) -> bool:
    """Whether anything may be written through `pointers` or what is derived from them."""
    seen, left = set(pointers), list(pointers)
    while left:
        for use in left.pop().uses:
            derived = _derived(use.owner.operation, use.operand_number, functions)
            if derived is None:
                return True
            left += [value for value in derived if value not in seen]
            seen.update(derived)
    return False


def _derived(operation: Any, operand: int, functions: Mapping[str, Any]) -> list[Any] | None:
    """The pointers into the same buffer that this use makes; None if it may write."""
    if (operation.name, operand) in _READS or operation.name == _ASSUMPTION:
        return []
    if operation.name == "llvm.getelementptr":
        return list(operation.results)
    if operation.name == "llvm.call" and "callee" in operation.attributes:
        callee = functions.get(operation.attributes["callee"].value)
        if callee is not None and len(callee.regions[0].blocks):
            return [callee.regions[0].blocks[0].arguments[operand]]
    return None
