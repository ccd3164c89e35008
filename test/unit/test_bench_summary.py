"""Statistics of a benchmark against published and hand-computed values."""

from __future__ import annotations

from math import exp, isnan, log, sqrt

import pytest

from benchmarks.runner import ROUNDS, roofline, share
from benchmarks.summary import Ratio, Summary, geometric_mean, half_interval, student_quantile

# two-sided 95% quantiles of Student's t, as tables print them
PUBLISHED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 29: 2.045, 49: 2.010}


@pytest.mark.parametrize(("freedom", "quantile"), PUBLISHED.items())
def test_quantiles_are_those_of_the_tables(freedom, quantile):
    assert student_quantile(freedom) == pytest.approx(quantile, rel=2e-3)


def test_interval_of_a_sample():
    # mean 3, standard deviation sqrt(2.5), 4 degrees of freedom
    assert half_interval([1, 2, 3, 4, 5]) == pytest.approx(2.776 * sqrt(2.5) / sqrt(5), rel=2e-3)
    assert half_interval([7.0] * 10) == 0
    assert isnan(half_interval([1.0]))


def test_mean_is_that_of_rates_and_median_that_of_times():
    summary = Summary.of([[1.0, 2.0], [4.0]], flops=8e9)
    assert summary.median == pytest.approx(4)
    assert summary.mean == pytest.approx((8 + 4 + 2) / 3)
    assert isnan(Summary.of([[1.0, 1.1]], 1e9).ci95)


def test_rounds_are_independent_and_not_their_runs():
    # rates of 8, 4 and 2 in each of two rounds, which differ in nothing
    assert Summary.of([[1.0, 2.0, 4.0]] * 2, flops=8e9).ci95 == 0
    # rounds with means of 8 and 4: one degree of freedom
    summary = Summary.of([[1.0] * 10, [2.0] * 10], flops=8e9)
    assert summary.mean == pytest.approx(6)
    assert summary.ci95 == pytest.approx(12.706 * sqrt(8) / sqrt(2), rel=1e-3)


def test_ratios_are_compared_round_by_round():
    # the second round took everybody twice as long, and ours 1.5 and 1.2 times that of the other
    ratio = Ratio.of([[2.0] * 3, [5.0] * 3], [[3.0] * 3, [6.0] * 3])
    assert ratio.value == pytest.approx((1 / 2 + 1 / 5) / (1 / 3 + 1 / 6))
    assert ratio.freedom == 1
    spread = abs(log(1.5) - log(1.2)) / 2  # of two: their standard deviation over the root of two
    low, high = ratio.interval
    assert high / ratio.value == pytest.approx(exp(12.706 * spread), rel=1e-3)
    assert low * high == pytest.approx(ratio.value**2)
    assert all(map(isnan, Ratio.of([[2.0] * 3], [[3.0] * 3]).interval))


def test_rounds_that_one_of_two_did_not_make_are_in_no_ratio():
    both = [[2.0] * 3, [5.0] * 3], [[3.0], [6.0]]
    more = [*both[0], [50.0] * 3]
    assert Ratio.of(more, both[1]) == Ratio.of(*both)
    assert Ratio.of(both[1], more) == Ratio.of(both[1], both[0])
    assert Ratio.of([[2.0], [8.0]], [[4.0]]).value == pytest.approx(2)


def test_the_error_of_a_mean_of_ratios_is_that_of_measuring_them():
    mean = Ratio.mean([Ratio(2.0, 0.03, 4), Ratio(8.0, 0.04, 4)])
    assert (mean.value, mean.error, mean.freedom) == pytest.approx((4.0, 0.025, 8))
    assert isnan(Ratio.mean([]).value)


def test_geometric_mean():
    assert geometric_mean([1, 4, 16]) == pytest.approx(4)
    assert isnan(geometric_mean([]))


def test_roofline_is_bound_by_the_slower_of_peak_and_memory():
    assert roofline(flops=1000, moved=10, peak=200, bandwidth=50) == 200
    assert roofline(flops=1000, moved=1000, peak=200, bandwidth=50) == pytest.approx(50)


@pytest.mark.parametrize("runs", [1, 3, 5, 7, 50])
def test_rounds_share_all_runs_almost_equally(runs):
    shares = [share(runs, turn) for turn in range(ROUNDS)]
    assert sum(shares) == runs
    assert max(shares) - min(shares) <= 1
