"""validation.md: the model on trial, as a document that explains itself. Every figure of its tables
is found; what was learnt from the trials at hand is in sections that are given with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from mopt_mlir.output import make_directory, write_output
from mopt_mlir.wording import counted

from .. import plots
from ..comparison import Comparison
from ..document import markdown, software
from ..latency import PARTS
from ..peers import REGISTRY
from . import faults, figures, misses, peers, prose, tables, volume_tables
from .abstract import in_short
from .accuracy import DRAWS
from .constants import CONSTANT_COLUMNS, constant_rows
from .criteria import LEAST_VOLUMES, USUAL_LOSS
from .judgement import GOOD, Trial
from .measure import (
    FINAL_MEASURED,
    FINAL_PASSES,
    FINAL_PREDICTED,
    MOST_LOADED,
    Request,
)
from .records import compress
from .repeats import judged, repeats
from .sample import BATCHES
from .sample import DRAWS as DRAWS_AT_A_TIME
from .simulations import MOST_CHECKED

NAME = "validation.md"
DATA = "validation"
"""The directory of plots and data, beside the document."""

_METHOD = Path(__file__).with_name("method.md")

_CACHES: Mapping[tuple[bool, ...], str] = {
    (True,): "caches flushed before each run",
    (False,): "caches warm",
    (False, True): "caches flushed before each run (warm where a trial's name has `-warm`)",
}
"""By whether trials are cold: what the method says of caches."""


def write_document(
    directory: Path,
    trials: Sequence[Trial],
    comparisons: Mapping[str, Comparison],
    data: Sequence[Path],
    notes: Sequence[str] = (),
) -> str:
    """Write the document, its plots and the `data` into `directory`; without matplotlib, no plots.
    `comparisons` are by title, which names the plot. `notes` are sections that somebody wrote on
    these trials.

    Returns what was written, for the user. Raises UserError if that is not possible.
    """
    make_directory(directory / DATA)
    try:
        drawn = {name: draw() for name, draw in _plots(judged(trials), comparisons)}
        note = f"wrote {directory / NAME} and {counted(len(drawn), 'plot')}"
    except ImportError:
        drawn = {}
        note = f"wrote {directory / NAME} without plots: pip install 'mopt-mlir[plot]'"
    # nothing is written before all of it is known, so that a page and its data belong together
    text = "\n".join(_sections(trials, comparisons, set(drawn), notes))
    for name, svg in drawn.items():
        write_output(directory / DATA / name, svg)
    for path in data:
        compress(path, directory / DATA)
    write_output(directory / NAME, text.encode())
    return note


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


def _sections(
    every: Sequence[Trial],
    comparisons: Mapping[str, Comparison],
    drawn: set[str],
    notes: Sequence[str] = (),
) -> Iterator[str]:
    trials = judged(every)
    yield prose.INTRODUCTION.format(data=DATA)
    yield in_short(trials)
    yield prose.FIGURES.format(least_volumes=LEAST_VOLUMES)
    columns = ("figure", "to reach", *(trial.title for trial in trials))
    yield markdown(columns, tables.figure_rows(trials))
    yield from _machines(trials)
    yield _method(trials)
    yield markdown(CONSTANT_COLUMNS, constant_rows())
    yield "## Losses and orders\n"
    for trial in trials:
        yield from _losses(trial, drawn)
    yield prose.ORDERS
    yield markdown(tables.ORDER_COLUMNS, tables.order_rows(trials))
    yield prose.TIMES
    yield markdown(tables.TIME_COLUMNS, tables.time_rows(trials))
    yield prose.ACCURACY.format(draws=DRAWS, good=GOOD)
    yield markdown(tables.ACCURACY_COLUMNS, tables.accuracy_rows(trials))
    if again := tables.repeat_rows(repeats(every)):
        yield prose.REPEATS
        yield markdown(tables.REPEAT_COLUMNS, again)
    if looks := tables.latency_rows(trials):
        parts = ", ".join(f"{part:.0%} of {cache}" for cache, part in PARTS.items())
        yield prose.LATENCIES.format(parts=parts)
        yield markdown(tables.LATENCY_COLUMNS, looks)
    yield from notes
    if comparisons:
        yield prose.COMPARISON
    for title, comparison in comparisons.items():
        yield from _comparison(title, comparison, drawn)
    yield prose.VOLUMES
    if any(flow.valgrind for trial in trials for flow in trial.flows):
        yield prose.CHECKS.format(most=MOST_CHECKED)
    for trial in trials:
        yield from _volumes(trial)
    if off := volume_tables.tensor_rows(trials):
        yield prose.TENSORS.format(off=volume_tables.OFF)
        yield markdown(volume_tables.TENSOR_COLUMNS, off)
    yield from _misjudged(trials)


def _machines(trials: Sequence[Trial]) -> Iterator[str]:
    yield "## Machines and versions\n"
    yield markdown(tables.MACHINE_COLUMNS, tables.machine_rows(trials))
    yield from software([trial.head for trial in trials])


def _method(trials: Sequence[Trial]) -> str:
    heads = [trial.head for trial in trials]
    agreed = [head["must_agree"] for head in heads]
    spreads = {trial.title: list(tables.spread_of_rounds(trial)) for trial in trials}
    scatter = (f"{tables.percent(median(s))} ({title})" for title, s in spreads.items() if s)
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
        scatter=", ".join(scatter) or "an unknown amount",
    )


def _span(numbers: Sequence[float]) -> str:
    """The least and the largest, as in "30 to 60", or what all are."""
    least, most = min(numbers, default=0), max(numbers, default=0)
    return f"{most:g}" if least == most else f"{least:g} to {most:g}"


def _losses(trial: Trial, drawn: set[str]) -> Iterator[str]:
    yield f"### {trial.title}\n"
    counters = any(p.counters for v in trial.verdicts for p in v.points.values())
    wrong = sum(verdict.wrong for verdict in trial.verdicts)
    plans = sum(len(verdict.points) for verdict in trial.verdicts) + wrong
    yield (
        f"{plans} plans, of which {wrong} gave wrong results; {len(trial.failed)} more could not "
        f"be measured. Hardware counters: {'recorded' if counters else 'none on this host'}.\n"
    )
    protocol = trial.head["must_agree"].get("protocol", 1)
    yield from (f"{text}\n" for since, text in prose.PROTOCOLS.items() if protocol < since)
    foremost = [point for verdict in trial.verdicts for point in verdict.foremost(5)]
    if late := sum(not point.final for point in foremost):
        yield (
            f"Of the {len(foremost)} plans that today's model likes best, five of each operator, "
            f"{late} met in no final rounds.\n"
        )
    for failure in trial.failed:
        yield f"- {failure.subject.operator}: {failure.reason}"
    if trial.failed:
        yield ""
    yield from _picture(f"{trial.title}-losses.svg", "loss of each operator", drawn)
    yield markdown(tables.LOSS_COLUMNS, tables.loss_rows(trial))
    yield from _picture(f"{trial.title}-times.svg", "predicted and measured times", drawn)
    yield from _picture(f"{trial.title}-orders.svg", "plans in predicted order", drawn)


def _volumes(trial: Trial) -> Iterator[str]:
    if not trial.flows:
        return
    yield f"### {trial.title}\n"
    yield f"Of {_simulated(trial)}; {_given_up(trial)}.\n"
    yield markdown(volume_tables.VOLUME_COLUMNS, volume_tables.volume_rows(trial))
    if checked := volume_tables.check_rows(trial):
        yield "Beside valgrind's counts:\n"
        yield markdown(volume_tables.CHECK_COLUMNS, checked)


def _simulated(trial: Trial) -> str:
    """Which plans were."""
    sampled = sum(flow.sampled and not flow.picked for flow in trial.flows)
    picked = sum(flow.picked for flow in trial.flows)
    chosen = sum(not flow.sampled for flow in trial.flows)
    text = f"{sampled} sampled plans and {chosen} own ones and candidates"
    if picked:
        text += f", and where a memory is the slowest of {picked} more sampled ones"
    return text


def _given_up(trial: Trial) -> str:
    """How many plans were not simulated, and why."""
    reasons = Counter(failure.reason for failure in trial.given_up)
    each = "; ".join(f"{number} for {reason}" for reason, number in sorted(reasons.items()))
    return f"{len(trial.given_up)} were given up{f' ({each})' if each else ''}"


def _misjudged(trials: Sequence[Trial]) -> Iterator[str]:
    yield prose.MISSES.format(usual=USUAL_LOSS, noticeable=misses.NOTICEABLE, enough=misses.ENOUGH)
    yield markdown(misses.REASON_COLUMNS, misses.reason_rows(trials))
    for trial in trials:
        yield f"### {trial.title}\n"
        for found, what in (
            (misses.own_misses(trial), "Own plans"),
            (misses.sample_misses(trial), "Choices among the sample"),
        ):
            if rows := misses.miss_rows(found):
                yield f"{what} that lose more than {USUAL_LOSS:.0%}:\n"
                yield markdown(misses.MISS_COLUMNS, rows)
    if off := faults.group_rows(trials):
        yield prose.KINDS.format(off=faults.OFF, enough=faults.ENOUGH)
        yield markdown(faults.GROUP_COLUMNS, off)


def _comparison(title: str, comparison: Comparison, drawn: set[str]) -> Iterator[str]:
    configuration, head = comparison.results.configuration, comparison.results.head
    machine = head["machine"]
    operators = Path(head["arguments"]["operators"]).stem
    yield f"### {configuration.title}, {machine['planned_for']['cpu']}, {operators}\n"
    yield (
        f"Mean GFLOP/s of {head['arguments']['repeat']} runs with 95% confidence intervals, caches "
        f"{'flushed before each' if configuration.cold else 'warm'}; {machine['cpu']}, planned for "
        f"as `{machine['planned_for']['cpu']}`, commit {head['commit']}, {head['date'][:10]}.\n"
    )
    versions = {record.peer: record.version for record in comparison.results.records}
    found = ", ".join(f"{REGISTRY[peer].title} {versions[peer]}" for peer in comparison.peers)
    yield f"Versions: {found}.\n"
    yield from _picture(f"{title}.svg", "rates relative to oneDNN", drawn)
    yield markdown(peers.columns(comparison), peers.rows(comparison))
    if slower := peers.slower(comparison):
        yield f"Ours is slower than the best other on {'; '.join(slower)}.\n"


def _picture(name: str, what: str, drawn: set[str]) -> Iterator[str]:
    if name in drawn:
        yield f"![{what}]({DATA}/{name})\n"
