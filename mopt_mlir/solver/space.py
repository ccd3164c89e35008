"""The design space: microkernels times ways to split the work between cores, with a quick bound.

A *choice* fixes both; what is left to decide are tiles, loop orders and packing. The tiles of a
choice are whole multiples of its register tile (or the whole extent), so that the work of the
registers does not depend on the tiles, except for how often the reduction is interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import MEMORY, OUTPUT_PASSES, PACK_CYCLES, TIE_BREAK, Rates
from mopt_mlir.model.footprint import axes
from mopt_mlir.model.microkernel import (
    RegisterWork,
    TileKind,
    count_register_tiles,
    menu,
    needs_panels,
    register_work,
    tile_kinds,
)
from mopt_mlir.plan import Microkernel
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class Choice:
    """A microkernel and a split of the outermost tile between cores.

    `units[dim]` is the number of register tiles along `dim` (of elements, where the register tile
    has none), `covered[dim]` the least number of elements along it that the busiest core visits
    whatever the tiles, `work` that core's register work for `covered`, `bound` a lower bound on the
    objective in seconds. `packed` says whether the kernel reads panels, `packs` whether they are
    made at run time.
    """

    kernel: Microkernel
    parallel: Mapping[str, int]
    units: Mapping[str, int]
    covered: Mapping[str, int]
    kinds: tuple[TileKind, ...]
    work: RegisterWork
    rates: Rates
    packed: bool
    packs: bool
    bound: float

    @property
    def free_packing(self) -> str:
        """The packing of a choice that spends no time on it: weights that are read where they are
        or were packed at compile time."""
        return "whole" if self.packed else "none"

    def unit(self, dim: str) -> int:
        return self.kernel.extent(dim)

    def ways(self, dim: str) -> int:
        return self.parallel.get(dim, 1)


def choices(
    problem: Problem, machine: Machine, threads: int, *, constant_weights: bool
) -> list[Choice]:
    """Every choice for `problem`, the most promising first."""
    found = []
    once = _Once(problem)
    for kernel in menu(problem, machine):
        packs = needs_panels(problem, kernel) and not constant_weights
        packed = packs or (constant_weights and kernel.lanes not in problem.input.dims)
        kinds = tile_kinds(problem, machine, kernel, panels=packed)
        units = {d: -(-problem.extent(d) // kernel.extent(d)) for d in problem.names}
        for ways in splits(tuple(units[dim] for dim in problem.parallel_dims), threads):
            parallel = {d: n for d, n in zip(problem.parallel_dims, ways, strict=True) if n > 1}
            covered = {
                d: least_covered(problem.extent(d), kernel.extent(d), parallel.get(d, 1))
                for d in problem.names
            }
            work = register_work(
                kinds,
                {
                    d: count_register_tiles(covered[d], kernel.extent(d), problem.extent(d))
                    for d in problem.parallel_dims
                },
            )
            rates = Rates.of(machine, prod(ways))
            bound = once.bound(covered, work, rates, packs)
            found.append(
                Choice(kernel, parallel, units, covered, kinds, work, rates, packed, packs, bound)
            )
    return sorted(found, key=lambda choice: choice.bound)


@lru_cache(maxsize=1024)
def splits(units: tuple[int, ...], threads: int) -> tuple[tuple[int, ...], ...]:
    """The ways per dim in which at most `threads` cores can share `units` work items per dim.

    The design space has those splits whose largest share no other split undercuts in one dim and
    matches in the others; each occupies no more cores than its shares need.
    """
    found = list(dict.fromkeys(_maximal_ways(units, threads)))
    shares = np.array([[-(-n // w) for n, w in zip(units, ways, strict=True)] for ways in found])
    return tuple(
        ways
        for ways, share in zip(found, shares, strict=True)
        if not ((shares <= share).all(axis=1) & (shares < share).any(axis=1)).any()
    )


def _maximal_ways(units: tuple[int, ...], most: int) -> Iterator[tuple[int, ...]]:
    """Splits between at most `most` cores, the last dim as finely as the others leave room for."""
    if not units:
        yield ()
        return
    # The fewest ways for each possible share: one more core that shortens no share is idle.
    shares = dict.fromkeys(-(-units[0] // ways) for ways in range(1, min(units[0], most) + 1))
    useful = [-(-units[0] // share) for share in shares]
    for ways in useful if len(units) > 1 else useful[-1:]:
        for rest in _maximal_ways(units[1:], most // ways):
            yield (ways, *rest)


@lru_cache(maxsize=4096)
def least_covered(extent: int, unit: int, ways: int) -> int:
    """The fewest points of a dim of `extent` that the first core visits, whatever the outermost
    tile, where each is shared `ways` ways in register tiles of `unit` points. No other core visits
    more than the first."""
    if ways == 1:
        return extent
    tiles = np.arange(1, -(-extent // unit) + 1)
    sizes, shares = np.minimum(tiles * unit, extent), -(-tiles // ways) * unit
    full, rest = np.divmod(extent, sizes)
    return int((full * np.minimum(shares, sizes) + np.minimum(shares, rest)).min())


class _Once:
    """Bounds for a problem in which every tensor moves once through each level."""

    def __init__(self, problem: Problem) -> None:
        passes = (1, 1, OUTPUT_PASSES)
        self.axes = tuple(axes(problem, tensor) for tensor in problem.tensors)
        self.sizes = tuple(tensor.element.size for tensor in problem.tensors)
        self.bytes = tuple(n * size for n, size in zip(passes, self.sizes, strict=True))
        self.moved = self._moved(problem.extents)
        weights = prod(axis.extent(problem.extents) for axis in self.axes[1])
        self.pack_cycles = weights * PACK_CYCLES

    def _moved(self, points: Mapping[str, int]) -> int:
        return sum(
            size * prod(axis.extent(points) for axis in row)
            for size, row in zip(self.bytes, self.axes, strict=True)
        )

    def bound(
        self, covered: Mapping[str, int], work: RegisterWork, rates: Rates, packs: bool
    ) -> float:
        """Seconds that no plan undercuts which covers these points on the busiest core: each output
        tile is visited once, every element moved once through each level and packed once."""
        mine = self._moved(covered)
        elements = (work.input, work.weights, work.output + work.output_per_visit)
        registers = sum(n * size for n, size in zip(elements, self.sizes, strict=True))
        moved = {"L1": registers, "L2": mine, "L3": mine, "DRAM": self.moved}
        cycles = work.cycles + work.cycles_per_visit
        if packs:
            cycles += self.pack_cycles / rates.cores
        times = [moved[name] / rates.bytes[name] for name in MEMORY]
        times.append(cycles / rates.cycles)
        return max(times) + TIE_BREAK * sum(times)
