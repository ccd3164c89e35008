"""The microkernel: an outer product over a register tile, accumulated over the reduction dims.

One operand is read in vectors along the lanes, the other in scalars that are broadcast; every pair
of a vector and a scalar has one accumulator register, carried through the reduction loops. With
lanes over output channels the weights are the vectors, from packed panels or where they lie, and
pixels the scalars; with lanes over pixels it is the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Position, indices_of
from mopt_mlir.codegen.prefetch.channel_rows import ChannelRowPrefetch
from mopt_mlir.codegen.prefetch.filter_rows import FilterRowPrefetch
from mopt_mlir.codegen.prefetch.input import InputPrefetch
from mopt_mlir.codegen.prefetch.output import output_prefetch
from mopt_mlir.codegen.prefetch.panels import PanelPrefetch
from mopt_mlir.codegen.prefetch.pixels import PixelPrefetch, has_channels_last
from mopt_mlir.codegen.prefetch.sums import SumsPrefetch
from mopt_mlir.codegen.visit import Visit
from mopt_mlir.problem import Tensor
from mopt_mlir.vector_access import scalar_operand, vector_operand


class _Prefetch(Protocol):
    """Asks for what is read or written later, at each step of the reduction loop over `dim`, or
    once before all of them, if that is None."""

    @property
    def dim(self) -> str | None: ...

    def emit(self, point: Mapping[str, Index]) -> None: ...


def emit_visit(visit: Visit) -> None:
    """Start the accumulators, prefetch what is accessed later, reduce, and store."""
    initial = visit.accumulators.initial(visit.reduced)
    panels = visit.place.panels
    panel = None if panels is None else panels.panel_of(visit.builder, visit.ranges)
    ahead = _prefetches(visit, panel)
    for prefetch in ahead:
        if prefetch.dim is None:
            prefetch.emit(visit.start)
    reduction = _Reduction(visit, panel, ahead)
    sums = reduction.emit(visit.kernel.reduction, visit.start, initial)
    visit.accumulators.finish(sums, visit.reduced)


def _prefetches(visit: Visit, panel: Index | None) -> list[_Prefetch]:
    """Those that are worth while, in the order of their code."""
    read = (_input_prefetch(visit), *_weights_prefetches(visit, panel))  # first: they emit indices
    found = (output_prefetch(visit), SumsPrefetch.of(visit), *read)
    return [prefetch for prefetch in found if prefetch is not None]


def _input_prefetch(visit: Visit) -> _Prefetch | None:
    if has_channels_last(visit.problem, visit.kernel, visit.ranges):
        return PixelPrefetch.of(visit)
    return InputPrefetch.of(visit)


def _weights_prefetches(visit: Visit, panel: Index | None) -> Sequence[_Prefetch | None]:
    """Those of weights, packed (in `panel`) or in place; None for one that is not worth while."""
    panels, following = visit.place.panels, visit.upcoming.weights
    if panels is not None and panel is not None:
        return [
            FilterRowPrefetch.of_block(visit, panels),
            ChannelRowPrefetch.of_block(visit, panels),
            PanelPrefetch.of(visit, panels, panel),
        ]
    if following is None:
        return []
    return [
        FilterRowPrefetch.in_place(visit, following),
        ChannelRowPrefetch.in_place(visit, following),
    ]


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
        dim, range_ = dims[0], self.visit.ranges[dims[0]]
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
