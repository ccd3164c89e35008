"""The tables of the comparison with others."""

from __future__ import annotations

from math import isnan

from ..comparison import SIZES, Comparison, Row
from ..peers import BEST_OF_5, OURS, REGISTRY
from ..results import Record
from ..summary import Ratio
from .tables import Rows, number


def columns(comparison: Comparison) -> list[str]:
    titles = (REGISTRY[peer].title for peer in comparison.peers)
    return ["operator", SIZES, *titles, "best other", "ours / best other"]


def rows(comparison: Comparison) -> Rows:
    """Mean GFLOP/s, and how much faster ours is than the best of the others; below, how much faster
    ours are than each (geometric means over the operators that both could do). All with 95%
    confidence intervals, those of the others in the last rows left out."""
    found = []
    for row in comparison.rows:
        best, one = _best(row), row.records.get(OURS)
        found.append(
            [
                row.operator,
                row.sizes,
                *(_mean_rate(row.records.get(peer)) for peer in comparison.peers),
                REGISTRY[best.peer].title if best else "",
                _text(_ratio(one, best)) if best and one and one.is_correct else "",
            ]
        )
    for ours in (OURS, BEST_OF_5):
        if ours in comparison.peers:
            speedups = [_speedup(comparison, ours, peer) for peer in (*comparison.peers, None)]
            *cells, over_best = speedups
            means = (number(speedup.value) for speedup in cells)
            found.append([f"{REGISTRY[ours].title} / ...", "", *means, "", _text(over_best)])
    return found


def slower(comparison: Comparison) -> list[str]:
    """The operators on which ours is slower than the best of the others, and how much: ratios of
    speeds."""
    found = []
    for row in comparison.rows:
        best, one = _best(row), row.records.get(OURS)
        if best and one and one.is_correct and (ratio := _ratio(one, best)).value < 1:
            found.append(f"{row.operator}, {_text(ratio)}")
    return found


def _mean_rate(record: Record | None) -> str:
    if record is None:
        return ""
    if not record.is_correct:
        return "wrong"
    error = "" if record.ci95 is None or isnan(record.ci95) else f" +- {record.ci95:.1f}"
    return f"{record.gflops_mean:.1f}{error}"


def _best(row: Row) -> Record | None:
    """The fastest of the others whose result is right, by its mean."""
    rivals = (record for peer, record in row.right.items() if REGISTRY[peer].is_rival)
    return max(rivals, key=lambda record: record.gflops_mean, default=None)


def _ratio(ours: Record, other: Record) -> Ratio:
    return Ratio.of(ours.seconds, other.seconds)


def _text(ratio: Ratio) -> str:
    low, high = ratio.interval
    return number(ratio.value) + ("" if isnan(low) else f" ({number(low)} to {number(high)})")


def _speedup(comparison: Comparison, ours: str, peer: str | None) -> Ratio:
    """Over `peer`, or the best other of each operator, where both are right."""
    pairs = (
        (row.records.get(ours), row.records.get(peer) if peer else _best(row))
        for row in comparison.rows
    )
    right = ((one, other) for one, other in pairs if one and one.is_correct and other)
    return Ratio.mean([_ratio(one, other) for one, other in right if other.is_correct])
