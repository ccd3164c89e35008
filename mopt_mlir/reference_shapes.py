"""Operations on tensors and memrefs that allocate, copy and change shapes, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.reference_scalar import unsupported

Array = NDArray[Any]
Handler = Callable[[Any, list[Array]], Sequence[Array]]
"""From an operation and its operands' values to its results'."""

_DYNAMIC = -(2**63)  # a size that is an operand


def _new(operation: Any, operands: list[Array]) -> Sequence[Array]:
    """Of NaN, so that it shows if elements are read that were never written."""
    type_ = operation.results[0].type
    sizes = map(int, operands)
    shape = [next(sizes) if size == _DYNAMIC else size for size in type_.shape]
    if str(type_.element_type) in ("f16", "bf16", "f32", "f64"):
        return [np.full(shape, np.nan)]
    return [np.zeros(shape, np.int64)]


def _same(_: Any, operands: list[Array]) -> Sequence[Array]:
    return [operands[0]]


def _copied(_: Any, operands: list[Array]) -> Sequence[Array]:
    return [operands[0].copy()]


def _nothing(_: Any, __: list[Array]) -> Sequence[Array]:
    return []


def _copy(_: Any, operands: list[Array]) -> Sequence[Array]:
    operands[1][...] = operands[0]
    return []


def _extent(_: Any, operands: list[Array]) -> Sequence[Array]:
    return [np.asarray(operands[0].shape[int(operands[1])])]


def _reshaped(operation: Any, operands: list[Array]) -> Sequence[Array]:
    shape = list(operation.results[0].type.shape)
    if shape.count(_DYNAMIC) > 1:
        raise unsupported(operation)
    result = operands[0].reshape([-1 if size == _DYNAMIC else size for size in shape])
    if operation.name.startswith("memref.") and not np.shares_memory(result, operands[0]):
        raise unsupported(operation)
    return [result]


def _part(operation: Any, operands: list[Array]) -> Sequence[Array]:
    source, *dynamic = operands
    part = source[_slices(operation, dynamic)]
    part = part.reshape(_kept(part.shape, operation.results[0].type))
    return [part if operation.name.startswith("memref.") else part.copy()]


def _inserted(operation: Any, operands: list[Array]) -> Sequence[Array]:
    source, target, *dynamic = operands
    result = target.copy()
    hole = result[_slices(operation, dynamic)]
    hole[...] = source.reshape(hole.shape)
    return [result]


def _slices(operation: Any, dynamic: Sequence[Array]) -> tuple[slice, ...]:
    """The offsets, sizes and strides of a slice, where `dynamic` gives the dynamic ones."""
    left = map(int, dynamic)

    def sizes(name: str) -> list[int]:
        return [next(left) if size == _DYNAMIC else size for size in operation.attributes[name]]

    parts: Iterator[list[int]] = map(sizes, ("static_offsets", "static_sizes", "static_strides"))
    return tuple(
        slice(offset, offset + (size - 1) * stride + 1 if size else offset, stride)
        for offset, size, stride in zip(*parts, strict=True)
    )


def _kept(shape: Sequence[int], type_: Any) -> Sequence[int]:
    """`shape` without the axes that a rank-reducing slice drops, which have one element."""
    return shape if type_.rank == len(shape) else list(type_.shape)


def padded(operation: Any, operands: list[Array], values: Mapping[Any, Array]) -> Array:
    """The result of a `tensor.pad` whose body yields one of `values`, from around it."""
    source, *dynamic = operands
    left = map(int, dynamic)
    low, high = (
        [next(left) if size == _DYNAMIC else size for size in operation.attributes[name]]
        for name in ("static_low", "static_high")
    )
    yielded = operation.regions[0].blocks[0].operations[0].operation
    if yielded.name != "tensor.yield":
        raise unsupported(operation)
    padding = values[yielded.operands[0]]
    return np.pad(source, list(zip(low, high, strict=True)), constant_values=padding)


SHAPE_OPERATIONS: Mapping[str, Handler] = {
    **dict.fromkeys(("memref.alloc", "memref.alloca", "tensor.empty"), _new),
    **dict.fromkeys(("memref.cast", "tensor.cast"), _same),
    **dict.fromkeys(("bufferization.to_tensor", "bufferization.to_buffer"), _copied),
    **dict.fromkeys(("memref.dealloc", "bufferization.dealloc_tensor"), _nothing),
    **dict.fromkeys(("memref.dim", "tensor.dim"), _extent),
    **dict.fromkeys(
        (f"{d}.{n}_shape" for d in ("memref", "tensor") for n in ("collapse", "expand")), _reshaped
    ),
    **dict.fromkeys(("memref.subview", "tensor.extract_slice"), _part),
    "tensor.insert_slice": _inserted,
    "memref.copy": _copy,
}
"""What the reference knows about shapes."""
