"""From a module to the convolutions in it, each with a plan: what both passes share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.diagnostics import NOT_TILED, Failure, emit, without
from mopt_mlir.linalg.constants import constant_value
from mopt_mlir.linalg.decomposition import PART
from mopt_mlir.linalg.extract import Convolution, UnsupportedError, extract, indexing_maps
from mopt_mlir.linalg.memory import Memory
from mopt_mlir.normal_form import Groups, normalise
from mopt_mlir.operations import inside
from mopt_mlir.plain_data import DataError
from mopt_mlir.plan import Plan
from mopt_mlir.planning import plan_attribute
from mopt_mlir.planning.plan_cache import version
from mopt_mlir.planning.planned import PlannedConvolution
from mopt_mlir.planning.solving import Planning, Solution
from mopt_mlir.planning.tasks import Progress, Task, in_processes, solve_tasks
from mopt_mlir.problem import NoPlanError, Problem

_Key = tuple[Problem, bool]
"""A problem, and whether its weights are constant: what a plan depends on, beside the request."""


@dataclass(frozen=True)
class _Wanted:
    """A convolution in normal form, its weights if they are `constant`, and the plan that is
    `attached` to it."""

    convolution: Convolution
    problem: Problem
    groups: Groups
    constant: Any
    attached: Plan | None

    @property
    def key(self) -> _Key:
        return self.problem, self.constant is not None


@dataclass
class Planner:
    """Plans for the convolutions of one module; equal problems are solved once, several of them at
    the same time in up to `jobs` processes. `progress` is told how many convolutions have one."""

    module: Any
    bindings: Bindings
    planning: Planning
    jobs: int = 1
    solved: dict[_Key, Solution] = field(default_factory=dict)
    progress: Progress | None = None

    def planned(self) -> list[PlannedConvolution]:
        """Every supported convolution with its plan, in the order of the module.

        Emits a remark for each linalg operation that is left as it is, and for each plan that the
        time limit cut short. Raises Failure, after an error, where an attached plan does not
        fit its operation.
        """
        found = [self._wanted(one) for one in convolutions(self.module, self.bindings)]
        if self.jobs > 1:
            self._solve_ahead(one.key for one in found if one.attached is None)
        planned = []
        for one in found:
            planned.append(self._planned(one))
            if self.progress is not None:
                self.progress(len(planned), len(found))
        return planned

    def _wanted(self, convolution: Convolution) -> _Wanted:
        problem, groups = normalise(convolution.problem)
        constant = constant_value(convolution.weights, self.bindings)
        attached = self._attached(convolution.operation, problem)
        return _Wanted(convolution, problem, groups, constant, attached)

    def _planned(self, one: _Wanted) -> PlannedConvolution:
        plan = one.attached or self._solve(one.convolution.operation, *one.key)
        return PlannedConvolution(one.convolution, one.problem, one.groups, plan, one.constant)

    def _solve_ahead(self, keys: Iterable[_Key]) -> None:
        """Solve several problems. Those without a plan are left to who knows where they are."""
        tasks = {
            key: Task(
                problem=key[0],
                machine=self.planning.machine,
                request=self.planning.request_for(constant_weights=key[1]),
                version=version(),
            )
            for key in keys
        }
        outcomes = solve_tasks(
            list(tasks.values()), lambda some: in_processes(some, self.jobs), self.planning.cache
        )
        for key, task in tasks.items():
            if isinstance(outcome := outcomes[task], Solution):
                self.solved[key] = outcome

    def _attached(self, operation: Any, problem: Problem) -> Plan | None:
        try:
            plan = plan_attribute.attached(operation, self.bindings)
            if plan is not None:
                plan.check(problem)
        except DataError as error:
            emit("error", operation.location, f"'{plan_attribute.NAME}': {error}")
            raise Failure from None
        return plan

    def _solve(self, operation: Any, problem: Problem, constant_weights: bool) -> Plan:
        key = (problem, constant_weights)
        if key not in self.solved:
            try:
                self.solved[key] = self.planning.solve(problem, constant_weights=constant_weights)
            except NoPlanError as error:
                emit("error", operation.location, str(error))
                raise Failure from None
        solution = self.solved[key]
        if shortfall := solution.shortfall(self.planning.request):
            emit("remark", operation.location, shortfall)
        return solution.plan


def convolutions(module: Any, bindings: Bindings) -> list[Convolution]:
    """The supported convolutions of `module`, in its order.

    Emits a remark for each other linalg operation that might have been one.
    """
    found: list[Convolution] = []
    memory = Memory(bindings)
    for operation in inside(module):
        if not operation.name.startswith("linalg."):
            continue
        try:
            found.append(extract(operation, bindings, memory))
        except UnsupportedError as reason:
            if _reduces(operation, bindings):
                message = f"'{operation.name}' is not tiled: {reason}"
                emit("remark", operation.location, message, NOT_TILED)
    return found


def unplanned(module: Any, bindings: Bindings) -> list[Convolution]:
    """The `convolutions` that carry no plan. Emits nothing: that others are not tiled is for
    whoever tiles to say."""
    with without(NOT_TILED):
        found = convolutions(module, bindings)
    return [one for one in found if plan_attribute.NAME not in one.operation.attributes]


def _reduces(operation: Any, bindings: Bindings) -> bool:
    """Whether an operation has a loop that its result lacks; others are no candidates for tiling,
    and nobody expects a remark on a fill or a ReLU, or on the sum of a softmax."""
    if PART in operation.attributes:
        return False
    maps = indexing_maps(operation, bindings)
    return bool(maps) and maps[-1].n_dims > len(set(map(str, maps[-1].results)))
