"""Data volume of one level of tiling (paper, Sec. 3, for any linear accesses, order and tiles)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mopt_mlir.model.classes import Reuse
from mopt_mlir.model.footprint import axes
from mopt_mlir.problem import Problem, Tensor


@dataclass(frozen=True)
class Tiling:
    """The tiles of one level as one core sees them.

    `tile` is the size of a whole tile and `tiles` the number of tiles along each dim, over all
    tiles of the outer levels, partial ones included.
    """

    tile: Mapping[str, int]
    tiles: Mapping[str, int]


def whole(problem: Problem) -> Tiling:
    """The level outside of all: one tile, the whole problem."""
    return Tiling(dict(problem.extents), dict.fromkeys(problem.names, 1))


def count_tiles(extent: int, sizes: Sequence[int]) -> int:
    """Tiles of size `sizes[-1]` when `extent` is cut into pieces of `sizes[0]`, each of these into
    pieces of `sizes[1]` and so on; the last piece of each may be smaller."""
    if not sizes or not extent:
        return int(extent > 0)
    full, rest = divmod(extent, sizes[0])
    return full * count_tiles(sizes[0], sizes[1:]) + count_tiles(rest, sizes[1:])


def volume(
    problem: Problem,
    tensor: Tensor,
    reuse: Reuse,
    level: Tiling,
    outer: Tiling,
    covered: Mapping[str, int],
) -> int:
    """Elements of `tensor` that enter the cache of `level`.

    `covered` is the number of points along each dim that the core visits. Along a dim that is
    present in the tensor the tiles partition it, so that their sizes add up to `covered` whatever
    the tile; absent loops repeat the traffic unless the tensor is reused over them; a halo is paid
    once per tile, or once per outer tile where consecutive tiles overlap.
    """
    total = prod(
        (outer if dim in reuse.inside else level).tiles[dim]
        for dim in problem.names
        if dim not in tensor.dims
    )
    for axis in axes(problem, tensor):
        points = covered[axis.image]
        if axis.filter is None:
            total *= points
            continue
        runs = (outer if reuse.overlap == axis.image else level).tiles[axis.image]
        pieces = (outer if reuse.overlap == axis.filter else level).tiles[axis.filter]
        total *= axis.moved(points, covered[axis.filter], runs, pieces)
    return total


def live_order(
    problem: Problem, order: Sequence[str], level: Tiling, outer: Tiling
) -> tuple[str, ...]:
    """`order` with the loops that run only once moved outermost: they carry no traffic."""
    live = {dim for dim in problem.names if level.tile[dim] < outer.tile[dim]}
    return (*(d for d in order if d not in live), *(d for d in order if d in live))
