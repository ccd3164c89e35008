"""What the passes that plan have in common: their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.machine import resolve
from mopt_mlir.pipeline.pass_base import Pass, option
from mopt_mlir.plan import GAP, TIME_LIMIT
from mopt_mlir.planning.solving import Planning, Request, check_jobs

if TYPE_CHECKING:
    from mopt_mlir.planning.planner import Planner


@dataclass(frozen=True)
class PlanningPass(Pass):
    """A pass that needs a plan for each convolution."""

    machine: str = option(
        "auto",
        help="machine to plan for: a name, a .toml file, host, or auto: the host, with what the "
        "module says of its target (DLTI attributes)",
    )
    threads: int = option(1, help="cores to plan for")
    solver: str = option(
        "exact", help="exact, or algorithm1: that of the paper, as a baseline, without a proof"
    )
    time_limit: float = option(
        TIME_LIMIT,
        help="seconds per convolution, after which the best plan so far is taken, with a remark",
    )
    gap: float = option(GAP, help="stop once no other plan can be better by more than this part")
    plan_cache: bool = option(True, help="keep plans in the user's cache directory")
    jobs: int = option(1, help="processes that plan, each another convolution")

    @property
    def request(self) -> Request:
        """What is asked of the solver for each convolution."""
        return Request(self.threads, solver=self.solver, gap=self.gap, time_limit=self.time_limit)

    def check(self) -> None:
        self.request.check()
        check_jobs(self.jobs)
        resolve(self.machine)

    def planner(self, module: Any) -> Planner:
        """What finds the plans for `module`. Raises UserError where an option makes no sense."""
        from mopt_mlir.planning.planner import Planner

        planning = Planning.of(self.machine, self.request, module, plan_cache=self.plan_cache)
        return Planner(module, bindings_of(module), planning, self.jobs)
