"""How the elements of a memref lie in memory, as far as its type says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mopt_mlir.bindings import bindings_of


@dataclass(frozen=True)
class Layout:
    """Elements from one index to the next along each axis, and from where memory begins to the
    first: None where the type leaves it open."""

    strides: tuple[int | None, ...]
    offset: int | None


def layout_of(type_: Any) -> Layout | None:
    """The layout of a memref type; None if it has no rank, or no stride along each axis."""
    ir = bindings_of(type_).ir
    if not isinstance(type_, ir.MemRefType):
        return None
    try:
        strides, offset = type_.get_strides_and_offset()
    except (RuntimeError, ValueError):
        return None
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    known = [None if size == dynamic else size for size in (*strides, offset)]
    return Layout(tuple(known[:-1]), known[-1])


def is_row_major(type_: Any) -> bool:
    """Whether a memref type names no layout, or that without gaps."""
    ir = bindings_of(type_).ir
    return bool(type_.affine_map == ir.AffineMap.get_identity(type_.rank, type_.context))
