"""Ours beside the peers, operator by operator: what tables, plots and documents show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isnan, nan

from mopt_mlir.diagnostics import UserError

from .peers import OURS, REGISTRY
from .results import Failure, Record, Results
from .summary import common_rounds, geometric_mean, median_of_runs


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
    def right(self) -> dict[str, Record]:
        """Those whose result is right."""
        return {peer: record for peer, record in self.records.items() if record.is_correct}

    @property
    def best(self) -> Record | None:
        """The fastest rival whose result is right."""
        return max(
            (record for peer, record in self.right.items() if REGISTRY[peer].is_rival),
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

    def right(self, peer: str) -> list[Record]:
        """What a peer could do, and did not get wrong."""
        return [row.right[peer] for row in self.rows if peer in row.right]

    def mean(self, peer: str, value: Callable[[Record], float]) -> float:
        """Geometric mean over a peer's operators; NaN if it lacks some, or got some wrong, as means
        over different operators cannot be compared."""
        records = self.right(peer)
        if len(records) < len(self.rows):
            return nan
        return geometric_mean(value(record) for record in records)

    def smallest(self, value: Callable[[Record], float]) -> Record | None:
        """Our record with the smallest value, of those that are right."""
        return min(self.right(OURS), key=value, default=None)

    def peaks(self) -> tuple[float, float]:
        """The smallest and largest FMA peak measured beside the operators, GFLOP/s."""
        peaks = [record.peak_gflops for record in self.results.records] or [nan]
        return min(peaks), max(peaks)


def quotient(ours: Record | None, peer: Record | None) -> float:
    """Of median rates in the rounds that both made; NaN if one is missing or wrong."""
    if ours is None or peer is None or not (ours.is_correct and peer.is_correct):
        return nan
    mine, other = common_rounds(ours.seconds, peer.seconds)
    return median_of_runs(other) / median_of_runs(mine)


def check_ours(records: Iterable[Record], failures: Iterable[Failure]) -> None:
    """Raise UserError if ours was wrong or failed."""
    wrong = {record.operator for record in records if record.peer == OURS and not record.is_correct}
    if wrong:
        raise UserError(
            "wrong results, further from the reference than rounding can explain: "
            f"{', '.join(sorted(wrong))}; please report it"
        )
    failed = {failure.operator for failure in failures if failure.peer == OURS}
    if failed:
        raise UserError(f"ours failed on {', '.join(sorted(failed))}, see the warnings above")


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
