"""What caches keep of a plan beyond the tiles of their levels.

`cost` counts what is reused between one tile and the next, which is all that there is if tiles fill
their caches, as those of a good plan do. A larger cache keeps more: the largest block of the nest
that fits, the tile together with what the innermost loops around it step through. A plan whose
tiles are small for their caches then moves what one with larger tiles would, so that this does not
change what is the best; but it is what such a plan really moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import (
    FILLED_FROM,
    OUTPUT_PASSES,
    TENSORS,
    line_bytes,
    usable,
)
from mopt_mlir.model.footprint import memory_axes, occupied
from mopt_mlir.model.volume import Pieces, cut
from mopt_mlir.plan import LEVELS, Plan, Prediction
from mopt_mlir.problem import Problem, Tensor

Volumes = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class _Loop:
    """Steps along `dim` through a tile at `depth`: 0 is the problem, 1 to 3 are the tiles of each
    level, outermost first."""

    dim: str
    depth: int


@dataclass(frozen=True)
class _Block:
    """What a cache keeps: per dim the depth of the tile that it covers, and the loops around it,
    outermost first."""

    depths: Mapping[str, int]
    around: Sequence[_Loop]


def resident_volumes(
    problem: Problem, machine: Machine, plan: Plan, prediction: Prediction
) -> Volumes:
    """The volumes of `prediction` in bytes, which is that of `plan`, as they are with what caches
    keep beyond their tiles. Packing stays as it is: it happens whenever its tile is entered.

    Raises ValueError for a plan for several cores, or without all levels.
    """
    if prod(plan.parallel.values()) > 1 or len(plan.levels) < len(LEVELS):
        raise ValueError("what caches keep is known for plans with all levels, for one core")
    pieces = {dim: _pieces(problem, plan, dim) for dim in problem.names}
    found = {name: dict(volumes) for name, volumes in prediction.volumes.items()}
    for depth, level in enumerate(LEVELS, 1):
        block = _block(problem, machine, plan, depth, pieces)
        volumes = found[FILLED_FROM[level]]
        for name, tensor in zip(TENSORS, problem.tensors, strict=True):
            line = _line_bytes(problem, machine, plan, tensor, level)
            passes = OUTPUT_PASSES if tensor is problem.output else 1
            moved = _moved(problem, tensor, block, pieces, line)
            # stores past the caches move less than what passes through them
            volumes[name] = min(volumes[name], passes * tensor.element.size * moved)
    return found


def _pieces(problem: Problem, plan: Plan, dim: str) -> tuple[Pieces, ...]:
    """The sizes of the tiles along a dim, by depth."""
    found: list[Pieces] = [{problem.extent(dim): 1}]
    for level in plan.levels:
        found.append(cut(found[-1], level.tile[dim]))
    return tuple(found)


def _block(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    depth: int,
    pieces: Mapping[str, Sequence[Pieces]],
) -> _Block:
    """The largest block around the tiles at `depth` that fits into the cache of their level."""
    sizes = [problem.extents, *(level.tile for level in plan.levels)]
    around = [
        _Loop(dim, outer)
        for outer, level in enumerate(plan.levels[:depth])
        for dim in level.order
        if _count(pieces[dim][outer + 1]) > _count(pieces[dim][outer])
    ]
    level, tensors = LEVELS[depth - 1], problem.tensors
    lines = [_line_bytes(problem, machine, plan, tensor, level) for tensor in tensors]
    block, depths = dict(sizes[depth]), dict.fromkeys(problem.names, depth)
    while around:
        dim, outer = around[-1].dim, around[-1].depth
        wider = {**block, dim: sizes[outer][dim]}
        filled = sum(
            tensor.element.size * occupied(problem, tensor, wider, line)
            for tensor, line in zip(tensors, lines, strict=True)
        )
        if filled > usable(machine, level):
            break
        block, depths[dim] = wider, outer
        around.pop()
    return _Block(depths, around)


def _line_bytes(problem: Problem, machine: Machine, plan: Plan, tensor: Tensor, level: str) -> int:
    """As `line_bytes`; sums that wait for the next visit outside of the output have no gaps."""
    if tensor is problem.output and not tensor.runs_along(plan.microkernel.lanes):
        splits = any(
            p.tile[d] < problem.extent(d) for p in plan.levels for d in problem.reduction_dims
        )
        if splits and level != LEVELS[0]:
            return 0
    return line_bytes(problem, machine, tensor, level, plan.packing != "none")


def _moved(
    problem: Problem,
    tensor: Tensor,
    block: _Block,
    pieces: Mapping[str, Sequence[Pieces]],
    line: int,
) -> float:
    """Elements of `tensor` that enter a cache which keeps `block`, as `volume` counts them for a
    single level: loops inside the innermost one that moves the tensor cost nothing, and a halo, or
    a line of cache that two blocks share, is paid once along a run of that loop."""
    moving = [i for i, loop in enumerate(block.around) if loop.dim in tensor.dims]
    outside = block.around[: moving[-1] + 1] if moving else []
    total = 1.0
    for loop in outside:
        if loop.dim not in tensor.dims:
            tiles = pieces[loop.dim]
            total *= _count(tiles[loop.depth + 1]) / _count(tiles[loop.depth])
    slides = outside[-1] if outside else None
    for part in memory_axes(problem, tensor, line):
        image, taps = part.axis.image, part.axis.filter
        at = dict(block.depths)
        if slides is not None and slides.dim in (image, taps):
            at[slides.dim] = slides.depth
        filters: Pieces = {1: 1} if taps is None else pieces[taps][at[taps]]
        total *= sum(
            n * m * part.occupied(points, reach)
            for points, n in pieces[image][at[image]].items()
            for reach, m in filters.items()
        )
    return total


def _count(pieces: Pieces) -> int:
    return sum(pieces.values())
