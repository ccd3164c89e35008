"""What caches keep of a plan beyond the tiles of their levels.

`cost` counts what is reused between one tile and the next, which is all that there is if tiles fill
their caches, as those of a good plan do. A larger cache keeps more: the largest block of the nest
that fits, the tile together with what the innermost loops around it step through. A plan whose
tiles are small for their caches then moves what one with larger tiles would, so that this does not
change what is the best; but it is what such a plan really moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import gcd, prod

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.conflicts import crowded_lines
from mopt_mlir.model.cost import (
    FILLED_FROM,
    OUTPUT_PASSES,
    TENSORS,
    line_bytes,
)
from mopt_mlir.model.footprint import MemoryAxis, memory_axes
from mopt_mlir.model.microkernel import broadcast
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
    pieces = {dim: pieces_of(problem, plan, dim) for dim in problem.names}
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
    name, evicted = _evicted(problem, machine, plan)
    found["L2"][name] += evicted
    return found


def _evicted(problem: Problem, machine: Machine, plan: Plan) -> tuple[str, float]:
    """Bytes of the operand that is read in scalars, and its name, that come from L2 once more in
    each step of a microkernel, since lines of the same register tile have evicted them."""
    kernel, cache = plan.microkernel, machine.cache("L1")
    tensor = broadcast(problem, kernel)
    rows = {dim: size for dim, size in kernel.tile.items() if dim in tensor.dims}
    steps = prod(problem.extent(dim) for dim in problem.reduction_dims)
    tiles = prod(-(-problem.extent(d) // kernel.extent(d)) for d in problem.parallel_dims)
    lines = crowded_lines(tensor, rows, cache)
    return TENSORS[problem.tensors.index(tensor)], float(lines * cache.line * steps * tiles)


def pieces_of(problem: Problem, plan: Plan, dim: str) -> tuple[Pieces, ...]:
    """The sizes of the tiles along a dim: of the problem, and of each level, outermost first."""
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
    """The largest block around the tiles at `depth` that fits into the cache of their level: all of
    it, where the solver leaves room for what the model does not see."""
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
            tensor.element.size * _occupied(problem, tensor, wider, line)
            for tensor, line in zip(tensors, lines, strict=True)
        )
        if filled > machine.cache(level).size:
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
    parts, shared = _parts(problem, tensor, line)
    for dim in shared:
        total *= _count(pieces[dim][block.depths[dim]])
    for part in parts:
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


def _occupied(problem: Problem, tensor: Tensor, tile: Mapping[str, int], line: int) -> int:
    """As `footprint.occupied`, but where rows are so short that several share a line."""
    parts, _ = _parts(problem, tensor, line)
    return prod(
        part.occupied(tile[part.axis.image], tile[part.axis.filter] if part.axis.filter else 1)
        for part in parts
    )


@lru_cache(maxsize=256)
def _parts(
    problem: Problem, tensor: Tensor, line_bytes: int
) -> tuple[tuple[MemoryAxis, ...], frozenset[str]]:
    """As `memory_axes`, and the dims along whose rows the lines of the next axis lie: those whose
    rows are shorter than a line, so that any point of them brings in what a whole row does."""
    parts = memory_axes(problem, tensor, line_bytes)
    line = line_bytes // tensor.element.size
    steps = {part: tensor.step(part.axis.image) for part in parts}
    known = [(step, part) for part, step in steps.items() if step and part.points > 1]
    if any(part.axis.filter for part in parts) or len(known) < len(parts):
        return parts, frozenset()
    ordered = sorted(known, key=lambda pair: pair[0])
    short = [part for (_, part), (step, _) in pairwise(ordered) if step <= line]
    if not short or ordered[: len(short)] != [(steps[part], part) for part in short]:
        return parts, frozenset()
    (step, first), *rest = ordered[len(short) :]
    joined = not rest or rest[0][0] == first.points * step
    pitches = [pitch for pitch, _ in rest]
    row = MemoryAxis(first.axis, first.points, 1, line, step, step, gcd(line, *pitches), joined)
    plain = (replace(part, line=0) for _, part in rest)
    return (row, *plain), frozenset(part.axis.image for part in short)


def _count(pieces: Pieces) -> int:
    return sum(pieces.values())
