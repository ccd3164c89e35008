"""The microkernel: an outer product over a register tile, accumulated over the reduction dims.

One operand is read in vectors along the lanes, the other in scalars that are broadcast; every pair
of a vector and a scalar has one accumulator register, carried through the reduction loops. With
lanes over output channels the weights are the vectors (from packed panels) and pixels the scalars;
with lanes over pixels it is the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from mopt_mlir.codegen.accumulators import Accumulators
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Operands, Position, indices_of
from mopt_mlir.codegen.partials import SumsPrefetch
from mopt_mlir.codegen.place import Place
from mopt_mlir.codegen.prefetch.channel_rows import ChannelRowPrefetch
from mopt_mlir.codegen.prefetch.filter_rows import FilterRowPrefetch
from mopt_mlir.codegen.prefetch.input import InputPrefetch
from mopt_mlir.codegen.prefetch.output import output_prefetch
from mopt_mlir.codegen.prefetch.panels import PanelPrefetch
from mopt_mlir.codegen.prefetch.pixels import PixelPrefetch, has_channels_last
from mopt_mlir.codegen.ranges import innermost
from mopt_mlir.codegen.register_tile import RegisterTile
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem, Tensor
from mopt_mlir.vector_access import scalar_operand, vector_operand


class _Prefetch(Protocol):
    """Asks for what is read or written later, at each step of the reduction loop over `dim`, or
    once before all of them, if that is None."""

    @property
    def dim(self) -> str | None: ...

    def emit(self, point: Mapping[str, Index]) -> None: ...


@dataclass(frozen=True)
class Visit:
    """One visit of a register tile: accumulates what is at the start of `place.ranges` over the
    reduction dims' ranges.

    `sizes` is the extent of the register tile per output dim. Weights are read in place where
    `place` has no panels.
    """

    builder: Builder
    problem: Problem
    kernel: Microkernel
    operands: Operands
    place: Place
    sizes: Mapping[str, int]

    def emit(self) -> None:
        """Start the accumulators, prefetch what is accessed later, reduce, and store."""
        problem, place, start = self.problem, self.place, self._tile_start
        output = Accumulators(
            self.builder, problem, self.operands, self.tile, start, place.partials
        )
        reduced = {dim: place.ranges[dim] for dim in problem.reduction_dims}
        initial = output.initial(reduced)
        panels = place.panels
        panel = None if panels is None else panels.panel_of(self.builder, place.ranges)
        ahead = self._prefetches(output, panel)
        for prefetch in ahead:
            if prefetch.dim is None:
                prefetch.emit(start)
        reduction = _Reduction(self, panel, ahead)
        output.finish(reduction.emit(self.kernel.reduction, start, initial), reduced)

    def _prefetches(self, output: Accumulators, panel: Index | None) -> list[_Prefetch]:
        """Those that are worth while, in the order of their code."""
        upcoming = self.place.upcoming
        read = (self._input_ahead(), *self._weights_ahead(panel))  # first: they emit indices
        written = output_prefetch(output, self.kernel, self.place.ranges, self.sizes, upcoming)
        found = (written, self._sums_ahead(), *read)
        return [prefetch for prefetch in found if prefetch is not None]

    @cached_property
    def tile(self) -> RegisterTile:
        return RegisterTile.of(self.problem, self.kernel, self.sizes)

    @cached_property
    def _tile_start(self) -> Mapping[str, Index]:
        return {dim: self.place.ranges[dim].start for dim in self.problem.parallel_dims}

    def _input_ahead(self) -> _Prefetch | None:
        """The prefetch of input, if any is worth while."""
        builder, problem, kernel, place = self.builder, self.problem, self.kernel, self.place
        memref, ranges, upcoming = self.operands.input, place.ranges, place.upcoming
        where = builder, problem, kernel, memref, ranges
        if has_channels_last(problem, kernel, ranges):
            found: _Prefetch | None = PixelPrefetch.of(*where, upcoming)
        else:
            found = InputPrefetch.of(*where, self.sizes, upcoming)
        return found

    def _sums_ahead(self) -> _Prefetch | None:
        """The prefetch of the next register tile's partial sums, if these wait in memory."""
        partials, ranges = self.place.partials, self.place.ranges
        along = innermost(self.problem.parallel_dims, ranges)
        if partials is None or along is None:
            return None
        tile = partials.tile(self._tile_start)
        return SumsPrefetch(self.builder, partials, tile, along, self.tile.count)

    def _weights_ahead(self, panel: Index | None) -> Sequence[_Prefetch | None]:
        """The prefetches of weights, packed (in `panel`) or in place; None for one that is not
        worth while."""
        builder, problem, weights = self.builder, self.problem, self.operands.weights
        ranges, panels, start = self.place.ranges, self.place.panels, self._tile_start
        following = self.place.upcoming.weights
        found: list[_Prefetch | None] = []
        if panels is not None and panel is not None:
            found.append(FilterRowPrefetch.of_block(builder, problem, weights, panels, start))
            found.append(ChannelRowPrefetch.of_block(builder, problem, weights, panels, ranges))
            found.append(PanelPrefetch.of(builder, self.kernel, panels, following, panel, ranges))
        elif following is not None:
            in_place = builder, problem, self.kernel, weights, following, ranges
            found += [FilterRowPrefetch.in_place(*in_place), ChannelRowPrefetch.in_place(*in_place)]
        return found


