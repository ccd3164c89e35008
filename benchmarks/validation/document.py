"""validation.md: the model on trial, as a document that explains itself. Every figure is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from statistics import median

from mopt_mlir.model.estimate import EXPOSED
from mopt_mlir.output import make_directory, write_output

from .. import plots
from ..comparison import Comparison
from ..document import markdown, software
from ..latency import PARTS
from ..peers import REGISTRY
from . import faults, figures, peers, tables
from .accuracy import DRAWS, GOOD
from .criteria import USUAL_LOSS, WORST_LOSS
from .criteria import figures as figures_of
from .judgement import Trial
from .measure import FINAL_MEASURED, FINAL_PASSES, FINAL_PREDICTED, PROTOCOL
from .records import compress
from .repeats import judged, repeats
from .sample import BATCHES
from .sample import DRAWS as DRAWS_AT_A_TIME

NAME = "validation.md"
DATA = "validation"
"""The directory of plots and data, beside the document."""

_METHOD, _CAUSES = (Path(__file__).with_name(name) for name in ("method.md", "causes.md"))

_INTRODUCTION = """\
# The model on trial

Written by `mopt-validate report`; every figure in a table or a plot was measured or simulated, none
is typed in. To repeat all of it, on a machine that does nothing else, for hours:

```console
$ make validate
```

`make validate-smoke` takes ten minutes for a small part of it. The data is in [{data}]({data}):
every plan, every run, in lines of JSON. `mopt-validate report docs/{data}/*.xz` makes this
document of it, with the predictions of today's model.

The questions are those of Sec. 9 of the paper: how much performance is lost by taking what the
model likes best, how well its order of plans is that of measuring, and how well it knows what moves
between the caches.
"""

_IN_SHORT = """\
## In short

- Own plans, which the compiler took on the day of a trial, lose {own} against the best of all plans
  that were timed with them (means over the operators of a trial).
- Sampled plans come in the right order: the median rank correlation of predicted and measured times
  is {correlation}.
- The model picks the fastest of a hundred sampled plans less reliably than that of the paper does:
  its choice loses {sample}, in the mean. Good plans differ by less than it is wrong by. "How
  accurate predictions have to be" says what it would take, "What the model leaves out" what is
  missing.
- What the slowest memory of a plan moves is predicted with median errors of at most {volume},
  against simulated caches.
- The fastest of five candidates is {gain} times as fast as the own plan. Measured once, when code
  is compiled, they gain less ("Comparison with others").
"""

_FIGURES = """\
## Figures to reach

The limits of losses among the sample are what the paper reports of its own model: at most 4.5% lost
on any operator, and at most 3% on all but two of 32. The others are ours. A figure that is missed
is said to be missed. The constants of the model were fitted to the plans of Table 1 on Zen 5, with
AVX2 and with AVX-512 code; in the other trials it is seen what it does elsewhere. ("Prediction" and
"Operators" below say what else was learnt where.)
"""

_ORDERS = """\
## What the parts of the model are worth

The same plans in the order of simpler models: by the time to compute alone, with what register
tiles, their visits and their edges take, and by what the solver minimises, which counts tiles of
each level and nothing that caches keep beyond them. The last column is what each of them would
choose among the few candidates near the solver's best, against all plans.
"""

_TIMES = """\
Measured time divided by predicted time: the median, and 10% to 90% of the plans.
"""

_ACCURACY = """\
## How accurate predictions have to be

What is lost among the sample if predicted times are the measured ones, each off by a random error
of the size given (the standard deviation of its logarithm): means over {draws} draws, of the worst
operator the median, and how often all four figures of losses among the sample are reached. The
error of the model is that of plans that take up to {good} times as long as the best, less what all
of an operator have in common, the mean over the operators.
"""

_REPEATS = """\
## The same plans once more

Some trials were made twice, hours or a day apart, with the same sampled plans; the first of the two
is there to be compared with only. *Then* is the first, *now* the second; all are means over the
operators. *Time differs*: the relative change of a plan's time, without what all plans of its
operator have in common. *Fastest then, lost now*: what would be lost now by taking the plan that
was the fastest then, which is what noise alone costs; the losses of predictions are to be seen
beside that. *Model's choice lost*: what today's choice among these plans loses by the times of then
and of now. *Own plan lost*: what the own plan lost that the model of each day chose.
"""

_LATENCIES = """\
## What the host gives of its caches

