"""validation.md: the model on trial, as a document that explains itself. Every figure is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from mopt_mlir.output import make_directory, write_output

from .. import plots
from ..comparison import Comparison
from ..document import machines, markdown
from ..latency import PARTS
from . import figures, tables
from .accuracy import DRAWS, GOOD
from .judgement import Trial
from .measure import FINAL_PASSES, PROTOCOL
from .records import compress
from .repeats import judged, repeats

NAME = "validation.md"
DATA = "validation"
"""The directory of plots and data, beside the document."""

_CAUSES = Path(__file__).with_name("causes.md")

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

_FIGURES = """\
## Figures to reach

The first limits are what the paper reports of its own model: at most 4.5% lost on any operator, and
at most 3% on all but two of 32. A figure that is missed is said to be missed.
"""

_METHOD = """\
## Method

**Plans.** Of each operator {samples} plans for one core are drawn (seed {seed}): the microkernel
uniformly from all that the solver may choose from, the class of loop orders of each level and the
place to pack at as well, and the tiling uniformly from all that fit into the caches: three sizes of
each dim, in register tiles, in descending order, anew until they fit. None is left out for what it
does afterwards. Beside them are the model's own plan and the others that `candidates=5` offers. The
operators of the test set are from VGG, Inception, ConvNeXt, EfficientNet, networks with dilated
filters, and one with a batch; they were chosen when the method was, and no figure of the model is
fitted to them. (Faults of the generated code were looked for in their plans, too: "Prefetching",
and what evicted sums cost: "Channels that are pages apart".)

**Time.** The paper's protocol: plain NCHW images and KCRS weights, all packing timed, {cold}, one
pinned core. All plans of an operator are timed in one process, each run right after a run of one
reference plan, in {rounds} rounds that take turns; what counts is the median of the ratios, so that
the clock's drift is divided out. A plan for which that would take too long gets fewer rounds. Then
the five that are predicted best, the ten that were measured best and the model's own meet in
{final_rounds} further rounds: these alone decide which plan is the best and what is lost against
it, since the fastest of a hundred short measurements is a lucky one. They are spread over
{passes} passes through all operators, each in new processes, as other guests of a host take memory
bandwidth and room in the last cache for minutes at a time. Each result is compared with a reference
in float64.

Caches are flushed in two steps. First the cores read four times the last cache. Then each of
them reads an eighth of it eight times. The L3 of Zen 5 learns whether it is worth to keep new
lines: after steps of the first kind alone it sometimes keeps little of what the timed run reads
again, depending on what ran long before, and plans that count on L3 take up to 1.6 times
as long.

**Loss.** Top-k among the sample is 1 - t(best sampled) / t(best of the k sampled plans that are
predicted best). The own plan's is against the best of all that were timed, samples and candidates;
its top-5 adds the four plans that the model likes best after it.

**Noise.** The standard error of each median follows from the quartiles of its ratios; the column +-
has that of the own plan's loss. A/A is how far the reference is from itself when it is compiled
once more and measured like any other plan. The ratios of a plan scatter by {scatter} from round to
round (median over all plans).

**Volumes.** The code that is generated for a plan is run with each load and store replaced by a
call of a simulated hierarchy of caches: set-associative, least recently used, written back, of this
machine's sizes, empty at first; and through fully associative caches of the same sizes beside it.
Lines that are dirty at the end count as written. So the trace is that of the generated loop nest,
packing, edges and order of accesses included, at the granularity of cache lines. The model that the
solver minimises counts what each cache reuses between one tile of its level and the next, which is
all that there is if tiles fill their caches. Sampled plans often have far smaller tiles; of these a
cache keeps the largest blocks of the nest that fit, and their predicted volumes here are counted
with that, with the whole lines that packing reads for a part of each, and with the sums that wait
beside the output (`mopt_mlir.model.residency`); those by tiles alone stand beside them.

**Prediction.** Times are predicted by `mopt_mlir.model.estimate`: the resources of the model that
the solver minimises, with the volumes above, with visits of register tiles that overlap as a core
executes them out of order (`mopt_mlir.model.visits`), and with a part of each resource's time on
top of that of the slowest one. These parts, what it takes to leave a register tile and to come back
to it, and what it takes to pack weights that do not come in whole vectors or fall on one set of L1
were fitted to the sampled plans of Table 1 on Zen 5, of AVX-512 and of AVX2 code; the test set had
no part in it, nor has any other machine. Two figures are exceptions. How long a store waits for a
line that was evicted was found where channels are pages apart, in plans of Y0 and also of V1, D1
and E1 of the test set, on Zen 5, and in those of Y0 on Zen 4. What loads take beyond their slots
was found in own plans on Zen 4, C2 of the test set among them; how much, in sampled plans of Table
1 on Zen 5. The orders of these have to be read with that in mind.
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

The same sampled plans, compiled by the commit of then, measured before on another day or hour: by
how much their times differ, beside what all plans of an operator have in common, and what is lost
now by trusting the measurements of then, among the plans of both. The losses of predictions above
are to be seen beside that. The last columns are such losses, means over the operators, then and
now: of what today's model likes best among the same plans, and of the own plans that there were.
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
    yield _FIGURES
    columns = ("figure", "to reach", *(trial.title for trial in trials))
    yield markdown(columns, tables.figure_rows(trials))
    yield from machines([trial.head for trial in trials])
    yield _method(trials)
    yield "## Losses and orders\n"
    for trial in trials:
        yield from _losses(trial, drawn)
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


def _method(trials: Sequence[Trial]) -> str:
    head = trials[0].head
    spreads = [spread for trial in trials for spread in tables.spread_of_rounds(trial)]
    return _METHOD.format(
        samples=_span([len(v.sample) for trial in trials for v in trial.verdicts]),
        seed=head["must_agree"]["seed"],
        cold="caches flushed before each run" if head["must_agree"]["cold"] else "caches warm",
        rounds=head["rounds"],
        final_rounds=head["final_rounds"],
        passes=FINAL_PASSES,
        scatter=tables.percent(median(spreads)) if spreads else "an unknown amount",
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
    yield markdown(("from", "tensor", "own plans", "sample"), tables.tensor_rows(trial))
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
    misses = tables.miss_rows(trial)
    if misses:
        yield "Operators whose own plan loses more than 3%, and the best plan found:\n"
        yield markdown(tables.MISS_COLUMNS, misses)
    else:
        yield "No operator's own plan loses more than 3%.\n"
    yield (
        "Kinds of plans, and how far their measured times are from the predicted ones, relative to "
        "the mean of their operator (geometric mean, and spread as a factor):\n"
    )
    yield markdown(tables.GROUP_COLUMNS, tables.group_rows(trial))


def _comparison(title: str, comparison: Comparison, drawn: set[str]) -> Iterator[str]:
    configuration, head = comparison.results.configuration, comparison.results.head
    machine = head["machine"]
    yield f"### {configuration.title}, {machine['planned_for']['cpu']}\n"
    yield (
        f"Mean GFLOP/s of {head['arguments']['repeat']} runs with 95% confidence intervals, caches "
        f"{'flushed before each' if configuration.cold else 'warm'}; {machine['cpu']}, planned for "
        f"as `{machine['planned_for']['cpu']}`, commit {head['commit']}.\n"
    )
    yield from _picture(f"{title}.svg", "rates relative to oneDNN", drawn)
    yield markdown(tables.peer_columns(comparison), tables.peer_rows(comparison))


def _picture(name: str, what: str, drawn: set[str]) -> Iterator[str]:
    if name in drawn:
        yield f"![{what}]({DATA}/{name})\n"
