"""Operations on tensors and memrefs that allocate, copy and change shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mopt_mlir.reference.numbers import Numbers, is_rounded
from mopt_mlir.reference.scalars import integer_type, unsupported

Handler = Callable[[Any, list[Numbers]], Sequence[Numbers]]
"""From an operation and its operands to its results."""

_DYNAMIC = -(2**63)  # a size that is an operand


def _new(operation: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    """Of NaN, so that it shows if elements are read that were never written."""
    shaped = operation.results[0].type
    sizes = _sizes(operands)
    shape = [next(sizes) if size == _DYNAMIC else size for size in shaped.shape]
    element = str(shaped.element_type)
    if is_rounded(element):
        return [Numbers.exact(np.full(shape, np.nan))]
    type_ = integer_type(element)
    if type_ is None:
        raise unsupported(operation)
    return [Numbers.exact(np.zeros(shape, type_))]


def _same(_: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    return [operands[0]]


def _copied(_: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    return [operands[0].copy()]


def _nothing(_: Any, __: list[Numbers]) -> Sequence[Numbers]:
    return []


def _copy(_: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    operands[1].assign(operands[0])
    return []


def _extent(_: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    return [Numbers.exact(operands[0].shape[int(operands[1].value)])]


def _reshaped(operation: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    shape = list(operation.results[0].type.shape)
    if shape.count(_DYNAMIC) > 1:
        raise unsupported(operation)
    shape = [-1 if size == _DYNAMIC else size for size in shape]
    result = operands[0].map(lambda array: array.reshape(shape))
    shared = np.shares_memory(result.value, operands[0].value)
    if operation.name.startswith("memref.") and not shared:
        raise unsupported(operation)
    return [result]


def _part(operation: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    source, *dynamic = operands
    slices = _slices(operation, dynamic)
    shape = _kept(source.value[slices].shape, operation.results[0].type)
    part = source.map(lambda array: array[slices].reshape(shape))
    return [part if operation.name.startswith("memref.") else part.copy()]


def _inserted(operation: Any, operands: list[Numbers]) -> Sequence[Numbers]:
    source, target, *dynamic = operands
    result = target.copy()
    slices = _slices(operation, dynamic)
    hole = result.map(lambda array: array[slices])
    hole.assign(source.map(lambda array: array.reshape(hole.shape)))
    return [result]


def _sizes(operands: Sequence[Numbers]) -> Iterator[int]:
    """Operands that are sizes, offsets and the like."""
    return (int(operand.value) for operand in operands)


def _slices(operation: Any, dynamic: Sequence[Numbers]) -> tuple[slice, ...]:
    """The offsets, sizes and strides of a slice, where `dynamic` gives the dynamic ones."""
    left = _sizes(dynamic)

    def sizes(name: str) -> list[int]:
        return [next(left) if size == _DYNAMIC else size for size in operation.attributes[name]]

    parts: Iterator[list[int]] = map(sizes, ("static_offsets", "static_sizes", "static_strides"))
    found = tuple(zip(*parts, strict=True))
    if not all(stride for _, _, stride in found):
        raise unsupported(operation)
    return tuple(_slice(*part) for part in found)


def _slice(offset: int, size: int, stride: int) -> slice:
    if not size:
        return slice(offset, offset)
    end = offset + size * stride
    return slice(offset, None if end < 0 else end, stride)


def _kept(shape: Sequence[int], type_: Any) -> Sequence[int]:
    """`shape` without the axes that a rank-reducing slice drops, which have one element."""
    single = [axis for axis, size in enumerate(shape) if size == 1]
    for dropped in combinations(single, len(shape) - type_.rank):
        kept = [size for axis, size in enumerate(shape) if axis not in dropped]
        if all(size in (known, _DYNAMIC) for known, size in zip(kept, type_.shape, strict=True)):
            return kept
    raise AssertionError(f"{type_} is no slice of shape {shape}")  # the verifier says so before


def padded(operation: Any, operands: list[Numbers], values: Mapping[Any, Numbers]) -> Numbers:
    """The result of a `tensor.pad` whose body yields one of `values`, from around it."""
    source, *dynamic = operands
    left = _sizes(dynamic)
    low, high = (
        [next(left) if size == _DYNAMIC else size for size in operation.attributes[name]]
        for name in ("static_low", "static_high")
    )
    yielded = operation.regions[0].blocks[0].operations[0].operation
    if yielded.name != "tensor.yield" or yielded.operands[0] not in values:
        raise unsupported(operation)
    padding = values[yielded.operands[0]]
    widths = list(zip(low, high, strict=True))
    if min(*low, *high, 0) < 0:
        raise unsupported(operation)

    parts = zip(source.parts, padding.parts, strict=True)
    return Numbers(*(np.pad(part, widths, constant_values=filler) for part, filler in parts))


SHAPE_OPERATIONS: Mapping[str, Handler] = {
    **dict.fromkeys(("memref.alloc", "memref.alloca", "tensor.empty"), _new),
    **dict.fromkeys(("memref.assume_alignment", "memref.cast", "tensor.cast"), _same),
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
