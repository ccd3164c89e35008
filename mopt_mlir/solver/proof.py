"""The proof that a plan is the best: lower bounds from SCIP, more and more exact, or the costs of
all tilings where these are few.

SCIP looks for solutions that cost less than the target, which is what the best plan so far costs
divided by 1 + gap. Without any, the target is proven. A solution is either the start of a local
search that finds a better plan, or an artefact of the relaxation, which is then made tighter for
the choice that led to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter

from mopt_mlir.solver.arrays import Floats
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.exhaustive import cheapest, has_few_tilings
from mopt_mlir.solver.incumbent import Incumbent
from mopt_mlir.solver.relaxation import STARTS, Formulation
from mopt_mlir.solver.space import Choice
from mopt_mlir.solver.variables import TABLE

EXACT = 2000
"""As `TABLE`, if all choices agree on the grid of register tiles, in the last attempt, which takes
several times as long where it makes a difference: all but huge dims (one of a million has so many
useful sizes), whose tables would take longer than they are worth."""

NODES = 30
"""Branch-and-bound nodes of the first attempt, which mostly ends with fewer: if not, a better plan
and choices looked at apart help more than its bound."""

FEW = 10
"""So few grids of tile sizes are looked at one by one straight away, if the first attempt was not
enough: what they have in common is then too little to prove much."""

FEW_TILINGS = 5_000
"""Of so few tilings of a choice all are evaluated, which takes less time than to ask SCIP."""

MOST_TILINGS = 200_000
"""So many are if SCIP's bound of a choice is not enough; they take a second."""

TEMPTATIONS = 6
"""Choices that are taken out of the others one after the other, or a quarter of them if that is
more; then they are all looked at one by one."""

BOUND_GAP = 0.25
"""The part of the allowed gap that SCIP may leave in its own model."""

MARGIN = 1.0001
"""SCIP looks for plans a little above the target, to be past its own tolerances."""


@dataclass(frozen=True)
class Attempt:
    """A lower bound in seconds for all plans of some choices, and solutions of the relaxation: the
    choice, and tile sizes in elements (`[level, dim]`). It is `exact` where larger tables would
    change nothing."""

    bound: float
    starts: tuple[tuple[Choice, Floats], ...] = ()
    exact: bool = False


