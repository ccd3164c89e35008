"""The tables of the comparison with others."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan, nan
from pathlib import Path
from statistics import median

from ..comparison import SIZES, Comparison, Row
from ..peers import BEST_OF_5, OURS, REGISTRY
from ..results import Record
from ..summary import Ratio
from .tables import Rows, number

PREPARED = "seconds to prepare"
"""The head of a row: of an operator, in a process that has started."""

_LEAST_SECONDS = 0.001  # less says nothing


def summary(comparisons: Iterable[Comparison]) -> tuple[list[str], Rows]:
    """The columns and a line for each comparison: how many times as fast as each of the others ours
    is, and as the best of them on each operator (geometric means), and on how many operators it is
    slower than that, or may be."""
    comparisons = [*comparisons]
    others = [p for p in REGISTRY if p != OURS and any(p in one.peers for one in comparisons)]
    titles = [REGISTRY[peer].title for peer in others]
    rows = []
    for comparison in comparisons:
        speedups = (
            _speedup(comparison, OURS, peer) if peer in comparison.peers else Ratio(nan)
            for peer in others
        )
        rows.append(
            [
                title_of(comparison),
                comparison.results.head["date"][:10],
                *(number(speedup.value) for speedup in speedups),
                _text(_speedup(comparison, OURS, None)),
                str(len(slower(comparison))),
                str(len(undecided(comparison))),
            ]
        )
    return ["comparison", "date", *titles, "best other", "slower", "may be slower"], rows


def title_of(comparison: Comparison) -> str:
    """What is compared: protocol, cores, CPU and operators, with how many of these."""
    head = comparison.results.head
    cpu, operators = (
        head["machine"]["planned_for"]["cpu"],
        Path(head["arguments"]["operators"]).stem,
    )
    number = len(comparison.rows)
    return f"{comparison.results.configuration.title}, {cpu}, {number} of {operators}"


def columns(comparison: Comparison) -> list[str]:
    titles = (REGISTRY[peer].title for peer in comparison.peers)
    return ["operator", SIZES, *titles, "best other", "ours / best other"]


def rows(comparison: Comparison) -> Rows:
    """Mean GFLOP/s, and how much faster ours is than the best of the others; below, how much faster
    ours are than each (geometric means over the operators that both could do). All with 95%
    confidence intervals, those of the others in these rows left out. Last the seconds that each
    took to prepare an operator, the median."""
    found = []
    over_best = _over_best(comparison)
    for row in comparison.rows:
        best = _best(row)
        found.append(
            [
                row.operator,
                row.sizes,
                *(_mean_rate(row.records.get(peer)) for peer in comparison.peers),
                REGISTRY[best.peer].title if best else "",
                _text(over_best[row.operator]) if row.operator in over_best else "",
            ]
        )
    for ours in (OURS, BEST_OF_5):
        if ours in comparison.peers:
            speedups = [_speedup(comparison, ours, peer) for peer in (*comparison.peers, None)]
            *cells, best_of_all = speedups
            means = (number(speedup.value) for speedup in cells)
            found.append([f"{REGISTRY[ours].title} / ...", "", *means, "", _text(best_of_all)])
    found.append(
        [PREPARED, "", *(_prepared(comparison, peer) for peer in comparison.peers), "", ""]
    )
    return found


def _prepared(comparison: Comparison, peer: str) -> str:
    records = (row.records[peer] for row in comparison.rows if peer in row.records)
    seconds = median(record.prepare_seconds for record in records)
    if seconds < _LEAST_SECONDS:
        return f"< {_LEAST_SECONDS}"
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def slower(comparison: Comparison) -> list[str]:
    """The operators on which ours is slower than the best of the others, and how much: ratios of
    speeds."""
    found = _over_best(comparison).items()
    return [f"{name}, {_text(ratio)}" for name, ratio in found if ratio.value < 1]


def undecided(comparison: Comparison) -> list[str]:
    """The same of operators on which ours is as fast or faster, but may be slower."""
    found = _over_best(comparison).items()
    return [
        f"{name}, {_text(ratio)}" for name, ratio in found if ratio.interval[0] < 1 <= ratio.value
    ]


def _over_best(comparison: Comparison) -> dict[str, Ratio]:
    """By operator, how many times as fast as the best of the others ours is, where both are
    right."""
    pairs = {row.operator: (row.records.get(OURS), _best(row)) for row in comparison.rows}
    return {
        name: Ratio.of(one.seconds, best.seconds)
        for name, (one, best) in pairs.items()
        if one and one.is_correct and best
    }


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
    return Ratio.mean(
        [Ratio.of(one.seconds, other.seconds) for one, other in right if other.is_correct]
    )
