"""What the model has to reach, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from statistics import fmean, median

from mopt_mlir.model.cost import MEMORY
from mopt_mlir.wording import counted

from ..summary import geometric_mean
from .estimators import interval_of_mean
from .judgement import Flow, Trial, Verdict

WORST_LOSS = 0.045
"""The top-1 loss of the paper's worst operator (Sec. 9)."""

USUAL_LOSS, OPERATORS_PER_EXCEPTION = 0.03, 16
"""The loss that the paper stays below on all of its 32 operators but two."""

MEAN_LOSS = 0.015
TOP5_LOSS = 0.01

MEDIAN_CORRELATION, WORST_CORRELATION = 0.8, 0.5
"""Of the ranks of predicted and measured time, over the operators."""

LEAST_RANKED = 4
"""So many sampled plans of an operator that their ranks say something: three are in the right order
by chance once in six times, four once in twenty-four."""

VOLUME_ERROR, LEAST_VOLUMES = 0.15, 10
"""The median relative error of the volume that the model calls the bottleneck, and of how many
plans at least."""

CANDIDATES_GAIN = 1.03
"""How much faster the best of five candidates may be than the first."""


OWN = "Own plans"
SAMPLE = "Choices among the sample"
ORDER = "Order of the sample"
VOLUME = "Volumes of the sample"


@dataclass(frozen=True)
class Figure:
    """A figure to reach, of a `group` of them. `value` is NaN where nothing was measured; `worst`
    is the operator that decides, if one does, and `noise` the standard error of its value, if that
    is known. It is not `judged` where too few plans were measured."""

    group: str
    title: str
    target: str
    value: float
    text: str
    is_met: bool
    worst: str = ""
    noise: float = nan
    judged: bool = True

    @property
    def cell(self) -> str:
        """What was found, as a report says it."""
        if isnan(self.value):
            return "not measured"
        if not self.judged:
            return f"{self.text}, too few"
        error = "" if isnan(self.noise) else f" +- {self.noise:.1%}"
        where = f" ({self.worst})" if self.worst else ""
        return f"{self.text}{error}{where}, {'reached' if self.is_met else '**missed**'}"


def figures(trial: Trial) -> list[Figure]:
    """The figures to reach of one trial, in a fixed order, group by group."""
    sampled = [v for v in trial.verdicts if v.sample]
    chosen = [v for v in trial.verdicts if v.own is not None]
    return [
        *_losses(OWN, chosen, Verdict.chosen_loss, lambda v: v.noise),
        _gain_of_candidates(chosen),
        *_losses(SAMPLE, sampled, Verdict.top_loss, lambda v: v.noise_of_top),
        *_correlations(sampled),
        *(_volume_error(trial, resource) for resource in MEMORY),
    ]


def _losses(
    group: str,
    verdicts: Sequence[Verdict],
    loss: Callable[[Verdict, int], float],
    noise: Callable[[Verdict], float],
) -> list[Figure]:
    """`noise` is the standard error of the top-1 loss."""
    errors = {v.name: noise(v) for v in verdicts}
    first = {v.name: loss(v, 1) for v in verdicts}
    fifth = {v.name: loss(v, 5) for v in verdicts}
    usual = sum(value <= USUAL_LOSS for value in first.values())
    return [
        _worst(group, "top-1 loss: worst", first, WORST_LOSS, errors),
        Figure(
            group,
            f"within {USUAL_LOSS:.0%}",
            f"all but one of {OPERATORS_PER_EXCEPTION}",
            usual if first else nan,
            f"{usual} of {len(first)}",
            usual >= usual_needed(len(first)),
        ),
        _mean_loss(group, [*first.values()]),
        _worst(group, "top-5 loss: worst", fifth, TOP5_LOSS, {}),
    ]


