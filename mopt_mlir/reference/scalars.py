"""arith and math operations on numbers, element by element, and what they do to errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import erf
from typing import Any

import numpy as np

from mopt_mlir.diagnostics import describe
from mopt_mlir.reference.numbers import Array, NotInReferenceError, Numbers, is_rounded, rounding

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


def _sum(function: Callable[..., Array]) -> Rule:
    def apply(a: Numbers, b: Numbers) -> Numbers:
        terms = a.magnitude + b.magnitude
        return Numbers(function(a.value, b.value), a.error + b.error, terms)

    return apply


def _product(a: Numbers, b: Numbers) -> Numbers:
    of_b = np.abs(a.value.astype(float)) * b.error
    of_a = np.abs(b.value.astype(float)) * a.error
    value = np.multiply(a.value, b.value)
    return Numbers(value, of_a + of_b + a.error * b.error, a.magnitude * b.magnitude)


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    value = np.divide(a.value, b.value)
    least = np.abs(b.value) - b.error
    error = (a.error + np.abs(value) * b.error) / np.maximum(least, 0)
    return Numbers(value, np.where((a.error == 0) & (b.error == 0), 0, error))


def _fused(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    return _sum(np.add)(_product(a, b), c)


def _extreme(function: Callable[..., Array]) -> Rule:
    def apply(a: Numbers, b: Numbers) -> Numbers:
        return replace(_monotone(function)(a, b), terms=np.maximum(a.magnitude, b.magnitude))

    return apply


def _moved(function: Callable[[Array], Array]) -> Rule:
    """Of a function that changes no distance between numbers."""
    return lambda a: Numbers(function(a.value), a.error, a.magnitude)


def _wave(function: Callable[[Array], Array]) -> Rule:
    """Of a function with the Lipschitz constant 1 and values from -1 to 1."""
    return lambda a: Numbers(function(a.value), np.minimum(a.error, 2))


def _monotone(function: Callable[..., Array]) -> Rule:
    """Of a function that, in each operand, only grows or only falls: it is furthest from its value
    where the operands are."""

    def apply(*operands: Numbers) -> Numbers:
        value = function(*(operand.value for operand in operands))
        if all(operand.is_exact for operand in operands):
            return Numbers(value, np.zeros(np.shape(value)))
        error = np.zeros(np.shape(value))
        for signs in product((-1, 1), repeat=len(operands)):
            ends = (a.value + sign * a.error for a, sign in zip(operands, signs, strict=True))
            error = np.maximum(error, np.abs(function(*ends) - value))
        return Numbers(value, error)

    return apply


def _selected(condition: Numbers, a: Numbers, b: Numbers) -> Numbers:
    value = np.where(condition.value, a.value, b.value)
    error = np.where(condition.value, a.error, b.error)
    if not condition.is_exact:
        either = _distance(a.value, b.value) + np.maximum(a.error, b.error)
        error = np.where(condition.error > 0, either, error)
    return Numbers(value, error, np.maximum(a.magnitude, b.magnitude))


def _logical(function: Callable[..., Array]) -> Rule:
    """Of single bits, each of which has its part in the result; of integers only if exact."""

    def apply(a: Numbers, b: Numbers) -> Numbers:
        value = function(a.value, b.value)
        unsure = 1.0 if value.dtype.kind == "b" else np.inf
        return Numbers(value, np.where((a.error > 0) | (b.error > 0), unsure, 0.0))

    return apply


def _distance(a: Array, b: Array) -> Array:
    """0 between equal infinities."""
    return np.where(a == b, 0.0, np.abs(np.subtract(a, b, dtype=float)))


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
    "math.powf": _monotone(np.power),
    "math.rsqrt": _monotone(lambda a: 1 / np.sqrt(a)),
    "math.sin": _wave(np.sin),
    "math.sqrt": _monotone(np.sqrt),
    "math.tanh": _monotone(np.tanh),
}

_RULES: Mapping[str, Rule] = {
    **_LIBRARY,
    "arith.addf": _sum(np.add),
    "arith.addi": _sum(np.add),
    "arith.andi": _logical(np.bitwise_and),
    "arith.divf": _quotient,
    "arith.extf": _moved(np.asarray),
    "arith.maximumf": _extreme(np.maximum),
    "arith.maxnumf": _extreme(np.fmax),
    "arith.maxsi": _extreme(np.maximum),
    "arith.minimumf": _extreme(np.minimum),
    "arith.minnumf": _extreme(np.fmin),
    "arith.minsi": _extreme(np.minimum),
    "arith.mulf": _product,
    "arith.muli": _product,
    "arith.negf": _moved(np.negative),
    "arith.ori": _logical(np.bitwise_or),
    "arith.select": _selected,
    "arith.sitofp": _moved(lambda a: np.asarray(a, np.float64)),
    "arith.subf": _sum(np.subtract),
    "arith.subi": _sum(np.subtract),
    "arith.truncf": _moved(np.asarray),
    "arith.xori": _logical(np.bitwise_xor),
    "math.absf": _moved(np.abs),
    "math.ceil": _monotone(np.ceil),
    "math.floor": _monotone(np.floor),
    "math.fma": _fused,
    "math.roundeven": _monotone(np.rint),
    "math.trunc": _monotone(np.trunc),
}

_INTEGER_CASTS = ("arith.extsi", "arith.fptosi", "arith.index_cast")


def evaluate_scalar(operation: Any, operands: Sequence[Numbers]) -> Numbers:
    """The result of an arith or math operation, element by element. An error may be infinite.

    Raises NotInReferenceError for an operation that is not known.
    """
    with np.errstate(all="ignore"):
        exact = _before_rounding(operation, operands)
        error = np.where(np.isfinite(exact.value), np.broadcast_to(exact.error, exact.shape), 0.0)
        if element := rounded_to(operation):
            count = _LIBRARY_ROUNDINGS if operation.name in _LIBRARY else 1
            error = error + rounding([element], exact.magnitude, count)
        return Numbers(exact.value, np.where(np.isnan(error), np.inf, error), exact.terms)


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


def _before_rounding(operation: Any, operands: Sequence[Numbers]) -> Numbers:
    if operation.name == "arith.constant":
        return Numbers.exact(operation.attributes["value"].value)
    if operation.name in _INTEGER_CASTS:
        integer = _integer(operation)
        return _monotone(lambda a: np.asarray(np.trunc(a)).astype(integer))(*operands)
    if operation.name in ("arith.cmpf", "arith.cmpi"):
        return _compared(operation, *operands)
    if operation.name not in _RULES:
        raise unsupported(operation)
    return _RULES[operation.name](*operands)


def _integer(operation: Any) -> Any:
    """numpy's type for the integer that a cast results in."""
    name = _element(operation)
    known = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64}
    if name not in known:
        raise unsupported(operation)
    return known[name]


