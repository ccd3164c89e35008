"""The kinds of plans that the model misjudges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import exp, log, prod
from statistics import fmean, pstdev

from .judgement import Point, Trial, residuals
from .tables import Rows

GROUP_COLUMNS = ("trial", "plans with", "number", "measured / predicted", "spread")

OFF = 0.05
"""How far a kind of plans has to be off to be worth telling."""

ENOUGH = 10
"""Plans of a kind, from which on it is told how far they are off."""

Feature = Callable[[Point], str]


def group_rows(trials: Iterable[Trial]) -> Rows:
    """Kinds of plans whose measured and predicted times are far apart, relative to the mean of
    their operator: above 1 the model is too kind to them."""
    return [[trial.title, *row] for trial in trials for row in _far(trial)]


def _far(trial: Trial) -> Rows:
    rows: Rows = []
    for feature in _FEATURES:
        groups: dict[str, list[float]] = {}
        for verdict in trial.verdicts:
            found = residuals(verdict)
            for key, point in verdict.points.items():
                groups.setdefault(feature(point), []).append(found[key])
        if len(groups) > 1:
            far = (
                name
                for name, logs in groups.items()
                if len(logs) >= ENOUGH and abs(fmean(logs)) > log(1 + OFF)
            )
            rows += [_group_row(name, groups[name]) for name in sorted(far, key=_natural)]
    return rows


def _natural(name: str) -> list[str | int]:
    """Sorts numbers in texts by their value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _group_row(name: str, logs: Sequence[float]) -> list[str]:
    return [name, str(len(logs)), f"{exp(fmean(logs)):.2f}", f"{exp(pstdev(logs)):.2f}"]


def _bottleneck(point: Point) -> str:
    return f"bottleneck {point.prediction.bottleneck}"


def _packing(point: Point) -> str:
    return f"packing {point.plan.packing}"


def _lanes(point: Point) -> str:
    return f"lanes over {point.plan.microkernel.lanes}"


def _vectors(point: Point) -> str:
    kernel = point.plan.microkernel
    vectors = kernel.extent(kernel.lanes) // kernel.vector
    return f"{vectors} vectors" if vectors < 5 else "5 vectors or more"


def _rows_of(point: Point) -> str:
    kernel = point.plan.microkernel
    rows = prod(size for dim, size in kernel.tile.items() if dim != kernel.lanes)
    return "rows: 1 to 4" if rows < 5 else "rows: 5 to 8" if rows < 9 else "rows: 9 or more"


def _steps(point: Point) -> str:
    """Of the reduction in a tile of the innermost level: after so many accumulators are stored."""
    tile = point.plan.levels[-1].tile
    steps = prod(tile[dim] for dim in point.plan.microkernel.reduction)
    for most, name in ((3, "1 to 3"), (15, "4 to 15"), (63, "16 to 63")):
        if steps <= most:
            return f"steps of reduction: {name}"
    return "steps of reduction: 64 or more"


_FEATURES: tuple[Feature, ...] = (_bottleneck, _packing, _lanes, _vectors, _rows_of, _steps)
