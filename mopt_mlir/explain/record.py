"""Explanations as plain data with stable keys, for JSON: see docs/explain.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mopt_mlir.explain.alternatives import Alternative
from mopt_mlir.explain.explanation import CacheUse, Explanation, Forecast, Registers, Transfer
from mopt_mlir.loop_nest import CORES, Loop, Step
from mopt_mlir.plan import Plan

SCHEMA = 1
"""Changes when a key is removed or changes its meaning; new keys do not change it."""


def to_record(explanations: tuple[Explanation, ...]) -> dict[str, Any]:
    """Strings, numbers, lists and dicts. Times are seconds, sizes bytes, rates per second."""
    return {"schema": SCHEMA, "operators": [_operator(e) for e in explanations]}


def _operator(explanation: Explanation) -> dict[str, Any]:
    problem, forecast = explanation.problem, explanation.forecast
    return {
        "name": explanation.name,
        "places": list(explanation.places),
        "dims": dict(problem.extents),
        "element": problem.output.element.value,
        "flops": problem.flops,
        "machine": explanation.machine.name,
        "threads": explanation.plan.threads,
        "cores": explanation.cores,
        "plan": _plan(explanation.plan),
        "nest": [_step(step) for step in explanation.nest],
        "microkernel": _registers(explanation.registers),
        "levels": [_cache(cache) for cache in explanation.caches],
        "prediction": None if forecast is None else _forecast(forecast),
        "unpredicted": explanation.unpredicted or None,
        "alternatives": [_alternative(a) for a in explanation.alternatives],
        "notes": list(explanation.notes),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    """As in the attribute `mopt.plan`, without a prediction."""
    return replace(plan, prediction=None).as_dict()


def _step(step: Step) -> dict[str, Any]:
    if isinstance(step, Loop):
        return {
            "kind": "loop",
            "name": step.name,
            "dim": step.dim,
            "band": step.band,
            "extent": step.extent,
            "step": step.step,
            "trips": step.trips,
            "parallel": step.band == CORES,
        }
    return {
        "kind": "pack",
        "place": step.place,
        "sizes": dict(step.sizes),
        "bytes": step.bytes,
        "cores": step.cores,
    }


def _registers(use: Registers) -> dict[str, Any]:
    return {
        "lanes": use.lanes,
        "vector": use.vector,
        "vectors": use.vectors,
        "broadcasts": use.broadcasts,
        "accumulators": use.accumulators,
        "registers_used": use.used,
        "registers_available": use.available,
        "fmas_per_step": use.accumulators,
        "loads_per_step": use.loads,
        "fma_cycles_per_step": use.fma_cycles,
        "load_cycles_per_step": use.load_cycles,
        "cycles_per_step": use.step_cycles,
        "latency_cycles": use.latency,
        "lanes_useful": use.useful,
    }


def _cache(cache: CacheUse) -> dict[str, Any]:
    return {
        "level": cache.name,
        "tile": dict(cache.tile),
        "class": cache.order_class,
        "footprint": dict(cache.footprint),
        "footprint_bytes": cache.bytes,
        "usable_bytes": cache.usable,
        "cache_bytes": cache.size,
        "filled": cache.filled,
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    return {
        "seconds": forecast.seconds,
        "lower_bound": forecast.bound,
        "gap": forecast.gap,
        "bottleneck": forecast.prediction.bottleneck,
        "flops_per_second": forecast.performance,
        "peak_flops_per_second": forecast.peak,
        "microkernel_flops_per_second": forecast.compute_roof,
        "compute_seconds": forecast.prediction.seconds["compute"],
        "packing_seconds": forecast.prediction.seconds["packing"],
        "core_slack": forecast.core_slack,
        "parallel_seconds": forecast.starting_seconds,
        "transfers": [_transfer(transfer) for transfer in forecast.transfers],
    }


def _transfer(transfer: Transfer) -> dict[str, Any]:
    return {
        "from": transfer.source,
        "into": transfer.into,
        "volumes": dict(transfer.volumes),
        "bytes": transfer.bytes,
        "bandwidth": transfer.bandwidth,
        "seconds": transfer.seconds,
        "slack": transfer.slack,
        "flops_per_byte": transfer.intensity,
        "roof_flops_per_second": transfer.roof,
    }


def _alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        "kind": alternative.kind,
        "level": alternative.level or None,
        "change": alternative.change,
        "fits": alternative.loss is not None,
        "loss": alternative.loss,
        "bottleneck": alternative.bottleneck,
        "obstacle": alternative.obstacle or None,
        "plan": _plan(alternative.plan),
    }
