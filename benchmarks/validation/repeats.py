"""Measuring the same plans twice: how far a second trial is from the first.

What a trial loses by trusting predictions is to be seen beside what it loses by trusting the
measurements of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import expm1, isnan, log, nan
from statistics import fmean, median

import numpy as np

from . import estimators
from .judgement import Point, Trial, Verdict, fastest

BEFORE = "-before"
"""Ends the title of a trial that was measured before the one of the same name, with the same
sample. It is there to be compared with only."""


@dataclass(frozen=True)
class Repeat:
    """A trial, and the one `before` it."""

    trial: Trial
    before: Trial

    @cached_property
    def pairs(self) -> list[tuple[Verdict, Verdict]]:
        """The operators of which both have sampled plans in common, each as it was found before
        and now."""
        earlier = {verdict.name: verdict for verdict in self.before.verdicts}
        pairs = [(earlier[v.name], v) for v in self.trial.verdicts if v.name in earlier]
        return [pair for pair in pairs if _common(*pair)]

    @property
    def hours(self) -> float:
        """Between the starts of the two."""
        before, now = (datetime.fromisoformat(t.head["date"]) for t in (self.before, self.trial))
        return (now - before).total_seconds() / 3600

    @property
    def is_same_code(self) -> bool:
        """Whether nothing that generates code has changed in between: noise alone is left."""
        before, now = (t.head["must_agree"]["generator"] for t in (self.before, self.trial))
        return bool(before == now)

    @property
    def plans(self) -> int:
        """Sampled plans of both."""
        return sum(len(_common(*pair)) for pair in self.pairs)

    def shift(self, quantile: float) -> float:
        """By how much, relatively, the time of a plan differs, less what all plans of its operator
        differ by: a quantile over all plans."""
        return expm1(
            float(np.quantile([s for pair in self.pairs for s in _shifts(*pair)], quantile))
        )

    def spearman(self, *, good: bool) -> float:
        """The rank correlation of the times of then and now of an operator's plans, or of the good
        ones of now: the median over the operators. No prediction is worth more than that."""
        found = [_spearman(*pair, good=good) for pair in self.pairs]
        return median([rank for rank in found if not isnan(rank)] or [nan])

    @property
    def losses(self) -> dict[str, float]:
        """By operator, what is lost now by the sampled plan that was the fastest before."""
        return {now.name: _loss(before, now) for before, now in self.pairs}

    @property
    def mean_loss(self) -> float:
        return fmean(self.losses.values())

    def model_loss(self, day: int) -> float:
        """What the model's choice among the plans of both loses, 0 before and 1 now: the mean."""
        return fmean(_model_loss(pair[day], _common(*pair)) for pair in self.pairs)

    def own_loss(self, day: int) -> float:
        """What the own plan of then loses, against all that were timed with it: the mean."""
        found = [pair[day].chosen_loss(1) for pair in self.pairs if all(v.own for v in pair)]
        return fmean(found) if found else nan

    @property
    def worst(self) -> str:
        """The operator that loses most."""
        return max(self.losses, key=lambda name: self.losses[name])


def judged(trials: Sequence[Trial]) -> list[Trial]:
    """Those that are not there to be compared with only."""
    compared = {trial.title + BEFORE for trial in trials}
    return [trial for trial in trials if trial.title not in compared]


def repeats(trials: Sequence[Trial]) -> Iterator[Repeat]:
    """The trials that have one before them."""
    by_title = {trial.title: trial for trial in trials}
    for trial in trials:
        before = by_title.get(trial.title + BEFORE)
        if before is not None and (repeat := Repeat(trial, before)).pairs:
            yield repeat


def _common(before: Verdict, now: Verdict) -> list[str]:
    known = {point.key for point in before.sample}
    return [point.key for point in now.sample if point.key in known]


def _shifts(before: Verdict, now: Verdict) -> list[float]:
    """Of the logarithms of the times, absolute."""
    found = [
        log(now.points[key].seconds / before.points[key].seconds) for key in _common(before, now)
    ]
    middle = median(found) if found else 0.0
    return [abs(shift - middle) for shift in found]


def _spearman(before: Verdict, now: Verdict, *, good: bool) -> float:
    kept = {point.key for point in (now.good if good else now.sample)}
    keys = [key for key in _common(before, now) if key in kept]
    times = ([verdict.points[key].seconds for key in keys] for verdict in (before, now))
    return estimators.spearman(*times) if len(keys) > 1 else nan


def _loss(before: Verdict, now: Verdict) -> float:
    """Among the plans of both trials."""
    common = _common(before, now)
    chosen = _fastest(before, common).key
    return estimators.loss(now.points[chosen].seconds, _fastest(now, common).seconds)


def _model_loss(verdict: Verdict, keys: Sequence[str]) -> float:
    predicted = [verdict.points[key].prediction.cost for key in keys]
    measured = [verdict.points[key].seconds for key in keys]
    return estimators.top_loss(predicted, measured, 1, _fastest(verdict, keys).seconds)


def _fastest(verdict: Verdict, keys: Sequence[str]) -> Point:
    return fastest([verdict.points[key] for key in keys])
