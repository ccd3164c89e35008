"""Local search over the integer tiles of one choice: where good plans come from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import inf
from time import perf_counter

import numpy as np

from mopt_mlir.model.cost import EXPOSED
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.evaluate import Costs, Evaluator

OVERFLOW_WEIGHT = 4.0
"""A tiling that overflows a cache is worth less by this factor times the overflow, so that the
search can start from tiles that are too large and shrink them."""

LOOP_WEIGHT = 5e-5
"""Relative cost of one more loop that iterates: among equals, the plan with the simplest code."""

STEPS = 3
"""How far a move of two dims goes in each one's list of useful sizes."""

MAX_MOVES = 60
"""A descent takes about ten moves; this only makes sure that it ends."""

EXCHANGED = 16
"""Sizes of each dim that an exchange tries, at most."""

MOST_SIZES = 600
"""Of more useful sizes, as only dims of some ninety thousand register tiles have, moves of one dim
go to so many, evenly spread; moves of two dims reach those between."""


@dataclass(frozen=True)
class Found:
    """A tiling that fits: what it costs in seconds, and the cost by which the search compares."""

    tiling: Ints
    cost: float
    penalised: float


def descend(evaluate: Evaluator, start: Ints, deadline: float = inf) -> Found | None:
    """The best tiling on the way from `start` to a local optimum, changing one or two sizes at a
    time. None if no tiling on the way fits. After the `deadline` (of `perf_counter`) the first that
    fits is enough."""
    found = None
    current, value = start, inf
    candidates = start[None]
    for _ in range(MAX_MOVES):
        if found is not None and perf_counter() > deadline:
            break
        for across_levels in (False, True):
            if value < inf:
                candidates = moves(evaluate, current, across_levels=across_levels)
            costs = evaluate(candidates)
            penalised = penalised_cost(costs)
            found = _better(found, candidates, costs, penalised)
            best = int(np.argmin(penalised))
            if penalised[best] < value * (1 - 1e-9):
                break
        else:
            break
        current, value = candidates[best], float(penalised[best])
    return found


def moves(evaluate: Evaluator, tiling: Ints, *, across_levels: bool = False) -> Ints:
    """Tilings that differ from `tiling` in one size, or in two, one up and one down: of one level,
    or else of two levels."""
    return evaluate.nest(_neighbours(evaluate.useful, tiling, across_levels=across_levels))


def with_fewer_sums(evaluate: Evaluator, found: Found, deadline: float = inf) -> Found:
    """The tiling that costs no more than `found`, of those that a step or an exchange leads to, of
    which partial sums take least from memory: the objective counts the least that any order of
    loops leaves, not what these do. After the `deadline` (of `perf_counter`) it is what it is."""
    own = found.tiling[None]
    if not evaluate.sums(own, evaluate(own)).any():
        return found
    for _ in range(MAX_MOVES):
        if perf_counter() > deadline:
            break
        near = moves(evaluate, found.tiling), exchanges(evaluate, found.tiling)
        tilings = np.concatenate([found.tiling[None], *near])
        costs = evaluate(tilings)
        penalised, sums = penalised_cost(costs), evaluate.sums(tilings, costs)
        allowed = (costs.overflow <= 1) & (costs.cost <= found.cost)
        best = int(np.argmin(np.where(allowed, penalised + EXPOSED["DRAM"] * sums, inf)))
        if best == 0:
            break
        found = Found(tilings[best], float(costs.cost[best]), float(penalised[best]))
    return found


def exchanges(evaluate: Evaluator, tiling: Ints) -> Ints:
    """Tilings that differ from `tiling` in the sizes of an output dim and a reduction dim, both at
    one of the outer levels, however far: which of the two loops is the outer one is often all the
    same to caches, but not to sums that wait."""
    problem, sizes = evaluate.problem, [_some(sizes) for sizes in evaluate.useful]
    at = {dim: index for index, dim in enumerate(problem.names) if problem.extent(dim) > 1}
    reduction = [at[dim] for dim in problem.reduction_dims if dim in at]
    output = [index for dim, index in at.items() if dim not in problem.reduction_dims]
    pairs = [
        ((level, a, x), (level, b, y))
        for level, a, b in product(range(len(tiling) - 1), output, reduction)
        for x, y in product(sizes[a], sizes[b])
    ]
    still = (0, 0, int(tiling[0, 0]))
    return evaluate.nest(_apply(tiling, np.array(pairs or [(still, still)], dtype=np.int64)))


def _some(sizes: Ints) -> list[int]:
    """All of few sizes; of many as many, evenly spread."""
    return [int(size) for size in sizes[:: -(-len(sizes) // EXCHANGED)]]


def penalised_cost(costs: Costs) -> Floats:
    """What the search minimises: the cost, made worse by overflow and by loops."""
    excess = np.maximum(0.0, costs.overflow - 1)
    penalty = np.where(excess > 0, 1 + OVERFLOW_WEIGHT * excess, 1.0)
    return np.asarray(costs.cost * penalty * (1 + LOOP_WEIGHT * costs.loops))


def _better(found: Found | None, tilings: Ints, costs: Costs, penalised: Floats) -> Found | None:
    """`found`, or the best of `tilings` that fits if that is better."""
    fitting = np.where(costs.overflow <= 1, penalised, inf)
    best = int(np.argmin(fitting))
    if fitting[best] < (found.penalised if found else inf):
        return Found(tilings[best], float(costs.cost[best]), float(fitting[best]))
    return found


def _neighbours(lists: list[Ints], current: Ints, *, across_levels: bool) -> Ints:
    levels, dims = current.shape
    still = (0, 0, int(current[0, 0]))
    moves: list[tuple[tuple[int, int, int], tuple[int, int, int]]] = []
    steps: list[tuple[int, int, list[int], list[int]]] = []
    for level, dim in product(range(levels), range(dims)):
        sizes, size = lists[dim], current[level, dim]
        if len(sizes) == 1:
            continue
        at = int(np.searchsorted(sizes, size))
        smaller, larger = sizes[:at].tolist(), sizes[at + int(sizes[at] == size) :].tolist()
        every = -(-len(sizes) // MOST_SIZES)
        moves += (((level, dim, to), still) for to in smaller[::-every][::-1] + larger[::every])
        steps.append((level, dim, smaller[-STEPS:], larger[:STEPS]))
    for (la, a, down_a, up_a), (lb, b, down_b, up_b) in combinations(steps, 2):
        if (la != lb) == across_levels:
            trades = (*product(down_a, up_b), *product(up_a, down_b))
            moves += (((la, a, x), (lb, b, y)) for x, y in trades)
    return _apply(current, np.array(moves or [(still, still)], dtype=np.int64))


def _apply(current: Ints, moves: Ints) -> Ints:
    """`current` with the sizes of each move set; outer tiles grow and inner ones shrink with it."""
    tilings = np.repeat(current[None], len(moves), axis=0)
    row = np.arange(len(moves))
    for level, dim, size in moves.transpose(1, 2, 0):
        for index in range(len(current)):
            old = tilings[row, index, dim]
            grown, shrunk = np.maximum(old, size), np.minimum(old, size)
            new = np.where(index < level, grown, np.where(index > level, shrunk, size))
            tilings[row, index, dim] = new
    return tilings
