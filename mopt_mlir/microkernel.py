"""The microkernel: the register tile that a plan fills at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.plain_data import DataError, check_sizes
from mopt_mlir.problem import Problem

WIDEST_VECTOR_BYTES = 64
"""A register of AVX-512."""

MOST_ACCUMULATORS = 64
"""Twice the vector registers of AVX-512: room to experiment, not to exhaust memory."""


@dataclass(frozen=True)
class Microkernel:
    """An outer product over a register tile, repeated over the reduction dims.

    `lanes` is the dim whose consecutive values fill a vector of `vector` elements; `tile` gives the
    register tile in elements per dim (`tile[lanes]` is a multiple of `vector`; absent dims are 1).
    `reduction` is the order of the reduction loops around the outer product, outermost first, and
    the order in which packed weights lie in a panel.
    """

    lanes: str
    vector: int
    tile: Mapping[str, int]
    reduction: tuple[str, ...]

    def extent(self, dim: str) -> int:
        """Elements of the register tile along `dim`."""
        return self.tile.get(dim, 1)

    @property
    def accumulators(self) -> int:
        """Accumulators, each one vector, of a whole register tile."""
        return prod(self.tile.values()) // self.vector

    def check(self, problem: Problem) -> None:
        """Raise DataError, naming the field, where this microkernel does not fit `problem`."""
        lanes, width, element = self.lanes, self.extent(self.lanes), problem.output.element
        if lanes not in problem.parallel_dims:
            raise DataError(f"microkernel.lanes is '{lanes}', not an output dim")
        if lanes in problem.input.dims and not problem.input.runs_along(lanes):
            raise DataError(f"microkernel.lanes is '{lanes}', which is not contiguous in the input")
        check_sizes("microkernel.tile", self.tile, set(problem.parallel_dims))
        if lanes not in self.tile:
            raise DataError(f"microkernel.tile lacks '{lanes}', along which microkernel.lanes are")
        widest = WIDEST_VECTOR_BYTES // element.size
        if self.vector not in [1 << i for i in range(widest.bit_length())]:
            raise DataError(
                f"microkernel.vector = {self.vector} is not a power of two up to {widest}, "
                f"the {element.value} elements of the widest vector register"
            )
        if width % self.vector:
            raise DataError(
                f"microkernel.tile[{lanes}] = {width} "
                f"is not a multiple of the vector length {self.vector}"
            )
        if self.accumulators > MOST_ACCUMULATORS:
            raise DataError(
                f"microkernel.tile needs {self.accumulators} accumulators; at most "
                f"{MOST_ACCUMULATORS} are generated, and no more than there are vector registers "
                "make sense"
            )
        if sorted(self.reduction) != sorted(problem.reduction_dims):
            expected = ", ".join(problem.reduction_dims) or "nothing: no sum has a second product"
            raise DataError(f"microkernel.reduction must order {expected}")
