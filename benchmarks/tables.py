"""Results as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING

from .comparison import SIZES, Comparison, Row
from .peers import BEST_OF_5, OURS, REGISTRY
from .results import Record
from .summary import geometric_mean

if TYPE_CHECKING:
    from rich.table import Table

WRONG = "WRONG"


def comparison_table(comparison: Comparison) -> Table:
    """Every operator by every peer, in GFLOP/s; the best peer, and how ours compares with it."""
    from rich.table import Table

    table = Table(title=title(comparison), caption=caption(comparison), padding=(0, 1, 0, 0))
    table.add_column("operator", no_wrap=True)
    table.add_column(SIZES, no_wrap=True)
    for peer in comparison.peers:
        table.add_column(REGISTRY[peer].title, justify="right")
    table.add_column("best peer", no_wrap=True)
    for name in ("ours / best", "of peak", "of roofline"):
        table.add_column(name, justify="right")
    for row in comparison.rows:
        style = "bold red" if has_wrong(row) else None
        table.add_row(*cells(row, comparison.peers), style=style)
    table.add_section()
    for row_of_means in mean_rows(comparison):
        table.add_row(*row_of_means)
    return table


def summary_table(comparisons: Sequence[Comparison]) -> Table:
    """A line for each configuration."""
    from rich.table import Table

    table = Table(title="Ours / the best peer of each operator", padding=(0, 1, 0, 0))
    for column in SUMMARY_COLUMNS:
        table.add_column(column, justify="left" if column == "configuration" else "right")
    for comparison in comparisons:
        table.add_row(*summary_cells(comparison))
    return table


SUMMARY_COLUMNS = (
    "configuration",
    "operators",
    "geometric mean",
    "worst operator",
    "best of 5: geometric mean",
    "best of 5: worst operator",
    "of roofline, mean",
    "of roofline, worst",
    "wrong results",
)


def summary_cells(comparison: Comparison) -> list[str]:
    """The columns of SUMMARY_COLUMNS."""
    least = comparison.smallest(lambda record: record.share_of_roofline)
    return [
        comparison.results.configuration.title,
        str(len(comparison.rows)),
        *ratio_cells(comparison.ratios(OURS)),
        *ratio_cells(comparison.ratios(BEST_OF_5)),
        number(comparison.mean(OURS, lambda record: record.share_of_roofline), 2),
        f"{least.share_of_roofline:.2f} ({least.operator})" if least else "",
        str(len(comparison.wrong)),
    ]


def ratio_cells(ratios: Mapping[str, float]) -> list[str]:
    """The geometric mean, and the smallest with its operator."""
    worst = min(ratios, key=ratios.__getitem__, default=None)
    return [
        number(geometric_mean(ratios.values()), 2),
        f"{ratios[worst]:.2f} ({worst})" if worst is not None else "",
    ]


def title(comparison: Comparison) -> str:
    """The configuration, and how it was measured."""
    arguments = comparison.results.head["arguments"]
    return (
        f"{comparison.results.configuration.title} ({arguments['protocol']}): GFLOP/s, median of "
        f"{arguments['repeat']} runs"
    )


def caption(comparison: Comparison) -> str:
    """The machine's limits, measured in the same run."""
    low, high = comparison.peaks()
    rates = ", ".join(
        f"{level} {rate:.0f}" for level, rate in comparison.results.head["bandwidths"].items()
    )
    return f"FMA peak {low:.0f} to {high:.0f} GFLOP/s; GB/s: {rates}"


def cells(row: Row, peers: Sequence[str]) -> list[str]:
    """One operator: name, sizes, a rate for each peer, best peer, ratio, shares; of a result that
    is wrong the marked rate only."""
    best, ours = row.best, row.ours
    if ours is not None and not ours.is_correct:
        ours = None
    return [
        row.operator,
        row.sizes,
        *(rate(row.records.get(peer)) for peer in peers),
        REGISTRY[best.peer].title if best else "",
        number(row.ratio, 2),
        f"{ours.share_of_peak:.0%}" if ours else "",
        f"{ours.share_of_roofline:.0%}" if ours else "",
    ]


def mean_rows(comparison: Comparison) -> list[list[str]]:
    """The last rows of a table of `cells`: geometric means of its columns, and of ours / each."""
    quotients = [
        "" if peer == OURS else number(geometric_mean(comparison.ratios(OURS, peer).values()), 2)
        for peer in comparison.peers
    ]
    return [_mean_cells(comparison), ["ours / each", "", *quotients, "", "", "", ""]]


def _mean_cells(comparison: Comparison) -> list[str]:
    means = [comparison.mean(peer, lambda r: r.gflops_median) for peer in comparison.peers]
    shares = [
        comparison.mean(OURS, lambda record: record.share_of_peak),
        comparison.mean(OURS, lambda record: record.share_of_roofline),
    ]
    return [
        "geometric mean",
        "",
        *(number(mean, 1) for mean in means),
        "",
        number(geometric_mean(comparison.ratios().values()), 2),
        *("" if isnan(share) else f"{share:.0%}" for share in shares),
    ]


def rate(record: Record | None) -> str:
    """GFLOP/s, marked if the result is wrong; empty if there is none."""
    if record is None:
        return ""
    return f"{record.gflops_median:.1f}" + ("" if record.is_correct else f" {WRONG}")


def number(value: float, digits: int) -> str:
    """Empty for NaN."""
    return "" if isnan(value) else f"{value:.{digits}f}"


def has_wrong(row: Row) -> bool:
    return not all(record.is_correct for record in row.records.values())
