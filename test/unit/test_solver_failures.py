"""SCIP fails, says nonsense or runs out of time: there is a correct plan with its true gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

from mopt_mlir.machine import by_name
from mopt_mlir.problem import conv2d
from mopt_mlir.solver import candidates, scip, solve
from mopt_mlir.solver.incumbent import Incumbent
from mopt_mlir.solver.proof import EXACT, Attempt, Proof, _by_grid
from mopt_mlir.solver.relaxation import Formulation
from mopt_mlir.solver.search import moves
from mopt_mlir.solver.space import choices
from mopt_mlir.solver.variables import TABLE

PROBLEM, MACHINE = conv2d(k=64, h=56, w=56, c=64, r=3, s=3), by_name("znver5")
GAP = 1e-6


@pytest.fixture(scope="module")
def best() -> float:
    plan = solve(PROBLEM, MACHINE)
    assert plan.prediction is not None
    return plan.prediction.cost


def fails(model: Any) -> None:
    raise Exception("SCIP: error in LP solver!")


def returns(model: Any) -> None:
    """As if there was nothing to do."""


@pytest.fixture(
    params=[
        (fails, "unknown", 0.0),
        (returns, "unknown", inf),
        (returns, "unbounded", 1e20),
        (returns, "optimal", nan),
        (returns, "timelimit", -1e20),
    ],
    ids=["raises", "gives up", "unbounded", "not a number", "no bound"],
)
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """SCIP does nothing, and says so in a certain way."""
    import pyscipopt

    optimize, status, bound = request.param

    class Broken(pyscipopt.Model):  # type: ignore[misc]
        def optimize(self) -> None:
            optimize(self)

        def getStatus(self) -> str:  # noqa: N802
            return str(status)

        def getDualbound(self) -> float:  # noqa: N802
            return float(bound)

    monkeypatch.setattr(pyscipopt, "Model", Broken)


@pytest.mark.usefixtures("broken")
def test_without_scip_the_bound_is_loose_and_true(best: float) -> None:
    plan = solve(PROBLEM, MACHINE, gap=GAP)
    plan.check(PROBLEM)
    assert plan.prediction is not None
    assert GAP < plan.prediction.gap < 1
    assert 0 < plan.prediction.lower_bound <= best <= plan.prediction.cost * 1.005


@pytest.mark.usefixtures("broken")
def test_without_scip_all_of_few_tilings_are_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mopt_mlir.solver.proof.FEW_TILINGS", 0)  # SCIP is asked first
    problem = conv2d(k=5, h=2, w=1, c=3, r=2, s=1, n=2, stride=2)
    plan = solve(problem, by_name("graniterapids"), gap=GAP)
    assert plan.prediction is not None
    assert plan.prediction.gap <= GAP * (1 + 1e-9)


def test_too_little_memory_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another time there may be enough: it is no reason to keep a plan with a loose bound."""
    import pyscipopt

    class Full(pyscipopt.Model):  # type: ignore[misc]
        def optimize(self) -> None:
            raise MemoryError("SCIP: insufficient memory error!")

    monkeypatch.setattr(pyscipopt, "Model", Full)
    with pytest.raises(MemoryError):
        solve(PROBLEM, MACHINE, gap=GAP)


@pytest.mark.usefixtures("broken")
def test_the_other_searches_go_on_too() -> None:
    for plan in (
        *candidates(PROBLEM, MACHINE, count=2),
        solve(PROBLEM, MACHINE, solver="algorithm1"),
    ):
        plan.check(PROBLEM)
        assert plan.prediction is not None
        assert plan.prediction.gap > 0


