"""The tables of the comparison with others."""

from __future__ import annotations

from ..comparison import Comparison, Row
from ..peers import OURS, REGISTRY
from ..summary import geometric_mean
from .tables import Rows, number


def columns(comparison: Comparison) -> list[str]:
    return ["operator", *(REGISTRY[peer].title for peer in comparison.peers)]


def rows(comparison: Comparison) -> Rows:
    """Mean GFLOP/s with 95% confidence intervals; below, how much faster ours are (geometric means
    over the operators that both could do)."""
    found = [
        [row.operator, *(_mean_rate(row, peer) for peer in comparison.peers)]
        for row in comparison.rows
    ]
    for ours in (OURS, "mopt-5"):
        if ours in comparison.peers:
            cells = [number(_speedup(comparison, ours, peer)) for peer in comparison.peers]
            found.append([f"{REGISTRY[ours].title} / ...", *cells])
    return found


def _mean_rate(row: Row, peer: str) -> str:
    record = row.records.get(peer)
    if record is None:
        return ""
    return f"{record.gflops_mean:.1f} +- {record.ci95 or 0:.1f}"


def _speedup(comparison: Comparison, ours: str, peer: str) -> float:
    pairs = [
        (row.records[ours], row.records[peer])
        for row in comparison.rows
        if {ours, peer} <= row.records.keys()
    ]
    return geometric_mean(a.gflops_mean / b.gflops_mean for a, b in pairs)
