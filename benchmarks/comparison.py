"""Ours beside the peers, operator by operator: what tables, plots and documents show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isnan, nan

from .peers import OURS, REGISTRY
from .results import Record, Results
from .summary import geometric_mean


@dataclass(frozen=True)
class Row:
    """One operator. `records` are by peer, ours included."""

    operator: str
    sizes: str
    records: dict[str, Record]

    @property
    def ours(self) -> Record | None:
        return self.records.get(OURS)

    @property
    def best(self) -> Record | None:
        """The fastest rival whose result is right."""
        rivals = (r for peer, r in self.records.items() if REGISTRY[peer].is_rival)
        return max(
            (record for record in rivals if record.is_correct),
            key=lambda record: record.gflops_median,
            default=None,
        )

    @property
    def ratio(self) -> float:
        """Ours / best peer."""
        return quotient(self.ours, self.best)


@dataclass(frozen=True)
class Comparison:
    """One file of results. `peers` took part, in the registry's order, ours first."""

    results: Results
    peers: tuple[str, ...]
    rows: tuple[Row, ...]

    @staticmethod
    def of(results: Results) -> Comparison:
        by_operator: dict[str, dict[str, Record]] = {name: {} for name in results.done}
        for record in results.records:
            by_operator[record.operator][record.peer] = record
        taking_part = {record.peer for record in results.records}
        rows = tuple(
            Row(name, describe_sizes(results.head["operators"][name]), records)
            for name, records in by_operator.items()
        )
        return Comparison(results, tuple(p for p in REGISTRY if p in taking_part), rows)

    @property
    def rivals(self) -> tuple[str, ...]:
        return tuple(peer for peer in self.peers if REGISTRY[peer].is_rival)

    def ratios(self, ours: str = OURS, peer: str | None = None) -> dict[str, float]:
        """By operator, a variant of `ours` / `peer`, by default the best one of each operator.
        Without those that either could not do, or got wrong."""
        found = {}
        for row in self.rows:
            rival = row.best if peer is None else row.records.get(peer)
            found[row.operator] = quotient(row.records.get(ours), rival)
        return {operator: ratio for operator, ratio in found.items() if not isnan(ratio)}

    @property
    def wrong(self) -> list[Record]:
        """Records whose error rounding cannot explain."""
        return [record for record in self.results.records if not record.is_correct]

    def of_peer(self, peer: str) -> list[Record]:
        return [row.records[peer] for row in self.rows if peer in row.records]

    def mean(self, peer: str, value: Callable[[Record], float]) -> float:
        """Geometric mean over a peer's operators; NaN if it lacks some, as means over different
        operators cannot be compared."""
        records = self.of_peer(peer)
        if len(records) < len(self.rows):
            return nan
        return geometric_mean(value(record) for record in records)

    def smallest(self, value: Callable[[Record], float]) -> Record | None:
        """Our record with the smallest value."""
        return min(self.of_peer(OURS), key=value, default=None)

    def peaks(self) -> tuple[float, float]:
        """The smallest and largest FMA peak measured beside the operators, GFLOP/s."""
        peaks = [record.peak_gflops for record in self.results.records] or [nan]
        return min(peaks), max(peaks)


def quotient(ours: Record | None, peer: Record | None) -> float:
    """Of median rates; NaN if one is missing or wrong."""
    if ours is None or peer is None or not (ours.is_correct and peer.is_correct):
        return nan
    return ours.gflops_median / peer.gflops_median


SIZES = "k,hxw,c,rxs/stride"
"""The head of a column of `describe_sizes`."""


def describe_sizes(sizes: dict[str, object]) -> str:
    """`64,56x56,64,3x3/2`: output channels, output rows x columns, input channels, filter, stride.
    In front a batch, behind it dilations, where they are not 1."""
    strides, dilations = (tuple(_pair(sizes[key])) for key in ("strides", "dilations"))
    text = "{k},{h}x{w},{c},{r}x{s}".format(**sizes)
    if strides != (1, 1):
        text += "/" + _short(strides)
    if dilations != (1, 1):
        text += "*" + _short(dilations)
    return text if sizes["n"] == 1 else f"{sizes['n']}x({text})"


def _pair(value: object) -> Iterable[int]:
    assert isinstance(value, list | tuple)
    return value


def _short(pair: tuple[int, ...]) -> str:
    return str(pair[0]) if len(set(pair)) == 1 else "x".join(map(str, pair))
