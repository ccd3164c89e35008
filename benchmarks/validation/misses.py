"""What is lost by choices that lose more than usual, and by which errors of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import expm1, isnan, nan, sqrt
from statistics import fmean, stdev

from ..summary import student_quantile
from .criteria import USUAL_LOSS
from .judgement import Point, Trial, Verdict, misprediction
from .tables import Rows, percent

NOTICEABLE = 2.0
"""A loss of fewer standard errors may be noise."""

ENOUGH = 4
"""Other good plans of an operator, from which on their errors say what is usual."""

NOISE = "may be noise"
OBJECTIVE = "the objective's"
OTHERWISE = "not today's choice"
UNKNOWN = "too few good plans"
MISJUDGED = "an unusual error"
USUAL = "usual errors"
REASONS = (NOISE, OBJECTIVE, OTHERWISE, UNKNOWN, MISJUDGED, USUAL)

MISS_COLUMNS = (
    "operator",
    "lost",
    "why",
    "usual error",
    "plan",
    "predicted, ms",
    "measured, ms",
    "error",
    "what",
)
REASON_COLUMNS = ("trial", "choice", f"lose over {USUAL_LOSS:.0%}", *REASONS)


@dataclass(frozen=True)
class Miss:
    """A choice and the plan that beats it. `noise` is the standard error of `loss`."""

    verdict: Verdict
    chosen: Point
    best: Point
    loss: float
    noise: float

    @cached_property
    def _errors(self) -> list[float]:
        """By how much the operator's other good sampled plans are mispredicted."""
        judged = self.chosen.key, self.best.key
        return [misprediction(p) for p in self.verdict.good if p.key not in judged]

    @property
    def usual(self) -> float:
        """The standard deviation of the errors that other good plans have; NaN where there are too
        few to tell."""
        return stdev(self._errors) if len(self._errors) >= ENOUGH else nan

    @property
    def tolerance(self) -> float:
        """How far from the others' mean the error of one more good plan is in 95% of cases, if it
        is like theirs (by Student's t, as they are few)."""
        count = len(self._errors)
        return student_quantile(count - 1) * sqrt(1 + 1 / count) * self.usual

    def error(self, point: Point) -> float:
        """By how much `point` takes longer than predicted, as a logarithm, beyond what other good
        plans of the operator do, or these two if there are none."""
        others = self._errors or [misprediction(self.chosen), misprediction(self.best)]
        return misprediction(point) - fmean(others)

    @property
    def reason(self) -> str:
        """The first of REASONS that holds."""
        if isnan(self.noise) or self.loss <= NOTICEABLE * self.noise:
            return NOISE
        if self.best.prediction.cost < self.chosen.prediction.cost:
            return OTHERWISE if self.best.objective < self.chosen.objective else OBJECTIVE
        if isnan(self.usual):
            return UNKNOWN
        if max(self.error(self.chosen), -self.error(self.best)) > self.tolerance:
            return MISJUDGED
        return USUAL


def own_misses(trial: Trial) -> Iterator[Miss]:
    """Own plans that lose more than usual against all that was timed."""
    for verdict in trial.verdicts:
        loss = verdict.chosen_loss(1)
        if verdict.own is not None and loss > USUAL_LOSS:
            yield Miss(verdict, verdict.own, verdict.best, loss, verdict.noise)


def sample_misses(trial: Trial) -> Iterator[Miss]:
    """The model's choices among the sample that lose more than usual against the best of it."""
    for verdict in trial.verdicts:
        if verdict.sample and verdict.top_loss(1) > USUAL_LOSS:
            (chosen,) = verdict.foremost(1)
            loss, noise = verdict.top_loss(1), verdict.noise_of_top
            yield Miss(verdict, chosen, verdict.best_sampled, loss, noise)


def miss_rows(misses: Iterable[Miss]) -> Rows:
    """Two lines for each: the choice, and the plan that beats it."""
    rows: Rows = []
    for miss in misses:
        noise = "" if isnan(miss.noise) else f" +- {percent(miss.noise)}"
        lost = percent(miss.loss) + noise
        usual = "" if isnan(miss.usual) else percent(miss.usual)
        head = [miss.verdict.name, lost, miss.reason, usual]
        rows += [
            [*head, "chosen", *_point_cells(miss, miss.chosen)],
            [""] * len(head) + ["best", *_point_cells(miss, miss.best)],
        ]
    return rows


def _point_cells(miss: Miss, point: Point) -> list[str]:
    times = (f"{1e3 * seconds:.3f}" for seconds in (point.prediction.cost, point.seconds))
    return [*times, f"{expm1(miss.error(point)):+.1%}", describe(point)]


def reason_rows(trials: Iterable[Trial]) -> Rows:
    """How many choices of each trial lose more than usual, and why."""
    rows = []
    for trial in trials:
        for choice, misses in (("sample", sample_misses(trial)), ("own", own_misses(trial))):
            reasons = [miss.reason for miss in misses]
            counts = (str(reasons.count(reason) or "") for reason in REASONS)
            title = trial.title if choice == "sample" else ""
            rows.append([title, choice, str(len(reasons)), *counts])
    return rows


def reasons_of(trials: Sequence[Trial]) -> list[str]:
    """Those of all choices among samples that lose more than usual."""
    return [miss.reason for trial in trials for miss in sample_misses(trial)]


def describe(point: Point) -> str:
    """A plan in a line: register tile, packing, tiles of each level and their classes."""
    plan = point.plan
    tile = " ".join(f"{dim}{size}" for dim, size in plan.microkernel.tile.items())
    levels = "; ".join(
        f"{level.name} {' '.join(f'{d}{n}' for d, n in level.tile.items())} "
        f"({point.prediction.classes[level.name]})"
        for level in plan.levels
    )
    streamed = ", nontemporal" if plan.nontemporal else ""
    return f"{tile}, packing {plan.packing}{streamed}; {levels}"
