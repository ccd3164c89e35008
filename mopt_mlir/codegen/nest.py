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

from mopt_mlir.codegen.builder import Builder, Index
from mopt_mlir.codegen.microkernel import emit_microkernel
from mopt_mlir.codegen.operands import NextBlock, Operands, Panels
from mopt_mlir.codegen.packing import SCRATCH_ALIGNMENT, emit_packing, panel_shape
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.plan import Level, Plan
from mopt_mlir.problem import Problem, Role

Ranges = Mapping[str, Range]

MOST_TILES_TO_PREFETCH = 16
"""With more register tiles to a block of weights, packing is a small part of the time, and waiting
for its weights a part of that."""

SCRATCH = "mopt.scratch"
"""Marks the allocation of packed weights, which a later stage may keep from call to call."""


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
        ranges: Ranges = {dim.name: Range.whole(dim.extent) for dim in self.problem.dims}
        panels, scratch = None, None
        if self.constant_panels is not None:
            panels = self._panels(self.constant_panels, ranges)
        elif self.plan.packing == "whole":
            scratch = self._allocate(self.problem.extents)
            panels = self._pack(scratch, ranges, self._ways)
        elif self._shares_panels:
            scratch = self._allocate(self._level(self.plan.packing).tile)
        self._band(0, ranges, panels, scratch)
        if scratch is not None:
            self._free(scratch)

    # ---- packed weights ----------------------------------------------------------------------

    @cached_property
    def _channel(self) -> str:
        (channel,) = self.problem.by_role(Role.OUT_CHANNEL)
        return channel

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
        builder, ir = self.builder, self.builder.ir
        shape = panel_shape(self.problem, self.plan.microkernel, sizes)
        type_ = ir.MemRefType.get(shape, self.operands.weights.type.element_type)
        with builder.named("panels"):
            allocation = builder.bindings.memref.AllocOp(type_, [], [], alignment=SCRATCH_ALIGNMENT)
        allocation.attributes[SCRATCH] = ir.UnitAttr.get()
        return allocation.memref

    def _free(self, scratch: Any) -> None:
        self.builder.bindings.memref.DeallocOp(scratch, loc=self.builder.location)

    def _panels(self, memref: Any, ranges: Ranges) -> Panels:
        starts = {dim: range_.start for dim, range_ in ranges.items()}
        kernel = self.plan.microkernel
        width = kernel.extent(self._channel)
        return Panels(memref, width, self._channel, kernel.reduction, starts)

    def _pack(self, memref: Any, ranges: Ranges, ways: int = 1) -> Panels:
        panels = self._panels(memref, ranges)
        kernel = self.plan.microkernel
        emit_packing(
            self.builder, self.problem, kernel, self.operands.weights, panels, ranges, ways
        )
        return panels

    # ---- bands of loops ----------------------------------------------------------------------

    def _band(self, depth: int, ranges: Ranges, panels: Panels | None, scratch: Any) -> None:
        """The loops of level number `depth` and everything inside them."""
        if depth == min(1, len(self.plan.levels)):
            self._parallel(ranges, panels, scratch)
        elif depth < len(self.plan.levels):
            level = self.plan.levels[depth]
            self._loops(level, level.order, ranges, panels, scratch, depth)
        else:
            self._register_tiles(self.problem.parallel_dims, ranges, panels)

    def _loops(
        self,
        level: Level,
        dims: Sequence[str],
        ranges: Ranges,
        panels: Panels | None,
        scratch: Any,
        depth: int,
    ) -> None:
        packs = level.name == self.plan.packing and panels is None
        moving = {
            dim
            for dim in dims
            if dim in self.problem.weights.dims and level.tile[dim] < ranges[dim].size
        }
        if packs and not moving:
            inner = {dim: self._narrow(level, dim, range_) for dim, range_ in ranges.items()}
            panels, packs = self._pack(scratch, inner, self._ways if depth == 0 else 1), False
            panels = replace(panels, upcoming=self._next_block(inner[self._channel], ranges))
        if not dims or (not packs and self._streams(level, dims, ranges)):
            self._band(depth + 1, ranges, panels, scratch)
            return
        dim, rest = dims[0], dims[1:]
        range_, size = ranges[dim], level.tile[dim]
        if size >= range_.size:
            self._loops(level, rest, ranges, panels, scratch, depth)
            return
        name = f"{dim}_{level.name}"
        with self.builder.loop(name, range_.start, range_.ends, size) as (index, *_):
            inner = {**ranges, dim: range_.tile(index, size, _deeper(ranges))}
            self._loops(level, rest, inner, panels, scratch, depth)

    def _next_block(self, channels: Range, ranges: Ranges) -> NextBlock | None:
        """What is packed after the block of output `channels`, if it is other channels and worth
        prefetching; `ranges` is what the block is used for."""
        depths = [ranges[dim].depth for dim in self.problem.weights.dims]
        if not channels.depth or channels.depth < max(depths):
            return None
        kernel = self.plan.microkernel
        tiles = {
            dim: -(-ranges[dim].size // kernel.extent(dim))
            for dim in self.problem.parallel_dims
            if dim in self.problem.input.dims
        }
        if not 1 < prod(tiles.values()) <= MOST_TILES_TO_PREFETCH:
            return None
        dim = max(tiles, key=lambda dim: tiles[dim])
        start, unit = ranges[dim].start, kernel.extent(dim)
        first = channels.start + channels.size
        return NextBlock(first, channels.size, dim, start, unit, tiles[dim])

    def _streams(self, level: Level, dims: Sequence[str], ranges: Ranges) -> bool:
        """Whether the loops that are left only step through the reduction of one register tile.

        Then the microkernel runs through all of it, and the accumulators never leave the registers.
        """
        left = [dim for dim in dims if level.tile[dim] < ranges[dim].size]
        return (
            level is self.plan.levels[-1]
            and all(dim in self.problem.reduction_dims for dim in left)
            and all(
                ranges[dim].size <= self.plan.microkernel.extent(dim)
                for dim in self.problem.parallel_dims
            )
        )

    def _narrow(self, level: Level, dim: str, range_: Range) -> Range:
        """What a dim of the weights covers at `level` (its loop, if any, is already open)."""
        size = level.tile[dim]
        return range_ if size >= range_.size else range_.tile(range_.start, size, range_.depth)

    def _parallel(self, ranges: Ranges, panels: Panels | None, scratch: Any) -> None:
        """The split of the outermost tile between cores, then the next level."""
        shares = {
            dim: self.plan.core_tile(dim, self.problem.extent(dim))
            for dim, ways in self.plan.parallel.items()
            if ways > 1
        }
        split = [dim for dim in ranges if dim in shares and shares[dim] < ranges[dim].size]
        if not split:
            self._private(ranges, panels, scratch)
            return
        with self.builder.parallel(
            [f"{dim}_core" for dim in split],
            [ranges[dim].start for dim in split],
            [ranges[dim].ends for dim in split],
            [shares[dim] for dim in split],
        ) as indices:
            inner = dict(ranges)
            for dim, index in zip(split, indices, strict=True):
                inner[dim] = ranges[dim].tile(index, shares[dim], _deeper(ranges))
            self._private(inner, panels, scratch)

    def _private(self, ranges: Ranges, panels: Panels | None, scratch: Any) -> None:
        """One core's share; it owns the packed block if that is of an inner level."""
        own = panels is None and scratch is None and self.plan.packing != "none"
        if own:
            sizes = self._level(self.plan.packing).tile
            scratch = self._allocate({dim: min(sizes[dim], r.size) for dim, r in ranges.items()})
        if len(self.plan.levels) > 1:
            level = self.plan.levels[1]
            self._loops(level, level.order, ranges, panels, scratch, 1)
        else:
            self._register_tiles(self.problem.parallel_dims, ranges, panels)
        if own:
            self._free(scratch)
        if self.operands.nontemporal:
            self.builder.fence()

    # ---- register tiles ----------------------------------------------------------------------

    def _register_tiles(self, dims: Sequence[str], ranges: Ranges, panels: Panels | None) -> None:
        if not dims:
            self._edges(self.problem.parallel_dims, ranges, panels, {})
            return
        dim, range_ = dims[0], ranges[dims[0]]
        unit = self.plan.microkernel.extent(dim)
        if unit >= range_.size:
            self._register_tiles(dims[1:], ranges, panels)
            return
        with self.builder.loop(dim, range_.start, range_.ends, unit) as (index, *_):
            inner = {**ranges, dim: range_.tile(index, unit, _deeper(ranges))}
            self._register_tiles(dims[1:], inner, panels)

    def _edges(
        self, dims: Sequence[str], ranges: Ranges, panels: Panels | None, sizes: Mapping[str, int]
    ) -> None:
        """Whole register tiles, and specialised ones where the last of a dim is cut short."""
        if not dims:
            emit_microkernel(
                self.builder,
                self.problem,
                self.plan.microkernel,
                self.operands,
                panels,
                ranges,
                sizes,
            )
            return
        dim, rest = dims[0], dims[1:]
        unit, extent = self.plan.microkernel.extent(dim), self.problem.extent(dim)
        start = ranges[dim].start

        def emit(size: int) -> list[Any]:
            self._edges(rest, ranges, panels, {**sizes, dim: size})
            return []

        if extent % unit == 0:
            emit(unit)
        elif start.terms:
            room = Index(constant=extent - unit) - start
            self.builder.branch([(room, False)], lambda: emit(unit), lambda: emit(extent % unit))
        else:
            emit(min(unit, extent - start.constant))


def _deeper(ranges: Ranges) -> int:
    return 1 + max(range_.depth for range_ in ranges.values())
