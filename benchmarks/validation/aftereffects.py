"""What plans leave behind for whichever runs next, in spite of flushing.

A plan is timed right after the reference, and the reference after another plan. Where that one
follows always, what it leaves in a cache counts for a plan that has nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import log, nan, sqrt
from statistics import fmean, median

from .judgement import Trial, Verdict


def aftereffect(trial: Trial) -> float:
    """The standard deviation, over the plans of final rounds, of what the reference takes more or
    less beside a plan than beside the others of its operator, relatively: as far as that repeats
    from pass to pass, as chance does not. NaN without several passes."""
    products = [
        fmean(one * other for one, other in combinations(passes, 2))
        for verdict in trial.verdicts
        for passes in _deviations(verdict)
    ]
    return sqrt(max(0.0, fmean(products))) if products else nan


def _deviations(verdict: Verdict) -> Iterator[Sequence[float]]:
    """Of each plan, by pass: the logarithm of what the reference took beside it, less the median of
    the operator's plans in the same pass."""
    plans = [point.references for point in verdict.points.values() if len(point.references) > 1]
    usual = [
        median(log(plan[number]) for plan in plans if number < len(plan))
        for number in range(max(map(len, plans), default=0))
    ]
    for plan in plans:
        yield [log(seconds) - usual[number] for number, seconds in enumerate(plan)]
