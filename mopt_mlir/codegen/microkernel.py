"""The microkernel: an outer product over a register tile, accumulated over the reduction dims.

One operand is read in vectors along the lanes, the other in scalars that are broadcast; every pair
of a vector and a scalar has one accumulator register, carried through the reduction loops. With
lanes over output channels the weights are the vectors (from packed panels) and pixels the scalars;
with lanes over pixels it is the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from mopt_mlir.codegen.accumulators import AccumulatorTile, Position
from mopt_mlir.codegen.builder import Builder, Index
from mopt_mlir.codegen.operands import Operands, Panels, element
from mopt_mlir.codegen.ranges import Range
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
    panels: Panels | None,
    ranges: Mapping[str, Range],
    sizes: Mapping[str, int],
) -> None:
    """Accumulate the register tile at the start of `ranges` over the reduction dims' ranges.

    `sizes` is the extent of the register tile per output dim; `panels` the packed weights, or None
    where they are read in place.
    """
    tile = RegisterTile.of(problem, kernel, sizes)
    output = AccumulatorTile(
        builder,
        problem,
        operands,
        tile.lanes,
        tile.lane_dim,
        tile.vectors,
        tile.scalars,
        {d: ranges[d].start for d in problem.parallel_dims},
    )
    initial = output.initial({dim: ranges[dim].start for dim in problem.reduction_dims})
    panel = None if panels is None else panels.panel_of(builder, ranges)

    def step(point: Mapping[str, Index], accumulators: Sequence[Any]) -> list[Any]:
        return _outer_product(
            builder, problem, kernel, operands, panels, panel, tile, point, accumulators
        )

    point = {dim: ranges[dim].start for dim in problem.parallel_dims}
    final = _reduce(builder, kernel.reduction, ranges, point, initial, step)
    output.write(final)


def _reduce(
    builder: Builder,
    dims: Sequence[str],
    ranges: Mapping[str, Range],
    point: Mapping[str, Index],
    carried: Sequence[Any],
    step: Any,
) -> list[Any]:
    """The reduction loops, outermost first, carrying the accumulators."""
    if not dims:
        return list(step(point, carried))
    dim, range_ = dims[0], ranges[dims[0]]
    if range_.exact and range_.size == 1:
        inner = {**point, dim: range_.start}
        return _reduce(builder, dims[1:], ranges, inner, carried, step)
    with builder.loop(dim, range_.start, range_.ends, 1, carried) as (
        index,
        inside,
        carry,
        results,
    ):
        carry(_reduce(builder, dims[1:], ranges, {**point, dim: index}, inside, step))
    return results


def _outer_product(
    builder: Builder,
    problem: Problem,
    kernel: Microkernel,
    operands: Operands,
    panels: Panels | None,
    panel: Index | None,
    tile: RegisterTile,
    point: Mapping[str, Index],
    accumulators: Sequence[Any],
) -> list[Any]:
    """One step of the reduction: `accumulator[v, q] += vector[v] * scalar[q]` for all v, q."""

    def at(position: Position) -> dict[str, Index]:
        offsets = dict(position.offsets)
        return {dim: index + offsets.get(dim, 0) for dim, index in point.items()}

    def read(tensor: Tensor, position: Position, vector: bool) -> Any:
        if tensor is problem.weights and panels is not None:
            assert panel is not None
            memref, where = panels.memref, panels.element(panel, point, position)
            valid = tile.lanes  # panels are padded: a whole vector may always be read
        else:
            memref = operands.input if tensor is problem.input else operands.weights
            where, valid = element(tensor, at(position)), position.valid
        name = "x" if tensor is problem.input else "f"
        if vector:
            return builder.vector_load(memref, where, tile.lanes, valid, name)
        return builder.load(memref, where, name)

    wide = vector_tensor(problem, kernel)
    narrow = problem.weights if wide is problem.input else problem.input
    vectors = [read(wide, position, True) for position in tile.vectors]
    result: list[Any] = [None] * len(accumulators)
    for q, position in enumerate(tile.scalars):
        scalar = read(narrow, position, False)
        for v, vector in enumerate(vectors):
            i = v * len(tile.scalars) + q
            result[i] = builder.outer_product(vector, scalar, accumulators[i])
    return result
