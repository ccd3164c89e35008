"""The plan: everything that a search could vary, and what the model predicts of it.

A plan is attached to an operator as the attribute `mopt.plan`, printed, cached, overridden by hand
and tested. What code generation decides beside it follows from it: which lines are asked for when,
the order in which a panel is filled, where partial sums wait, which loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, prod
from typing import Any

from mopt_mlir.machine.machine import PREFETCH_LEVELS
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.plain_data import DataError, Record, check_sizes
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import needs_panels, streams_whole_vectors

LEVELS = ("L3", "L2", "L1")
"""Tiling levels, outermost first: a tile of a level is what stays in that cache."""


PACKINGS = ("none", "whole", "L3", "L2", "L1")
"""Where weights are rearranged into panels: not at all, in front of the nest, or per tile."""

PLACES_TO_PACK = PACKINGS[1:]
"""From the outside in."""

GAP = 0.005
"""What plans are proven to unless another gap is asked for: far below what can be measured."""

TIME_LIMIT = 5.0
"""Seconds that a plan may take unless told otherwise: several times what the slowest of the usual
operators need."""


@dataclass(frozen=True)
class Level:
    """One level of tiling: the tile, and the order of the loops that step from tile to tile."""

    name: str
    order: tuple[str, ...]
    """Every dim of the problem, outermost loop first (the paper's permutation)."""
    tile: Mapping[str, int]
    """A size in elements for every dim."""


@dataclass(frozen=True)
class Prediction:
    """What the model says of a plan. Times are seconds, volumes bytes."""

    seconds: Mapping[str, float]
    """Of each resource: `compute`, `L1` (registers-L1 traffic), `L2` (L1-L2), `L3` (L2-L3), `DRAM`
    (L3-DRAM), `packing`, `parallel` (handing out work to cores)."""
    volumes: Mapping[str, Mapping[str, float]]
    """Of each memory resource and tensor."""
    classes: Mapping[str, str]
    """The class of the loop order of each level."""
    bottleneck: str
    """The resource that takes longest."""
    cost: float
    """The objective."""
    lower_bound: float
    """A proven bound on the cost of every plan among which the solver chooses."""

    @property
    def gap(self) -> float:
        """Proven relative distance from the optimum; infinite without a bound."""
        return (self.cost - self.lower_bound) / self.lower_bound if self.lower_bound > 0 else inf


@dataclass(frozen=True)
class Plan:
    """How one convolution is computed."""

    machine: str
    """The name of the machine that it is made for, with overrides."""
    threads: int
    """The cores that it may use."""
    microkernel: Microkernel
    """What is computed at a time, in registers."""
    levels: tuple[Level, ...]
    """Outermost first; a subset of LEVELS in that order."""
    parallel: Mapping[str, int] = field(default_factory=dict)
    """How many cores share the outermost level's tile along each dim, e.g. `{"k": 2}`."""
    packing: str = "whole"
    """Where weights are packed, one of PACKINGS."""
    nontemporal: bool = False
    """Whether the output is stored past the caches."""
    prefetch: str = "L1"
    """The cache into which output, and what later register tiles read, is asked for, one of
    PREFETCH_LEVELS (see `Machine.prefetch_into`)."""
    prediction: Prediction | None = None
    """What the model says of it; None of a plan that is not the solver's."""

    @property
    def cores(self) -> int:
        """The cores that share the work."""
        return prod(self.parallel.values())

    @property
    def reads_panels(self) -> bool:
        """Whether weights are read from panels, whoever packs them, rather than where they lie."""
        return self.packing != "none"

    def packs(self, *, constant_weights: bool) -> bool:
        """Whether weights are packed at run time: constant ones that are packed as a whole lie in
        panels already."""
        return self.reads_panels and not (constant_weights and self.packing == "whole")

    def packed_block(self, problem: Problem) -> Mapping[str, int]:
        """The sizes of what is packed at once; all of `problem` if that is in front of the nest."""
        return {level.name: level.tile for level in self.levels}.get(self.packing, problem.extents)

    def core_tile(self, dim: str, extent: int) -> int:
        """Elements of `dim` in one core's share of the outermost tile: whole register tiles, or all
        of the tile if it is less than one."""
        tile = min(self.levels[0].tile[dim], extent) if self.levels else extent
        ways = self.parallel.get(dim, 1)
        unit = self.microkernel.extent(dim)
        return tile if ways == 1 else min(tile, -(-tile // (ways * unit)) * unit)

    def outer_tile(self, problem: Problem, position: int) -> Mapping[str, int]:
        """What the tiles of level number `position` are cut from: the problem, a core's share of
        the outermost tile, or a tile of the level outside."""
        if position == 0:
            return problem.extents
        if position == 1:
            return {dim: self.core_tile(dim, problem.extent(dim)) for dim in problem.names}
        return self.levels[position - 1].tile

    def check(self, problem: Problem) -> None:
        """Raise DataError (a ValueError), naming the field, where this plan does not fit
        `problem`."""
        self.microkernel.check(problem)
        if self.threads < 1:
            raise DataError(f"threads = {self.threads} is not positive")
        check_sizes("parallel", self.parallel, set(problem.parallel_dims))
        if self.cores > self.threads:
            raise DataError(f"parallel needs more than threads = {self.threads}")
        self._check_memory(problem)
        level_names = [level.name for level in self.levels]
        if level_names != [name for name in LEVELS if name in level_names]:
            raise DataError(f"levels must be a subset of {', '.join(LEVELS)} in that order")
        if self.packing in LEVELS and self.packing not in level_names:
            raise DataError(f"packing at {self.packing}, which is not a level of the plan")
        around = "the operation"
        for position, level in enumerate(self.levels):
            outer = self.outer_tile(problem, position)
            _check_level(level, outer, around, self.microkernel, problem)
            around = f"the tile of {level.name}"
            if position == 0 and self.cores > 1:
                around = f"a core's share of {around}"

    def _check_memory(self, problem: Problem) -> None:
        lanes = self.microkernel.lanes
        if self.packing not in PACKINGS:
            raise DataError(f"packing is '{self.packing}', not one of {', '.join(PACKINGS)}")
        if self.prefetch not in PREFETCH_LEVELS:
            levels = ", ".join(PREFETCH_LEVELS)
            raise DataError(f"prefetch is '{self.prefetch}', not one of {levels}")
        if not self.reads_panels and needs_panels(problem, self.microkernel):
            raise DataError(f"packing is 'none', but '{lanes}' is not contiguous in the weights")
        if self.nontemporal and not streams_whole_vectors(problem.output, self.microkernel):
            raise DataError(
                f"nontemporal stores need whole vectors of '{lanes}' that are contiguous in the "
                "output, and aligned in every row of it"
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain data (strings, numbers, lists, dicts), the same as the attribute and JSON."""
        data: dict[str, Any] = {
            "machine": self.machine,
            "threads": self.threads,
            "microkernel": {
                "lanes": self.microkernel.lanes,
                "vector": self.microkernel.vector,
                "tile": dict(self.microkernel.tile),
                "reduction": list(self.microkernel.reduction),
            },
            "levels": [
                {"name": level.name, "order": list(level.order), "tile": dict(level.tile)}
                for level in self.levels
            ],
            "parallel": dict(self.parallel),
            "packing": self.packing,
            "nontemporal": self.nontemporal,
            "prefetch": self.prefetch,
        }
        if self.prediction is not None:
            predicted = self.prediction
            data["prediction"] = {
                "seconds": dict(predicted.seconds),
                "volumes": {name: dict(v) for name, v in predicted.volumes.items()},
                "classes": dict(predicted.classes),
                "bottleneck": predicted.bottleneck,
                "cost": predicted.cost,
                "lower_bound": predicted.lower_bound,
            }
            if predicted.lower_bound > 0:
                data["prediction"]["gap"] = predicted.gap
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Plan:
        """The inverse of `as_dict`. Raises DataError (a ValueError), naming the field, for one that
        is missing, unknown or of the wrong kind."""
        plan = Record.of(data, _names(Plan), "the plan")
        kernel = plan.record("microkernel", _names(Microkernel))
        return Plan(
            machine=plan.text("machine"),
            threads=plan.integer("threads"),
            microkernel=Microkernel(
                kernel.text("lanes"),
                kernel.integer("vector"),
                kernel.integers_by_name("tile"),
                kernel.texts("reduction"),
            ),
            levels=tuple(
                Level(level.text("name"), level.texts("order"), level.integers_by_name("tile"))
                for level in plan.records("levels", _names(Level))
            ),
            parallel=plan.integers_by_name("parallel") if "parallel" in plan else {},
            packing=plan.text("packing"),
            nontemporal="nontemporal" in plan and plan.truth("nontemporal"),
            prefetch=plan.text("prefetch") if "prefetch" in plan else "L1",
            prediction=_prediction(plan) if "prediction" in plan else None,
        )


def _prediction(plan: Record) -> Prediction:
    # the gap follows from the others, and is not read
    predicted = plan.record("prediction", [*_names(Prediction), "gap"])
    return Prediction(
        predicted.numbers_by_name("seconds"),
        predicted.numbers_by_names("volumes"),
        predicted.texts_by_name("classes"),
        predicted.text("bottleneck"),
        predicted.number("cost"),
        predicted.number("lower_bound"),
    )


def _names(kind: type) -> list[str]:
    """The fields of a dataclass, whose names are also those of plain data."""
    return [item.name for item in fields(kind)]


def _check_level(
    level: Level, outer: Mapping[str, int], around: str, kernel: Microkernel, problem: Problem
) -> None:
    """Every dim has a place in the order, and a tile of whole register tiles inside `outer`, the
    sizes of what is `around` it."""
    if sorted(level.order) != sorted(problem.names):
        raise DataError(f"{level.name}.order must name each of {', '.join(problem.names)}")
    check_sizes(f"{level.name}.tile", level.tile, set(problem.names))
    if lacking := [dim for dim in problem.names if dim not in level.tile]:
        raise DataError(f"{level.name}.tile lacks {', '.join(lacking)}")
    for dim in problem.names:
        size, unit = level.tile[dim], kernel.extent(dim)
        if not 1 <= size <= outer[dim]:
            most = outer[dim]
            raise DataError(
                f"{level.name}.tile[{dim}] = {size} is not in [1, {most}]: {around} has {most}"
            )
        if size % unit and size != problem.extent(dim):
            raise DataError(
                f"{level.name}.tile[{dim}] = {size} is neither the whole extent "
                f"nor a multiple of the register tile's {unit}"
            )
