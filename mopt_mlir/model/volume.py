"""Data volume of one level of tiling (paper, Sec. 3, for any linear accesses, order and tiles)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from mopt_mlir.model.classes import Reuse
from mopt_mlir.model.footprint import memory_axes
from mopt_mlir.problem import Problem, Tensor

Pieces = Mapping[int, int]
"""How many tiles of each size along a dim there are."""


@dataclass(frozen=True)
class Tiling:
    """The tiles of one level as one core sees them.

    `tile` is the size of a whole tile and `pieces` the sizes of all tiles along each dim, over all
    tiles of the outer levels, partial ones included.
    """

    tile: Mapping[str, int]
    pieces: Mapping[str, Pieces]

    @cached_property
    def tiles(self) -> Mapping[str, int]:
        """The number of tiles along each dim."""
        return {dim: sum(pieces.values()) for dim, pieces in self.pieces.items()}


def whole(problem: Problem) -> Tiling:
    """The level outside of all: one tile, the whole problem."""
    return Tiling(dict(problem.extents), {dim: {n: 1} for dim, n in problem.extents.items()})


def cut(pieces: Pieces, size: int) -> Pieces:
    """Each piece cut into tiles of `size`; the last tile of a piece may be smaller."""
    cut_up: Counter[int] = Counter()
    for piece, number in pieces.items():
        full, rest = divmod(piece, size)
        cut_up[size] += full * number
        cut_up[rest] += number
    return {piece: number for piece, number in cut_up.items() if piece and number}


def volume(
    problem: Problem,
    tensor: Tensor,
    reuse: Reuse,
    level: Tiling,
    outer: Tiling,
    line_bytes: int = 0,
) -> int:
    """Elements of `tensor` that enter the cache of `level`, in whole lines of `line_bytes`.

    Along a dim that is present in the tensor the tiles partition it, so that their sizes add up to
    the points covered whatever the tile; absent loops repeat the traffic unless the tensor is
    reused over them; a halo is paid once per tile, or once per outer tile where consecutive tiles
    overlap. Along the contiguous axis each tile brings in all lines that it touches.
    """
    total = prod(
        (outer if dim in reuse.inside else level).tiles[dim]
        for dim in problem.names
        if dim not in tensor.dims
    )
    for part in memory_axes(problem, tensor, line_bytes):
        image, filter_ = part.axis.image, part.axis.filter
        images = (outer if reuse.overlap == image else level).pieces[image]
        filters: Pieces = {1: 1}
        if filter_ is not None:
            filters = (outer if reuse.overlap == filter_ else level).pieces[filter_]
        total *= sum(
            n * m * part.occupied(points, taps)
            for points, n in images.items()
            for taps, m in filters.items()
        )
    return total


def live_order(
    problem: Problem, order: Sequence[str], level: Tiling, outer: Tiling
) -> tuple[str, ...]:
    """`order` with the loops that run only once moved outermost: they carry no traffic."""
    live = {dim for dim in problem.names if level.tile[dim] < outer.tile[dim]}
    return (*(d for d in order if d not in live), *(d for d in order if d in live))
