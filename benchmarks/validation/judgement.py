"""What today's model predicts of the plans in files of results, beside what was found of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, nan
from statistics import fmean
from typing import Any

from mopt_mlir.plan import Plan, Prediction

from ..workloads import Workload
from . import estimators
from .expected import Expected
from .records import (
    Failed,
    Latency,
)
from .volumes import ASSOCIATIVE, FULL, Volumes

GOOD = 1.5
"""Plans that take at most so many times as long as the best: which of them is taken decides on what
is lost."""


@dataclass(frozen=True)
class Point:
    """A plan that was timed. `seconds` are those of the reference over all of the operator's
    measurements, times the median ratio of this plan's; `passes` has those of its rounds, `final`
    ones if there are any, by the pass they belong to, `references` the median of the reference in
    each pass, in seconds. `objective` is what the solver would minimise, in seconds."""

    key: str
    plan: Plan
    prediction: Prediction
    objective: float
    sampled: bool
    seconds: float
    passes: tuple[tuple[float, ...], ...]
    references: tuple[float, ...]
    final: bool
    counters: Mapping[str, float]

    @property
    def uncertainty(self) -> float:
        """Relative standard error of `seconds`."""
        return estimators.uncertainty(self.passes)

    @property
    def ratios(self) -> list[float]:
        """Of all rounds."""
        return [ratio for one in self.passes for ratio in one]


@dataclass(frozen=True)
class Verdict:
    """One operator. `points` are its plans by key, `chosen` the keys of the model's own plan and
    the other candidates, `again` how the reference compares with itself, relative, `wrong` the keys
    of more plans, whose results rounding cannot explain."""

    workload: Workload
    peak_gflops: float
    points: Mapping[str, Point]
    chosen: tuple[str, ...]
    again: float
    failed: tuple[Failed, ...]
    wrong: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.workload.name

    @cached_property
    def sample(self) -> list[Point]:
        return [point for point in self.points.values() if point.sampled]

    @property
    def unmeasured(self) -> set[str]:
        """The keys of plans that failed before they were measured once."""
        failed = {one.subject.key for one in self.failed if not one.subject.is_again}
        return failed - {*self.points} - self.wrong

    @property
    def own(self) -> Point | None:
        return self.points.get(self.chosen[0]) if self.chosen else None

    @property
    def candidates(self) -> list[Point]:
        """The own plan and those beside it."""
        return [self.points[key] for key in self.chosen if key in self.points]

    @cached_property
    def best_sampled(self) -> Point:
        return fastest(self.sample)

    @cached_property
    def good(self) -> list[Point]:
        """The good ones of the sample."""
        return [p for p in self.sample if p.seconds <= GOOD * self.best_sampled.seconds]

    @cached_property
    def best(self) -> Point:
        """The fastest of all plans that were timed."""
        return fastest(list(self.points.values()))

    def foremost(self, k: int) -> list[Point]:
        """The `k` sampled plans that are predicted best, the best first."""
        return sorted(self.sample, key=lambda point: point.prediction.cost)[:k]

    def top_loss(self, k: int) -> float:
        """Among the sample, of the best of the `k` predicted best, against the best."""
        predicted = [point.prediction.cost for point in self.sample]
        measured = [point.seconds for point in self.sample]
        return estimators.top_loss(predicted, measured, k, self.best_sampled.seconds)

    def chosen_loss(self, k: int) -> float:
        """Of the best of the `k` plans that the model likes best of all, its own first, against the
        best of all; NaN if the own plan was not timed."""
        if self.own is None:
            return nan
        rest = [point for point in self.points.values() if point is not self.own]
        ranked = [self.own, *sorted(rest, key=lambda point: point.prediction.cost)]
        return estimators.loss(min(p.seconds for p in ranked[:k]), self.best.seconds)

    @property
    def lead(self) -> float:
        """How much faster the own plan is than the best sampled one: a ratio; NaN if one of them
        was not timed."""
        if self.own is None or not self.sample:
            return nan
        return self.best_sampled.seconds / self.own.seconds

    @property
    def gain_of_candidates(self) -> float:
        """How much faster the best of the candidates is than the own plan: a ratio, at least 1."""
        if self.own is None:
            return nan
        return self.own.seconds / min(point.seconds for point in self.candidates)

    @cached_property
    def spearman(self) -> float:
        return estimators.spearman(*self._orders)

    @cached_property
    def kendall(self) -> float:
        return estimators.kendall(*self._orders)

    @property
    def _orders(self) -> tuple[list[float], list[float]]:
        """Of the sample."""
        return [p.prediction.cost for p in self.sample], [p.seconds for p in self.sample]

    @property
    def noise(self) -> float:
        """The standard error of the own plan's loss; NaN if it is the best one."""
        return nan if self.own is None else _noise(self.own, self.best)

    @property
    def noise_of_top(self) -> float:
        """The standard error of the top-1 loss among the sample; NaN if the choice is the best."""
        (chosen,) = self.foremost(1)
        return _noise(chosen, self.best_sampled)

    @property
    def apart(self) -> float:
        """The own plan's loss, by other rounds than those that say which plan is the best."""
        return nan if self.own is None else _apart(self.own, list(self.points.values()))

    @property
    def top_apart(self) -> float:
        """The same of the model's choice among the sample."""
        (chosen,) = self.foremost(1)
        return _apart(chosen, self.sample)

    def gflops(self, point: Point) -> float:
        return self.workload.flops / point.seconds * 1e-9


