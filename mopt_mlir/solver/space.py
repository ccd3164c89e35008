"""The design space: microkernels times ways to split the work between cores, with a quick bound.

A *choice* fixes both; what is left to decide are tiles, loop orders and packing. The tiles of a
choice are whole multiples of its register tile (or the whole extent), so that the work of the
registers does not depend on the tiles, except for how often the reduction is interrupted. Where
weights are packed at run time, tiles of the outermost reduction loop are such that packing reads
whole vectors, as what is left over of a vector is dear. They are packed at a level only if its
tiles span all other reduction dims (`whole_to_pack`): else they would be copied one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import gcd, prod

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import PARALLEL_START, can_stream
from mopt_mlir.model.menu import menu
from mopt_mlir.model.microkernel import RegisterWork, TileKind, tile_kinds
from mopt_mlir.model.rates import Rates
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.quick_bound import QuickBound
from mopt_mlir.vector_access import is_transposed, needs_panels

MOST_TILES = 1 << 16
"""Of more register tiles along a dim it does not matter exactly how many a core gets."""


@dataclass(frozen=True)
class Choice:
    """A microkernel and a split of the outermost tile between cores."""

    kernel: Microkernel
    parallel: Mapping[str, int]
    """The split: of how many cores, along each dim that is split."""
    extents: Mapping[str, int]
    """Those of the problem."""
    units: Mapping[str, int]
    """The number of register tiles along each dim; of elements, where the register tile has none.
    """
    covered: Mapping[str, int]
    """The least number of elements along each dim that the busiest core visits whatever the tiles.
    """
    kinds: tuple[TileKind, ...]
    work: RegisterWork
    """That of the busiest core for `covered`."""
    rates: Rates
    reads_panels: bool
    """Whether the kernel reads weights from panels."""
    packs: bool
    """Whether panels are made at run time."""
    streams: bool
    """Whether there may be non-temporal stores of the output."""
    grain: Mapping[str, int]
    """What tile sizes along a reduction dim are multiples of; 1 if it is absent."""
    bound: float
    """A lower bound on the objective, in seconds."""

    @property
    def written(self) -> float:
        """How many times as long as reading it from memory it takes to write the output there, at
        least."""
        return self.rates.written(streams=self.streams)

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


def works(
    problem: Problem, kernel: Microkernel, kinds: Iterable[TileKind], covered: Ints
) -> Floats:
    """The fields of `RegisterWork` (`[field, ...]`) of a core that covers so many points along each
    dim of `problem` (`[..., dim]`) in register tiles of `kernel`, of which `kinds` are."""
    units = [min(kernel.extent(dim), problem.extent(dim)) for dim in problem.names]
    whole, rest = np.divmod(covered, units)
    counts = [
        (whole[..., at], rest[..., at] > 0, dim)
        for at, dim in enumerate(problem.names)
        if dim in problem.parallel_dims
    ]
    found = np.zeros((len(RegisterWork._fields), *covered.shape[:-1]))
    for kind in kinds:
        number = np.ones(covered.shape[:-1])
        for full, part, dim in counts:
            number = number * (part if dim in kind.partial else full)
        found += np.multiply.outer(kind.work, number)
    return found


def shares(problem: Problem, choice: Choice, along: str | None = None) -> tuple[Ints, Floats]:
    """What the busiest core may cover (`[..., dim]`), and its `works`, among which is the least of
    each field. These do not always grow with it: a whole register tile may be stored faster than
    the part of one. Along `along` it is all that there is, along other dims the least and the most
    with and without a part, as works are linear in the number of whole register tiles."""
    if not choice.parallel:
        return np.array([[*problem.extents.values()]]), np.array(choice.work)[:, None]
    ways = tuple(choice.ways(dim) for dim in problem.parallel_dims)
    covered = _shares(problem, choice.kernel, [ways], along)[0]
    return covered, works(problem, choice.kernel, choice.kinds, covered)


def _shares(
    problem: Problem,
    kernel: Microkernel,
    splits: Sequence[tuple[int, ...]],
    along: str | None = None,
) -> Ints:
    """The points of `shares` for each of some splits (`[split, share, dim]`)."""

    def points(dim: str, ways: int) -> tuple[int, ...]:
        extent, unit = problem.extent(dim), kernel.extent(dim)
        if ways == 1:
            return (extent,)
        if dim == along:
            return tuple(np.unique(covered_points(extent, unit, ways)).tolist())
        return extremes(extent, unit, ways)

    columns = {}
    for dim, ways in zip(problem.parallel_dims, zip(*splits, strict=True), strict=True):
        if max(ways) > 1:
            found = {n: points(dim, n) for n in set(ways)}
            most = max(map(len, found.values()))  # shorter ones repeat their last
            padded = {n: (*row, *row[-1:] * (most - len(row))) for n, row in found.items()}
            columns[dim] = np.array([padded[n] for n in ways])
    number = [column.shape[1] for column in columns.values()]
    extents = np.array([*problem.extents.values()])
    covered = np.tile(extents, (len(splits), *number, 1))
    for axis, (dim, column) in enumerate(columns.items()):
        apart = [-1 if other == axis else 1 for other in range(len(number))]
        covered[..., problem.names.index(dim)] = column.reshape(len(splits), *apart)
    return covered.reshape(len(splits), -1, len(extents))


def choices(
    problem: Problem, machine: Machine, threads: int, *, constant_weights: bool
) -> list[Choice]:
    """Every choice for `problem`, the most promising first. Raises ValueError for fewer `threads`
    than one, or more than there are cores."""
    if threads < 1:
        raise ValueError(f"threads is {threads}; at least one is needed")
    if threads > machine.cores:
        raise ValueError(f"threads is {threads}; '{machine.name}' has {machine.cores} cores")
    space = _Space(problem, machine, threads)
    found = [
        choice
        for kernel in menu(problem, machine)
        for reads_panels, packs in _readings(problem, kernel, constant_weights)
        for choice in space.of(kernel, reads_panels=reads_panels, packs=packs)
    ]
    return sorted(found, key=lambda choice: choice.bound)


class _Space:
    """What all choices for a problem have in common."""

    def __init__(self, problem: Problem, machine: Machine, threads: int) -> None:
        self.problem, self.machine, self.threads = problem, machine, threads
        self.rates = [Rates.of(machine, cores) for cores in range(1, threads + 1)]
        self.bound = QuickBound(problem, machine)

    def of(self, kernel: Microkernel, *, reads_panels: bool, packs: bool) -> list[Choice]:
        """The choices with `kernel` that get their weights in one way: one for each split. All are
        bounded at once, as with many cores there are hundreds."""
        problem, names = self.problem, self.problem.names
        kinds = tile_kinds(problem, self.machine, kernel, panels=reads_panels)
        grain = _grain(problem, kernel) if packs else {}
        units = {d: -(-problem.extent(d) // (kernel.extent(d) * grain.get(d, 1))) for d in names}
        ways = splits(tuple(units[dim] for dim in problem.parallel_dims), self.threads)
        rates = [self.rates[prod(some) - 1] for some in ways]
        can = {
            cores: can_stream(problem, self.machine, kernel, cores)
            for cores in {of.cores for of in rates}
        }
        streams = [can[of.cores] for of in rates]
        covered = _shares(problem, kernel, ways)
        least = covered.min(axis=1)
        work = works(problem, kernel, kinds, least)
        alone = covered.shape[1] == 1
        bounds = self.bound(
            work[..., None] if alone else works(problem, kernel, kinds, covered),
            least,
            rates,
            np.array([of.written(streams=may) for of, may in zip(rates, streams, strict=True)]),
            panels=reads_panels,
            packs=packs,
        )
        return [
            Choice(
                kernel,
                {d: n for d, n in zip(problem.parallel_dims, ways[at], strict=True) if n > 1},
                problem.extents,
                units,
                dict(zip(names, least[at].tolist(), strict=True)),
                kinds,
                RegisterWork(*work[:, at].tolist()),
                rates[at],
                reads_panels=reads_panels,
                packs=packs,
                streams=streams[at],
                grain=grain,
                bound=bound,
            )
            for at, bound in enumerate(bounds.tolist())
        ]


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
    taps = problem.points(kernel.reduction[1:])
    return {kernel.reduction[0]: kernel.vector // gcd(kernel.vector, taps)}


@lru_cache(maxsize=1024)
def splits(units: tuple[int, ...], threads: int) -> tuple[tuple[int, ...], ...]:
    """The ways per dim in which at most `threads` cores can share `units` work items per dim.

    The design space has those splits whose largest share no other split undercuts in one dim and
    matches in the others; each occupies no more cores than its shares need. Beside them it has one
    core alone, which need not hand out work.
    """
    found = list(dict.fromkeys(_maximal_ways(units, threads)))
    shares = -(-np.array(units) // np.array(found))
    at_most = reduce(np.logical_and, (share[:, None] <= share for share in shares.T))
    undercut = (at_most & ~at_most.T).any(axis=0)
    best = [ways for ways, worse in zip(found, undercut.tolist(), strict=True) if not worse]
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


@lru_cache(maxsize=4096)
def extremes(extent: int, unit: int, ways: int) -> tuple[int, ...]:
    """The fewest and the most of `covered_points` that are whole register tiles, and of those that
    have a part of one; or, where there are too many, a little fewer and more."""
    if extent > MOST_TILES * unit:
        few, many = extent // ways // unit * unit, extent // unit * unit
        return few, few + min(1, unit - 1), many, extent
    found = covered_points(extent, unit, ways)
    parts = (part for part in (found[found % unit == 0], found[found % unit > 0]) if part.size)
    return tuple(int(extreme) for part in parts for extreme in (part.min(), part.max()))
