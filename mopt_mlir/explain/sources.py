"""Explanations of what a user has: the convolutions of a module, or operators of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe, emit
from mopt_mlir.explain.analysis import explain
from mopt_mlir.explain.explanation import Explanation
from mopt_mlir.explain.rivals import Rivals
from mopt_mlir.func_ops import VISIBILITY, functions_of, name_of
from mopt_mlir.machine import Machine, resolve
from mopt_mlir.machine.spec import AUTO, MachineSpec
from mopt_mlir.pipeline.loading import errors_raised, keep_only, load_module
from mopt_mlir.plan import Plan
from mopt_mlir.planning.operators import OF_LISTS_ONLY, Operator, is_list, names_of, read_list
from mopt_mlir.planning.plan_attribute import NAME, warn_of_other_threads
from mopt_mlir.planning.planner import Planner, unplanned
from mopt_mlir.planning.solving import Planning, Request, longer_search
from mopt_mlir.planning.tasks import Progress
from mopt_mlir.problem import NoPlanError, Problem
from mopt_mlir.wording import counted, instead_of


@dataclass(frozen=True)
class _Subject:
    """A plan to explain, and what it is for."""

    problem: Problem
    machine: Machine
    plan: Plan
    constant_weights: bool


@dataclass(frozen=True)
class _Group:
    """What is explained at once: the `subject` of the operator `name`, and of all at `places`."""

    subject: _Subject
    name: str
    places: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Asked:
    """What is asked for, for all operators; `progress` is told how far it has got."""

    machine: str
    threads: int | None
    plan_cache: bool
    progress: Progress
    rivals: Rivals = field(default_factory=Rivals)

    @property
    def request(self) -> Request:
        return Request() if self.threads is None else Request(self.threads)

    def planning(self, request: Request, module: Any = None) -> Planning:
        """Raises UserError where an option makes no sense."""
        found = Planning.of(self.machine, request, module, plan_cache=self.plan_cache)
        return replace(found, search=self.rivals.solve)


def explain_source(
    source: Any,
    *,
    entry: str | None = None,
    operator: str | None = None,
    machine: str = AUTO,
    threads: int | None = None,
    constant_weights: bool = False,
    plan_cache: bool = True,
    progress: Progress | None = None,
) -> tuple[Explanation, ...]:
    """An explanation for each convolution of `source`; those that are equal share one.

    `source` is a list of operators, `table1` or the path of a JSON file, of which `operator` picks
    one, and whose weights are known when code is generated with `constant_weights`; or whatever
    `mopt_mlir.compile` takes, of which `entry` picks a function. A plan that an operation carries
    is explained as it is, for the machine that it names unless `machine` names another; for the
    rest one is found for `threads` cores, by default one. `progress` is called with how much of the
    work is done, and how much there is in all. Raises UserError for whatever is wrong, and warns of
    a plan that is carried for other threads than those asked for.
    """
    asked = _Asked(machine, threads, plan_cache, progress or (lambda done, of: None))
    with errors_raised():
        if is_list(source):
            if entry is not None:
                raise UserError(f"{source} has no functions; use --operator instead of --entry")
            return _of_list(source, operator, constant_weights, asked)
        if operator is not None:
            raise UserError(f"'{operator}' is looked for in lists; use --entry for a function")
        if constant_weights:
            raise UserError(OF_LISTS_ONLY)
        return _of_module(load_module(source), entry, asked)


# ---- lists ---------------------------------------------------------------------------------------


def _of_list(
    source: str | PathLike[str], operator: str | None, constant_weights: bool, asked: _Asked
) -> tuple[Explanation, ...]:
    operators = read_list(source, constant_weights)
    if operator is not None:
        _known(operator, [one.name for one in operators], "operator")
        operators = tuple(one for one in operators if one.name == operator)
    if not operators:
        raise UserError("there is no convolution to explain", str(source))
    planning = asked.planning(asked.request)
    alike: dict[Problem, list[Operator]] = {}
    for one in operators:
        alike.setdefault(one.problem, []).append(one)
    groups: list[_Group] = []
    for first, *others in alike.values():
        try:
            solution = planning.solve(first.problem, constant_weights=constant_weights)
        except NoPlanError as error:
            raise UserError(f"'{first.name}': {error}", first.location) from None
        request = planning.request_for(constant_weights=constant_weights)
        if shortfall := solution.shortfall(request, partial(longer_search, of_list=True)):
            emit("remark", first.location, f"'{first.name}': {shortfall}")
        subject = _Subject(first.problem, planning.machine, solution.plan, constant_weights)
        places = [one.name for one in (first, *others)] if others else []
        groups.append(_Group(subject, first.name, places))
        asked.progress(len(groups), 2 * len(alike))
    return _explained(groups, len(alike), asked)


# ---- modules -------------------------------------------------------------------------------------


def _of_module(module: Any, entry: str | None, asked: _Asked) -> tuple[Explanation, ...]:
    asked.request.check()  # though nobody may need it
    if entry is not None:
        _keep_only(entry, module)
    bindings = bindings_of(module)
    # plans that are there already may be for more cores than this machine has
    needed = asked.request if unplanned(module, bindings) else Request()
    planning = asked.planning(needed, module)
    planner = Planner(
        module, bindings, planning, progress=lambda done, of: asked.progress(done, 2 * of)
    )
    found = planner.planned()
    names = names_of([planned.convolution for planned in found])
    groups: dict[str, _Group] = {}
    for name, planned in zip(names, found, strict=True):
        operation = planned.convolution.operation
        chosen = planning.machine
        if asked.machine == AUTO and NAME in operation.attributes:
            chosen = _machine_of(planned.plan, planning.machine, operation.location)
        spec = planned.plan.machine if asked.machine == AUTO else asked.machine
        _check_cores(planned.plan, chosen, spec, operation.location)
        if asked.threads is not None:
            warn_of_other_threads(planned.plan, asked.threads, operation.location)
        constant = planned.constant is not None
        subject = _Subject(planned.problem, chosen, planned.plan, constant)
        group = groups.setdefault(repr(subject), _Group(subject, name))
        group.places.append(describe(operation.location))
    if not groups:
        where = f"function '{entry}'" if entry else "the module"
        location = describe(module.location)
        raise UserError(f"there is no convolution to explain in {where}", location)
    return _explained(list(groups.values()), len(found), asked)


def _keep_only(entry: str, module: Any) -> None:
    """Erase the functions that `entry` does not need, so that they need no plan."""
    functions = {name_of(function): function for function in functions_of(module)}
    _known(entry, functions, "function")
    if VISIBILITY in functions[entry].attributes:  # a private one can be explained as well
        del functions[entry].attributes[VISIBILITY]
    keep_only(entry, module)


def _machine_of(plan: Plan, default: Machine, location: Any) -> Machine:
    if plan.machine == default.name:
        return default
    try:
        return resolve(plan.machine)
    except UserError as error:
        raise UserError(
            f"its plan is for a machine that is not known here, name one with --machine "
            f"({error.message})",
            describe(location),
        ) from None


def _check_cores(plan: Plan, machine: Machine, spec: str, location: Any) -> None:
    if plan.threads > machine.cores:
        raise UserError(
            f"its plan is for {plan.threads} threads, machine '{machine.name}' has "
            f"{counted(machine.cores, 'core')}; name one with as many, as in --machine "
            f"{MachineSpec.parse(spec).but('cores', plan.threads)}",
            describe(location),
        )


def _known(name: str, known: Iterable[str], what: str) -> str:
    """`name` if it is one of `known`; else UserError with what it may have been meant to be."""
    names = list(known)
    if name in names:
        return name
    raise UserError(f"no {what} '{name}'; {instead_of(name, names)}")


# ---- both ----------------------------------------------------------------------------------------


def _explained(groups: Sequence[_Group], planned: int, asked: _Asked) -> tuple[Explanation, ...]:
    """The explanations, after so many plans, which have taken part of the work."""
    explanations: list[Explanation] = []
    for group in groups:
        explanations.append(_explain(group, asked.rivals))
        asked.progress(planned + len(explanations), planned + len(groups))
    return tuple(explanations)


def _explain(group: _Group, rivals: Rivals) -> Explanation:
    subject = group.subject
    request = Request(subject.plan.threads, subject.constant_weights)
    return explain(
        subject.problem,
        subject.machine,
        subject.plan,
        name=group.name,
        places=tuple(place for place in group.places if place),
        constant_weights=subject.constant_weights,
        rivals=rivals.of(subject.problem, subject.machine, request),
    )
