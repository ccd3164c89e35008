"""What is lost by predictions with a random error, against probabilities worked out by hand."""

from math import erf, exp, isnan, log, sqrt
from types import SimpleNamespace

import pytest

from benchmarks.validation.accuracy import (
    DRAWS,
    error_of_good_plans,
    lost_by_chance,
    noise_of_good_plans,
)
from benchmarks.validation.criteria import usual_needed
from benchmarks.validation.judgement import Verdict
from benchmarks.workloads import Workload


def verdict(*times: float, predicted: tuple[float, ...] = ()) -> Verdict:
    """An operator whose plans take so many seconds."""
    costs = predicted or times
    points = {
        str(turn): SimpleNamespace(
            seconds=seconds, prediction=SimpleNamespace(cost=cost), sampled=True, final=False
        )
        for turn, (seconds, cost) in enumerate(zip(times, costs, strict=True))
    }
    return Verdict(Workload("R0", k=1, h=1, w=1, c=1, r=1, s=1), 1.0, points, (), 0.0, ())


def test_exact_predictions_lose_nothing():
    lost = lost_by_chance([verdict(3.0, 1.0, 2.0), verdict(1.0, 5.0)], 0.0)
    assert (lost.mean, lost.reached) == (0.0, 1.0)


@pytest.mark.parametrize("slower", [1.02, 1.1, 1.3])
def test_of_two_plans_the_slower_is_taken_as_often_as_errors_exceed_the_gap(slower):
    """The difference of two errors has a standard deviation of sqrt(2) times that of one."""
    error = 0.08
    often = (1 - erf(log(slower) / (2 * error))) / 2
    operators = 50
    lost = lost_by_chance([verdict(1.0, slower)] * operators, error)
    spread = 4 * (often * (1 - often) / (DRAWS * operators)) ** 0.5
    loss = 1 - 1 / slower
    assert lost.mean == pytest.approx(loss * often, abs=loss * spread)
    assert (lost.reached > 0.9) == (loss <= 0.03)  # the best is always one of five


def test_operators_that_lose_more_than_usual_decide():
    """Each of six that lose 4% is wrong in half of all draws: at most two are in 22 of 64. Of 32
    operators two may be, of fewer proportionally fewer."""
    operators = [verdict(1.0, 1 / 0.96)] * 6 + [verdict(1.0)] * 26
    assert lost_by_chance(operators, 5.0).reached == pytest.approx(22 / 64, abs=0.1)
    assert [usual_needed(number) for number in (1, 7, 15, 16, 32, 100)] == [1, 7, 14, 15, 30, 94]


def test_the_mean_decides():
    """Each of ten that lose 2.4% is wrong in half of all draws: at most six are in 848 of 1024."""
    operators = [verdict(1.0, 1 / 0.976)] * 10
    assert lost_by_chance(operators, 5.0).reached == pytest.approx(848 / 1024, abs=0.1)


def test_top_5_losses_decide_too():
    """Of thirty plans that cannot be told apart twenty-nine take 1.4% longer."""
    operators = [verdict(1.0, *[1.014] * 29)]
    assert lost_by_chance(operators, 0.5).reached < 0.5
    assert lost_by_chance(operators, 0.0).reached == 1.0


def test_the_error_is_that_of_good_plans_less_what_they_have_in_common():
    """Plans that are predicted 20% too fast and too slow around a common factor; the last one takes
    twice as long as the best and does not count."""
    off = exp(0.2)
    one = verdict(1.0, 1.2, 2.0, predicted=(3.0 * off, 3.6 / off, 1.0))
    exact = verdict(1.0, 1.2, predicted=(2.0, 2.4))
    alone = verdict(1.0, 2.0, predicted=(1.0, 1.0))  # of one plan nothing is known
    assert error_of_good_plans([one, alone]) == pytest.approx(0.2 * sqrt(2))
    assert error_of_good_plans([one, exact]) == pytest.approx(0.1 * sqrt(2))
    assert isnan(error_of_good_plans([alone]))


def test_the_noise_of_good_plans_is_that_of_their_times():
    """Root mean square over an operator's plans, the mean over operators; those of which nothing
    is known are left out."""

    def operator(*errors: float) -> SimpleNamespace:
        """With two passes, each off by its plan's error."""
        passes = ([[exp(error)], [exp(-error)]] for error in errors)
        return SimpleNamespace(good=[SimpleNamespace(passes=one) for one in passes])

    unknown = SimpleNamespace(good=[SimpleNamespace(passes=[[1.0, 1.1]])])
    operators = [operator(0.03, 0.04), operator(0.02), unknown, operator()]
    expected = (sqrt((0.03**2 + 0.04**2) / 2) + 0.02) / 2
    assert noise_of_good_plans(operators) == pytest.approx(expected)
    assert isnan(noise_of_good_plans([unknown]))
