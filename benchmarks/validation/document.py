"""validation.md: the model on trial, as a document that explains itself. Every figure is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from mopt_mlir.output import make_directory, write_output

from .. import plots
from ..comparison import Comparison
from ..document import markdown, software
from ..latency import PARTS
from ..peers import REGISTRY
from . import faults, figures, misses, peers, tables, volume_tables
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
    PROTOCOL,
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

_METHOD, _CAUSES = (Path(__file__).with_name(name) for name in ("method.md", "causes.md"))

_INTRODUCTION = """\
# The model on trial

Written by `mopt-validate report`: but for the sections on what the model leaves out and what the
hosts add, which tell of experiments, every table and plot is made of the data that is kept beside
it. The questions are those of Sec. 9 of the MOpt paper (Li, Xu, Sukumaran-Rajam, Rountev
and Sadayappan, "Analytical Characterization and Design Space Exploration for Optimization of CNNs",
ASPLOS 2021): how much performance is lost by taking what the model likes best, how well its order
of plans is that of measuring, and how well it knows what moves between the caches.

To repeat all of it on one machine that does nothing else, for hours, or a small part of it in ten
minutes:

```console
$ make validate
$ make validate-smoke
```

The trials here are from several hosts. Each is what `mopt-validate measure` writes there, with
`--isa avx2` for AVX2 code, `--operators testset` and `--operators heldout` for other operators than
Table 1, `--layout nhwc_hwcf` for images and filters with channels last, under a name that says the
host (Zen 5 if it says none). `mopt-validate simulate` adds the volumes of its plans, on any host.
A name that ends in `-before` has the same trial, measured earlier. The comparison with others is
from `make bench-peers` and `mopt-bench suite --configurations a-cold-1,a-cold-2`. The data is in
[{data}]({data}): every plan, every run, in lines of JSON. `mopt-validate report docs/{data}/*.xz`
makes this document of it, with the predictions of today's model.
"""

_FIGURES = """\
## Figures to reach

The paper says of its own model that its choice among the sample loses at most 4.5% on any operator,
and at most 3% on all but two of 32, of plans that differ in tile sizes only; ours differ in
microkernels, loop orders and packing as well. All other limits are ours, from before the first
trial. Volumes of fewer than {least_volumes} plans are told, and not judged.

The model was fitted to the trials of Table 1 on Zen 5 ("Constants" says what else was learnt
where), and it shows: on other operators and another CPU its choice loses more, as a rule, though
rank correlations are much the same everywhere. The held-out operators had the least part in it.
"""

_ORDERS = """\
## What the parts of the model are worth

The same plans in the order of simpler models: by the time to compute alone, which includes what
visits and partial register tiles cost, and by what the solver minimises, which counts tiles of
each level and nothing that caches keep beyond them. The last column is the loss, against all plans,
of what each would choose among the few candidates near the solver's best.
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

_MISSES = """\
## Plans that the model misjudges

Every choice that loses more than {usual:.0%}, beside the plan that beats it, and why. *Error*: by
how much a plan takes longer than predicted, beyond what the good sampled plans of the operator do
on average; *usual error*: the standard deviation of theirs.

- *May be noise*: it loses at most {unusual:g} standard errors of what is lost.
- *The objective's*: predicted times prefer the plan that beats it; what the solver minimises, by
  which own plans are chosen, does not.
- *An unusual error*: the choice takes longer than predicted, or the other plan less, by more than
  {unusual:g} usual errors. "What the model leaves out" has what is known of each.
- *Usual errors*: no more than that. The two are predicted to take about as long, and of plans with
  such errors the one that is predicted best is seldom the fastest ("How accurate predictions have
  to be").

The five best of an operator lose more than they should for the same reasons: the fastest plan is
predicted to be slower than five others.
"""

_TENSORS = """\
### By tensor

Predicted / simulated volumes, medians, where they are more than {off:.0%} off in own plans or in
the sample.
"""

_KINDS = """\
### Kinds of plans

Those whose measured times are more than {off:.0%} from the predicted ones, relative to the mean of
their operator (geometric mean, and spread as a factor).
"""

