"""The solver against plain enumeration of every plan of tiny problems.

The enumeration shares no formula with the solver: it cuts the iteration space into tiles, counts
what they touch element by element and tries every order of the loops. Only the cycles of a single
register tile are taken from the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from math import prod

import pytest

from mopt_mlir.machine import Cache, Machine
from mopt_mlir.model.cost import PACK_CYCLES, TIE_BREAK
from mopt_mlir.model.microkernel import menu, tile_kinds
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import LinearForm, Problem, Tensor, conv2d
from mopt_mlir.solver import solve

Span = tuple[int, int]
Spans = tuple[Span, ...]
LEVEL_NAMES = ("L3", "L2", "L1")


def machine(l1: int, speed: float, registers: int = 8) -> Machine:
    """Caches that hold little, and memory `speed` times as fast as it takes to feed the FMAs."""
    return Machine(
        name="tiny",
        cpu="x86-64",
        cores=2,
        frequency=1.0,
        vector_bits=256,
        vector_registers=registers,
        fma_per_cycle=2,
        loads_per_cycle=2,
        fma_latency=4,
        caches=(
            Cache("L1", l1, 64, 8, False, 60 * speed, 120 * speed),
            Cache("L2", 2 * l1, 64, 8, False, 12 * speed, 24 * speed),
            Cache("L3", 4 * l1, 64, 8, True, 6 * speed, 8 * speed),
        ),
        dram_bandwidth=3 * speed,
        dram_bandwidth_all=4 * speed,
    )


def cut(spans: Spans, size: int) -> Spans:
    return tuple((s, min(s + size, end)) for start, end in spans for s in range(start, end, size))


@dataclass(frozen=True)
class Cuts:
    """How one dim is cut: tile sizes per level, what each is cut from (`outer`), and the tiles of
    all cores (L3) and of the first one."""

    sizes: tuple[int, int, int]
    outer: tuple[int, int, int]
    everything: tuple[Spans, Spans]
    mine: tuple[Spans, Spans, Spans, Spans]

    def at(self, level: int, outer: bool) -> Spans:
        if level == 0:
            return self.everything[0 if outer else 1]
        return self.mine[level if outer else level + 1]


def all_cuts(extent: int, unit: int, ways: int) -> list[Cuts]:
    """Every way to cut a dim of `extent` into tiles that are multiples of `unit` or all of it."""
    found = []
    allowed = [size for size in range(1, extent + 1) if size % unit == 0 or size == extent]
    for l3 in allowed:
        share = l3 if ways == 1 else -(-l3 // (ways * unit)) * unit
        tiles = cut(((0, extent),), l3)
        first = tuple((start, min(start + share, end)) for start, end in tiles)
        for l2 in (size for size in allowed if size <= share):
            for l1 in (size for size in allowed if size <= l2):
                inner = cut(first, l2)
                found.append(
                    Cuts(
                        (l3, l2, l1),
                        (extent, min(share, l3), l2),
                        (((0, extent),), tiles),
                        (((0, extent),), first, inner, cut(inner, l1)),
                    )
                )
    return found


@cache
def touched(form: LinearForm, spans: tuple[tuple[str, Spans], ...]) -> int:
    """Distinct elements of an axis per tile, summed over all combinations of tiles."""
    dims = [dim for dim, _ in form.terms]
    cuts = dict(spans)
    return sum(
        len(
            {
                sum(c * v for (_, c), v in zip(form.terms, point, strict=True))
                for point in product(*(range(*span) for span in tile))
            }
        )
        for tile in product(*(cuts[dim] for dim in dims))
    )


class Enumeration:
    def __init__(self, problem: Problem, machine: Machine, threads: int, constant: bool) -> None:
        self.problem, self.machine, self.threads = problem, machine, threads
        self.constant = constant
        self.moving = [dim for dim in problem.names if problem.extent(dim) > 1]

    def best(self) -> float:
        """The least cost of any plan in seconds."""
        return min(
            self.cost(kernel, parallel, cuts)
            for kernel in menu(self.problem, self.machine)
            for parallel in self.splits(kernel)
            for cuts in self.tilings(kernel, parallel)
        )

    def splits(self, kernel: Microkernel) -> list[dict[str, int]]:
        tiles = {d: -(-self.problem.extent(d) // kernel.extent(d)) for d in self.moving}
        every = [{d: 2} for d in self.problem.parallel_dims if tiles.get(d, 1) > 1]
        return every if self.threads == 2 and every else [{}]

    def tilings(
        self, kernel: Microkernel, parallel: Mapping[str, int]
    ) -> Iterator[dict[str, Cuts]]:
        options = [
            all_cuts(self.problem.extent(dim), kernel.extent(dim), parallel.get(dim, 1))
            for dim in self.problem.names
        ]
        for cuts in product(*options):
            tiling = dict(zip(self.problem.names, cuts, strict=True))
            if all(self.fits(level, tiling) for level in range(3)):
                yield tiling

    def fits(self, level: int, tiling: Mapping[str, Cuts]) -> bool:
        tile = {dim: ((0, cuts.sizes[level]),) for dim, cuts in tiling.items()}
        size = sum(4 * self.elements(tensor, tile) for tensor in self.problem.tensors)
        cache = self.machine.cache(LEVEL_NAMES[level])
        return size <= self.machine.capacity_factor * cache.size

    def elements(self, tensor: Tensor, spans: Mapping[str, Spans]) -> int:
        return prod(
            touched(axis, tuple((dim, spans[dim]) for dim, _ in axis.terms)) for axis in tensor.axes
        )

    def moves(
        self, level: int, tiling: Mapping[str, Cuts]
    ) -> set[tuple[int, int, int, frozenset[str]]]:
        """Elements of input, weights, output that enter the tiles of a level, and the loops inside
        the output's, for every order of the loops that iterate."""
        live = [d for d in self.moving if tiling[d].sizes[level] < tiling[d].outer[level]]
        return {self.moved(level, tiling, order) for order in permutations(live)}

    def moved(
        self, level: int, tiling: Mapping[str, Cuts], order: Sequence[str]
    ) -> tuple[int, int, int, frozenset[str]]:
        amounts: list[int] = []
        inside: list[str] = []
        for tensor in self.problem.tensors:
            inside, innermost = [], None
            for dim in reversed(order):
                if dim in tensor.dims:
                    innermost = dim
                    break
                inside.append(dim)
            slides = {d for axis in tensor.axes if len(axis.terms) > 1 for d in axis.dims}
            overlap = innermost if innermost in slides else None
            repeats = prod(
                len(tiling[dim].at(level, dim in inside))
                for dim in self.problem.names
                if dim not in tensor.dims
            )
            spans = {dim: tiling[dim].at(level, dim == overlap) for dim in tensor.dims}
            amounts.append(repeats * self.elements(tensor, spans))
        return amounts[0], amounts[1], 2 * amounts[2], frozenset(inside)

    def cost(
        self, kernel: Microkernel, parallel: Mapping[str, int], tiling: Mapping[str, Cuts]
    ) -> float:
        strided = kernel.lanes == "k" and not self.problem.weights.runs_along("k")
        places: tuple[str, ...] = ("whole", *LEVEL_NAMES)
        if self.constant or not strided:
            places = ("none",)
        panels = strided or (self.constant and kernel.lanes == "k")
        registers = self.register_work(kernel, tiling, panels)
        return min(
            self.total(kernel, parallel, tiling, registers, orders, place)
            for orders in product(*(self.moves(level, tiling) for level in range(3)))
            for place in places
        )

    def register_work(
        self, kernel: Microkernel, tiling: Mapping[str, Cuts], panels: bool
    ) -> list[float]:
        kinds = tile_kinds(self.problem, self.machine, kernel, panels=panels)
        work_of = {kind.partial: kind.work for kind in kinds}
        starts = [
            cut(tiling[dim].mine[1], kernel.extent(dim)) for dim in self.problem.parallel_dims
        ]
        total = [0.0] * 6
        for tile in product(*starts):
            partial = frozenset(
                dim
                for dim, (start, end) in zip(self.problem.parallel_dims, tile, strict=True)
                if end - start < min(kernel.extent(dim), self.problem.extent(dim))
            )
            total = [a + b for a, b in zip(total, work_of[partial], strict=True)]
        return total

    def total(
        self,
        kernel: Microkernel,
        parallel: Mapping[str, int],
        tiling: Mapping[str, Cuts],
        registers: Sequence[float],
        orders: Sequence[tuple[int, int, int, frozenset[str]]],
        place: str,
    ) -> float:
        cores = prod(parallel.values())
        single = all(tiling[d].sizes[2] <= kernel.extent(d) for d in self.problem.parallel_dims)
        streams = orders[2][3] if single and place != "L1" else frozenset()
        visits = prod(len(tiling[d].at(2, d in streams)) for d in self.problem.reduction_dims)
        cycles, each, read, weights, output, again = registers
        cycles += each * visits
        moved = {
            "L1": read + weights + output + again * visits,
            **{
                name: sum(order[:3])
                for name, order in zip(("DRAM", "L3", "L2"), orders, strict=True)
            },
        }
        passed = {"none": (), "whole": ("L1", "L2", "L3", "DRAM"), "L3": ("L1", "L2", "L3")}
        passed |= {"L2": ("L1", "L2"), "L1": ("L1",)}
        if place != "none":
            packed = self.elements(
                self.problem.weights, {d: ((0, e),) for d, e in self.problem.extents.items()}
            )
            if place != "whole":
                packed = orders[LEVEL_NAMES.index(place)][1]
            mine = packed / cores if place in ("whole", "L3") else packed
            cycles += PACK_CYCLES * mine
            for name in passed[place]:
                moved[name] += 2 * (packed if name == "DRAM" else mine)
        return self.objective(cycles, moved, cores)

    def objective(self, cycles: float, moved: Mapping[str, float], cores: int) -> float:
        machine = self.machine
        rates = {
            cache.name: min(cache.bandwidth, cache.bandwidth_all / cores)
            for cache in machine.caches
        }
        rates["DRAM"] = min(machine.dram_bandwidth * cores, machine.dram_bandwidth_all)
        times = [cycles / (machine.frequency * 1e9)]
        times += [4 * amount / (rates[name] * 1e9) for name, amount in moved.items()]
        return max(times) + TIE_BREAK * sum(times)


