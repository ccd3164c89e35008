"""What plans leave behind for others, of times that are written down."""

from math import isnan
from types import SimpleNamespace

import pytest

from benchmarks.validation.aftereffects import aftereffect
from benchmarks.validation.tables import aftereffect_rows


def trial(*operators):
    """Of each operator, by plan, what the reference took beside it in each pass."""
    verdicts = [
        SimpleNamespace(
            points={n: SimpleNamespace(references=passes) for n, passes in enumerate(plans)}
        )
        for plans in operators
    ]
    return SimpleNamespace(title="table1-native", verdicts=verdicts)


def test_what_repeats_is_found():
    """A tenth less beside one plan, and more beside another, in each pass."""
    found = aftereffect(trial([(0.9, 0.9, 0.9), (1.0, 1.0, 1.0), (1.1, 1.1, 1.1)]))
    assert found == pytest.approx(0.0819, abs=1e-3)  # of log(0.9), 0 and log(1.1)


def test_what_does_not_repeat_is_chance():
    passes = [(0.9, 1.1, 1.0), (1.0, 1.0, 1.0), (1.1, 0.9, 1.0)]
    assert aftereffect(trial(passes)) == 0.0


def test_a_slow_pass_and_a_slow_operator_are_none():
    slow = [(1.0, 2.0), (1.0, 2.0), (1.0, 2.0)]
    assert aftereffect(trial(slow, [(9.0, 9.0), (9.0, 9.0)])) == 0.0


def test_plans_may_lack_a_pass():
    assert aftereffect(trial([(1.0, 1.0, 1.0), (1.0, 1.0), (1.0,)])) == 0.0


def test_a_trial_of_single_passes_says_nothing_and_is_left_out():
    once = trial([(1.0,), (1.1,)])
    assert isnan(aftereffect(once))
    assert aftereffect_rows([once, trial([(1.0, 1.0)])]) == [["table1-native", "0.0%"]]
