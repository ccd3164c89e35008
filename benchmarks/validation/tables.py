"""The tables of the report: rows of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp, isnan, log, prod
from statistics import fmean, median, pstdev

import numpy as np

from mopt_mlir.model.cost import MEMORY, TENSORS

from ..comparison import Comparison, Row, describe_sizes
from ..latency import MEMORY as MEMORY_CHAIN
from ..latency import PARTS
from ..peers import OURS, REGISTRY
from ..runner import sizes_of
from ..summary import geometric_mean
from .accuracy import ERRORS, error_of_good_plans, lost_by_chance
from .criteria import USUAL_LOSS, figures
from .judgement import Flow, Point, Trial, Verdict, residuals
from .repeats import Repeat
from .volumes import ASSOCIATIVE

Rows = list[list[str]]

LOSS_COLUMNS = (
    "operator",
    "k,hxw,c,rxs/stride",
    "best sampled, GFLOP/s",
    "top-1",
    "top-2",
    "top-5",
    "own, GFLOP/s",
    "of peak",
    "own, top-1",
    "own, top-5",
    "+-",
    "A/A",
    "Spearman",
    "Kendall",
)
VOLUME_COLUMNS = (
    "from",
    "own plans: median error",
    "sample: median error",
    "by tiles alone",
    "predicted / simulated, 10% to 90%",
    "where slowest: plans",
    "where slowest: median error",
    "conflicts: median",
    "conflicts: 90%",
)
REPEAT_COLUMNS = (
    "trial",
    "plans",
    "time differs: median",
    "time differs: 90%",
    "fastest before, lost now: mean",
    "worst",
    "within 3%",
    "model's choice lost: then",
    "now",
    "own plan lost: then",
    "now",
)
ACCURACY_COLUMNS = (
    "trial",
    "predictions that are off by",
    "top-1 loss: mean",
    "worst",
    "within 3%",
    "all reached",
)
LATENCY_COLUMNS = ("trial", "looks", *PARTS, MEMORY_CHAIN)
CHECK_COLUMNS = ("operator", "L1 misses", "by valgrind", "L2 misses", "by valgrind")
MISS_COLUMNS = ("operator", "plan", "predicted, ms", "measured, ms", "what")
GROUP_COLUMNS = ("plans with", "number", "measured / predicted", "spread")


def figure_rows(trials: Sequence[Trial]) -> Rows:
    """Each figure to reach, and what each trial found."""
    found = [figures(trial) for trial in trials]
    return [
        [row[0].title, row[0].target, *(figure.cell for figure in row)]
        for row in zip(*found, strict=True)
    ]


def loss_rows(trial: Trial) -> Rows:
    """A line for each operator."""
    return [_loss_row(verdict) for verdict in trial.verdicts]


def _loss_row(verdict: Verdict) -> list[str]:
    sample, own = verdict.sample, verdict.own
    rate = verdict.gflops(own) if own else float("nan")
    return [
        verdict.name,
        describe_sizes(sizes_of(verdict.workload)),
        f"{verdict.gflops(verdict.best_sampled):.1f}" if sample else "",
        *(percent(verdict.top_loss(k)) if sample else "" for k in (1, 2, 5)),
        f"{rate:.1f}" if own else "",
        f"{rate / verdict.peak_gflops:.0%}" if own else "",
        *(percent(verdict.chosen_loss(k)) for k in (1, 5)),
        percent(verdict.noise),
        percent(verdict.again),
        number(verdict.spearman) if sample else "",
        number(verdict.kendall) if sample else "",
    ]


def repeat_rows(repeats: Iterable[Repeat]) -> Rows:
    """A line for each trial that repeats another one."""
    return [
        [
            repeat.trial.title,
            str(repeat.plans),
            percent(repeat.shift(0.5)),
            percent(repeat.shift(0.9)),
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
        losses = [verdict.top_loss(1) for verdict in verdicts]
        usual = sum(loss <= USUAL_LOSS for loss in losses)
        model = f"the model: {percent(error_of_good_plans(verdicts))}"
        cells = [percent(fmean(losses)), percent(max(losses)), f"{usual} of {len(losses)}", ""]
        rows.append([trial.title, model, *cells])
        for error in ERRORS:
            lost = lost_by_chance(verdicts, error)
            cells = [percent(lost.mean), percent(lost.worst), f"{lost.usual:.1f}"]
            rows.append(["", percent(error), *cells, f"{lost.reached:.0%}"])
    return rows


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


def volume_rows(trial: Trial) -> Rows:
    """A line for each resource that moves data."""
    rows = []
    for resource in MEMORY:
        sample = [flow for flow in trial.flows if flow.sampled]
        own = [flow for flow in trial.flows if not flow.sampled]
        slowest = [flow for flow in sample if flow.slowest_memory == resource]
        conflicts = [flow.conflicts(resource) for flow in sample]
        low, high = np.quantile([flow.ratio(resource) for flow in sample or own], [0.1, 0.9])
        rows.append(
            [
                resource,
                _error(own, resource),
                _error(sample, resource),
                percent(median(abs(f.ratio_of_tiles(resource) - 1) for f in sample or own)),
                f"{low:.2f} to {high:.2f}",
                str(len(slowest)),
                _error(slowest, resource),
                f"{median(conflicts):.2f}" if conflicts else "",
                f"{np.quantile(conflicts, 0.9):.2f}" if conflicts else "",
            ]
        )
    return rows


def tensor_rows(trial: Trial) -> Rows:
    """Predicted / simulated volume by resource and tensor, median: own plans, then the sample."""
    return [
        [resource, tensor, *_tensor_cells(trial, resource, tensor)]
        for resource in MEMORY
        for tensor in (*TENSORS, "packing")
    ]


def _tensor_cells(trial: Trial, resource: str, tensor: str) -> list[str]:
    def ratios(sampled: bool) -> list[float]:
        pairs = (
            (f.resident[resource].get(tensor, 0), f.found[ASSOCIATIVE][resource][tensor])
            for f in trial.flows
            if f.sampled == sampled
        )
        return [predicted / found for predicted, found in pairs if predicted and found]

    return [f"{median(r):.2f}" if r else "" for r in (ratios(False), ratios(True))]


def check_rows(trial: Trial) -> Rows:
    """Simulated misses beside valgrind's, of those plans that it ran."""
    return [
        [
            flow.operator,
            *(
                text
                for cache in ("L1", "L2")
                for text in (
                    f"{flow.misses[cache]:,}",
                    f"{flow.valgrind[cache] / flow.misses[cache] - 1:+.1%}",
                )
            ),
        ]
        for flow in trial.flows
        if flow.valgrind
    ]


