"""From a problem, a machine and a plan to an explanation, by the formulas of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isclose, prod

from mopt_mlir.explain.alternatives import Alternative, runners_up
from mopt_mlir.explain.completion import NotPredictableError, completed
from mopt_mlir.explain.explanation import CacheUse, Explanation, Forecast, Registers, Transfer
from mopt_mlir.loop_nest import LoopNest
from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import MEMORY, breakdown, busy_times, class_names, prediction_of
from mopt_mlir.model.microkernel import load_cycles, tile_kinds
from mopt_mlir.model.rates import Rates
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import Plan, Prediction
from mopt_mlir.problem import Problem

INTO = dict(zip(MEMORY, ("registers", "L1", "L2", "L3"), strict=True))
"""What each memory resource fills with its data."""

COMMON = "DRAM"
"""The resource whose volumes and bandwidth are those of all cores together."""


def explain(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    *,
    name: str = "operator",
    places: tuple[str, ...] = (),
    constant_weights: bool = False,
    rivals: Iterable[Plan] = (),
) -> Explanation:
    """Why `plan` is what it is, for `problem` on `machine`.

    `constant_weights` says that the weights are known when code is generated. `rivals` are other
    plans for the same, such as the solver's, to compare with; a bound that they carry is taken
    over. What the plan itself says of its prediction is not used, but for the bound, if it says
    of its cost what is predicted now. Raises ValueError, naming the field, where the plan does not
    fit the problem.
    """
    plan.check(problem)
    rivals = tuple(rivals)
    caches = _caches(problem, machine, plan)
    registers = _registers(problem, machine, plan)
    notes = [*_spilled(registers), *_overfull(caches)]
    forecast: Forecast | None = None
    alternatives: tuple[Alternative, ...] = ()
    unpredicted = ""
    try:
        whole = completed(problem, machine, plan)
    except NotPredictableError as reason:
        unpredicted = str(reason)
    else:
        found = breakdown(problem, machine, whole, constant_weights=constant_weights)
        now = prediction_of(problem, machine, whole, found)
        proven = (plan, *rivals) if _is_of_these_figures(plan, now) else rivals
        forecast = _forecast(problem, machine, plan.cores, now, proven)
        alternatives = runners_up(
            problem, machine, whole, constant_weights=constant_weights, rivals=rivals
        )
        notes += [*_stored_again(plan, found.visits), *_without_levels(plan, whole)]
    return Explanation(
        name=name,
        places=places,
        problem=problem,
        machine=machine,
        plan=plan,
        nest=LoopNest.of(problem, plan, constant_weights=constant_weights).steps,
        registers=registers,
        caches=caches,
        forecast=forecast,
        unpredicted=unpredicted,
        alternatives=alternatives,
        notes=tuple(notes),
    )


def _registers(problem: Problem, machine: Machine, plan: Plan) -> Registers:
    kernel = plan.microkernel
    extent = problem.extent(kernel.lanes)
    vectors = -(-min(kernel.extent(kernel.lanes), extent) // kernel.vector)
    rows = prod(
        min(size, problem.extent(dim)) for dim, size in kernel.tile.items() if dim != kernel.lanes
    )
    kinds = tile_kinds(problem, machine, kernel, panels=plan.reads_panels)
    whole = next(kind.tile for kind in kinds if not kind.partial)
    return Registers(
        lanes=kernel.lanes,
        vector=kernel.vector,
        vectors=vectors,
        broadcasts=rows,
        available=machine.vector_registers,
        fma_cycles=whole.accumulators * whole.slots / machine.fma_per_cycle,
        load_cycles=load_cycles(machine, whole.load_slots),
        latency=machine.fma_latency,
        step_cycles=whole.step_cycles(machine),
        useful=extent / (-(-extent // kernel.vector) * kernel.vector),
    )


def _caches(problem: Problem, machine: Machine, plan: Plan) -> tuple[CacheUse, ...]:
    classes = class_names(problem, plan)
    return tuple(
        CacheUse(
            name=level.name,
            tile=dict(level.tile),
            order_class=classes[level.name],
            footprint=cache_bytes(
                problem,
                machine,
                level.name,
                level.tile,
                panels=plan.reads_panels,
                packs=plan.packing == level.name,
            ),
            usable=usable(machine, level.name),
            size=machine.cache(level.name).size,
        )
        for level in plan.levels
    )


def _spilled(use: Registers) -> Iterator[str]:
    if use.used > use.available:
        yield (
            f"the microkernel needs {use.used} vector registers, and there are {use.available}: "
            "some of what it holds will go through memory, which the model does not know"
        )


def _overfull(caches: Iterable[CacheUse]) -> Iterator[str]:
    for cache in caches:
        if cache.filled > 1:
            yield (
                f"the tile of {cache.name} takes {cache.filled:.0%} of what tiles may fill: the "
                "model counts on tiles that stay in their cache, and more data will move than it "
                "predicts"
            )


def _stored_again(plan: Plan, visits: int) -> Iterator[str]:
    if plan.nontemporal and visits > 1:
        yield (
            f"register tiles are stored past the caches at each of their {visits} visits: "
            "predicted as if they went through the caches"
        )


def _without_levels(plan: Plan, whole: Plan) -> Iterator[str]:
    """Of the levels that `whole`, the plan as it was predicted, has beyond those of `plan`."""
    missing = [level.name for level in whole.levels[: len(whole.levels) - len(plan.levels)]]
    if missing:
        yield (
            f"the plan has no {' and '.join(missing)}: predicted as if a tile there held the whole "
            "problem, which is the same loop nest"
        )


def _is_of_these_figures(plan: Plan, now: Prediction) -> bool:
    """Whether what `plan` says of itself is what is predicted `now`: else it was made for other
    figures, perhaps of a machine with the same name, and so was its bound."""
    told = plan.prediction
    return told is not None and isclose(told.cost, now.cost, rel_tol=1e-6)


def _forecast(
    problem: Problem,
    machine: Machine,
    cores: int,
    prediction: Prediction,
    proven: Iterable[Plan],
) -> Forecast:
    """`proven` are plans whose predictions may carry a bound."""
    rates = Rates.of(machine, cores)
    moved = {name: sum(prediction.volumes[name].values()) for name in MEMORY}
    core = busy_times(prediction.seconds)["core"]
    starting = prediction.seconds["parallel"]
    bound, undercut = _bounds(machine, prediction.cost, proven)
    slowest = max(core, starting, *(prediction.seconds[name] for name in MEMORY))
    transfers = []
    for source in MEMORY:
        sharing = 1 if source == COMMON else cores
        intensity = problem.flops / (moved[source] * sharing)
        transfers.append(
            Transfer(
                source=source,
                into=INTO[source],
                volumes=dict(prediction.volumes[source]),
                bandwidth=rates.bytes[source],
                seconds=prediction.seconds[source],
                slack=1 - prediction.seconds[source] / slowest,
                intensity=intensity,
                roof=problem.flops / prediction.seconds[source],
            )
        )
    return Forecast(
        prediction=prediction,
        transfers=tuple(transfers),
        core_seconds=core,
        core_slack=1 - core / slowest,
        starting_seconds=starting,
        slowest=slowest,
        performance=problem.flops / prediction.cost,
        compute_roof=problem.flops / prediction.seconds["compute"],
        peak=1e9 * machine.peak(problem.output.element, cores),
        bound=bound,
        undercut=undercut,
    )


def _bounds(
    machine: Machine, cost: float, proven: Iterable[Plan]
) -> tuple[float | None, float | None]:
    """The best bound among the plans' for this machine of those that can be one for a plan of
    `cost`; if there is none of these, None and the best of those that it undercuts."""
    predictions = [plan.prediction for plan in proven if plan.machine == machine.name]
    bounds = [told.lower_bound for told in predictions if told is not None and told.lower_bound > 0]
    bound = max((bound for bound in bounds if bound <= cost), default=None)
    return bound, max(bounds, default=None) if bound is None else None
