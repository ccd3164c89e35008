"""The cost of many tilings at once: the formulas of `model.cost` over numpy arrays.

For each tiling the best loop orders and the best place to pack the weights are found on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np
import numpy.typing as npt

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.classes import PermutationClass, Reuse, permutation_classes
from mopt_mlir.model.cost import MEMORY, OUTPUT_PASSES, PACK_CYCLES, TIE_BREAK, usable
from mopt_mlir.model.footprint import Axis, axes
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import Problem
from mopt_mlir.solver.space import Choice

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

OUTPUT = 2
WEIGHTS = 1
"""Positions in `Problem.tensors`."""

FILLS = ("DRAM", "L3", "L2")
"""The resource that fills the tiles of each level, in the order of LEVELS."""


@dataclass(frozen=True)
class Costs:
    """Per tiling: the objective in seconds, by how much the fullest cache overflows (1 or less
    fits), the number of loops that iterate, the class of each level (`[tiling, level]`, an index
    into `Evaluator.classes`) and the packing (an index into `Evaluator.packings`)."""

    cost: Floats
    overflow: Floats
    loops: Ints
    classes: Ints
    packing: Ints


@dataclass(frozen=True)
class _Scenario:
    """A place to pack at, the classes that each level may have in it (where the weights are packed,
    all of them with the same reuse of the weights), and the reduction dims that the kernel runs
    through without storing its accumulators, if the L1 tiles are register tiles."""

    packing: int
    members: tuple[tuple[int, ...], ...]
    streams: frozenset[str]


@dataclass(frozen=True)
class _Traffic:
    """What enters the tiles of one level, per class and tiling: seconds, and elements of the
    weights."""

    seconds: Floats
    weights: Floats

    def cheapest(self, members: tuple[int, ...]) -> tuple[Floats, Ints]:
        """The least seconds among some classes, and the class."""
        some = self.seconds[list(members)]
        best = np.argmin(some, axis=0)
        return np.take_along_axis(some, best[None], 0)[0], np.array(members)[best]


class Evaluator:
    """Evaluates tilings of one choice.

    A tiling is an array `[level, dim]` (levels as in LEVELS, dims as in the problem) of tile sizes
    in register tiles of the choice.
    """

    def __init__(self, problem: Problem, machine: Machine, choice: Choice) -> None:
        names = problem.names
        self.problem, self.choice = problem, choice
        self.classes: tuple[PermutationClass, ...] = permutation_classes(problem)
        self.packings = ("whole", *LEVELS) if choice.packs else (choice.free_packing,)
        self.extents = np.array([problem.extent(dim) for dim in names])
        self.unit = np.array([choice.unit(dim) for dim in names])
        self.units = np.array([choice.units[dim] for dim in names])
        self.ways = np.array([choice.ways(dim) for dim in names])
        self._at = {dim: index for index, dim in enumerate(names)}
        self._parallel = [self._at[dim] for dim in problem.parallel_dims]
        self._capacity = np.array([usable(machine, level) for level in LEVELS])
        self._axes = tuple(axes(problem, tensor) for tensor in problem.tensors)
        self._absent = tuple(
            tuple(dim for dim in names if dim not in tensor.dims and problem.extent(dim) > 1)
            for tensor in problem.tensors
        )
        self._bytes = tuple(
            tensor.element.size * (OUTPUT_PASSES if index == OUTPUT else 1)
            for index, tensor in enumerate(problem.tensors)
        )

    def __call__(self, tilings: Ints) -> Costs:
        """Evaluate an array `[tiling, level, dim]` of the design space (see `nest`)."""
        sizes = np.minimum(tilings * self.unit, self.extents)
        counts, covered = self._walk(tilings, sizes)
        traffic = self._traffic(counts, covered)
        single = (tilings[:, -1, self._parallel] == 1).all(axis=1)
        cost = np.full(len(tilings), np.inf)
        classes = np.zeros(tilings.shape[:2], dtype=np.int64)
        packing = np.zeros(len(tilings), dtype=np.int64)
        registers: dict[frozenset[str], tuple[Floats, Floats]] = {}
        for scenario in self._scenarios:
            streams = scenario.streams
            if streams not in registers:
                visits = self._visits(counts, streams, single)
                registers[streams] = self._register_seconds(visits, covered)
            objective, chosen = self._scenario_cost(scenario, registers[streams], traffic)
            better = objective < cost
            cost = np.where(better, objective, cost)
            packing = np.where(better, scenario.packing, packing)
            classes = np.where(better[:, None], chosen, classes)
        return Costs(cost, self._overflow(sizes), self._loops(tilings), classes, packing)

    def nest(self, tilings: Ints) -> Ints:
        """The nearest tilings (`[..., level, dim]`) of the design space: at least one register
        tile, L3 tiles inside the problem, L2 tiles inside the core's share, L1 tiles inside L2."""
        nested = np.clip(tilings, 1, self.units)
        share = -(-nested[..., 0, :] // self.ways)
        nested[..., 1, :] = np.minimum(nested[..., 1, :], share)
        nested[..., 2, :] = np.minimum(nested[..., 2, :], nested[..., 1, :])
        return nested

    # ---- footprints --------------------------------------------------------------------------

    def _overflow(self, sizes: Ints) -> Floats:
        total = np.zeros(sizes.shape[:-1])
        for tensor, row in zip(self.problem.tensors, self._axes, strict=True):
            elements = np.full(sizes.shape[:-1], tensor.element.size)
            for axis in row:
                elements = elements * self._extent(axis, sizes)
            total = total + elements
        return np.asarray((total / self._capacity).max(axis=1))

    def _extent(self, axis: Axis, sizes: Ints) -> Ints:
        points = sizes[..., self._at[axis.image]]
        if axis.filter is None:
            return points
        taps = sizes[..., self._at[axis.filter]]
        own = np.minimum(axis.stride, taps)
        return np.asarray(points * own + np.minimum(axis.dilation, points) * (taps - own))

    # ---- the first core's way through the tiles ----------------------------------------------

    def _loops(self, tilings: Ints) -> Ints:
        share = -(-tilings[:, 0] // self.ways)
        live = (tilings[:, 0] < self.units).sum(axis=1)
        live += (tilings[:, 1] < share).sum(axis=1)
        return np.asarray(live + (tilings[:, 2] < tilings[:, 1]).sum(axis=1))

    def _walk(self, tilings: Ints, sizes: Ints) -> tuple[tuple[Ints, Ints, Ints], Ints]:
        """Tiles per level that the first core visits along each dim, and the points it covers."""
        l3, l2, l1 = tilings[:, 0], tilings[:, 1], tilings[:, 2]
        full, rest = np.divmod(self.units, l3)
        share = -(-l3 // self.ways)
        last = np.minimum(share, rest)
        n3 = full + (rest > 0)
        n2 = full * -(-share // l2) + -(-last // l2)
        per_l2 = -(-l2 // l1)
        n1 = full * (share // l2 * per_l2 + -(-(share % l2) // l1))
        n1 += last // l2 * per_l2 + -(-(last % l2) // l1)
        mine = share * self.unit
        full, rest = np.divmod(self.extents, sizes[:, 0])
        covered = full * np.minimum(mine, sizes[:, 0]) + np.minimum(mine, rest)
        return (n3, n2, n1), covered

    # ---- registers ---------------------------------------------------------------------------

    def _visits(
        self, counts: tuple[Ints, Ints, Ints], streams: frozenset[str], single: npt.NDArray[np.bool]
    ) -> Floats:
        """How often each accumulator is stored."""
        visits = np.ones(len(single))
        for dim in self.problem.reduction_dims:
            at = self._at[dim]
            inner = counts[2][:, at]
            visits = visits * (
                np.where(single, counts[1][:, at], inner) if dim in streams else inner
            )
        return visits

    def _register_seconds(self, visits: Floats, covered: Ints) -> tuple[Floats, Floats]:
        """Seconds of computing, and of traffic between registers and L1."""
        parts = np.array(self.choice.work)[:, None]
        if self.choice.parallel:
            parts = self._register_parts(covered)
        cycles, per_visit, *elements, output_per_visit = parts
        elements[OUTPUT] = elements[OUTPUT] + output_per_visit * visits
        sizes = (tensor.element.size for tensor in self.problem.tensors)
        moved = sum(size * amount for size, amount in zip(sizes, elements, strict=True))
        rates = self.choice.rates
        return (cycles + per_visit * visits) / rates.cycles, np.asarray(moved / rates.bytes["L1"])

    def _register_parts(self, covered: Ints) -> Floats:
        """The fields of `RegisterWork` per tiling."""
        whole, rest = np.divmod(covered, np.minimum(self.unit, self.extents))
        parts = np.zeros((len(self.choice.work), len(covered)))
        for kind in self.choice.kinds:
            number = np.ones(len(covered))
            for dim in self.problem.parallel_dims:
                at = self._at[dim]
                number = number * (rest[:, at] > 0 if dim in kind.partial else whole[:, at])
            parts += np.array(kind.work)[:, None] * number
        return parts

    # ---- caches ------------------------------------------------------------------------------

    def _traffic(
        self, counts: tuple[Ints, Ints, Ints], covered: Ints
    ) -> tuple[_Traffic, _Traffic, _Traffic]:
        outer = np.ones_like(counts[0])
        levels = []
        for resource, inner in zip(FILLS, counts, strict=True):
            points = self.extents if resource == "DRAM" else covered
            moved = {
                key: self._volume(*key, inner, outer, points)
                for key in dict.fromkeys(
                    key for cls in self.classes for key in enumerate(cls.reuse)
                )
            }
            total = [sum(moved[key] for key in enumerate(cls.reuse)) for cls in self.classes]
            weights = [moved[WEIGHTS, cls.reuse[WEIGHTS]] for cls in self.classes]
            levels.append(
                _Traffic(
                    np.array(total) / self.choice.rates.bytes[resource],
                    np.array(weights) / self._bytes[WEIGHTS],
                )
            )
            outer = inner
        return levels[0], levels[1], levels[2]

    def _volume(
        self, tensor: int, reuse: Reuse, counts: Ints, outer_counts: Ints, covered: Ints
    ) -> Floats:
        """Bytes of one tensor that enter the tiles of a level, as `model.volume.volume`."""
        total = np.full(len(counts), float(self._bytes[tensor]))
        for dim in self._absent[tensor]:
            total = total * (outer_counts if dim in reuse.inside else counts)[:, self._at[dim]]
        for axis in self._axes[tensor]:
            at = self._at[axis.image]
            points = covered[..., at]
            if axis.filter is None:
                total = total * points
                continue
            runs = (outer_counts if reuse.overlap == axis.image else counts)[:, at]
            at = self._at[axis.filter]
            pieces = (outer_counts if reuse.overlap == axis.filter else counts)[:, at]
            own = np.minimum(axis.stride * pieces, self.extents[at])
            halo = np.minimum(axis.dilation * runs, points) * (self.extents[at] - own)
            total = total * (points * own + halo)
        return total

    # ---- orders and packing ------------------------------------------------------------------

    @cached_property
    def _scenarios(self) -> tuple[_Scenario, ...]:
        every = tuple(range(len(self.classes)))
        by_output: dict[frozenset[str], list[int]] = {}
        by_weights: dict[frozenset[str], list[int]] = {}
        for index, cls in enumerate(self.classes):
            by_output.setdefault(cls.reuse[OUTPUT].inside, []).append(index)
            by_weights.setdefault(cls.reuse[WEIGHTS].inside, []).append(index)
        found = []
        for packing, place in enumerate(self.packings):
            # A kernel that has to stop for packing at every L1 tile cannot run through several.
            runs = {frozenset[str](): list(every)} if place == LEVELS[-1] else by_output
            blocks = list(by_weights.values()) if place in LEVELS else [list(every)]
            for streams, members in runs.items():
                for block in blocks:
                    levels = [every, every, tuple(members)]
                    if place in LEVELS:
                        at = LEVELS.index(place)
                        levels[at] = tuple(i for i in levels[at] if i in block)
                    found.append(_Scenario(packing, tuple(levels), streams))
        return tuple(scenario for scenario in found if all(scenario.members))

    def _scenario_cost(
        self,
        scenario: _Scenario,
        registers: tuple[Floats, Floats],
        traffic: tuple[_Traffic, _Traffic, _Traffic],
    ) -> tuple[Floats, Ints]:
        """The objective in seconds, and the classes, if they are chosen and packed like this."""
        best = [level.cheapest(who) for level, who in zip(traffic, scenario.members, strict=True)]
        core, l1 = registers
        times = {"L1": l1, **{name: time for name, (time, _) in zip(FILLS, best, strict=True)}}
        place = self.packings[scenario.packing]
        if self.choice.packs:
            core = core + self._pack(place, scenario, traffic, times)
        busy = [core, *(times[name] for name in MEMORY)]
        objective = reduce(np.maximum, busy) + TIE_BREAK * sum(busy)
        return np.asarray(objective), np.stack([which for _, which in best], axis=1)

    def _pack(
        self,
        place: str,
        scenario: _Scenario,
        traffic: tuple[_Traffic, _Traffic, _Traffic],
        times: dict[str, Floats],
    ) -> Floats:
        """Seconds in which a core packs; adds the traffic of packing to `times`."""
        rates, size = self.choice.rates, self._bytes[WEIGHTS]
        passed = MEMORY
        once = prod(self.problem.extent(dim) for dim in self.problem.weights.dims)
        elements = np.full(len(times["L1"]), float(once))
        if place in LEVELS:
            level = LEVELS.index(place)
            elements = traffic[level].weights[scenario.members[level][0]]
            passed = MEMORY[: MEMORY.index(place) + 1]
        mine = elements / rates.cores if place in ("whole", "L3") else elements
        for resource in passed:
            amount = elements if resource == "DRAM" else mine
            times[resource] = times[resource] + 2 * size * amount / rates.bytes[resource]
        return np.asarray(mine * PACK_CYCLES / rates.cycles)
