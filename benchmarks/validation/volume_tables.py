"""The tables of the report that compare predicted volumes with simulated ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import isnan, nan
from statistics import median

import numpy as np

from mopt_mlir.model.cost import MEMORY
from mopt_mlir.problem import TENSORS

from .criteria import LEAST_VOLUMES, where_slowest
from .judgement import Flow, Trial
from .tables import Rows, percent
from .volumes import ASSOCIATIVE

VOLUME_COLUMNS = (
    "from",
    "own plans and candidates: median error",
    "sample: median error",
    "by tiles alone",
    "predicted / simulated, 10% to 90%",
    "where slowest: plans",
    "where slowest: median error",
    "where slowest: 90%",
    "where slowest when simulated: plans",
    "where slowest when simulated: median error",
    "conflicts: median",
    "conflicts: 90%",
)
SUMMARY_COLUMNS = (
    "from",
    "own plans and candidates",
    "sample",
    "sample, where slowest",
    "where slowest when simulated",
)
TENSOR_COLUMNS = ("trial", "from", "tensor", "own plans and candidates", "sample")

OFF = 0.05
"""How far a tensor's volumes have to be off to be worth telling."""

CHECK_COLUMNS = ("operator", "L1 misses", "by valgrind", "L2 misses", "by valgrind")


def volume_rows(trial: Trial) -> Rows:
    """A line for each resource that moves data; errors are |predicted / simulated - 1|. Plans that
    were picked for their slowest memory count where that is looked at, and nowhere else."""
    rows = []
    sample = _drawn(trial)
    looked_at = sample or _chosen(trial)
    for resource in MEMORY if looked_at else ():
        low, high = np.quantile([flow.ratio(resource) for flow in looked_at], [0.1, 0.9])
        slowest = where_slowest(trial, resource)
        found = where_slowest(trial, resource, simulated=True)
        conflicts = [flow.conflicts(resource) for flow in sample]
        rows.append(
            [
                resource,
                *map(percent, (_error(_chosen(trial), resource), _error(sample, resource))),
                percent(median(abs(f.ratio_of_tiles(resource) - 1) for f in looked_at)),
                f"{low:.2f} to {high:.2f}",
                str(len(slowest)),
                *(percent(_error(slowest, resource, part)) for part in (0.5, 0.9)),
                str(len(found)),
                percent(_error(found, resource)),
                f"{median(conflicts):.2f}" if conflicts else "",
                f"{np.quantile(conflicts, 0.9):.2f}" if conflicts else "",
            ]
        )
    return rows


def summary_rows(trials: Sequence[Trial]) -> Rows:
    """A line for each resource, over all trials with volumes: the median of their median errors,
    the least and the largest."""
    rows = []
    for resource in MEMORY if any(trial.flows for trial in trials) else ():
        slowest = [where_slowest(trial, resource) for trial in trials]
        found = [where_slowest(trial, resource, simulated=True) for trial in trials]
        groups = (
            [_chosen(trial) for trial in trials],
            [_drawn(trial) for trial in trials],
            [flows for flows in slowest if len(flows) >= LEAST_VOLUMES],
            [flows for flows in found if len(flows) >= LEAST_VOLUMES],
        )
        rows.append([resource, *(_over_trials(group, resource) for group in groups)])
    return rows


def _over_trials(groups: Iterable[Sequence[Flow]], resource: str) -> str:
    errors = [_error(flows, resource) for flows in groups if flows]
    if not errors:
        return ""
    return f"{percent(median(errors))} ({percent(min(errors))} to {percent(max(errors))})"


def _chosen(trial: Trial) -> list[Flow]:
    """Own plans and candidates."""
    return [flow for flow in trial.flows if not flow.sampled]


def _drawn(trial: Trial) -> list[Flow]:
    """Sampled plans that were not picked for their slowest memory."""
    return [flow for flow in trial.flows if flow.sampled and not flow.picked]


def tensor_rows(trials: Iterable[Trial]) -> Rows:
    """Predicted / simulated volume by resource and tensor, where it is off: the median of own
    plans, then of the sample."""
    rows = []
    for trial, resource, tensor in product(trials, MEMORY, (*TENSORS, "packing")):
        medians = _tensor_medians(trial, resource, tensor)
        if any(abs(ratio - 1) > OFF for ratio in medians):
            cells = ("" if isnan(ratio) else f"{ratio:.2f}" for ratio in medians)
            rows.append([trial.title, resource, tensor, *cells])
    return rows


def _tensor_medians(trial: Trial, resource: str, tensor: str) -> list[float]:
    """NaN where there is none."""

    def ratios(sampled: bool) -> list[float]:
        pairs = (
            (f.expected.resident[resource].get(tensor, 0), f.found[ASSOCIATIVE][resource][tensor])
            for f in trial.flows
            if f.sampled == sampled and not f.picked
        )
        return [predicted / found for predicted, found in pairs if predicted and found]

    return [median(r) if r else nan for r in (ratios(False), ratios(True))]


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


def _error(flows: Iterable[Flow], resource: str, quantile: float = 0.5) -> float:
    """NaN for no plans."""
    errors = [abs(flow.ratio(resource) - 1) for flow in flows]
    return float(np.quantile(errors, quantile)) if errors else nan
