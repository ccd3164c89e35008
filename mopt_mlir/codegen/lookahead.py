"""What the loops of a nest tell of what is accessed next, and whether asking for it pays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.prefetch_budget import (
    AHEAD_CYCLES,
    FMA_PER_CYCLE,
    LINE_BYTES,
    has_room,
    row_lines_at_once,
    weights_step_bytes,
)
from mopt_mlir.codegen.ranges import Range, Ranges, innermost, sizes_of
from mopt_mlir.codegen.upcoming import (
    MovingLoop,
    NextBlock,
    NextInput,
    NextOutput,
    NextWeights,
    Turn,
    Upcoming,
    VisitingLoop,
    behind,
)
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem, Role, Tensor

VAIN_COST = 0.4
"""What a useless prefetch costs, as a part of what a useful one saves. (Tried on sampled plans of
Table 1 and of validation's test set, on Zen 5.)"""


@dataclass(frozen=True)
class Foresight:
    """What prefetches of a tensor are good for: they come in time `cycles` ahead, and save a part
    of the waiting. `near` has these parts, each for at most so many bytes of the tensor that are
    accessed until then: what was asked for is in L1 still, in L2, or perhaps there."""

    cycles: int
    near: tuple[tuple[int, float], ...]


INPUT_FORESIGHT = Foresight(AHEAD_CYCLES, ((32 << 10, 1.0), (64 << 10, 0.8), (256 << 10, 0.5)))
OUTPUT_FORESIGHT = Foresight(350, ((8 << 10, 1.0), (32 << 10, 0.8), (256 << 10, 0.5)))
"""Stores wait in a buffer, if need be, but much else is read beside the output. (Both were tried on
sampled plans of Table 1, on Zen 5.)"""

OUTPUT_KEPT = OUTPUT_FORESIGHT.near[-1][0]
"""Bytes of output that a core's caches keep between the visits of a register tile, so that visits
share what they ask for only within that. (Measured on Zen 4, cold: a 1x1 layer that comes back to
11 MB takes 22% less time if each visit asks for its output.)"""


@dataclass(frozen=True)
class Lookahead:
    """Tells what the nest of `plan` for `problem` accesses next."""

    problem: Problem
    plan: Plan

    def next_block(self, ranges: Ranges, share: Ranges) -> NextBlock | None:
        """What is packed after the block that is used for `ranges`, if that is known and worth
        prefetching; `share` is what a core does."""
        channel = self.problem.out_channel
        channels = ranges[channel]
        reduction = self.plan.microkernel.reduction
        if not reduction:
            return None
        weights = [dim for dim in self.problem.names if dim in self.problem.weights.dims]
        moved = innermost(weights, ranges)
        if moved is None:
            return None
        tiles = self._uses(ranges)
        if prod(tiles.values()) == 1:
            return None
        if not self._is_worth_while(channels.size, max(tiles.values())):
            return None
        first, shift, wraps = channels.start + channels.size, 0, None
        if moved != channel:
            first, shift = channels.start, ranges[moved].size
            wraps = self._wraps(moved, channel, ranges)
        return NextBlock(
            first=first,
            count=channels.size,
            moved=None if moved == channel else moved,
            shift=shift,
            turns=self._turns(ranges, (*tiles, channel)),
            first_pass=self._first_pass(ranges, share),
            wraps=wraps,
        )

    def _turns(self, ranges: Ranges, dims: Iterable[str]) -> tuple[Turn, ...]:
        """The turns of the register tiles in `ranges` along `dims`, as far as there are several."""
        extents = {dim: self.plan.microkernel.extent(dim) for dim in dims}
        return tuple(
            Turn(dim, ranges[dim].start, unit, -(-ranges[dim].size // unit))
            for dim, unit in extents.items()
            if ranges[dim].size > unit
        )

    def _wraps(self, moved: str, channel: str, ranges: Ranges) -> tuple[Index, int] | None:
        """Where blocks along the reduction dim `moved` end, and the end of the last one of all that
        the loop around them, over the output channels, has for each of its steps."""
        others = [dim for dim in self.problem.weights.dims if dim != moved]
        around = max((ranges[dim].depth for dim in others), default=0)
        whole = ranges[moved].within == self.problem.extent(moved)
        if not whole or not around or ranges[channel].depth != around:
            return None
        size = ranges[moved].size
        return ranges[moved].start + size, -(-ranges[moved].within // size) * size

    def _is_worth_while(self, count: int, tiles: int) -> bool:
        """Whether the multiply-adds of a step leave room for prefetches of `count` channels, if
        `tiles` register tiles share them.

        These are those along one dim of the image, though more of them share the prefetches: plans
        that ask for their next block only if all count take 6% longer (of 18, up to 14%; Zen 5)."""
        kernel, weights = self.plan.microkernel, self.problem.weights
        channel = self.problem.out_channel
        if weights.runs_along(channel):  # each asks for whole rows of channels, of some steps
            lines = -(-count * weights.element.size // LINE_BYTES)
            return has_room(-(-lines // tiles), kernel, 1)
        inner, sizes = kernel.reduction[1:], self.plan.levels[-1].tile
        size = weights_step_bytes(self.problem, kernel.reduction[0])
        taps = prod(sizes[dim] for dim in inner)
        return has_room(row_lines_at_once(-(-count // tiles), size), kernel, taps)

    def _uses(self, ranges: Ranges) -> dict[str, int]:
        """The register tiles along each dim that read the same weights, in `ranges`."""
        return {
            dim: -(-ranges[dim].size // self.plan.microkernel.extent(dim))
            for dim in self.problem.pixel_dims
        }

    def _next_weights(self, loop: MovingLoop, ranges: Ranges, share: Ranges) -> NextWeights:
        """The weights that are read in the next step of `loop`, if one inside of it goes through
        `ranges` and reads the current ones again and again; `share` is what a core does."""
        tiles = self._uses(ranges)
        along = max(tiles, key=lambda dim: tiles[dim])
        unit = self.plan.microkernel.extent(along)
        near = next((v.tile for v in self.plan.levels if v.name == "L2"), {})
        return NextWeights(
            dim=loop.dim,
            step=loop.step,
            along=along,
            unit=unit,
            tiles=tiles[along],
            far=loop.step >= near.get(loop.dim, 1) or self._innermost_tiles_have_all_pixels,
            first_pass=self._first_pass(ranges, share),
            around=loop.around,
        )

    def _first_pass(self, ranges: Ranges, share: Ranges) -> tuple[Index, ...]:
        """What is 0 in the first pass through the weights: how far into its `share` of the pixels
        a core is, in tiles of `ranges`."""
        starts = (ranges[dim].start - share[dim].start for dim in self.problem.pixel_dims)
        return tuple(start for start in starts if start.terms)

    @property
    def _innermost_tiles_have_all_pixels(self) -> bool:
        """Whether no loop around the innermost tiles goes through pixels, or there are no tiles, so
        that all weights come from memory."""
        pixels, levels = self.problem.pixel_dims, self.plan.levels
        tile = levels[-1].tile if levels else self.problem.extents
        return bool(pixels) and all(tile[dim] >= self.problem.extent(dim) for dim in pixels)

    def inside(
        self, outer: Upcoming, dim: str, ranges: Ranges, share: Ranges, tile: Range
    ) -> Upcoming:
        """What is accessed next inside a loop over `dim`, which goes through `ranges`, at `tile`.
        `outer` was that outside of the loop; `share` is what a core does."""
        since = outer.since
        if dim in self.problem.reduction_dims and self._leaves(ranges):
            since = {**since, dim: tile.start}
        weights, weights_loop = outer.weights, outer.weights_loop
        if dim in self.problem.weights.dims:
            weights_loop = MovingLoop(dim, tile.size, behind(weights_loop, dim, ranges[dim]))
        elif weights_loop is not None:  # this loop reads the same ones again
            weights, weights_loop = self._next_weights(weights_loop, ranges, share), None
        return replace(
            outer,
            input=self._next_input(outer, dim, ranges, tile.size),
            pixel_loop=MovingLoop(dim, tile.size) if dim in self.problem.pixel_dims else None,
            output=self._next_output(outer.output, dim, ranges, tile.size),
            weights=weights,
            weights_loop=weights_loop,
            since=since,
        )

    def at_register_tile(self, outer: Upcoming, ranges: Ranges, share: Ranges) -> Upcoming:
        """`outer` at a register tile that reads weights in place: with those that come next even if
        no loop inside the one that moves in them reads them again."""
        if outer.weights_loop is None or not self.problem.pixel_dims:
            return outer
        return replace(outer, weights=self._next_weights(outer.weights_loop, ranges, share))

    def _leaves(self, ranges: Ranges) -> bool:
        """Whether the output in `ranges`, of which a core has its share, is too much to stay in the
        caches of the core."""
        share = {
            dim: min(range_.size, self.plan.core_tile(dim, self.problem.extent(dim)))
            for dim, range_ in ranges.items()
        }
        return _bytes(self.problem.output, share) > OUTPUT_KEPT

    def _next_input(self, outer: Upcoming, dim: str, ranges: Ranges, step: int) -> NextInput | None:
        """Of the loops that move in the input by more than taps, the one whose prefetches save the
        most tells it, the outermost of several."""
        known = outer.input
        if dim in self.problem.by_role(Role.FILTER):
            return known
        if dim in self.problem.input.dims:
            saves = self._saves(self.problem.input, INPUT_FORESIGHT, dim, ranges, step)
            if saves <= _saved(known):
                return known
            loop = outer.pixel_loop if dim in self.problem.reduction_dims else None
            return NextInput(dim, step, saves, around=behind(loop, dim, ranges[dim]))
        if known is None or known.along is not None:
            return known
        unit = self.plan.microkernel.extent(dim)
        tiles = -(-ranges[dim].size // unit)
        return replace(known, along=dim, unit=unit, tiles=tiles)

    def _next_output(
        self, outer: NextOutput | None, dim: str, ranges: Ranges, step: int
    ) -> NextOutput | None:
        """Of the loops that move in the output, the one whose prefetches save the most tells it;
        those over the reduction inside of it make visits."""
        if dim not in self.problem.parallel_dims:
            return outer and replace(outer, visits=_visits(outer.visits, dim, ranges[dim], step))
        saves = self._saves(self.problem.output, OUTPUT_FORESIGHT, dim, ranges, step)
        return NextOutput(dim, step, saves) if saves > _saved(outer) else outer

    def _saves(
        self, tensor: Tensor, foresight: Foresight, dim: str, ranges: Ranges, step: int
    ) -> float:
        """The part of the waiting for `tensor` that prefetches for the next step save, in a loop
        over `dim`, which goes through `ranges` in steps of `step`. What they ask for behind the
        last step is hardly ever used next, and takes time and room."""
        tile = {**sizes_of(ranges), dim: step}
        cycles = prod(tile.values()) / (self.plan.microkernel.vector * FMA_PER_CYCLE)
        size = _bytes(tensor, tile)
        kept = next((part for limit, part in foresight.near if size <= limit), 0.0)
        used = 1 - (1 + VAIN_COST) * step / ranges[dim].size
        return used * min(1.0, cycles / foresight.cycles) * kept


def _saved(outer: NextInput | NextOutput | None) -> float:
    return 0.0 if outer is None else outer.saves


def _visits(outer: VisitingLoop | None, dim: str, through: Range, step: int) -> VisitingLoop:
    """The visits inside a loop over the reduction `dim`, which goes `through` it in steps of
    `step`. `outer` were those outside of the loop; of several dims the one with most visits
    counts."""
    if outer is not None and outer.dim == dim:
        return replace(outer, step=step)
    inner = VisitingLoop(dim, through, step)
    return outer if outer is not None and outer.count >= inner.count else inner


def _bytes(tensor: Tensor, sizes: Mapping[str, int]) -> int:
    """Bytes of the box in `tensor` that a tile of `sizes` accesses."""
    return tensor.element.size * prod(1 + axis.reach(sizes) for axis in tensor.axes)
