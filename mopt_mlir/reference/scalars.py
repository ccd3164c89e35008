"""arith and math operations on numbers, element by element, and what they do to errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import erf
from typing import Any

import numpy as np

from mopt_mlir.diagnostics import describe
from mopt_mlir.reference.numbers import (
    Array,
    NotInReferenceError,
    Numbers,
    is_rounded,
)

Rule = Callable[..., Numbers]
"""From operands to a result, before it is rounded."""

ADDITIONS = ("arith.addf", "arith.subf")
MULTIPLICATIONS = ("arith.mulf", "arith.divf")
FUSED = "math.fma"
NARROWING = "arith.truncf"
CASTS = ("arith.extf", NARROWING)

_LIBRARY_ROUNDINGS = 4
"""What a function of the C library counts: they are off by at most two units in the last place
(the GNU C library's manual, "Known Maximum Errors in Math Functions")."""

_COMPARISONS: Sequence[Callable[..., Any]] = (
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
)
"""Predicates 1 to 6 of arith.cmpf, and 8 to 13, which differ on NaN only."""

_FALSE, _ORDERED, _UNORDERED, _TRUE = 0, 7, 14, 15

_INTEGER_COMPARISONS: Sequence[Callable[..., Any]] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)
"""Predicates 0 to 5 of arith.cmpi, the signed ones."""


def _terms(function: Callable[..., Array], a: Numbers, b: Numbers) -> Array | None:
    """Those of a result, if one of the operands is a sum in whatever order."""
    if a.terms is None and b.terms is None:
        return None
    return function(a.magnitude, b.magnitude)


def _sum(a: Numbers, b: Numbers) -> Numbers:
    terms = _terms(np.add, a, b)
    return Numbers(a.value + b.value, a.low + b.low, a.high + b.high, terms)


def _difference(a: Numbers, b: Numbers) -> Numbers:
    return _sum(a, _negated(b))


def _negated(a: Numbers) -> Numbers:
    return Numbers(-a.value, -a.high, -a.low, a.terms)


def _product(a: Numbers, b: Numbers) -> Numbers:
    return replace(_monotone(np.multiply)(a, b), terms=_terms(np.multiply, a, b))