def _element(operation: Any) -> str:
    type_ = operation.results[0].type
    return str(getattr(type_, "element_type", type_))


def _compared(operation: Any, a: Numbers, b: Numbers) -> Numbers:
    """The result of a comparison, which may be the other one where operands are that close."""
    predicate = operation.attributes["predicate"].value
    if operation.name == "arith.cmpi":
        if predicate >= len(_INTEGER_COMPARISONS):
            raise unsupported(operation)
        value = _INTEGER_COMPARISONS[predicate](a.value, b.value)
    else:
        value = _compare(predicate, a.value, b.value)
    error = a.error + b.error
    unsure = (error > 0) & (_distance(a.value, b.value) <= error)
    return Numbers(value, unsure.astype(float))


def _compare(predicate: int, a: Array, b: Array) -> Array:
    """The result of arith.cmpf."""
    is_nan = np.isnan(a) | np.isnan(b)
    if predicate in (_FALSE, _TRUE):
        return np.full(np.shape(is_nan), predicate == _TRUE)
    if predicate in (_ORDERED, _UNORDERED):
        return np.asarray(is_nan == (predicate == _UNORDERED))
    found = _COMPARISONS[(predicate - 1) % _ORDERED](a, b)
    return np.asarray(found & ~is_nan if predicate < _ORDERED else found | is_nan)
