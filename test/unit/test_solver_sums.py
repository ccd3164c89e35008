"""Partial sums that wait outside of the output, against walks through all loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest

from mopt_mlir.machine import by_name
from mopt_mlir.model.classes import permutation_classes
from mopt_mlir.model.cost import predict
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import LEVELS, Plan
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.certified import certify, solve
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.space import choices
from mopt_mlir.solver.sums import waiting_sums

Loops = list[tuple[str, int]]
Box = dict[str, slice]


def boxes(loops: Loops, box: Box) -> Iterator[Box]:
    """The parts of `box` that the innermost loop is run for, in order."""
    if not loops:
        yield box
        return
    (dim, step), *inner = loops
    for start in range(box[dim].start, box[dim].stop, step):
        yield from boxes(inner, {**box, dim: slice(start, min(start + step, box[dim].stop))})


def shares(tile: Box, ways: dict[str, int]) -> list[Box]:
    """What each core gets of a tile that is divided evenly along some dims."""

    def part(dim: str, turn: int) -> slice:
        size = (tile[dim].stop - tile[dim].start) // ways[dim]
        start = tile[dim].start + turn * size
        return slice(start, start + size)

    turns = product(*map(range, ways.values()))
    return [tile | {d: part(d, turn) for d, turn in zip(ways, t, strict=True)} for t in turns]


def most_waiting(
    problem: Problem, loops: Loops, outermost: Sequence[tuple[str, int]] = (), **ways: int
) -> int:
    """Outputs, at most, that have some of their terms at a time and not all, if cores that share
    the outermost tiles go through theirs in step."""
    output = [dim for dim in problem.names if dim not in problem.reduction_dims]
    terms = np.zeros([problem.extent(dim) for dim in output], dtype=np.int64)
    complete = np.prod([problem.extent(dim) for dim in problem.reduction_dims])
    most = 0
    everything = {dim: slice(0, problem.extent(dim)) for dim in problem.names}
    for tile in boxes([*outermost], everything):
        for step in zip(*(boxes(loops, share) for share in shares(tile, ways)), strict=True):
            for box in step:
                size = [box[dim].stop - box[dim].start for dim in problem.reduction_dims]
                terms[tuple(box[dim] for dim in output)] += np.prod(size)
            most = max(most, int(((terms > 0) & (terms < complete)).sum()))
    return most


def sums(evaluate: Evaluator, tiling: Ints) -> bool:
    """Whether some of a tiling come from memory."""
    return bool(evaluate.sums(tiling[None], evaluate(tiling[None])).any())


def loops_of(plan: Plan) -> Loops:
    return [(dim, level.tile[dim]) for level in plan.levels for dim in level.order]


@pytest.mark.parametrize("ways", [{}, {"k": 2}, {"k": 3, "h": 2}])
def test_as_many_sums_wait_as_a_walk_through_the_loops_leaves(ways: dict[str, int]) -> None:
    problem = conv2d(k=6, h=4, w=5, c=4, r=2, s=1)
    classes, rng = permutation_classes(problem), np.random.default_rng(0)
    extents = np.array([problem.extent(dim) for dim in problem.names])
    sizes = np.array(
        [np.sort(rng.integers(1, extents + 1, (3, len(extents))), axis=0)[::-1] for _ in range(99)]
    )
    sizes[rng.random(sizes.shape) < 0.3] = 99  # often whole
    split = np.array([ways.get(dim, 1) for dim in problem.names])
    whole = rng.random(sizes[:, 0].shape) < 0.5
    sizes[:, 0] = np.where(split > 1, np.where(whole, extents, split), sizes[:, 0])
    sizes[:, 1:] = np.minimum(sizes[:, 1:], sizes[:, :1] // split)  # of a core's share
    sizes = np.minimum.accumulate(np.minimum(sizes, extents), axis=1)
    orders = rng.integers(0, len(classes), (len(sizes), 3))
    found = waiting_sums(problem, classes, sizes, orders, np.ones_like(split), split)
    for waiting, tiles, order in zip(found, sizes.tolist(), orders, strict=True):
        outermost, *inner = (
            [(dim, tile[problem.names.index(dim)]) for dim in classes[number].order]
            for tile, number in zip(tiles, order, strict=True)
        )
        assert waiting == most_waiting(problem, [*chain(*inner)], outermost, **ways)
    assert 0 in found
    assert len(set(found.tolist())) > 10


@pytest.mark.parametrize(
    ("problem", "bits", "grain"),
    [
        (conv2d(k=256, h=14, w=14, c=128, r=1, s=1, stride=(2, 2)), 512, 64),
        (conv2d(k=1152, h=7, w=7, c=192, r=1, s=1), 512, 96),
        (conv2d(k=512, h=7, w=7, c=512, r=3, s=3), 256, 512),  # both sizes change, by a lot
    ],
)
def test_of_plans_that_cost_the_same_few_sums_wait(problem: Problem, bits: int, grain: int) -> None:
    """No other order and tile of L2, in channels that are multiples of `grain` or whole, costs at
    most as much and has fewer sums."""
    registers = {512: 32, 256: 16}[bits]
    machine = replace(by_name("znver5"), vector_bits=bits, vector_registers=registers)
    plan = solve(problem, machine, 1)
    assert plan.prediction is not None
    kernel, (l3, l2, l1) = plan.microkernel, plan.levels
    assert not problem.output.runs_along(kernel.lanes)
    waiting = most_waiting(problem, loops_of(plan))
    tried = 0
    channels = {l1.tile["k"], *range(grain, problem.extent("k") + 1, grain)}
    parts = {l1.tile["c"], *range(grain, problem.extent("c") + 1, grain)}
    for k, c, cls in product(channels, parts, permutation_classes(problem)):
        sizes = {"k": k, "c": c}
        if any(min(n % l1.tile[dim], problem.extent(dim) - n) for dim, n in sizes.items()):
            continue
        level = replace(l2, order=cls.order, tile={**l2.tile, **sizes})
        other = replace(plan, levels=(l3, level, l1))
        full = cache_bytes(problem, machine, "L2", level.tile, panels=plan.packing != "none")
        if sum(full.values()) > usable(machine, "L2"):
            continue
        if predict(problem, machine, other).cost <= plan.prediction.cost:
            tried += 1
            assert most_waiting(problem, loops_of(other)) >= waiting
    assert tried > 1


def test_sums_in_the_output_are_not_counted_twice() -> None:
    """Where vectors run along its rows, the output holds the sums, and its volume says so."""
    problem, machine = conv2d(k=64, h=28, w=28, c=64, r=3, s=3), by_name("znver5")
    options = choices(problem, machine, 1, constant_weights=False)
    for lanes, waits in (("w", False), ("k", True)):
        choice = next(choice for choice in options if choice.kernel.lanes == lanes)
        evaluate = Evaluator(problem, machine, choice)
        tiling = np.stack([evaluate.units] * len(LEVELS))
        assert not sums(evaluate, tiling)
        tiling[1:, problem.names.index("c")] = 1
        assert sums(evaluate, tiling) == waits
        tiling[1], tiling[2] = (
            evaluate.units,
            1,
        )  # one register tile, which runs through its reduction in one go
        assert not sums(evaluate, tiling)


def test_fewer_sums_leave_the_bound_below_the_cost() -> None:
    problem, machine = conv2d(k=1152, h=7, w=7, c=192, r=1, s=1), by_name("znver5")
    found = certify(problem, machine, 1, constant_weights=False, gap=0.005, time_limit=5.0)
    assert found.bound <= found.cost <= (1 + 0.005) * found.bound * (1 + 1e-6)
