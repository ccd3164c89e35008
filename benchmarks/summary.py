"""What is said of a sample of measurements: median, mean, and how sure the mean is.

Runs are made in rounds, in which all peers take turns. Those of one round share what else the host
does then, so that rounds, not runs, are taken for independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, fsum, log, nan, pi, sqrt, tan
from statistics import NormalDist, fmean, median, stdev

CONFIDENCE = 0.95
NORMAL_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Two-sided, in standard deviations."""

Rounds = Sequence[Sequence[float]]
"""Seconds of the runs of each round."""


@dataclass(frozen=True)
class Summary:
    """Of rates in GFLOP/s; `ci95` is half the width of the 95% confidence interval of the mean,
    NaN for a single round."""

    median: float
    mean: float
    ci95: float

    @staticmethod
    def of(rounds: Rounds, flops: float) -> Summary:
        """Of runs of `flops` operations each. The mean is that of the rates, as in the paper."""
        rates = [[flops / s * 1e-9 for s in seconds] for seconds in rounds]
        middle = flops / median_of_runs(rounds) * 1e-9
        return Summary(middle, fmean(chain.from_iterable(rates)), half_interval(_means(rates)))


@dataclass(frozen=True)
class Ratio:
    """Of two rates, or the geometric mean of several such; `error` is the standard error of its
    logarithm, from `freedom` degrees of freedom, NaN if there are none."""

    value: float
    error: float = nan
    freedom: int = 0

    @staticmethod
    def of(ours: Rounds, theirs: Rounds) -> Ratio:
        """How many times as fast ours is, by means of rates in the rounds that both made."""
        both = common_rounds(ours, theirs)
        rates = [[[1 / s for s in seconds] for seconds in rounds] for rounds in both]
        mine, other = (fmean(chain.from_iterable(rounds)) for rounds in rates)
        logs = [log(a / b) for a, b in zip(*map(_means, rates), strict=True)]
        error = stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else nan
        return Ratio(mine / other, error, len(logs) - 1)

    @staticmethod
    def mean(ratios: Sequence[Ratio]) -> Ratio:
        """The geometric mean; its error is that of measuring these, not of choosing them."""
        error = sqrt(fsum(ratio.error**2 for ratio in ratios)) / len(ratios) if ratios else nan
        value = geometric_mean(ratio.value for ratio in ratios)
        return Ratio(value, error, sum(ratio.freedom for ratio in ratios))

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95% confidence interval, NaN where nothing is known of the error."""
        if not self.freedom:
            return nan, nan
        factor = exp(student_quantile(self.freedom) * self.error)
        return self.value / factor, self.value * factor


def _means(rounds: Iterable[Sequence[float]]) -> list[float]:
    return [fmean(values) for values in rounds]


def common_rounds(ours: Rounds, theirs: Rounds) -> tuple[Rounds, Rounds]:
    """The rounds in which both took turns: whoever makes fewer runs makes them in the first."""
    count = min(len(ours), len(theirs))
    return ours[:count], theirs[:count]


def median_of_runs(rounds: Rounds) -> float:
    """Of all of them."""
    return median(chain.from_iterable(rounds))


def half_interval(sample: Sequence[float]) -> float:
    """Half the width of the confidence interval of the mean of a normal sample."""
    if len(sample) < 2:
        return nan
    return student_quantile(len(sample) - 1) * stdev(sample) / sqrt(len(sample))


def student_quantile(freedom: int) -> float:
    """The two-sided quantile of Student's t at CONFIDENCE, for `freedom` degrees of freedom.

    Exact for 1 and 2; otherwise the expansion around the normal quantile in Abramowitz and Stegun,
    26.7.5, which is off by 0.1% for 3 and by less than that beyond.
    """
    p = (1 + CONFIDENCE) / 2
    if freedom == 1:  # Cauchy's distribution
        return tan(pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) * sqrt(2 / (4 * p * (1 - p)))
    z = NORMAL_QUANTILE
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return fsum(term / freedom**power for power, term in enumerate(terms))


def geometric_mean(values: Iterable[float]) -> float:
    """NaN for no values at all."""
    logs = [log(value) for value in values]
    return exp(fmean(logs)) if logs else nan
