"""What was found, in short: the first section of the document, all of it counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from statistics import median

from mopt_mlir.model.cost import MEMORY

from ..document import filled
from ..summary import geometric_mean
from .criteria import (
    LEAST_VOLUMES,
    ORDER,
    OWN,
    SAMPLE,
    USUAL_LOSS,
    VOLUME,
    figures,
    mean_apart,
    volume_errors,
)
from .judgement import GOOD, Point, Trial
from .misses import MISJUDGED, NOISE, UNKNOWN, reasons_of
from .orders import COMPUTE, OBJECTIVE, PREDICTED, Order, orders
from .places import DATA
from .tables import number, percent

_FIRST = """\
Predictions are those of today's model, also for trials by which it was mended; plans are those that
were chosen on the day of a trial. Something was learnt from every set of operators by now ([what
from which]({data}/constants.md)), so that none is a test of what nobody had seen. Terms are
explained under [Method](#method).
"""

_ITEMS = """\
- The plan that the compiler took on the day of a trial is at least as fast as the best of
  {samples} random plans in {wins} cases, a case being an operator in a trial; {advantage}
  times as fast in the geometric mean of a trial.
- Against the fastest of all plans that were timed with it, it loses {own} (means of trials),
  {own_worst} on the worst operator of all, and misses {own_missed} targets
  ([below](#figures-to-reach)). Part of that is chance, as the fastest of many measurements is a
  lucky one. If some rounds say which plan is the fastest, and others how fast it is, it loses
  {own_apart}, which is too little on average, and below 0 where it is faster than the plan that the
  first of them name. In {ours} cases the fastest is the plan itself or another candidate of the
  same solver. (There may be faster plans outside of the sample and the candidates.)
- Predicted and measured times of random plans have rank correlations of {correlation}
  (medians of trials; the worst operator of all has {least}); with the time to compute alone,
  without memory, it would be {compute}. Those of good plans, which take up to {good} times as long
  as the best, have {good_correlation}, and {good_compute} with the time to compute alone.
- Such correlations are not enough to pick the fastest of {samples} random plans. What is lost by
  the model's choice among them misses {missed} targets (four for each trial). Its mean loss
  is {sample}, or {sample_apart} by other rounds; the objective that the solver minimises would lose
  {objective}, more in {better} trials. Of the choices that lose more than {usual_loss:.0%},
  {losing} in all, {noise} may be noise{unknown}, and {unusual} come from an error that is unusual
  for good plans of the operator; the rest come from errors that these usually have
  ([which]({data}/misjudged.md)).
- {bound} wait for memory for longer than they compute, as predicted, so that times say
  little of such plans. For random plans the volume that comes from the memory which each keeps busy
  for longest is predicted with a median error of up to {volume} (of trials and memories), beside
  simulated caches; up to {simulated} where simulated volumes say which memory that is (of {enough}
  plans or more each). For own plans and candidates, and any memory, it is up to {volume_of_own}.
- The fastest of five candidates is {gain} times as fast as the own plan, by the rounds that make it
  the fastest.
"""

_NOT_MEASURED = "(not measured)"


def in_short(trials: Sequence[Trial]) -> str:
    """The section; what no trial measured is said not to be."""
    verdicts = [v for trial in trials for v in trial.verdicts if not isnan(v.lead)]
    found = [figure for trial in trials for figure in figures(trial)]
    ranked = [
        {order.model: order for order in orders(trial.verdicts)}
        for trial in trials
        if any(verdict.sample for verdict in trial.verdicts)
    ]

    def values_of(group: str, title: str = "") -> list[float]:
        known = (f for f in found if f.judged and not isnan(f.value))
        return [f.value for f in known if f.group == group and title in f.title]

    def means_of(model: str, value: Callable[[Order], float]) -> list[float]:
        return [x for orders in ranked if not isnan(x := value(orders[model]))]

    def apart_in(group: str) -> list[float]:
        return [x for trial in trials if not isnan(x := mean_apart(trial, group))]

    def missed_in(group: str) -> str:
        limits = [f for f in found if f.group == group and f.judged and not isnan(f.value)]
        return f"{sum(not f.is_met for f in limits)} of {len(limits)}"

    reasons = reasons_of(trials)
    random = [point for trial in trials for verdict in trial.verdicts for point in verdict.sample]
    sampled = [[len(verdict.sample) for verdict in trial.verdicts] for trial in trials]
    leads = [[v.lead for v in trial.verdicts if not isnan(v.lead)] for trial in trials]
    text = _ITEMS.format(
        samples=_between([median(found) for found in sampled if found], "{:.0f}".format),
        wins=f"{sum(v.lead >= 1 for v in verdicts)} of {len(verdicts)}",
        advantage=_between([geometric_mean(found) for found in leads if found], number),
        own=_between(values_of(OWN, "mean"), percent),
        own_worst=_largest(values_of(OWN, "top-1 loss: worst")),
        own_missed=missed_in(OWN),
        own_apart=_between(apart_in(OWN), percent),
        ours=f"{sum(v.best in v.candidates for v in verdicts)} of {len(verdicts)}",
        correlation=_between(means_of(PREDICTED, lambda order: order.spearman), number),
        least=number(min(values_of(ORDER, "worst"), default=nan)),
        good=GOOD,
        compute=_between(means_of(COMPUTE, lambda order: order.spearman), number),
        good_compute=_between(means_of(COMPUTE, lambda order: order.good), number),
        good_correlation=_between(means_of(PREDICTED, lambda order: order.good), number),
        missed=missed_in(SAMPLE),
        losing=len(reasons),
        usual_loss=USUAL_LOSS,
        noise=reasons.count(NOISE),
        unknown=_unknown(reasons.count(UNKNOWN)),
        unusual=reasons.count(MISJUDGED),
        data=DATA,
        sample=_between(means_of(PREDICTED, lambda order: order.loss), percent),
        sample_apart=_between(apart_in(SAMPLE), percent),
        better=f"{sum(o[OBJECTIVE].loss > o[PREDICTED].loss for o in ranked)} of {len(ranked)}",
        objective=_between(means_of(OBJECTIVE, lambda order: order.loss), percent),
        enough=LEAST_VOLUMES,
        bound=f"{sum(map(_waits, random)):,} of {len(random):,} random plans",
        volume=_largest(values_of(VOLUME)),
        volume_of_own=_largest(_errors_of_own(trials)),
        simulated=_largest(_simulated_errors(trials)),
        gain=_between(values_of(OWN, "candidates"), "{:.3f}".format),
    )
    return f"## In short\n\n{filled(_FIRST.format(data=DATA))}\n{filled(text)}"


def _simulated_errors(trials: Sequence[Trial]) -> list[float]:
    """Of each trial and memory the median error of volumes where it is the slowest by what is
    simulated, if there are enough such plans."""
    found = [volume_errors(t, memory, simulated=True) for t in trials for memory in MEMORY]
    return [median(errors) for errors in found if len(errors) >= LEAST_VOLUMES]


def _errors_of_own(trials: Sequence[Trial]) -> list[float]:
    """Of each trial and memory the median error of own plans' and candidates' volumes."""
    chosen = [[flow for flow in trial.flows if not flow.sampled] for trial in trials]
    return [
        median(abs(flow.ratio(memory) - 1) for flow in flows)
        for flows in chosen
        for memory in MEMORY
        if flows
    ]


def _waits(point: Point) -> bool:
    """Whether a memory is predicted to take longer than computing."""
    return point.prediction.bottleneck in MEMORY


def _unknown(number: int) -> str:
    if not number:
        return ""
    of = "is of an operator" if number == 1 else "are of operators"
    return f", {number} {of} with too few other good plans to compare with"


def _largest(values: Sequence[float]) -> str:
    return percent(max(values)) if values else _NOT_MEASURED


def _between(values: Sequence[float], text: Callable[[float], str]) -> str:
    """The least and the largest, or what all are."""
    ends = dict.fromkeys(map(text, (min(values), max(values)))) if values else [_NOT_MEASURED]
    return " to ".join(ends)
