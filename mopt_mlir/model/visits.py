"""How long a core takes for register tiles whose reduction is cut into short pieces.

`cost` lets each visit of a register tile begin where the one before has ended, which is near enough
for the long visits of a good plan. A core executes out of order: while it waits for the last sums
of a short visit, it is at work on the next ones already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.microkernel import (
    ISSUE_OVERLAP,
    LOOP_CYCLES,
    OVERLAP,
    STORE_CYCLES,
    RegisterTile,
    TileCounts,
    TileKind,
    norm,
    tiles_of,
)
from mopt_mlir.model.volume import Pieces, cut
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem

WINDOW = 400
"""Operations that a core has in flight: 192 to 512 on the machines described here."""

DRAIN_CYCLES = 100.0
"""From the end of one visit to the start of the next, if they did not overlap: storing sums, and
loading those of a tile that was left long ago. (Fitted to sampled plans, as the next one is.)"""

RESTORE_CYCLES = 0.7
"""To have one accumulator back, per slot."""

SAVED_LINE_CYCLES = 1.0
"""Per line of sums that a visit leaves to the next one: what storing them, and waiting for them,
does not hide behind outer products. (Fitted, too; the same for vectors of half a line.)"""

MISPREDICTED_CYCLES = 4.0
"""Per visit and loop around the outer product that does not run equally often each time; we take it
for branches that are predicted wrongly. (Fitted as well.)"""


@dataclass(frozen=True)
class Visits:
    """How the reduction of each register tile is cut: into `number` pieces, by loops of which
    `irregular` ones, within the outermost, do not run equally often each time."""

    number: int
    irregular: int = 0

    @staticmethod
    def of(problem: Problem, plan: Plan, number: int) -> Visits:
        """Those of a plan with all levels."""
        sizes = [set(_pieces(problem, plan, dim)) for dim in plan.microkernel.reduction[1:]]
        return Visits(number, sum(len(found) > 1 and max(found) > 1 for found in sizes))


def _pieces(problem: Problem, plan: Plan, dim: str) -> Pieces:
    """The sizes of the innermost tiles along a dim."""
    pieces: Pieces = {problem.extent(dim): 1}
    for level in plan.levels:
        pieces = cut(pieces, level.tile[dim])
    return pieces


def visiting_cycles(
    machine: Machine, kinds: Iterable[TileKind], counts: TileCounts, visits: Visits
) -> float:
    """Cycles of one core that visits each of `counts` register tiles like this."""
    return sum(
        tiles_of(kind, counts)
        * (visits.number * _visit_cycles(machine, kind.tile, visits) + _finish_cycles(kind.tile))
        for kind in kinds
    )


def _visit_cycles(machine: Machine, tile: RegisterTile, visits: Visits) -> float:
    """Cycles of one visit: the busiest of the units that issue its operations, or the chain of FMAs
    that each sum goes through, of which as much overlaps with other visits as is in flight."""
    steps, sums = tile.steps / visits.number, tile.accumulators
    vectors = sums * tile.slots
    again = 1 - 1 / visits.number  # the first visit finds nothing that was left
    issue = norm(
        ISSUE_OVERLAP,
        steps * vectors / machine.fma_per_cycle,
        steps * tile.loads / machine.loads_per_cycle + RESTORE_CYCLES * vectors * again,
        STORE_CYCLES * vectors,
    )
    operations = steps * (sums + tile.loads) + 2 * sums
    in_flight = 1 + WINDOW / operations
    chain = (steps * machine.fma_latency + DRAIN_CYCLES) / in_flight
    waiting = steps * (LOOP_CYCLES + tile.conflicts)
    waiting += (tile.store_conflicts + SAVED_LINE_CYCLES * tile.lines) * again
    return norm(OVERLAP, issue, chain) + waiting + MISPREDICTED_CYCLES * visits.irregular


def _finish_cycles(tile: RegisterTile) -> float:
    """Cycles in which the sums go to the output at last, beyond those of storing them anywhere."""
    return tile.finish - STORE_CYCLES * tile.accumulators * tile.slots
