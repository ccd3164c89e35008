"""What a plan costs: seconds and volumes per resource, and the objective that the solver minimises.

This is the definition of the model, for one plan at a time; the solver has the same formulas over
arrays of tiles, and a test holds them equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.machine.machine import Cache, Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.classes import class_name, reuse_of
from mopt_mlir.model.footprint import output_runs
from mopt_mlir.model.microkernel import (
    RegisterWork,
    TileCounts,
    count_register_tiles,
    register_work,
    tile_kinds,
)
from mopt_mlir.model.packing import (
    IN_COMMON,
    PACK_PASSES,
    cycles_per_weight,
    first_block_seconds,
    in_place_wait,
)
from mopt_mlir.model.rates import OUTPUT_PASSES, STREAMED_PASSES, Rates
from mopt_mlir.model.room import line_bytes, usable
from mopt_mlir.model.volume import Pieces, Tiling, cut, live_order, volume, whole
from mopt_mlir.plan import LEVELS, Plan, Prediction
from mopt_mlir.problem import TENSORS, Problem
from mopt_mlir.vector_access import keeps_sums_in_output, streams_whole_vectors

MEMORY: tuple[str, ...] = ("L1", "L2", "L3", "DRAM")
"""Resources that move data, each named after where it is read from."""

FILLED_FROM = {"L3": "DRAM", "L2": "L3", "L1": "L2"}
"""The resource that is busy while the tiles of a level are filled, in the order of LEVELS."""

PARALLEL_START = 5e-6
"""Seconds to hand work to other cores and to wait for the last one; nothing overlaps with it."""

EXPOSED: Mapping[str, float] = {"core": 0.05, "L1": 0.05, "L2": 0.12, "L3": 0.05, "DRAM": 0.05}
"""Part of each resource's time that comes on top of the slowest one's: resources overlap well, not
perfectly, and the pure min-max is heavily degenerate. (L2's was tried with own plans of all three
sets on Zen 4: those that change take 2.2% less time with AVX2 code than with 0.05.)"""


def exposed_parts(machine: Machine) -> Mapping[str, float]:
    """`EXPOSED` on a machine, which may know better of its caches. Where its vectors take several
    slots, what a core has in flight keeps it busy for a part of each miss of L1, as in predicted
    times. (Own plans of AVX-512 code on Zen 4 that change take 0.6% less time for it.)"""
    known = {cache.name: cache.exposed for cache in machine.caches if cache.exposed is not None}
    parts = {**EXPOSED, **known}
    return {**parts, "L2": parts["L2"] / machine.slots(machine.vector_bits)}


def objective(machine: Machine, seconds: Mapping[str, float]) -> float:
    """The slowest resource plus a little of all; a core computes and packs one after the other, and
    all resources wait while work is handed out."""
    parts, busy = exposed_parts(machine), busy_times(seconds)
    share = sum(parts[name] * time for name, time in busy.items())
    return seconds["parallel"] + max(busy.values()) + share


def busy_times(seconds: Mapping[str, float]) -> dict[str, float]:
    """How long the core, which computes and packs one after the other, and each memory are busy."""
    core = seconds["compute"] + seconds["packing"]
    return {"core": core, **{name: seconds[name] for name in MEMORY}}


def bottleneck(seconds: Mapping[str, float]) -> str:
    """What takes longest; of the core what most of its time goes to."""
    times = {**busy_times(seconds), "parallel": seconds["parallel"]}
    slowest = max(times, key=lambda name: times[name])
    if slowest == "core":
        return "packing" if seconds["packing"] > seconds["compute"] else "compute"
    return slowest


def passed_by_packing(place: str) -> tuple[str, ...]:
    """Resources through which weights and panels go when they are packed at `place`: those up to
    its cache, or all if it is none."""
    return MEMORY[: MEMORY.index(place) + 1] if place in LEVELS else MEMORY


def can_stream(problem: Problem, machine: Machine, kernel: Microkernel, cores: int) -> bool:
    """Whether non-temporal stores of the output by `cores` cores serve a purpose and can be made by
    `kernel`.

    They do where the output would not stay in the last cache, or where it takes less to have it
    read from memory later than to keep it; but not where its lines are read before they are
    written.
    """
    if problem.accumulates:
        return False
    output = problem.output
    size = output.element.size * problem.points(output.dims)
    kept = next((c for c in machine.caches if size <= usable(machine, c.name)), None)
    serves = kept is None or _streaming_pays(machine, kept, cores)
    return serves and streams_whole_vectors(output, kernel)


def _streaming_pays(machine: Machine, kept: Cache, cores: int) -> bool:
    """Whether writing past the caches saves more than is lost by who reads the output next, from
    memory and not from the cache that would have `kept` it.

    So it is with slow memory, an L3 that is hardly faster, and stores that wait for lines: on
    Granite Rapids a pointwise convolution with 5 MB of output takes 21% less time past the caches.
    """
    if machine.dram_write_bandwidth is None or machine.dram_stream_bandwidth is None:
        return False
    rates = Rates.of(machine.at_rest, cores)
    saved = rates.write_passes - rates.stream_passes
    return saved > 1 - rates.bytes["DRAM"] / (cores * rates.bytes[kept.name])


@dataclass(frozen=True)
class _Walk:
    """One core's way through the tiles of a plan: the busiest core's, which is the first.

    `levels` are the tiles of each level, those of L3 for all cores; `outer` is what they are cut
    from: the problem, the core's shares of L3 tiles, L2 tiles.
    """

    levels: tuple[Tiling, ...]
    outer: tuple[Tiling, ...]
    register_tiles: TileCounts


@dataclass(frozen=True)
class Breakdown:
    """What the busiest core does for a plan, and the seconds that are not those of a volume."""

    rates: Rates
    work: RegisterWork
    register_tiles: TileCounts
    """Its register tiles along each output dim."""
    visits: int
    """Of each register tile, as its reduction is cut into so many pieces."""
    volumes: Mapping[str, Mapping[str, float]]
    """Bytes by resource and tensor, of DRAM those of all cores."""
    streamed: bool
    """Whether the output is written past the caches."""
    packing_seconds: float
    first_block_seconds: float
    """Until the first block of packed weights is there."""
    runs_seconds: float
    """What memory takes for the output's pieces, beside its volumes."""
    sums_seconds: float
    """What memory takes for partial sums, beside its volumes."""
    rows_seconds: float
    """What the core waits for weights in place."""

    @property
    def compute_seconds(self) -> float:
        """Of the core, but for packing and `rows_seconds`."""
        cycles = self.work.cycles + self.work.cycles_per_visit * self.visits
        return cycles / self.rates.cycles

    def moving_seconds(self, resource: str) -> float:
        """What the volumes of a resource take."""
        volumes = self.volumes[resource]
        if resource != "DRAM":
            return sum(volumes.values()) / self.rates.bytes[resource]
        read = sum(amount for name, amount in volumes.items() if name != "output")
        written = volumes["output"] / (STREAMED_PASSES if self.streamed else OUTPUT_PASSES)
        passes = self.rates.stream_passes if self.streamed else self.rates.write_passes
        return (read + passes * written) / self.rates.bytes["DRAM"]


