"""What a cache keeps of a nest of loops, and so what enters it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import gcd, prod
from typing import NamedTuple

from mopt_mlir.loop_nest import tile_loops
from mopt_mlir.model.conflicts import PAGE
from mopt_mlir.model.footprint import MemoryAxis, memory_axes
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem, Tensor

_Sizes = tuple[int, ...]


class Entering(NamedTuple):
    """Elements of each tensor that enter a cache while a block is computed, and whether the tensor
    stays: whether no loop of the block moves on in it, from one innermost block that is kept to the
    next. `fits` is whether these blocks fit, as tiles of a plan should."""

    elements: tuple[int, ...]
    stays: tuple[bool, ...]
    fits: bool


class CachedNest:
    """The loops of a plan around the tiles at `depth` (1 is the outermost level), and a cache of
    `capacity` bytes which each tensor enters in lines of `lines` bytes, or in elements if 0.

    Blocks of the nest are its parts inside some of the loops. The cache keeps what a block touches
    if all of that fits. Tiles at the edges are smaller, so that of the blocks inside one loop some
    may fit and others not. If the cache has `sets` that places in a page decide on, lines fit into
    those that they fall on.
    """

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        depth: int,
        capacity: int,
        lines: Sequence[int],
        *,
        sets: bool = False,
    ) -> None:
        self.names, self.tensors, self.capacity = problem.names, problem.tensors, capacity
        self.lines, self.sets = tuple(lines), sets
        self.whole = tuple(problem.extents[dim] for dim in problem.names)
        self.loops = [
            (self.names.index(dim), step) for dim, step in tile_loops(plan.levels[:depth])
        ]
        self.parts = [
            parts_in_lines(problem, tensor, line)
            for tensor, line in zip(problem.tensors, lines, strict=True)
        ]
        self.moves = [[dim in tensor.dims for tensor in problem.tensors] for dim in problem.names]
        apart = [{d for p in parts for d in (p.axis.image, p.axis.filter)} for parts in self.parts]
        self.moves_lines = [[dim in dims for dims in apart] for dim in problem.names]
        self._known: dict[tuple[int, _Sizes], Entering] = {}

    def entering(self) -> tuple[int, ...]:
        """Elements of each tensor that enter the cache in all."""
        return self._inside(0, self.whole).elements

    def _inside(self, at: int, sizes: _Sizes) -> Entering:
        """What the block of `sizes` brings in, inside all loops before that number."""
        while at < len(self.loops) and sizes[self.loops[at][0]] <= self.loops[at][1]:
            at += 1  # runs once
        if (at, sizes) not in self._known:
            self._known[at, sizes] = self._block(at, sizes)
        return self._known[at, sizes]

    def _block(self, at: int, sizes: _Sizes) -> Entering:
        touched = self._touched(sizes)
        filled = self._bytes(touched) <= self.capacity
        room = [not self._is_crowded_out(index, touched, sizes) for index in range(len(touched))]
        if (filled and all(room)) or at == len(self.loops):
            return Entering(touched, tuple(room), filled)
        dim, step = self.loops[at]
        steps, rest = divmod(sizes[dim], step)
        inside = self._inside(at + 1, _with(sizes, dim, step))
        last = self._inside(at + 1, _with(sizes, dim, rest)) if rest else None
        moved, stays = [], []
        for index, moves in enumerate(self.moves[dim]):
            moves = self.moves_lines[dim][index] if inside.fits else moves
            remains = inside.stays[index] and not moves
            if filled and room[index]:
                moved.append(touched[index])  # only others have too few sets
                remains = True
            elif remains:
                moved.append(inside.elements[index])
            elif inside.fits and inside.stays[index] and self._meets_again(index, at, sizes):
                moved.append(touched[index])  # what two steps share comes in once: halos, lines
            else:
                remainder = last.elements[index] if last else 0
                moved.append(steps * inside.elements[index] + remainder)
            stays.append(remains)
        return Entering(tuple(moved), tuple(stays), inside.fits)

    def _meets_again(self, index: int, at: int, sizes: _Sizes) -> bool:
        """Whether the cache still keeps what steps of a loop share in a tensor when they meet it
        again. Halos and lines are shared with the next step; but one with fewer rows than a
        filter's dilation shares rows only with a step further on, and so does one with fewer taps
        than the stride."""
        dim, step = self.loops[at]
        for part in self.parts[index]:
            apart = part.axis.apart(self.names[dim])
            if not part.line and step < apart < sizes[dim]:
                reach = _with(sizes, dim, apart)
                return self._bytes(self._touched(reach)) <= self.capacity
        return True

    def _touched(self, sizes: _Sizes) -> tuple[int, ...]:
        """Elements of each tensor's lines that a block touches."""
        return tuple(self._occupied(index, sizes) for index in range(len(self.tensors)))

    def _bytes(self, touched: Sequence[int]) -> int:
        """Bytes of these elements of each tensor."""
        return sum(n * t.element.size for n, t in zip(touched, self.tensors, strict=True))

    def _is_crowded_out(self, index: int, touched: Sequence[int], sizes: _Sizes) -> bool:
        """Whether there is room for all that a block touches, but not for the lines of a tensor on
        the sets that they fall on, of which the others take what they do of all sets."""
        if not self.sets:
            return False
        own = touched[index] * self.tensors[index].element.size
        more = (self._crowding(index, sizes) - 1) * own
        return self._bytes(touched) <= self.capacity < self._bytes(touched) + more

    def _crowding(self, index: int, sizes: _Sizes) -> float:
        """How many times as much as its lines in a block a tensor would be if it filled all sets
        like those that it falls on: more than once where the parts of rows in the block are as far
        apart as a part of a page, and shorter."""
        tensor, line = self.tensors[index], self.lines[index]
        steps = {dim: tensor.step(dim) for dim in tensor.dims}
        if not line or None in steps.values():
            return 1.0
        run, apart = tensor.element.size, []
        for dim in sorted(steps, key=lambda dim: abs(steps[dim] or 0)):
            step, points = abs(steps[dim] or 0) * tensor.element.size, sizes[self.names.index(dim)]
            if step <= max(run, line):
                run += step * (points - 1)
            elif points > 1:
                apart.append(step)
        return max(1.0, gcd(PAGE, *apart) / (-(-run // line) * line)) if apart else 1.0

    def _occupied(self, index: int, sizes: _Sizes) -> int:
        """Elements of a tensor's lines that a block touches."""

        def size(dim: str | None) -> int:
            return sizes[self.names.index(dim)] if dim else 1

        return prod(
            part.occupied(size(part.axis.image), size(part.axis.filter))
            for part in self.parts[index]
        )


def _with(sizes: _Sizes, dim: int, size: int) -> _Sizes:
    return (*sizes[:dim], size, *sizes[dim + 1 :])


@dataclass(frozen=True)
class _Rows(MemoryAxis):
    """An axis whose points are short rows of others, which fill it without gaps."""

    @property
    def whole(self) -> int:
        if not self.joined:
            return super().whole
        last = min(self.step, self.reach)
        return self.step * (self.points - 1) + self.reach * (self.taps - 1) + last


@lru_cache(maxsize=256)
def parts_in_lines(problem: Problem, tensor: Tensor, line_bytes: int) -> tuple[MemoryAxis, ...]:
    """As `memory_axes`, but without the dims along whose rows the lines of the next axis lie: those
    with rows shorter than a line, so that any point of them brings in what a whole row does."""
    parts = memory_axes(problem, tensor, line_bytes)
    line = line_bytes // tensor.element.size
    steps = {part: _steps(problem, tensor, part) for part in parts}
    known = [(min(apart), part) for part, apart in steps.items() if apart]
    if len(known) < sum(part.points * part.taps > 1 for part in parts):
        return parts
    ordered = sorted(known, key=lambda pair: pair[0])
    short = [part for (_, part), (step, _) in pairwise(ordered) if step <= line]
    if not short or ordered[: len(short)] != [(min(steps[part]), part) for part in short]:
        return parts
    (_, first), *rest = ordered[len(short) :]
    if any(part.axis.filter for part in short) or max(steps[first]) > line:
        return parts
    step, reach = steps[first][0], steps[first][-1]
    row = _Rows(first.axis, first.points, first.taps, line, step, reach)
    pitches = [apart for _, part in rest for apart in steps[part]]
    joined = not pitches or min(pitches) <= row.whole
    row = replace(row, grain=gcd(line, *pitches), joined=joined)
    return (row, *(replace(part, line=0) for _, part in rest))


def _steps(problem: Problem, tensor: Tensor, part: MemoryAxis) -> tuple[int, ...]:
    """Elements of memory from one image point of an axis to the next, and from one filter point, as
    far as it has several; nothing if that is not known."""
    dims = [dim for dim in (part.axis.image, part.axis.filter) if dim and problem.extent(dim) > 1]
    found = [abs(step) for dim in dims if (step := tensor.step(dim))]
    return tuple(found) if len(found) == len(dims) else ()