@pytest.mark.parametrize("speed", [0.2, 4.0], ids=["memory-bound", "compute-bound"])
@pytest.mark.parametrize(
    ("sizes", "options", "threads", "constant"),
    [
        ({"k": 12, "h": 1, "w": 5, "c": 1, "r": 1, "s": 3}, {}, 1, False),
        ({"k": 9, "h": 1, "w": 4, "c": 5, "r": 1, "s": 1}, {}, 2, False),
        ({"k": 1, "h": 4, "w": 3, "c": 1, "r": 3, "s": 1}, {}, 2, True),
        ({"k": 17, "h": 1, "w": 4, "c": 1, "r": 1, "s": 3}, {"stride": 2}, 2, False),
        ({"k": 10, "h": 3, "w": 1, "c": 4, "r": 2, "s": 1}, {"layout": "nhwc"}, 1, False),
        ({"k": 16, "h": 1, "w": 4, "c": 4, "r": 1, "s": 1}, {"weights": "hwcf"}, 2, False),
    ],
)
def test_the_optimum_is_found_and_bounded(
    sizes: dict[str, int], options: dict[str, int], threads: int, constant: bool, speed: float
) -> None:
    problem = conv2d(**sizes, **options)
    target = machine(600, speed)
    best = Enumeration(problem, target, threads, constant).best()
    plan = solve(problem, target, threads, constant_weights=constant, gap=0.002)
    plan.check(problem)
    assert plan.prediction is not None
    assert plan.prediction.lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= plan.prediction.cost <= best * 1.002
    assert plan.prediction.gap <= 0.01
