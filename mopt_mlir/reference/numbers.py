"""Numbers in float64, and between which limits those of a program that rounds must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.diagnostics import UserError

Array = NDArray[Any]


@dataclass(frozen=True)
class _Format:
    """Half the distance from 1 to the next number, which bounds the relative error of a rounding;
    half the smallest number, which bounds the error below the normal numbers; and the least number
    that is rounded to infinity."""

    relative: float
    smallest: float
    infinite: float


_FORMATS = {
    "bf16": _Format(2.0**-8, 2.0**-134, (2 - 2.0**-8) * 2.0**127),
    "f16": _Format(2.0**-11, 2.0**-25, (2 - 2.0**-11) * 2.0**15),
    "f32": _Format(2.0**-24, 2.0**-150, (2 - 2.0**-24) * 2.0**127),
    "f64": _Format(2.0**-53, 0.0, np.inf),
}

_SAFETY = 2
"""Times the error to first order, for the higher orders and for what float64 rounds itself."""


class NotInReferenceError(UserError):
    """What the reference cannot tell the result of, or how far a program may be from it."""


@dataclass(frozen=True)
class Numbers:
    """An array of real numbers in float64, of integers, or of booleans.

    A program that computes with rounded numbers may have anything from `low` to `high`, which are
    in float64, instead of `value`. `terms` bounds the sum of the magnitudes of what is added up to
    a value in whatever order, which errors are proportional to then; None for any other number.
    """

    value: Array
    low: Array
    high: Array
    terms: Array | None = None

    @staticmethod
    def exact(value: Any) -> Numbers:
        """A copy of numbers that are given. Raises NotInReferenceError for what are none."""
        array = np.array(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        elif array.dtype.kind not in "iub":
            raise NotInReferenceError(f"the reference does not know numbers of type {array.dtype}")
        return Numbers(array, array.astype(np.float64), array.astype(np.float64))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def is_exact(self) -> bool:
        return not self.unsure.any()

    @property
    def unsure(self) -> Array:
        """Which of the numbers may be others."""
        return np.asarray(self.low < self.high)

    @property
    def error(self) -> Array:
        """How far a program may be off; 0 where there is no number."""
        value = self.value.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.maximum(self.high - value, value - self.low)
        return np.where(self.unsure, error, 0.0)

    @property
    def magnitude(self) -> Array:
        """At most that, in a program. Infinities count nothing, such as a maximum starts from:
        no rounding is relative to them."""
        if self.terms is not None:
            return self.terms
        return np.maximum(finite(self.low), finite(self.high))

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Value and limits."""
        return self.value, self.low, self.high

    def map(self, function: Callable[[Array], Array]) -> Numbers:
        """What moves numbers about does the same to their limits."""
        return Numbers(*map(function, self.parts))

    def copy(self) -> Numbers:
        return self.map(lambda array: array.copy())

    def assign(self, other: Numbers) -> None:
        """Overwrite these, in the memory that they share with others."""
        for ours, theirs in zip(self.parts, other.parts, strict=True):
            ours[...] = theirs

    def widened(self, error: Array) -> Numbers:
        """With so much more between the limits, in both directions."""
        return Numbers(self.value, self.low - error, self.high + error, self.terms)

    def rounded(self, element: str, count: int = 1) -> Numbers:
        """After `count` roundings to numbers of a type."""
        if self.terms is not None:
            return overflown(self.widened(rounding([element], self.terms, count)), element)
        low = self.low - rounding([element], finite(self.low), count)
        high = self.high + rounding([element], finite(self.high), count)
        return overflown(Numbers(self.value, low, high), element)


def rounding(elements: Sequence[str], magnitude: Array, count: int = 1) -> Array:
    """What `count` roundings to numbers of one of these types come to at most, of results that, and
    whose terms, add up to at most `magnitude` (Higham, Accuracy and Stability of Numerical
    Algorithms, sec. 3.1: a sum of n products in whatever order is off by n roundings)."""
    formats = [_FORMATS[element] for element in elements]
    relative = max(format_.relative for format_ in formats)
    smallest = max(format_.smallest for format_ in formats)
    return np.asarray(_SAFETY * count * (relative * magnitude + smallest))


def overflown(numbers: Numbers, element: str) -> Numbers:
    """Infinite where they are beyond the numbers of a type."""
    infinite = _FORMATS[element].infinite

    def limited(array: Array) -> Array:
        return np.where(np.abs(array) >= infinite, np.copysign(np.inf, array), array)

    return replace(numbers.map(limited), terms=numbers.terms)


def is_rounded(element: str) -> bool:
    """Whether the errors of numbers of this type are known."""
    return element in _FORMATS


def finite(numbers: Array) -> Array:
    """The magnitudes, 0 of infinities and NaN."""
    return np.where(np.isfinite(numbers), np.abs(numbers.astype(np.float64)), 0.0)