Other guests of a host use the caches that it has for us, those of the core as well, and no clock
shows it. So before and after the rounds of each batch of plans it is looked how long a load takes
that depends on the one before, in random order through {parts}, and through memory, on the core
that plans are timed on: nanoseconds, the median of all looks and 10% to 90% of them. A core that
has its caches to itself finds them alike at all times; an L3 that takes about as long as memory
keeps nothing of ours. Trials that are missing here are from before this was looked at.
"""


def write_document(
    directory: Path,
    trials: Sequence[Trial],
    comparisons: Mapping[str, Comparison],
    data: Sequence[Path],
) -> str:
    """Write the document, its plots and the `data` into `directory`; without matplotlib, no plots.
    `comparisons` are by title, which names the plot.

    Returns what was written, for the user. Raises UserError if that is not possible.
    """
    make_directory(directory / DATA)
    try:
        drawn = {name: draw() for name, draw in _plots(judged(trials), comparisons)}
        note = f"wrote {directory / NAME} and {len(drawn)} plot{'s' * (len(drawn) != 1)}"
    except ImportError:
        drawn = {}
        note = f"wrote {directory / NAME} without plots: pip install 'mopt-mlir[plot]'"
    for name, svg in drawn.items():
        write_output(directory / DATA / name, svg)
    for path in data:
        compress(path, directory / DATA)
    text = "\n".join(_sections(trials, comparisons, set(drawn)))
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
    every: Sequence[Trial], comparisons: Mapping[str, Comparison], drawn: set[str]
) -> Iterator[str]:
    trials = judged(every)
    yield _INTRODUCTION.format(data=DATA)
    yield _in_short(trials)
    yield _FIGURES
    columns = ("figure", "to reach", *(trial.title for trial in trials))
    yield markdown(columns, tables.figure_rows(trials))
    yield from _machines(trials)
    yield _method(trials)
    yield "## Losses and orders\n"
    for trial in trials:
        yield from _losses(trial, drawn)
    yield _ORDERS
    yield markdown(tables.ORDER_COLUMNS, tables.order_rows(trials))
    yield _TIMES
    yield markdown(tables.TIME_COLUMNS, tables.time_rows(trials))
    yield _ACCURACY.format(draws=DRAWS, good=GOOD)
    yield markdown(tables.ACCURACY_COLUMNS, tables.accuracy_rows(trials))
    if again := tables.repeat_rows(repeats(every)):
        yield _REPEATS
        yield markdown(tables.REPEAT_COLUMNS, again)
    if looks := tables.latency_rows(trials):
        parts = ", ".join(f"{part:.0%} of {cache}" for cache, part in PARTS.items())
        yield _LATENCIES.format(parts=parts)
        yield markdown(tables.LATENCY_COLUMNS, looks)
    yield "## Data volumes\n"
    for trial in trials:
        yield from _volumes(trial, drawn)
    yield "## What the model gets wrong\n"
    for trial in trials:
        yield from _wrong(trial)
    yield _CAUSES.read_text()
    if comparisons:
        yield "## Comparison with others\n"
    for title, comparison in comparisons.items():
        yield from _comparison(title, comparison, drawn)


def _in_short(trials: Sequence[Trial]) -> str:
    found = [figure for trial in trials for figure in figures_of(trial)]

    def values_of(what: str) -> list[float]:
        return [f.value for f in found if f.title.endswith(what) and not isnan(f.value)]

    def between(what: str, text: Callable[[float], str]) -> str:
        """The least and the largest of the figures of a name, or what all are."""
        values = values_of(what)
        ends = (
            dict.fromkeys(map(text, (min(values), max(values)))) if values else ["(not measured)"]
        )
        return " to ".join(ends)

    return _IN_SHORT.format(
        own=between("own plan, against all: mean", tables.percent),
        correlation=between("measured time: median", tables.number),
        sample=between("among the sample: mean", tables.percent),
        volume=tables.percent(max(values_of("slowest memory: median error"), default=nan)),
        gain=between("geometric mean of speeds", "{:.3f}".format),
    )


def _machines(trials: Sequence[Trial]) -> Iterator[str]:
    yield "## Machines and versions\n"
    yield markdown(tables.MACHINE_COLUMNS, tables.machine_rows(trials))
    yield from software([trial.head for trial in trials])


def _method(trials: Sequence[Trial]) -> str:
    head = trials[0].head
    spreads = {trial.title: list(tables.spread_of_rounds(trial)) for trial in trials}
    scatter = (f"{tables.percent(median(s))} ({title})" for title, s in spreads.items() if s)
    return _METHOD.read_text().format(
        samples=_span([len(v.sample) for trial in trials for v in trial.verdicts]),
        seed=head["must_agree"]["seed"],
        cold="caches flushed before each run" if head["must_agree"]["cold"] else "caches warm",
        rounds=head["rounds"],
        final_rounds=head["final_rounds"],
        passes=FINAL_PASSES,
        predicted=FINAL_PREDICTED,
        measured=FINAL_MEASURED,
        exposed=", ".join(f"{part:.0%} of {name}" for name, part in EXPOSED.items()),
        tilings=BATCHES * DRAWS_AT_A_TIME,
        scatter=", ".join(scatter) or "an unknown amount",
    )


def _span(numbers: Sequence[int]) -> str:
    """The least and the largest, as in "30 to 60", or what all are."""
    least, most = min(numbers, default=0), max(numbers, default=0)
    return str(most) if least == most else f"{least} to {most}"


def _losses(trial: Trial, drawn: set[str]) -> Iterator[str]:
    yield f"### {trial.title}\n"
    counters = any(p.counters for v in trial.verdicts for p in v.points.values())
    plans = sum(len(verdict.points) for verdict in trial.verdicts)
    wrong = [p for v in trial.verdicts for p in v.points.values() if not _is_right(p.error)]
    yield (
        f"{plans} plans, of which {len(wrong)} gave wrong results; {len(trial.failed)} more could "
        f"not be measured. Hardware counters: {'recorded' if counters else 'none on this host'}.\n"
    )
    if trial.head["must_agree"].get("protocol") != PROTOCOL:
        yield (
            "From before caches were flushed in two steps and final rounds were spread: ballast "
            "alone was read, and the final rounds of an operator followed each other.\n"
        )
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


def _is_right(error: float | None) -> bool:
    return error is not None and error <= 1


def _volumes(trial: Trial, drawn: set[str]) -> Iterator[str]:
    if not trial.flows:
        return
    yield f"### {trial.title}\n"
    yield (
        f"Bytes that leave the cache named (L1: to and from registers), of {len(trial.flows)} "
        f"plans; {_given_up(trial)}. "
        "Conflicts: volume / that of fully associative caches.\n"
    )
    yield markdown(tables.VOLUME_COLUMNS, tables.volume_rows(trial))
    yield "Predicted / simulated by tensor, median:\n"
    columns = ("from", "tensor", "own plans and candidates", "sample")
    yield markdown(columns, tables.tensor_rows(trial))
    if checked := tables.check_rows(trial):
        yield (
            "Lines fetched in the simulation, and how far off valgrind's counts of machine code "
            "are (it sees register spills and other addresses, counts an access to two lines once, "
            "takes stores past the caches, as those of Y0 are, for misses, and starts with caches "
            "that Python has used):\n"
        )
        yield markdown(tables.CHECK_COLUMNS, checked)


def _given_up(trial: Trial) -> str:
    """How many plans were not simulated, and why."""
    reasons = Counter(failure.reason for failure in trial.given_up)
    each = "; ".join(f"{number} for {reason}" for reason, number in sorted(reasons.items()))
    return f"{len(trial.given_up)} were given up{f' ({each})' if each else ''}"


def _wrong(trial: Trial) -> Iterator[str]:
    yield f"### {trial.title}\n"
    for misses, what in (
        (faults.miss_rows(trial), f"Own plans that lose more than {USUAL_LOSS:.0%}"),
        (
            faults.sample_miss_rows(trial),
            f"Choices among the sample that lose over {WORST_LOSS:.1%}",
        ),
    ):
        if misses:
            yield f"{what}:\n"
            yield markdown(faults.MISS_COLUMNS, misses)
    yield (
        "Kinds of plans, and how far their measured times are from the predicted ones, relative to "
        "the mean of their operator (geometric mean, and spread as a factor):\n"
    )
    yield markdown(faults.GROUP_COLUMNS, faults.group_rows(trial))


def _comparison(title: str, comparison: Comparison, drawn: set[str]) -> Iterator[str]:
    configuration, head = comparison.results.configuration, comparison.results.head
    machine = head["machine"]
    yield f"### {configuration.title}, {machine['planned_for']['cpu']}\n"
    yield (
        f"Mean GFLOP/s of {head['arguments']['repeat']} runs with 95% confidence intervals, caches "
        f"{'flushed before each' if configuration.cold else 'warm'}; {machine['cpu']}, planned for "
        f"as `{machine['planned_for']['cpu']}`, commit {head['commit']}.\n"
    )
    versions = {record.peer: record.version for record in comparison.results.records}
    found = ", ".join(f"{REGISTRY[peer].title} {versions[peer]}" for peer in comparison.peers)
    yield f"Versions: {found}.\n"
    yield from _picture(f"{title}.svg", "rates relative to oneDNN", drawn)
    yield markdown(peers.columns(comparison), peers.rows(comparison))


def _picture(name: str, what: str, drawn: set[str]) -> Iterator[str]:
    if name in drawn:
        yield f"![{what}]({DATA}/{name})\n"
