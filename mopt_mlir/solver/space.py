"""The design space: microkernels times ways to split the work between cores, with a quick bound.

A *choice* fixes both; what is left to decide are tiles, loop orders and packing. The tiles of a
choice are whole multiples of its register tile (or the whole extent), so that the work of the
registers does not depend on the tiles, except for how often the reduction is interrupted. Where
weights are packed at run time, tiles of the outermost reduction loop are such that packing reads
whole vectors, as what is left over of a vector is dear. They are packed at a level only if its
tiles span all other reduction dims (`whole_to_pack`): else they would be copied one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import (
    FILLED_FROM,
    MEMORY,
    PARALLEL_START,
    can_stream,
    exposed_parts,
)
from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.model.menu import menu
from mopt_mlir.model.microkernel import RegisterWork, TileKind, tile_kinds
from mopt_mlir.model.packing import PACK_CYCLES
from mopt_mlir.model.rates import OUTPUT_PASSES, Rates
from mopt_mlir.model.room import line_axes
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.axis_bounds import least, of_tile
from mopt_mlir.vector_access import is_transposed, needs_panels

MOST_TILES = 1 << 16
"""Of more register tiles along a dim it does not matter exactly how many a core gets."""


@dataclass(frozen=True)
class Choice:
    """A microkernel and a split of the outermost tile between cores.

    `extents` are those of the problem, `units[dim]` is the number of register tiles along `dim` (of
    elements, where the register tile has none), `covered[dim]` the least number of elements along
    it that the busiest core visits whatever the tiles, `grain[dim]` what tile sizes along a
    reduction dim are multiples of (1 if it is absent), `work` that core's register work for
    `covered`, `bound` a lower bound on the objective in seconds. `reads_panels` says whether the
    kernel reads weights from panels, `packs` whether these are made at run time, `streams` whether
    there may be non-temporal stores of the output.
    """

    kernel: Microkernel
    parallel: Mapping[str, int]
    extents: Mapping[str, int]
    units: Mapping[str, int]
    covered: Mapping[str, int]
    kinds: tuple[TileKind, ...]
    work: RegisterWork
    rates: Rates
    reads_panels: bool
    packs: bool
    streams: bool
    grain: Mapping[str, int]
    bound: float

    @property
    def written(self) -> float:
        """How many times as long as reading it from memory it takes to write the output there, at
        least."""
        written, streamed = self.rates.write_passes, self.rates.stream_passes
        return min(written, streamed) if self.streams else written

    @property
    def start(self) -> float:
        """Seconds to hand work to the cores, once."""
        return PARALLEL_START if self.rates.cores > 1 else 0.0

    @property
    def free_packing(self) -> str:
        """The packing of a choice that spends no time on it: weights that are read where they are
        or were packed at compile time."""
        return "whole" if self.reads_panels else "none"

    def unit(self, dim: str) -> int:
        """Of what tile sizes along `dim` are multiples, if they are not the whole extent."""
        return self.kernel.extent(dim) * self.grain.get(dim, 1)

    def step(self, dim: str) -> int:
        """The elements by which tiles of a dim grow, or its whole extent if that is less."""
        return min(self.unit(dim), self.extents[dim])

    def ways(self, dim: str) -> int:
        return self.parallel.get(dim, 1)


def works(problem: Problem, choice: Choice, covered: Ints) -> Floats:
    """The fields of `RegisterWork` (rows) of a core that covers so many points along each dim of
    `problem` (`[..., dim]`)."""
    units = [min(choice.unit(dim), problem.extent(dim)) for dim in problem.names]
    whole, rest = np.divmod(covered, units)
    found = np.zeros((len(RegisterWork._fields), len(covered)))
    for kind in choice.kinds:
        number = np.ones(len(covered))
        for dim in problem.parallel_dims:
            at = problem.names.index(dim)
            number = number * (rest[:, at] > 0 if dim in kind.partial else whole[:, at])
        found += np.array(kind.work)[:, None] * number
    return found


def shares(problem: Problem, choice: Choice, along: str | None = None) -> tuple[Ints, Floats]:
    """What the busiest core may cover (`[..., dim]`), and its `works`, among which is the least of
    each field. These do not always grow with it: a whole register tile may be stored faster than
    the part of one. Along `along` it is all that there is, along other dims the least and the most
    with and without a part, as works are linear in the number of whole register tiles."""
    if not choice.parallel:
        return np.array([[*problem.extents.values()]]), np.array(choice.work)[:, None]
    points = [
        [problem.extent(dim)]
        if choice.ways(dim) == 1
        else np.unique(covered_points(problem.extent(dim), choice.unit(dim), choice.ways(dim)))
        if dim == along
        else _extremes(problem.extent(dim), choice.unit(dim), choice.ways(dim))
        for dim in problem.names
    ]
    covered = np.stack([grid.ravel() for grid in np.meshgrid(*points, indexing="ij")], axis=1)
    return covered, works(problem, choice, covered)


def choices(
    problem: Problem, machine: Machine, threads: int, *, constant_weights: bool
) -> list[Choice]:
    """Every choice for `problem`, the most promising first. Raises ValueError for fewer `threads`
    than one, or more than there are cores."""
    if threads < 1:
        raise ValueError(f"threads is {threads}; at least one is needed")
    if threads > machine.cores:
        raise ValueError(f"threads is {threads}; '{machine.name}' has {machine.cores} cores")
    found = []
    once = _Once(problem, machine)
    kernels = [
        (kernel, *reading)
        for kernel in menu(problem, machine)
        for reading in _readings(problem, kernel, constant_weights)
    ]
    for kernel, reads_panels, packs in kernels:
        kinds = tile_kinds(problem, machine, kernel, panels=reads_panels)
        grain = _grain(problem, kernel) if packs else {}
        units = {
            d: -(-problem.extent(d) // (kernel.extent(d) * grain.get(d, 1))) for d in problem.names
        }
        for ways in splits(tuple(units[dim] for dim in problem.parallel_dims), threads):
            parallel = {d: n for d, n in zip(problem.parallel_dims, ways, strict=True) if n > 1}
            covered = {
                d: least_covered(problem.extent(d), kernel.extent(d), parallel.get(d, 1))
                for d in problem.names
            }
            rates = Rates.of(machine, prod(ways))
            choice = Choice(
                kernel,
                parallel,
                problem.extents,
                units,
                covered,
                kinds,
                RegisterWork(),
                rates,
                reads_panels=reads_panels,
                packs=packs,
                streams=can_stream(problem, machine, kernel, rates.cores),
                grain=grain,
                bound=0.0,
            )
            busiest = np.array([[covered[dim] for dim in problem.names]])
            choice = replace(
                choice, work=RegisterWork(*works(problem, choice, busiest)[:, 0].tolist())
            )
            found.append(replace(choice, bound=once.bound(choice)))
    return sorted(found, key=lambda choice: choice.bound)


def _readings(
    problem: Problem, kernel: Microkernel, constant_weights: bool
) -> tuple[tuple[bool, bool], ...]:
    """`(reads_panels, packs)` for each way in which a kernel can get its weights: as they lie, from
    panels made at run time, or from those that constant weights are free to lie in."""
    if kernel.lanes in problem.input.dims:
        return ((False, False),)
    if constant_weights:
        return ((True, False),)
    if needs_panels(problem, kernel):
        return ((True, True),)
    return (False, False), (True, True)


def _grain(problem: Problem, kernel: Microkernel) -> dict[str, int]:
    """Steps of the outermost reduction loop over which weights that are packed fill whole vectors,
    where all other reduction dims are whole."""
    if not is_transposed(problem, kernel):
        return {}
    taps = prod(problem.extent(dim) for dim in kernel.reduction[1:])
    return {kernel.reduction[0]: kernel.vector // gcd(kernel.vector, taps)}


@lru_cache(maxsize=1024)
def splits(units: tuple[int, ...], threads: int) -> tuple[tuple[int, ...], ...]:
    """The ways per dim in which at most `threads` cores can share `units` work items per dim.

    The design space has those splits whose largest share no other split undercuts in one dim and
    matches in the others; each occupies no more cores than its shares need. Beside them it has one
    core alone, which need not hand out work.
    """
    found = list(dict.fromkeys(_maximal_ways(units, threads)))
    shares = np.array([[-(-n // w) for n, w in zip(units, ways, strict=True)] for ways in found])
    best = [
        ways
        for ways, share in zip(found, shares, strict=True)
        if not ((shares <= share).all(axis=1) & (shares < share).any(axis=1)).any()
    ]
    return tuple(dict.fromkeys([*best, (1,) * len(units)]))


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


@lru_cache(maxsize=64)
def covered_points(extent: int, unit: int, ways: int) -> Ints:
    """How many points of a dim of `extent` the first core visits, for outermost tiles of 1, 2, ...
    register tiles of `unit` points, each shared `ways` ways. No other core visits more."""
    tiles = np.arange(1, -(-extent // unit) + 1)
    sizes, shares = np.minimum(tiles * unit, extent), -(-tiles // ways) * unit
    full, rest = np.divmod(extent, sizes)
    return np.asarray(full * np.minimum(shares, sizes) + np.minimum(shares, rest))


def least_covered(extent: int, unit: int, ways: int) -> int:
    """The fewest points that the first core visits, whatever the outermost tile, or a little less
    of very many."""
    return extent if ways == 1 else min(_extremes(extent, unit, ways))


@lru_cache(maxsize=4096)
def _extremes(extent: int, unit: int, ways: int) -> tuple[int, ...]:
    """The fewest and the most of `covered_points` that are whole register tiles, and of those that
    have a part of one; or, where there are too many, a little fewer and more."""
    if extent > MOST_TILES * unit:
        few, many = extent // ways // unit * unit, extent // unit * unit
        return few, few + min(1, unit - 1), many, extent
    found = covered_points(extent, unit, ways)
    parts = (part for part in (found[found % unit == 0], found[found % unit > 0]) if part.size)
    return tuple(int(extreme) for part in parts for extreme in (part.min(), part.max()))


class _Once:
    """Bounds for a problem in which every tensor moves once through each level."""

    def __init__(self, problem: Problem, machine: Machine) -> None:
        self.problem, self.machine, self.exposed = problem, machine, exposed_parts(machine)
        self.sizes = tuple(tensor.element.size for tensor in problem.tensors)
        self.axes = {
            (resource, index, panels): line_axes(problem, machine, tensor, level, panels)
            for level, resource in FILLED_FROM.items()
            for index, tensor in enumerate(problem.tensors)
            for panels in (False, True)
        }
        self.known: dict[tuple[str, tuple[int, ...], float, bool], float] = {}

    def bound(self, choice: Choice) -> float:
        """Seconds that no plan of a choice undercuts: the busiest core covers the points that it
        has to, each output tile is visited once, every element moved once through each level and
        packed once."""
        mine, panels = choice.covered, choice.reads_panels
        rates, (_, found) = choice.rates, shares(self.problem, choice)
        once, each, input_, weights, output, output_each = found
        elements = (input_, weights, output + output_each)
        registers = sum(n * size for n, size in zip(elements, self.sizes, strict=True))
        moved = {
            "L1": float(np.min(registers)),
            "L2": self._moved("L2", mine, OUTPUT_PASSES, panels=panels),
            "L3": self._moved("L3", mine, OUTPUT_PASSES, panels=panels),
            "DRAM": self._moved("DRAM", self.problem.extents, choice.written, panels=panels),
        }
        cycles = float(np.min(once + each))
        if choice.packs:
            cycles += self._pack_cycles(choice)
        times = {name: moved[name] / rates.bytes[name] for name in MEMORY}
        times["core"] = cycles / rates.cycles
        share = sum(self.exposed[name] * time for name, time in times.items())
        return choice.start + max(times.values()) + share

    def _pack_cycles(self, choice: Choice) -> float:
        """Cycles in which the busiest core packs: its part of all weights, or what it covers."""
        weights = self.problem.weights.dims
        everything = prod(self.problem.extent(dim) for dim in weights)
        mine = prod(choice.covered[dim] for dim in weights)
        common = min(PACK_CYCLES["whole"], PACK_CYCLES["L3"]) * everything / choice.rates.cores
        return min(common, min(PACK_CYCLES["L2"], PACK_CYCLES["L1"]) * mine)

    def _moved(
        self, resource: str, points: Mapping[str, int], passes: float, *, panels: bool
    ) -> float:
        """Bytes of all tensors that come from `resource` where so many points or more are visited,
        the output's `passes` times."""
        key = resource, tuple(points.values()), passes, panels
        if key not in self.known:
            number = (1, 1, passes)
            self.known[key] = sum(
                number[index] * size * _occupied(self.axes[resource, index, panels], points)
                for index, size in enumerate(self.sizes)
            )
        return self.known[key]


def _occupied(axes: Iterable[MemoryAxis], points: Mapping[str, int]) -> float:
    """Elements of memory that one tensor occupies where so many points along each dim are visited,
    or more: more may lie in fewer lines, if these points begin where lines do, or span the axis."""
    return prod(
        least(of_tile(part, points.get(part.axis.filter or "", 1))[points[part.axis.image] - 1 :])
        for part in axes
    )
