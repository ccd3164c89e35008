"""From a problem and a machine to a plan with a proof.

Local search gives a plan, SCIP a lower bound on every plan and better starting points; the SCIP
model becomes more exact from one attempt to the next, until plan and bound meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from time import perf_counter

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import predict
from mopt_mlir.plan import LEVELS, Level, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.solver.evaluate import Evaluator, Floats, Ints
from mopt_mlir.solver.relaxation import Formulation
from mopt_mlir.solver.search import Found, descend, merit
from mopt_mlir.solver.space import Choice, choices

TABLES = (12, 40, 10**6)
"""Dims with at most so many useful sizes are exact in the SCIP model, one attempt after another."""

DESCENTS = 4
"""Local searches from one solution of SCIP: from the best of its roundings to each choice."""

BOUND_GAP = 0.25
"""The part of the allowed gap that SCIP may leave in its own model."""

MARGIN = 1.0001
"""SCIP looks for plans a little above the bound to prove, to be past its own tolerances."""


def solve(
    problem: Problem,
    machine: Machine,
    threads: int = 1,
    *,
    constant_weights: bool = False,
    gap: float = 0.01,
    time_limit: float = 5.0,
) -> Plan:
    """The best plan of the model for `problem` on `threads` cores of `machine`.

    The plan's prediction has the cost and a lower bound in seconds that holds for every
    microkernel, split, loop order, packing and tiling of the design space. The search ends when the
    two are within the relative `gap`, or after `time_limit` seconds with the gap that was reached.
    With `constant_weights` packing happens at compile time and is free. The result depends on the
    arguments only, unless the time limit is reached.

    Raises NoMicrokernelError (a ValueError) where nothing can be vectorised, and ValueError where
    not even single register tiles fit into the caches, or for `threads` below 1.
    """
    if threads < 1:
        raise ValueError(f"threads is {threads}; at least one is needed")
    deadline = perf_counter() + time_limit
    options = choices(problem, machine, threads, constant_weights=constant_weights)
    search = _Search(problem, machine)
    search.first(options)
    lower = _prove(search, options, gap, deadline)
    plan = _plan(search, threads)
    return replace(
        plan,
        prediction=predict(
            problem, machine, plan, constant_weights=constant_weights, lower_bound=lower
        ),
    )


class _Search:
    """The best plan so far, of one problem on one machine."""

    def __init__(self, problem: Problem, machine: Machine) -> None:
        self.problem, self.machine = problem, machine
        self.found: Found | None = None
        self.evaluator: Evaluator | None = None

    @property
    def cost(self) -> float:
        return self.found.cost if self.found else inf

    def first(self, options: Sequence[Choice]) -> None:
        """Find some plan: for the most promising choice of which a single register tile fits."""
        for choice in options:
            evaluate = Evaluator(self.problem, self.machine, choice)
            single = np.ones((len(LEVELS), len(evaluate.units)), dtype=np.int64)
            if evaluate(single[None]).overflow[0] <= 1:
                self.from_tiles(evaluate, single * evaluate.units)
                if self.found is None:
                    self.from_tiles(evaluate, single)
                return
        raise ValueError(f"no register tile fits into the caches of {self.machine.name}")

    def from_tiles(self, evaluate: Evaluator, tiles: Ints) -> None:
        """Descend from a tiling."""
        found = descend(evaluate, evaluate.nest(tiles))
        if found and (self.found is None or found.merit < self.found.merit):
            self.found, self.evaluator = found, evaluate

    def from_sizes(self, options: Sequence[Choice], sizes: Floats) -> None:
        """Round `sizes` (elements, `[level, dim]`) to each choice, and descend from the best."""
        starts: list[tuple[float, Evaluator, Ints]] = []
        for choice in options:
            evaluate = Evaluator(self.problem, self.machine, choice)
            rounded = [r(sizes / evaluate.unit + 1e-6) for r in (np.rint, np.floor)]
            tiles = evaluate.nest(np.array(rounded).astype(np.int64))
            starts += zip(merit(evaluate(tiles)).tolist(), (evaluate,) * 2, tiles, strict=True)
        for _, evaluate, tiling in sorted(starts, key=lambda start: start[0])[:DESCENTS]:
            self.from_tiles(evaluate, tiling)

    def each_family(self, options: Sequence[Choice]) -> None:
        """Descend from the whole problem for the most promising choice of each vector shape: good
        tiles of one are poor starts for another."""
        families: dict[tuple[str, int], Choice] = {}
        for choice in options:
            kernel = choice.kernel
            families.setdefault((kernel.lanes, kernel.extent(kernel.lanes)), choice)
        for choice in families.values():
            evaluate = Evaluator(self.problem, self.machine, choice)
            self.from_tiles(evaluate, np.tile(evaluate.units, (len(LEVELS), 1)))


def _prove(search: _Search, options: Sequence[Choice], gap: float, deadline: float) -> float:
    """A lower bound in seconds on the cost of every plan; improves `search` on the way.

    Choices whose own bound reaches `target` need no further proof; for the others SCIP finds a
    bound. Every plan costs at least the smaller of the two.
    """
    search.each_family([choice for choice in options if choice.bound < search.cost / (1 + gap)])
    lower = min(options[0].bound, search.cost)
    for table in TABLES:
        target = search.cost / (1 + gap)
        alive = [choice for choice in options if choice.bound < target]
        if lower >= target or perf_counter() >= deadline:
            break
        model = Formulation(search.problem, search.machine, alive, search.cost, table=table)
        outcome = model.solve(
            below=target * MARGIN, time_limit=deadline - perf_counter(), gap=BOUND_GAP * gap
        )
        lower = max(lower, min(outcome.bound, target))
        for picked, sizes in outcome.starts:
            search.from_sizes([alive[picked]], sizes)
        if lower < search.cost / (1 + gap) and perf_counter() < deadline:
            for _, sizes in outcome.starts[:1]:
                search.from_sizes(alive, sizes)
    if lower < search.cost / (1 + gap) and perf_counter() < deadline:
        lower = max(lower, _prove_each(search, options, gap, deadline))
    return min(lower, search.cost)


def _prove_each(search: _Search, options: Sequence[Choice], gap: float, deadline: float) -> float:
    """The same bound from one SCIP model per choice: without the switches between choices it is
    tighter, so that the last few per cent of a hard problem close."""
    target = search.cost / (1 + gap)
    lower = target
    for choice in options:
        bound, left = choice.bound, deadline - perf_counter()
        if bound < target and left > 0:
            model = Formulation(
                search.problem, search.machine, [choice], search.cost, table=TABLES[-1]
            )
            outcome = model.solve(below=target * MARGIN, time_limit=left, gap=BOUND_GAP * gap)
            bound = max(bound, outcome.bound)
            for _, sizes in outcome.starts:
                search.from_sizes([choice], sizes)
        lower = min(lower, bound)
    return lower


def _plan(search: _Search, threads: int) -> Plan:
    assert search.found is not None
    assert search.evaluator is not None
    evaluate, tiling = search.evaluator, search.found.tiling
    costs = evaluate(tiling[None])
    sizes = np.minimum(tiling * evaluate.unit, evaluate.extents)
    levels = tuple(
        Level(
            name,
            evaluate.classes[costs.classes[0, index]].order,
            dict(zip(search.problem.names, sizes[index].tolist(), strict=True)),
        )
        for index, name in enumerate(LEVELS)
    )
    choice = evaluate.choice
    return Plan(
        machine=search.machine.name,
        threads=threads,
        microkernel=choice.kernel,
        levels=levels,
        parallel=dict(choice.parallel),
        packing=evaluate.packings[costs.packing[0]],
    )
