"""The figures of the solver as Markdown, for docs/model.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from mopt_mlir.diagnostics import UserError
from mopt_mlir.plan import TIME_LIMIT

from .solver_results import PATIENCE, Results, Solved
from .summary import geometric_mean

BEGIN = "<!-- written by make bench-solver -->\n"
END = "<!-- end -->\n"

BUSY = 0.97
"""Below this part of the core the times are those of a machine that has other things to do."""


def check_page(page: str) -> None:
    """Raise UserError if tables have no place in `page`."""
    _, begin, rest = page.partition(BEGIN)
    if not begin or END not in rest:
        raise UserError(f"the document lacks the lines '{BEGIN.strip()}' and '{END.strip()}'")


def replaced(page: str, results: Results) -> str:
    """`page` with new tables between its marks. Raises UserError if it has none."""
    check_page(page)
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + summary(results) + "\n" + END + after


def summary(results: Results) -> str:
    """All tables, with what they are about in words."""
    parts = [_origin(results), *_table1(results.table1)]
    if results.unusual:
        parts += _unusual(results.unusual)
    return "\n".join(parts)


def _origin(results: Results) -> str:
    busy = "" if results.share > BUSY else f", of which it had {results.share:.0%}"
    return (
        f"Measured on {results.date}, in one process on one core ({results.cpu}){busy}. "
        "Times are seconds of that core.\n"
    )


def _table1(solved: Sequence[Solved]) -> Iterator[str]:
    yield (
        "The operators of Table 1; a gap of 0.5% is asked for, with a time limit of "
        f"{PATIENCE:g} s, not the default {TIME_LIMIT:g}:\n"
    )
    groups = _by_target(s for s in solved if s.solver == "exact")
    rows = []
    for (machine, threads), group in groups.items():
        slowest = max(group, key=lambda s: s.seconds)
        rows.append(
            (
                machine,
                str(threads),
                f"{fmean(s.seconds for s in group):.2f}",
                f"{slowest.seconds:.2f} ({slowest.operator})",
                f"{max(s.gap for s in group):.2%}",
            )
        )
    yield _markdown(("machine", "cores", "mean", "worst", "largest gap"), rows)
    plans = sum(s.random_plans for s in solved)
    if plans:
        yield f"None of {plans:,} random plans costs less than the bound of its operator.\n"
    yield "The paper's Algorithm 1 on the same model, cost relative to the exact plan's:\n"
    exact = {_case(s): s for s in solved if s.solver == "exact"}
    rows = []
    for (machine, threads), group in _by_target(s for s in solved if s.solver != "exact").items():
        ratio = {s.operator: s.cost / exact[_case(s)].cost for s in group}
        worst = max(ratio, key=lambda name: ratio[name])
        rows.append(
            (
                machine,
                str(threads),
                f"{geometric_mean(ratio.values()):.3f}",
                f"{ratio[worst]:.2f} ({worst})",
                f"{fmean(s.seconds for s in group):.2f}",
            )
        )
    yield _markdown(("machine", "cores", "geometric mean", "worst", "mean time"), rows)
    yield "The longest time of each operator, over the machines and numbers of cores:\n"
    yield _markdown(("operator", "exact", "Algorithm 1"), list(_longest(solved)))


def _longest(solved: Sequence[Solved]) -> Iterator[tuple[str, ...]]:
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for s in solved:
        seconds[s.operator][s.solver] = max(seconds[s.operator][s.solver], s.seconds)
    for operator, longest in seconds.items():
        yield operator, f"{longest['exact']:.2f}", f"{longest['algorithm1']:.2f}"


def _unusual(solved: Sequence[Solved]) -> Iterator[str]:
    yield (
        "Unusual shapes, proven to 1%; the times are over the machines, the numbers of cores, and "
        "channels first and last:\n"
    )
    groups: dict[str, list[Solved]] = defaultdict(list)
    for s in solved:
        groups[s.operator.rpartition(", ")[0]].append(s)
    rows = [
        (
            name,
            f"{fmean(s.seconds for s in group):.2f}",
            f"{max(s.seconds for s in group):.2f}",
            f"{max(s.gap for s in group):.2%}",
        )
        for name, group in groups.items()
    ]
    yield _markdown(("shape", "mean", "worst", "largest gap"), rows)


def _by_target(solved: Iterable[Solved]) -> dict[tuple[str, int], list[Solved]]:
    groups: dict[tuple[str, int], list[Solved]] = defaultdict(list)
    for s in solved:
        groups[s.machine, s.threads].append(s)
    return groups


def _case(solved: Solved) -> tuple[str, str, int]:
    return solved.operator, solved.machine, solved.threads


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and the others figures."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, rule, *rows))