def miss_rows(trial: Trial) -> Rows:
    """Of each operator whose own plan is beaten by more than usual: that plan, and the best."""
    rows: Rows = []
    for verdict in trial.verdicts:
        own, best = verdict.own, verdict.best
        if own is not None and verdict.chosen_loss(1) > USUAL_LOSS:
            rows += [_miss_row(verdict.name, "own", own), _miss_row("", "best", best)]
    return rows


def _miss_row(operator: str, which: str, point: Point) -> list[str]:
    predicted, measured = 1e3 * point.prediction.cost, 1e3 * point.seconds
    return [operator, which, f"{predicted:.3f}", f"{measured:.3f}", describe(point)]


def describe(point: Point) -> str:
    """A plan in a line: register tile, packing, tiles of each level and their classes."""
    plan = point.plan
    tile = " ".join(f"{dim}{size}" for dim, size in plan.microkernel.tile.items())
    levels = "; ".join(
        f"{level.name} {' '.join(f'{d}{n}' for d, n in level.tile.items())} "
        f"({point.prediction.classes[level.name]})"
        for level in plan.levels
    )
    streamed = ", nontemporal" if plan.nontemporal else ""
    return f"{tile}, packing {plan.packing}{streamed}; {levels}"


# ---- what the model gets wrong ------------------------------------------------------------------

Feature = Callable[[Verdict, Point], str]


