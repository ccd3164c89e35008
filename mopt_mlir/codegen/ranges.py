"""The part of a dim that the current tile covers, and how loops narrow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from mopt_mlir.codegen.index import Index


@dataclass(frozen=True)
class Range:
    """`[start, min(ends))`, at most `size` elements."""

    start: Index
    size: int
    exact: bool
    """Whether no outer bound ever cuts the tile short, so that its extent is `size`."""
    ends: tuple[Index, ...]
    """The first is this tile's own bound."""
    depth: int = 0
    """The number of loops around the one that narrowed the dim last, plus one; 0 if none."""
    within: int = 0
    """The size of the range that this loop steps through."""
    grain: int = 0
    """Of what `start` and the ends of the surrounding tiles are multiples; 0 where `start` is 0."""

    @staticmethod
    def whole(extent: int) -> Range:
        return Range(Index(), extent, True, (Index(constant=extent),))

    @property
    def is_point(self) -> bool:
        """Whether it always has a single element."""
        return self.exact and self.size == 1

    def times(self, inner: int) -> Range:
        """This part in a dim that has `inner` points for each of this one's, without loops."""
        return Range(
            self.start * inner,
            self.size * inner,
            self.exact,
            tuple(end * inner for end in self.ends),
            grain=self.grain * inner,
        )

    def tile(self, start: Index, size: int, depth: int) -> Range:
        """The tile of `size` elements from `start` on inside this range, `depth` loops deep.

        Keeps only the bounds that can matter. A tile that starts inside of one also ends inside of
        it where both are multiples of `size`, or `size` divides this range's own size, of which
        that is the bound; and so does a single element.
        """
        grain = gcd(self.grain, size)
        if size == 1:
            return Range(start, 1, True, (start + 1,), depth, self.size, grain)
        outer = self.ends[1:] if self.size % size == 0 else self.ends
        if self.grain % size == 0:
            outer = tuple(end for end in outer if end.constant % size)
        return Range(start, size, not outer, (start + size, *outer), depth, self.size, grain)


Ranges = Mapping[str, Range]
"""What is covered of each dim."""


def sizes_of(ranges: Mapping[str, Range]) -> dict[str, int]:
    """The size of each range."""
    return {dim: range_.size for dim, range_ in ranges.items()}


def starts_of(ranges: Mapping[str, Range]) -> dict[str, Index]:
    """Where each range begins."""
    return {dim: range_.start for dim, range_ in ranges.items()}


def innermost(dims: Sequence[str], ranges: Mapping[str, Range]) -> str | None:
    """Of `dims` the one that the innermost loop steps along, if any loop does."""
    inner = max(dims, key=lambda dim: ranges[dim].depth, default=None)
    return inner if inner and ranges[inner].depth else None
