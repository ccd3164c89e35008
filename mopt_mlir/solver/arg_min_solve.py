"""The continuous program of one step of the paper's Algorithm 1, for SCIP.

Tile sizes are real numbers, trip counts the quotients `N / T`. The program minimises the time of
one level among those solutions in which no other open level takes longer (Sec. 5): unlike an
epigraph, that needs the exact value of the level's volume, so it is not convex. Volumes and
footprints are those of the model, in elements. The classes of the open levels are binaries: SCIP
looks at all of `pm` at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.classes import permutation_classes
from mopt_mlir.model.cost import FILLED_FROM
from mopt_mlir.model.footprint import Axis, axes
from mopt_mlir.model.room import usable
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import OUTPUT, Problem
from mopt_mlir.solver import scip
from mopt_mlir.solver.space import Choice

Expression = Any

REGISTERS = "Reg"
"""The innermost level of Algorithm 1: the microkernel's tile of outputs, which is given, and what
part of the reduction it runs through at a time."""

SLACK = 1e-4
"""By which tiles may exceed those around them and the caches, relative: what is fixed at the limit
has to fit again in the next step."""

NODES = 20
NODES_CONVEX = 100
"""Branch-and-bound nodes of one solve: with an objective level; without, where only the choice of
classes is not convex and some solution has to be found. (The paper's Ipopt is content with local
optima.)"""

GAP = 1e-3
"""Relative gap at which a solve ends; flooring loses more."""


@dataclass(frozen=True)
class LevelSolution:
    """Real tile sizes in elements, and the class of the loops, an index into the problem's."""

    tile: Mapping[str, float]
    order: int


@dataclass(frozen=True)
class StepSolution:
    """The least seconds that the level takes, a lower bound on them, and all levels' tiles then."""

    seconds: float
    bound: float
    levels: Mapping[str, LevelSolution]


def arg_min_solve(
    problem: Problem,
    machine: Machine,
    choice: Choice,
    objective: str | None,
    open_levels: Sequence[str],
    fixed: Mapping[str, LevelSolution],
    *,
    at_least: float,
    time_limit: float,
) -> StepSolution | None:
    """`ArgMinSolve` of Algorithm 1: minimise the time of level `objective` such that it is the
    longest of `open_levels`; `fixed` are the tiles of the other levels. Without an objective,
    whichever of them takes longest is minimised, which bounds all the others: `at_least` seconds.
    None if there is no such solution, or none was found in `time_limit` seconds."""
    program = _Program(problem, machine, choice, fixed)
    return program.solve(objective, open_levels, at_least, time_limit)


