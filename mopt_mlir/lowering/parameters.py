"""What functions do with the buffers that their callers give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.buffers import CHECKED, OWNED, VIEWS
from mopt_mlir.func_ops import CALLS, parameters_given
from mopt_mlir.layouts import layout_of
from mopt_mlir.lowering.values import constant, trips
from mopt_mlir.operations import LOOPS, handed_on

_SHIFTED = ("memref.reinterpret_cast", "memref.subview", "memref.view")
"""Views that may begin elsewhere than their operand; all others have its first element."""

_BASES = {"memref.load": 0, "memref.store": 1, "vector.load": 0, "vector.store": 1}
"""Which operand of an access the buffer is; its indices are behind it."""

_METADATA = "memref.extract_strided_metadata"
"""Whose first result is the buffer without its layout."""

_FREEING = ("memref.dealloc", "memref.realloc")

Follow = Callable[[Any, int], Iterable[Any]]
"""The values that are a buffer, too, where it is an operation's operand of this number."""


def assumed_alignment(buffer: Any) -> int:
    """What a function, with those that it calls, assumes of the address of a parameter whenever it
    is called, in bytes."""
    if not isinstance(buffer.type, bindings_of(buffer.type).ir.MemRefType):
        return 1
    return max(
        (
            operation.attributes["alignment"].value
            for operation, number in _uses(buffer, _same_start)
            if _is_sure(operation) and _says_alignment(operation, number)
        ),
        default=1,
    )


def is_taken_to_be_aligned(buffer: Any) -> bool:
    """Whether an access to a buffer, or to a part of it, says how its address is aligned and nobody
    has checked that it is, also in functions that it is given to."""
    return any(
        operation.name == "memref.assume_alignment" or "alignment" in operation.attributes
        for operation, _ in _uses(buffer, _parts)
        if CHECKED not in operation.attributes
    )


def freeing(buffer: Any) -> Iterator[Any]:
    """The operations that free a buffer, whoever allocated it, also in functions that it is given
    to."""
    for operation, number in _uses(buffer, _parts):
        if number == 0 and operation.name in _FREEING and OWNED not in operation.attributes:
            yield operation


def is_stored(buffer: Any) -> bool:
    """Whether a buffer, or a part of it, is put into another buffer, also in functions that it is
    given to."""
    uses = _uses(buffer, _parts)
    return any(operation.name == "memref.store" and number == 0 for operation, number in uses)


def _uses(buffer: Any, follow: Follow) -> Iterator[tuple[Any, int]]:
    """The operations that a buffer is an operand of, and of which number, and those of all that
    leads to by `follow`."""
    values, seen = [buffer], {buffer}
    while values:
        for use in values.pop().uses:
            operation, number = use.owner.operation, use.operand_number
            yield operation, number
            found = [other for other in follow(operation, number) if other not in seen]
            values += found
            seen |= {*found}


def _parts(operation: Any, number: int) -> Iterable[Any]:
    if operation.name in CALLS:
        return parameters_given(operation, number)
    if number == 0 and operation.name in VIEWS:
        return list(operation.results)
    if operation.name == _METADATA:
        return [operation.results[0]]
    found = handed_on(operation, number)
    # what a loop begins with is what it ends with only if it does not run, or hands it on
    return found[1:] if operation.name in LOOPS and trips(operation) else found


def _same_start(operation: Any, number: int) -> Iterable[Any]:
    if not _is_sure(operation):
        return []
    if operation.name == "func.call":
        return parameters_given(operation, number)
    if operation.name == _METADATA:
        layout = layout_of(operation.operands[0].type)
        return [operation.results[0]] if layout is not None and layout.offset == 0 else []
    return [operation.result] if number == 0 and _begins_alike(operation) else []


def _is_sure(operation: Any) -> bool:
    """Whether it runs whenever its function does: it is in no branch or loop."""
    around = operation.block.owner.operation
    return around.name == "func.func" and bool(operation.block == around.regions[0].blocks[0])


def _says_alignment(operation: Any, number: int) -> bool:
    """Whether an operation says how the first element of its operand `number` is aligned."""
    if operation.name == "memref.assume_alignment":
        return True
    return "alignment" in operation.attributes and _is_at_start(operation, number)


def _is_at_start(access: Any, number: int) -> bool:
    """Whether a load or store begins at the first element of the operand `number`."""
    if _BASES.get(access.name) != number:
        return False
    indices = list(access.operands)[number + 1 :]
    return all(constant(index) == 0 for index in indices)


def _begins_alike(operation: Any) -> bool:
    """Whether an operation makes a view whose first element is that of its first operand."""
    if operation.name not in _SHIFTED:
        return operation.name in VIEWS
    if operation.name == "memref.view":
        return constant(operation.operands[1]) == 0
    offsets = list(operation.attributes["static_offsets"])
    if operation.name == "memref.subview":
        return not any(offsets)
    layout = layout_of(operation.operands[0].type)
    return layout is not None and offsets == [layout.offset]
