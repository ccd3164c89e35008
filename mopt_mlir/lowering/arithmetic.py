"""Integers that operations compute, as far as sizes can say them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.sizes import Size, compute, fold, is_natural, unsigned, wrapped
from mopt_mlir.lowering.values import is_wide

_SIGNED = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.divsi": "quotient",
    "arith.floordivsi": "floor",
    "arith.ceildivsi": "ceil",
    "arith.remsi": "remainder",
    "arith.minsi": "min",
    "arith.maxsi": "max",
}
_UNSIGNED = {
    "arith.divui": "quotient",
    "arith.ceildivui": "ceil",
    "arith.remui": "remainder",
    "arith.minui": "min",
    "arith.maxui": "max",
}
_LOGICAL = {"arith.andi": "mul", "arith.ori": "max", "arith.xori": "ne"}
"""Of single bits."""

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
"""The predicates of arith.cmpi in their order; the last four once more for unsigned numbers."""

_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci")
_MAPS = ("affine.apply", "affine.min", "affine.max")
_AFFINE = {
    "AffineAddExpr": "add",
    "AffineMulExpr": "mul",
    "AffineFloorDivExpr": "floor",
    "AffineCeilDivExpr": "ceil",
    "AffineModExpr": "mod",
}
_INDEX_BITS = 64


def is_arithmetic(operation: Any) -> bool:
    """Whether the results of an operation are computed from its operands, and nothing else."""
    return str(operation.name).startswith(("arith.", *_MAPS))


def computed(operation: Any, numbers: Sequence[Size]) -> Size | None:
    """The integer that an operation computes from its operands' `numbers`; None if that is not
    known of its kind."""
    name = operation.name
    if name == "arith.constant":
        return _constant(operation)
    if name == "arith.select":
        return compute("select", *numbers)
    if name in _LOGICAL and _bits(operation.result) == 1:
        return compute(_LOGICAL[name], *numbers)
    if name in _SIGNED:
        return _signed(_SIGNED[name], operation, numbers)
    if name in _UNSIGNED:
        return _unsigned(_UNSIGNED[name], operation, numbers)
    if name in _CASTS:
        return _cast(operation, numbers[0])
    if name == "arith.cmpi":
        predicate = operation.attributes["predicate"].value
        if predicate < len(_COMPARISONS):
            return _signed(_COMPARISONS[predicate], operation, numbers)
        return _unsigned(_COMPARISONS[predicate - len(_COMPARISONS) + 2], operation, numbers)
    if name in _MAPS:
        map_ = operation.attributes["map"].value
        results = [_affine(e, numbers, map_.n_dims) for e in map_.results]
        return fold(name.removeprefix("affine."), results)
    return None


def _constant(operation: Any) -> Size | None:
    ir = bindings_of(operation).ir
    attribute = operation.attributes["value"]
    is_integer = isinstance(attribute, ir.IntegerAttr | ir.BoolAttr)
    return int(attribute.value) if is_integer and not is_wide(operation.result.type) else None


def _signed(how: str, operation: Any, numbers: Sequence[Size]) -> Size:
    """Of signed numbers; those of 64 bits are large enough for what comes of sizes."""
    bits = _bits(operation.operands[0])
    if bits == 1:
        numbers = [compute("sub", 0, number) for number in numbers]
    found = compute(how, *numbers)
    stays = bits == _INDEX_BITS and all(map(is_natural, numbers))
    return found if stays or how in _COMPARISONS else wrapped(found, bits)


def _unsigned(how: str, operation: Any, numbers: Sequence[Size]) -> Size:
    """Of numbers that are taken for unsigned ones."""
    bits = _bits(operation.operands[0])
    found = compute(how, *(unsigned(number, bits) for number in numbers))
    return found if all(map(is_natural, numbers)) else wrapped(found, bits)


def _cast(operation: Any, number: Size) -> Size:
    before, after = _bits(operation.operands[0]), _bits(operation.result)
    if after < before:
        return wrapped(number, after)
    if operation.name in ("arith.extui", "arith.index_castui"):
        return unsigned(number, before) if after > before else number
    return compute("sub", 0, number) if before == 1 else number


def _affine(expression: Any, numbers: Sequence[Size], dims: int) -> Size:
    kind = type(expression).__name__
    if kind == "AffineConstantExpr":
        return int(expression.value)
    if kind in ("AffineDimExpr", "AffineSymbolExpr"):
        symbols = dims if kind == "AffineSymbolExpr" else 0
        return numbers[symbols + int(expression.position)]
    sides = (_affine(e, numbers, dims) for e in (expression.lhs, expression.rhs))
    return compute(_AFFINE[kind], *sides)


def _bits(value: Any) -> int:
    return getattr(value.type, "width", _INDEX_BITS)
