"""The loop nest of a plan as affine loops around the microkernel; `LoopNest` says which loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mopt_mlir.buffers import ALIGNMENT, MANUAL, SCRATCH
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.lookahead import Lookahead
from mopt_mlir.codegen.microkernel import emit_visit
from mopt_mlir.codegen.operands import Operands, Panels
from mopt_mlir.codegen.packing import emit_packing, panel_shape
from mopt_mlir.codegen.panel_copy import panel_copy
from mopt_mlir.codegen.partials import Partials, SumsLayout
from mopt_mlir.codegen.place import Place
from mopt_mlir.codegen.ranges import Range, Ranges, starts_of
from mopt_mlir.codegen.upcoming import Upcoming
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.loop_nest import Loop, LoopNest, Packing, Step
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import keeps_sums_in_output


@dataclass(frozen=True)
class NestEmitter:
    """Emits the loops of `plan` for `problem`."""

    builder: Builder
    problem: Problem
    plan: Plan
    operands: Operands

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
        if self.operands.panels is not None:
            place = replace(place, panels=self._panels(self.operands.panels, place.ranges))
        nest, alone = self._nest, self.plan.cores == 1
        place = self._with_panels((*nest.shared, *nest.own) if alone else nest.shared, place)
        place = self._with_sums(nest.shared, place)
        self._steps(nest.shared, place, self._cores)
        self._free(place.sums_memory, place.panel_memory)

    @cached_property
    def _nest(self) -> LoopNest:
        constant = self.operands.panels is not None
        return LoopNest.of(self.problem, self.plan, constant_weights=constant)

    # ---- scratch memory ----------------------------------------------------------------------

    def _with_panels(self, steps: Sequence[Step], place: Place) -> Place:
        """`place` with memory for the weights that are packed in one of `steps`, if there is one
        and they have none yet."""
        packing = next((step for step in steps if isinstance(step, Packing)), None)
        if packing is None or place.panel_memory is not None:
            return place
        shape = panel_shape(self.problem, self.plan.microkernel, packing.sizes)
        return replace(place, panel_memory=self._scratch("panels", shape))

    @cached_property
    def _sums(self) -> SumsLayout | None:
        """That of partial sums, if there are any that are not best kept in the output."""
        nest, kernel = self._nest, self.plan.microkernel
        if keeps_sums_in_output(self.problem, kernel):
            return None
        steps = (*nest.shared, *nest.split, *nest.own)
        loops = [step for step in steps if isinstance(step, Loop)]
        return SumsLayout.of(self.problem, kernel, loops)

    def _with_sums(self, steps: Sequence[Step], place: Place) -> Place:
        """`place` with memory for partial sums, if it is a loop of `steps` that splits the
        reduction."""
        layout = self._sums
        if layout is None or layout.loop not in steps:
            return place
        memory = self._scratch("sums", [layout.size])
        return replace(place, partials=Partials(memory, layout, self.plan.microkernel.vector))

    def _scratch(self, name: str, shape: Sequence[int]) -> Any:
        builder, ir = self.builder, self.builder.ir
        type_ = ir.MemRefType.get(shape, self.operands.output.type.element_type)
        with builder.named(name):
            allocation = builder.bindings.memref.AllocOp(type_, [], [], alignment=ALIGNMENT)
        allocation.attributes[SCRATCH] = allocation.attributes[MANUAL] = ir.UnitAttr.get()
        return allocation.memref

    def _free(self, *scratch: Any) -> None:
        for memref in scratch:
            if memref is not None:
                free = self.builder.bindings.memref.DeallocOp(memref, loc=self.builder.location)
                free.attributes[MANUAL] = self.builder.ir.UnitAttr.get()

    # ---- packed weights ----------------------------------------------------------------------

    @cached_property
    def _lookahead(self) -> Lookahead:
        return Lookahead(self.problem, self.plan)

    def _panels(self, memref: Any, ranges: Ranges) -> Panels:
        kernel, channel = self.plan.microkernel, self.problem.out_channel
        return Panels(
            memref=memref,
            width=kernel.extent(channel),
            channel=channel,
            reduction=kernel.reduction,
            starts=starts_of(ranges),
        )

    def _pack(self, packing: Packing, place: Place) -> Place:
        """Fill the panels with the weights in `place`: all loops that move in them are open."""
        ranges = place.ranges
        later = self._lookahead.next_block(ranges, place.share)
        panels = replace(self._panels(place.panel_memory, ranges), next_block=later)
        kernel, weights = self.plan.microkernel, self.operands.weights
        copy = panel_copy(self.builder, self.problem, kernel, weights, panels, ranges)
        emit_packing(copy, packing.cores)
        return replace(place, panels=panels, upcoming=place.upcoming.with_panels())

    # ---- loops -------------------------------------------------------------------------------

    def _inside(self, place: Place, loop: Loop, tile: Range) -> Place:
        """`place` in `loop`, at `tile`."""
        dim = loop.dim
        upcoming = self._lookahead.inside(place.upcoming, dim, place.ranges, place.share, tile)
        return replace(_in_loop(place, loop, tile), upcoming=upcoming)

    def _steps(self, steps: Sequence[Step], place: Place, inside: Callable[[Place], None]) -> None:
        """Loops and packing, outermost first, and what is `inside` of all."""
        if not steps:
            inside(place)
            return
        first, rest = steps[0], steps[1:]
        if isinstance(first, Packing):
            self._steps(rest, self._pack(first, place), inside)
            return
        range_ = place.ranges[first.dim]
        with self.builder.loop(first.name, range_.start, range_.ends, first.step) as index:
            tile = range_.tile(index, first.step, place.deeper)
            self._steps(rest, self._inside(place, first, tile), inside)

    def _cores(self, place: Place) -> None:
        """The split of the outermost tile between cores."""
        ranges, split = place.ranges, self._nest.split
        if not split:
            self._share(place)
            return
        with self.builder.parallel(
            [loop.name for loop in split],
            [ranges[loop.dim].start for loop in split],
            [ranges[loop.dim].ends for loop in split],
            [loop.step for loop in split],
        ) as indices:
            depth = place.deeper
            for loop, index in zip(split, indices, strict=True):
                part = ranges[loop.dim].tile(index, loop.step, depth)
                place = _in_loop(place, loop, part)
                place = replace(place, share={**place.share, loop.dim: part})
            self._share(place)

    def _share(self, outer: Place) -> None:
        """One core's share; it owns what it packs, and the sums that only it keeps."""
        place = self._with_sums(self._nest.own, self._with_panels(self._nest.own, outer))
        self._steps(self._nest.own, place, self._register_tile)
        self._free(
            place.sums_memory if outer.partials is None else None,
            place.panel_memory if outer.panel_memory is None else None,
        )
        if self.operands.nontemporal:
            self.builder.fence()

    # ---- register tiles ----------------------------------------------------------------------

    def _register_tile(self, place: Place) -> None:
        if place.panels is None:
            upcoming = self._lookahead.at_register_tile(place.upcoming, place.ranges, place.share)
            place = replace(place, upcoming=upcoming)
        self._edges(self.problem.parallel_dims, place, {})

    def _edges(self, dims: Sequence[str], place: Place, sizes: Mapping[str, int]) -> None:
        """Whole register tiles, and specialised ones where the last of a dim is cut short."""
        if not dims:
            kernel = self.plan.microkernel
            emit_visit(Visit(self.builder, self.problem, kernel, self.operands, place, sizes))
            return
        dim, rest = dims[0], dims[1:]
        unit, extent = self.plan.microkernel.extent(dim), self.problem.extent(dim)

        def emit(size: int) -> None:
            self._edges(rest, place, {**sizes, dim: size})

        self.builder.whole_or_rest(place.ranges[dim].start, unit, extent, emit)


def _in_loop(place: Place, loop: Loop, tile: Range) -> Place:
    """`place` in `loop`, at `tile`, but for what comes next."""
    inside = place.at(loop.dim, tile)
    if place.partials is None:
        return inside
    distance = tile.start - place.ranges[loop.dim].start
    return replace(inside, partials=place.partials.inside(loop, distance))
