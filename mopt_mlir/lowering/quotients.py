"""Quotients by powers of two as shifts, which round down as affine maps do.

Upstream's lowering of an affine quotient divides what is not negative, and corrects the result
where it was: eight instructions, as LLVM does not see that loops count from zero. Those of a
prefetch in each step of a short loop take as long as its multiply-adds.
"""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.values import constant, operands_of
from mopt_mlir.operations import find


def shift_quotients(module: Any) -> None:
    """Replace what `lower-affine` made of `x floordiv 2^n` by an arithmetic shift."""
    ir, arith = bindings_of(module).ir, bindings_of(module).arith
    for select in find(module, "arith.select"):
        is_index = isinstance(select.results[0].type, ir.IndexType)
        if not is_index or (found := _quotient(select)) is None:
            continue
        value, divisor = found
        with module.context, ir.InsertionPoint(select), select.location:
            places = arith.constant(value.type, divisor.bit_length() - 1)
            shifted = arith.shrsi(value, places)
        select.results[0].replace_all_uses_with(shifted)


def _quotient(select: Any) -> tuple[Any, int] | None:
    """`x` and the power of two, if `select` is their quotient, rounded down:
    `x < 0 ? -1 - (-1 - x) / n : x / n`."""
    is_negative, below, quotient = select.operands
    if (terms := operands_of(quotient, "arith.divsi")) is None:
        return None
    size, divisor = terms[0], constant(terms[1])
    if divisor is None or divisor < 1 or divisor & (divisor - 1):
        return None
    if (choice := operands_of(size, "arith.select")) is None or choice[0] != is_negative:
        return None
    value = choice[2]
    is_below_zero = operands_of(is_negative, "arith.cmpi")
    if is_below_zero is None or is_below_zero[0] != value or constant(is_below_zero[1]) != 0:
        return None
    if int(is_negative.owner.attributes["predicate"]) != _LESS:
        return None
    if not (_is_negated(below, quotient) and _is_negated(choice[1], value)):
        return None
    return value, divisor


_LESS = 2
"""The signed predicate of `arith.cmpi`."""


def _is_negated(value: Any, of: Any) -> bool:
    """Whether `value` is `-1 - of`."""
    terms = operands_of(value, "arith.subi")
    return terms is not None and constant(terms[0]) == -1 and terms[1] == of
