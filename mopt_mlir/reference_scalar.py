"""arith and math operations on numpy arrays, and what they do to magnitudes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mopt_mlir.diagnostics import UserError, describe

ADDITIONS = ("arith.addf", "arith.subf")
MULTIPLICATIONS = ("arith.mulf", "arith.divf")
FUSED = "math.fma"
NARROWING = "arith.truncf"
CASTS = ("arith.extf", NARROWING)

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

_INTEGER_CASTS = ("arith.extsi", "arith.index_cast")

_INTEGERS: Mapping[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}

_VALUES: Mapping[str, Callable[..., Any]] = {
    **_INTEGERS,
    **dict.fromkeys(CASTS, np.asarray),
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.select": np.where,
    "arith.sitofp": lambda a: np.asarray(a, np.float64),
    "math.absf": np.abs,
    "math.exp": np.exp,
    "math.log": np.log,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.tanh": np.tanh,
    FUSED: lambda a, b, c: a * b + c,
}

_MAGNITUDES: Mapping[str, Callable[..., Any]] = {
    **_INTEGERS,  # exact, and with their signs
    **dict.fromkeys(CASTS, np.asarray),
    **dict.fromkeys(("arith.addf", "arith.subf"), np.add),
    **dict.fromkeys(("arith.negf", "math.absf"), np.asarray),
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf"), np.maximum),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf"), np.maximum),
    "arith.mulf": np.multiply,
    "arith.cmpf": lambda *_: np.False_,
    "arith.select": lambda _, a, b: np.maximum(a, b),
    "arith.sitofp": lambda a: np.abs(np.asarray(a, np.float64)),
    FUSED: lambda a, b, c: a * b + c,
}
"""What bounds the magnitude of a result, given bounds on those of the operands."""


def evaluate_scalar(operation: Any, operands: Sequence[Any], absolute: bool) -> Any:
    """The result of an arith or math operation, element by element; with `absolute` a bound on its
    magnitude, given bounds on those of the operands.

    Raises UserError for an operation that is not known.
    """
    known = _MAGNITUDES if absolute else _VALUES
    if operation.name == "arith.constant":
        value = np.asarray(operation.attributes["value"].value)
        return magnitude(value) if absolute else value
    if operation.name in _INTEGER_CASTS:
        return np.asarray(operands[0]).astype(_integer(operation))
    if operation.name in known:
        return known[operation.name](*operands)
    if operation.name == "arith.cmpf":
        return _compare(operation.attributes["predicate"].value, *operands)
    raise unsupported(operation)


def magnitude(numbers: Any) -> Any:
    """The magnitudes of real numbers; 0 for infinities, such as a maximum starts from: no rounding
    is relative to them. Integers stay as they are, since they are exact."""
    if numbers.dtype.kind != "f":
        return numbers
    return np.where(np.isfinite(numbers), np.abs(numbers), 0.0)


def _integer(operation: Any) -> Any:
    """numpy's type for the integer that a cast results in."""
    type_ = operation.results[0].type
    name = str(getattr(type_, "element_type", type_))
    known = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64}
    if name not in known:
        raise unsupported(operation)
    return known[name]


def _compare(predicate: int, a: Any, b: Any) -> Any:
    """The result of arith.cmpf."""
    is_nan = np.isnan(a) | np.isnan(b)
    if predicate in (_FALSE, _TRUE):
        return np.full(np.shape(is_nan), predicate == _TRUE)
    if predicate in (_ORDERED, _UNORDERED):
        return is_nan == (predicate == _UNORDERED)
    found = _COMPARISONS[(predicate - 1) % _ORDERED](a, b)
    return found & ~is_nan if predicate < _ORDERED else found | is_nan


def rounded_to(operation: Any) -> str | None:
    """The element type that an operation rounds its result to; None if it is exact."""
    if operation.name not in (*ADDITIONS, *MULTIPLICATIONS, FUSED, NARROWING):
        return None
    type_ = operation.results[0].type
    return str(getattr(type_, "element_type", type_))


def unsupported(operation: Any) -> UserError:
    """The error for an operation that the reference does not know."""
    message = f"the reference does not know '{operation.name}'"
    return UserError(message, describe(operation.location))
