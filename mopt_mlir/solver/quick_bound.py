"""A quick bound on what plans cost, for many choices of microkernel and split at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import FILLED_FROM, MEMORY, PARALLEL_START, exposed_parts
from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.model.packing import PACK_CYCLES
from mopt_mlir.model.rates import OUTPUT_PASSES, Rates
from mopt_mlir.model.room import line_axes
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.axis_bounds import of_tile


class QuickBound:
    """Seconds that no plan of a choice undercuts: the busiest core covers the points that it has
    to, each output tile is visited once, every element moved once through each level and packed
    once."""

    def __init__(self, problem: Problem, machine: Machine) -> None:
        self.problem, self.exposed = problem, exposed_parts(machine)
        self.sizes = tuple(tensor.element.size for tensor in problem.tensors)
        self.axes = {
            (resource, index, panels): line_axes(problem, machine, tensor, level, panels)
            for level, resource in FILLED_FROM.items()
            for index, tensor in enumerate(problem.tensors)
            for panels in (False, True)
        }
        self.known: dict[tuple[object, ...], list[Floats]] = {}

    def __call__(
        self,
        work: Floats,
        covered: Ints,
        rates: Sequence[Rates],
        written: Floats,
        *,
        panels: bool,
        packs: bool,
    ) -> Floats:
        """The bounds of choices that read weights alike: `work` is that of all that the busiest
        core may cover (`[field, choice, share]`; see `space.works`), `covered` what it covers at
        least (`[choice, dim]`), `written` the `Choice.written` of each."""
        once, each, input_, weights, output, output_each = work
        elements = (input_, weights, output + output_each)
        registers = np.asarray(sum(n * s for n, s in zip(elements, self.sizes, strict=True)))
        everything = np.array([*self.problem.extents.values()])
        moved = {
            "L1": registers.min(axis=1),
            "L2": self._moved("L2", covered, OUTPUT_PASSES, panels=panels),
            "L3": self._moved("L3", covered, OUTPUT_PASSES, panels=panels),
            "DRAM": self._moved("DRAM", everything, written, panels=panels),
        }
        cores = np.array([of.cores for of in rates])
        cycles = (once + each).min(axis=1)
        if packs:
            cycles = cycles + self._pack_cycles(covered, cores)
        times = {name: moved[name] / np.array([of.bytes[name] for of in rates]) for name in MEMORY}
        times["core"] = cycles / np.array([of.cycles for of in rates])
        share = sum(self.exposed[name] * time for name, time in times.items())
        return np.asarray(PARALLEL_START * (cores > 1) + np.max([*times.values()], axis=0) + share)

    def _pack_cycles(self, covered: Ints, cores: Ints) -> Floats:
        """Cycles in which the busiest core packs: its part of all weights, or what it covers."""
        weights = self.problem.weights.dims
        everything = self.problem.points(weights)
        mine = covered[:, [self.problem.names.index(dim) for dim in weights]].prod(axis=1)
        common = min(PACK_CYCLES["whole"], PACK_CYCLES["L3"]) * everything / cores
        return np.asarray(np.minimum(common, min(PACK_CYCLES["L2"], PACK_CYCLES["L1"]) * mine))

    def _moved(
        self, resource: str, points: Ints, passes: float | Floats, *, panels: bool
    ) -> Floats:
        """Bytes of all tensors that come from `resource` where so many `points` (`[..., dim]`) or
        more are visited, the output's `passes` times."""
        total: Floats = np.zeros(1)
        occupied = self._occupied(resource, points, panels=panels)
        for number, size, elements in zip((1, 1, passes), self.sizes, occupied, strict=True):
            total = total + number * size * elements
        return total

    def _occupied(self, resource: str, points: Ints, *, panels: bool) -> list[Floats]:
        """Elements of memory that each tensor occupies in the cache that is filled from `resource`,
        at least. What a reduction visits is whole. (Many microkernels have the same points.)"""
        key = resource, points.shape, points.tobytes(), panels
        if key not in self.known:
            self.known[key] = []
            for index in range(len(self.sizes)):
                occupied: Floats = np.ones(1)
                for part in self.axes[resource, index, panels]:
                    along = points[..., self.problem.names.index(part.axis.image)]
                    occupied = occupied * _occupied_by_more(part)[along - 1]
                self.known[key].append(occupied)
        return self.known[key]


@lru_cache(maxsize=256)
def _occupied_by_more(part: MemoryAxis) -> Floats:
    """Elements of memory that tiles of 1, 2, ... image points or more occupy along an axis, of the
    whole filter: more may lie in fewer lines, if these points begin where lines do, or span the
    axis."""
    return np.asarray(np.minimum.accumulate(of_tile(part, part.taps)[::-1])[::-1])
