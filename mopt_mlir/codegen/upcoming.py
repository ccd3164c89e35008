"""What a loop nest accesses next, for prefetches, as far as its loops tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.plan import Microkernel, Plan
from mopt_mlir.problem import LinearForm, Problem, Role, Tensor

Ranges = Mapping[str, Range]

LINE_BYTES = 64

MOST_PREFETCHES = 1 / 4
"""Of weights per multiply-add: where those that are used next need more, it is not worth while."""

NEAR_BYTES = 32 << 10
"""Input that is read between two steps of a loop, at most, to prefetch it a step earlier: most of
it is still in L1 then."""

NEAR_OUTPUT_BYTES = 8 << 10
"""Output that is written between two steps of a loop, at most, to prefetch it a step earlier: what
is asked for too early has left L1 again."""


@dataclass(frozen=True)
class NextBlock:
    """The block of weights that is packed next: `count` output channels from `first` on, `shift`
    further along the reduction's outermost dim.

    Where `wraps` is `(end, length)` and `end` has reached `length`, it is the first block of the
    `count` channels after these: `length` less along that dim.

    Register tiles step along `dim` from `start` in steps of `unit`, `tiles` times per block: each
    of them can prefetch a part of the block.
    """

    first: Index
    count: int
    shift: int
    dim: str
    start: Index
    unit: int
    tiles: int
    wraps: tuple[Index, int] | None = None

    @property
    def rows(self) -> int:
        """What each register tile asks for."""
        return -(-self.count // self.tiles)


@dataclass(frozen=True)
class NextWeights:
    """The weights that are read after the current ones: `step` further along `dim`.

    Until then register tiles step along `along` in steps of `unit`, `tiles` times: each of them can
    prefetch a part. `far` says that they are not part of the same tile of L2.
    """

    dim: str
    step: int
    along: str
    unit: int
    tiles: int
    far: bool


@dataclass(frozen=True)
class NextInput:
    """The input that is read after the current one: `step` further along `dim`.

    Until then register tiles step along the output channels `channel`, if there are several, in
    steps of `unit`, `tiles` times: each of them can prefetch a part.
    """

    dim: str
    step: int
    channel: str | None = None
    unit: int = 1
    tiles: int = 1


@dataclass(frozen=True)
class Upcoming:
    """What is accessed after the current register tile or a few of them: the input, and how much
    further on along which dim the output is, as far as they are known."""

    input: NextInput | None = None
    output: tuple[str, int] | None = None


@dataclass(frozen=True)
class Lookahead:
    """Tells what the nest of `plan` for `problem` accesses next."""

    problem: Problem
    plan: Plan

    def block(self, channels: Range, ranges: Ranges) -> NextBlock | None:
        """What is packed after the block of output `channels`, if that is known and worth
        prefetching; `ranges` is what the block is used for."""
        (channel,) = self.problem.by_role(Role.OUT_CHANNEL)
        reduction = self.plan.microkernel.reduction
        if not reduction:
            return None
        weights = [dim for dim in self.problem.names if dim in self.problem.weights.dims]
        moved = max(weights, key=lambda dim: ranges[dim].depth)
        if moved not in (channel, reduction[0]) or not ranges[moved].depth:
            return None
        tiles = self._uses(ranges)
        if prod(tiles.values()) == 1:
            return None
        dim = max(tiles, key=lambda dim: tiles[dim])
        start, unit = ranges[dim].start, self.plan.microkernel.extent(dim)
        first, shift, wraps = channels.start + channels.size, 0, None
        if moved != channel:
            first, shift = channels.start, ranges[moved].size
            wraps = self._wraps(moved, channel, ranges)
        found = NextBlock(first, channels.size, shift, dim, start, unit, tiles[dim], wraps)
        return found if self._is_worth_while(found) else None

    def _wraps(self, moved: str, channel: str, ranges: Ranges) -> tuple[Index, int] | None:
        """Where blocks along the reduction dim `moved` end, and the end of the last one of all that
        the loop around them, over the output channels, has for each of its steps."""
        others = [dim for dim in self.problem.weights.dims if dim != moved]
        around = max(ranges[dim].depth for dim in others)
        whole = ranges[moved].within == self.problem.extent(moved)
        if not whole or not around or ranges[channel].depth != around:
            return None
        size = ranges[moved].size
        return ranges[moved].start + size, -(-ranges[moved].within // size) * size

    def _is_worth_while(self, upcoming: NextBlock) -> bool:
        """Whether the multiply-adds of a step leave room for its part of the prefetches."""
        kernel, weights = self.plan.microkernel, self.problem.weights
        inner, sizes = kernel.reduction[1:], self.plan.levels[-1].tile
        size = (weights.step(kernel.reduction[0]) or 1) * weights.element.size
        taps = prod(sizes[dim] for dim in inner)
        return has_room(rows_at_once(upcoming.rows, size), kernel, taps)

    def _uses(self, ranges: Ranges) -> dict[str, int]:
        """The register tiles along each dim that read the same weights, in `ranges`."""
        return {
            dim: -(-ranges[dim].size // self.plan.microkernel.extent(dim))
            for dim in self.problem.parallel_dims
            if dim in self.problem.input.dims
        }

    def weights(self, dim: str, step: int, ranges: Ranges) -> NextWeights:
        """The weights that are read next, `step` further along `dim`, in a loop through `ranges`
        that reads the current ones again and again."""
        tiles = self._uses(ranges)
        along = max(tiles, key=lambda dim: tiles[dim])
        unit = self.plan.microkernel.extent(along)
        near = next((v.tile for v in self.plan.levels if v.name == "L2"), {})
        return NextWeights(dim, step, along, unit, tiles[along], step >= near.get(dim, 1))

    def inside(self, outer: Upcoming, dim: str, ranges: Ranges, step: int) -> Upcoming:
        """What is accessed next inside a loop over `dim`, which goes through `ranges` in steps of
        `step`. `outer` was that outside of the loop."""
        return Upcoming(
            self._next_input(outer.input, dim, ranges, step),
            self._next_output(outer.output, dim, ranges, step),
        )

    def _next_input(
        self, outer: NextInput | None, dim: str, ranges: Ranges, step: int
    ) -> NextInput | None:
        """One of the loops that move in the input by more than taps tells it: the outermost of
        which a step reads at most NEAR_BYTES, or else the innermost."""
        if dim in self.problem.by_role(Role.FILTER):
            return outer
        if dim in self.problem.input.dims:
            near = _bytes(self.problem.input, ranges) <= NEAR_BYTES
            return outer if outer and near else NextInput(dim, step)
        if outer is None or outer.channel is not None:
            return outer
        unit = self.plan.microkernel.extent(dim)
        tiles = -(-ranges[dim].size // unit)
        return replace(outer, channel=dim, unit=unit, tiles=tiles)

    def _next_output(
        self, outer: tuple[str, int] | None, dim: str, ranges: Ranges, step: int
    ) -> tuple[str, int] | None:
        """The outermost of the loops that move in the output of which a step writes at most
        NEAR_OUTPUT_BYTES tells it, or else the innermost."""
        if dim not in self.problem.parallel_dims:
            return outer
        near = _bytes(self.problem.output, ranges) <= NEAR_OUTPUT_BYTES
        return outer if outer and near else (dim, step)


def has_room(prefetches: int, kernel: Microkernel, taps: int) -> bool:
    """Whether the multiply-adds of so many taps leave room for the prefetches beside them."""
    registers = prod(kernel.tile.values()) // kernel.vector
    return prefetches <= MOST_PREFETCHES * registers * taps


def rows_at_once(rows: int, size: int) -> int:
    """Of so many rows of weights, of `size` bytes per step, that a register tile asks for, those
    that it asks for in each step."""
    return min(rows, max(1, rows * size // (LINE_BYTES // 2)))


def _bytes(tensor: Tensor, ranges: Ranges) -> int:
    """Bytes of the box in `tensor` that the tile `ranges` accesses."""
    sizes = {dim: range_.size for dim, range_ in ranges.items()}
    return tensor.element.size * prod(1 + reach(axis, sizes) for axis in tensor.axes)


def reach(axis: LinearForm, sizes: Mapping[str, int]) -> int:
    """From the first to the last index along an axis that a tile reads."""
    return sum(coefficient * (sizes.get(dim, 1) - 1) for dim, coefficient in axis.terms)
