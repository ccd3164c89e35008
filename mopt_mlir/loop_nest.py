"""The loop nest that a plan stands for: what `mopt-tile` generates and `mopt-explain` shows.

From outside to inside: tiles of the outermost level, the split between cores, tiles of the further
levels, register tiles (in the order of the problem's dims), and the microkernel's reduction. A loop
that would run once is left out. Weights are packed as soon as all loops of their level that move in
them are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mopt_mlir.plan import Level, Plan
from mopt_mlir.problem import Problem

CORES = "core"
REGISTERS = "register"
REDUCTION = "reduction"
"""Bands that are no level of the plan: the split between cores, register tiles, the kernel."""


@dataclass(frozen=True)
class Loop:
    """A loop over `dim` from tile to tile: `extent` points (of a whole outer tile) in steps of
    `step`. `band` is a level of the plan or one of CORES, REGISTERS, REDUCTION."""

    dim: str
    band: str
    extent: int
    step: int

    @property
    def trips(self) -> int:
        return -(-self.extent // self.step)

    @property
    def name(self) -> str:
        """As in the generated IR: `k_L2`, `k_core`, `k`."""
        return self.dim if self.band in (REGISTERS, REDUCTION) else f"{self.dim}_{self.band}"


@dataclass(frozen=True)
class Packing:
    """The weights of a tile are rearranged into panels here: `sizes` points per dim of theirs, a
    last panel being padded; `cores` share the work."""

    place: str
    sizes: Mapping[str, int]
    bytes: int
    cores: int


Step = Loop | Packing


@dataclass(frozen=True)
class LoopNest:
    """`shared` is what all cores run through together, `split` gives each core its share, which it
    runs through in its `own` loops, from tile to register tile; in these is the `reduction`. Each
    from the outside in."""

    shared: tuple[Step, ...]
    split: tuple[Loop, ...]
    own: tuple[Step, ...]
    reduction: tuple[Loop, ...]

    @staticmethod
    def of(problem: Problem, plan: Plan, *, constant_weights: bool = False) -> LoopNest:
        """With `constant_weights`, panels of the whole weights are made when the code is generated,
        not when it runs. `plan` must fit `problem` (see `Plan.check`)."""
        return _Builder(problem, plan, constant_weights).nest()

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.shared, *self.split, *self.own, *self.reduction)


def tile_loops(levels: Iterable[Level]) -> tuple[tuple[str, int], ...]:
    """`(dim, step)` of the loops from tile to tile of `levels`, from the outside in, also of those
    that run once."""
    return tuple((dim, level.tile[dim]) for level in levels for dim in level.order)


def loops_of_one_core(problem: Problem, plan: Plan) -> tuple[tuple[str, int], ...]:
    """`tile_loops` of a plan for one core, and inside of them the loops from register tile to
    register tile."""
    registers = ((dim, plan.microkernel.extent(dim)) for dim in problem.parallel_dims)
    return (*tile_loops(plan.levels), *registers)


class _Builder:
    """From the outside in; `sizes` is what is left of each dim inside the loops so far."""

    def __init__(self, problem: Problem, plan: Plan, constant_weights: bool) -> None:
        self.problem, self.plan = problem, plan
        self.sizes = dict(problem.extents)
        self.ways = plan.cores
        self.packs = plan.packs(constant_weights=constant_weights)

    def nest(self) -> LoopNest:
        kernel = self.plan.microkernel
        shared, split = tuple(self._shared()), tuple(self._split())
        own = tuple(self._own())
        return LoopNest(shared, split, own, tuple(self._loops(REDUCTION, kernel.reduction, {})))

    def _shared(self) -> Iterator[Step]:
        if self.packs and self.plan.packing == "whole":
            yield self._pack(self.ways)
        for level in self.plan.levels[:1]:
            yield from self._band(level, self.ways)

    def _split(self) -> Iterator[Loop]:
        """The loops over the cores' shares."""
        shares = {
            dim: self.plan.core_tile(dim, self.problem.extent(dim))
            for dim, ways in self.plan.parallel.items()
            if ways > 1
        }
        split = [dim for dim in self.problem.names if dim in shares]
        yield from self._loops(CORES, split, shares)

    def _own(self) -> Iterator[Step]:
        for level in self.plan.levels[1:]:
            yield from self._band(level, 1)
        yield from self._loops(REGISTERS, self.problem.parallel_dims, self.plan.microkernel.tile)

    def _band(self, level: Level, cores: int) -> Iterator[Step]:
        """The loops of a level, and the packing of its weights."""
        packs = self.packs and level.name == self.plan.packing
        for position in range(len(level.order) + 1):
            left = [d for d in level.order[position:] if level.tile[d] < self.sizes[d]]
            if packs and not self.problem.weights.dims & set(left):
                yield self._pack(cores)
                packs = False
            if not left or (not packs and self._is_left_to_kernel(level, left)):
                return
            yield from self._loops(level.name, level.order[position : position + 1], level.tile)

    def _is_left_to_kernel(self, level: Level, left: Sequence[str]) -> bool:
        """Whether what is left are only steps through the reduction of one register tile: the
        microkernel runs through all of it, and its accumulators stay in registers."""
        return (
            level is self.plan.levels[-1]
            and set(left) <= set(self.problem.reduction_dims)
            and all(
                self.sizes[dim] <= self.plan.microkernel.extent(dim)
                for dim in self.problem.parallel_dims
            )
        )

    def _loops(self, band: str, dims: Sequence[str], tile: Mapping[str, int]) -> Iterator[Loop]:
        for dim in dims:
            extent, step = self.sizes[dim], tile.get(dim, 1)
            if step < extent:
                self.sizes[dim] = step
                yield Loop(dim, band, extent, step)

    def _pack(self, cores: int) -> Packing:
        """That of the weights that the loops so far leave."""
        weights = self.problem.weights
        block = {dim: self.sizes[dim] for dim in self.problem.names if dim in weights.dims}
        channel = self.problem.out_channel
        width = self.plan.microkernel.extent(channel)
        panels = -(-block.get(channel, 1) // width)
        cores = -(-panels // -(-panels // cores))  # each takes as many, the last one the rest
        size = prod({**block, channel: panels * width}.values()) * weights.element.size
        return Packing(self.plan.packing, block, size, cores)
