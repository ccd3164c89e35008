"""The shape of an operation's result, by what the operation is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.sizes import Shape, Size, compute, fold
from mopt_mlir.lowering.values import operands_of


class Known(Protocol):
    """What is known of a function's values by now: a `CallFrame`, which uses these rules."""

    def shape(self, value: Any) -> Shape: ...

    def number(self, value: Any) -> Size: ...

    def sizes(self, operation: Any, name: str, dynamic: Iterator[Any]) -> Shape: ...

    def slice(self, operation: Any, source: int) -> tuple[Shape, Shape, Shape]: ...


def _allocated(known: Known, operation: Any, others: int = 0) -> Shape | None:
    """Of what is allocated: the sizes that the type leaves open are the first operands, but for so
    many others."""
    left = iter(list(operation.operands)[others:])
    dynamic = bindings_of(operation).ir.ShapedType.get_dynamic_size()
    return tuple(
        known.number(next(left)) if n == dynamic else n for n in operation.result.type.shape
    )


def _allocated_tensor(known: Known, operation: Any) -> Shape | None:
    """Of a copy the shape is that of what it copies."""
    sizes, copied, _ = operation.attributes["operandSegmentSizes"]
    if copied:
        return known.shape(operation.operands[sizes])
    return _allocated(known, operation)


def _selected(known: Known, operation: Any) -> Shape | None:
    """Of one of two values as a whole: these may have two sizes."""
    condition, *choices = operation.operands
    first, second = map(known.shape, choices)
    taken = known.number(condition)
    pairs = zip(first, second, strict=True)
    return tuple(a if a == b else compute("select", taken, a, b) for a, b in pairs)


def _sliced(known: Known, operation: Any) -> Shape | None:
    _, sizes, _ = known.slice(operation, 1)
    return kept(sizes, operation.result.type)


def kept(sizes: Shape, type_: Any) -> Shape | None:
    """Of the sizes of a slice those that a `type_` of fewer axes has: some that are 1 are dropped,
    as many as there have to be, where it has none of 1."""
    found: list[Size] = []
    dropped = len(sizes) - type_.rank
    for size in sizes:
        at = len(found)
        if size == 1 and dropped and (at == type_.rank or type_.shape[at] != 1):
            dropped -= 1
        else:
            found.append(size)
    return tuple(found) if len(found) == type_.rank else None


def paddings(known: Known, operation: Any) -> tuple[Shape, Shape]:
    """What a `tensor.pad` puts in front and behind along each axis."""
    dynamic = iter(list(operation.operands)[1:])
    low, high = (known.sizes(operation, name, dynamic) for name in ("low", "high"))
    return low, high


def _padded(known: Known, operation: Any) -> Shape | None:
    source = known.shape(operation.operands[0])
    sizes = zip(source, *paddings(known, operation), strict=True)
    return tuple(fold("add", parts) for parts in sizes)


def _reshaped(known: Known, operation: Any) -> Shape | None:
    """Of a new shape that is made of single sizes."""
    sizes = operands_of(operation.operands[1], "tensor.from_elements")
    return None if sizes is None else tuple(map(known.number, sizes))


def _transposed(known: Known, operation: Any) -> Shape | None:
    source = known.shape(operation.operands[0])
    axes = operation.attributes["permutation"].value.results
    return tuple(source[axis.position] for axis in axes)


def _concatenated(known: Known, operation: Any) -> Shape | None:
    along = operation.attributes["dim"].value
    shapes = [known.shape(value) for value in operation.operands]
    total = fold("add", [shape[along] for shape in shapes])
    return (*shapes[0][:along], total, *shapes[0][along + 1 :])


def _expanded(known: Known, operation: Any) -> Shape | None:
    return known.sizes(operation, "output_shape", iter(list(operation.operands)[1:]))


def _collapsed(known: Known, operation: Any) -> Shape | None:
    source = known.shape(operation.operands[0])
    return tuple(
        product(source[axis.value] for axis in group)
        for group in operation.attributes["reassociation"]
    )


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 of none."""
    return fold("mul", [1, *sizes])


ALIKE: Mapping[str, int] = {
    **dict.fromkeys(("tensor.cast", "memref.cast", "bufferization.clone"), 0),
    **dict.fromkeys(("bufferization.to_tensor", "bufferization.to_buffer"), 0),
    **dict.fromkeys(("memref.assume_alignment", "memref.memory_space_cast"), 0),
    "bufferization.materialize_in_destination": 0,
    **dict.fromkeys(("tensor.insert_slice", "tensor.insert"), 1),
}
"""Which operand the result has the shape of, by operation."""

SHAPES: Mapping[str, Callable[[Known, Any], Shape | None]] = {
    **dict.fromkeys(("tensor.empty", "memref.alloc", "memref.alloca"), _allocated),
    **dict.fromkeys(("tensor.extract_slice", "memref.subview"), _sliced),
    **dict.fromkeys(("tensor.expand_shape", "memref.expand_shape"), _expanded),
    **dict.fromkeys(("tensor.collapse_shape", "memref.collapse_shape"), _collapsed),
    "bufferization.alloc_tensor": _allocated_tensor,
    "tensor.generate": _allocated,
    "memref.realloc": lambda known, operation: _allocated(known, operation, 1),
    "memref.reinterpret_cast": lambda known, operation: known.slice(operation, 1)[1],
    "memref.transpose": _transposed,
    "memref.view": lambda known, operation: _allocated(known, operation, 2),
    "tensor.splat": lambda known, operation: _allocated(known, operation, 1),
    "arith.select": _selected,
    "tensor.concat": _concatenated,
    "tensor.pad": _padded,
    "tensor.reshape": _reshaped,
}
"""Shapes of results by operation."""
