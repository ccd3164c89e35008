"""How long a core takes for register tiles whose reduction is cut into short pieces.

`cost` lets each visit of a register tile begin where the one before has ended, which is near enough
for the long visits of a good plan. A core executes out of order: while it waits for the last sums
of a short visit, it is at work on the next ones already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mopt_mlir.loop_nest import loops_of_one_core
from mopt_mlir.machine.machine import Cache, Machine
from mopt_mlir.model.conflicts import conflicting_lines
from mopt_mlir.model.microkernel import (
    EVICTED_SUMS_CYCLES,
    ISSUE_NORM,
    LATENCY_NORM,
    TileCounts,
    TileKind,
    TileOperations,
    load_cycles,
    loop_cycles,
    norm,
    tiles_of,
    waiting_part,
)
from mopt_mlir.model.stores import STORE_CYCLES
from mopt_mlir.model.volume import Pieces, cut
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import keeps_sums_in_output

WINDOW = 400
"""Operations that a core has in flight: 192 to 512 on the machines described here."""

DRAIN_CYCLES = 100.0
"""From the end of one visit to the start of the next, if they did not overlap: storing sums, and
loading those of a tile that was left long ago. (Fitted to sampled plans, as the next one is, when
sums in the output were loaded like those in scratch memory.)"""

RESTORE_CYCLES = 0.7
"""To have one accumulator back, per slot."""

SAVED_LINE_CYCLES = 1.0
"""Per line of sums that a visit leaves to the next one: what storing them, and waiting for them,
does not hide behind outer products, unless the machine says otherwise. (Fitted, too, on Zen 5; the
same for vectors of half a line.)"""

RESTART_CYCLES = 0.6
"""Whenever such a loop starts, which is not unrolled, with operations of one slot. (Steps of loops
that run two times and once take 0.5 to 1 cycles longer for each start than those of loops that
always run three times, measured with 256 bits on Zen 4.)"""

IRREGULAR_CYCLES = 4.0
"""Per visit and loop around the outer product that does not run equally often each time; we take it
for branches that are predicted wrongly. (Fitted as well.)"""


@dataclass(frozen=True)
class Visits:
    """How the reduction of each register tile is cut: into `number` pieces, by loops of which
    `irregular` ones, within the outermost, do not run equally often each time; they start
    `restarts` times per step. Of the sums that a visit leaves in L1, the next ones evict `evicted`
    lines while they are in use."""

    number: int
    irregular: int = 0
    evicted: float = 0.0
    restarts: float = 0.0

    @staticmethod
    def of(problem: Problem, plan: Plan, number: int, cache: Cache) -> Visits:
        """The visits of a plan with all levels; `cache` is L1."""
        irregular, restarts, steps = 0, 0.0, 1.0
        for dim in reversed(plan.microkernel.reduction[1:]):  # innermost first
            pieces = _pieces(problem, plan, dim)
            steps *= problem.extent(dim) / sum(pieces.values())
            if len(pieces) > 1 and max(pieces) > 1:
                irregular, restarts = irregular + 1, restarts + 1 / steps
        return Visits(number, irregular, _evicted(problem, plan, cache), restarts)


def _evicted(problem: Problem, plan: Plan, cache: Cache) -> float:
    """Lines of sums of one visit, on average, that those of the next ones evict as they fall on the
    same sets, although the cache has room.

    Register tiles follow each other until a loop over the reduction comes to the first of them
    again. If one of the loops before moves on by whole rounds of sets, and all that it goes through
    has more lines on a set than ways, sums are evicted as soon as they are stored, or sooner: the
    less often, the more tiles on other sets lie between. (Those that a single register tile has too
    many count as its own.)
    """
    if not keeps_sums_in_output(problem, plan.microkernel):
        return 0.0  # sums wait elsewhere, without gaps
    way = cache.way_bytes
    sizes, tiles, apart = dict(plan.microkernel.tile), 1, 1
    own = conflicting_lines(problem.output, sizes, cache)
    found = 0.0
    for dim, step, end in _loops(problem, plan):
        pitch = problem.output.pitch(dim)
        if dim in problem.reduction_dims or pitch is None:
            break
        sizes[dim], steps = end, -(-end // step)
        tiles *= steps
        if step * pitch * problem.output.element.size % way:
            apart *= steps
        else:
            beyond = conflicting_lines(problem.output, sizes, cache) / tiles
            found = max(found, (beyond - own) / apart)
    return found


def _loops(problem: Problem, plan: Plan) -> Iterator[tuple[str, int, int]]:
    """The loops around a register tile that run more than once, from the innermost on: their dims,
    what they step by, and where they end."""
    sizes, found = dict(problem.extents), []
    for dim, step in loops_of_one_core(problem, plan):
        if step < sizes[dim]:
            found.append((dim, step, sizes[dim]))
            sizes[dim] = step
    return reversed(found)


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
        * (
            visits.number * _visit_cycles(machine, kind.tile, visits)
            + kind.tile.finish_cycles
            - _issued(machine, kind.tile)
        )
        for kind in kinds
    )


def _visit_cycles(machine: Machine, tile: TileOperations, visits: Visits) -> float:
    """Cycles of one visit: the busiest of the units that issue its operations, or the chain of FMAs
    that each sum goes through, of which as much overlaps with other visits as is in flight."""
    steps, sums = tile.steps / visits.number, tile.accumulators
    vectors = sums * tile.slots
    again = 1 - 1 / visits.number  # the first visit finds nothing that was left
    issue = norm(
        ISSUE_NORM,
        steps * vectors / machine.fma_per_cycle,
        steps * load_cycles(machine, tile.load_slots) + RESTORE_CYCLES * vectors * again,
        STORE_CYCLES * vectors,
    )
    operations = steps * (sums + tile.load_slots) + 2 * sums
    in_flight = 1 + WINDOW / operations
    chain = (steps * machine.fma_latency + DRAIN_CYCLES) / in_flight
    loops = machine.loop_cycles or loop_cycles(tile.slots)
    loops += RESTART_CYCLES * visits.restarts * waiting_part(tile.slots)
    waiting = steps * (loops + tile.waiting_cycles)
    evicted = tile.evicted_cycles + EVICTED_SUMS_CYCLES * visits.evicted
    saved = machine.saved_line_cycles or SAVED_LINE_CYCLES
    stored = tile.stored_cycles - _issued(machine, tile)
    waiting += (evicted + stored + saved * tile.sum_lines) * again
    return norm(LATENCY_NORM, issue, chain) + waiting + IRREGULAR_CYCLES * visits.irregular


def _issued(machine: Machine, tile: TileOperations) -> float:
    """Cycles of storing all sums that a visit counts among what it issues: all, unless it is known
    how many stores a core queues."""
    return tile.stored_cycles if machine.queued_stores is None else 0.0
