"""The best plan so far, and the local searches that improve it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import perf_counter

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.fitting import first_that_fits
from mopt_mlir.solver.search import Found, descend, penalised_cost
from mopt_mlir.solver.space import Choice

DESCENTS = 4
"""Local searches from one solution of SCIP: from the best of its roundings to each choice."""

SMALL_TILES_GAIN = 0.005
"""By how much a plan has to be better, relative, if it was found from small tiles. (Of seven own
plans of AVX2 code on Zen 4 that are 0.03 to 0.2% cheaper, six take 2 to 5% more time and one 2%
less.)"""


class Incumbent:
    """The best plan so far, of one problem on one machine. It may cost a little more than the one
    before, if its code is simpler; the `least` any of them cost is known as well. After the
    `deadline` (of `perf_counter`) the searches end early."""

    def __init__(self, problem: Problem, machine: Machine, deadline: float) -> None:
        self.problem, self.machine, self.deadline = problem, machine, deadline
        self.found: Found | None = None
        self.least = inf
        self.evaluator: Evaluator | None = None

    @property
    def cost(self) -> float:
        return self.found.cost if self.found else inf

    @property
    def plan(self) -> tuple[Evaluator, Found]:
        """The evaluator of the best plan's choice, and its tiling."""
        assert self.found is not None
        assert self.evaluator is not None
        return self.evaluator, self.found

    def first(self, options: Sequence[Choice]) -> None:
        """Find some plan: for the most promising choice of which any tiling fits."""
        evaluate, tiling = first_that_fits(self.problem, self.machine, options)
        self.from_tiles(evaluate, np.tile(evaluate.units, (len(LEVELS), 1)))
        if self.found is None:
            self.from_tiles(evaluate, tiling)

    def from_tiles(self, evaluate: Evaluator, tiles: Ints, gain: float = 0.0) -> None:
        """Descend from a tiling; what is found has to be better by more than `gain`, relative."""
        found = descend(evaluate, evaluate.nest(tiles), self.deadline)
        if found and (self.found is None or found.penalised < (1 - gain) * self.found.penalised):
            self.found, self.evaluator = found, evaluate
            self.least = min(self.least, found.cost)

    def from_sizes(self, options: Sequence[Choice], sizes: Floats) -> None:
        """Round `sizes` (elements, `[level, dim]`) to each choice, and descend from the best."""
        starts: list[tuple[float, Evaluator, Ints]] = []
        for choice in options:
            if perf_counter() > self.deadline:
                return
            evaluate = Evaluator(self.problem, self.machine, choice)
            rounded = [r(sizes / evaluate.unit + 1e-6) for r in (np.rint, np.floor)]
            tiles = evaluate.nest(np.array(rounded).astype(np.int64))
            costs = penalised_cost(evaluate(tiles))
            starts += zip(costs.tolist(), (evaluate,) * 2, tiles, strict=True)
        for _, evaluate, tiling in sorted(starts, key=lambda start: start[0])[:DESCENTS]:
            if perf_counter() > self.deadline:
                return
            self.from_tiles(evaluate, tiling)

    def each_family(self, options: Sequence[Choice], *, small: bool = False) -> None:
        """Descend from the whole problem for the most promising choice of each vector shape, with
        and without panels: good tiles of one are poor starts for another. If `small`, descend for
        the first of them from small tiles as well."""
        families: dict[tuple[str, int, bool], Choice] = {}
        for choice in options:
            lanes = choice.kernel.lanes
            families.setdefault((lanes, choice.kernel.extent(lanes), choice.reads_panels), choice)
        for number, choice in enumerate(families.values()):
            if perf_counter() > self.deadline:
                return
            evaluate = Evaluator(self.problem, self.machine, choice)
            self.from_tiles(evaluate, np.tile(evaluate.units, (len(LEVELS), 1)))
            if small and not number:
                self._from_small_tiles(evaluate)

    def _from_small_tiles(self, evaluate: Evaluator) -> None:
        """Descend from the whole problem in single register tiles: at L2 and L1, in all dims and in
        those of the output, and in these at L1 alone."""
        output = [self.problem.names.index(dim) for dim in self.problem.parallel_dims]
        whole = np.tile(evaluate.units, (len(LEVELS), 1))
        starts = whole.copy(), whole.copy(), whole.copy()
        starts[0][1:] = starts[1][1:, output] = starts[2][2:, output] = 1
        for tiles in starts:
            if perf_counter() > self.deadline:
                return
            self.from_tiles(evaluate, tiles, SMALL_TILES_GAIN)
