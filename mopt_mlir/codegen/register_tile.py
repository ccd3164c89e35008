"""The accumulators of a register tile, and what is read for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mopt_mlir.codegen.operands import Position
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import Problem, Tensor


@dataclass(frozen=True)
class RegisterTile:
    """`vectors` x `scalars` of one (full or edge) register tile: each pair has an accumulator of
    so many `lanes`, along `lane_dim`."""

    lanes: int
    lane_dim: str
    vectors: tuple[Position, ...]
    scalars: tuple[Position, ...]

    @staticmethod
    def of(problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]) -> RegisterTile:
        """The tile of `sizes` elements per dim (at most the kernel's own)."""
        read = vector_tensor(problem, kernel).dims
        dims = [dim for dim in problem.parallel_dims if dim in kernel.tile]
        along = [dim for dim in dims if dim in read or dim == kernel.lanes]
        across = [dim for dim in dims if dim not in along]
        vectors, scalars = _positions(kernel, along, sizes), _positions(kernel, across, sizes)
        return RegisterTile(kernel.vector, kernel.lanes, vectors, scalars)

    @property
    def count(self) -> int:
        """Of accumulators."""
        return len(self.vectors) * len(self.scalars)

    def number(self, vector: int, scalar: int) -> int:
        """Which accumulator is that of the vector `vector` and the scalar `scalar`."""
        return vector * len(self.scalars) + scalar


def vector_tensor(problem: Problem, kernel: Microkernel) -> Tensor:
    """The operand that is read in vectors: the one that the lane dim runs along."""
    return problem.input if kernel.lanes in problem.input.dims else problem.weights


def _positions(
    kernel: Microkernel, dims: Sequence[str], sizes: Mapping[str, int]
) -> tuple[Position, ...]:
    """Where vectors begin along `dims`, if the lanes are one of these, or scalars lie."""
    lanes, vector = kernel.lanes, kernel.vector
    steps = [range(0, sizes[dim], vector if dim == lanes else 1) for dim in dims]
    found = []
    for offsets in product(*steps):
        at = dict(zip(dims, offsets, strict=True))
        valid = min(vector, sizes[lanes] - at[lanes]) if lanes in at else 1
        found.append(Position(tuple(at.items()), valid))
    return tuple(found)
