"""How accurate predicted times have to be: what predictions lose that are off by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from statistics import fmean, stdev

import numpy as np

from . import estimators
from .criteria import MEAN_LOSS, TOP5_LOSS, USUAL_LOSS, WORST_LOSS, usual_needed
from .judgement import Verdict, misprediction

ERRORS = (0.02, 0.03, 0.05, 0.07)
"""Standard deviations of the logarithm of predicted / measured seconds."""

DRAWS = 400


@dataclass(frozen=True)
class Lost:
    """Top-1 losses among the samples of some operators: the mean, and how often all figures of such
    losses and of top-5 losses are reached, of 1."""

    mean: float
    reached: float


def lost_by_chance(verdicts: Sequence[Verdict], error: float) -> Lost:
    """What is lost by predictions that are measured times with a random `error`, the same for all
    plans and independent: means over many draws."""
    random = np.random.default_rng(0)
    first, fifth = [], []
    for verdict in verdicts:
        seconds = np.array([point.seconds for point in verdict.sample])
        predicted = seconds * np.exp(random.normal(0.0, error, (DRAWS, len(seconds))))
        chosen = seconds[np.argsort(predicted, axis=1)[:, :5]]
        best = verdict.best_sampled.seconds
        first.append(np.maximum(0.0, 1 - best / chosen[:, 0]))
        fifth.append(np.maximum(0.0, 1 - best / chosen.min(axis=1)))
    top, top5 = np.array(first), np.array(fifth)
    usual = (top <= USUAL_LOSS).sum(axis=0)
    reached = (
        (top.max(axis=0) <= WORST_LOSS)
        & (usual >= usual_needed(len(verdicts)))
        & (top.mean(axis=0) <= MEAN_LOSS)
        & (top5.max(axis=0) <= TOP5_LOSS)
    )
    return Lost(float(top.mean()), float(reached.mean()))


def noise_of_good_plans(verdicts: Sequence[Verdict]) -> float:
    """The part of `error_of_good_plans` that is the measuring's: the root mean square of the
    standard errors of the times of an operator's good plans, the mean over the operators."""
    found = []
    for verdict in verdicts:
        errors = [estimators.standard_error(point.passes) for point in verdict.good]
        known = [error for error in errors if not isnan(error)]
        if known:
            found.append(sqrt(fmean(error**2 for error in known)))
    return fmean(found) if found else nan


def error_of_good_plans(verdicts: Sequence[Verdict]) -> float:
    """The standard deviation of how far the good plans of an operator are mispredicted: the mean
    over the operators that have several."""
    found = [stdev(map(misprediction, v.good)) for v in verdicts if len(v.good) > 1]
    return fmean(found) if found else nan
