"""validation.md and the pages beside it: the model on trial, as documents that explain themselves.
Every figure of their tables is found; what was learnt from the trials at hand is on pages that are
given with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import make_directory, write_output
from mopt_mlir.wording import counted

from .. import plots
from ..comparison import Comparison
from ..document import filled, markdown, software
from ..latency import PARTS
from . import figures, peers, prose, tables, volume_tables
from .abstract import in_short
from .accuracy import DRAWS
from .criteria import LEAST_VOLUMES
from .judgement import GOOD, Trial
from .measure import (
    FINAL_MEASURED,
    FINAL_PASSES,
    FINAL_PREDICTED,
    MOST_LOADED,
    Request,
)
from .pages import ARTICLE, PAGES, Findings
from .places import DATA
from .records import compress
from .repeats import judged, repeats
from .sample import BATCHES
from .sample import DRAWS as DRAWS_AT_A_TIME

_METHOD = Path(__file__).with_name("method.md")

_CACHES: Mapping[tuple[bool, ...], str] = {
    (True,): "caches flushed before each run",
    (False,): "caches warm",
    (False, True): "caches flushed before each run (warm where a trial's name has `-warm`)",
}
"""By whether trials are cold: what the method says of caches."""


@dataclass(frozen=True)
class Note:
    """A page that somebody wrote on these trials, which begins with its title."""

    name: str
    text: str

    @staticmethod
    def read(path: Path) -> Note:
        """Raises UserError for what cannot be read, has no title, or is called like a page of the
        report."""
        if path.name in PAGES:
            reason = "the report writes a page of that name: leave it out, or rename it"
            raise UserError(reason, str(path))
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
            raise UserError(f"cannot read it: {reason}", str(path)) from None
        if not text.startswith("# "):
            raise UserError("it has no title: begin it with a line such as '# Notes'", str(path))
        return Note(path.name, text)

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")


def write_document(
    directory: Path,
    trials: Sequence[Trial],
    comparisons: Mapping[str, Comparison],
    data: Sequence[Path],
    notes: Sequence[Note] = (),
) -> str:
    """Write the document, its pages, their plots, the `data` and the `notes` into `directory`;
    without matplotlib, no plots. `comparisons` are by title, which names the plot.

    Returns what was written, for the user. Raises UserError if that is not possible.
    """
    make_directory(directory / DATA)
    try:
        drawn = {name: draw() for name, draw in _plots(judged(trials), comparisons)}
        told = f"wrote {directory / ARTICLE} and {counted(len(drawn), 'plot')}"
    except ImportError:
        drawn = {}
        told = f"wrote {directory / ARTICLE} without plots: pip install matplotlib"
    # nothing is written before all of it is known, so that pages and their data belong together
    found = Findings(judged(trials), comparisons, frozenset(drawn))
    pages = {name: "\n".join(PAGES[name][0](found)) for name in found.pages}
    pages |= {note.name: note.text for note in notes}
    text = "\n".join(_article(found, trials, notes))
    for name, svg in drawn.items():
        write_output(directory / DATA / name, svg)
    for path in data:
        compress(path, directory / DATA)
    for name, page in pages.items():
        write_output(directory / DATA / name, page.encode())
    write_output(directory / ARTICLE, text.encode())
    return told


def _plots(
    trials: Sequence[Trial], comparisons: Mapping[str, Comparison]
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The name of each plot, and what draws it."""
    for trial in trials:
        yield f"{trial.title}-losses.svg", lambda t=trial: figures.losses(t)  # type: ignore[misc]
        yield f"{trial.title}-times.svg", lambda t=trial: figures.times(t)  # type: ignore[misc]
        yield f"{trial.title}-orders.svg", lambda t=trial: figures.orders(t)  # type: ignore[misc]
    for title, comparison in comparisons.items():
        if "onednn" in comparison.peers:
            yield f"{title}.svg", lambda c=comparison: plots.bars(c, "onednn")  # type: ignore[misc]


