"""What single operations demand of the sizes that types leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import describe
from mopt_mlir.layouts import is_row_major
from mopt_mlir.linalg.extract import indexing_maps
from mopt_mlir.lowering.shape_rules import kept, paddings, product
from mopt_mlir.lowering.shapes import CallFrame
from mopt_mlir.lowering.sizes import Shape, Size, compute, evaluate, fold, is_known, is_natural

_SLICES = ("tensor.extract_slice", "tensor.insert_slice", "memref.subview")


@dataclass(frozen=True)
class Requirement:
    """`size`, that of an operand along an axis, must be `needed`, or at least that if not `exact`.

    A size that cannot be told from the arguments makes `size` None; `needed` says then whether the
    operation is carried out at all, None that it is, as far as anybody knows.
    """

    location: str
    operation: str
    operand: int
    axis: int
    size: Size | None
    needed: Size | None
    exact: bool = True

    def violation(self, arguments: Sequence[Any], done: dict[Size, int]) -> str | None:
        """What is wrong with bound arguments, each a `Buffer` or a C scalar, of which the sizes in
        `done` are known by now."""
        at = f"'{self.operation}' ({self.location})" if self.location else f"'{self.operation}'"
        if self.size is None or self.needed is None:
            if self.needed is not None and not evaluate(self.needed, arguments, done):
                return None
            return (
                f"whether its sizes fit cannot be told from the arguments: axis {self.axis} of "
                f"operand {self.operand} of {at}"
            )
        size, needed = (evaluate(side, arguments, done) for side in (self.size, self.needed))
        if size == needed or (size > needed and not self.exact):
            return None
        least = "" if self.exact else "at least "
        return (
            f"sizes do not fit together: {at} needs {least}{needed} elements along axis "
            f"{self.axis} of its operand {self.operand}, which has {size}"
        )


def demands_of(frame: CallFrame, operation: Any) -> Iterable[Requirement]:
    """What is demanded by an operation that is no call, if it is carried out."""
    name = operation.name
    if not any(map(frame.is_dynamic, (*operation.operands, *operation.results))) and not (
        name in _SLICES and _is_sure(frame, operation)
    ):
        return ()
    if name.startswith("linalg."):
        return _of_structured(frame, operation)
    if name.startswith(("arith.", "math.")):
        return _alike(frame, operation)
    return _RULES[name](frame, operation) if name in _RULES else ()


def _of_structured(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of a linalg operation: what MLIR verifies where shapes are static.

    A loop has as many iterations as the first axis that it indexes alone has elements. Other axes
    that it indexes alone must be equal, those that several loops index at least as large.
    """
    ir = bindings_of(operation).ir
    maps = indexing_maps(operation, bindings_of(operation))
    shapes = [frame.shape(v) if frame.has_shape(v) else () for v in operation.operands]
    if len(maps) != len(shapes):
        for operand, shape in enumerate(shapes):
            if frame.is_dynamic(operation.operands[operand]):
                left_open = (i for i, size in enumerate(shape) if not isinstance(size, int))
                for axis in islice(left_open, 1):  # none if the type forgets what is known
                    yield unknown(operation, operand, axis)
        return
    extents: dict[int, Size] = {}
    axes = [
        (operand, axis, expression, size)
        for operand, (map_, shape) in enumerate(zip(maps, shapes, strict=True))
        for axis, (expression, size) in enumerate(zip(map_.results, shape, strict=True))
    ]
    for _, _, expression, size in axes:
        if isinstance(expression, ir.AffineDimExpr):
            extents.setdefault(expression.position, size)
    for operand, axis, expression, size in axes:
        if isinstance(expression, ir.AffineDimExpr):
            needed = extents[expression.position]
            yield from _demand(operation, operand, axis, size, needed)
        else:
            yield from _reached(operation, operand, axis, expression, extents, size)


def _reached(
    operation: Any, operand: int, axis: int, expression: Any, extents: dict[int, Size], size: Size
) -> Iterator[Requirement]:
    """Of an axis that is indexed by an `expression` of loops: that all of it is inside."""
    indices = _indices(expression, extents)
    if indices is None:
        yield from _demand(operation, operand, axis, size, None)
        return
    runs = compute("gt", product(extents.values()), 0)  # without an iteration nothing is reached
    first, last = indices
    needed = compute("select", runs, compute("add", last, 1), 0)
    yield from _demand(operation, operand, axis, size, needed, exact=False)
    if not is_natural(first):
        missing = compute("select", runs, compute("sub", 0, first), 0)
        total = compute("add", size, missing)
        yield from _demand(operation, operand, axis, size, total, exact=False)


