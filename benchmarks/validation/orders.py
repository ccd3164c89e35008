"""How well simpler models put the same plans in order: what each part of predicting is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean, median

from . import statistics
from .criteria import USUAL_LOSS
from .judgement import Point, Verdict

MODELS: Mapping[str, Callable[[Point], float]] = {
    "the time to compute": lambda point: point.prediction.seconds["compute"],
    "what the solver minimises": lambda point: point.objective,
    "the predicted time": lambda point: point.prediction.cost,
}
"""From the simplest to the one that is on trial, by what plans are ordered by."""


@dataclass(frozen=True)
class Order:
    """Plans in the order of a model: the median rank correlation with measured times among the
    sampled plans of an operator, the mean of what its choice among them loses, how many operators
    lose no more than usual, and the mean of what its choice among the own plan and the other
    candidates loses against all."""

    model: str
    spearman: float
    loss: float
    usual: int
    chosen: float


def orders(verdicts: Sequence[Verdict]) -> Iterator[Order]:
    """The order of each model, on all operators with a sample."""
    verdicts = [verdict for verdict in verdicts if verdict.sample]
    for model, value in MODELS.items():
        ranks = [_spearman(verdict.sample, value) for verdict in verdicts]
        losses = [_loss(verdict.sample, value, verdict.best_sampled) for verdict in verdicts]
        chosen = [_loss(v.candidates, value, v.best) for v in verdicts if v.candidates]
        yield Order(
            model,
            median([rank for rank in ranks if not isnan(rank)] or [nan]),
            fmean(losses),
            sum(loss <= USUAL_LOSS for loss in losses),
            fmean(chosen) if chosen else nan,
        )


def _spearman(points: Sequence[Point], value: Callable[[Point], float]) -> float:
    return statistics.spearman([value(p) for p in points], [p.seconds for p in points])


def _loss(points: Sequence[Point], value: Callable[[Point], float], best: Point) -> float:
    return statistics.loss(min(points, key=value).seconds, best.seconds)
