"""What a plan costs: seconds and volumes per resource, and the objective that the solver minimises.

This is the definition of the model, for one plan at a time; the solver has the same formulas over
arrays of tiles, and a test holds them equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.classes import class_name, reuse_of
from mopt_mlir.model.footprint import footprint
from mopt_mlir.model.microkernel import count_register_tiles, register_work, tile_kinds
from mopt_mlir.model.volume import Tiling, count_tiles, live_order, volume, whole
from mopt_mlir.plan import LEVELS, Plan, Prediction
from mopt_mlir.problem import Problem

MEMORY: tuple[str, ...] = ("L1", "L2", "L3", "DRAM")
"""Resources that move data, each named after where it is read from."""

TENSORS = ("input", "weights", "output")

FILLED_FROM = {"L3": "DRAM", "L2": "L3", "L1": "L2"}
"""The resource that the tiles of a level occupy."""

OUTPUT_PASSES = 2
"""An output tile is read into a cache and written back (stores allocate their line)."""

TIE_BREAK = 0.05
"""Weight of the sum of all resources beside the maximum: resources overlap well, not perfectly, and
the pure min-max is heavily degenerate."""

PACK_CYCLES = 0.35
"""Cycles to move one weight into its panel: loads, a transposition in registers and stores, as
measured on Zen 5 for filters of 1x1 and 3x3 that are packed per block."""


@dataclass(frozen=True)
class Rates:
    """Bytes per second of each resource with `cores` active: of one core for the caches, of all
    together for DRAM; cycles per second of a core."""

    cores: int
    cycles: float
    bytes: Mapping[str, float]

    @staticmethod
    def of(machine: Machine, cores: int) -> Rates:
        rates = {
            cache.name: 1e9 * min(cache.bandwidth, cache.bandwidth_all / cores)
            for cache in machine.caches
        }
        rates["DRAM"] = 1e9 * min(machine.dram_bandwidth * cores, machine.dram_bandwidth_all)
        return Rates(cores, 1e9 * machine.frequency, rates)


def objective(seconds: Mapping[str, float]) -> float:
    """The slowest resource plus a little of all; a core computes and packs one after the other."""
    core = seconds["compute"] + seconds["packing"]
    busy = (core, *(seconds[name] for name in MEMORY))
    return max(busy) + TIE_BREAK * sum(busy)


def usable(machine: Machine, level: str) -> float:
    """Bytes of the cache `level` that tiles may fill."""
    return machine.capacity_factor * machine.cache(level).size


def tile_bytes(problem: Problem, tile: Mapping[str, int]) -> int:
    """Bytes that a tile touches."""
    return sum(t.element.size * footprint(problem, t, tile) for t in problem.tensors)


@dataclass(frozen=True)
class _Walk:
    """One core's way through the tiles of a plan: the busiest core's, which is the first.

    `outer` is what each level's tiles are cut from: the problem, the core's share of an L3 tile, an
    L2 tile.
    """

    levels: tuple[Tiling, ...]
    outer: tuple[Tiling, ...]
    covered: Mapping[str, int]
    register_tiles: Mapping[str, tuple[int, int]]


def predict(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    *,
    constant_weights: bool = False,
    lower_bound: float = 0.0,
) -> Prediction:
    """Evaluate `plan`, which must have the three levels of LEVELS and fit `problem`.

    With `constant_weights` the packing is done at compile time and costs nothing. Volumes are
    bytes: of the busiest core for L1 to L3, of all cores for DRAM. Raises ValueError for a plan
    without all levels.
    """
    if tuple(level.name for level in plan.levels) != LEVELS:
        raise ValueError(f"the model needs a plan with the levels {', '.join(LEVELS)}")
    rates = Rates.of(machine, prod(plan.parallel.values()))
    walk = _walk(problem, plan)
    kinds = tile_kinds(problem, machine, plan.microkernel, panels=plan.packing != "none")
    work = register_work(kinds, {d: walk.register_tiles[d] for d in problem.parallel_dims})
    visits = _visits(problem, plan, walk)
    moved = _moved(problem, plan, walk)
    elements = (work.input, work.weights, work.output + work.output_per_visit * visits)
    moved["L1"] = dict(zip(TENSORS, elements, strict=True))
    packed = 0.0
    if plan.packing != "none" and not constant_weights:
        packed = _pack(problem, plan.packing, moved, rates.cores)
    sizes = dict(zip(TENSORS, (t.element.size for t in problem.tensors), strict=True))
    sizes["packing"] = problem.weights.element.size
    volumes = {
        resource: {name: sizes[name] * amount for name, amount in moved[resource].items()}
        for resource in MEMORY
    }
    seconds = {
        "compute": (work.cycles + work.cycles_per_visit * visits) / rates.cycles,
        **{name: sum(volumes[name].values()) / rates.bytes[name] for name in MEMORY},
        "packing": packed * PACK_CYCLES / rates.cycles,
    }
    return Prediction(
        seconds=seconds,
        volumes=volumes,
        classes={level.name: class_name(problem, level.order) for level in plan.levels},
        bottleneck=max(seconds, key=lambda name: seconds[name]),
        cost=objective(seconds),
        lower_bound=lower_bound,
    )


def _walk(problem: Problem, plan: Plan) -> _Walk:
    l3, l2, l1 = (level.tile for level in plan.levels)
    share, covered, register_tiles = {}, {}, {}
    counts: tuple[dict[str, int], ...] = ({}, {}, {})
    for dim in problem.names:
        extent, unit = problem.extent(dim), plan.microkernel.extent(dim)
        share[dim] = min(plan.core_tile(dim, extent), l3[dim])
        full, rest = divmod(extent, l3[dim])
        pieces = ((full, share[dim]), (1, min(share[dim], rest)))
        covered[dim] = sum(number * piece for number, piece in pieces)
        for count, sizes in zip(counts, ([], [l2[dim]], [l2[dim], l1[dim]]), strict=True):
            count[dim] = sum(number * count_tiles(piece, sizes) for number, piece in pieces)
        register_tiles[dim] = count_register_tiles(covered[dim], unit, extent)
    levels = tuple(map(Tiling, (l3, l2, l1), counts))
    outer = (whole(problem), Tiling(share, counts[0]), levels[1])
    return _Walk(levels, outer, covered, register_tiles)


def _visits(problem: Problem, plan: Plan, walk: _Walk) -> int:
    """How often the accumulators of one register tile are stored.

    Once per L1 tile of the reduction; but where L1 tiles are single register tiles, the kernel runs
    through the reduction loops inside all others in one go (unless it has to stop for packing).
    """
    level, tiling, outer = plan.levels[-1], walk.levels[-1], walk.outer[-1]
    kernel = plan.microkernel
    streams: frozenset[str] = frozenset()
    single = all(level.tile[dim] <= kernel.extent(dim) for dim in problem.parallel_dims)
    if single and plan.packing != level.name:
        streams = reuse_of(problem, live_order(problem, level.order, tiling, outer))[-1].inside
    return prod((outer if d in streams else tiling).tiles[d] for d in problem.reduction_dims)


def _moved(problem: Problem, plan: Plan, walk: _Walk) -> dict[str, dict[str, float]]:
    """Elements per resource and tensor that fill the tiles of each level."""
    moved: dict[str, dict[str, float]] = {}
    for level, tiling, outer in zip(plan.levels, walk.levels, walk.outer, strict=True):
        # What enters L3 enters it once for all cores; the inner caches belong to one core.
        covered = problem.extents if level.name == "L3" else walk.covered
        reuse = reuse_of(problem, live_order(problem, level.order, tiling, outer))
        moved[FILLED_FROM[level.name]] = {
            name: volume(problem, tensor, how, tiling, outer, covered)
            * (OUTPUT_PASSES if tensor is problem.output else 1)
            for name, tensor, how in zip(TENSORS, problem.tensors, reuse, strict=True)
        }
    return moved


def _pack(problem: Problem, packing: str, moved: dict[str, dict[str, float]], cores: int) -> float:
    """Elements that one core packs; adds the traffic of packing to `moved`.

    The weights of a tile are packed whenever that tile enters the level's cache. Each element is
    then read up to the registers and written back as part of a panel, through every cache inside.
    In front of the nest and at L3, which is common to all cores, they share the work.
    """
    once = prod(problem.extent(dim) for dim in problem.weights.dims)
    shared = packing in ("whole", "L3")
    elements = once if packing == "whole" else moved[FILLED_FROM[packing]]["weights"]
    passed = MEMORY if packing == "whole" else MEMORY[: MEMORY.index(packing) + 1]
    mine = elements / cores if shared else elements
    for resource in passed:
        moved[resource]["packing"] = 2 * (elements if resource == "DRAM" else mine)
    return mine
