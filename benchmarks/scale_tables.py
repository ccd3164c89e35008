"""How things grow, as tables for the terminal and as rows for the document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from .scale_results import Scale

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")

Grid = tuple[str, list[str], list[list[str]]]
"""A title, column titles, and rows."""


def scale_tables(scale: Scale) -> list[Table]:
    """One for each of `grids`."""
    from rich.table import Table

    tables = []
    for title, columns, rows in grids(scale):
        table = Table(*columns, title=title)
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    return tables


def grids(scale: Scale) -> list[Grid]:
    """Planning, cores, batches."""
    return [planning_grid(scale), scaling_grid(scale), batch_grid(scale)]


def planning_grid(scale: Scale) -> Grid:
    """Seconds by number of operators and state of the plan cache."""
    columns = ["operators", "plan cache", "plan, s", "compile, s", "both, ms per operator"]
    rows = [
        [
            str(p.operators),
            p.plan_cache,
            f"{p.plan_seconds:.2f}",
            f"{p.compile_seconds:.2f}",
            f"{1e3 * (p.plan_seconds + p.compile_seconds) / p.operators:.0f}",
        ]
        for p in scale.planning
    ]
    return "Planning and compiling one module of distinct operators, one core", columns, rows


def scaling_grid(scale: Scale) -> Grid:
    """GFLOP/s by cores and operator: measured, and what the model predicts."""
    operators = _ordered(s.operator for s in scale.scaling)
    by_key = {(s.operator, s.cores): s for s in scale.scaling}
    rows = []
    for cores in _ordered(s.cores for s in scale.scaling):
        row = [str(cores)]
        for operator in operators:
            entry = by_key.get((operator, cores))
            measured = entry.gflops if entry else None
            row.append("" if measured is None else f"{measured:.0f}")
            row.append(f"{entry.predicted_gflops:.0f}" if entry else "")
        rows.append(row)
    columns = ["cores"]
    for operator in operators:
        columns += [operator, f"{operator} predicted"]
    return "GFLOP/s by cores (constant weights, warm)", columns, rows


def batch_grid(scale: Scale) -> Grid:
    """Milliseconds by batch and operator: measured, and what the model predicts."""
    operators = _ordered(b.operator for b in scale.batch)
    by_key = {(b.operator, b.batch): b for b in scale.batch}
    rows = []
    for batch in _ordered(b.batch for b in scale.batch):
        row = [str(batch)]
        for operator in operators:
            entry = by_key.get((operator, batch))
            row.append(f"{1e3 * entry.seconds:.3g}" if entry else "")
            row.append(f"{1e3 * entry.predicted_seconds:.3g}" if entry else "")
        rows.append(row)
    columns = ["batch"]
    for operator in operators:
        columns += [f"{operator}, ms", f"{operator} predicted"]
    return "Milliseconds by batch, one core (constant weights, warm)", columns, rows


def _ordered(values: Iterable[T]) -> list[T]:
    """Without repetitions, in the order of first appearance."""
    return list(dict.fromkeys(values))