def mean_apart(trial: Trial, group: str) -> float:
    """The mean of top-1 losses, of OWN or SAMPLE, by other rounds than those that say which plan
    is the best; NaN where no plans met in several passes."""
    losses = (
        [verdict.apart for verdict in trial.verdicts]
        if group == OWN
        else [verdict.top_apart for verdict in trial.verdicts if verdict.sample]
    )
    known = [loss for loss in losses if not isnan(loss)]
    return fmean(known) if known else nan


def usual_needed(operators: int) -> int:
    """How many of them must lose no more than usual."""
    return operators - round(operators / OPERATORS_PER_EXCEPTION)


def _mean_loss(group: str, losses: Sequence[float]) -> Figure:
    figure = _at_most(group, "top-1 loss: mean", fmean(losses) if losses else nan, MEAN_LOSS)
    low, high = interval_of_mean(losses)
    return (
        figure if isnan(low) else replace(figure, text=f"{figure.text} ({low:.1%} to {high:.1%})")
    )


def _worst(
    group: str, title: str, losses: Mapping[str, float], limit: float, errors: Mapping[str, float]
) -> Figure:
    worst = max(losses, key=lambda name: losses[name], default="")
    figure = _at_most(group, title, losses.get(worst, nan), limit)
    return replace(figure, worst=worst, noise=errors.get(worst, nan))


def _at_most(group: str, title: str, value: float, limit: float) -> Figure:
    target, text = f"{limit:.1%}", f"{value:.1%}"
    if value > limit and text == target:
        text = f"{value:.2%}"  # what is missed does not look like what is to be reached
    return Figure(group, title, f"at most {target}", value, text, value <= limit)


def _correlations(verdicts: Sequence[Verdict]) -> list[Figure]:
    ranked = [v for v in verdicts if len(v.sample) >= LEAST_RANKED]
    found = {v.name: v.spearman for v in ranked if not isnan(v.spearman)}  # as of equal times
    middle = median(found.values()) if found else nan
    worst = min(found, key=lambda name: found[name], default="")
    least = found.get(worst, nan)
    return [
        Figure(
            ORDER,
            "Spearman: median",
            f"at least {MEDIAN_CORRELATION}",
            middle,
            f"{middle:.2f}",
            middle >= MEDIAN_CORRELATION,
        ),
        Figure(
            ORDER,
            "Spearman: worst",
            f"at least {WORST_CORRELATION}",
            least,
            f"{least:.2f}",
            least >= WORST_CORRELATION,
            worst,
        ),
    ]


def _volume_error(trial: Trial, resource: str) -> Figure:
    errors = volume_errors(trial, resource)
    middle = median(errors) if errors else nan
    figure = _at_most(VOLUME, f"from {resource}", middle, VOLUME_ERROR)
    text = f"{figure.text} of {counted(len(errors), 'plan')}"
    return replace(figure, text=text, judged=len(errors) >= LEAST_VOLUMES)


def volume_errors(trial: Trial, resource: str, *, simulated: bool = False) -> list[float]:
    """|predicted / simulated volume - 1| of `where_slowest`."""
    flows = where_slowest(trial, resource, simulated=simulated)
    return [abs(flow.ratio(resource) - 1) for flow in flows]


def where_slowest(trial: Trial, resource: str, *, simulated: bool = False) -> list[Flow]:
    """The sampled plans of which `resource` is the slowest memory, by what is predicted or by what
    is `simulated`: then without those that were picked by what is predicted."""
    sampled = (flow for flow in trial.flows if flow.sampled)
    if simulated:
        return [f for f in sampled if not f.picked and f.slowest_memory == resource]
    return [flow for flow in sampled if flow.expected.slowest_memory == resource]


def _gain_of_candidates(verdicts: Sequence[Verdict]) -> Figure:
    gain = geometric_mean(v.gain_of_candidates for v in verdicts)
    return Figure(
        OWN,
        "best of five candidates / own plan",
        f"at most {CANDIDATES_GAIN}",
        gain,
        f"{gain:.3f}",
        gain <= CANDIDATES_GAIN,
    )
