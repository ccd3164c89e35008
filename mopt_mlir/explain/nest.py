"""The loop nest that a plan stands for, without any code: what `codegen.nest` generates from it.

Names and order are those of the generated loops, so that this can be read beside the IR; a loop
that would run once is left out, as it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mopt_mlir.plan import Level, Plan
from mopt_mlir.problem import Problem, Role

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


def loop_nest(problem: Problem, plan: Plan, *, constant_weights: bool = False) -> tuple[Step, ...]:
    """The loops of `plan` from the outside in, and where among them weights are packed.

    With `constant_weights`, panels of the whole weights are made when the code is generated, not
    when it runs. `plan` must fit `problem` (see `Plan.check`).
    """
    return tuple(_Walk(problem, plan, constant_weights).steps())


class _Walk:
    """From the outside in; `sizes` is what is left of each dim inside the loops so far."""

    def __init__(self, problem: Problem, plan: Plan, constant_weights: bool) -> None:
        self.problem, self.plan = problem, plan
        self.sizes = dict(problem.extents)
        done = plan.packing == "none" or (constant_weights and plan.packing == "whole")
        self.packs = not done

    def steps(self) -> Iterator[Step]:
        plan = self.plan
        if self.packs and plan.packing == "whole":
            yield self._pack(self.sizes, prod(plan.parallel.values()))
        for level in plan.levels[:1]:
            ways = prod(plan.parallel.values())
            yield from self._band(level, ways)
        yield from self._split()
        for level in plan.levels[1:]:
            yield from self._band(level, 1)
        kernel = plan.microkernel
        yield from self._loops(REGISTERS, self.problem.parallel_dims, kernel.tile)
        yield from self._loops(REDUCTION, kernel.reduction, {})

    def _band(self, level: Level, cores: int) -> Iterator[Step]:
        """The loops of a level. Weights are packed as soon as the last loop that moves them is
        open."""
        packs = self.packs and level.name == self.plan.packing
        for position in range(len(level.order) + 1):
            left = [d for d in level.order[position:] if level.tile[d] < self.sizes[d]]
            if packs and not self.problem.weights.dims & set(left):
                inner = {dim: min(level.tile[dim], size) for dim, size in self.sizes.items()}
                yield self._pack(inner, cores)
                packs = False
            if not left or (not packs and self._streams(level, left)):
                return
            yield from self._loops(level.name, level.order[position : position + 1], level.tile)

    def _streams(self, level: Level, left: Sequence[str]) -> bool:
        """Whether what is left are only steps through the reduction of one register tile: the
        kernel runs through all of it, and its accumulators stay in registers."""
        return (
            level is self.plan.levels[-1]
            and set(left) <= set(self.problem.reduction_dims)
            and all(
                self.sizes[dim] <= self.plan.microkernel.extent(dim)
                for dim in self.problem.parallel_dims
            )
        )

    def _split(self) -> Iterator[Step]:
        """The loops over the cores' shares."""
        shares = {
            dim: self.plan.core_tile(dim, self.problem.extent(dim))
            for dim, ways in self.plan.parallel.items()
            if ways > 1
        }
        split = [dim for dim in self.problem.names if dim in shares]
        yield from self._loops(CORES, split, shares)

    def _loops(self, band: str, dims: Sequence[str], tile: Mapping[str, int]) -> Iterator[Loop]:
        for dim in dims:
            extent, step = self.sizes[dim], tile.get(dim, 1)
            if step < extent:
                self.sizes[dim] = step
                yield Loop(dim, band, extent, step)

    def _pack(self, sizes: Mapping[str, int], cores: int) -> Packing:
        self.packs = False
        weights = self.problem.weights
        block = {dim: sizes[dim] for dim in self.problem.names if dim in weights.dims}
        padded = dict(block)
        for dim in self.problem.by_role(Role.OUT_CHANNEL):
            width = self.plan.microkernel.extent(dim)
            padded[dim] = -(-padded.get(dim, 1) // width) * width
        size = prod(padded.values()) * weights.element.size
        return Packing(self.plan.packing, block, size, cores)
