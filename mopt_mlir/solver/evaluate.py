"""The cost of many tilings at once: the formulas of `model.cost` over numpy arrays.

For each tiling the best loop orders and the best place to pack the weights are found on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import prod

import numpy as np
import numpy.typing as npt

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.classes import PermutationClass, Reuse, permutation_classes
from mopt_mlir.model.cost import FILLED_FROM, MEMORY, PARALLEL_START, exposed_parts
from mopt_mlir.model.footprint import joined_dims
from mopt_mlir.model.packing import PACKED_COPIES, in_place_wait
from mopt_mlir.model.rates import OUTPUT_PASSES
from mopt_mlir.model.room import line_axes, room_axes, usable
from mopt_mlir.plan import LEVELS, PLACES_TO_PACK
from mopt_mlir.problem import OUTPUT, WEIGHTS, Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.occupied import occupied
from mopt_mlir.solver.packing import PackingCosts
from mopt_mlir.solver.scenarios import IN_PLACE, IN_PLACE_LEVEL, Scenario, scenarios
from mopt_mlir.solver.sizes import useful_sizes, with_fewer_lines
from mopt_mlir.solver.space import Choice, works
from mopt_mlir.solver.sums import least_waiting_sums, waiting_sums
from mopt_mlir.solver.walk import Occupied, Walk, Walker
from mopt_mlir.vector_access import keeps_sums_in_output, whole_to_pack

TOO_FULL = 1e3
"""Makes what does not fit into the caches the last choice, the more so the less it fits."""


@dataclass(frozen=True)
class Costs:
    """Per tiling: the objective in seconds, by how much the fullest cache overflows (1 or less
    fits), the number of loops that iterate, the class of each level (`[tiling, level]`, an index
    into `Evaluator.classes`), the packing (an index into `Evaluator.packings`) and whether the
    output is written by non-temporal stores, and whether register tiles are visited `again`."""

    cost: Floats
    overflow: Floats
    loops: Ints
    classes: Ints
    packing: Ints
    streamed: npt.NDArray[np.bool_]
    again: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Traffic:
    """What enters the tiles of one level, per class and tiling: seconds, and elements of the
    weights; and the seconds of the output alone where its reduction is not split."""

    seconds: Floats
    weights: Floats
    output: Floats
    known: dict[tuple[int, ...], tuple[Floats, Ints]] = field(default_factory=dict)

    def cheapest(self, members: tuple[int, ...]) -> tuple[Floats, Ints]:
        """The least seconds among some classes, and the class. (Most scenarios ask for the same
        ones.)"""
        if members not in self.known:
            some = self.seconds[list(members)]
            best = np.argmin(some, axis=0)
            self.known[members] = some.min(axis=0), np.array(members)[best]
        return self.known[members]


@dataclass(frozen=True)
class _Registers:
    """What follows from how far kernels run through the reduction, per tiling: seconds of a core,
    of L1, and of DRAM beyond what volumes say; whether the output is `streamed` past the
    caches, and whether register tiles are visited `again`."""

    core: Floats
    l1: Floats
    beyond: Floats
    streamed: npt.NDArray[np.bool_]
    again: npt.NDArray[np.bool_]


class Evaluator:
    """Evaluates tilings of one choice.

    A tiling is an array `[level, dim]` (levels as in LEVELS, dims as in the problem) of tile sizes
    in register tiles of the choice.
    """

    def __init__(self, problem: Problem, machine: Machine, choice: Choice) -> None:
        names = problem.names
        self.problem, self.machine, self.choice = problem, machine, choice
        self.classes: tuple[PermutationClass, ...] = permutation_classes(problem)
        self.packings = PLACES_TO_PACK if choice.packs else (choice.free_packing,)
        self._at = {dim: index for index, dim in enumerate(names)}
        self._parallel = [self._at[dim] for dim in problem.parallel_dims]
        self._spanned = [self._at[dim] for dim in whole_to_pack(problem, choice.kernel)]
        self._exposed = exposed_parts(machine)
        self._capacity = np.array([usable(machine, level) for level in LEVELS])
        self._axes, self._room = (  # what a tile brings in, and what has to fit
            {
                (level, index): axes(problem, machine, tensor, level, choice.reads_panels)
                for level in LEVELS
                for index, tensor in enumerate(problem.tensors)
            }
            for axes in (line_axes, room_axes)
        )
        parts = {part.axis for row in self._axes.values() for part in row if not part.plain}
        measured = {dim for axis in parts for dim in (axis.image, axis.filter) if dim}
        lined = {part.axis for row in self._axes.values() for part in row if part.line}
        self.contiguous = sorted(
            {names.index(dim) for axis in lined for dim in (axis.image, axis.filter) if dim}
        )
        self._in_place_wait = in_place_wait(problem, machine, choice.kernel)
        self._packing = PackingCosts(problem, choice)
        self._walker = Walker(problem, choice, measured)
        self.extents, self.unit = self._walker.extents, self._walker.unit
        self.units, self.ways = self._walker.units, self._walker.ways
        self._absent = tuple(
            tuple(dim for dim in names if dim not in tensor.dims and problem.extent(dim) > 1)
            for tensor in problem.tensors
        )
        self._bytes = {
            (level, index): tensor.element.size * choice.rates.passes(level, index == OUTPUT)
            for level in LEVELS
            for index, tensor in enumerate(problem.tensors)
        }

    def __call__(self, tilings: Ints) -> Costs:
        """Evaluate an array `[tiling, level, dim]` of the design space (see `nest`)."""
        walk = self._walker(tilings)
        innermost = walk.levels[-1]
        traffic = self._traffic(walk)
        starts = walk.levels[0].counts.prod(axis=1) * (self.choice.rates.cores > 1) * PARALLEL_START
        single = (tilings[:, -1, self._parallel] == 1).all(axis=1)
        sizes = self._walker.sizes(tilings)
        overflows, runs = self._overflow(sizes), self._runs(sizes[:, -1])
        sums = self._sums_at_least(sizes)
        nothing = np.zeros(len(sizes))
        waiting = [
            self._packing.waiting(place, sizes) if self.choice.packs else nothing
            for place in self.packings
        ]
        ranked, cost, overflow = (np.full(len(tilings), np.inf) for _ in range(3))
        classes = np.zeros(tilings.shape[:2], dtype=np.int64)
        packing = np.zeros(len(tilings), dtype=np.int64)
        streamed, again = (np.zeros(len(tilings), dtype=np.bool_) for _ in range(2))
        registers: dict[frozenset[str], _Registers] = {}
        for scenario in self._scenarios:
            carried = scenario.carried
            if carried not in registers:
                visits = self._visits(walk, carried, single)
                beyond = self._beyond_volume(visits, traffic[0].output, runs)
                core, l1 = self._register_seconds(visits, innermost.covered)
                registers[carried] = _Registers(core, l1, beyond + sums, beyond < runs, visits > 1)
            found, at_first = registers[carried], waiting[scenario.packing]
            objective, chosen = self._scenario_cost(scenario, found, at_first, traffic)
            filled = overflows[scenario.packing]
            rank = objective * np.where(filled > 1, TOO_FULL * filled, 1.0)
            better = rank < ranked
            ranked = np.where(better, rank, ranked)
            cost = np.where(better, objective + starts, cost)
            overflow = np.where(better, filled, overflow)
            packing = np.where(better, scenario.packing, packing)
            classes = np.where(better[:, None], chosen, classes)
            streamed = np.where(better, found.streamed, streamed)
            again = np.where(better, found.again, again)
        return Costs(cost, overflow, self._loops(tilings), classes, packing, streamed, again)

    def sums(self, tilings: Ints, costs: Costs) -> Floats:
        """Seconds in which partial sums that wait outside of the output come from memory and go
        back, by the orders of loops, of which the objective knows the least only: those of
        `tilings`, of which `costs` are."""
        output = self.problem.output
        if keeps_sums_in_output(self.problem, self.choice.kernel):
            return np.zeros(len(tilings))
        sizes = self._walker.sizes(tilings)
        waiting = waiting_sums(
            self.problem, self.classes, sizes, costs.classes, self.unit, self.ways
        )
        moved = OUTPUT_PASSES * output.element.size * waiting
        return np.where(costs.again, moved / self.choice.rates.bytes["DRAM"], 0.0)

    def nest(self, tilings: Ints) -> Ints:
        """The nearest tilings (`[..., level, dim]`) of the design space: at least one register
        tile, L3 tiles inside the problem, L2 tiles inside the core's share, L1 tiles inside L2."""
        nested = np.clip(tilings, 1, self.units)
        share = -(-nested[..., 0, :] // self.ways)
        nested[..., 1, :] = np.minimum(nested[..., 1, :], share)
        nested[..., 2, :] = np.minimum(nested[..., 2, :], nested[..., 1, :])
        return nested

    @cached_property
    def useful(self) -> list[Ints]:
        """The sizes worth a tile along each dim, in register tiles."""
        found = []
        parts = dict.fromkeys(part for row in self._axes.values() for part in row if part.line)
        for dim, extent, unit, units in zip(
            self.problem.names, self.extents, self.unit, self.units, strict=True
        ):
            sizes = np.minimum(useful_sizes(int(units)) * unit, extent).tolist()
            along = (part for part in parts if part.axis.image == dim)
            sizes = with_fewer_lines(sizes, int(extent), [int(unit)], along)
            found.append(-(-np.array(sizes) // unit))
        return found

    # ---- footprints --------------------------------------------------------------------------

    def _overflow(self, sizes: Ints) -> list[Floats]:
        """By how much the fullest cache overflows, for each packing; infinite where it is none of
        the design space."""
        total, weights = np.zeros(sizes.shape[:-1]), np.zeros(sizes.shape[:-1])
        for at, level in enumerate(LEVELS):
            for index, tensor in enumerate(self.problem.tensors):
                elements = np.full(len(sizes), tensor.element.size)
                for part in self._room[level, index]:
                    points = sizes[:, at, self._at[part.axis.image]]
                    taps = np.ones_like(points)
                    if part.axis.filter is not None:
                        taps = sizes[:, at, self._at[part.axis.filter]]
                    elements = elements * occupied(part, points, taps)
                total[:, at] += elements
                if index == WEIGHTS:
                    weights[:, at] = (PACKED_COPIES[level] - 1) * elements
        found = []
        for place in self.packings:
            packed = np.array([level == place for level in LEVELS])
            filled = ((total + packed * weights) / self._capacity).max(axis=1)
            if place in LEVELS:
                spans = (sizes == self.extents)[:, LEVELS.index(place), self._spanned].all(axis=1)
                filled = np.where(spans, filled, np.inf)
            found.append(filled)
        return found

    def _loops(self, tilings: Ints) -> Ints:
        share = -(-tilings[:, 0] // self.ways)
        live = (tilings[:, 0] < self.units).sum(axis=1)
        live += (tilings[:, 1] < share).sum(axis=1)
        return np.asarray(live + (tilings[:, 2] < tilings[:, 1]).sum(axis=1))

    # ---- registers ---------------------------------------------------------------------------

    def _visits(self, walk: Walk, carried: frozenset[str], single: npt.NDArray[np.bool_]) -> Floats:
        """How often each accumulator is stored."""
        visits = np.ones(len(single))
        for dim in self.problem.reduction_dims:
            at = self._at[dim]
            outer, inner = (walk.levels[level].counts[:, at] for level in (1, 2))
            visits = visits * (np.where(single, outer, inner) if dim in carried else inner)
        return visits

    def _register_seconds(self, visits: Floats, covered: Ints) -> tuple[Floats, Floats]:
        """Seconds of computing, and of traffic between registers and L1."""
        parts = np.array(self.choice.work)[:, None]
        if self.choice.parallel:
            parts = works(self.problem, self.choice.kernel, self.choice.kinds, covered)
        cycles, per_visit, *elements, output_per_visit = parts
        elements[OUTPUT] = elements[OUTPUT] + output_per_visit * visits
        sizes = (tensor.element.size for tensor in self.problem.tensors)
        moved = sum(size * amount for size, amount in zip(sizes, elements, strict=True))
        rates = self.choice.rates
        return (cycles + per_visit * visits) / rates.cycles, np.asarray(moved / rates.bytes["L1"])

    def _runs(self, tiles: Ints) -> Floats:
        """Seconds for the runs of output that L1 tiles write (`model.footprint.output_runs`)."""
        output = [self.problem.extent(dim) for dim in self.problem.output.dims]
        runs, whole = np.full(len(tiles), prod(output)), np.ones(len(tiles), dtype=np.bool_)
        for at in (self._at[dim] for dim in joined_dims(self.problem)):
            extent = self.extents[at]
            runs = np.where(whole, runs // extent * -(-extent // tiles[:, at]), runs)
            whole &= tiles[:, at] == extent
        return np.asarray(self.choice.rates.run * runs)

    def _beyond_volume(self, visits: Floats, written: Floats, runs: Floats) -> Floats:
        """Seconds of DRAM that the volume of the output does not say: `runs`, or, where stores past
        the caches are faster, what they take less than `written`, which it is through the caches if
        it is written once."""
        rates = self.choice.rates
        past = (rates.stream_passes / rates.write_passes - 1) * written
        return np.where((visits == 1) & self.choice.streams, np.minimum(past, runs), runs)

    def _sums_at_least(self, sizes: Ints) -> Floats:
        """Seconds of DRAM for memory of partial sums (`model.cost.sums_seconds`)."""
        output, rates = self.problem.output, self.choice.rates
        if keeps_sums_in_output(self.problem, self.choice.kernel):
            return np.zeros(len(sizes))
        waiting = least_waiting_sums(self.problem, sizes, rates.cores)
        return waiting * OUTPUT_PASSES * output.element.size / rates.bytes["DRAM"]

    # ---- caches ------------------------------------------------------------------------------

    def _traffic(self, walk: Walk) -> tuple[_Traffic, _Traffic, _Traffic]:
        levels = []
        for (name, resource), inner, outer in zip(
            FILLED_FROM.items(), walk.levels, walk.outer, strict=True
        ):
            taken = Occupied(inner, outer)
            moved = {
                key: self._volume(name, *key, taken)
                for key in dict.fromkeys(
                    key for cls in self.classes for key in enumerate(cls.reuse)
                )
            }
            total = [sum(moved[key] for key in enumerate(cls.reuse)) for cls in self.classes]
            weights = [moved[WEIGHTS, cls.reuse[WEIGHTS]] for cls in self.classes]
            rate = self.choice.rates.bytes[resource]
            levels.append(
                _Traffic(
                    np.array(total) / rate,
                    np.array(weights) / self._bytes[name, WEIGHTS],
                    moved[OUTPUT, self.classes[0].reuse[OUTPUT]] / rate,
                )
            )
        return levels[0], levels[1], levels[2]

    def _volume(self, level: str, index: int, reuse: Reuse, taken: Occupied) -> Floats:
        """Bytes of one tensor that enter the tiles of a level, as `model.volume.volume`."""
        inner, outer = taken.inner, taken.outer
        total = np.full(len(inner.counts), float(self._bytes[level, index]))
        for dim in self._absent[index]:
            total = total * (outer if dim in reuse.inside else inner).counts[:, self._at[dim]]
        for part in self._axes[level, index]:
            if part.plain:
                total = total * inner.covered[:, self._at[part.axis.image]]
            else:
                total = total * taken.along(part, reuse.overlap)
        return total

    # ---- orders and packing ------------------------------------------------------------------

    @cached_property
    def _scenarios(self) -> tuple[Scenario, ...]:
        return scenarios(self.classes, self.packings)

    def _scenario_cost(
        self,
        scenario: Scenario,
        registers: _Registers,
        waiting: Floats,
        traffic: tuple[_Traffic, _Traffic, _Traffic],
    ) -> tuple[Floats, Ints]:
        """The objective in seconds, and the classes, if they are chosen and packed like this."""
        best = [level.cheapest(who) for level, who in zip(traffic, scenario.members, strict=True)]
        core = registers.core
        times = {
            "L1": registers.l1,
            **{name: time for name, (time, _) in zip(FILLED_FROM.values(), best, strict=True)},
        }
        times["DRAM"] = times["DRAM"] + registers.beyond
        place = self.packings[scenario.packing]
        if self.choice.packs:
            entering = np.full(len(core), self._packing.everything)
            if place in LEVELS:
                level = LEVELS.index(place)
                entering = traffic[level].weights[scenario.members[level][0]]
            core = core + waiting + self._packing.seconds(place, entering, times)
        if place == IN_PLACE:
            level = LEVELS.index(IN_PLACE_LEVEL)
            rows = traffic[level].weights[scenario.members[level][0]]
            rate = (
                self.choice.rates.bytes[FILLED_FROM[IN_PLACE_LEVEL]]
                / self.problem.weights.element.size
            )
            core = core + self._in_place_wait * rows / rate
        busy = {"core": core, **{name: times[name] for name in MEMORY}}
        share = sum(self._exposed[name] * time for name, time in busy.items())
        objective = reduce(np.maximum, busy.values()) + share
        return np.asarray(objective), np.stack([which for _, which in best], axis=1)
