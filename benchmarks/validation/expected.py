"""What the model expects a plan to move, and which memory that keeps busy for longest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mopt_mlir.estimate.residency import resident_volumes
from mopt_mlir.model.cost import MEMORY, breakdown, prediction_of
from mopt_mlir.plan import Plan, Prediction

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine
    from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class Expected:
    """Of one plan: the solver's `prediction`, but for caches that are slower while a core computes,
    of which predicted times know nothing; bytes by resource and tensor with what caches keep beyond
    their tiles, and sums that wait in memory (`resident`); and what DRAM takes in the prediction
    beside moving what tiles bring in (`beside_seconds`)."""

    prediction: Prediction
    resident: Mapping[str, Mapping[str, float]]
    beside_seconds: float

    @staticmethod
    def of(problem: Problem, machine: Machine, plan: Plan) -> Expected:
        found = breakdown(problem, machine.at_rest, plan)
        prediction = prediction_of(problem, machine, plan, found)
        resident = resident_volumes(problem, machine, plan, prediction)
        return Expected(prediction, resident, found.runs_seconds + found.sums_seconds)

    def moved(self, resource: str) -> float:
        """Bytes, with what caches keep."""
        return sum(self.resident[resource].values())

    def moved_by_tiles(self, resource: str) -> float:
        """Bytes, by tiles alone."""
        return sum(self.prediction.volumes[resource].values())

    @property
    def slowest_memory(self) -> str:
        """The resource that the model calls the bottleneck, but for computing: whose volume takes
        the longest."""
        return self.slowest(self.moved)

    def slowest(self, moved: Callable[[str], float]) -> str:
        """The same, if a resource has as many bytes to move as `moved` says."""

        def seconds(name: str) -> float:
            beside = self.beside_seconds if name == "DRAM" else 0.0
            by_tiles = self.prediction.seconds[name] - beside
            return by_tiles * moved(name) / self.moved_by_tiles(name)

        return max(MEMORY, key=seconds)
