"""performance.md: results as a document that explains itself. Every figure in it is measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from mopt_mlir.output import make_directory, write_output
from mopt_mlir.wording import counted

from . import plots
from .comparison import SIZES, Comparison
from .peers import REGISTRY
from .protocol import Protocol
from .runner import ROUNDS
from .scale_results import Scale
from .scale_tables import grids
from .tables import SUMMARY_COLUMNS, caption, cells, mean_rows, summary_cells
from .timing import WARM_UP

NAME = "performance.md"
FIGURES = "performance"
"""The directory of the plots, beside the document."""

_AVX2_BITS = 256

_WIDTH = 100  # characters

_INTRODUCTION = """\
# Performance

Written by `mopt-bench report`; every figure was measured, none is typed in. To repeat all of it, on
a machine that does nothing else:

```console
$ make bench-peers
$ make bench
```

Rates are GFLOP/s of the median run. A ratio is ours / the best peer of that operator whose result
is right, in the rounds that both made. The roofline of an operator is the larger of the times that
its FLOPs take at the FMA peak measured beside it, and that its input, weights and output take to
move once at the bandwidth of reading DRAM measured in the same run. No plan was chosen by
measuring: each comes from the model alone. Only "best of 5" (`candidates=5`) measures, once, at
compile time: five plans that the model holds for almost equal, with cold caches.
"""

_HOW = """\
## How it is measured

Every peer runs in a process of its own, on the same cores, on the same numbers, and takes turns
with the others in {rounds} rounds, in rotating order; whoever does not run is stopped. A call is
timed alone. Cold means that before each call all cores that share a last cache together read four
times as much (512 MiB where it has more than 128, 16 for each core if that is more), so that
private caches are flushed as well, and then a part of it a few times over, so that it keeps new
lines; the first run of a round is dropped. Warm means that calls follow each other; the first
{warm_up} of a round are dropped, unless they take so long that there is only time for fewer runs in
all than the others make. One core is pinned. Heap memory is never given back to the system between
calls, and OpenMP threads wait spinning, for all alike.
After the first and after the last run the result is compared with a reference in float64: an error
that rounding cannot explain is marked as wrong and does not count.
"""

_SCALE = """\
## Scale

Rates by cores and times by batch are measured with warm caches. What is predicted beside them is
the time that the solver minimises, in which input, weights and output each move from or to memory
once, as they do with cold caches: where the last cache keeps them from call to call, code may be
faster than that.
"""


def write_document(
    directory: Path,
    comparisons: Sequence[Comparison],
    scales: Sequence[Scale],
    relative_to: str,
) -> str:
    """Write the document and its plots into `directory`; without matplotlib, no plots.

    Returns what was written, for the user. Raises UserError if that is not possible.
    """
    figures = dict(_figures(comparisons, scales, relative_to))
    try:
        drawn = {name: draw() for name, draw in figures.items()}
        note = f"wrote {directory / NAME} and {counted(len(drawn), 'plot')}"
    except ImportError:
        drawn = {}
        note = f"wrote {directory / NAME} without plots: pip install matplotlib"
    # nothing is written before all of it is known, so that a page and its plots belong together
    text = "\n".join(_sections(comparisons, scales, set(drawn)))
    make_directory(directory / FIGURES)
    for name, svg in drawn.items():
        write_output(directory / FIGURES / name, svg)
    write_output(directory / NAME, text.encode())
    return note


def _figures(
    comparisons: Sequence[Comparison], scales: Sequence[Scale], relative_to: str
) -> Iterator[tuple[str, Any]]:
    """The name of each plot, and what draws it."""
    for comparison in comparisons:
        slug = comparison.results.configuration.slug
        if relative_to in comparison.peers:
            yield f"{slug}.svg", lambda c=comparison: plots.bars(c, relative_to)
        yield f"{slug}-roofline.svg", lambda c=comparison: plots.roofline(c)
    for scale in scales:
        yield "cores.svg", lambda s=scale: _cores_plot(s)
        yield "batch.svg", lambda s=scale: _batch_plot(s)


def _cores_plot(scale: Scale) -> bytes:
    series: dict[str, list[tuple[float, float]]] = {}
    for point in scale.scaling:
        name = f"{point.operator} predicted"
        series.setdefault(name, []).append((point.cores, point.predicted_gflops))
        if point.gflops is not None:
            series.setdefault(point.operator, []).append((point.cores, point.gflops))
    return plots.lines(series, "cores", "GFLOP/s")


def _batch_plot(scale: Scale) -> bytes:
    series: dict[str, list[tuple[float, float]]] = {}
    for point in scale.batch:
        series.setdefault(point.operator, []).append((point.batch, 1e3 * point.seconds))
    return plots.lines(series, "batch", "ms")


def _sections(
    comparisons: Sequence[Comparison], scales: Sequence[Scale], drawn: set[str]
) -> Iterator[str]:
    yield _INTRODUCTION
    if comparisons:
        yield "## Summary\n"
        yield markdown(SUMMARY_COLUMNS, map(summary_cells, comparisons))
    yield from machines([c.results.head for c in comparisons] + [s.head for s in scales])
    if comparisons:
        yield _HOW.format(rounds=ROUNDS, warm_up=WARM_UP)
        yield from _protocols(comparisons)
        yield from _peers(comparisons)
        yield "## Results\n"
    for comparison in comparisons:
        yield from _results(comparison, drawn)
    for scale in scales:
        yield from _growth(scale, drawn)


def machines(heads: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A section: what was measured on, with which versions, and when."""
    yield "## Machine and versions\n"
    used: dict[str, None] = {}  # each once
    commits: dict[str, None] = {}
    for head in heads:
        machine, planned = head["machine"], head["machine"]["planned_for"]
        caches = ", ".join(f"{c['name']} {c['size'] >> 10} KiB" for c in planned["caches"])
        cores, bits = _used(head)
        used[
            f"- {machine['cpu']}, {counted(cores, 'core')} used, {bits}-bit vectors, {caches} "
            f"(planned for as `{planned['cpu']}`)"
        ] = None
        commits[f"- commit {head['commit'] or 'unknown'}"] = None
    yield "\n".join((*used, *commits)) + "\n"
    yield from software(heads)
    dates = sorted(head["date"][:10] for head in heads)
    if dates:
        yield f"Measured from {dates[0]} to {dates[-1]}.\n"


