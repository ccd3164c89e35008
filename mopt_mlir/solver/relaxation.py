"""The tile problem as a mixed-integer geometric program for SCIP, and what SCIP makes of it.

In the logarithms of tile sizes and trip counts every footprint and volume is a sum of exponentials
of linear forms, hence convex. What is not is left to binaries (see `variables`), which select among
the terms with big-M constraints. Everything is relaxed downwards, so that the dual bound holds for
every plan of the design space. Times are divided by the cost of the plan to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, prod
from typing import Any

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import (
    MEMORY,
    PACK_CYCLES,
    PACK_PASSES,
    TENSORS,
    TIE_BREAK,
    usable,
)
from mopt_mlir.model.footprint import MemoryAxis
from mopt_mlir.model.microkernel import RegisterWork
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import Problem
from mopt_mlir.solver import scip
from mopt_mlir.solver.axis_bounds import (
    facets,
    facets_of_pieces,
    least,
    of_partitions,
    of_pieces,
    of_tile,
    rate,
)
from mopt_mlir.solver.evaluate import FILLS, OUTPUT, WEIGHTS
from mopt_mlir.solver.space import Choice
from mopt_mlir.solver.variables import Expression, Variables
from mopt_mlir.solver.walk import Floats, Ints

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
        super().__init__(problem, machine, choices, table)
        self.scale = cost
        for level in LEVELS:
            self._capacity(level, usable(machine, level))
        self.visits = self._log_visits()
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

    # ---- capacity ----------------------------------------------------------------------------

    def _capacity(self, level: str, usable_bytes: float) -> None:
        sizes = []
        for index, tensor in enumerate(self.problem.tensors):
            exponent = log(tensor.element.size / usable_bytes)
            for number, part in enumerate(self.axes[level, index]):
                exponent = exponent + self._log_occupied(level, part, f"{level}:{index}:{number}")
            sizes.append(self.exp(f"footprint:{level}:{tensor.name}", exponent))
        self.add(self.sum(sizes) <= 1)

    def _log_occupied(self, level: str, part: MemoryAxis, name: str) -> Expression:
        """At least the logarithm of the elements that a tile occupies along an axis."""
        axis, x = part.axis, self.x[level, part.axis.image]
        if part.plain:
            return x
        if axis.filter is not None:
            return self._log_extent(level, part, name)
        values, row = of_tile(part, 1), self.pick.get((level, axis.image))
        if row is not None:
            return self.sum(y * log(values[size - 1]) for size, y in row)
        sizes = self._sizes(axis.image)
        bounds = x + log(rate(values, sizes)), log(least(values, sizes))
        return self.at_least(f"occupied:{name}", *bounds)

    def _log_extent(self, level: str, part: MemoryAxis, name: str) -> Expression:
        """The same for an axis with a halo.

        `slope * points + offset <= extent`, divided by `extent`: so the terms are at most 1, and
        the big-M that frees the constraints of larger filter tiles is small.
        """
        image, row = part.axis.image, self.filter_row(level, part.axis)
        extent = self.variable(f"extent:{name}")
        images, points = self.pick.get((level, image)), self.x[level, image]
        if images is None:
            own, halo = self.exp(f"own:{name}", points - extent), self.exp(f"halo:{name}", -extent)
        for index, (taps, _) in enumerate(row):
            values, smaller = of_tile(part, taps), 1 - self.sum(y for _, y in row[index:])
            if images is not None:
                occupied = self.sum(y * log(values[size - 1]) for size, y in images)
                self.add(extent >= occupied - log(values.max()) * smaller)
                continue
            sizes = self._sizes(image)
            excess = float((values / of_tile(part, 1)).max()) - 1
            for slope, offset in facets(values, sizes):
                self.add(slope * own + offset * halo <= 1 + excess * smaller)
            self.add(extent >= points + log(rate(values, sizes)) * (1 - smaller))
        return extent

    def _sizes(self, dim: str) -> Ints:
        """All sizes in elements that a tile along a dim may have."""
        extent, units = self.problem.extent(dim), {choice.step(dim) for choice in self.choices}
        return np.array(sorted({extent, *(n for u in units for n in range(u, extent, u))}))

    # ---- volumes -----------------------------------------------------------------------------

    def _volume(self, level: str, resource: str, index: int) -> Expression:
        """Scaled seconds of `resource` in which one tensor enters the tiles of a level."""
        tensor = self.problem.tensors[index]
        exponent = self.of_choice(
            log(tensor.element.size * rates.passes(level, index == OUTPUT))
            - log(rates.bytes[resource] * self.scale)
            for rates in (choice.rates for choice in self.choices)
        )
        for dim in self.dims:
            if dim not in tensor.dims:
                reused = self.of_class(level, (dim in c.reuse[index].inside for c in self.classes))
                exponent = exponent + self.trips_unless(level, dim, reused, f"again{index}")
        for number, part in enumerate(self.axes[level, index]):
            if part.plain:
                exponent = exponent + self.log_covered(level, part.axis.image)
            elif part.axis.filter is None:
                exponent = exponent + self._log_brought(level, part, index)
            else:
                exponent = exponent + self.log_covered(level, part.axis.image)
                exponent = exponent + self._log_moved(level, index, part, number)
        if index == OUTPUT and resource == FILLS[0]:
            exponent = exponent + self._log_passes()
        return self.exp(f"moved:{level}:{tensor.name}", exponent)

    def _log_passes(self) -> Expression:
        """The logarithm of the part that is left of the time to write the output to memory, if it
        goes past the caches, where every accumulator is stored just once."""
        if not any(choice.streams for choice in self.choices):
            return 0.0
        past = self.binary("nontemporal")
        self.add(past <= self.of_choice(float(choice.streams) for choice in self.choices))
        most = sum(log(self.problem.extent(dim)) for dim in self.problem.reduction_dims)
        self.add(self.visits <= most * (1 - past))
        streaming = [choice.rates for choice in self.choices if choice.streams]
        return past * log(min(rates.streamed / rates.written for rates in streaming))

    def _log_brought(self, level: str, part: MemoryAxis, tensor: int) -> Expression:
        """At least the logarithm of the elements that all tiles bring in along a contiguous axis
        without a halo."""
        dim = part.axis.image
        row = self.pick.get((level, dim))
        if row is not None:
            moved = self._partitioned(level, part, 1, self._least_covered(level, dim))
            return self.sum(y * log(moved[size]) for size, y in row)
        values = of_tile(part, 1)
        points = self.log_covered(level, dim) + log(rate(values))
        tiles = self.trips[level, dim] + log(least(values))
        return self.at_least(f"brought:{level}:{tensor}", points, tiles)

    def _least_covered(self, level: str, dim: str) -> int:
        """Points along `dim` that enter the caches of a level, at least."""
        if level == LEVELS[0]:
            return self.problem.extent(dim)
        return min(choice.covered[dim] for choice in self.choices)

    def _partitioned(
        self, level: str, part: MemoryAxis, most: int, points: int
    ) -> dict[int, float]:
        """`of_partitions` for the sizes of a table, in which all choices agree."""
        choice, dim = self.choices[0], part.axis.image
        share = min(-(-choice.units[dim] // choice.ways(dim)) * choice.unit(dim), part.points)
        sizes = [size for size, _ in self.pick[level, dim]]
        moved = of_partitions(
            part,
            most,
            sizes,
            unit=choice.step(dim),
            points=points,
            largest=part.points if level == LEVELS[0] else share,
        )
        return dict(zip(sizes, moved, strict=True))

    def _log_moved(self, level: str, tensor: int, part: MemoryAxis, number: int) -> Expression:
        """At least the logarithm of the elements moved along an axis with a halo, per image point.

        `slope + offset * runs / points <= moved`, divided by `moved` as in `_log_extent`. Loops
        along which tiles overlap count as if they were whole: by the numbers of the next outer
        level.
        """
        axis = part.axis
        assert axis.filter is not None
        row = self.filter_row(level, axis)
        over_image, over_filter = (
            self.of_class(level, (c.reuse[tensor].overlap == dim for c in self.classes))
            for dim in (axis.image, axis.filter)
        )
        low = log(rate(of_pieces(part, part.taps)))
        high = log((of_pieces(part, 1) / np.arange(1, part.points + 1)).max())
        moved = self.variable(f"moved:{level}:{number}", low, high)
        tabulated = (level, axis.image) in self.pick
        if not tabulated:
            runs = self.trips_unless(level, axis.image, over_image, f"runs{number}")
            runs = runs - self.log_covered(level, axis.image)
            own = self.exp(f"moved own:{level}:{number}", -moved)
            halo = self.exp(f"moved halo:{level}:{number}", runs - moved)
        outer = LEVELS.index(level) - 1
        for end, (piece, _) in enumerate(row, start=1):
            # `cut`: the filter comes in pieces of at most this size.
            cut = self.variable(f"cut:{level}:{number}:{piece}", 0.0, 1.0)
            self.add(cut >= self.sum(y for _, y in row[:end]) - self.sum(over_filter))
            if outer >= 0:
                outer_row = self.filter_row(LEVELS[outer], axis)
                self.add(cut >= self.sum(y for _, y in outer_row[:end]))
            elif piece == part.taps:
                self.add(cut >= 1)
            if tabulated:
                slack = (1 - cut) * (high - low)
                self._tabulated(level, part, piece, moved - low + slack, over_image)
                continue
            for slope, offset in facets_of_pieces(part, piece):
                excess = (slope + offset) / exp(low) - 1
                self.add(slope * own + offset * halo <= 1 + excess * (1 - cut))
            self.add(moved >= low + (log(rate(of_pieces(part, piece))) - low) * cut)
        return moved

    def _tabulated(
        self, level: str, part: MemoryAxis, piece: int, moved: Expression, over_image: list[Any]
    ) -> None:
        """`moved`, here beyond its least value, where the tiles of the image are those of a table
        and the filter comes in pieces of at most `piece`."""
        dim, outer = part.axis.image, LEVELS.index(level) - 1
        covered = {self._least_covered(level, dim)}
        if outer >= 0 and dim in self.covered:
            covered = {points for points, _ in self.covered[dim]}
        cut = [(n, self._partitioned(level, part, piece, n)) for n in covered]
        low = log(rate(of_pieces(part, part.taps)))
        per_point = {
            size: log(min(found[size] / n for n, found in cut)) - low
            for size, _ in self.pick[level, dim]
        }

        def of_level(name: str) -> Expression:
            return self.sum(y * per_point[size] for size, y in self.pick[name, dim])

        span = max(per_point.values())
        self.add(moved >= of_level(level) - span * self.sum(over_image))
        self.add(moved >= (of_level(LEVELS[outer]) if outer >= 0 else per_point[part.points]))

    # ---- registers ---------------------------------------------------------------------------

    def _registers(self, spent: dict[str, list[Expression]]) -> None:
        """Computing and the traffic of the registers: a fixed part and one per visit."""
        fixed: dict[str, list[float]] = {"core": [], "L1": []}
        each: dict[str, list[float]] = {"core": [], "L1": []}
        for choice in self.choices:
            for name, (once, per_visit) in self._register_times(choice, choice.work).items():
                fixed[name].append(once)
                each[name].append(log(per_visit))
        for name in ("core", "L1"):
            once, log_each = self.of_choice(fixed[name]), self.of_choice(each[name])
            if self.covered:
                once, log_each = self._covered_times(name, once, log_each)
            spent[name] += [once, self.exp(f"visits:{name}", self.visits + log_each)]

    def _register_times(self, choice: Choice, work: RegisterWork) -> dict[str, tuple[float, float]]:
        """Scaled seconds of computing and of traffic with L1: once, and per visit."""
        sizes = [tensor.element.size for tensor in self.problem.tensors]
        moved = sum(
            n * s for n, s in zip((work.input, work.weights, work.output), sizes, strict=True)
        )
        core, l1 = (rate * self.scale for rate in (choice.rates.cycles, choice.rates.bytes["L1"]))
        return {
            "core": (work.cycles / core, work.cycles_per_visit / core),
            "L1": (moved / l1, work.output_per_visit * sizes[OUTPUT] / l1),
        }

    def _covered_times(
        self, name: str, once: Expression, log_each: Expression
    ) -> tuple[Expression, Expression]:
        """The same at least, by what the busiest core covers along each dim that is split."""
        fixed, each = [once], [log_each]
        for dim, row in self.covered.items():
            times = []
            for choice in self.choices:
                known = {}
                for points in {points for points, _ in row}:
                    work = choice.work_of({**choice.covered, dim: points}, self.problem)
                    known[points] = self._register_times(choice, work)[name]
                times.append(known)
            least = {n: tuple(map(min, zip(*(t[n] for t in times), strict=True))) for n, _ in row}
            fixed.append(self.sum(y * least[points][0] for points, y in row))
            each.append(self.sum(y * log(least[points][1]) for points, y in row))
        return self.at_least(f"fixed:{name}", *fixed), self.at_least(f"each:{name}", *each)

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
                units = [log(choice.step(dim)) for choice in self.choices]
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
            spent["core"].append(elements * (PACK_CYCLES[name] / cores / cycles))
            for resource in resources:
                part = 1 if resource == "DRAM" else 1 / cores
                spent[resource].append(elements * (PACK_PASSES * part / rates[resource]))

    def _objective(self, spent: dict[str, list[Expression]]) -> None:
        """SCIP wants a linear objective: the slowest resource is a variable."""
        slowest = self.variable("slowest")
        seconds = []
        for name, parts in spent.items():
            time = self.variable(name)
            self.add(time >= self.sum(parts))
            self.add(slowest >= time)
            seconds.append(time)
        objective = self._starts() + slowest + TIE_BREAK * self.sum(seconds)
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
        repeated = self.exp("starts", tiles - most * alone + log(max(once)))
        return repeated - max(once) * alone