def _article(found: Findings, every: Sequence[Trial], notes: Sequence[Note]) -> Iterator[str]:
    """The sections of the document; `every` trial, also those to be compared with only."""
    trials = found.trials
    contents = "\n".join(_contents(found, notes))
    yield filled(prose.INTRODUCTION.format(data=DATA, pages=contents))
    yield in_short(trials)
    yield filled(prose.FIGURES.format(least_volumes=LEAST_VOLUMES))
    for group, columns, rows in tables.figure_tables(trials):
        yield f"### {group}\n"
        yield filled(prose.GROUPS[group].format(data=DATA))
        yield markdown(columns, rows)
    yield from _machines(trials)
    yield _method(trials)
    yield prose.ORDERS
    yield markdown(tables.ORDER_COLUMNS, tables.order_rows(trials))
    yield prose.TIMES
    yield markdown(tables.TIME_COLUMNS, tables.time_rows(trials))
    yield filled(prose.ACCURACY.format(draws=DRAWS, good=GOOD))
    yield markdown(tables.ACCURACY_COLUMNS, tables.accuracy_rows(trials))
    if summary := volume_tables.summary_rows(trials):
        yield filled(prose.VOLUMES.format(least=LEAST_VOLUMES, data=DATA))
        yield markdown(volume_tables.SUMMARY_COLUMNS, summary)
    if again := tables.repeat_rows(repeats(every)):
        yield prose.REPEATS
        yield markdown(tables.REPEAT_COLUMNS, again)
    if effects := tables.aftereffect_rows(every):
        yield filled(prose.AFTEREFFECTS)
        yield markdown(tables.AFTEREFFECT_COLUMNS, effects)
    if looks := tables.latency_rows(trials):
        parts = ", ".join(f"{part:.0%} of {cache}" for cache, part in PARTS.items())
        yield filled(prose.LATENCIES.format(parts=parts))
        yield markdown(tables.LATENCY_COLUMNS, looks)
    if found.comparisons:
        yield filled(prose.COMPARISON.format(data=DATA))
        yield markdown(*peers.summary(found.comparisons.values()))
        yield prose.SECTION_10


def _contents(found: Findings, notes: Sequence[Note]) -> Iterator[str]:
    """A line for each page beside the document."""
    for name in found.pages:
        yield f"- [{name.removesuffix('.md')}]({DATA}/{name}): {PAGES[name][1]}"
    for note in notes:
        yield f"- [{note.title}]({DATA}/{note.name}), written by hand"


def _machines(trials: Sequence[Trial]) -> Iterator[str]:
    yield "## Machines and versions\n"
    yield markdown(tables.MACHINE_COLUMNS, tables.machine_rows(trials))
    protocols = {trial.head["must_agree"].get("protocol", 1) for trial in trials}
    for since, text in prose.PROTOCOLS.items():
        if any(protocol < since for protocol in protocols):
            yield filled(f"- Protocols before {since} are {text}").rstrip("\n")
    yield from software([trial.head for trial in trials])


def _method(trials: Sequence[Trial]) -> str:
    heads = [trial.head for trial in trials]
    agreed = [head["must_agree"] for head in heads]
    return _METHOD.read_text().format(
        samples=_span([len(v.sample) for trial in trials for v in trial.verdicts]),
        seed=", ".join(map(str, sorted({one["seed"] for one in agreed}))),
        cold=_CACHES[tuple(sorted({one["cold"] for one in agreed}))],
        rounds=_span([head["rounds"] for head in heads]),
        final_rounds=_span([head["final_rounds"] for head in heads]),
        passes=FINAL_PASSES,
        predicted=FINAL_PREDICTED,
        measured=FINAL_MEASURED,
        good=GOOD,
        tilings=BATCHES * DRAWS_AT_A_TIME,
        loaded=MOST_LOADED,
        # files of earlier versions do not tell
        seconds=_span([head.get("seconds", Request.seconds) for head in heads]),
    )


def _span(numbers: Sequence[float]) -> str:
    """The least and the largest, as in "30 to 60", or what all are."""
    least, most = min(numbers, default=0), max(numbers, default=0)
    return f"{most:g}" if least == most else f"{least:g} to {most:g}"