@dataclass(frozen=True)
class Proof:
    """Bounds the cost of plans, and improves the incumbent with what SCIP finds on the way.

    Choices whose own bound reaches the target need no further proof.
    """

    incumbent: Incumbent
    gap: float
    deadline: float

    @property
    def target(self) -> float:
        return self.incumbent.cost / (1 + self.gap)

    def bound(self, options: Sequence[Choice]) -> float:
        """A lower bound in seconds on the cost of every plan of `options`."""
        cost, pending = self.incumbent.cost, self._alive(options)
        found = self._together(pending, TABLE, NODES, searches=STARTS)
        refined = bound = found.bound
        if self._is_below(bound):
            for _, sizes in found.starts[:1]:
                self.incumbent.from_sizes(pending, sizes)
            self.incumbent.each_family(pending, small=not found.starts)
            groups = _by_panels(self._alive(pending))
            if self.incumbent.cost < cost or not found.starts or len(groups) > 1:
                found = Attempt(found.bound)
            further = min((self._further(group, found) for group in groups), default=self.target)
            refined = max(bound, further)
        refined = min(refined, self.target, self._left_out(options))
        return min(max(refined, _own_bound(options)), self.incumbent.cost)

    def _left_out(self, options: Sequence[Choice]) -> float:
        """The least bound of the choices that reached a target lower than the last one, and which
        nobody may have looked at since."""
        lowest = self.incumbent.least / (1 + self.gap)
        return _own_bound([c for c in options if lowest <= c.bound < self.target])

    def _further(self, pending: Sequence[Choice], found: Attempt) -> float:
        """A bound where the first attempt `found` was not enough; its solutions, if it has any, are
        those of `pending`."""
        grids = _by_grid(pending)
        if len(grids) <= FEW:
            return min(map(self._exactly, grids.values()))
        if not found.starts:
            found = self._together(pending, TABLE)
        return self._refined(pending, found)

    def _refined(self, pending: Sequence[Choice], found: Attempt) -> float:
        """A lower bound of `pending` where `found` is not enough: the choice that tempts SCIP most
        is looked at apart, with all others on its grid, until the rest tempts no more."""
        lower = inf
        for _ in range(max(TEMPTATIONS, len(_by_grid(pending)) // 4)):
            if not self._is_below(found.bound):
                return min(lower, max(found.bound, _own_bound(pending)))
            if not found.starts:  # SCIP failed
                break
            tempting = _grid(found.starts[0][0])
            lower = min(lower, self._exactly(_by_grid(pending)[tempting]))
            pending = [choice for choice in self._alive(pending) if _grid(choice) != tempting]
            found = self._together(pending, TABLE)
        if self._is_below(found.bound):
            return min(lower, *map(self._exactly, _by_grid(pending).values()))
        return min(lower, found.bound)

    def _is_below(self, bound: float) -> bool:
        """Whether a bound does not reach the target, and there is time to improve it."""
        return bound < self.target and perf_counter() < self.deadline

    def _exactly(self, grid: Sequence[Choice]) -> float:
        """A bound for choices on one grid, with every tile size exact."""
        if has_few_tilings(grid[0], FEW_TILINGS):  # and so have the others
            return min(map(self._of_all_tilings, grid))
        bound = self._tightest(grid)
        if not self._is_below(bound):
            return bound
        if len(grid) > 1:
            return max(bound, min(self._exactly([choice]) for choice in grid))
        if has_few_tilings(grid[0], MOST_TILINGS):
            return max(bound, self._of_all_tilings(grid[0]))
        return bound

    def _of_all_tilings(self, choice: Choice) -> float:
        """The least cost of a choice, of which there are few tilings, or its own bound if that is
        enough, or time is up."""
        if not self._is_below(choice.bound):
            return choice.bound
        inc = self.incumbent
        evaluate = Evaluator(inc.problem, inc.machine, choice)
        least, tiling = cheapest(evaluate, self.deadline)
        if tiling is not None and least < inc.cost:
            inc.from_tiles(evaluate, tiling)
        return max(least, choice.bound)

    def _tightest(self, options: Sequence[Choice]) -> float:
        """A bound with every tile size exact, those of huge dims only if it takes that to reach the
        target; once more after each better plan that is found, as SCIP need not have gone as far as
        to the new target."""
        cost, bound = inf, _own_bound(options)
        while self._is_below(bound) and self.incumbent.cost < cost:
            cost = self.incumbent.cost
            for table in (TABLE, EXACT):
                found = self._together(options, table)
                bound = max(bound, found.bound)
                if found.exact or not self._is_below(bound):
                    break
        return bound

    def _together(
        self, options: Sequence[Choice], table: int, nodes: int = -1, searches: int = 1
    ) -> Attempt:
        """What SCIP finds below the target (within `nodes` nodes if that is not negative); local
        searches start from so many of its solutions, the best first."""
        target, alive = self.target, self._alive(options)
        if not alive or perf_counter() >= self.deadline:
            return Attempt(min(target, _own_bound(options)))
        inc = self.incumbent
        model = Formulation(inc.problem, inc.machine, alive, inc.cost, table=table)
        left = max(0.0, self.deadline - perf_counter())
        outcome = model.solve(
            below=target * MARGIN, time_limit=left, gap=BOUND_GAP * self.gap, nodes=nodes
        )
        starts = tuple((alive[picked], sizes) for picked, sizes in outcome.starts)
        for choice, sizes in starts[:searches]:
            inc.from_sizes([choice], sizes)
        bound = min(target, max(outcome.bound, _own_bound(alive)))
        return Attempt(bound, starts, model.exact)

    def _alive(self, options: Sequence[Choice]) -> list[Choice]:
        return [choice for choice in options if choice.bound < self.target]


def _own_bound(options: Sequence[Choice]) -> float:
    return min((choice.bound for choice in options), default=inf)


def _grid(choice: Choice) -> tuple[int, ...]:
    """What choices share whose tile sizes, and lines of weights, can be tabulated together."""
    sizes = (n for dim in choice.units for n in (choice.step(dim), choice.ways(dim)))
    return (*sizes, int(choice.reads_panels))


def _by_panels(options: Sequence[Choice]) -> list[Sequence[Choice]]:
    """Kernels that read panels apart from those that read weights as they lie, which move in lines:
    SCIP would give them the better of both."""
    apart = ([c for c in options if c.reads_panels is panels] for panels in (True, False))
    return [choices for choices in apart if choices]


def _by_grid(options: Sequence[Choice]) -> dict[tuple[int, ...], list[Choice]]:
    grids: dict[tuple[int, ...], list[Choice]] = {}
    for choice in options:
        grids.setdefault(_grid(choice), []).append(choice)
    return grids
