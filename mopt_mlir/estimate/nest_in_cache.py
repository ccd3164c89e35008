"""What a cache keeps of a nest of loops, and so what enters it."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from mopt_mlir.estimate.lines import parts_in_lines
from mopt_mlir.loop_nest import tile_loops
from mopt_mlir.model.conflicts import PAGE
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem

_Sizes = tuple[int, ...]


class BlockTraffic(NamedTuple):
    """Elements of each tensor that enter a cache while a block is computed, and whether the tensor
    stays: whether no loop of the block moves on in it, from one innermost block that is kept to the
    next. `fits` is whether these blocks fit, as tiles of a plan should."""

    elements: tuple[int, ...]
    stays: tuple[bool, ...]
    fits: bool


class NestInCache:
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
        self._known: dict[tuple[int, _Sizes], BlockTraffic] = {}

    def entering(self) -> tuple[int, ...]:
        """Elements of each tensor that enter the cache in all."""
        return self._inside(0, self.whole).elements

    def _inside(self, at: int, sizes: _Sizes) -> BlockTraffic:
        """What the block of `sizes` brings in, inside all loops before that number."""
        while at < len(self.loops) and sizes[self.loops[at][0]] <= self.loops[at][1]:
            at += 1  # runs once
        if (at, sizes) not in self._known:
            self._known[at, sizes] = self._of_block(at, sizes)
        return self._known[at, sizes]

    def _of_block(self, at: int, sizes: _Sizes) -> BlockTraffic:
        """What a block of `sizes` brings in, inside all loops before that number: what it touches,
        once, if that fits; else what the steps of its outermost loop bring in."""
        touched = self._touched(sizes)
        fits = self._bytes(touched) <= self.capacity
        room = [not self._is_crowded_out(index, touched, sizes) for index in range(len(touched))]
        if (fits and all(room)) or at == len(self.loops):
            return BlockTraffic(touched, tuple(room), fits)
        dim, step = self.loops[at]
        steps, rest = divmod(sizes[dim], step)
        inside = self._inside(at + 1, _with(sizes, dim, step))
        last = self._inside(at + 1, _with(sizes, dim, rest)) if rest else None
        moves = self.moves_lines[dim] if inside.fits else self.moves[dim]
        elements, stays = [], []
        for index, stayed in enumerate(inside.stays):
            kept = fits and room[index]  # only others have too few sets
            reused = stayed and not moves[index]
            if kept:
                elements.append(touched[index])
            elif reused:
                elements.append(inside.elements[index])
            elif inside.fits and stayed and self._meets_again(index, at, sizes):
                elements.append(touched[index])  # what two steps share comes in once: halos, lines
            else:
                remainder = last.elements[index] if last else 0
                elements.append(steps * inside.elements[index] + remainder)
            stays.append(kept or reused)
        return BlockTraffic(tuple(elements), tuple(stays), inside.fits)

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
        pitches = {dim: tensor.pitch(dim) for dim in tensor.dims}
        if not line or None in pitches.values():
            return 1.0
        run, apart = tensor.element.size, []
        for dim in sorted(pitches, key=lambda dim: abs(pitches[dim] or 0)):
            pitch = abs(pitches[dim] or 0) * tensor.element.size
            points = sizes[self.names.index(dim)]
            if pitch <= max(run, line):
                run += pitch * (points - 1)
            elif points > 1:
                apart.append(pitch)
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
