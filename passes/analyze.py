"""`mopt-analyze`: find the best plan of every convolution and attach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mopt_mlir.bindings import bindings_of
from mopt_mlir.planning.planning_pass import PlanningPass


@dataclass(frozen=True)
class AnalyzePass(PlanningPass):
    """Solve the tiling of every supported convolution and attach it as the attribute `mopt.plan`.

    The plan holds everything that a search could vary: the microkernel, per memory level the
    order and sizes of its tiles, the split between cores, where weights are packed; and what the
    model predicts of it: data volumes, time per resource, the bottleneck, and the proven gap to the
    best plan that the solver can choose. The operation itself stays. A plan that is already
    attached is kept, after a check that it fits. Operations that are not supported get a remark
    that says why.
    """

    name: ClassVar[str] = "mopt-analyze"

    def run(self, module: Any) -> None:
        from mopt_mlir.planning.plan_attribute import attach

        bindings = bindings_of(module)
        with module.context, module.location:
            for planned in self.planner(module).planned():
                attach(planned.convolution.operation, planned.plan, bindings)
