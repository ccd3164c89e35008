"""Proofs by all tilings of a choice, for problems so small that SCIP's bounds do not suffice."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from plain_enumeration import Enumeration
from tiny_cases import random_case

from mopt_mlir.machine import by_name, resolve
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver import exhaustive, proof, solve
from mopt_mlir.solver.evaluate import Evaluator
from mopt_mlir.solver.incumbent import Incumbent
from mopt_mlir.solver.search import Found, penalised_cost
from mopt_mlir.solver.space import choices

GAP = 0.002


@pytest.mark.parametrize("seed", range(0, 200, 5))
def test_tiny_problems_are_proven_to_a_small_gap(seed: int) -> None:
    problem, machine, threads, constant = random_case(seed)
    best = Enumeration(problem, machine, threads, constant).best()
    if best == inf:
        return  # nothing fits into the caches
    plan = solve(problem, machine, threads, constant_weights=constant, gap=GAP)
    assert plan.prediction is not None
    assert plan.prediction.lower_bound <= best * (1 + 1e-9)
    assert plan.prediction.cost <= plan.prediction.lower_bound * (1 + GAP + 1e-9)


@pytest.mark.parametrize(
    ("problem", "machine"),
    [
        (conv2d(k=5, h=2, w=1, c=3, r=2, s=1, n=2, stride=2), "graniterapids,L2.size=131072"),
        (conv2d(k=1, h=2, w=1, c=5, r=5, s=1, stride=3, dilation=2), "graniterapids"),
    ],
)
def test_all_tilings_prove_what_scip_does_not(
    problem: Problem, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = solve(problem, resolve(machine)).prediction
    assert proven is not None
    assert proven.gap <= 0.005 * (1 + 1e-9)
    monkeypatch.setattr(proof, "FEW_TILINGS", 0)
    after_scip = solve(problem, resolve(machine)).prediction
    assert after_scip == proven
    monkeypatch.setattr(proof, "MOST_TILINGS", 0)
    by_scip = solve(problem, resolve(machine)).prediction
    assert by_scip is not None
    assert by_scip.cost == proven.cost
    assert by_scip.gap > 0.005


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_tilings_are_gone_through_once(threads: int) -> None:
    problem = conv2d(k=33, h=3, w=5, c=4, r=2, s=1)
    machine = resolve("znver3,cores=3")
    for choice in choices(problem, machine, threads, constant_weights=False):
        evaluate = Evaluator(problem, machine, choice)
        tilings = np.concatenate(list(exhaustive._tilings(evaluate)))
        assert len(np.unique(tilings.reshape(len(tilings), -1), axis=0)) == len(tilings)
        assert (evaluate.nest(tilings) == tilings).all()
        larger = evaluate.nest(tilings[:, [0, 0, 0]] + 1)
        assert {t.tobytes() for t in larger} <= {t.tobytes() for t in tilings}
        assert exhaustive.has_few_tilings(choice, len(tilings))
        assert not exhaustive.has_few_tilings(choice, len(tilings) - 1)


def test_long_dims_are_not_gone_through() -> None:
    problem = conv2d(k=4, h=1, w=1_000_000, c=4, r=1, s=1)
    (choice, *_) = choices(problem, by_name("znver5"), 1, constant_weights=False)
    assert not exhaustive.has_few_tilings(choice, 10**5)


def test_what_is_not_done_in_time_proves_nothing() -> None:
    problem = conv2d(k=5, h=2, w=1, c=3, r=2, s=1)
    machine = by_name("znver5")
    (choice, *_) = choices(problem, machine, 1, constant_weights=False)
    evaluate = Evaluator(problem, machine, choice)
    assert exhaustive.cheapest(evaluate, deadline=0.0) == (0.0, None)
    least, tiling = exhaustive.cheapest(evaluate)
    assert tiling is not None
    assert evaluate(tiling[None]).cost[0] == least > 0


def test_a_better_tiling_is_kept() -> None:
    problem = conv2d(k=5, h=3, w=4, c=3, r=2, s=1)
    machine = by_name("znver5")
    (choice, *_) = choices(problem, machine, 1, constant_weights=False)
    evaluate = Evaluator(problem, machine, choice)
    least, _ = exhaustive.cheapest(evaluate)
    best = Incumbent(problem, machine, inf)
    single = evaluate.nest(np.ones((3, len(problem.names)), np.int64))
    costs = evaluate(single[None])
    best.found = Found(single, float(costs.cost[0]), float(penalised_cost(costs)[0]))
    assert best.cost > least
    assert proof.Proof(best, GAP, inf)._of_all_tilings(choice) == pytest.approx(least)
    assert best.cost == pytest.approx(least)
