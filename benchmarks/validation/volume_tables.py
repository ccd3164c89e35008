"""The tables of the report that compare predicted volumes with simulated ones."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import isnan, nan
from statistics import median

import numpy as np

from mopt_mlir.model.cost import MEMORY
from mopt_mlir.problem import TENSORS

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
TENSOR_COLUMNS = ("trial", "from", "tensor", "own plans and candidates", "sample")

OFF = 0.05
"""How far a tensor's volumes have to be off to be worth telling."""

CHECK_COLUMNS = ("operator", "L1 misses", "by valgrind", "L2 misses", "by valgrind")


def volume_rows(trial: Trial) -> Rows:
    """A line for each resource that moves data; errors are |predicted / simulated - 1|. Plans that
    were picked for their slowest memory count where that is looked at, and nowhere else."""
    rows = []
    sampled = [flow for flow in trial.flows if flow.sampled]
    sample = [flow for flow in sampled if not flow.picked]
    own = [flow for flow in trial.flows if not flow.sampled]
    for resource in MEMORY if sample or own else ():
        slowest = [flow for flow in sampled if flow.expected.slowest_memory == resource]
        found = [flow for flow in sampled if flow.slowest_memory == resource]
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
                _error(slowest, resource, 0.9),
                str(len(found)),
                _error(found, resource),
                f"{median(conflicts):.2f}" if conflicts else "",
                f"{np.quantile(conflicts, 0.9):.2f}" if conflicts else "",
            ]
        )
    return rows


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


def _error(flows: Iterable[Flow], resource: str, quantile: float = 0.5) -> str:
    errors = [abs(flow.ratio(resource) - 1) for flow in flows]
    return percent(float(np.quantile(errors, quantile))) if errors else ""
