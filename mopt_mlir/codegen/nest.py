"""The loop nest of a plan as affine loops around the microkernel; `LoopNest` says which loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mopt_mlir.buffers import ALIGNMENT, MANUAL, SCRATCH
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.lookahead import Lookahead
from mopt_mlir.codegen.microkernel import Visit
from mopt_mlir.codegen.operands import Operands, Panels
from mopt_mlir.codegen.packing import emit_packing, panel_shape
from mopt_mlir.codegen.partials import Partials, partials_size
from mopt_mlir.codegen.place import Place
from mopt_mlir.codegen.ranges import Range, Ranges, sizes_of
from mopt_mlir.codegen.upcoming import Around, Stepped, Upcoming
from mopt_mlir.loop_nest import Loop, LoopNest, Packing, Step
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import keeps_sums_in_output


@dataclass(frozen=True)
class NestEmitter:
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
        nest, alone = self._nest, self.plan.cores == 1
        place = self._with_panels((*nest.shared, *nest.own) if alone else nest.shared, place)
        place = self._with_sums(nest.shared, place)
        self._steps(nest.shared, place, self._cores)
        self._free(place.sums, place.panel_memory)

    @cached_property
    def _nest(self) -> LoopNest:
        constant = self.constant_panels is not None
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

    def _with_sums(self, steps: Sequence[Step], place: Place) -> Place:
        """`place` with memory for what the outermost loop of `steps` that splits the reduction
        covers of the output, if there is one, and partial sums are not best kept in the output."""
        kernel = self.plan.microkernel
        if place.sums is not None or keeps_sums_in_output(self.problem, kernel):
            return place
        sizes = sizes_of(place.ranges)
        for loop in (step for step in steps if isinstance(step, Loop)):
            if loop.dim in self.problem.reduction_dims:
                size = partials_size(self.problem, kernel, sizes)
                return replace(place, sums=self._scratch("sums", [size]))
            sizes[loop.dim] = loop.step
        return place

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
        starts = {dim: range_.start for dim, range_ in ranges.items()}
        kernel = self.plan.microkernel
        width = kernel.extent(self.problem.out_channel)
        return Panels(memref, width, self.problem.out_channel, kernel.reduction, starts)

    def _pack(self, packing: Packing, place: Place) -> Place:
        """Fill the panels with the weights in `place`: all loops that move in them are open."""
        ranges = place.ranges
        later = self._lookahead.block(ranges, place.share)
        panels = replace(self._panels(place.panel_memory, ranges), next_block=later)
        emit_packing(
            self.builder,
            self.problem,
            self.plan.microkernel,
            self.operands.weights,
            panels,
            ranges,
            packing.cores,
        )
        return replace(place, panels=panels, stepped=None, following=None)

    # ---- what is accessed next ---------------------------------------------------------------

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

    # ---- loops -------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step], place: Place, inside: Callable[[Place], None]) -> None:
        """Loops and packing, outermost first, and what is `inside` of all."""
        if not steps:
            inside(place)
            return
        step, rest = steps[0], steps[1:]
        if isinstance(step, Packing):
            self._steps(rest, self._pack(step, place), inside)
            return
        range_ = place.ranges[step.dim]
        with self.builder.loop(step.name, range_.start, range_.ends, step.step) as index:
            tile = range_.tile(index, step.step, place.deeper)
            self._steps(rest, self._inside(place, step.dim, tile), inside)

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
                place = replace(place.at(loop.dim, part), share={**place.share, loop.dim: part})
            self._share(place)

    def _share(self, outer: Place) -> None:
        """One core's share; it owns what it packs, and the sums that only it keeps."""
        place = self._with_sums(self._nest.own, self._with_panels(self._nest.own, outer))
        self._steps(self._nest.own, place, self._register_tile)
        self._free(
            place.sums if outer.sums is None else None,
            place.panel_memory if outer.panel_memory is None else None,
        )
        if self.operands.nontemporal:
            self.builder.fence()

    # ---- register tiles ----------------------------------------------------------------------

    def _register_tile(self, place: Place) -> None:
        self._edges(self.problem.parallel_dims, self._reading_once(place), {})

    def _edges(self, dims: Sequence[str], place: Place, sizes: Mapping[str, int]) -> None:
        """Whole register tiles, and specialised ones where the last of a dim is cut short."""
        if not dims:
            kernel = self.plan.microkernel
            Visit(self.builder, self.problem, kernel, self.operands, place, sizes).emit()
            return
        dim, rest = dims[0], dims[1:]
        unit, extent = self.plan.microkernel.extent(dim), self.problem.extent(dim)

        def emit(size: int) -> None:
            self._edges(rest, place, {**sizes, dim: size})

        self.builder.whole_or_rest(place.ranges[dim].start, unit, extent, emit)