@dataclass(frozen=True)
class Flow:
    """A plan whose accesses were simulated: bytes by resource and tensor, found and `expected`.
    `misses` of each cache are in lines, also as `valgrind` counts them, if it did. `picked` is one
    of the sample that was simulated for its slowest memory only."""

    operator: str
    key: str
    sampled: bool
    picked: bool
    expected: Expected
    found: Mapping[str, Volumes]
    misses: Mapping[str, int]
    valgrind: Mapping[str, int]

    def ratio(self, resource: str) -> float:
        """Predicted / simulated, with what caches keep."""
        return self.expected.moved(resource) / self._simulated(resource)

    def ratio_of_tiles(self, resource: str) -> float:
        """Predicted / simulated, by tiles alone."""
        return self.expected.moved_by_tiles(resource) / self._simulated(resource)

    @property
    def slowest_memory(self) -> str:
        """The resource whose simulated volume takes the longest."""
        return self.expected.slowest(self._simulated)

    def _simulated(self, resource: str) -> int:
        return sum(self.found[ASSOCIATIVE][resource].values())

    def conflicts(self, resource: str) -> float:
        """How many times as much moves as with full associativity."""
        associative, full = (
            sum(self.found[title][resource].values()) for title in (ASSOCIATIVE, FULL)
        )
        return associative / full


@dataclass(frozen=True)
class Trial:
    """One list of operators on one instruction set: `table1-native`."""

    title: str
    head: dict[str, Any]
    verdicts: tuple[Verdict, ...]
    flows: tuple[Flow, ...]
    given_up: tuple[Failed, ...]
    latencies: tuple[Latency, ...]

    @property
    def failed(self) -> list[Failed]:
        return [failure for verdict in self.verdicts for failure in verdict.failed]

    def flow_of(self, operator: str, key: str) -> Flow | None:
        return self._flows.get((operator, key))

    @cached_property
    def _flows(self) -> dict[tuple[str, str], Flow]:
        return {(flow.operator, flow.key): flow for flow in self.flows}


def fastest(points: Sequence[Point]) -> Point:
    """Of those that may be."""
    return min(_eligible(points), key=lambda point: point.seconds)


def _eligible(points: Sequence[Point]) -> Sequence[Point]:
    """Those that met in the final rounds, if there are any."""
    return [point for point in points if point.final] or points


def _noise(chosen: Point, best: Point) -> float:
    """The standard error of 1 - t(best) / t(chosen); NaN for one and the same plan."""
    if chosen is best:
        return nan
    error = estimators.uncertainty_of_ratio(best.passes, chosen.passes)
    return error * best.seconds / chosen.seconds


def _apart(chosen: Point, points: Sequence[Point]) -> float:
    rivals = [point.passes for point in _eligible(points)]
    return estimators.loss_apart(chosen.passes, rivals)


def misprediction(point: Point) -> float:
    """The logarithm of measured / predicted seconds."""
    return log(point.seconds / point.prediction.cost)


def residuals(verdict: Verdict) -> dict[str, float]:
    """By key, by how much plans are mispredicted, less the operator's mean; nothing of an operator
    all of whose plans are wrong."""
    found = {point.key: misprediction(point) for point in verdict.points.values()}
    if not found:
        return {}
    mean = fmean(found.values())
    return {key: value - mean for key, value in found.items()}
