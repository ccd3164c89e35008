"""The tile problem as a mixed-integer geometric program for SCIP, and what SCIP makes of it.

In the logarithms of tile sizes and trip counts every footprint and volume is a sum of exponentials
of linear forms, hence convex. What is not is left to binaries (see `variables`), which select among
the terms with big-M constraints. Everything is relaxed downwards, so that the dual bound holds for
every plan of the design space. Times are divided by the cost of the plan to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log, prod
from typing import Any

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import MEMORY, OUTPUT_PASSES, PACK_CYCLES, TENSORS, TIE_BREAK, usable
from mopt_mlir.model.footprint import Axis
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import Problem
from mopt_mlir.solver.convex import log_run, log_runs
from mopt_mlir.solver.evaluate import FILLS, OUTPUT, WEIGHTS, Floats
from mopt_mlir.solver.space import Choice
from mopt_mlir.solver.variables import Expression, Variables

TOLERANCE = 1e-5
"""Relative safety of a dual bound: SCIP meets constraints to 1e-6."""

STARTS = 3
"""Solutions to start the local search from; SCIP finds few that differ."""


@dataclass(frozen=True)
class Outcome:
    """What SCIP says: a lower bound in seconds on the cost of every plan of the choices, and
    solutions of the relaxation: the choice, and tile sizes in elements (`[level, dim]`)."""

    bound: float
    starts: tuple[tuple[int, Floats], ...]


class Formulation(Variables):
    """The SCIP model of the plans of `choices` that cost at most `cost` seconds.

    Dims with at most `table` useful sizes are exact.
    """

    def __init__(
        self,
        problem: Problem,
        machine: Machine,
        choices: Sequence[Choice],
        cost: float,
        *,
        table: int,
    ) -> None:
        super().__init__(problem, choices, table)
        self.scale = cost
        for level in LEVELS:
            self._capacity(level, usable(machine, level))
        spent: dict[str, list[Expression]] = {name: [] for name in ("core", *MEMORY)}
        weights = {}
        for level, resource in zip(LEVELS, FILLS, strict=True):
            moved = [self._volume(level, resource, tensor) for tensor in range(len(TENSORS))]
            spent[resource] += moved
            weights[level] = moved[WEIGHTS]
        self._registers(spent)
        if self.place:
            self._packing(spent, weights)
        self._objective(spent)

    def solve(self, *, below: float, time_limit: float, gap: float) -> Outcome:
        """Look for solutions that cost less than `below` seconds until the relative `gap` between
        the best one and the bound or `time_limit` seconds are reached. If there is none, `below` is
        the bound. A failure of SCIP gives no bound (0) and no solution."""
        from pyscipopt import SCIP_PARAMEMPHASIS

        model, limit = self.model, below / self.scale
        model.setEmphasis(SCIP_PARAMEMPHASIS.EASYCIP)  # before all limits: it resets them
        model.hideOutput()
        model.setParam("misc/usesymmetry", 0)
        model.setParam("limits/gap", gap)
        model.setParam("limits/time", max(time_limit, 0.05))
        model.setObjlimit(limit)
        try:
            model.optimize()
        except Exception:  # pyscipopt raises this very class for SCIP's own errors
            return Outcome(0.0, ())
        if model.getStatus() == "userinterrupt":
            raise KeyboardInterrupt  # SCIP has taken the signal
        bound = limit
        if model.getStatus() != "infeasible":
            bound = min(max(model.getDualbound(), 0.0), limit)
        solutions = model.getSols()[:STARTS]
        return Outcome(bound * self.scale * (1 - TOLERANCE), tuple(map(self._read, solutions)))

    def _read(self, solution: Any) -> tuple[int, Floats]:
        def value(expression: Expression) -> float:
            return float(self.model.getSolVal(solution, expression))

        sizes = np.ones((len(LEVELS), len(self.problem.names)))
        for (level, dim), x in self.x.items():
            sizes[LEVELS.index(level), self.problem.names.index(dim)] = exp(value(x))
        return int(np.argmax([value(z) for z in self.choice])), sizes

    # ---- capacity ----------------------------------------------------------------------------

    def _capacity(self, level: str, usable_bytes: float) -> None:
        parts = []
        for tensor, row in zip(self.problem.tensors, self.axes, strict=True):
            exponent = log(tensor.element.size / usable_bytes)
            for number, axis in enumerate(row):
                plain = axis.filter is None
                exponent = exponent + (
                    self.x[level, axis.image] if plain else self._log_extent(level, axis, number)
                )
            parts.append(self.exp(f"footprint:{level}:{tensor.name}", exponent))
        self.add(self.sum(parts) <= 1)

    def _log_extent(self, level: str, axis: Axis, number: int) -> Expression:
        """At least the logarithm of the extent of a tile along an axis with a halo.

        `own * points + rest * run <= extent`, divided by `extent`: so the terms are at most 1, and
        the big-M that frees the constraints of larger filter tiles is small.
        """
        points = self.x[level, axis.image]
        run = log_run(axis.dilation, points, self.problem.extent(axis.image))
        extent = self.variable(f"extent:{level}:{number}")
        own = self.exp(f"own:{level}:{number}", points - extent)
        halo = self.exp(f"halo:{level}:{number}", run - extent)
        row = self.filter_row(level, axis)
        for index, (taps, _) in enumerate(row):
            at_least = self.sum(y for _, y in row[index:])
            owned = min(axis.stride, taps)
            self.add(owned * own + (taps - owned) * halo <= 1 + (taps - 1) * (1 - at_least))
            self.add(extent >= points + log(owned) * at_least)
        return extent

    # ---- volumes -----------------------------------------------------------------------------

    def _volume(self, level: str, resource: str, index: int) -> Expression:
        """Scaled seconds of `resource` in which one tensor enters the tiles of a level."""
        tensor = self.problem.tensors[index]
        size = tensor.element.size * (OUTPUT_PASSES if index == OUTPUT else 1)
        exponent = self.of_choice(
            log(size / (c.rates.bytes[resource] * self.scale)) for c in self.choices
        )
        for dim in self.dims:
            if dim not in tensor.dims:
                reused = self.of_class(level, (dim in c.reuse[index].inside for c in self.classes))
                exponent = exponent + self.trips_unless(level, dim, reused, f"again{index}")
        for number, axis in enumerate(self.axes[index]):
            exponent = exponent + self.log_covered(level, axis.image)
            if axis.filter is not None:
                exponent = exponent + self._log_moved(level, index, axis, number)
        return self.exp(f"moved:{level}:{tensor.name}", exponent)

    def _log_moved(self, level: str, tensor: int, axis: Axis, number: int) -> Expression:
        """At least the logarithm of the elements moved along an axis with a halo, per image point.

        `own + rest * runs / points <= moved`, divided by `moved` as in `_log_extent`. Loops along
        which tiles overlap count as if they were whole: by the numbers of the next outer level.
        """
        assert axis.filter is not None
        taps = self.problem.extent(axis.filter)
        over_image, over_filter = (
            self.of_class(level, (c.reuse[tensor].overlap == dim for c in self.classes))
            for dim in (axis.image, axis.filter)
        )
        least = min(c.covered[axis.image] for c in self.choices)
        points = self.problem.extent(axis.image) if level == "L3" else least
        runs = self.trips_unless(level, axis.image, over_image, f"runs{number}")
        runs = log_runs(axis.dilation, runs, points) - self.log_covered(level, axis.image)
        moved = self.variable(f"moved:{level}:{number}", 0.0, log(taps))
        own = self.exp(f"moved own:{level}:{number}", -moved)
        halo = self.exp(f"moved halo:{level}:{number}", runs - moved)
        outer = LEVELS.index(level) - 1
        row = self.filter_row(level, axis)
        for end, (piece, _) in enumerate(row, start=1):
            # `cut`: the filter comes in pieces of at most this size.
            cut = self.variable(f"cut:{level}:{number}:{piece}", 0.0, 1.0)
            self.add(cut >= self.sum(y for _, y in row[:end]) - self.sum(over_filter))
            if outer >= 0:
                outer_row = self.filter_row(LEVELS[outer], axis)
                self.add(cut >= self.sum(y for _, y in outer_row[:end]))
            elif piece == taps:
                self.add(cut >= 1)
            owned = min(axis.stride * ceil(taps / piece), taps)
            self.add(owned * own + (taps - owned) * halo <= 1 + (taps - 1) * (1 - cut))
            self.add(moved >= log(owned) * cut)
        return moved

    # ---- registers ---------------------------------------------------------------------------

    def _registers(self, spent: dict[str, list[Expression]]) -> None:
        """Computing and the traffic of the registers: a fixed part and one per visit."""
        visits = self._log_visits()
        sizes = [tensor.element.size for tensor in self.problem.tensors]
        fixed: dict[str, list[float]] = {"core": [], "L1": []}
        each: dict[str, list[float]] = {"core": [], "L1": []}
        for choice in self.choices:
            work, rates = choice.work, choice.rates
            elements = (work.input, work.weights, work.output)
            l1 = rates.bytes["L1"] * self.scale
            fixed["core"].append(work.cycles / (rates.cycles * self.scale))
            fixed["L1"].append(sum(n * s for n, s in zip(elements, sizes, strict=True)) / l1)
            each["core"].append(log(work.cycles_per_visit / (rates.cycles * self.scale)))
            each["L1"].append(log(work.output_per_visit * sizes[OUTPUT] / l1))
        for name in ("core", "L1"):
            per_visit = self.exp(f"visits:{name}", visits + self.of_choice(each[name]))
            spent[name] += [self.of_choice(fixed[name]), per_visit]

    def _log_visits(self) -> Expression:
        """At least the logarithm of how often each accumulator is stored (`model.cost`): a kernel
        may run through reduction loops if its tile is the L1 tile and it does not stop to pack."""
        inner = LEVELS[-1]
        insides = [cls.reuse[OUTPUT].inside for cls in self.classes]
        streams: dict[frozenset[str], Any] = {}
        for inside in dict.fromkeys(insides):
            if inside:
                stream = streams[inside] = self.binary(f"stream:{len(streams)}")
                self.add(stream <= self.sum(self.of_class(inner, (i == inside for i in insides))))
        if streams:
            self._single_tiles(self.sum(streams.values()))
        visits = []
        for dim in self.dims:
            if dim in self.problem.reduction_dims:
                through = [stream for inside, stream in streams.items() if dim in inside]
                visits.append(self.trips_unless(inner, dim, through, "visits"))
        return self.sum(visits)

    def _single_tiles(self, stream: Expression) -> None:
        """Where `stream` is 1, L1 tiles are register tiles and nothing is packed at L1."""
        inner = LEVELS[-1]
        if self.place:
            self.add(stream + self.place[inner] <= 1)
        for dim in self.dims:
            if dim in self.problem.parallel_dims:
                extent = self.problem.extent(dim)
                units = [log(min(choice.unit(dim), extent)) for choice in self.choices]
                room = log(extent) - min(units)
                self.add(self.x[inner, dim] <= self.of_choice(units) + room * (1 - stream))

    # ---- packing and objective ---------------------------------------------------------------

    def _packing(self, spent: dict[str, list[Expression]], weights: dict[str, Any]) -> None:
        """What packing costs, by the place where it is done.

        At a level, the weights that enter its tiles are packed: `passed` is the time that they take
        to enter if the place is chosen, else 0. Where choices differ in speed the fastest counts.
        """
        dims, size = self.problem.weights.dims, self.problem.weights.element.size
        packing = [choice for choice in self.choices if choice.packs]
        once = prod(self.problem.extent(dim) for dim in dims)
        rates = {
            name: max(c.rates.bytes[name] for c in packing) * self.scale / size for name in MEMORY
        }
        cycles = max(c.rates.cycles for c in packing) * self.scale
        for name, taken in self.place.items():
            shared = name in ("whole", "L3")
            cores = max(c.rates.cores for c in packing) if shared else 1
            elements, resources = once * taken, MEMORY
            if name in LEVELS:
                resource = FILLS[LEVELS.index(name)]
                slowest = min(c.rates.bytes[resource] for c in packing) * self.scale / size
                least = min(prod(c.covered[dim] for dim in dims) for c in packing)
                passed = self.variable(f"packed:{name}")
                self.add(passed >= weights[name] - (1 - taken))
                self.add(passed >= (once if shared else least) / slowest * taken)
                elements = slowest * passed
                resources = MEMORY[: MEMORY.index(name) + 1]
            spent["core"].append(elements * (PACK_CYCLES / cores / cycles))
            for resource in resources:
                part = 1 if resource == "DRAM" else 1 / cores
                spent[resource].append(elements * (2 * part / rates[resource]))

    def _objective(self, spent: dict[str, list[Expression]]) -> None:
        """SCIP wants a linear objective: the slowest resource is a variable."""
        slowest = self.variable("slowest")
        seconds = []
        for name, parts in spent.items():
            time = self.variable(name)
            self.add(time >= self.sum(parts))
            self.add(slowest >= time)
            seconds.append(time)
        objective = slowest + TIE_BREAK * self.sum(seconds)
        self.model.setObjective(objective, "minimize")
        bounds = self.of_choice(choice.bound / self.scale for choice in self.choices)
        self.add(objective >= bounds - TOLERANCE)
