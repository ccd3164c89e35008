"""The plan for a problem that was made by hand rather than read off an operation."""

from __future__ import annotations

from mopt_mlir.machine import Machine
from mopt_mlir.normal_form import normalised
from mopt_mlir.plan import GAP, TIME_LIMIT, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver import certified


def solve(
    problem: Problem,
    machine: Machine | str,
    threads: int = 1,
    *,
    constant_weights: bool = False,
    gap: float = GAP,
    time_limit: float = TIME_LIMIT,
    solver: str = "exact",
) -> Plan:
    """The best plan of the model for `problem` on `threads` cores of `machine`: a Machine, or what
    the tools' `--machine` takes, such as `host` or `znver5,cores=2`.

    The plan is for `mopt_mlir.normalised(problem)`, as `mopt-tile` expects it of an operation with
    these sizes. It is solved for each time: the plan cache is neither read nor written.

    The plan's prediction has the cost and a lower bound in seconds that holds for every
    microkernel, split, loop order, packing and tiling of the design space. The search ends when the
    two are within the relative `gap`, or after `time_limit` seconds with the gap that was reached.
    With `constant_weights` packing happens at compile time and is free. The result depends on the
    arguments only, unless the time limit is reached.

    `solver` is `exact` or, as a baseline, `algorithm1`: the paper's, see `solver.algorithm1`.

    Raises NoPlanError (a ValueError) where not even single register tiles fit into the caches, and
    for dims that are too long; ValueError for `threads` below 1 or more than the machine has cores,
    for a `gap` that is not between 0 and 1, for a `time_limit` that is not positive, and for an
    unknown solver; UserError for an unknown machine; TypeError for what is no problem, or names no
    machine.
    """
    if not isinstance(machine, Machine | str):
        kind = type(machine).__name__
        raise TypeError(f"a machine is a Machine, or a text that names one, not {kind}")
    return certified.solve(
        normalised(problem),
        machine,
        threads,
        constant_weights=constant_weights,
        gap=gap,
        time_limit=time_limit,
        solver=solver,
    )
