"""The tables of the report: rows of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import isnan, log, nan
from statistics import fmean, median, pstdev

import numpy as np

from mopt_mlir.model.cost import MEMORY
from mopt_mlir.wording import counted

from ..comparison import SIZES, describe_sizes
from ..environment import short_commit
from ..latency import MEMORY as MEMORY_CHAIN
from ..latency import PARTS
from ..runner import sizes_of
from .accuracy import ERRORS, error_of_good_plans, lost_by_chance, noise_of_good_plans
from .aftereffects import aftereffect
from .criteria import OWN, SAMPLE, USUAL_LOSS, figures, mean_apart
from .judgement import Point, Trial, Verdict
from .orders import MODELS, orders
from .repeats import Repeat

Rows = list[list[str]]

LOSS_COLUMNS = (
    "operator",
    SIZES,
    "best sampled, GFLOP/s",
    "top-1",
    "top-2",
    "top-5",
    "top-1 +-",
    "top-1, judged apart",
    "own, GFLOP/s",
    "of peak",
    "own, top-1",
    "own, top-5",
    "own +-",
    "own, judged apart",
    "A/A",
    "Spearman",
    "Kendall",
)
MACHINE_COLUMNS = (
    "trial",
    "planned for",
    "vectors",
    "caches",
    "kernel",
    "commit",
    "measured on",
    "random plans",
    "final rounds",
    "protocol",
    "scatter of rounds",
)
APART = "mean, judged apart"
ORDER_COLUMNS = (
    "trial",
    *(
        f"{what} {model}"
        for what in ("Spearman:", "of good plans:", "mean loss:")
        for model in MODELS
    ),
    *(f"among candidates: {model}" for model in MODELS),
)
TIME_COLUMNS = ("trial", "own plans and candidates", "sample", "sample: bound by memory")
REPEAT_COLUMNS = (
    "trial",
    "hours later",
    "code",
    "plans",
    "time differs: median",
    "time differs: 90%",
    "Spearman of then and now",
    "of good plans",
    "fastest then, lost now: mean",
    "worst",
    "within 3%",
    "model's choice lost: then",
    "now",
    "own plan lost: then",
    "now",
)
AFTEREFFECT_COLUMNS = ("trial", "of the reference beside a plan, repeatedly")
ACCURACY_COLUMNS = (
    "trial",
    "error of the model",
    "of that, by measuring",
    "mean loss",
    *(f"{what} by {error:.0%}" for error in ERRORS for what in ("if off", "all reached if off")),
)
LATENCY_COLUMNS = ("trial", "looks", *PARTS, MEMORY_CHAIN)


def figure_tables(trials: Sequence[Trial]) -> Iterator[tuple[str, list[str], Rows]]:
    """The title, columns and rows of each group of figures to reach: a line for each trial."""
    found = {trial.title: figures(trial) for trial in trials}
    for group, some in groupby(next(iter(found.values())), lambda figure: figure.group):
        columns = ["trial", *(f"{figure.title} ({figure.target})" for figure in some)]
        rows = [
            [title, *(figure.cell for figure in all_ if figure.group == group)]
            for title, all_ in found.items()
        ]
        if group in (OWN, SAMPLE):
            columns.append(APART)
            for row, trial in zip(rows, trials, strict=True):
                row.append(percent(mean_apart(trial, group)))
        yield group, columns, rows


def machine_rows(trials: Iterable[Trial]) -> Rows:
    """What each trial was measured on, with which code, when, and how: random plans of each
    operator, in how many rounds the best meet, by which protocol, and by how much the ratios of a
    plan differ from round to round, the median of all plans."""
    rows = []
    for trial in trials:
        machine = trial.head["machine"]
        planned = machine["planned_for"]
        caches = ", ".join(f"{c['name']} {c['size'] >> 10} KiB" for c in planned["caches"])
        commit, day = short_commit(trial.head["commit"]), trial.head["date"][:10]
        vectors = f"{planned['vector_bits']}-bit"
        cpu = f"`{planned['cpu']}`"
        plans = max((len(verdict.sample) for verdict in trial.verdicts), default=0)
        rounds = str(trial.head["final_rounds"])
        protocol = str(trial.head["must_agree"].get("protocol", 1))
        scatter = percent(median([*spread_of_rounds(trial)] or [nan]))
        host = [trial.title, cpu, vectors, caches, machine["system"]]
        rows.append([*host, commit, day, str(plans), rounds, protocol, scatter])
    return rows


def order_rows(trials: Iterable[Trial]) -> Rows:
    """For each trial how well each model orders its plans: rank correlations with measured times,
    of good plans as well, and what its choice loses, among the sample and among the candidates."""
    rows = []
    for trial in trials:
        if any(verdict.sample for verdict in trial.verdicts):
            found = [*orders(trial.verdicts)]
            ranks = [order.spearman for order in found] + [order.good for order in found]
            losses = [order.loss for order in found] + [order.chosen for order in found]
            rows.append([trial.title, *map(number, ranks), *map(percent, losses)])
    return rows


def time_rows(trials: Iterable[Trial]) -> Rows:
    """For each trial how many times as long as predicted plans take."""
    rows = []
    for trial in trials:
        points = [point for verdict in trial.verdicts for point in verdict.points.values()]
        groups = (
            [point for point in points if not point.sampled],
            [point for point in points if point.sampled],
            [p for p in points if p.sampled and p.prediction.bottleneck in MEMORY],
        )
        rows.append([trial.title, *map(_times_as_long, groups)])
    return rows


def _times_as_long(points: Sequence[Point]) -> str:
    if not points:
        return ""
    ratios = [point.seconds / point.prediction.cost for point in points]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return f"{middle:.2f} ({low:.2f} to {high:.2f}), {counted(len(points), 'plan')}"


def loss_rows(trial: Trial) -> Rows:
    """A line for each operator."""
    peaks = [verdict.peak_gflops for verdict in trial.verdicts]
    return [_loss_row(verdict, median(peaks)) for verdict in trial.verdicts]


def _loss_row(verdict: Verdict, peak: float) -> list[str]:
    sample, own = verdict.sample, verdict.own
    rate = verdict.gflops(own) if own else float("nan")
    return [
        verdict.name,
        describe_sizes(sizes_of(verdict.workload)),
        f"{verdict.gflops(verdict.best_sampled):.1f}" if sample else "",
        *(percent(verdict.top_loss(k)) if sample else "" for k in (1, 2, 5)),
        percent(verdict.noise_of_top) if sample else "",
        percent(verdict.top_apart) if sample else "",
        f"{rate:.1f}" if own else "",
        f"{rate / peak:.0%}" if own else "",
        *(percent(verdict.chosen_loss(k)) for k in (1, 5)),
        percent(verdict.noise),
        percent(verdict.apart),
        percent(verdict.again),
        number(verdict.spearman) if sample else "",
        number(verdict.kendall) if sample else "",
    ]


def repeat_rows(repeats: Iterable[Repeat]) -> Rows:
    """A line for each trial that repeats another one."""
    return [
        [
            repeat.trial.title,
            f"{repeat.hours:.0f}",
            "the same" if repeat.is_same_code else "another",
            str(repeat.plans),
            percent(repeat.shift(0.5)),
            percent(repeat.shift(0.9)),
            number(repeat.spearman(good=False)),
            number(repeat.spearman(good=True)),
            percent(repeat.mean_loss),
            f"{percent(repeat.losses[repeat.worst])} ({repeat.worst})",
            f"{sum(loss <= USUAL_LOSS for loss in repeat.losses.values())} of {len(repeat.losses)}",
            *(percent(repeat.model_loss(day)) for day in (0, 1)),
            *(percent(repeat.own_loss(day)) for day in (0, 1)),
        ]
        for repeat in repeats
    ]


def accuracy_rows(trials: Iterable[Trial]) -> Rows:
    """For each trial what the model loses, and what predictions would that are off by chance."""
    rows = []
    for trial in trials:
        verdicts = [verdict for verdict in trial.verdicts if verdict.sample]
        if not verdicts:
            continue
        model = fmean(verdict.top_loss(1) for verdict in verdicts)
        own = (error_of_good_plans(verdicts), noise_of_good_plans(verdicts), model)
        lost = (lost_by_chance(verdicts, error) for error in ERRORS)
        cells = (text for found in lost for text in (percent(found.mean), f"{found.reached:.0%}"))
        rows.append([trial.title, *map(percent, own), *cells])
    return rows


def aftereffect_rows(trials: Sequence[Trial]) -> Rows:
    found = ((trial.title, aftereffect(trial)) for trial in trials)
    return [[title, percent(effect)] for title, effect in found if not isnan(effect)]


def latency_rows(trials: Iterable[Trial]) -> Rows:
    """What loads took during each trial in which it was looked at, in nanoseconds."""
    rows = []
    for trial in trials:
        if trial.latencies:
            looks = [look.nanoseconds for look in trial.latencies]
            by_chain = ([look[chain] for look in looks] for chain in LATENCY_COLUMNS[2:])
            cells = (np.quantile(found, (0.5, 0.1, 0.9)) for found in by_chain)
            texts = (f"{middle:.1f} ({low:.1f} to {high:.1f})" for middle, low, high in cells)
            rows.append([trial.title, str(len(looks)), *texts])
    return rows


# ---- texts --------------------------------------------------------------------------------------


def percent(value: float) -> str:
    return "" if isnan(value) else f"{value:.1%}"


def number(value: float) -> str:
    return "" if isnan(value) else f"{value:.2f}"


def spread_of_rounds(trial: Trial) -> Iterator[float]:
    """The deviation of the logarithms of each plan's ratios, over its rounds."""
    for verdict in trial.verdicts:
        for point in verdict.points.values():
            if len(point.ratios) > 2:
                yield pstdev(map(log, point.ratios))
