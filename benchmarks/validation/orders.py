"""How well simpler models put the same plans in order: what each part of predicting is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean, median

from . import estimators
from .judgement import Point, Verdict

PREDICTED = "the predicted time"
COMPUTE = "the time to compute"
OBJECTIVE = "what the solver minimises"

MODELS: Mapping[str, Callable[[Point], float]] = {
    COMPUTE: lambda point: point.prediction.seconds["compute"],
    OBJECTIVE: lambda point: point.objective,
    PREDICTED: lambda point: point.prediction.cost,
}
"""From the simplest to the one that is on trial, by what plans are ordered by."""


@dataclass(frozen=True)
class Order:
    """Plans in the order of a model: the median rank correlation with measured times among the
    sampled plans of an operator, and among the `good` ones of them, what its choices among them
    lose (the mean), and the mean of what its choices among the own plan and the other candidates
    lose against all."""

    model: str
    spearman: float
    good: float
    loss: float
    chosen: float


def orders(verdicts: Sequence[Verdict]) -> Iterator[Order]:
    """The order of each model, on all operators with a sample."""
    verdicts = [verdict for verdict in verdicts if verdict.sample]
    for model, value in MODELS.items():
        chosen = [_loss(v.candidates, value, v.best) for v in verdicts if v.candidates]
        yield Order(
            model,
            _median(_spearman(verdict.sample, value) for verdict in verdicts),
            _median(_spearman(verdict.good, value) for verdict in verdicts),
            fmean(_loss(v.sample, value, v.best_sampled) for v in verdicts),
            fmean(chosen) if chosen else nan,
        )


def _median(ranks: Iterable[float]) -> float:
    """Of those that are defined; those of equal values are not."""
    return median([rank for rank in ranks if not isnan(rank)] or [nan])


def _spearman(points: Sequence[Point], value: Callable[[Point], float]) -> float:
    return estimators.spearman([value(p) for p in points], [p.seconds for p in points])


def _loss(points: Sequence[Point], value: Callable[[Point], float], best: Point) -> float:
    return estimators.loss(min(points, key=value).seconds, best.seconds)
