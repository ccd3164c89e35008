"""Plans chosen by measuring: of the candidates that the model likes best, the fastest on this host.

A pass only plans. Whoever compiles a module for this host can do more: generate several plans for
each of its convolutions, time them, and attach the fastest, which `mopt-tile` then finds there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.compiler.arguments import random_arguments
from mopt_mlir.compiler.executable import load
from mopt_mlir.compiler.lowered import lower_module
from mopt_mlir.compiler.trial import fastest, time_in_turns
from mopt_mlir.diagnostics import UserError, describe, emit
from mopt_mlir.linalg.constants import constant_value
from mopt_mlir.linalg.extract import Convolution
from mopt_mlir.linalg.isolation import ENTRY, isolate
from mopt_mlir.machine.facts import observe
from mopt_mlir.machine.flushing import host_flush
from mopt_mlir.normal_form import normalised
from mopt_mlir.pipeline.source import Source, parse
from mopt_mlir.plan import TIME_LIMIT, Plan
from mopt_mlir.planning import plan_attribute
from mopt_mlir.planning.plan_cache import version
from mopt_mlir.planning.planner import unplanned
from mopt_mlir.planning.solving import Planning, Request, key_of, solve_candidates
from mopt_mlir.problem import NoPlanError, Problem

if TYPE_CHECKING:
    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.compiler.trial import Times
    from mopt_mlir.lowering.function import Function
    from mopt_mlir.lowering.target import Target

_SOURCES = ("**/*.py",)
"""The modules that a measurement depends on: nearly all have a part in the code that is timed."""

_PACKAGES = ("xtc-mlir-python-bindings", "llvmlite")
"""What makes machine code of what they generate."""


def choose_plans(module: Any, options: CompileOptions, target: Target) -> None:
    """Attach a plan to every convolution of `module` that has none: of `options.candidates`, the
    one whose code for `target` is fastest on this host. Equal ones are measured once, and what was
    measured before is found in the plan cache.

    Raises UserError, located at the convolution, where code for `target` cannot be measured here.
    """
    request = Request(options.threads)
    planning = Planning.of(options.planned_machine, request, module, plan_cache=options.plan_cache)
    chooser = _Chooser(options, target, planning, bindings_of(module))
    with module.context, module.location:
        for convolution in unplanned(module, chooser.bindings):
            chooser.choose(convolution)


@dataclass
class _Chooser:
    """Chooses for one module; `chosen` holds what was decided so far."""

    options: CompileOptions
    target: Target
    planning: Planning
    bindings: Bindings
    chosen: dict[tuple[Problem, bool], Plan | None] = field(default_factory=dict)

    def choose(self, convolution: Convolution) -> None:
        problem = normalised(convolution.problem)
        constant = constant_value(convolution.weights, self.bindings)
        key = problem, constant is not None
        if key not in self.chosen:
            self.chosen[key] = self._plan(convolution, problem, constant)
        plan = self.chosen[key]
        if plan is not None:
            plan_attribute.attach(convolution.operation, plan, self.bindings)

    def _plan(self, convolution: Convolution, problem: Problem, constant: Any) -> Plan | None:
        """From the plan cache, else measured; None if there is none, for `mopt-tile` to say."""
        machine, cache = self.planning.machine, self.planning.cache
        request = self.planning.request_for(constant_weights=constant is not None)
        setting = repr((self.target, _host()))
        key = key_of(
            problem, machine, request, candidates=self.options.candidates, measured=setting
        )
        if cache is not None and (kept := cache.get(key)) is not None:
            return kept
        try:
            plans, best = solve_candidates(problem, machine, request, self.options.candidates)
        except NoPlanError:
            return None
        if shortfall := best.shortfall(request, _longer_search):
            emit("remark", convolution.operation.location, shortfall)
        plan = plans[0] if len(plans) == 1 else plans[self._fastest(convolution, plans, constant)]
        # late or not: what is the fastest depends on the moment anyway
        if cache is not None and not best.cut_short:
            cache.put(key, plan)
        return plan

    def _fastest(self, convolution: Convolution, plans: tuple[Plan, ...], constant: Any) -> int:
        """The number of the plan whose code takes least time, with cold caches, as in the model:
        what runs in between leaves nothing in them."""
        self._check_runs_here(convolution)
        module, operation = isolate(convolution, constant, self.bindings)
        functions = []
        for plan in plans:
            plan_attribute.attach(operation, plan, self.bindings)
            functions.append(self._compiled(self._apart(module)))
        arguments = random_arguments(functions[0].entry)
        return fastest(_times_when_cold([f.bind(*arguments) for f in functions]))

    def _apart(self, module: Any) -> Any:
        """A copy of `module` in a context of its own, which its constants go with: those of the
        context that is compiled in stay as long as that does."""
        written = BytesIO()
        module.write_bytecode(written)
        return parse(Source(ENTRY, written.getvalue()), self.bindings.ir.Context()).operation

    def _compiled(self, module: Any) -> Function:
        return load(lower_module(module, self.options), self.target)[ENTRY]

    def _check_runs_here(self, convolution: Convolution) -> None:
        try:
            self.options.check_runs_here(self.target)
        except UserError as error:
            raise UserError(
                f"candidates={self.options.candidates} are measured on this host, but "
                f"{error.message}; leave out candidates, or compile where the code will run",
                describe(convolution.operation.location),
            ) from None


def _longer_search(_: Request) -> str:
    """How to get candidates for which there was too little time. (A plan that mopt-plan finds and
    keeps is none: candidates come with a search of their own.)"""
    return (
        "leave out candidates, or attach a plan with mopt-opt --mopt-analyze, "
        f"whose time-limit may be longer than {TIME_LIMIT:g} s"
    )


def _times_when_cold(runs: Sequence[Callable[[], Any]]) -> Times:
    """Seconds of `runs`, with the caches of all cores flushed before each.

    OpenMP may bind the thread that calls it to one core (OMP_PROC_BIND); what flushes, and whoever
    counts the cores of this process later, must have all of them again.
    """
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None

    def unbind() -> None:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)

    try:
        with host_flush() as flush:

            def prepare() -> None:
                unbind()
                flush()

            return time_in_turns(runs, prepare)
    finally:
        unbind()


@cache
def _host() -> tuple[str, ...]:
    """What a measurement depends on beside the target: this kind of CPU, and this generator."""
    return observe().model, version(_SOURCES), *map(_version_of, _PACKAGES)


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""  # it is there in another way, such as from a build of MLIR
