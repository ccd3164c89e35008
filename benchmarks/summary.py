"""What is said of a sample of measurements: median, mean, and how sure the mean is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, fsum, log, nan, pi, sqrt, tan
from statistics import NormalDist, fmean, median, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Of rates in GFLOP/s; `ci95` is half the width of the 95% confidence interval of the mean,
    NaN for a single measurement."""

    median: float
    mean: float
    ci95: float

    @staticmethod
    def of(seconds: Sequence[float], flops: float) -> Summary:
        """Of runs of `flops` operations each. The mean is that of the rates, as in the paper."""
        rates = [flops / s * 1e-9 for s in seconds]
        return Summary(flops / median(seconds) * 1e-9, fmean(rates), half_interval(rates))


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
    z = NormalDist().inv_cdf(p)
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
