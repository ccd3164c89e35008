"""The tile problem as a mixed-integer geometric program for SCIP, and what SCIP makes of it.

In the logarithms of tile sizes and trip counts every footprint and volume is a sum of exponentials
of linear forms, hence convex. What is not is left to binaries (see `variables`), which select among
the terms with big-M constraints. Everything is relaxed downwards, so that the dual bound holds for
every plan of the design space. Volumes and footprints are in `traffic`. Times are divided by the
cost of the plan to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, prod
from typing import Any

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import FILLED_FROM, MEMORY, exposed_parts, passed_by_packing
from mopt_mlir.model.packing import (
    IN_COMMON,
    PACK_PASSES,
    in_place_wait,
    pack_cycles,
    seconds_to_wait,
)
from mopt_mlir.model.room import usable
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import OUTPUT, TENSORS, WEIGHTS, Problem
from mopt_mlir.solver import scip
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.scenarios import IN_PLACE_LEVEL
from mopt_mlir.solver.space import Choice, shares
from mopt_mlir.solver.traffic import NEGLIGIBLE, Traffic
from mopt_mlir.solver.variables import Expression
from mopt_mlir.vector_access import whole_to_pack

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


class Formulation(Traffic):
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
        super().__init__(problem, machine, choices, cost, table)
        spent: dict[str, list[Expression]] = {name: [] for name in ("core", *MEMORY)}
        weights = {}
        for level, resource in FILLED_FROM.items():
            logs = [self._log_volume(level, resource, tensor) for tensor in range(len(TENSORS))]
            moved = [
                self.exp(f"moved:{level}:{name}", exponent)
                for name, exponent in zip(TENSORS, logs, strict=True)
            ]
            spent[resource] += moved
            weights[level] = moved[WEIGHTS]
            if level == IN_PLACE_LEVEL:
                spent["core"].append(self._in_place(logs[WEIGHTS]))
        spent["DRAM"] += [self._runs(), self._sums()]
        self._registers(spent)
        if self.place:
            self._packing(spent, weights)
        self._objective(spent)

    def solve(self, *, below: float, time_limit: float, gap: float, nodes: int = -1) -> Outcome:
        """Look for solutions that cost less than `below` seconds until the relative `gap` between
        the best one and the bound, `time_limit` seconds or `nodes` nodes (if not negative) are
        reached. If there is none, `below` is the bound. A failure of SCIP gives no bound (0) and no
        solution."""
        model, limit = self.model, below / self.scale
        model.setObjlimit(limit)
        if not scip.run(model, gap=gap, time_limit=time_limit, nodes=nodes, convex=True):
            return Outcome(0.0, ())
        bound = limit
        if model.getStatus() != "infeasible":
            bound = min(max(0.0, model.getDualbound()), limit)  # in this order NaN is 0
        solutions = model.getSols()[:STARTS]
        return Outcome(bound * self.scale * (1 - TOLERANCE), tuple(map(self._read, solutions)))

    def _read(self, solution: Any) -> tuple[int, Floats]:
        def value(expression: Expression) -> float:
            return float(self.model.getSolVal(solution, expression))

        sizes = np.ones((len(LEVELS), len(self.problem.names)))
        for (level, dim), x in self.x.items():
            sizes[LEVELS.index(level), self.problem.names.index(dim)] = exp(value(x))
        return int(np.argmax([value(z) for z in self.choice])), sizes

    # ---- registers ---------------------------------------------------------------------------

    def _registers(self, spent: dict[str, list[Expression]]) -> None:
        """Computing and the traffic of the registers: a fixed part and one per visit, by the choice
        and by what the busiest core covers along each dim that is split."""
        fixed: dict[str, list[Expression]] = {"core": [], "L1": []}
        each: dict[str, list[Expression]] = {"core": [], "L1": []}
        known = [self._register_times(choice)[1] for choice in self.choices]
        for name in ("core", "L1"):
            least = [times[name].min(axis=1) for times in known]
            fixed[name].append(self.of_choice(once for once, _ in least))
            each[name].append(self.of_choice(log(per_visit) for _, per_visit in least))
        for dim, row in self.covered.items():
            at = self.problem.names.index(dim)
            points = [n for n, _ in row]
            split = [self._register_times(choice, dim) for choice in self.choices]
            for name in ("core", "L1"):
                once, per_visit = np.min(
                    [_least_from(points, c[:, at], times[name]) for c, times in split], axis=0
                )
                seconds = zip((y for _, y in row), once, per_visit, strict=True)
                terms = [(y * first, y * log(further)) for y, first, further in seconds]
                fixed[name].append(self.sum(term for term, _ in terms))
                each[name].append(self.sum(term for _, term in terms))
        for name in ("core", "L1"):
            once = self.at_least(f"fixed:{name}", *fixed[name])
            log_each = self.at_least(f"each:{name}", *each[name])
            spent[name] += [once, self.exp(f"visits:{name}", self.visits + log_each)]

    def _register_times(
        self, choice: Choice, along: str | None = None
    ) -> tuple[Ints, dict[str, Floats]]:
        """The `shares` of the busiest core, and scaled seconds of computing and of traffic with L1
        for each of them: once (the first row), and per visit."""
        covered, found = shares(self.problem, choice, along)
        cycles, per_visit, *elements, output_per_visit = found
        sizes = [tensor.element.size for tensor in self.problem.tensors]
        moved = sum(n * size for n, size in zip(elements, sizes, strict=True))
        core, l1 = (rate * self.scale for rate in (choice.rates.cycles, choice.rates.bytes["L1"]))
        return covered, {
            "core": np.array([cycles, per_visit]) / core,
            "L1": np.array([moved, output_per_visit * sizes[OUTPUT]]) / l1,
        }

    # ---- packing and objective ---------------------------------------------------------------

    def _packing(self, spent: dict[str, list[Expression]], weights: dict[str, Any]) -> None:
        """What packing costs, by the place where it is done.

        At a level, the weights that enter its tiles are packed: `passed` is the time that they take
        to enter if the place is chosen, else 0. Where choices differ in speed the fastest counts.
        """
        dims, size = self.problem.weights.dims, self.problem.weights.element.size
        packing = [choice for choice in self.choices if choice.packs]
        once = self.problem.points(dims)
        rates = {
            name: max(c.rates.bytes[name] for c in packing) * self.scale / size for name in MEMORY
        }
        cycles = max(c.rates.cycles for c in packing) * self.scale
        spanned = [whole_to_pack(self.problem, choice.kernel) for choice in packing]
        for name, taken in self.place.items():
            for dim in self.dims:
                if name in LEVELS and all(dim in whole for whole in spanned):
                    self.add(self.x[name, dim] >= log(self.problem.extent(dim)) * taken)
            shared = name in IN_COMMON
            cores = max(c.rates.cores for c in packing) if shared else 1
            elements = once * taken
            if name in LEVELS:
                resource = FILLED_FROM[name]
                slowest = min(c.rates.bytes[resource] for c in packing) * self.scale / size
                least = min(prod(c.covered[dim] for dim in dims) for c in packing)
                passed = self.variable(f"packed:{name}")
                self.add(passed >= weights[name] - (1 - taken))
                self.add(passed >= (once if shared else least) / slowest * taken)
                elements = slowest * passed
            each = min(pack_cycles(self.problem, choice.kernel, name) for choice in packing)
            spent["core"].append(elements * (each / cores / cycles))
            spent["core"].append(self._first_block(name, packing))
            for resource in passed_by_packing(name):
                part = 1 if resource == "DRAM" else 1 / cores
                spent[resource].append(elements * (PACK_PASSES * part / rates[resource]))

    def _in_place(self, log_rows: Expression) -> Expression:
        """Scaled seconds of waiting for weights that are read in place, of which `log_rows` says
        how long they take to come."""
        if any(choice.reads_panels for choice in self.choices):  # proofs look at either kind apart
            return 0.0
        waits = self.of_choice(
            log(in_place_wait(self.problem, self.machine, choice.kernel)) for choice in self.choices
        )
        return self.exp("in place", log_rows + waits)

    def _first_block(self, place: str, packing: Sequence[Choice]) -> Expression:
        """Scaled seconds of waiting for the first block that is packed, if it is at `place`."""
        waiting = min(
            seconds_to_wait(
                self.problem,
                choice.rates,
                choice.parallel,
                place,
                pack_cycles(self.problem, choice.kernel, place),
            )
            for choice in packing
        )
        weights, taken = self.problem.weights, self.place[place]
        if place not in LEVELS:
            once = self.problem.points(weights.dims)
            return taken * (once * waiting / self.scale)
        block = self.variable(f"block:{place}")  # as a part of what the cache has room for
        self.add(block >= self.held[place] - (1 - taken))
        room = usable(self.machine, place) / weights.element.size
        return block * (room * waiting / self.scale)

    def _objective(self, spent: dict[str, list[Expression]]) -> None:
        """SCIP wants a linear objective: the slowest resource is a variable."""
        slowest = self.variable("slowest")
        parts_on_top, shares = exposed_parts(self.machine), []
        for name, parts in spent.items():
            time = self.variable(name)
            self.add(time >= self.sum(parts))
            self.add(slowest >= time)
            shares.append(parts_on_top[name] * time)
        objective = self._starts() + slowest + self.sum(shares)
        self.model.setObjective(objective, "minimize")
        bounds = self.of_choice(choice.bound / self.scale for choice in self.choices)
        self.add(objective >= bounds - TOLERANCE)

    def _starts(self) -> Expression:
        """Scaled seconds in which work is handed out, once per L3 tile."""
        once = [choice.start / self.scale for choice in self.choices]
        if not any(once):
            return 0.0
        tiles = self.sum(self.trips[LEVELS[0], dim] for dim in self.dims)
        alone = self.of_choice(float(not seconds) for seconds in once)
        most = sum(log(self.problem.extent(dim)) for dim in self.dims)
        return self.exp("starts", tiles + log(max(once)) - (most + NEGLIGIBLE) * alone)


def _least_from(points: Sequence[int], covered: Ints, times: Floats) -> Floats:
    """The least of each row of `times` (`[row, share]`) among the shares that cover each number of
    points or more, infinite if none does."""
    order = np.argsort(covered)
    least = np.full((len(times), len(order) + 1), inf)
    least[:, :-1] = np.minimum.accumulate(times[:, order[::-1]], axis=1)[:, ::-1]
    return np.asarray(least[:, np.searchsorted(covered[order], points)])