def test_what_is_proven_before_scip_fails_counts(
    best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyscipopt

    runs = count()

    class Once(pyscipopt.Model):  # type: ignore[misc]
        def optimize(self) -> None:
            if next(runs):
                raise Exception("SCIP: error in LP solver!")
            super().optimize()

    monkeypatch.setattr(pyscipopt, "Model", Once)
    plan = solve(PROBLEM, MACHINE, gap=GAP)
    assert next(runs) > 2
    assert plan.prediction is not None
    assert plan.prediction.lower_bound <= best
    assert plan.prediction.gap < 0.01  # 0.027 without SCIP


def test_an_exact_proof_begins_anew_after_a_better_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCIP ends where its bound is near the best solution, so that a plan which comes of that may
    leave a little to prove."""
    options = choices(PROBLEM, MACHINE, 1, constant_weights=False)[:1]
    best = Incumbent(PROBLEM, MACHINE, inf)
    best.first(options)
    search = Proof(best, GAP, inf)
    assert best.found is not None
    found, first, runs = best.found, search.target, count()

    def together(self: Proof, *_: Any) -> Attempt:
        run = next(runs)  # the second one has all sizes exact
        if run == 1:
            best.found = replace(found, cost=0.99 * found.cost)
        return Attempt(first * 0.98 if run < 2 else self.target)

    monkeypatch.setattr(Proof, "_together", together)
    assert search._exactly(options) == pytest.approx(0.99 * first, rel=1e-12)


def test_where_scip_fails_for_all_together_each_grid_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many there are."""
    together = Proof._together

    def fails_for_many(self: Proof, options: Any, *rest: Any, **more: Any) -> Attempt:
        if len(_by_grid(options)) == 1:
            return together(self, options, *rest, **more)
        return Attempt(min(self.target, *(choice.bound for choice in options)))

    monkeypatch.setattr("mopt_mlir.solver.proof.FEW", 1)
    monkeypatch.setattr(Proof, "_together", fails_for_many)
    plan = solve(PROBLEM, MACHINE, gap=0.005, time_limit=60)
    assert plan.prediction is not None
    assert plan.prediction.gap <= 0.005 * (1 + 1e-6)


def test_settings_that_scip_refuses_are_a_failure_as_any(
    best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyscipopt

    class Strict(pyscipopt.Model):  # type: ignore[misc]
        def setParam(self, name: str, value: object) -> None:  # noqa: N802
            raise ValueError("SCIP: the parameter is not in the valid range!")

    monkeypatch.setattr(pyscipopt, "Model", Strict)
    plan = solve(PROBLEM, MACHINE, gap=GAP)
    assert plan.prediction is not None
    assert 0 < plan.prediction.lower_bound <= best


@pytest.mark.parametrize("solver", ["exact", "algorithm1"])
@pytest.mark.parametrize("limit", [inf, 1e300, 1e21])
def test_without_a_time_limit_the_plan_is_the_usual_one(
    solver: str, limit: float, capfd: pytest.CaptureFixture[str]
) -> None:
    problem = conv2d(k=32, h=8, w=14, c=8, r=3, s=3)
    assert solve(problem, MACHINE, time_limit=limit, solver=solver) == solve(
        problem, MACHINE, time_limit=3600, solver=solver
    )
    assert capfd.readouterr() == ("", "")


def test_scip_has_the_time_that_passes_not_that_of_every_thread() -> None:
    """Its own default is the time that the process takes of all processors."""
    from pyscipopt import Model

    model = Model()
    assert scip.run(model, gap=0.0, time_limit=60, convex=True)
    assert model.getParam("timing/clocktype") == 2  # SCIP's manual: wall clock


def test_a_proof_with_all_sizes_is_not_repeated_with_larger_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = choices(PROBLEM, MACHINE, 1, constant_weights=False)[:1]
    best = Incumbent(PROBLEM, MACHINE, inf)
    best.first(options)
    tables = []

    def together(self: Proof, _: Any, table: int) -> Attempt:
        tables.append(table)
        return Attempt(0.5 * self.target, exact=len(tables) == 3)

    monkeypatch.setattr(Proof, "_together", together)
    search = Proof(best, GAP, inf)
    search._tightest(options)
    search._tightest(options)
    assert tables == [TABLE, EXACT, TABLE]


@pytest.mark.parametrize(
    ("w", "threads", "exact"), [(56, 1, True), (100_000, 1, False), (56, 2, False)]
)
def test_larger_tables_change_what_has_many_sizes_or_is_split(
    w: int, threads: int, exact: bool
) -> None:
    problem = conv2d(k=64, h=1, w=w, c=8, r=1, s=1)
    options = choices(problem, MACHINE, threads, constant_weights=True)
    one = next(c for c in options if c.ways("w") == threads and c.kernel.lanes == "k")
    assert Formulation(problem, MACHINE, [one], 1.0, table=TABLE).exact == exact
    assert Formulation(problem, MACHINE, [one], 1.0, table=10**6).exact


def test_an_interruption_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCIP takes the signal and returns."""
    import pyscipopt

    class Interrupted(pyscipopt.Model):  # type: ignore[misc]
        def getStatus(self) -> str:  # noqa: N802
            return "userinterrupt"

    monkeypatch.setattr(pyscipopt, "Model", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(PROBLEM, MACHINE, gap=GAP)


@pytest.mark.parametrize("solver", ["exact", "algorithm1"])
def test_without_time_there_is_a_plan(solver: str, best: float) -> None:
    hasty = solve(PROBLEM, MACHINE, gap=GAP, time_limit=1e-9, solver=solver)
    hasty.check(PROBLEM)
    assert hasty.prediction is not None
    assert hasty.prediction.lower_bound <= best
    assert hasty.prediction.gap > GAP


def test_a_loop_that_is_too_long_is_refused_by_both_solvers() -> None:
    long = conv2d(k=1, h=1, w=1 << 23, c=1, r=1, s=1)
    for solver in ("exact", "algorithm1"):
        with pytest.raises(ValueError, match="has 8388608 iterations"):
            solve(long, MACHINE, solver=solver)


@pytest.mark.parametrize("search", [solve, candidates, partial(solve, solver="algorithm1")])
def test_no_core_and_more_than_there_are_are_refused(search: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="threads is 0; at least one is needed"):
        search(PROBLEM, MACHINE, 0)
    with pytest.raises(ValueError, match=f"threads is 99; '{MACHINE.name}' has {MACHINE.cores} co"):
        search(PROBLEM, MACHINE, 99)


@pytest.mark.parametrize("solver", ["exact", "algorithm1"])
@pytest.mark.parametrize("gap", [-0.1, 0.0, 1.0, float("nan")])
def test_a_gap_that_is_none_is_refused(gap: float, solver: str) -> None:
    with pytest.raises(ValueError, match=f"gap is {gap}, not between 0 and 1"):
        solve(PROBLEM, MACHINE, gap=gap, solver=solver)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, float("nan")])
def test_a_time_limit_that_is_none_is_refused(seconds: float) -> None:
    message = f"time_limit is {seconds}, not a positive number of seconds"
    for solver in ("exact", "algorithm1"):
        with pytest.raises(ValueError, match=message):
            solve(PROBLEM, MACHINE, time_limit=seconds, solver=solver)
    with pytest.raises(ValueError, match=message):
        candidates(PROBLEM, MACHINE, time_limit=seconds)


def test_a_dearer_plan_proves_nothing_of_what_was_left_out_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan of simpler code may replace one that costs a little less. Choices whose own bound
    reached the target of that one were not looked at, and need not reach the new target."""
    incumbent: Any = SimpleNamespace(cost=1.0, least=1.0)

    def dearer(*_: Any, **__: Any) -> Attempt:
        incumbent.cost = 1.1
        return Attempt(1.1)

    monkeypatch.setattr(Proof, "_together", dearer)
    options: Any = [SimpleNamespace(bound=bound) for bound in (0.9, 1.05, 1.2)]
    assert Proof(incumbent, gap=0.0, deadline=inf).bound(options) == 1.05


def test_candidates_do_not_search_on_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a search that has used it up, the first tiling that fits is enough."""
    searched: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        searched.append(len(searched))
        return moves(*arguments, **options)

    monkeypatch.setattr("mopt_mlir.solver.search.moves", counted)
    candidates(PROBLEM, MACHINE, time_limit=1e-9)
    in_time, searched[:] = len(searched), []
    solve(PROBLEM, MACHINE, time_limit=1e-9)
    assert in_time <= len(searched) + 1
