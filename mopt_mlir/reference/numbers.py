"""Numbers in float64, and how far a program that rounds may be from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.diagnostics import UserError

Array = NDArray[Any]

_ROUNDING = {
    "bf16": (2.0**-8, 2.0**-134),
    "f16": (2.0**-11, 2.0**-25),
    "f32": (2.0**-24, 2.0**-150),
    "f64": (2.0**-53, 0.0),
}
"""By element type half the distance from 1 to the next number, which bounds the relative error of a
rounding, and half the smallest number, which bounds the error below the normal numbers."""

_SAFETY = 2
"""Times the error to first order, for the higher orders and for what float64 rounds itself."""


class NotInReferenceError(UserError):
    """What the reference cannot tell the result of, or how far a program may be from it."""


@dataclass(frozen=True)
class Numbers:
    """An array of real numbers in float64, of integers, or of booleans.

    A program that computes with rounded numbers may be off by `error`; of a boolean that may be the
    other one it is not 0. `terms` bounds the sum of the magnitudes of what was added up to a value,
    which errors of sums in another order are proportional to; None for a number that is no sum.
    """

    value: Array
    error: Array
    terms: Array | None = None

    @staticmethod
    def exact(value: Any) -> Numbers:
        """A copy of numbers that are given. Raises NotInReferenceError for what are none."""
        array = np.array(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        elif array.dtype.kind not in "iub":
            raise NotInReferenceError(f"the reference does not know numbers of type {array.dtype}")
        return Numbers(array, np.zeros(array.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def is_exact(self) -> bool:
        return not self.error.any()

    @property
    def magnitude(self) -> Array:
        """At most that, in a program. Infinities count nothing, such as a maximum starts from:
        no rounding is relative to them."""
        return finite(self.value) + self.error if self.terms is None else self.terms

    def map(self, function: Callable[[Array], Array]) -> Numbers:
        """What moves numbers about does the same to their errors."""
        return Numbers(function(self.value), function(self.error))

    def copy(self) -> Numbers:
        return self.map(lambda array: array.copy())

    def assign(self, other: Numbers) -> None:
        """Overwrite these, in the memory that they share with others."""
        self.value[...] = other.value
        self.error[...] = other.error


def rounding(elements: Sequence[str], magnitude: Array, count: int = 1) -> Array:
    """What `count` roundings to numbers of one of these types come to at most, of results that, and
    whose terms, add up to at most `magnitude` (Higham, Accuracy and Stability of Numerical
    Algorithms, sec. 3.1: a sum of n products in whatever order is off by n roundings)."""
    known = [_ROUNDING[element] for element in elements]
    relative, smallest = (max(errors) for errors in zip(*known, strict=True))
    return np.asarray(_SAFETY * count * (relative * magnitude + smallest))


def is_rounded(element: str) -> bool:
    """Whether the errors of numbers of this type are known."""
    return element in _ROUNDING


def finite(numbers: Array) -> Array:
    """The magnitudes, 0 of infinities and NaN."""
    return np.where(np.isfinite(numbers), np.abs(numbers.astype(np.float64)), 0.0)
