"""Linear expressions over loop induction variables, so that accesses stay affine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Index:
    """`constant + sum(coefficient * value)` over SSA values that are valid affine dims."""

    terms: tuple[tuple[Any, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: Any) -> Index:
        return Index(((value, 1),))

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        merged = dict(self.terms)
        for value, coefficient in other.terms:
            merged[value] = merged.get(value, 0) + coefficient
        terms = tuple((value, c) for value, c in merged.items() if c)
        return Index(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return Index()
        return Index(tuple((v, c * factor) for v, c in self.terms), self.constant * factor)

    def __sub__(self, other: Index) -> Index:
        return self + other * -1
