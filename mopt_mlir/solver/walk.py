"""One core's way through the tiles of many tilings at once, as in `model.cost`, over numpy arrays.

The first core is the busiest. Its share of an outermost tile is cut into L2 tiles and these into L1
tiles; where a size does not divide, each cut leaves a smaller tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.occupied import occupied
from mopt_mlir.solver.space import Choice

Pieces = tuple[tuple[Ints, Ints], ...]
"""Sizes of tiles, and how many there are of each, per tiling."""


@dataclass(frozen=True)
class Tiles:
    """The tiles of one level: how many along each dim, how many points they cover (`[tiling, dim]`
    both), and for some dims their sizes in elements."""

    counts: Ints
    covered: Ints
    pieces: Mapping[str, Pieces]


@dataclass(frozen=True)
class Walk:
    """The tiles of each level, and what they are cut from: the problem, the core's shares of L3
    tiles, L2 tiles."""

    levels: tuple[Tiles, Tiles, Tiles]
    outer: tuple[Tiles, Tiles, Tiles]


class Walker:
    """Walks through tilings of one choice, with the sizes of tiles along the dims `measured`."""

    def __init__(self, problem: Problem, choice: Choice, measured: Iterable[str]) -> None:
        names = problem.names
        self.extents = np.array([problem.extent(dim) for dim in names])
        self.unit = np.array([choice.unit(dim) for dim in names])
        self.units = np.array([choice.units[dim] for dim in names])
        self.ways = np.array([choice.ways(dim) for dim in names])
        self.measured = [(dim, names.index(dim)) for dim in names if dim in set(measured)]

    def sizes(self, tilings: Ints) -> Ints:
        """Tilings in elements instead of register tiles."""
        return np.asarray(np.minimum(tilings * self.unit, self.extents))

    def __call__(self, tilings: Ints) -> Walk:
        """The walks through an array `[tiling, level, dim]` in register tiles."""
        l3, l2, l1 = tilings[:, 0], tilings[:, 1], tilings[:, 2]
        full, rest = np.divmod(self.units, l3)
        share = -(-l3 // self.ways)
        last = np.minimum(share, rest)
        n3 = full + (rest > 0)
        n2 = full * -(-share // l2) + -(-last // l2)
        per_l2 = -(-l2 // l1)
        n1 = full * (share // l2 * per_l2 + -(-(share % l2) // l1))
        n1 += last // l2 * per_l2 + -(-(last % l2) // l1)
        outermost = self.sizes(tilings)[:, 0]
        full, rest = np.divmod(self.extents, outermost)
        mine = share * self.unit
        covered = full * np.minimum(mine, outermost) + np.minimum(mine, rest)
        everything = np.broadcast_to(self.extents, l3.shape)
        one = np.ones_like(l3)
        pieces = self._pieces(tilings)
        whole = Tiles(one, everything, pieces[0])
        tiles = Tiles(n3, everything, pieces[1])
        shares = Tiles(n3, covered, pieces[2])
        inner, innermost = Tiles(n2, covered, pieces[3]), Tiles(n1, covered, pieces[4])
        return Walk((tiles, inner, innermost), (whole, shares, inner))

    def _pieces(self, tilings: Ints) -> list[dict[str, Pieces]]:
        """The sizes of the problem, of L3 tiles, shares, L2 tiles and L1 tiles."""
        found: list[dict[str, Pieces]] = [{}, {}, {}, {}, {}]
        for dim, at in self.measured:
            extent = int(self.extents[at])
            l3, l2, l1 = self.sizes(tilings)[:, :, at].T
            one = np.ones_like(l3)
            full, rest = np.divmod(extent, l3)
            mine = -(-tilings[:, 0, at] // self.ways[at]) * self.unit[at]
            share, last = np.minimum(mine, l3), np.minimum(mine, rest)
            n2 = full * (share // l2) + last // l2
            n1 = n2 * (l2 // l1) + full * (share % l2 // l1) + last % l2 // l1
            levels = (
                [(extent * one, one)],
                [(l3, full), (rest, one)],
                [(share, full), (last, one)],
                [(l2, n2), (share % l2, full), (last % l2, one)],
                [(l1, n1), (l2 % l1, n2), (share % l2 % l1, full), (last % l2 % l1, one)],
            )
            for pieces, level in zip(found, levels, strict=True):
                counted = ((size, number * (size > 0)) for size, number in level)
                pieces[dim] = tuple((size, number) for size, number in counted if number.any())
        return found


@dataclass(frozen=True)
class Occupied:
    """What the tiles of a level occupy along an axis of a tensor, of which orders with the same
    overlap agree; where tiles overlap, those of the next outer level count."""

    inner: Tiles
    outer: Tiles
    known: dict[tuple[MemoryAxis, str | None], Ints] = field(default_factory=dict)

    def along(self, part: MemoryAxis, overlap: str | None) -> Ints:
        image, taps = part.axis.image, part.axis.filter
        key = part, overlap if overlap in (image, taps) else None
        if key not in self.known:
            over_image, over_filter = (
                self.outer if overlap == dim else self.inner for dim in (image, taps)
            )
            self.known[key] = _occupied(part, over_image, over_filter)
        return self.known[key]


def _occupied(part: MemoryAxis, over_image: Tiles, over_filter: Tiles) -> Ints:
    """Elements of memory along an axis, over all pairs of image and filter tiles, as
    `model.volume` sums them."""
    images = over_image.pieces[part.axis.image]
    one = np.ones_like(images[0][0])
    filters: Pieces = ((one, one),)
    if part.axis.filter is not None:
        filters = over_filter.pieces[part.axis.filter]
    total = np.zeros_like(one)
    for points, n in images:
        for taps, m in filters:
            total += n * m * occupied(part, points, taps)
    return total