_REPEATS = """\
## The same plans once more

Some trials were made twice, with the same sampled plans; the first of the two is there to be
compared with only. *Then* is the first, *now* the second; all are means over the operators. *Time
differs*: the relative change of a plan's time, without what all plans of its operator have in
common. *Fastest then, lost now*: what would be lost now by taking the plan that was the fastest
then. Where the code is the same, that is what noise alone costs; where what generates it has
changed in between, it is what noise and the changes cost together. The losses of predictions are to
be seen beside that. *Model's choice lost*: what today's choice among these plans loses by the times
of then and of now. *Own plan lost*: the loss of the own plan of each day.
"""

_COMPARISON = """\
## Comparison with others

Means of runs, with 95% confidence intervals that take runs for independent, though those of one
round share a process. The best other is the fastest whose result is right. The last rows are
geometric means over the operators. MLIR's default is so much slower that it is run three times
only. *Best of 5* is `candidates=5`: the own plan and four others, timed once while compiling, with
cold caches, and the fastest taken; where it is slower than the own plan, it was misled by noise.

What differs from Sec. 10 of the paper: no tuned TVM is among the peers (`make bench-tvm` installs
it, and `mopt-bench run --peers tvm` tunes it, for many minutes an operator); one and two cores, not
8 and 16, as the hosts have no more; clocks are not fixed; and two kinds of operators are read
otherwise. R8 is the 1x1 layer with stride 2 that ResNet-18 has, where the paper prints a 3x3 one,
and the layers of MobileNet, which it calls depthwise, are run as full convolutions of the sizes
that it prints.
"""

_LATENCIES = """\
## What the host gives of its caches

Before and after the rounds of each batch of plans it is looked how long a load takes that depends
on the one before, in random order through {parts}, and through
memory, on the core that plans are timed on: nanoseconds, the median of all looks and 10% to 90% of
them. A core that has its caches to itself finds them alike at all times; an L3 that takes about as
long as memory keeps little of what a plan puts there. Trials that are missing here are from before
this was looked at.
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
    yield in_short(trials)
    yield _FIGURES.format(least_volumes=LEAST_VOLUMES)
    columns = ("figure", "to reach", *(trial.title for trial in trials))
    yield markdown(columns, tables.figure_rows(trials))
    yield from _machines(trials)
    yield _method(trials)
    yield markdown(CONSTANT_COLUMNS, constant_rows())
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
    yield _CAUSES.read_text()
    if comparisons:
        yield _COMPARISON
    for title, comparison in comparisons.items():
        yield from _comparison(title, comparison, drawn)
    yield "## Data volumes\n"
    for trial in trials:
        yield from _volumes(trial)
    if off := volume_tables.tensor_rows(trials):
        yield _TENSORS.format(off=volume_tables.OFF)
        yield markdown(volume_tables.TENSOR_COLUMNS, off)
    yield from _misjudged(trials)


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
        good=GOOD,
        tilings=BATCHES * DRAWS_AT_A_TIME,
        loaded=MOST_LOADED,
        seconds=f"{Request.seconds:g}",
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


def _volumes(trial: Trial) -> Iterator[str]:
    if not trial.flows:
        return
    yield f"### {trial.title}\n"
    yield (
        f"Bytes that leave the cache named (L1: to and from registers), of {_simulated(trial)}; "
        f"{_given_up(trial)}. Conflicts: volume / that of fully associative caches.\n"
    )
    yield markdown(volume_tables.VOLUME_COLUMNS, volume_tables.volume_rows(trial))
    if checked := volume_tables.check_rows(trial):
        yield (
            "Lines fetched in the simulation, and how far off valgrind's counts of machine code "
            f"are, of own plans with up to {MOST_CHECKED:,} accesses (it sees register spills and "
            "other addresses, counts an access to two lines once, takes stores past the caches, as "
            "those of Y0 are, for misses, and starts with caches that Python has used):\n"
        )
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
    yield _MISSES.format(usual=USUAL_LOSS, unusual=misses.UNUSUAL)
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
        yield _KINDS.format(off=faults.OFF)
        yield markdown(faults.GROUP_COLUMNS, off)


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
