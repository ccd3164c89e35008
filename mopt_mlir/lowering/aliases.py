"""Copies of tensors that MLIR 22's bufferisation takes for distinct though they share a buffer.

It writes in place to what a loop, a branch or a call gives back, if nothing else that it knows of
is read later. Where two results are one tensor, or one is a tensor from outside, it does not know,
nor that affine and parallel loops, and bodies of operations, run again; so there each gets a buffer
of its own beforehand. And it knows of a convolution's reads only where these are: merged into
earlier ones, or moved in front of a loop, they tell of too early a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.buffers import VIEWS, WRITABLE
from mopt_mlir.func_ops import argument_attributes, functions_called
from mopt_mlir.lowering.results import has_static_shape
from mopt_mlir.operations import (
    BRANCHES,
    YIELDS,
    ancestors,
    count_inputs,
    defining_op,
    find,
    inside,
)

_PARTS = (
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.reshape",
)
"""Operations whose result may be in the buffer of their first operand."""


_REPEATED = (
    *("affine.for", "affine.parallel", "scf.parallel"),
    *("linalg.generic", "linalg.map", "linalg.reduce", "tensor.generate", "tensor.pad"),
)
"""Operations that run their body several times, though bufferisation does not know it."""

_CHANGING = ("scf.while", "scf.yield")
"""Operations that may hand a tensor on to who writes to it, even if they return none."""


def copy_aliases(module: Any) -> None:
    """Let results that may share a buffer have one each. What functions may write to is marked by
    now."""
    for loop in find(module, "scf.for"):
        _copy(_twice(_terminator(loop.regions[0])))
    for switch in find(module, "scf.index_switch"):
        for region in switch.regions:
            _copy((end, number) for end, number, _ in _tensors(_terminator(region)))
    for loop in find(module, "scf.while"):
        after = _terminator(loop.regions[1])
        _copy(dict.fromkeys((*_twice(after), *_from_outside(after, loop))))  # each once, in order
    for loop in find(module, *_REPEATED):
        _copy(_changed_again(loop))
    for end in find(module, "func.return"):
        _copy(_returned(end))


def _changed_again(loop: Any) -> Iterator[tuple[Any, int]]:
    """Operands inside of `loop` that bufferisation may have written to in place, tensors from
    outside: the next iteration, or another thread, reads them again."""
    for operation in inside(loop):
        if operation == loop or operation.name in _PARTS or not _may_change(operation):
            continue
        for _, number, value in _tensors(operation):
            is_read = number < count_inputs(operation)
            if not is_read and not _is_inside(_block(_root(value)), loop):
                yield operation, number


def _may_change(operation: Any) -> bool:
    """Whether what an operation hands on may be in the buffer of a tensor that it takes."""
    if operation.name == "bufferization.to_buffer":
        return "read_only" not in operation.attributes
    if any(map(_is_tensor, operation.results)):
        return True
    return _writes(operation) if operation.name == "func.call" else operation.name in _CHANGING


def _writes(call: Any) -> bool:
    """Whether the function that is called may write to a tensor that it takes."""
    functions = functions_called(call)
    said = (one.get(WRITABLE) for f in functions for one in argument_attributes(f))
    return not functions or any(one is not None and one.value for one in said)


def _terminator(region: Any) -> Any:
    *_, last = region.blocks[len(region.blocks) - 1].operations
    return last.operation


def _terminators(branch: Any) -> Iterator[Any]:
    """Those of the blocks of `branch` that end it."""
    for region in branch.regions:
        for block in region:
            *_, last = block.operations
            if last.operation.name in YIELDS:
                yield last.operation


def _tensors(end: Any) -> Iterator[tuple[Any, int, Any]]:
    """The operands of the operation at the `end` of a block, or of another, that are tensors."""
    for number, value in enumerate(end.operands):
        if _is_tensor(value):
            yield end, number, value


def _is_tensor(value: Any) -> bool:
    return isinstance(value.type, bindings_of(value.type).ir.RankedTensorType)


def _twice(end: Any) -> Iterator[tuple[Any, int]]:
    """Those of which an earlier one is a part, or the same."""
    seen = set()
    for _, number, value in _tensors(end):
        root = _root(value)
        if root in seen:
            yield end, number
        seen.add(root)


def _from_outside(end: Any, loop: Any) -> Iterator[tuple[Any, int]]:
    """Those that may not be made inside of `loop`."""
    for _, number, value in _tensors(end):
        if not all(_is_inside(_block(root), loop) for root in _roots(value)):
            yield end, number


def _returned(end: Any) -> Iterator[tuple[Any, int]]:
    """Those that are not sure to be apart from all before, unless all of what is returned is of
    static shape: then it is copied into buffers of the caller."""
    seen: set[Any] = set()
    if all(has_static_shape(value.type) for value in end.operands):
        return
    for _, number, value in _tensors(end):
        root = _root(value)
        if seen and (root in seen or _may_be_another(root)):
            yield end, number
        seen.add(root)


def _may_be_another(tensor: Any) -> bool:
    operation = defining_op(tensor)
    return operation is None or bool(len(operation.regions))


def _copy(places: Iterable[tuple[Any, int]]) -> None:
    """Replace these operands by copies."""
    for end, number in list(places):
        ir = bindings_of(end).ir
        value = end.operands[number]
        with end.context, ir.InsertionPoint(end), end.location:
            end.operands[number] = ir.Operation.create(
                "bufferization.alloc_tensor",
                [value.type],
                [value],
                {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1, 0])},
            ).result


def _root(tensor: Any) -> Any:
    """What `tensor` is a part of, or another form."""
    while (owner := defining_op(tensor)) is not None and owner.name in _PARTS:
        tensor = owner.operands[0]
    return tensor


def _roots(tensor: Any) -> list[Any]:
    """The `_root` of a tensor, and those of what branches may hand on as that."""
    roots = [_root(tensor)]
    for root in roots:
        owner = defining_op(root)
        if owner is not None and owner.name in BRANCHES:
            position = list(owner.results).index(root)
            found = {_root(end.operands[position]): None for end in _terminators(owner)}
            roots += [other for other in found if other not in roots]
    return roots


def _block(value: Any) -> Any:
    operation = defining_op(value)
    return value.owner if operation is None else operation.block


def _is_inside(block: Any, loop: Any) -> bool:
    around = block.owner.operation
    return around == loop.operation or any(outer == loop.operation for outer in ancestors(around))


def read_where_used(module: Any) -> None:
    """Let each nest of loops, and each other operation, read tensors from directly in front of it,
    through views as well: what two convolutions read may have become one, or may have been moved
    out of a loop, though the tensor is written to in between."""
    reads = [op for op in find(module, "bufferization.to_buffer") if "read_only" in op.attributes]
    changing = _loops_with_tensors(module) if reads else set()
    for read in reads:
        _move_to_uses(read.operation, changing)


def _move_to_uses(read: Any, changing: set[Any]) -> None:
    """Put a copy of `read`, or of a view of what is read, in front of each nest that uses it."""
    for use in list(read.result.uses):
        if use.owner.operation.name in VIEWS:
            _move_to_uses(use.owner.operation, changing)
    nests: dict[Any, list[Any]] = {}
    for use in list(read.result.uses):
        nests.setdefault(_nest(use.owner.operation, changing), []).append(use)
    for nest, uses in nests.items():
        clone = read.clone(ip=bindings_of(read).ir.InsertionPoint(nest))
        for use in uses:
            use.owner.operation.operands[use.operand_number] = clone.results[0]
    read.erase()


def _loops_with_tensors(module: Any) -> set[Any]:
    """The operations in which tensors are made, at any depth: loops among them are not those of a
    convolution's nest."""
    found: set[Any] = set()
    for operation in inside(module):
        if any(map(_is_tensor, operation.results)):
            found.update(takewhile(lambda around: around not in found, ancestors(operation)))
    return found


def _nest(operation: Any, changing: set[Any]) -> Any:
    """The outermost of the affine loops and branches around `operation` that are not `changing`
    tensors, or that itself."""
    for around in ancestors(operation):
        if not around.name.startswith("affine.") or around in changing:
            break
        operation = around
    return operation