def group_rows(trial: Trial) -> Rows:
    """How far measured and predicted times of kinds of plans are apart, relative to the mean of
    their operator: above 1 the model is too kind to them."""
    rows: Rows = []
    for feature in _FEATURES:
        groups: dict[str, list[float]] = {}
        for verdict in trial.verdicts:
            found = residuals(verdict)
            for key, point in verdict.points.items():
                groups.setdefault(feature(verdict, point), []).append(found[key])
        if len(groups) > 1:
            rows += [_group_row(name, groups[name]) for name in sorted(groups, key=_natural)]
    return rows


def _natural(name: str) -> list[str | int]:
    """Sorts numbers in texts by their value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _group_row(name: str, logs: Sequence[float]) -> list[str]:
    return [name, str(len(logs)), f"{exp(fmean(logs)):.2f}", f"{exp(pstdev(logs)):.2f}"]


def _bottleneck(verdict: Verdict, point: Point) -> str:
    return f"bottleneck {point.prediction.bottleneck}"


def _packing(verdict: Verdict, point: Point) -> str:
    return f"packing {point.plan.packing}"


def _lanes(verdict: Verdict, point: Point) -> str:
    return f"lanes over {point.plan.microkernel.lanes}"


def _vectors(verdict: Verdict, point: Point) -> str:
    kernel = point.plan.microkernel
    vectors = kernel.extent(kernel.lanes) // kernel.vector
    return f"{vectors} vectors" if vectors < 5 else "5 vectors or more"


def _rows_of(verdict: Verdict, point: Point) -> str:
    kernel = point.plan.microkernel
    rows = prod(size for dim, size in kernel.tile.items() if dim != kernel.lanes)
    return "rows: 1 to 4" if rows < 5 else "rows: 5 to 8" if rows < 9 else "rows: 9 or more"


def _steps(verdict: Verdict, point: Point) -> str:
    """Of the reduction in a tile of the innermost level: after so many accumulators are stored."""
    tile = point.plan.levels[-1].tile
    steps = prod(tile[dim] for dim in point.plan.microkernel.reduction)
    for most, name in ((3, "1 to 3"), (15, "4 to 15"), (63, "16 to 63")):
        if steps <= most:
            return f"steps of reduction: {name}"
    return "steps of reduction: 64 or more"


_FEATURES: tuple[Feature, ...] = (_bottleneck, _packing, _lanes, _vectors, _rows_of, _steps)


# ---- the comparison with others -----------------------------------------------------------------


def peer_columns(comparison: Comparison) -> list[str]:
    return ["operator", *(REGISTRY[peer].title for peer in comparison.peers)]


def peer_rows(comparison: Comparison) -> Rows:
    """Mean GFLOP/s with 95% confidence intervals; below, how much faster ours are (geometric means
    over the operators that both could do)."""
    rows = [
        [row.operator, *(_mean_rate(row, peer) for peer in comparison.peers)]
        for row in comparison.rows
    ]
    for ours in (OURS, "mopt-5"):
        if ours in comparison.peers:
            cells = [number(_speedup(comparison, ours, peer)) for peer in comparison.peers]
            rows.append([f"{REGISTRY[ours].title} / ...", *cells])
    return rows


def _mean_rate(row: Row, peer: str) -> str:
    record = row.records.get(peer)
    if record is None:
        return ""
    return f"{record.gflops_mean:.1f} +- {record.ci95 or 0:.1f}"


def _speedup(comparison: Comparison, ours: str, peer: str) -> float:
    pairs = [
        (row.records[ours], row.records[peer])
        for row in comparison.rows
        if {ours, peer} <= row.records.keys()
    ]
    return geometric_mean(a.gflops_mean / b.gflops_mean for a, b in pairs)


# ---- texts --------------------------------------------------------------------------------------


def percent(value: float) -> str:
    return "" if isnan(value) else f"{value:.1%}"


def number(value: float) -> str:
    return "" if isnan(value) else f"{value:.2f}"


def _error(flows: Iterable[Flow], resource: str) -> str:
    errors = [abs(flow.ratio(resource) - 1) for flow in flows]
    return f"{median(errors):.1%}" if errors else ""


def spread_of_rounds(trial: Trial) -> Iterator[float]:
    """The deviation of the logarithms of each plan's ratios, over its rounds."""
    for verdict in trial.verdicts:
        for point in verdict.points.values():
            if len(point.ratios) > 2:
                yield pstdev(map(log, point.ratios))
