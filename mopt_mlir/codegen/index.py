"""Linear expressions over loop induction variables, so that accesses and branches stay affine."""

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

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def is_zero(self) -> Condition:
        return Condition(self, equality=True)

    def at_least(self, least: int) -> Condition:
        return Condition(self - least)

    def at_most(self, most: int) -> Condition:
        return Condition(Index(constant=most) - self)

    def below(self, bound: int) -> Condition:
        return self.at_most(bound - 1)


@dataclass(frozen=True)
class Condition:
    """That `index` is not negative, or, with `equality`, that it is 0."""

    index: Index
    equality: bool = False