def _used(head: Mapping[str, Any]) -> tuple[int, int]:
    """Cores, and bits of vectors. Of a configuration it is what was asked for: older files have all
    of the host as the machine that was planned for."""
    planned, arguments = head["machine"]["planned_for"], head["arguments"]
    bits = planned["vector_bits"]
    if arguments.get("isa") == "avx2":
        bits = min(bits, _AVX2_BITS)
    return arguments.get("threads", planned["cores"]), bits


def software(heads: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What was measured with: the system, and the packages that are not rivals; each once."""
    lines: dict[str, None] = {}
    for head in heads:
        machine = head["machine"]
        versions = ", ".join(f"{k} {v}" for k, v in head["versions"].items() if k not in REGISTRY)
        lines[
            f"- {machine['cpu']}, {machine['system']}, {machine['libc']}, "
            f"Python {machine['python']}; {versions}"
        ] = None
    yield "\n".join(lines) + "\n"


def _protocols(comparisons: Sequence[Comparison]) -> Iterator[str]:
    measured = {comparison.results.configuration.protocol for comparison in comparisons}
    rows = [
        [protocol.class_, f"`{protocol.value}`", protocol.description]
        for protocol in Protocol
        if protocol in measured
    ]
    yield markdown(("class", "protocol", "what is timed"), rows)


def _peers(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """How each peer was run, and why others were not."""
    versions: dict[str, set[str]] = {}
    for comparison in comparisons:
        for record in comparison.results.records:
            versions.setdefault(record.peer, set()).add(record.version)
    rows = [
        [entry.title, ", ".join(sorted(versions[peer])), entry.setup]
        for peer, entry in REGISTRY.items()
        if peer in versions
    ]
    yield "## Peers\n"
    yield markdown(("peer", "version", "how it is run"), rows)


def _results(comparison: Comparison, drawn: set[str]) -> Iterator[str]:
    configuration, head = comparison.results.configuration, comparison.results.head
    yield f"### {configuration.title}\n"
    yield f"GFLOP/s, median of {head['arguments']['repeat']} runs. {caption(comparison)}.\n"
    for suffix, what in (("", "relative rates"), ("-roofline", "roofline")):
        if (name := f"{configuration.slug}{suffix}.svg") in drawn:
            yield f"![{configuration.title}: {what}]({FIGURES}/{name})\n"
    titles = [REGISTRY[peer].title for peer in comparison.peers]
    columns = ("operator", SIZES, *titles, "best peer", "ours / best")
    rows = [cells(row, comparison.peers) for row in comparison.rows]
    yield markdown((*columns, "of peak", "of roofline"), [*rows, *mean_rows(comparison)])
    for record in comparison.wrong:
        yield f"Wrong: {REGISTRY[record.peer].title} on {record.operator}.\n"
    for failure in comparison.results.failures:
        yield f"{REGISTRY[failure.peer].title} failed on {failure.operator}: {failure.reason}\n"
    for peer, reason in head["unavailable"].items():
        yield f"Without {REGISTRY[peer].title}: {reason}.\n"


def _growth(scale: Scale, drawn: set[str]) -> Iterator[str]:
    yield _SCALE
    for title, columns, rows in grids(scale):
        yield f"{title}:\n"
        yield markdown(columns, rows)
    for name, what in (("cores.svg", "rates by cores"), ("batch.svg", "time by batch")):
        if name in drawn:
            yield f"![{what}]({FIGURES}/{name})\n"


def filled(text: str) -> str:
    """Markdown with paragraphs and items that are as wide as other files; tables, headings and what
    is fenced stay as they are."""
    blocks = text.strip("\n").split("\n\n")
    return "\n\n".join(map(_filled, blocks)) + "\n"


def _filled(block: str) -> str:
    if block.startswith(("#", "|", "```", "!")):
        return block
    items = re.split(r"\n(?=- )", block)
    texts = (" ".join(item.split()) for item in items)
    return "\n".join(
        fill(text, _WIDTH, subsequent_indent="  " if text.startswith("- ") else "",
             break_on_hyphens=False, break_long_words=False)
        for text in texts
    )  # fmt: skip


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of figures are aligned on the right."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    rules = ["---:" if _is_figures(i, rows) else "---" for i in range(len(columns))]
    lines = [columns, rules, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _is_figures(column: int, rows: Sequence[Sequence[str]]) -> bool:
    texts = [row[column] for row in rows if row[column]]
    return bool(texts) and all(text[0].isdigit() and " to " not in text for text in texts)
