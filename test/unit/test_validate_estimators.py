"""Ranks, correlations, losses and their uncertainty, against values worked out by hand."""

import math

import numpy as np
import pytest

from benchmarks.validation import estimators
from benchmarks.validation.records import Measurement


def test_equal_values_share_a_rank():
    assert estimators.ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]


def test_correlations_of_an_order_with_two_neighbours_swapped():
    predicted, measured = [1.0, 2.0, 3.0, 4.0], [10.0, 30.0, 20.0, 40.0]
    assert estimators.spearman(predicted, measured) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert estimators.kendall(predicted, measured) == pytest.approx((5 - 1) / 6)


def test_correlations_of_the_same_and_of_the_opposite_order():
    values = [5.0, 1.0, 4.0]
    for correlation in (estimators.spearman, estimators.kendall):
        assert correlation(values, [math.exp(v) for v in values]) == pytest.approx(1)
        assert correlation(values, [-v for v in values]) == pytest.approx(-1)
        assert math.isnan(correlation(values, [2.0, 2.0, 2.0]))


def test_ties_count_for_neither_order():
    # pairs: one tied in x, one tied in y, four in the same order; tau-b = 4 / sqrt(5 * 5)
    assert estimators.kendall([1, 1, 2, 3], [1, 2, 3, 3]) == pytest.approx(0.8)


def test_top_loss_is_of_the_fastest_among_those_predicted_best():
    predicted, measured = [1.0, 2.0, 3.0], [4.0, 2.5, 2.0]
    losses = [estimators.top_loss(predicted, measured, k, 2.0) for k in (1, 2, 5)]
    assert losses == pytest.approx([0.5, 0.2, 0.0])


def test_nothing_is_won_by_a_plan_that_was_lucky_in_a_few_rounds():
    assert estimators.loss(0.9, 1.0) == 0
    assert estimators.top_loss([1, 2], [0.9, 1.1], 1, 1.0) == 0


def test_uncertainty_shrinks_with_the_root_of_the_rounds():
    few = estimators.uncertainty([[0.9, 1.0, 1.1] * 4])
    many = estimators.uncertainty([[0.9, 1.0, 1.1] * 16])
    assert few == pytest.approx(2 * many)
    assert math.isnan(estimators.uncertainty([[1.0, 1.1]]))


def test_rounds_of_a_pass_that_are_alike_are_no_more_than_one_look():
    """The logarithms of their medians, -0.1, 0, 0.1 and 0, have a standard deviation of
    sqrt(0.02 / 3); with three degrees of freedom 95% are within 3.182 of it, of a normal
    distribution within 1.960."""
    looks = [[math.exp(log)] * 5 for log in (-0.1, 0.0, 0.1, 0.0)]
    error = math.sqrt(0.02 / 3) / 2 * 3.182 / 1.960
    assert estimators.uncertainty(looks) == pytest.approx(error, rel=2e-3)
    one = [0.9, 1.0, 1.1, 1.0]
    assert estimators.uncertainty([one] * 5) == estimators.uncertainty([one * 5])


def test_what_passes_do_to_both_plans_is_no_error_of_their_ratio():
    slow, slower, fast = 1.1, 1.2, 0.9
    one = [[slow] * 5, [slower] * 5, [fast] * 5]
    other = [[2 * ratio for ratio in rounds] for rounds in one]
    assert estimators.uncertainty(one) > 0.1
    assert estimators.uncertainty_of_ratio(one, other) == pytest.approx(0.0, abs=1e-12)
    apart = [other[1], other[0], other[2]]
    assert estimators.uncertainty_of_ratio(one, apart) > 0.1
    # rounds that scatter, and passes that are not the same, are errors of both
    rounds = [0.9, 1.0, 1.1] * 4
    error = estimators.uncertainty_of_ratio([rounds], [rounds])
    assert error == pytest.approx(math.sqrt(2) * estimators.uncertainty([rounds]))
    both = math.hypot(estimators.uncertainty(one), estimators.uncertainty([rounds]))
    assert estimators.uncertainty_of_ratio(one, [rounds]) == pytest.approx(both)
    assert math.isnan(estimators.uncertainty_of_ratio(one, [[1.0]]))


def test_losses_judged_apart_owe_nothing_to_luck():
    """Two plans that are as fast as the chosen one, each lucky in another of two passes: by all
    rounds the second is the best, and by other rounds than those that say so it is slower."""
    chosen = [[1.0], [1.0]]
    rivals = [[[0.9], [1.1]], [[1.08], [0.88]], chosen]
    assert estimators.loss_apart(chosen, rivals) == pytest.approx(((1 - 1.08) + (1 - 1.1)) / 2)
    slow = [[2.0], [2.0]]
    assert estimators.loss_apart(slow, [slow, chosen]) == pytest.approx(0.5)
    assert estimators.loss_apart(chosen, [slow, chosen]) == 0.0
    # one that met in other rounds
    assert estimators.loss_apart([[2.0, 4.0, 1.0]], [chosen, chosen]) == pytest.approx(0.5)
    assert math.isnan(estimators.loss_apart([[1.0]], [[[1.0]]]))
    # a rival that failed after its first pass
    assert estimators.loss_apart(slow, [slow, chosen, [[0.1]]]) == pytest.approx(0.5)
    # one of which some passes are missing, or of whose rivals: those that both have count
    drifting = [[1.0], [1.2], [1.2]]
    assert estimators.loss_apart(drifting, [[[2.0], [2.4]], drifting]) == 0.0
    assert estimators.loss_apart([[2.0], [2.4]], [[[2.0], [2.4], [9.0]]] * 2) == 0.0


def test_drift_of_the_machine_is_divided_out():
    measurement = Measurement(
        None, False, seconds=((2.0,), (4.0,), (8.0,)), reference=((1.0,), (2.0,), (4.0,)),
        compile_seconds=0.1, error=0.0, counters={},
    )  # fmt: skip
    assert estimators.round_ratios(measurement) == [2.0, 2.0, 2.0]
    assert estimators.paired_ratio(measurement) == 2.0


def test_intervals_of_means_are_as_wide_as_those_of_a_normal_distribution():
    """Of many values; and of values that are all equal there is nothing to be drawn."""
    values = [0.0, 1.0] * 200
    low, high = estimators.interval_of_mean(values)
    half = 1.96 * 0.5 / math.sqrt(400)
    assert (low, high) == (
        pytest.approx(0.5 - half, abs=0.005),
        pytest.approx(0.5 + half, abs=0.005),
    )
    assert estimators.interval_of_mean([2.0, 2.0]) == (2.0, 2.0)


def test_intervals_of_means_of_few_values_are_wide_enough():
    """Of eight that are normally distributed they hold the mean in 95% of cases; percentiles alone
    in 89%."""
    draws = np.random.default_rng(1).normal(size=(600, 8))
    ends = np.array([estimators.interval_of_mean(list(values)) for values in draws])
    held = np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0))
    assert 0.93 <= held <= 0.97


def test_one_value_has_no_interval():
    assert all(map(math.isnan, estimators.interval_of_mean([1.0])))
