"""Mispredicted branches: how often a core does not foresee the end of a loop."""

from __future__ import annotations

from collections import Counter

from mopt_mlir.loop_nest import loops_of_one_core
from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.volume import Pieces, cut
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem

MISPREDICTION_CYCLES = 12.0
"""What a core does in vain, and waits, until it goes on where it should, unless the machine says
otherwise. (Fitted to sampled plans of Table 1 on Zen 5.)"""


def misprediction_cycles(problem: Problem, machine: Machine, plan: Plan) -> float:
    """Cycles that one core loses to loops that it does not foresee the end of."""
    return (machine.misprediction_cycles or MISPREDICTION_CYCLES) * mispredictions(problem, plan)


def mispredictions(problem: Problem, plan: Plan) -> float:
    """How often loops around register tiles end sooner or later than a core expects, on one core.

    We take it to expect that a loop runs as often as it does most often: of loops that always run
    equally often it foresees the end, from what the last few hundred branches did.
    """
    pieces: dict[str, Pieces] = {dim: {extent: 1} for dim, extent in problem.extents.items()}
    starts, found = 1, 0.0
    for dim, step in loops_of_one_core(problem, plan):
        tiles = cut(pieces[dim], step)
        found += starts * _irregular(pieces[dim], step)
        starts = starts // sum(pieces[dim].values()) * sum(tiles.values())
        pieces[dim] = tiles
    return found


def _irregular(pieces: Pieces, size: int) -> float:
    """The part of the loops through `pieces` in steps of `size` that do not run as often as most of
    them."""
    trips: Counter[int] = Counter()
    for length, number in pieces.items():
        trips[-(-length // size)] += number
    return 1 - max(trips.values()) / trips.total()
