"""The pages beside validation.md: what was found of each trial, each comparison, each constant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mopt_mlir.wording import counted

from ..comparison import Comparison
from ..document import filled, markdown
from ..peers import REGISTRY
from . import faults, misses, peers, prose, tables, volume_tables
from .constants import CONSTANT_COLUMNS, constant_rows
from .criteria import USUAL_LOSS
from .judgement import Trial
from .simulations import MOST_CHECKED

ARTICLE = "validation.md"

Sections = Iterator[str]


@dataclass(frozen=True)
class Findings:
    """What there is to write about: trials, comparisons by the title of their file, and the names
    of the plots that were drawn."""

    trials: Sequence[Trial]
    comparisons: Mapping[str, Comparison]
    drawn: frozenset[str]

    @property
    def pages(self) -> list[str]:
        """The names of the pages that have something to tell."""
        return [name for name in PAGES if self.comparisons or name != "comparison.md"]

    def picture(self, name: str, what: str) -> Sections:
        """A plot in a page beside it, if it was drawn."""
        if name in self.drawn:
            yield f"![{what}]({name})\n"


def losses(found: Findings) -> Sections:
    yield prose.LOSSES
    for trial in found.trials:
        yield from _losses(trial, found)


def _losses(trial: Trial, found: Findings) -> Sections:
    yield f"## {trial.title}\n"
    counters = any(p.counters for v in trial.verdicts for p in v.points.values())
    wrong = sum(len(verdict.wrong) for verdict in trial.verdicts)
    plans = sum(len(verdict.points) for verdict in trial.verdicts) + wrong
    never = sum(len(verdict.unmeasured) for verdict in trial.verdicts)
    yield (
        f"{plans} plans, of which {wrong} gave wrong results; {never} more could not "
        f"be measured. Hardware counters: {'recorded' if counters else 'none on this host'}.\n"
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
    yield from found.picture(f"{trial.title}-losses.svg", "loss of each operator")
    yield markdown(tables.LOSS_COLUMNS, tables.loss_rows(trial))
    yield from found.picture(f"{trial.title}-times.svg", "predicted and measured times")
    yield from found.picture(f"{trial.title}-orders.svg", "plans in predicted order")


def misjudged(found: Findings) -> Sections:
    introduction = prose.MISSES.format(
        usual=USUAL_LOSS,
        noticeable=misses.NOTICEABLE,
        enough=misses.ENOUGH,
        article=f"../{ARTICLE}",
    )
    yield filled(introduction)
    yield markdown(misses.REASON_COLUMNS, misses.reason_rows(found.trials))
    for trial in found.trials:
        yield f"## {trial.title}\n"
        for some, what in (
            (misses.own_misses(trial), "Own plans"),
            (misses.sample_misses(trial), "Choices among the sample"),
        ):
            if rows := misses.miss_rows(some):
                yield f"{what} that lose more than {USUAL_LOSS:.0%}:\n"
                yield markdown(misses.MISS_COLUMNS, rows)
    if off := faults.group_rows(found.trials):
        yield prose.KINDS.format(off=faults.OFF, enough=faults.ENOUGH)
        yield markdown(faults.GROUP_COLUMNS, off)


def volumes(found: Findings) -> Sections:
    yield prose.VOLUMES_PAGE
    if any(flow.valgrind for trial in found.trials for flow in trial.flows):
        yield prose.CHECKS.format(most=MOST_CHECKED)
    for trial in found.trials:
        if trial.flows:
            yield f"## {trial.title}\n"
            yield f"Of {_simulated(trial)}; {_given_up(trial)}.\n"
            yield markdown(volume_tables.VOLUME_COLUMNS, volume_tables.volume_rows(trial))
            if checked := volume_tables.check_rows(trial):
                yield "Beside valgrind's counts:\n"
                yield markdown(volume_tables.CHECK_COLUMNS, checked)
    if off := volume_tables.tensor_rows(found.trials):
        yield prose.TENSORS.format(off=volume_tables.OFF)
        yield markdown(volume_tables.TENSOR_COLUMNS, off)


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
    return f"{counted(len(trial.given_up), 'plan')} given up{f' ({each})' if each else ''}"


def comparison(found: Findings) -> Sections:
    yield prose.COMPARISON_PAGE
    for name, one in found.comparisons.items():
        yield from _comparison(name, one, found)


def _comparison(name: str, one: Comparison, found: Findings) -> Sections:
    configuration, head = one.results.configuration, one.results.head
    machine = head["machine"]
    yield f"## {peers.title_of(one)}\n"
    yield (
        f"Mean GFLOP/s of {head['arguments']['repeat']} runs with 95% confidence intervals, caches "
        f"{'flushed before each' if configuration.cold else 'warm'}; {machine['cpu']}, planned for "
        f"as `{machine['planned_for']['cpu']}`, commit {head['commit'] or 'unknown'}, "
        f"{head['date'][:10]}.\n"
    )
    versions = {record.peer: record.version for record in one.results.records}
    titles = ", ".join(f"{REGISTRY[peer].title} {versions[peer]}" for peer in one.peers)
    yield f"Versions: {titles}.\n"
    yield from found.picture(f"{name}.svg", "rates relative to oneDNN")
    yield markdown(peers.columns(one), peers.rows(one))
    if slower := peers.slower(one):
        yield f"Ours is slower than the best other on {'; '.join(slower)}.\n"
    if undecided := peers.undecided(one):
        yield f"It may be slower on {'; '.join(undecided)}.\n"


def constants(_: Findings) -> Sections:
    yield prose.CONSTANTS
    yield markdown(CONSTANT_COLUMNS, constant_rows())


PAGES: Mapping[str, tuple[Callable[[Findings], Sections], str]] = {
    "losses.md": (losses, "what choices lose on each operator, with the plots"),
    "misjudged.md": (misjudged, "each choice that loses, and why"),
    "volumes.md": (volumes, "data volumes of each trial, and by tensor"),
    "comparison.md": (comparison, "each operator beside the other libraries"),
    "constants.md": (constants, "constants that were learnt from plans, and from which"),
}
"""What writes each page, and what it has."""
