"""A plan to begin with: the first choice of which any tiling fits into the caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import NoPlanError, Problem
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.space import Choice


def first_that_fits(
    problem: Problem, machine: Machine, options: Sequence[Choice]
) -> tuple[Evaluator, Ints]:
    """The most promising choice of which some tiling fits into the caches, and the tiling.

    Raises NoPlanError if there is none.
    """
    for choice in options:
        evaluate = Evaluator(problem, machine, choice)
        tilings = evaluate.nest(_smallest(evaluate))
        fits = evaluate(tilings).overflow <= 1
        if fits.any():
            return evaluate, tilings[int(np.argmax(fits))]
    raise NoPlanError(f"no register tile fits into the caches of {machine.name}")


def _smallest(evaluate: Evaluator) -> Ints:
    """A single register tile on all levels, and tiles that span contiguous axes: these may occupy
    less, because they run on into the next row where a narrower one takes whole lines."""
    single = np.ones((len(LEVELS), len(evaluate.units)), dtype=np.int64)
    found = [single]
    for at in evaluate.contiguous:
        found += [np.where(np.arange(len(evaluate.units)) == at, evaluate.units, t) for t in found]
    return np.array(found)
