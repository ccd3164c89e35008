"""Where partial sums lie: each register tile has its own memory, in the order of the loops."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest

from mopt_mlir import conv2d
from mopt_mlir.codegen.partials import SumsLayout
from mopt_mlir.loop_nest import Loop
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem

PROBLEM = conv2d(n=3, k=70, h=11, w=13, c=6, r=3, s=3)
KERNEL = Microkernel(lanes="k", vector=16, tile={"k": 32, "w": 5}, reduction=("c", "r", "s"))


def random_loops(rng: random.Random, problem: Problem, kernel: Microkernel) -> list[Loop]:
    """Loops in any order, some dims twice, down to register tiles."""
    left = dict(problem.extents)
    dims = [dim for dim in problem.names for _ in range(rng.randint(0, 2))]
    rng.shuffle(dims)
    loops = []
    for dim in (*dims, *problem.parallel_dims):
        unit = kernel.extent(dim)
        inner = len(loops) >= len(dims)
        step = unit if inner else unit * rng.randint(1, max(1, left[dim] // unit))
        if step < left[dim]:
            loops.append(Loop(dim, f"{len(loops)}", left[dim], step))
            left[dim] = step
    return loops


def walk(
    problem: Problem, layout: SumsLayout, loops: Sequence[Loop]
) -> Iterator[tuple[tuple[int, ...], Mapping[str, int], int]]:
    """The register tiles in the order in which `loops` come to them: where each loop is, where the
    tile begins, and where its sums do. (The ends of outer tiles cut inner ones short.)"""

    def inside(
        path: tuple[int, ...], start: dict[str, int], ends: dict[str, int], at: int
    ) -> Iterator[tuple[tuple[int, ...], Mapping[str, int], int]]:
        if len(path) == len(loops):
            yield path, start, at
            return
        loop = loops[len(path)]
        begin, end = start[loop.dim], ends[loop.dim]
        for here in range(begin, end, loop.step):
            moved = (here - begin) * layout.steps.get(loop.name, 0)
            tile = {**ends, loop.dim: min(here + loop.step, end)}
            yield from inside((*path, here), {**start, loop.dim: here}, tile, at + moved)

    yield from inside((), dict.fromkeys(problem.names, 0), dict(problem.extents), 0)


@pytest.mark.parametrize("seed", range(40))
def test_each_register_tile_has_its_own(seed: int) -> None:
    """In one run through what is inside of the loop that splits the reduction: no two register
    tiles share an element, all are vectors of the memory, and later ones lie further on."""
    loops = random_loops(random.Random(seed), PROBLEM, KERNEL)
    layout = SumsLayout.of(PROBLEM, KERNEL, loops)
    splits = [loop for loop in loops if loop.dim in PROBLEM.reduction_dims]
    if not splits:
        assert layout is None
        return
    assert layout is not None
    assert layout.loop == splits[0]
    outside = loops.index(layout.loop)
    sums = KERNEL.extent("k") * KERNEL.extent("w")
    places: dict[tuple[int, ...], int] = {}
    runs: dict[tuple[int, ...], list[int]] = {}
    for path, start, at in walk(PROBLEM, layout, loops):
        tile = tuple(start[dim] for dim in PROBLEM.parallel_dims)
        assert places.setdefault(tile, at) == at  # the same in each visit
        run = runs.setdefault(path[:outside], [])
        if at not in run:
            run.append(at)
    for run in runs.values():
        assert all(later - earlier >= sums for earlier, later in pairwise(run))
        assert all(at % KERNEL.vector == 0 for at in run)
        assert run[0] >= 0
        assert run[-1] + sums <= layout.size


def test_the_next_register_tile_is_next_in_memory() -> None:
    """Of loops over pixels in strips: behind the last tile of a row of a strip comes the first one
    of the next row."""
    loops = [
        Loop("c", "L1", 6, 3),
        Loop("w", "L1", 13, 10),
        Loop("h", "L1", 11, 1),
        Loop("w", "register", 10, 5),
    ]
    problem = conv2d(k=32, h=11, w=13, c=6, r=3, s=3)
    layout = SumsLayout.of(problem, KERNEL, loops)
    assert layout is not None
    found = list(dict.fromkeys(at for _, _, at in walk(problem, layout, loops)))
    assert found[:23] == [number * layout.tile for number in range(23)]
    assert layout.tile == KERNEL.extent("k") * KERNEL.extent("w")
