"""The accumulators of a register tile, and what is read for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mopt_mlir.codegen.operands import Position
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import scalar_dims, scalar_offsets


@dataclass(frozen=True)
class RegisterTile:
    """`vectors` x `scalars` of one (full or edge) register tile of a microkernel: each pair has an
    accumulator."""

    kernel: Microkernel
    vectors: tuple[Position, ...]
    scalars: tuple[Position, ...]

    @staticmethod
    def of(problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]) -> RegisterTile:
        """The tile of `sizes` elements per dim (at most the kernel's own)."""
        across = scalar_dims(problem, kernel)
        along = [dim for dim in problem.parallel_dims if dim in kernel.tile and dim not in across]
        scalars = (Position(at, 1) for at in scalar_offsets(problem, kernel, sizes))
        return RegisterTile(kernel, _vectors(kernel, along, sizes), tuple(scalars))

    @property
    def count(self) -> int:
        """The number of accumulators."""
        return len(self.vectors) * len(self.scalars)

    def number(self, vector: int, scalar: int) -> int:
        """Which accumulator is that of the vector `vector` and the scalar `scalar`."""
        return vector * len(self.scalars) + scalar


def _vectors(
    kernel: Microkernel, dims: Sequence[str], sizes: Mapping[str, int]
) -> tuple[Position, ...]:
    """Where vectors begin along `dims`."""
    lanes, vector = kernel.lanes, kernel.vector
    steps = [range(0, sizes[dim], vector if dim == lanes else 1) for dim in dims]
    found = []
    for offsets in product(*steps):
        at = dict(zip(dims, offsets, strict=True))
        found.append(Position(tuple(at.items()), min(vector, sizes[lanes] - at[lanes])))
    return tuple(found)
