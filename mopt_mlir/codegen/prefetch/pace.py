"""At what pace a reduction loop asks for many lines, or rows, and not for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Condition, Index
from mopt_mlir.codegen.prefetch_budget import power_of_two_up_to


@dataclass(frozen=True)
class Pace:
    """In each step of the loop over `dim`, which starts at `first`, `each` lines or rows are asked
    for; or, where there are more steps than that, one in every `apart` steps: a power of two, by
    which it is cheap to divide."""

    dim: str
    first: Index
    each: int
    apart: int

    @staticmethod
    def of(count: int, steps: int, dim: str, first: Index) -> Pace:
        """That at which `count` of them are asked for in so many `steps`, or fewer."""
        return Pace(dim, first, -(-count // steps), power_of_two_up_to(max(steps // count, 1)))

    def steps(self, count: int) -> int:
        """Those after which `count` of them have been asked for."""
        return self.apart * -(-count // self.each)

    def done(self, point: Mapping[str, Index]) -> Index:
        """The steps before that at `point`."""
        return point[self.dim] - self.first

    def turn(self, builder: Builder, point: Mapping[str, Index]) -> Index:
        """How many steps before that at `point` have asked for any."""
        return builder.apply("turn", self.done(point), self.apart)

    def number(self, builder: Builder, point: Mapping[str, Index]) -> Index:
        """That of the first that the step at `point` asks for."""
        return self.turn(builder, point) * self.each

    def conditions(self, builder: Builder, point: Mapping[str, Index]) -> list[Condition]:
        """When the step at `point` asks for any; none, so always, if each does."""
        if self.apart == 1:
            return []
        return [builder.apply("due", self.done(point), modulo=self.apart).is_zero()]
