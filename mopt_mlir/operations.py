"""The operations of a module."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from mopt_mlir.bindings import bindings_of

_WITH_ONE_INPUT = ("linalg.broadcast", "linalg.transpose", "tensor.insert_slice")
"""Operations that do not say how many operands are only read, as it is the first."""

BRANCHES = ("scf.execute_region", "scf.if")
"""Operations whose results are what one of their blocks ends with."""

LOOP_BOUNDS = 3
"""Operands of `scf.for` in front of the initial values."""


def inside(root: Any) -> list[Any]:
    """`root` and all operations inside, from the innermost out, as they are before any changes."""
    advance = bindings_of(root).ir.WalkResult.ADVANCE
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        found.append(operation)
        return advance

    try:
        root.walk(visit)
    except RuntimeError as error:  # what the bindings make of Ctrl-C while they call us
        if "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from None
        raise
    return found


def find(root: Any, *names: str) -> list[Any]:
    """The operations `inside` that are called one of `names`."""
    return [operation for operation in inside(root) if operation.name in names]


def directly_in(module: Any) -> list[Any]:
    """The operations that stand in a module itself."""
    return [view.operation for view in module.regions[0].blocks[0].operations]


def ancestors(operation: Any) -> Iterator[Any]:
    """The operations around one, the innermost first."""
    while (around := operation.parent) is not None:
        operation = around.operation
        yield operation


def enclosing_module(operation: Any) -> Any:
    """The innermost `builtin.module` around `operation`: where its symbols live."""
    return next(around for around in ancestors(operation) if around.name == "builtin.module")


def defining_op(value: Any) -> Any | None:
    """The operation that `value` is a result of; None if it is the argument of a block."""
    return getattr(value.owner, "operation", None)


def defined_by(operation: Any) -> Iterator[Any]:
    """The results of an operation, and the arguments of its blocks."""
    yield from operation.results
    for region in operation.regions:
        for block in region:
            yield from block.arguments


def handed_on(operation: Any, number: int) -> list[Any]:
    """The values that operand `number` of an operation may become as it is: behind a branch or a
    loop, in its next iteration or in the next block, or by being selected."""
    name = operation.name
    if name == "arith.select":
        return [operation.result] if number else []
    if name == "scf.for":
        return _carried(operation, number - LOOP_BOUNDS) if number >= LOOP_BOUNDS else []
    if name == "scf.yield":
        around = operation.parent.operation
        if around.name == "scf.for":
            return _carried(around, number)
        return [around.results[number]] if around.name in BRANCHES else []
    if name == "cf.br":
        return [operation.successors[0].arguments[number]]
    if name == "cf.cond_br":
        condition, first, _ = operation.attributes["operandSegmentSizes"]
        successor, before = (0, condition) if number < condition + first else (1, condition + first)
        return [operation.successors[successor].arguments[number - before]] if number else []
    return []


def _carried(loop: Any, number: int) -> list[Any]:
    """What an `scf.for` carries from iteration to iteration: its result, and what it is inside."""
    return [loop.results[number], loop.regions[0].blocks[0].arguments[1 + number]]


def count_inputs(operation: Any) -> int:
    """How many operands, which come first, are only read, as far as it is known."""
    segments = "operandSegmentSizes"
    if operation.name.startswith("linalg.") and segments in operation.attributes:
        return int(operation.attributes[segments][0])
    return int(operation.name in _WITH_ONE_INPUT)


def free_symbols(module: Any, stem: str) -> Iterator[str]:
    """`stem` with each number, the least first, that no symbol of `module` has now."""
    symbols = bindings_of(module).ir.SymbolTable(module)
    names = (f"{stem}_{number}" for number in count())
    return (name for name in names if name not in symbols)
