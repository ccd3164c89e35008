"""How many partial sums wait for the next visit of their register tile, over many tilings at once.

Sums that do not wait in the output (`vector_access.keeps_sums_in_output`) wait in scratch memory
until the reduction is complete: those of all that is visited before a register tile's turn comes
again. They are fetched from memory and go back there like the output itself, though no tile says
so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mopt_mlir.model.classes import PermutationClass
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Ints


def waiting_sums(
    problem: Problem,
    classes: Sequence[PermutationClass],
    sizes: Ints,
    orders: Ints,
    unit: Ints,
    ways: Ints,
) -> Ints:
    """Elements of the output whose sums wait at a time, of all cores, per tiling; 0 where the
    reduction is not split. `sizes` are those of the tiles (`[tiling, level, dim]`), `orders` the
    number of the class of each level (`[tiling, level]`), as in `estimate.residency`. The outermost
    tiles are shared so many `ways` along each dim, in register tiles of `unit`; all cores count
    like the one with most."""
    at = {dim: index for index, dim in enumerate(problem.names)}
    parts = np.tile([*problem.extents.values()], (len(sizes), 1))
    split = np.zeros(len(sizes), dtype=np.bool_)
    for level in range(sizes.shape[1]):
        if level == 1:  # from here on each core goes through its share
            parts = np.minimum(parts, -(-parts // (unit * ways)) * unit)
        for number in np.unique(orders[:, level]):
            rows = np.flatnonzero(orders[:, level] == number)
            for dim in classes[number].order:
                part, tile = parts[rows, at[dim]], sizes[rows, level, at[dim]]
                if dim in problem.reduction_dims:
                    split[rows] |= tile < part
                else:  # a loop outside of the one that splits the reduction: one step at a time
                    parts[rows, at[dim]] = np.where(split[rows], part, np.minimum(part, tile))
    visited = parts[:, [at[dim] for dim in problem.parallel_dims]].prod(axis=1)
    return np.where(split, visited * ways.prod(), 0)


def least_waiting_sums(problem: Problem, sizes: Ints, cores: int) -> Ints:
    """At least so many elements, whatever the orders of loops, of all cores: those of the outermost
    tiles around which loops split the reduction, but for L1's."""
    reduction, parallel = (
        [problem.names.index(dim) for dim in dims]
        for dims in (problem.reduction_dims, problem.parallel_dims)
    )
    waiting = np.zeros(len(sizes), dtype=np.int64)
    outer = np.tile([*problem.extents.values()], (len(sizes), 1))
    for level, sharing in ((0, 1), (1, cores)):
        tile = sizes[:, level]
        split = (tile[:, reduction] < outer[:, reduction]).any(axis=1)
        waiting = np.maximum(waiting, split * sharing * tile[:, parallel].prod(axis=1))
        outer = tile
    return waiting
