"""Plans as the model needs them, with all levels; and which of them it cannot predict."""

from __future__ import annotations

from dataclasses import replace

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.problem import Problem


class NotPredictableError(ValueError):
    """Why the model cannot predict a plan."""


def completed(problem: Problem, machine: Machine, plan: Plan) -> Plan:
    """`plan` with all of LEVELS, and with the same loops.

    An outer level that is missing becomes one tile that holds the whole problem, if that fits into
    the level's cache. Raises NotPredictableError where there is no such plan, or where its vectors
    are not those of `machine`.
    """
    lanes = machine.lanes(problem.output.element)
    if plan.microkernel.vector > lanes:
        raise NotPredictableError(
            f"its vectors of {plan.microkernel.vector} elements are wider than those of "
            f"{machine.name}, which have {lanes}"
        )
    given = tuple(level.name for level in plan.levels)
    if given == LEVELS:
        return plan
    missing = [name for name in LEVELS if name not in given]
    lacks = f"the plan lacks {' and '.join(missing)}"
    if given != LEVELS[len(missing) :]:
        raise NotPredictableError(f"{lacks}, and the model needs every level inside the outermost")
    if any(ways > 1 for ways in plan.parallel.values()):
        raise NotPredictableError(
            f"{lacks}, and the model cannot split the tiles of an inner level between cores"
        )
    for name in missing:
        room = cache_bytes(problem, machine, name, problem.extents, panels=plan.reads_panels)
        if sum(room.values()) > usable(machine, name):
            raise NotPredictableError(
                f"{lacks}, and the whole problem does not fit into {name} of {machine.name}"
            )
    outer = tuple(Level(name, problem.names, dict(problem.extents)) for name in missing)
    return replace(plan, levels=outer + plan.levels)
