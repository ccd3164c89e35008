"""The plots of the report, as the paper has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..plots import svg
from .judgement import Point, Trial, Verdict
from .volumes import ASSOCIATIVE

EXAMPLES = ("R9", "M2", "Y5")
"""The operators of the paper's Fig. 6."""

_BARS = (0.9, 3.0)  # inches for 4 operators, inches
_GRID = (2.6, 1.5)  # inches of each cell
_SCATTER = (4.2, 3.8)
_COLOURS = ("#b2182b", "#ef8a62", "#fddbc7")
_DOT = 6  # points squared


def losses(trial: Trial) -> bytes:
    """SVG: the top-1, top-2 and top-5 losses of each operator among the sample (Fig. 5)."""
    verdicts = [verdict for verdict in trial.verdicts if verdict.sample]

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for turn, (k, colour) in enumerate(zip((1, 2, 5), _COLOURS, strict=True)):
            places = [i + (turn - 1) * 0.27 for i in range(len(verdicts))]
            heights = [100 * verdict.top_loss(k) for verdict in verdicts]
            axes.bar(places, heights, 0.27, color=colour, label=f"top-{k}")
        axes.set_xticks(range(len(verdicts)), [v.name for v in verdicts], rotation=90)
        axes.set_ylabel("loss of performance, %")
        axes.legend()

    return svg((max(4.0, _BARS[0] * len(verdicts) / 4), _BARS[1]), draw)


def orders(trial: Trial, names: Sequence[str] = EXAMPLES) -> bytes:
    """SVG: performance and volumes of the sampled plans of some operators, in the order in which
    the model likes them (Fig. 6). Volumes are those of the hardware's counters where there are any,
    else simulated."""
    verdicts = [v for v in trial.verdicts if v.name in names and v.sample] or list(
        trial.verdicts[: len(names)]
    )

    counted = any(point.counters for verdict in verdicts for point in verdict.sample)
    metrics = _COUNTED if counted else _SIMULATED

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(metrics), len(verdicts), squeeze=False, sharex="col")
        for column, verdict in enumerate(verdicts):
            ranked = sorted(verdict.sample, key=lambda point: point.prediction.cost)
            grid[0][column].set_title(verdict.name)
            grid[-1][column].set_xlabel("plans, the best predicted first")
            for row, (label, metric) in enumerate(metrics):
                values = [metric(trial, verdict, point) for point in ranked]
                pairs = [(i, value) for i, value in enumerate(values) if value is not None]
                axes = grid[row][column]
                if pairs:
                    axes.scatter(*zip(*pairs, strict=True), s=_DOT, color=_COLOURS[0])
                    axes.set_ylim(0, 1.1 * max(value for _, value in pairs) or 1)
                if column == 0:
                    axes.set_ylabel(label)

    return svg((_GRID[0] * len(verdicts), _GRID[1] * len(metrics)), draw)


def times(trial: Trial) -> bytes:
    """SVG: predicted and measured seconds of every plan; own plans stand out."""

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        sample = [point for verdict in trial.verdicts for point in verdict.sample]
        own = [verdict.own for verdict in trial.verdicts if verdict.own is not None]
        for points, colour, label in ((sample, "#67a9cf", "sample"), (own, _COLOURS[0], "own")):
            xs, ys = [p.prediction.cost for p in points], [p.seconds for p in points]
            axes.scatter(xs, ys, s=_DOT, color=colour, label=label, linewidths=0)
        if seconds := [point.seconds for point in own + sample]:
            ends = [min(seconds), max(seconds)]
            axes.plot(ends, ends, color="black", linewidth=0.6)
            axes.set_xscale("log")  # which nothing cannot have
            axes.set_yscale("log")
        axes.set_xlabel("predicted, s")
        axes.set_ylabel("measured, s")
        axes.legend()

    return svg(_SCATTER, draw)


Metric = Callable[[Trial, Verdict, Point], float | None]


def _performance(trial: Trial, verdict: Verdict, point: Point) -> float | None:
    return verdict.gflops(point)


def _volume(resource: str) -> Metric:
    """MB that are read from a resource (and written back to it)."""

    def metric(trial: Trial, verdict: Verdict, point: Point) -> float | None:
        flow = trial.flow_of(verdict.name, point.key)
        return None if flow is None else sum(flow.found[ASSOCIATIVE][resource].values()) / 1e6

    return metric


def _count(*names: str) -> Metric:
    """Millions of events."""

    def metric(trial: Trial, verdict: Verdict, point: Point) -> float | None:
        found = [point.counters[name] for name in names if name in point.counters]
        return sum(found) / 1e6 if found else None

    return metric


_SIMULATED: tuple[tuple[str, Metric], ...] = (
    ("GFLOP/s", _performance),
    ("registers-L1, MB", _volume("L1")),
    ("L1 misses, MB", _volume("L2")),
    ("L2 misses, MB", _volume("L3")),
    ("L3 misses, MB", _volume("DRAM")),
)

_COUNTED: tuple[tuple[str, Metric], ...] = (
    ("GFLOP/s", _performance),
    ("loads, stores, M", _count("L1 loads", "L1 stores")),
    ("L1 misses, M", _count("L1 misses")),
    ("L2 misses, M", _count("L2 misses")),
    ("L3 misses, M", _count("L3 misses")),
)