class _Program:
    """Variables per (level, dim): `x` is log(tile size), `trips` log(number of tiles)."""

    def __init__(
        self,
        problem: Problem,
        machine: Machine,
        choice: Choice,
        fixed: Mapping[str, LevelSolution],
    ) -> None:
        from pyscipopt import Model, quicksum

        self.problem, self.choice, self.fixed = problem, choice, fixed
        self.model: Any = Model()
        self.sum = quicksum
        self.dims = [dim for dim in problem.names if problem.extent(dim) > 1]
        self.classes = permutation_classes(problem)
        self.scale = choice.bound
        self.axes = tuple(
            tuple(axis for axis in axes(problem, tensor) if problem.extent(axis.image) > 1)
            for tensor in problem.tensors
        )
        self.x: dict[tuple[str, str], Expression] = {}
        self.trips: dict[tuple[str, str], Expression] = {}
        self.order = {level: self._classes(level) for level in LEVELS}
        for dim in self.dims:
            self._tiles(dim)
            if dim in problem.reduction_dims:
                self._carried(dim)
        for level in LEVELS:
            self._capacity(level, usable(machine, level))

    def solve(
        self, objective: str | None, open_levels: Sequence[str], at_least: float, time_limit: float
    ) -> StepSolution | None:
        model = self.model
        times = {level: self._time(level, exact=level == objective) for level in open_levels}
        longest = model.addVar("longest", lb=at_least / self.scale)
        for level, time in times.items():
            model.addCons(longest == time if level == objective else longest >= time)
        model.setObjective(longest, "minimize")
        nodes = NODES if objective else NODES_CONVEX
        done = scip.run(model, gap=GAP, time_limit=time_limit, nodes=nodes, convex=False)
        if done and objective is None and model.getStatus() == "nodelimit" and not model.getNSols():
            model.setParam("limits/nodes", -1)
            model.setParam("limits/solutions", 1)
            done = scip.resume(model)
        if not done or not model.getNSols():
            return None
        levels = {level: self._read(level) for level in (*LEVELS, REGISTERS)}
        bound = max(0.0, model.getDualbound()) * self.scale  # in this order also if that is NaN
        return StepSolution(model.getVal(longest) * self.scale, bound, levels)

    def _read(self, level: str) -> LevelSolution:
        if level in self.fixed:
            return self.fixed[level]
        sizes = {dim: x for (name, dim), x in self.x.items() if name == level}
        tile = {dim: exp(self.model.getVal(x)) for dim, x in sizes.items()}
        chosen = [self.model.getVal(z) for z in self.order.get(level, ())]
        return LevelSolution(tile, chosen.index(max(chosen)) if chosen else 0)

    # ---- decisions ---------------------------------------------------------------------------

    def _classes(self, level: str) -> list[Any]:
        if level in self.fixed:
            order = self.fixed[level].order
            return [float(index == order) for index in range(len(self.classes))]
        binaries = [self.model.addVar(f"{level}:{c.name}", vtype="B") for c in self.classes]
        self.model.addCons(self.sum(binaries) == 1)
        return binaries

    def _tiles(self, dim: str) -> None:
        extent, ways = self.problem.extent(dim), self.choice.ways(dim)
        least = min(self.choice.unit(dim), extent)
        share = max(extent / ways, least)
        for index, level in enumerate(LEVELS):
            whole = extent if level == "L3" else share
            if level in self.fixed:
                x: Expression = log(self.fixed[level].tile[dim])
            else:
                x = self.model.addVar(f"x:{level}:{dim}", lb=log(least), ub=log(whole))
            self.x[level, dim], self.trips[level, dim] = x, log(whole) - x
            if index and (level not in self.fixed or LEVELS[index - 1] not in self.fixed):
                split = log(extent / share) if level == "L2" else 0.0
                self.model.addCons(x <= self.x[LEVELS[index - 1], dim] - split + SLACK)

    def _carried(self, dim: str) -> None:
        """The part of a reduction dim that the microkernel runs through at a time."""
        whole = log(self.problem.extent(dim))
        x: Expression = self.model.addVar(f"x:{REGISTERS}:{dim}", lb=0.0, ub=whole)
        if REGISTERS in self.fixed:
            x = log(self.fixed[REGISTERS].tile[dim])
        self.x[REGISTERS, dim], self.trips[REGISTERS, dim] = x, whole - x
        if not (REGISTERS in self.fixed and LEVELS[-1] in self.fixed):
            self.model.addCons(x <= self.x[LEVELS[-1], dim] + SLACK)

    # ---- footprints and volumes --------------------------------------------------------------

    def _capacity(self, level: str, usable_bytes: float) -> None:
        if level in self.fixed:
            return
        parts = []
        for tensor, row in zip(self.problem.tensors, self.axes, strict=True):
            exponent = log(tensor.element.size / usable_bytes)
            for axis in row:
                exponent = exponent + self.x[level, axis.image]
                if axis.filter is not None:
                    taps = _exp(self.x[level, axis.filter])
                    run = _exp(-self.x[level, axis.image])
                    exponent = exponent + self._log_moved(axis, taps, 1.0, run, exact=False)
            parts.append(self._value(exponent, exact=False))
        self.model.addCons(self.sum(parts) <= 1 + SLACK)

    def _time(self, level: str, *, exact: bool) -> Expression:
        """The time of a level, scaled: exactly, or at least that."""
        rates = self.choice.rates.bytes
        sizes = [tensor.element.size for tensor in self.problem.tensors]
        if level == REGISTERS:
            work, l1 = self.choice.work, rates["L1"] * self.scale
            visits = self.sum(
                self.trips[REGISTERS, d] for d in self.dims if d in self.problem.reduction_dims
            )
            moved = (work.input, work.weights, work.output)
            once = sum(n * s for n, s in zip(moved, sizes, strict=True)) / l1
            each = log(work.output_per_visit * sizes[OUTPUT] / l1)
            return once + self._value(visits + each, exact=exact)
        rate = rates[FILLED_FROM[level]] * self.scale
        return self.sum(
            self._value(self._log_volume(level, index, exact=exact) - log(rate), exact=exact)
            for index in range(len(sizes))
        )

    def _log_volume(self, level: str, index: int, *, exact: bool) -> Expression:
        """The logarithm of the bytes of one tensor that enter the tiles of a level."""
        tensor = self.problem.tensors[index]
        passes = self.choice.rates.passes(level, index == OUTPUT)
        total: Expression = log(tensor.element.size * passes)
        for dim in self.dims:
            if dim not in tensor.dims:
                inside = [dim in cls.reuse[index].inside for cls in self.classes]
                total = total + self._trips(level, dim, inside)
        for axis in self.axes[index]:
            whole = self.trips[level, axis.image] + self.x[level, axis.image]
            total = total + whole
            if axis.filter is not None:
                over = [cls.reuse[index].overlap for cls in self.classes]
                runs = self._trips(level, axis.image, [dim == axis.image for dim in over])
                pieces = self._trips(level, axis.filter, [dim == axis.filter for dim in over])
                taps = float(self.problem.extent(axis.filter))
                total = total + self._log_moved(
                    axis, taps, _exp(pieces), _exp(runs - whole), exact=exact
                )
        return total

    def _trips(self, level: str, dim: str, outer: Sequence[bool]) -> Expression:
        """`trips` of a level, or of the next outer one where a class is chosen of which `outer`
        holds."""
        trips = self.trips[level, dim]
        chosen = [z for z, holds in zip(self.order[level], outer, strict=True) if holds]
        if not chosen:
            return trips
        index = LEVELS.index(level)
        beyond = self.trips[LEVELS[index - 1], dim] if index else 0.0
        if level in self.fixed:
            return beyond if sum(chosen) else trips
        most, taken = log(self.problem.extent(dim)), self.sum(chosen)
        found = self.model.addVar(f"trips:{level}:{dim}", lb=0.0, ub=most)
        for sign in (1, -1):
            self.model.addCons(sign * (found - trips) <= most * taken)
            self.model.addCons(sign * (found - beyond) <= most * (1 - taken))
        return found

    def _log_moved(
        self, axis: Axis, taps: Expression, pieces: Expression, runs: Expression, *, exact: bool
    ) -> Expression:
        """The logarithm of `Axis.touched` per image point: `taps` in `pieces` pieces, and the image
        in `runs` runs per point."""
        assert axis.filter is not None
        own = _least(axis.stride * pieces, taps)
        halo = _least(axis.dilation * runs, 1.0)
        most = log(self.problem.extent(axis.filter))
        found = self.model.addVar("moved", lb=0.0, ub=most)
        self._define(_exp(found), own + halo * (taps - own), exact=exact)
        return found

    def _value(self, exponent: Expression, *, exact: bool) -> Expression:
        """A variable that is `exp(exponent)`, or at least that."""
        value = self.model.addVar("value", lb=0.0)
        self._define(value, _exp(exponent), exact=exact)
        return value

    def _define(self, variable: Expression, value: Expression, *, exact: bool) -> None:
        self.model.addCons(variable == value if exact else variable >= value)


def _exp(exponent: Expression) -> Expression:
    """`exp`, of a number or an expression."""
    if isinstance(exponent, float | int):
        return exp(exponent)
    from pyscipopt import exp as scip_exp

    return scip_exp(exponent)


def _least(a: Expression, b: Expression) -> Expression:
    """The smaller of two numbers or expressions."""
    if isinstance(a, float | int) and isinstance(b, float | int):
        return min(a, b)
    return (a + b - abs(a - b)) / 2