@dataclass(frozen=True)
class _Reduction:
    """The reduction loops of a `visit` and the outer product inside them; `panel` is the one that
    it reads, if weights are packed. In the loops, what is accessed later is asked for (`ahead`)."""

    visit: Visit
    panel: Index | None
    ahead: Sequence[_Prefetch]

    def emit(
        self, dims: Sequence[str], point: Mapping[str, Index], carried: list[Any]
    ) -> list[Any]:
        """Loops over `dims`, outermost first, that carry the accumulators; their final values."""
        if not dims:
            return self._outer_product(point, carried)
        dim, range_ = dims[0], self.visit.place.ranges[dims[0]]
        if range_.is_point:
            return self.emit(dims[1:], {**point, dim: range_.start}, carried)

        def body(index: Index, carried: list[Any]) -> list[Any]:
            inner = {**point, dim: index}
            for prefetch in self.ahead:
                if prefetch.dim == dim:
                    prefetch.emit(inner)
            return self.emit(dims[1:], inner, carried)

        builder = self.visit.builder
        return builder.carrying_loop(dim, range_.start, range_.ends, carried, body)

    def _outer_product(self, point: Mapping[str, Index], accumulators: list[Any]) -> list[Any]:
        """One step: `accumulator[v, q] += vector[v] * scalar[q]` for all v, q."""
        problem, tile = self.visit.problem, self.visit.tile
        wide = vector_operand(problem, self.visit.kernel)
        narrow = scalar_operand(problem, self.visit.kernel)
        vectors = [self._read(wide, point, at, vector=True) for at in tile.vectors]
        result: list[Any] = [None] * len(accumulators)
        for q, position in enumerate(tile.scalars):
            scalar = self._read(narrow, point, position, vector=False)
            for v, vector in enumerate(vectors):
                i = tile.number(v, q)
                result[i] = self.visit.builder.outer_product(vector, scalar, accumulators[i])
        return result

    def _read(
        self, tensor: Tensor, point: Mapping[str, Index], position: Position, *, vector: bool
    ) -> Any:
        visit, panels = self.visit, self.visit.place.panels
        is_input = tensor is visit.problem.input
        if panels is not None and not is_input:
            assert self.panel is not None
            memref = panels.memref
            where = panels.indices_of(
                self.panel, point, Index(constant=position.offset(panels.channel))
            )
            valid = visit.tile.kernel.vector  # panels are padded: a whole vector may always be read
        else:
            memref = visit.operands.input if is_input else visit.operands.weights
            at = {dim: index + position.offset(dim) for dim, index in point.items()}
            where, valid = indices_of(tensor, at), position.valid
        name = "x" if is_input else "f"
        if vector:
            return visit.builder.vector_load(memref, where, visit.tile.kernel.vector, valid, name)
        return visit.builder.load(memref, where, name)
