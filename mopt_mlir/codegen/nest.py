"""The loop nest of a plan: a band of affine loops per level around the microkernel.

From outside to inside: L3 tiles, the split between cores, L2 tiles, L1 tiles, register tiles (in
the order of the problem's dims), and the microkernel's reduction. A loop that would run once is
left out. Packed weights are filled as soon as all loops of their level that move the block are
open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from mopt_mlir.buffers import ALIGNMENT, SCRATCH
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.lookahead import Lookahead
from mopt_mlir.codegen.microkernel import emit_microkernel
from mopt_mlir.codegen.operands import Operands, Panels
from mopt_mlir.codegen.packing import emit_packing, panel_shape
from mopt_mlir.codegen.partials import Partials, partials_size
from mopt_mlir.codegen.place import Place, Ranges
from mopt_mlir.codegen.ranges import Range, sizes_of
from mopt_mlir.codegen.upcoming import Around, NextBlock, Stepped, Upcoming
from mopt_mlir.plan import Level, Plan, keeps_sums_in_output
from mopt_mlir.problem import Problem, Role


@dataclass(frozen=True)
class Nest:
    """Emits the loops of `plan` for `problem`; `constant_panels` are weights packed beforehand."""

    builder: Builder
    problem: Problem
    plan: Plan
    operands: Operands
    constant_panels: Any = None

    def emit(self) -> None:
        """The whole nest at the current insertion point.

        Nontemporal stores need an aligned output, which only a run can tell: there are two nests.
        """
        if not self.plan.nontemporal:
            self._emit()
            return
        output = self.operands.output
        size = self.plan.microkernel.vector * self.problem.output.element.size
        streaming = replace(self, operands=replace(self.operands, nontemporal=True))
        self.builder.either(self.builder.aligned(output, size), streaming._emit, self._emit)

    def _emit(self) -> None:
        ranges = {dim.name: Range.whole(dim.extent) for dim in self.problem.dims}
        place = Place(ranges, ranges, Upcoming.of(self.plan))
        if self.constant_panels is not None:
            place = replace(place, panels=self._panels(self.constant_panels, place.ranges))
        elif self.plan.packing == "whole":
            scratch = self._allocate(self.problem.extents)
            panels = self._pack(scratch, place.ranges, self._ways)
            place = replace(place, panels=panels, scratch=scratch)
        elif self._shares_panels:
            place = replace(place, scratch=self._allocate(self._level(self.plan.packing).tile))
        split = self._split_reduction(self.plan.levels[:1], self.problem.extents)
        if split is not None:
            place = replace(place, sums=self._allocate_sums(split))
        if self.plan.levels:
            self._level_loops(0, self.plan.levels[0].order, place)
        else:
            self._cores(place)
        self._free(place.sums, place.scratch)

    # ---- packed weights ----------------------------------------------------------------------

    @cached_property
    def _channel(self) -> str:
        (channel,) = self.problem.by_role(Role.OUT_CHANNEL)
        return channel

    @cached_property
    def _lookahead(self) -> Lookahead:
        return Lookahead(self.problem, self.plan)

    @cached_property
    def _ways(self) -> int:
        return prod(self.plan.parallel.values())

    @property
    def _shares_panels(self) -> bool:
        """Whether the packed block belongs to a level outside the split between cores."""
        packing = self.plan.packing
        outermost = bool(self.plan.levels) and packing == self.plan.levels[0].name
        return outermost or (self._ways == 1 and packing != "none")

    def _level(self, name: str) -> Level:
        return next(level for level in self.plan.levels if level.name == name)

    def _allocate(self, sizes: Mapping[str, int]) -> Any:
        return self._scratch("panels", panel_shape(self.problem, self.plan.microkernel, sizes))

    def _allocate_sums(self, sizes: Mapping[str, int]) -> Any:
        size = partials_size(self.problem, self.plan.microkernel, sizes)
        return self._scratch("sums", [size])

    def _scratch(self, name: str, shape: Sequence[int]) -> Any:
        builder, ir = self.builder, self.builder.ir
        type_ = ir.MemRefType.get(shape, self.operands.output.type.element_type)
        with builder.named(name):
            allocation = builder.bindings.memref.AllocOp(type_, [], [], alignment=ALIGNMENT)
        allocation.attributes[SCRATCH] = ir.UnitAttr.get()
        return allocation.memref

    def _free(self, *scratch: Any) -> None:
        for memref in scratch:
            if memref is not None:
                self.builder.bindings.memref.DeallocOp(memref, loc=self.builder.location)

    def _panels(self, memref: Any, ranges: Ranges) -> Panels:
        starts = {dim: range_.start for dim, range_ in ranges.items()}
        kernel = self.plan.microkernel
        width = kernel.extent(self._channel)
        return Panels(memref, width, self._channel, kernel.reduction, starts)

    def _pack(
        self, memref: Any, ranges: Ranges, ways: int = 1, upcoming: NextBlock | None = None
    ) -> Panels:
        panels = replace(self._panels(memref, ranges), upcoming=upcoming)
        kernel = self.plan.microkernel
        emit_packing(
            self.builder, self.problem, kernel, self.operands.weights, panels, ranges, ways
        )
        return panels

    def _pack_block(self, depth: int, place: Place) -> Place:
        """Pack what level number `depth` covers of the weights."""
        tile = self.plan.levels[depth].tile
        block = {
            dim: range_
            if tile[dim] >= range_.size
            else range_.tile(range_.start, tile[dim], range_.depth)
            for dim, range_ in place.ranges.items()
        }
        upcoming = self._lookahead.block(block[self._channel], place.ranges, place.share)
        panels = self._pack(place.scratch, block, self._ways if depth == 0 else 1, upcoming)
        return replace(place, panels=panels, stepped=None, following=None)

    def _inside(self, place: Place, dim: str, tile: Range) -> Place:
        """`place` in a loop over `dim`, at `tile`."""
        upcoming = self._lookahead.inside(place.upcoming, dim, place.ranges, tile)
        inner = replace(place.at(dim, tile), upcoming=upcoming)
        if dim in self.problem.reduction_dims and place.sums is not None and place.partials is None:
            kernel = self.plan.microkernel
            partials = Partials.of(self.problem, kernel, place.sums, place.ranges)
            inner = replace(inner, partials=partials)
        return self._with_following(inner, dim, place.ranges)

    def _with_following(self, inner: Place, dim: str, outer: Ranges) -> Place:
        """`inner`, in a loop over `dim`, with the weights that are read next: the innermost loop in
        them tells it around one that reads them again."""
        if dim in self.problem.weights.dims:
            stepped = Stepped(dim, inner.ranges[dim].size, self._around(inner, dim, outer[dim]))
            return replace(inner, stepped=stepped)
        if inner.stepped is None:
            return inner
        following = self._lookahead.weights(inner.stepped, outer, inner.share)
        return replace(inner, following=following, stepped=None)

    def _around(self, place: Place, dim: str, range_: Range) -> Around | None:
        """What comes behind the last step of a loop over `dim`, through `range_`, that is opened at
        `place`: if it is directly inside of another."""
        outer = place.stepped
        if outer is None or outer.dim == dim:  # or it goes on as before
            return None
        return Around(outer.dim, outer.step, range_.start, range_.size)

    def _reading_once(self, place: Place) -> Place:
        """The `place` of a register tile, with the weights that are read next if they stay where
        they are, and no loop inside the one that moves in them reads them again."""
        packed = place.panels is not None
        if packed or place.stepped is None or not self._lookahead.reads_weights_again:
            return place
        following = self._lookahead.weights(place.stepped, place.ranges, place.share)
        return replace(place, following=following)

    # ---- bands of loops ----------------------------------------------------------------------

    def _level_loops(self, depth: int, dims: Sequence[str], place: Place) -> None:
        """The loops of level number `depth` over `dims`, outermost first, and what is inside."""
        level = self.plan.levels[depth]
        moving = [dim for dim in dims if level.tile[dim] < place.ranges[dim].size]
        packs = level.name == self.plan.packing and place.panels is None
        if packs and not self.problem.weights.dims.intersection(moving):
            place, packs = self._pack_block(depth, place), False
        sizes = sizes_of(place.ranges)
        if not moving or (not packs and self._streams(level, moving, sizes)):
            self._cores(place) if depth == 0 else self._next_level(depth + 1, place)
            return
        dim, rest = moving[0], moving[1:]
        range_, size = place.ranges[dim], level.tile[dim]
        name = f"{dim}_{level.name}"
        with self.builder.loop(name, range_.start, range_.ends, size) as (index, *_):
            tile = range_.tile(index, size, place.deeper)
            self._level_loops(depth, rest, self._inside(place, dim, tile))

    def _next_level(self, depth: int, place: Place) -> None:
        """Level number `depth`, or the register tiles if there is no such level."""
        if depth < len(self.plan.levels):
            self._level_loops(depth, self.plan.levels[depth].order, place)
        else:
            self._register_tiles(self.problem.parallel_dims, place)

    def _streams(self, level: Level, moving: Sequence[str], sizes: Mapping[str, int]) -> bool:
        """Whether the loops that are left only step through the reduction of one register tile.

        Then the microkernel runs through all of it, and the accumulators never leave the registers.
        """
        return (
            level is self.plan.levels[-1]
            and all(dim in self.problem.reduction_dims for dim in moving)
            and all(
                sizes[dim] <= self.plan.microkernel.extent(dim)
                for dim in self.problem.parallel_dims
            )
        )

    def _split_reduction(
        self, levels: Sequence[Level], outer: Mapping[str, int]
    ) -> dict[str, int] | None:
        """What the outermost loop of `levels` that splits the reduction, inside a tile of `outer`,
        covers of each dim, if there is one and partial sums are not best kept in the output."""
        sizes, kernel = dict(outer), self.plan.microkernel
        if keeps_sums_in_output(self.problem, kernel):
            return None
        for level in levels:
            packs = level.name == self.plan.packing and self.constant_panels is None
            for i, dim in enumerate(level.order):
                moving = [d for d in level.order[i:] if level.tile[d] < sizes[d]]
                packs = packs and not self.problem.weights.dims.isdisjoint(moving)
                if not moving or (not packs and self._streams(level, moving, sizes)):
                    break
                if dim in moving and dim in self.problem.reduction_dims:
                    return sizes
                sizes[dim] = min(sizes[dim], level.tile[dim])
        return None

    def _cores(self, place: Place) -> None:
        """The split of the outermost tile between cores."""
        ranges = place.ranges
        shares = {
            dim: self.plan.core_tile(dim, self.problem.extent(dim))
            for dim, ways in self.plan.parallel.items()
            if ways > 1
        }
        split = [dim for dim in ranges if dim in shares and shares[dim] < ranges[dim].size]
        if not split:
            self._share(place)
            return
        with self.builder.parallel(
            [f"{dim}_core" for dim in split],
            [ranges[dim].start for dim in split],
            [ranges[dim].ends for dim in split],
            [shares[dim] for dim in split],
        ) as indices:
            depth = place.deeper
            for dim, index in zip(split, indices, strict=True):
                part = ranges[dim].tile(index, shares[dim], depth)
                place = replace(place.at(dim, part), share={**place.share, dim: part})
            self._share(place)

    def _share(self, place: Place) -> None:
        """One core's share; it owns the packed block if that is of an inner level."""
        sizes = sizes_of(place.ranges)
        scratch = sums = None
        if place.panels is None and place.scratch is None and self.plan.packing != "none":
            tile = self._level(self.plan.packing).tile
            scratch = self._allocate({dim: min(tile[dim], size) for dim, size in sizes.items()})
            place = replace(place, scratch=scratch)
        split = self._split_reduction(self.plan.levels[1:], sizes)
        if split is not None and place.sums is None:
            sums = self._allocate_sums(split)
            place = replace(place, sums=sums)
        self._next_level(1, place)
        self._free(sums, scratch)
        if self.operands.nontemporal:
            self.builder.fence()

    # ---- register tiles ----------------------------------------------------------------------

    def _register_tiles(self, dims: Sequence[str], place: Place) -> None:
        if not dims:
            self._edges(self.problem.parallel_dims, self._reading_once(place), {})
            return
        dim, range_ = dims[0], place.ranges[dims[0]]
        unit = self.plan.microkernel.extent(dim)
        if unit >= range_.size:
            self._register_tiles(dims[1:], place)
            return
        with self.builder.loop(dim, range_.start, range_.ends, unit) as (index, *_):
            tile = range_.tile(index, unit, place.deeper)
            self._register_tiles(dims[1:], self._inside(place, dim, tile))

    def _edges(self, dims: Sequence[str], place: Place, sizes: Mapping[str, int]) -> None:
        """Whole register tiles, and specialised ones where the last of a dim is cut short."""
        if not dims:
            kernel = self.plan.microkernel
            emit_microkernel(self.builder, self.problem, kernel, self.operands, place, sizes)
            return
        dim, rest = dims[0], dims[1:]
        unit, extent = self.plan.microkernel.extent(dim), self.problem.extent(dim)
        start = place.ranges[dim].start

        def emit(size: int) -> None:
            self._edges(rest, place, {**sizes, dim: size})

        if extent % unit == 0:
            emit(unit)
        elif start.terms:
            room = Index(constant=extent - unit) - start
            self.builder.branch([(room, False)], lambda: emit(unit), lambda: emit(extent % unit))
        else:
            emit(min(unit, extent - start.constant))