def predict(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    *,
    constant_weights: bool = False,
    lower_bound: float = 0.0,
) -> Prediction:
    """Evaluate `plan`, which must have the three levels of LEVELS and fit `problem`.

    With `constant_weights`, packing them as a whole is done at compile time and costs nothing.
    Volumes are bytes: of the busiest core for L1 to L3, of all cores for DRAM. Raises ValueError
    for a plan without all levels.
    """
    found = breakdown(problem, machine, plan, constant_weights=constant_weights)
    return prediction_of(problem, machine, plan, found, lower_bound=lower_bound)


def prediction_of(
    problem: Problem, machine: Machine, plan: Plan, found: Breakdown, *, lower_bound: float = 0.0
) -> Prediction:
    """What `predict` returns for `plan`, of which the breakdown is `found` already."""
    tiles = prod(-(-problem.extent(dim) // plan.levels[0].tile[dim]) for dim in problem.names)
    seconds = {
        "compute": found.compute_seconds + found.rows_seconds,
        **{name: found.moving_seconds(name) for name in MEMORY[:-1]},
        "DRAM": found.moving_seconds("DRAM") + found.runs_seconds + found.sums_seconds,
        "packing": found.packing_seconds + found.first_block_seconds,
        "parallel": PARALLEL_START * tiles * (found.rates.cores > 1),
    }
    return Prediction(
        seconds=seconds,
        volumes=found.volumes,
        classes=class_names(problem, plan),
        bottleneck=bottleneck(seconds),
        cost=objective(machine, seconds),
        lower_bound=lower_bound,
    )


def class_names(problem: Problem, plan: Plan) -> dict[str, str]:
    """The class of the loop order of each level of `plan`."""
    names = {}
    for position, level in enumerate(plan.levels):
        outer = plan.outer_tile(problem, position)
        live = {dim for dim in problem.names if level.tile[dim] < outer[dim]}
        names[level.name] = class_name(problem, level.order, live)
    return names


def breakdown(
    problem: Problem, machine: Machine, plan: Plan, *, constant_weights: bool = False
) -> Breakdown:
    """What `predict` adds up, with the same arguments and errors."""
    if tuple(level.name for level in plan.levels) != LEVELS:
        raise ValueError(f"the model needs a plan with the levels {', '.join(LEVELS)}")
    rates = Rates.of(machine, plan.cores)
    walk = _walk(problem, plan)
    register_tiles = {dim: walk.register_tiles[dim] for dim in problem.parallel_dims}
    kinds = tile_kinds(problem, machine, plan.microkernel, panels=plan.reads_panels)
    work = register_work(kinds, register_tiles)
    visits = _visits(problem, plan, walk)
    moved = _moved(problem, machine, plan, walk)
    streamed = plan.nontemporal and visits == 1 and not problem.accumulates
    if streamed:
        moved["DRAM"]["output"] *= STREAMED_PASSES / OUTPUT_PASSES
    accessed = (work.input, work.weights, work.output + work.output_per_visit * visits)
    moved["L1"] = dict(zip(TENSORS, accessed, strict=True))
    packing = first_block = 0.0
    if plan.packs(constant_weights=constant_weights):
        packed, traffic = _packing(problem, plan.packing, moved, rates.cores)
        for resource, elements in traffic.items():
            moved[resource]["packing"] = elements
        packing = packed * cycles_per_weight(problem, machine, plan) / rates.cycles
        first_block = first_block_seconds(problem, machine, plan)
    sizes = dict(zip(TENSORS, (t.element.size for t in problem.tensors), strict=True))
    sizes["packing"] = problem.weights.element.size
    volumes = {
        resource: {name: sizes[name] * amount for name, amount in moved[resource].items()}
        for resource in MEMORY
    }
    wait = in_place_wait(problem, machine, plan.microkernel)
    in_place = volumes["L3"]["weights"] if not plan.reads_panels else 0.0
    return Breakdown(
        rates=rates,
        work=work,
        register_tiles=register_tiles,
        visits=visits,
        volumes=volumes,
        streamed=streamed,
        packing_seconds=packing,
        first_block_seconds=first_block,
        runs_seconds=0.0 if streamed else rates.run * output_runs(problem, plan.levels[-1].tile),
        sums_seconds=sums_seconds(problem, machine, plan),
        rows_seconds=wait * in_place / rates.bytes["L3"],
    )


def sums_seconds(problem: Problem, machine: Machine, plan: Plan) -> float:
    """The part of the seconds of DRAM in which memory for partial sums comes and goes, at least.

    Sums that do not wait in the output (`keeps_sums_in_output`) wait in scratch memory, which no
    cache has at first: those of all tiles of a level, on each core, if the loops around them split
    the reduction. (Those of more tiles if other loops lie inside of these; the solver sees to that
    among plans of the same cost. Those of L1 tiles are few.)
    """
    if keeps_sums_in_output(problem, plan.microkernel):
        return 0.0
    rates = Rates.of(machine, plan.cores)
    outer, waiting = problem.extents, 0
    for level, cores in zip(plan.levels[:-1], (1, rates.cores), strict=True):
        if any(level.tile[dim] < outer[dim] for dim in problem.reduction_dims):
            waiting = max(waiting, cores * prod(level.tile[d] for d in problem.parallel_dims))
        outer = level.tile
    return OUTPUT_PASSES * problem.output.element.size * waiting / rates.bytes["DRAM"]


def _walk(problem: Problem, plan: Plan) -> _Walk:
    share, register_tiles = {}, {}
    counts: tuple[dict[str, Pieces], ...] = ({}, {}, {}, {})
    for dim in problem.names:
        extent, unit = problem.extent(dim), plan.microkernel.extent(dim)
        l3, l2, l1 = (level.tile[dim] for level in plan.levels)
        share[dim] = plan.core_tile(dim, extent)
        tiles = cut({extent: 1}, l3)
        mine: Counter[int] = Counter()
        for size, number in tiles.items():
            mine[min(share[dim], size)] += number
        inner = cut(mine, l2)
        for found, pieces in zip(counts, (tiles, mine, inner, cut(inner, l1)), strict=True):
            found[dim] = pieces
        covered = sum(size * number for size, number in mine.items())
        register_tiles[dim] = count_register_tiles(covered, unit, extent)
    l3_tile, l2_tile, l1_tile = (level.tile for level in plan.levels)
    of_l3, of_core, of_l2, of_l1 = map(Tiling, (l3_tile, share, l2_tile, l1_tile), counts)
    return _Walk((of_l3, of_l2, of_l1), (whole(problem), of_core, of_l2), register_tiles)


def visits_of(problem: Problem, plan: Plan) -> int:
    """How often the accumulators of one register tile are stored, as `Breakdown.visits`."""
    return _visits(problem, plan, _walk(problem, plan))


def _visits(problem: Problem, plan: Plan, walk: _Walk) -> int:
    """How often the accumulators of one register tile are stored.

    Once per L1 tile of the reduction; but where L1 tiles are single register tiles, the kernel runs
    through the reduction loops inside all others in one go (unless it has to stop for packing).
    """
    level, tiling, outer = plan.levels[-1], walk.levels[-1], walk.outer[-1]
    kernel = plan.microkernel
    carried: frozenset[str] = frozenset()
    single = all(level.tile[dim] <= kernel.extent(dim) for dim in problem.parallel_dims)
    if single and plan.packing != level.name:
        carried = reuse_of(problem, live_order(problem, level.order, tiling, outer))[-1].inside
    return prod((outer if d in carried else tiling).tiles[d] for d in problem.reduction_dims)


def _moved(
    problem: Problem, machine: Machine, plan: Plan, walk: _Walk
) -> dict[str, dict[str, float]]:
    """Elements per resource and tensor that fill the tiles of each level. (What enters L3 enters it
    once for all cores; the inner caches belong to one core.)"""
    moved: dict[str, dict[str, float]] = {}
    panels = plan.reads_panels
    for level, tiling, outer in zip(plan.levels, walk.levels, walk.outer, strict=True):
        reuse = reuse_of(problem, live_order(problem, level.order, tiling, outer))
        found = moved[FILLED_FROM[level.name]] = {}
        for name, tensor, how in zip(TENSORS, problem.tensors, reuse, strict=True):
            line = line_bytes(problem, machine, tensor, level.name, panels)
            passes = OUTPUT_PASSES if tensor is problem.output else 1
            found[name] = passes * volume(problem, tensor, how, tiling, outer, line)
    return moved


def _packing(
    problem: Problem, packing: str, moved: Mapping[str, Mapping[str, float]], cores: int
) -> tuple[float, dict[str, float]]:
    """Elements that one core packs, and by resource those that packing moves.

    The weights of a tile are packed whenever that tile enters the level's cache. Each element is
    then read up to the registers and written back as part of a panel, through every cache inside.
    In front of the nest and at L3, which is common to all cores, they share the work.
    """
    once = problem.points(problem.weights.dims)
    elements = once if packing == "whole" else moved[FILLED_FROM[packing]]["weights"]
    mine = elements / cores if packing in IN_COMMON else elements
    return mine, {
        resource: PACK_PASSES * (elements if resource == "DRAM" else mine)
        for resource in passed_by_packing(packing)
    }
