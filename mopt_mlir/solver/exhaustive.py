"""Going through all tilings of a choice: the proof where these are few.

SCIP's bounds are weakest for small problems, in which a tile more or less is much of the cost; but
these have few tilings.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from time import perf_counter

import numpy as np

from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.space import Choice

AT_ONCE = 10_000
"""Tilings that are evaluated together, in some 50 ms."""


def has_few_tilings(choice: Choice, most: int) -> bool:
    """Whether a choice has at most so many tilings, with those that do not fit into caches."""
    if prod(choice.units.values()) > most:  # with tiles of one size on all levels
        return False
    counts = (
        sum(share * (share + 1) // 2 for share in _shares(units, choice.ways(dim)))
        for dim, units in choice.units.items()
    )
    return prod(counts) <= most


def cheapest(evaluate: Evaluator, deadline: float = inf) -> tuple[float, Ints | None]:
    """The least cost in seconds of all tilings of a choice, and one that costs this: infinite, and
    None, if none fits. After the `deadline` (of `perf_counter`) it is a cost of 0, and None."""
    least, best = inf, None
    for tilings in _tilings(evaluate):
        if perf_counter() > deadline:
            return 0.0, None
        costs = evaluate(tilings)
        fitting = np.where(costs.overflow <= 1, costs.cost, inf)
        number = int(np.argmin(fitting))
        if fitting[number] < least:
            least, best = float(fitting[number]), tilings[number]
    return least, best


def _tilings(evaluate: Evaluator) -> Iterator[Ints]:
    """All tilings, some at a time."""
    sizes = [
        _sizes(units, ways)
        for units, ways in zip(evaluate.units.tolist(), evaluate.ways.tolist(), strict=True)
    ]
    counts = [len(of_dim) for of_dim in sizes]
    for first in range(0, prod(counts), AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, prod(counts)))
        picked = np.unravel_index(numbers, counts)
        yield np.stack([of[which] for of, which in zip(sizes, picked, strict=True)], axis=2)


def _sizes(units: int, ways: int) -> Ints:
    """The sizes of a dim on all levels, `[number, level]`, in register tiles."""
    return np.array(
        [
            (outer, middle, inner)
            for outer, share in enumerate(_shares(units, ways), 1)
            for middle in range(1, share + 1)
            for inner in range(1, middle + 1)
        ]
    )


def _shares(units: int, ways: int) -> list[int]:
    """What a core has at most of tiles of L3 of each size, of which so many `ways` share one."""
    return [-(-outer // ways) for outer in range(1, units + 1)]