def _indices(expression: Any, extents: dict[int, Size]) -> tuple[Size, Size] | None:
    """The least and the largest value of an affine expression of loops, or a bit beyond; None where
    it is not known."""
    kind = type(expression).__name__
    if kind == "AffineConstantExpr":
        return int(expression.value), int(expression.value)
    if kind == "AffineDimExpr":
        extent = extents.get(expression.position)
        return None if extent is None else (0, compute("sub", extent, 1))
    left, right = _indices(expression.lhs, extents), _indices(expression.rhs, extents)
    if left is None or right is None:
        return None
    (first, last), (by, most) = left, right
    if kind == "AffineAddExpr":
        return compute("add", first, by), compute("add", last, most)
    if not isinstance(by, int) or by != most:
        return None
    if kind == "AffineModExpr":
        return 0, compute("min", last, by - 1) if is_natural(first) else by - 1
    ends = (first, last) if by >= 0 else (last, first)
    operation = {"AffineMulExpr": "mul", "AffineFloorDivExpr": "floor", "AffineCeilDivExpr": "ceil"}
    least, greatest = (compute(operation[kind], end, by) for end in ends)
    return least, greatest


def _alike(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of an operation whose operands all have the same shape: all but the choice of one buffer."""
    if operation.name == "arith.select" and not frame.has_shape(operation.operands[0]):
        return
    shaped = [(i, v) for i, v in enumerate(operation.operands) if frame.has_shape(v)]
    for operand, value in shaped[1:]:
        pairs = zip(frame.shape(value), frame.shape(shaped[0][1]), strict=True)
        for axis, (size, needed) in enumerate(pairs):
            yield from _demand(operation, operand, axis, size, needed)


def _of_cast(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of a cast to a type that leaves less open."""
    source = operation.operands[0]
    if frame.has_shape(source) and frame.has_shape(operation.result):
        shapes = frame.shape(source), frame.shape(operation.result)
        for axis, (size, needed) in enumerate(zip(*shapes, strict=True)):
            if isinstance(needed, int):
                yield from _demand(operation, 0, axis, size, needed)


def _of_slice(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of a part that is taken out."""
    yield from _inside(frame, operation, 0)


def _inside(frame: CallFrame, operation: Any, operand: int) -> Iterator[Requirement]:
    """Of a slice of an operand: that it ends inside, as far as the arguments tell, and begins there
    if it is sure to be taken. (Indices in front of an operand are often those of a loop that does
    not run, or of a branch that is not taken.)"""
    shape = frame.shape(operation.operands[operand])
    is_sure = _is_sure(frame, operation)
    for axis, (size, offset, count, stride) in enumerate(
        zip(shape, *frame.slice(operation, operand + 1), strict=True)
    ):
        last = compute("add", offset, compute("mul", compute("sub", count, 1), stride))
        needed = compute("add", last, 1)
        missing = 0 if is_natural(offset) else compute("sub", 0, offset)
        if not is_natural(stride):
            some = compute("gt", count, 0)
            ends = (compute(which, offset, last) for which in ("max", "min"))
            high, low = (compute("select", some, end, 0) for end in ends)
            needed, missing = compute("add", high, some), compute("sub", 0, low)
        if is_known(size) and is_known(needed):
            yield from _demand(operation, operand, axis, size, needed, exact=False)
        begins = isinstance(missing, int) and missing <= 0
        if is_sure and not begins and is_known(size) and is_known(missing):
            total = compute("add", size, missing)
            yield from _demand(operation, operand, axis, size, total, exact=False)


def _is_sure(frame: CallFrame, operation: Any) -> bool:
    """Whether an operation is carried out once whenever the function is called from outside."""
    return frame.depth == 0 and operation.block == frame.function.regions[0].blocks[0]


def _of_insertion(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of an insertion: that its place is inside, and what is inserted as large."""
    yield from _inside(frame, operation, 1)
    _, sizes, _ = frame.slice(operation, 2)
    place = kept(sizes, operation.operands[0].type)
    if place is not None:
        pairs = zip(frame.shape(operation.operands[0]), place, strict=True)
        for axis, (size, needed) in enumerate(pairs):
            yield from _demand(operation, 0, axis, size, needed)


def _of_expansion(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of one axis that is split up: that the parts make up the whole."""
    result: Shape = frame.shape(operation.result)
    source = frame.shape(operation.operands[0])
    for axis, group in enumerate(operation.attributes["reassociation"]):
        parts = product(result[part.value] for part in group)
        yield from _demand(operation, 0, axis, source[axis], parts)


def _of_reshape(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of a new shape: that it has as many elements."""
    if not (frame.has_shape(operation.operands[0]) and frame.has_shape(operation.result)):
        yield unknown(operation)  # of any rank
        return
    source, result = (frame.shape(v) for v in (operation.operands[0], operation.result))
    if source:
        yield from _demand(operation, 0, 0, product(source), product(result))


def _of_view(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of elements that are in bytes: that there are as many bytes, as far as the arguments tell."""
    width = getattr(operation.result.type.element_type, "width", None)
    if width is None:
        return  # an index, or complex: as large as the target says
    bytes_ = product([*frame.shape(operation.result), -(-width // 8)])
    needed = compute("add", frame.number(operation.operands[1]), bytes_)
    (available,) = frame.shape(operation.operands[0])
    if is_known(available) and is_known(needed):
        yield from _demand(operation, 0, 0, available, needed, exact=False)


def _of_reinterpretation(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of other sizes and strides: that the last element is one of the buffer, if that is dense and
    no pointer to one of another."""
    source = operation.operands[0]
    if not frame.has_shape(source) or not is_row_major(source.type) or not source.type.rank:
        return
    (offset,), sizes, strides = frame.slice(operation, 1)
    steps = (
        compute("max", 0, compute("mul", compute("sub", size, 1), stride))
        for size, stride in zip(sizes, strides, strict=True)
    )
    total, needed = product(frame.shape(source)), fold("add", [offset, 1, *steps])
    if is_known(total) and is_known(needed):
        yield from _demand(operation, 0, 0, total, needed, exact=False)


def _of_allocation(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of what is allocated: that no size is below 0, if it is sure to be. (A loop that does not run
    may have others.)"""
    if not _is_sure(frame, operation):
        return
    for axis, size in enumerate(frame.shape(operation.result)):
        if is_known(size) and not is_natural(size):
            yield from _demand(operation, 0, axis, size, 0, exact=False)


def _of_concatenation(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of tensors behind each other: that they are of one size along all other axes."""
    along = operation.attributes["dim"].value
    first, *others = (frame.shape(value) for value in operation.operands)
    for operand, shape in enumerate(others, 1):
        for axis, (size, needed) in enumerate(zip(shape, first, strict=True)):
            if axis != along:
                yield from _demand(operation, operand, axis, size, needed)


def _of_padding(frame: CallFrame, operation: Any) -> Iterator[Requirement]:
    """Of padding: that it takes nothing away."""
    shape = frame.shape(operation.operands[0])
    for padding in paddings(frame, operation):
        for axis, (size, more) in enumerate(zip(shape, padding, strict=True)):
            if is_known(size) and is_known(more) and not is_natural(more):
                padded = compute("add", size, more)
                yield from _demand(operation, 0, axis, padded, size, exact=False)


def _demand(
    operation: Any,
    operand: int,
    axis: int,
    size: Size,
    needed: Size | None,
    *,
    exact: bool = True,
) -> Iterator[Requirement]:
    """The requirement, unless it is met whatever the arguments are."""
    if size == needed:
        return
    if needed is None or not (is_known(size) and is_known(needed)):
        yield unknown(operation, operand, axis)
        return
    if isinstance(size, int) and isinstance(needed, int) and size > needed and not exact:
        return
    yield _requirement(operation, operand, axis, size, needed, exact)


def unknown(operation: Any, operand: int = 0, axis: int = 0) -> Requirement:
    """What cannot be told from the arguments."""
    return _requirement(operation, operand, axis, None, None)


def _requirement(
    operation: Any,
    operand: int,
    axis: int,
    size: Size | None,
    needed: Size | None,
    exact: bool = True,
) -> Requirement:
    at = describe(operation.location)
    return Requirement(at, operation.name, operand, axis, size, needed, exact)


_RULES: Mapping[str, Callable[[CallFrame, Any], Iterator[Requirement]]] = {
    **dict.fromkeys(("bufferization.materialize_in_destination", "memref.copy"), _alike),
    **dict.fromkeys(("memref.cast", "tensor.cast"), _of_cast),
    **dict.fromkeys(("memref.subview", "tensor.extract_slice"), _of_slice),
    **dict.fromkeys(("tensor.insert_slice", "tensor.parallel_insert_slice"), _of_insertion),
    **dict.fromkeys(("memref.expand_shape", "tensor.expand_shape"), _of_expansion),
    **dict.fromkeys(("memref.reshape", "tensor.reshape"), _of_reshape),
    **dict.fromkeys(("bufferization.alloc_tensor", "tensor.empty"), _of_allocation),
    **dict.fromkeys(("memref.alloc", "memref.alloca"), _of_allocation),
    "memref.reinterpret_cast": _of_reinterpretation,
    "memref.view": _of_view,
    "tensor.concat": _of_concatenation,
    "tensor.pad": _of_padding,
}
"""By operation."""