def _fused(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    return _sum(_product(a, b), c)


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    """Anything where the divisor may be 0 or not."""
    return _anything(b.unsure & (b.low <= 0) & (b.high >= 0), _monotone(np.divide)(a, b))


def _power(a: Numbers, b: Numbers) -> Numbers:
    """Anything where the sign of the base is open, or that of a negative one's power."""
    return _anything((a.unsure | b.unsure) & (a.low < 0), _monotone(np.power)(a, b))


def _anything(where: Array, numbers: Numbers) -> Numbers:
    low, high = np.where(where, -np.inf, numbers.low), np.where(where, np.inf, numbers.high)
    return Numbers(numbers.value, low, high)


def _extreme(function: Callable[..., Array]) -> Rule:
    def apply(a: Numbers, b: Numbers) -> Numbers:
        return replace(_monotone(function)(a, b), terms=_terms(np.maximum, a, b))

    return apply


def _same(a: Numbers) -> Numbers:
    return a


def _magnitude(a: Numbers) -> Numbers:
    ends = np.abs(a.low), np.abs(a.high)
    through = (a.low < 0) & (a.high > 0)
    low = np.where(through, 0, np.minimum(*ends))
    return Numbers(np.abs(a.value), low, np.maximum(*ends), a.terms)


def _wave(function: Callable[[Array], Array]) -> Rule:
    """Of a function with the Lipschitz constant 1 and values from -1 to 1."""

    def apply(a: Numbers) -> Numbers:
        value = function(a.value)
        exact = Numbers(value, value, value)
        return exact if a.is_exact else exact.widened(np.minimum(a.error, 2))

    return apply


def _monotone(function: Callable[..., Array]) -> Rule:
    """Of a function that, in each operand, only grows or only falls: it is furthest from its value
    where the operands are."""

    def apply(*operands: Numbers) -> Numbers:
        value = function(*(a.value for a in operands))
        if all(a.is_exact for a in operands):
            return Numbers(value, value, value)
        ends = [function(*corner) for corner in product(*((a.low, a.high) for a in operands))]
        low, high = np.minimum.reduce([value, *ends]), np.maximum.reduce([value, *ends])
        # Where a corner has no value, such as 0 times infinity, but the number has.
        lost = (np.isnan(low) | np.isnan(high)) & ~np.isnan(value)
        return Numbers(value, np.where(lost, -np.inf, low), np.where(lost, np.inf, high))

    return apply


def _selected(condition: Numbers, a: Numbers, b: Numbers) -> Numbers:
    def chosen(of_a: Array, of_b: Array) -> Array:
        return np.where(condition.value, of_a, of_b)

    low, high = chosen(a.low, b.low), chosen(a.high, b.high)
    low = np.where(condition.unsure, np.minimum(a.low, b.low), low)
    high = np.where(condition.unsure, np.maximum(a.high, b.high), high)
    return Numbers(chosen(a.value, b.value), low, high, _terms(np.maximum, a, b))


def _logical(function: Callable[..., Array]) -> Rule:
    """Of bits; where one is unsure, any number of the type."""

    def apply(a: Numbers, b: Numbers) -> Numbers:
        value = function(a.value, b.value)
        unsure = a.unsure | b.unsure
        least, most = (0, 1) if value.dtype.kind == "b" else (-np.inf, np.inf)
        return Numbers(value, np.where(unsure, least, value), np.where(unsure, most, value))

    return apply


def _converted(a: Numbers) -> Numbers:
    return replace(a, value=a.value.astype(np.float64))


def _truncated(a: Numbers) -> Numbers:
    return _monotone(np.trunc)(a)


_LIBRARY: Mapping[str, Rule] = {
    "math.atan": _monotone(np.arctan),
    "math.cbrt": _monotone(np.cbrt),
    "math.cos": _wave(np.cos),
    "math.erf": _monotone(np.vectorize(erf, [float])),
    "math.exp": _monotone(np.exp),
    "math.exp2": _monotone(np.exp2),
    "math.expm1": _monotone(np.expm1),
    "math.log": _monotone(np.log),
    "math.log10": _monotone(np.log10),
    "math.log1p": _monotone(np.log1p),
    "math.log2": _monotone(np.log2),
    "math.powf": _power,
    "math.rsqrt": _monotone(lambda a: 1 / np.sqrt(a)),
    "math.sin": _wave(np.sin),
    "math.sqrt": _monotone(np.sqrt),
    "math.tanh": _monotone(np.tanh),
}

_FLOATS: Mapping[str, Rule] = {
    **_LIBRARY,
    "arith.addf": _sum,
    "arith.divf": _quotient,
    "arith.extf": _same,
    "arith.maximumf": _extreme(np.maximum),
    "arith.maxnumf": _extreme(np.fmax),
    "arith.minimumf": _extreme(np.minimum),
    "arith.minnumf": _extreme(np.fmin),
    "arith.mulf": _product,
    "arith.negf": _negated,
    "arith.subf": _difference,
    "arith.truncf": _same,
    "math.absf": _magnitude,
    "math.ceil": _monotone(np.ceil),
    "math.floor": _monotone(np.floor),
    "math.fma": _fused,
    "math.roundeven": _monotone(np.rint),
    "math.trunc": _monotone(np.trunc),
}

_INTEGERS: Mapping[str, Rule] = {
    "arith.addi": _sum,
    "arith.extsi": _same,
    "arith.fptosi": _truncated,
    "arith.index_cast": _same,
    "arith.maxsi": _extreme(np.maximum),
    "arith.minsi": _extreme(np.minimum),
    "arith.muli": _product,
    "arith.sitofp": _converted,
    "arith.subi": _difference,
    "arith.trunci": _same,
}
"""Of signed integers. What they compute is taken modulo the size of their type."""

_BITS: Mapping[str, Rule] = {
    "arith.andi": _logical(np.bitwise_and),
    "arith.ori": _logical(np.bitwise_or),
    "arith.select": _selected,
    "arith.xori": _logical(np.bitwise_xor),
}
"""Of whatever type."""


def evaluate_scalar(operation: Any, operands: Sequence[Numbers]) -> Numbers:
    """The result of an arith or math operation, element by element. Limits may be infinite.

    Raises NotInReferenceError for an operation that is not known.
    """
    with np.errstate(all="ignore"):
        exact = _before_rounding(operation, operands)
        if not (element := rounded_to(operation)):
            return exact
        count = _LIBRARY_ROUNDINGS if operation.name in _LIBRARY else 1
        return exact.rounded(element, count)


def rounded_to(operation: Any) -> str | None:
    """The element type that an operation rounds its result to; None if it does not round, or is not
    known (which `evaluate_scalar` refuses). Raises NotInReferenceError for an element type of which
    roundings are not known."""
    rounds = (*ADDITIONS, *MULTIPLICATIONS, FUSED, NARROWING, "arith.sitofp", *_LIBRARY)
    if operation.name not in rounds:
        return None
    element = _element(operation)
    if not is_rounded(element):
        raise unsupported(operation)
    return element


def unsupported(operation: Any) -> NotInReferenceError:
    """The error for an operation that the reference does not know."""
    message = f"the reference does not know '{operation.name}'"
    return NotInReferenceError(message, describe(operation.location))


def integer_type(element: str) -> np.dtype[Any] | None:
    """numpy's type for integers of an element type; None if it has none."""
    known = {"i1": bool, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
    type_ = np.int64 if element == "index" else known.get(element)
    return None if type_ is None else np.dtype(type_)


def _before_rounding(operation: Any, operands: Sequence[Numbers]) -> Numbers:
    if operation.name == "arith.constant":
        return _modulo(operation, Numbers.exact(operation.attributes["value"].value))
    if operation.name in ("arith.cmpf", "arith.cmpi"):
        return _compared(operation, *operands)
    if operation.name in _INTEGERS:
        return _modulo(operation, _INTEGERS[operation.name](*map(_signed, operands)))
    rule = _FLOATS.get(operation.name) or _BITS.get(operation.name)
    if rule is None:
        raise unsupported(operation)
    return rule(*operands)


def _signed(numbers: Numbers) -> Numbers:
    """Integers with room for what is computed of them; of a single bit 1 is -1."""
    kind = numbers.value.dtype.kind
    if kind == "f":
        return numbers
    low, high = (limit.astype(np.float64) for limit in (numbers.low, numbers.high))
    wide = Numbers(numbers.value.astype(np.int64), low, high, numbers.terms)
    return _negated(wide) if kind == "b" else wide


def _modulo(operation: Any, numbers: Numbers) -> Numbers:
    """Integers as their type has them; anything where limits are beyond it."""
    element = _element(operation)
    if is_rounded(element):
        return numbers
    type_ = integer_type(element)
    if type_ is None:
        raise unsupported(operation)
    if type_.kind == "b":
        value = (numbers.value.astype(np.int64) & 1).astype(bool)
        return Numbers(value, value & ~numbers.unsure, value | numbers.unsure)
    value = numbers.value.astype(np.int64).astype(type_)
    if numbers.is_exact:
        return Numbers(value, value, value)
    limits = np.iinfo(type_)
    inside = (numbers.low >= limits.min) & (numbers.high <= limits.max)
    low, high = np.where(inside, numbers.low, -np.inf), np.where(inside, numbers.high, np.inf)
    return Numbers(value, low, high)


def _element(operation: Any) -> str:
    type_ = operation.results[0].type
    return str(getattr(type_, "element_type", type_))


def _compared(operation: Any, a: Numbers, b: Numbers) -> Numbers:
    """The result of a comparison, which may be the other one where limits overlap."""
    predicate = operation.attributes["predicate"].value
    unsure = (a.unsure | b.unsure) & (a.low <= b.high) & (b.low <= a.high)
    if operation.name == "arith.cmpi":
        if predicate >= len(_INTEGER_COMPARISONS):
            raise unsupported(operation)
        value = _INTEGER_COMPARISONS[predicate](_signed(a).value, _signed(b).value)
    else:
        value = _compare(predicate, a.value, b.value)
    return Numbers(value, value & ~unsure, value | unsure)


def _compare(predicate: int, a: Array, b: Array) -> Array:
    """The result of arith.cmpf."""
    is_nan = np.isnan(a) | np.isnan(b)
    if predicate in (_FALSE, _TRUE):
        return np.full(np.shape(is_nan), predicate == _TRUE)
    if predicate in (_ORDERED, _UNORDERED):
        return np.asarray(is_nan == (predicate == _UNORDERED))
    found = _COMPARISONS[(predicate - 1) % _ORDERED](a, b)
    return np.asarray(found & ~is_nan if predicate < _ORDERED else found | is_nan)
