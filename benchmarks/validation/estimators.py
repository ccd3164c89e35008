"""Ratios against the reference plan, rank correlations, and losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, log, nan, sqrt
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

import numpy as np

from ..summary import NORMAL_QUANTILE, student_quantile

if TYPE_CHECKING:
    from .records import Measurement

RESAMPLES = 4000

Passes = Sequence[Sequence[float]]
"""Of a plan, the ratios of the rounds of each pass."""


def round_ratios(measurement: Measurement) -> list[float]:
    """Seconds of a plan relative to those of the reference just before, of each round."""
    pairs = zip(measurement.seconds, measurement.reference, strict=True)
    return [median(seconds) / median(reference) for seconds, reference in pairs]


def paired_ratio(measurement: Measurement) -> float:
    """Their median."""
    return median(round_ratios(measurement))


def uncertainty(passes: Passes) -> float:
    """The relative standard error of the median of the ratios of all `passes`; NaN for fewer than
    three ratios.

    The larger of two estimates: from their quartiles, as for independent rounds; and from how the
    medians of passes differ, since the rounds of one pass share a process and what the host was
    like then.
    """
    return max(_of_rounds(passes), _of_means([log(median(one)) for one in passes]))


def standard_error(passes: Passes) -> float:
    """The same by one estimate, that of the passes if there are several, without allowing for their
    being few: how much a median scatters, not what interval it is in."""
    middles = [log(median(one)) for one in passes]
    return stdev(middles) / sqrt(len(middles)) if len(middles) > 1 else _of_rounds(passes)


def uncertainty_of_ratio(one: Passes, other: Passes) -> float:
    """The relative standard error of the ratio of the medians of two plans; NaN where that of one
    of them is.

    As `uncertainty`, but what two plans of one pass have in common is no error of their ratio: how
    it differs from pass to pass is what counts, if both have the same passes.
    """
    if len(one) != len(other) or len(one) == 1:
        return hypot(uncertainty(one), uncertainty(other))
    ratios = [log(median(a) / median(b)) for a, b in zip(one, other, strict=True)]
    inside = (_of_rounds([_relative(rounds) for rounds in passes]) for passes in (one, other))
    return max(hypot(*inside), _of_means(ratios))


def _relative(rounds: Sequence[float]) -> list[float]:
    """The ratios of a pass relative to their median."""
    middle = median(rounds)
    return [ratio / middle for ratio in rounds]


def _of_rounds(passes: Passes) -> float:
    """The relative standard error of the median of all ratios, as for a normal distribution."""
    ratios = [ratio for one in passes for ratio in one]
    if len(ratios) < 3:
        return nan
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    deviation = (high - low) / 1.349  # quartiles of a normal distribution are 1.349 sigma apart
    return float(1.2533 * deviation / np.sqrt(len(ratios)) / middle)  # sqrt(pi / 2) for a median


def _of_means(values: Sequence[float]) -> float:
    """The standard error of the mean of a few values, as much larger as their interval at 95%, by
    Student's t, is than that of a normal distribution; 0 for a single one."""
    if len(values) < 2:
        return 0.0
    few = student_quantile(len(values) - 1) / NORMAL_QUANTILE
    return float(few * stdev(values) / np.sqrt(len(values)))


def loss_apart(chosen: Passes, rivals: Sequence[Passes]) -> float:
    """What `chosen` loses against the fastest of `rivals`, if one pass says how fast both are and
    the others which is the fastest: the mean over all passes, below 0 where `chosen` is faster.
    Rivals with one pass only are left out; NaN if that leaves none.

    The fastest of several plans is also the luckiest by the rounds that make it the fastest; by
    other rounds it is not. But a part of the passes picks less well, so that on average this is too
    small, as the loss by all of them is too large.
    """
    rivals = [passes for passes in rivals if len(passes) > 1]  # others failed after their first one
    if not rivals:
        return nan
    count = min(map(len, rivals))
    if len(chosen) == 1:  # it met in its first rounds only, which say nothing of the rivals
        chosen = [*chosen] * count
    count = min(count, len(chosen))  # the last passes may be missing
    losses = []
    for judge in range(count):
        best = min(rivals, key=lambda passes: _median_without(passes, judge))
        losses.append(1 - median(best[judge]) / median(chosen[judge]))
    return fmean(losses)


def _median_without(passes: Passes, left_out: int) -> float:
    return median(ratio for at, one in enumerate(passes) if at != left_out for ratio in one)


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """The 95% confidence interval of the mean of independent `values`, by the percentiles of means
    of as many of them, drawn with replacement; seeded; NaN for fewer than two. It makes no
    assumption of how they are distributed, which losses, of which many are 0, need. Percentiles
    alone are too close together for few values: they are as much further apart as an interval by
    Student's t is than one by a normal distribution with the deviation of what was drawn."""
    count = len(values)
    if count < 2:
        return nan, nan
    drawn = np.random.default_rng(0).choice(np.asarray(values), (RESAMPLES, count))
    few = student_quantile(count - 1) / NORMAL_QUANTILE * np.sqrt(count / (count - 1))
    mean, ends = np.mean(values), np.quantile(drawn.mean(axis=1), (0.025, 0.975))
    low, high = np.clip(mean + few * (ends - mean), min(values), max(values))
    return float(low), float(high)


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values))
    ordered = np.asarray(values)[order]
    first = 0
    for last in range(1, len(ordered) + 1):
        if last == len(ordered) or ordered[last] != ordered[first]:
            found[order[first:last]] = (first + last + 1) / 2
            first = last
    return [float(rank) for rank in found]


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Correlation of the ranks; NaN where all values of one are equal."""
    x, y = (np.array(ranks(values)) for values in (predicted, measured))
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale else nan


def kendall(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Kendall's tau-b: pairs in the same order less those in the other, with ties left out."""
    x, y = (np.sign(np.subtract.outer(v, v)) for v in map(np.asarray, (predicted, measured)))
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale else nan


def loss(chosen: float, best: float) -> float:
    """The part of the best's performance that is lost: of seconds, 0 for the best itself, and for
    what was faster but is known from too few rounds to be called that."""
    return max(0.0, 1 - best / chosen)


def top_loss(predicted: Sequence[float], measured: Sequence[float], k: int, best: float) -> float:
    """The loss of the fastest among the `k` that are predicted best, against `best` seconds."""
    order = np.argsort(predicted, kind="stable")[:k]
    return loss(min(measured[i] for i in order), best)
