"""The solver's best plans, to compare others with."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from mopt_mlir.machine import Machine
from mopt_mlir.plan import Plan
from mopt_mlir.planning.solving import Request, Solution, solve_candidates
from mopt_mlir.problem import NoPlanError, Problem

NUMBER = 5
"""Plans of the solver that a plan is compared with."""


@dataclass(frozen=True)
class Rivals:
    """What the solver has found so far: plans are solved for once, whether one of them is to be
    explained or another one is to be compared with them."""

    found: dict[tuple[Problem, Machine, Request], tuple[Plan, ...]] = field(default_factory=dict)

    def solve(self, problem: Problem, machine: Machine, request: Request) -> Solution:
        """The best plan, as `solving.solve_anew`; its rivals are kept."""
        plans, solution = solve_candidates(problem, machine, request, NUMBER)
        self.found[problem, machine, request] = plans
        return solution

    def of(self, problem: Problem, machine: Machine, request: Request) -> tuple[Plan, ...]:
        """The best plan and its rivals; none where the solver finds none, though somebody may have
        a plan."""
        if (problem, machine, request) not in self.found:
            with suppress(NoPlanError):
                self.solve(problem, machine, request)
        return self.found.get((problem, machine, request), ())
