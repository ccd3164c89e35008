"""The microkernel: an outer product over a register tile, accumulated over the reduction dims.

One operand is read in vectors along the lanes, the other in scalars that are broadcast; every pair
of a vector and a scalar has one accumulator register, carried through the reduction loops. With
lanes over output channels the weights are the vectors (from packed panels) and pixels the scalars;
with lanes over pixels it is the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

from mopt_mlir.codegen.accumulators import AccumulatorTile
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Operands, Position, element
from mopt_mlir.codegen.place import Place
from mopt_mlir.codegen.prefetch import InputPrefetch
from mopt_mlir.codegen.prefetch_output import output_prefetch
from mopt_mlir.codegen.prefetch_panels import PanelPrefetch
from mopt_mlir.codegen.prefetch_pixels import PixelPrefetch, has_channels_last
from mopt_mlir.codegen.prefetch_weights import RowPrefetch, StripPrefetch
from mopt_mlir.codegen.ranges import nearest
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import Problem, Tensor


@dataclass(frozen=True)
class RegisterTile:
    """The accumulators of one (full or edge) register tile: `vectors` x `scalars`."""

    lanes: int
    lane_dim: str
    vectors: tuple[Position, ...]
    scalars: tuple[Position, ...]

    @staticmethod
    def of(problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]) -> RegisterTile:
        """The tile of `sizes` elements per dim (at most the kernel's own)."""
        vector_operand = vector_tensor(problem, kernel)

        def positions(dims: Sequence[str]) -> tuple[Position, ...]:
            steps = [
                range(0, sizes[dim], kernel.vector if dim == kernel.lanes else 1) for dim in dims
            ]
            return tuple(
                Position(
                    tuple(zip(dims, offsets, strict=True)),
                    min(
                        kernel.vector,
                        sizes[kernel.lanes] - dict(zip(dims, offsets, strict=True))[kernel.lanes],
                    )
                    if kernel.lanes in dims
                    else 1,
                )
                for offsets in product(*steps)
            )

        dims = [dim for dim in problem.parallel_dims if dim in kernel.tile]
        along = [d for d in dims if d in vector_operand.dims or d == kernel.lanes]
        return RegisterTile(
            kernel.vector,
            kernel.lanes,
            positions(along),
            positions([d for d in dims if d not in along]),
        )


def vector_tensor(problem: Problem, kernel: Microkernel) -> Tensor:
    """The operand that is read in vectors: the one that the lane dim runs along."""
    return problem.input if kernel.lanes in problem.input.dims else problem.weights


def emit_microkernel(
    builder: Builder,
    problem: Problem,
    kernel: Microkernel,
    operands: Operands,
    place: Place,
    sizes: Mapping[str, int],
) -> None:
    """Accumulate the register tile at the start of `place.ranges` over the reduction dims' ranges.

    `sizes` is the extent of the register tile per output dim. Weights are read in place where
    `place` has no panels.
    """
    tile = RegisterTile.of(problem, kernel, sizes)
    ranges, panels = place.ranges, place.panels
    start = {dim: ranges[dim].start for dim in problem.parallel_dims}
    output = AccumulatorTile(
        builder,
        problem,
        operands,
        tile.lanes,
        tile.lane_dim,
        tile.vectors,
        tile.scalars,
        start,
        place.partials,
    )
    reduced = {dim: ranges[dim] for dim in problem.reduction_dims}
    initial = output.initial(reduced)
    panel = None if panels is None else panels.panel_of(builder, ranges)
    ahead: list[_Prefetch] = [
        *_input_ahead(builder, problem, kernel, operands, place, sizes),
        *_weights_ahead(builder, problem, kernel, operands, place, panel),
    ]
    written = output_prefetch(output, kernel, ranges, sizes, place.upcoming)
    if written is not None and written.dim is None:
        written.emit(start)
    elif written is not None:
        ahead.insert(0, written)
    if place.partials is not None and (along := nearest(problem.parallel_dims, ranges)):
        here = place.partials.tile(start)
        place.partials.prefetch(builder, here, along, len(tile.vectors) * len(tile.scalars))
    for prefetch in ahead:
        if prefetch.dim is None:
            prefetch.emit(start)
    reduction = _Reduction(builder, problem, kernel, operands, place, panel, ahead, tile)
    output.finish(reduction.emit(kernel.reduction, start, initial), reduced)


def _input_ahead(
    builder: Builder,
    problem: Problem,
    kernel: Microkernel,
    operands: Operands,
    place: Place,
    sizes: Mapping[str, int],
) -> Iterator[_Prefetch]:
    """The prefetch of input, if any is worth while."""
    memref, ranges, upcoming = operands.input, place.ranges, place.upcoming
    if not has_channels_last(problem, kernel, ranges):
        yield InputPrefetch(builder, problem, kernel, memref, ranges, sizes, upcoming)
    elif found := PixelPrefetch.of(builder, problem, kernel, memref, ranges, upcoming):
        yield found


def _weights_ahead(
    builder: Builder,
    problem: Problem,
    kernel: Microkernel,
    operands: Operands,
    place: Place,
    panel: Index | None,
) -> Iterator[_Prefetch]:
    """The prefetches of weights, packed (in `panel`) or read in place, that are worth while."""
    ranges, panels, following = place.ranges, place.panels, place.following
    start = {dim: ranges[dim].start for dim in problem.parallel_dims}
    found: list[_Prefetch | None] = []
    if panels is not None and panel is not None:
        found.append(RowPrefetch.of_block(builder, problem, operands.weights, panels, start))
        found.append(StripPrefetch.of_block(builder, problem, operands.weights, panels, ranges))
        found.append(PanelPrefetch.of(builder, panels, following, panel, ranges))
    elif following is not None:
        in_place = builder, problem, kernel, operands.weights, following, ranges
        found += [RowPrefetch.in_place(*in_place), StripPrefetch.in_place(*in_place)]
    return (prefetch for prefetch in found if prefetch is not None)


class _Prefetch(Protocol):
    """Asks for what is read later, at each step of the reduction loop over `dim`, or once before
    all of them, if that is None."""

    @property
    def dim(self) -> str | None: ...

    def emit(self, point: Mapping[str, Index]) -> None: ...


@dataclass(frozen=True)
class _Reduction:
    """The reduction loops of one register tile and the outer product inside them; `panel` is the
    one that the tile reads, if weights are packed."""

    builder: Builder
    problem: Problem
    kernel: Microkernel
    operands: Operands
    place: Place
    panel: Index | None
    prefetches: Sequence[_Prefetch]
    tile: RegisterTile

    def emit(
        self, dims: Sequence[str], point: Mapping[str, Index], carried: list[Any]
    ) -> list[Any]:
        """Loops over `dims`, outermost first, that carry the accumulators; their final values."""
        if not dims:
            return self._outer_product(point, carried)
        dim, range_ = dims[0], self.place.ranges[dims[0]]
        if range_.is_point:
            return self.emit(dims[1:], {**point, dim: range_.start}, carried)
        with self.builder.loop(dim, range_.start, range_.ends, 1, carried) as loop:
            index, inside, carry, results = loop
            inner = {**point, dim: index}
            for prefetch in self.prefetches:
                if prefetch.dim == dim:
                    prefetch.emit(inner)
            carry(self.emit(dims[1:], inner, inside))
        return results

    def _outer_product(self, point: Mapping[str, Index], accumulators: list[Any]) -> list[Any]:
        """One step: `accumulator[v, q] += vector[v] * scalar[q]` for all v, q."""
        wide = vector_tensor(self.problem, self.kernel)
        narrow = self.problem.weights if wide is self.problem.input else self.problem.input
        vectors = [self._read(wide, point, position, True) for position in self.tile.vectors]
        count = len(self.tile.scalars)
        result: list[Any] = [None] * len(accumulators)
        for q, position in enumerate(self.tile.scalars):
            scalar = self._read(narrow, point, position, False)
            for v, vector in enumerate(vectors):
                i = v * count + q
                result[i] = self.builder.outer_product(vector, scalar, accumulators[i])
        return result

    def _read(
        self, tensor: Tensor, point: Mapping[str, Index], position: Position, vector: bool
    ) -> Any:
        panels = self.place.panels
        if tensor is self.problem.weights and panels is not None:
            assert self.panel is not None
            memref = panels.memref
            where = panels.element(self.panel, point, position)
            valid = self.tile.lanes  # panels are padded: a whole vector may always be read
        else:
            memref = self.operands.weights
            if tensor is self.problem.input:
                memref = self.operands.input
            at = {dim: index + position.offset(dim) for dim, index in point.items()}
            where, valid = element(tensor, at), position.valid
        name = "x" if tensor is self.problem.input else "f"
        if vector:
            return self.builder.vector_load(memref, where, self.tile.lanes, valid, name)
        return self.builder.load(memref, where, name)
