"""The operations of a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from mopt_mlir.bindings import bindings_of

_WITH_ONE_INPUT = ("linalg.broadcast", "linalg.transpose", "tensor.insert_slice")
"""Operations that do not say how many operands are only read, as it is the first."""

BRANCHES = (
    *("affine.if", "memref.alloca_scope"),
    *("scf.execute_region", "scf.if", "scf.index_switch"),
)
"""Operations whose results are what one of their blocks ends with."""

YIELDS = ("affine.yield", "memref.alloca_scope.return", "scf.yield")
"""With what blocks of branches and loops end that hand something on."""

LOOPS = ("affine.for", "scf.for")
"""Loops that count, and carry values from iteration to iteration."""

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
    if name in LOOPS:
        number -= LOOP_BOUNDS if name == "scf.for" else sum(_segments(operation)[:2])
        return _carried(operation, number) if number >= 0 else []
    if name == "scf.while":
        return [_arguments(operation, 0)[number]]
    if name == "scf.condition":
        loop = operation.parent.operation
        return [loop.results[number - 1], _arguments(loop, 1)[number - 1]] if number else []
    if name in YIELDS:
        return _yielded(operation.parent.operation, number)
    if name == "cf.br":
        return _to_blocks(operation, number, [len(operation.operands)])
    if name == "cf.cond_br":
        return _to_blocks(operation, number - 1, _segments(operation)[1:])
    if name == "cf.switch":
        cases = operation.attributes["case_operand_segments"]
        return _to_blocks(operation, number - 1, [_segments(operation)[1], *cases])
    return []


def _yielded(around: Any, number: int) -> list[Any]:
    """What operand `number` of one of YIELDS in an operation becomes."""
    if around.name in LOOPS:
        return _carried(around, number)
    if around.name == "scf.while":
        return [_arguments(around, 0)[number]]
    return [around.results[number]] if around.name in BRANCHES else []


def _carried(loop: Any, number: int) -> list[Any]:
    """What a loop carries from iteration to iteration: its result, and what it is inside."""
    return [loop.results[number], _arguments(loop, 0)[1 + number]]


def _segments(operation: Any) -> list[int]:
    """How many operands there are of each kind."""
    return [*operation.attributes["operandSegmentSizes"]]


def _arguments(operation: Any, region: int) -> Any:
    """Those of the first block of a region."""
    return operation.regions[region].blocks[0].arguments


def _to_blocks(branch: Any, number: int, sizes: Iterable[int]) -> list[Any]:
    """The argument that is given as `number` of all that a branch gives to the blocks behind it,
    so many to each as `sizes` say; none for what it decides by, in front of these."""
    for successor, size in zip(branch.successors, sizes, strict=True):
        if 0 <= number < size:
            return [successor.arguments[number]]
        number -= size
    return []


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
