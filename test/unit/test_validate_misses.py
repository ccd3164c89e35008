"""Why choices lose, on plans whose errors are made up."""

from math import exp, isnan, log
from types import SimpleNamespace

import pytest

from benchmarks.validation import misses
from benchmarks.validation.judgement import Trial, Verdict
from benchmarks.workloads import Workload

OTHERS = [(1.1, sign * 0.05) for sign in (1, -1) * 4]
"""Good plans that are not the best: predicted seconds, and the logarithm of what they are off."""


def rounds_of(uncertainty: float) -> tuple[float, ...]:
    """Ratios of which the median has such a standard error, by quartiles that are half of `off`
    apart: 1.2533 / sqrt(4) times what these are of a normal distribution, in 1.349 deviations."""
    off = 2 * uncertainty * 1.349 / (1.2533 / 2)
    return 1 - off, 1.0, 1.0, 1 + off


def trial(
    *plans: tuple[float, float],
    uncertainty: float = 0.01,
    own: bool = False,
    objectives: tuple[float, ...] | None = None,
) -> Trial:
    """An operator with plans of so many predicted seconds that are off by such a factor's logarithm
    each; the first is the own one, if there is one. Without `objectives` each costs the solver more
    than the one before."""
    points = {
        str(turn): SimpleNamespace(
            key=str(turn),
            seconds=predicted * exp(error),
            prediction=SimpleNamespace(cost=predicted),
            objective=1.0 + turn if objectives is None else objectives[turn],
            sampled=not (own and turn == 0),
            final=False,
            passes=(rounds_of(uncertainty),),
        )
        for turn, (predicted, error) in enumerate(plans)
    }
    workload = Workload("R0", k=1, h=1, w=1, c=1, r=1, s=1)
    verdict = Verdict(workload, 1.0, points, ("0",) if own else (), 0.0, ())
    return Trial("table1-native", {}, (verdict,), (), (), ())


def test_errors_are_those_beyond_what_good_plans_have_in_common():
    """All take 1.2 times as long as predicted, and one a fifth more."""
    bad = (5.0, 3.0)
    plans = [(1.0, 0.2), (1.001, 0.0), *((predicted, 0.0) for predicted, _ in OTHERS), bad]
    shifted = [(predicted, error + log(1.2)) for predicted, error in plans]
    (miss,) = misses.sample_misses(trial(*shifted))
    assert miss.loss == pytest.approx(1 - 1.001 * exp(-0.2))
    assert miss.error(miss.chosen) == pytest.approx(0.2)
    assert miss.error(miss.best) == pytest.approx(0.0)
    assert miss.usual == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("chosen", "best", "uncertainty", "reason"),
    [
        (0.05, -0.05, 0.01, misses.USUAL),
        (0.05, -0.05, 0.05, misses.NOISE),  # 0.094 is lost, 0.071 the standard error of both
        (0.2, -0.02, 0.01, misses.MISJUDGED),
        (0.05, -0.25, 0.01, misses.MISJUDGED),
        (-0.02, -0.08, 0.01, misses.USUAL),
    ],
)
def test_why_a_choice_among_the_sample_loses(chosen, best, uncertainty, reason):
    found = trial((1.0, chosen), (1.001, best), *OTHERS, uncertainty=uncertainty)
    assert misses.reasons_of([found]) == [reason]


def test_few_plans_leave_room_for_larger_errors():
    """Four that are off by 0.1 have a standard deviation of 0.1155: by Student's t one more is
    within 3.182 * sqrt(1 + 1/4) of these in 95% of cases."""
    others = [(1.3, sign * 0.1) for sign in (1, -1) * 2]
    (miss,) = misses.sample_misses(trial((1.0, 0.3), (1.001, 0.0), *others))
    assert miss.tolerance == pytest.approx(3.182 * (5 / 4) ** 0.5 * 0.1155, rel=2e-3)
    assert miss.reason == misses.USUAL


@pytest.mark.parametrize(("others", "reason"), [(3, misses.UNKNOWN), (4, misses.MISJUDGED)])
def test_the_errors_of_few_plans_say_little_of_what_is_usual(others, reason):
    """The two that are judged are none of them: of five plans, none is two standard deviations of
    all five from the mean."""
    found = trial((1.0, 0.4), (1.001, 0.0), *[(1.1, 0.0)] * (others - 1), (1.1, 0.02))
    (miss,) = misses.sample_misses(found)
    assert miss.reason == reason
    assert isnan(miss.usual) == (reason == misses.UNKNOWN)


def test_the_objective_is_to_blame_where_predicted_times_know_better():
    """An own plan that takes as long as predicted, and a sampled one that is predicted to be and is
    faster; the choice among the sample is the fastest there."""
    found = trial((1.0, 0.0), (0.95, 0.0), *OTHERS, own=True)
    assert [miss.reason for miss in misses.own_misses(found)] == [misses.OBJECTIVE]
    assert not list(misses.sample_misses(found))
    costs = (1.0, 0.9, *(1.0 for _ in OTHERS))
    today = trial((1.0, 0.0), (0.95, 0.0), *OTHERS, own=True, objectives=costs)
    assert [miss.reason for miss in misses.own_misses(today)] == [misses.OTHERWISE]
    slower = trial((1.0, 0.05), (1.0, 0.0), *OTHERS, own=True)
    assert [miss.reason for miss in misses.own_misses(slower)] == [misses.USUAL]


def test_reasons_are_counted_by_trial():
    lost = trial((1.0, 0.05), (1.001, -0.05), *OTHERS)
    won = trial((1.0, 0.0), (1.001, 0.0), *OTHERS, own=True)
    rows = [dict(zip(misses.REASON_COLUMNS, row, strict=True))
            for row in misses.reason_rows([lost, won])]  # fmt: skip
    assert [row["choice"] for row in rows] == ["sample", "own"] * 2
    assert [row["lose over 3%"] for row in rows] == ["1", "0", "0", "0"]
    assert [row[misses.USUAL] for row in rows] == ["1", "", "", ""]


def test_what_loses_less_than_usual_is_no_miss():
    assert not list(misses.sample_misses(trial((1.0, 0.029), (1.001, 0.0), *OTHERS)))
    assert len(list(misses.sample_misses(trial((1.0, 0.033), (1.001, 0.0), *OTHERS)))) == 1
