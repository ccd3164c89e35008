"""Accesses as a varying address plus a constant displacement, which x86 encodes for free.

The elements of a register tile lie at constant distances from each other. If each is an index of
its own, LLVM moves what it can of every single one out of the loops: dozens of pointers that no
register is left for, stepped and spilled in each trip, even for stores that only the last one does.
Constants it leaves where they are. (Upstream's extraction of address computations moves the whole
index, constants as well, into a view of its own.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.buffers import ADDRESSABLE_BYTES
from mopt_mlir.layouts import is_row_major, layout_of
from mopt_mlir.lowering.values import constant, operands_of
from mopt_mlir.operations import defining_op, find

_ACCESSES = {
    "memref.load": 0,
    "memref.store": 1,
    "memref.prefetch": 0,
    "vector.load": 0,
    "vector.store": 1,
    "vector.maskedload": 0,
    "vector.maskedstore": 0,
}
"""Which of their operands is the buffer; its indices follow."""

_WORD_BITS = 64


def share_addresses(module: Any) -> bool:
    """Let every access to a buffer of known shape go to a view that begins where the part of its
    indices that varies says. Returns whether others go to buffers of which a stride is open."""
    bindings = bindings_of(module)
    ir = bindings.ir
    shared_in: defaultdict[Any, _Shared] = defaultdict(lambda: _Shared(bindings))
    replaced, is_open = [], False
    for access in find(module, *_ACCESSES):
        operands, at = list(access.operands), _ACCESSES[access.name]
        buffer, end = operands[at], at + 1 + operands[at].type.rank
        parts = [_split(index) for index in operands[at + 1 : end]]
        types = [value.type for value in (*access.results, *operands)]
        if any(isinstance(type_, ir.VectorType) and type_.rank > 1 for type_ in types):
            continue  # nothing lowers these
        strides = _static_strides(ir, buffer.type)
        if strides is None:
            layout = layout_of(buffer.type)
            is_open |= layout is not None and None in layout.strides
            continue
        is_constant = all(varying is None for varying, _ in parts)
        if is_constant and all(stride >= 0 for stride in strides):
            continue  # else upstream's product of index and stride would promise to be positive
        with module.context, ir.InsertionPoint(access), access.location:
            shared = shared_in[access.operation.block]
            view = shared.view(buffer, strides, [varying for varying, _ in parts])
            distance = sum(c * stride for (_, c), stride in zip(parts, strides, strict=True))
            other = ir.Operation.create(
                access.name,
                results=[result.type for result in access.results],
                operands=[*operands[:at], view, shared.constant(distance), *operands[end:]],
                attributes={name: access.attributes[name] for name in access.attributes},
            )
        _replace_uses(access, other)
        replaced.append(access)
    for access in replaced:  # now that nothing new can be taken for their results
        access.erase()
    return is_open


def forget_bounds(module: Any, *, is_open: bool) -> None:
    """Take back, in the LLVM dialect, that views begin inside of their buffers, and distances are
    positive.

    Lowered loads and stores promise it; but only the sum of what varies and the distance is inside,
    and where a stride is negative so are distances. Where a stride is not known the same holds of
    the products of it, and their sums; where there may be such (`is_open`), a product of a constant
    may be one of a stride unless it is one of what loops count.
    """
    bindings = bindings_of(module)
    ir = bindings.ir
    for place in find(module, "llvm.getelementptr"):
        base, *dynamic = place.operands
        known, element = place.attributes["rawConstantIndices"], place.attributes["elem_type"]
        flags = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, module.context), 0)
        with module.context, ir.InsertionPoint(place), place.location:
            free = bindings.llvm.GEPOp(
                place.result.type, base, dynamic, known, element, noWrapFlags=flags
            )
        _replace_uses(place, free)
        place.erase()
    unsure: set[Any] = set()
    counted: set[Any] = set()
    for sum_ in find(module, "llvm.mul", "llvm.add"):  # operands before what is made of them
        operands = list(sum_.operands)
        is_counted = is_open and all(
            _is_natural(value) or value in counted or _is_counter(value) for value in operands
        )
        is_sure = not any(map(_is_negative, operands))
        if sum_.name == "llvm.mul":
            is_sure = is_sure and any(map(_is_natural, operands)) and (is_counted or not is_open)
        if is_sure and unsure.isdisjoint(operands):
            if is_counted:
                counted.add(sum_.result)
            continue
        with module.context, ir.InsertionPoint(sum_), sum_.location:
            free = ir.Operation.create(sum_.name, [sum_.result.type], operands)
        unsure.add(free.result)
        _replace_uses(sum_, free)
        sum_.erase()


def _is_counter(value: Any) -> bool:
    """Whether it may be what a loop counts: an argument of a block inside of a function."""
    if defining_op(value) is not None:
        return False
    return bool(value.owner != value.owner.owner.operation.regions[0].blocks[0])


def _is_natural(value: Any) -> bool:
    """Whether it is a constant that is not negative."""
    known = _known(value)
    return known is not None and known >= 0


def _is_negative(value: Any) -> bool:
    """Whether it is a constant that is negative."""
    known = _known(value)
    return known is not None and known < 0


def _known(value: Any) -> int | None:
    """The value of an integer that is constant."""
    operation = defining_op(value)
    if operation is None or operation.name != "llvm.mlir.constant":
        return None
    is_integer = isinstance(value.type, bindings_of(value.type).ir.IntegerType)  # and no vector
    if not is_integer or value.type.width > _WORD_BITS:
        return None  # the bindings end the process where they cannot tell a value
    known = getattr(operation.attributes["value"], "value", None)
    return known if isinstance(known, int) else None


@dataclass(frozen=True)
class _Shared:
    """What accesses in a block share, in front of the first: common subexpression elimination would
    find it as well, after much longer. What accesses of several blocks do is left to that."""

    bindings: Bindings
    constants: dict[int, Any] = field(default_factory=dict)
    views: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def constant(self, value: int) -> Any:
        if value not in self.constants:
            index = self.bindings.ir.IndexType.get()
            self.constants[value] = self.bindings.arith.constant(index, value)
        return self.constants[value]

    def view(self, buffer: Any, strides: Sequence[int], indices: Sequence[Any]) -> Any:
        """All of `buffer` from the element at `indices` on, as one dimension; None is 0."""
        key = (buffer, *indices)
        if key not in self.views:
            self.views[key] = self._view(buffer, strides, indices)
        return self.views[key]

    def _view(self, buffer: Any, strides: Sequence[int], indices: Sequence[Any]) -> Any:
        ir, arith, memref = self.bindings.ir, self.bindings.arith, self.bindings.memref
        type_, layout = buffer.type, layout_of(buffer.type)
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        if layout is None or layout.offset is None:
            start = memref.ExtractStridedMetadataOp(buffer).results[1]
        else:
            start = self.constant(layout.offset)
        for value, stride in zip(indices, strides, strict=True):
            if value is not None:
                start = arith.addi(start, arith.muli(value, self.constant(stride)))
        reach = _reach(type_.shape, strides)
        dense = ir.StridedLayoutAttr.get(dynamic, [1])
        row = ir.MemRefType.get([reach], type_.element_type, dense, type_.memory_space)
        return memref.ReinterpretCastOp(
            row, buffer, [start], [], [], [dynamic], [reach], [1]
        ).result


def _replace_uses(operation: Any, other: Any) -> None:
    for old, new in zip(operation.results, other.results, strict=True):
        old.replace_all_uses_with(new)


def _static_strides(ir: Any, type_: Any) -> list[int] | None:
    """Elements from one index to the next, along each dimension of a buffer of known shape; None
    if that is not known, not the same everywhere, or there is no element."""
    if not isinstance(type_.layout, ir.StridedLayoutAttr) and not is_row_major(type_):
        return None
    layout = layout_of(type_)
    if layout is None or not type_.has_static_shape or 0 in type_.shape:
        return None
    strides = [stride for stride in layout.strides if stride is not None]
    if len(strides) < type_.rank or _reach(type_.shape, strides) >= ADDRESSABLE_BYTES:
        return None
    return strides


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last of a buffer, both included."""
    return 1 + sum((n - 1) * abs(step) for n, step in zip(shape, strides, strict=True))


def _split(index: Any) -> tuple[Any, int]:
    """An index as something that varies, or None, and a constant to be added: canonical sums have
    one at most, on the right."""
    if (known := constant(index)) is not None:
        return None, known
    if (summands := operands_of(index, "arith.addi")) is not None:
        first, second = summands
        if (known := constant(second)) is not None:
            return first, known
    return index, 0
