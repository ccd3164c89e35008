"""What caches keep of a plan beyond the tiles of their levels, and what else passes through them.

`cost` counts what is reused between one tile and the next, which is all that there is if tiles fill
their caches, as those of a good plan do. A larger cache keeps more: the largest blocks of the nest
that fit, tiles together with what the innermost loops around them step through. A plan whose tiles
are small for their caches then moves what one with larger tiles would, so that this does not change
what is the best; but it is what such a plan really moves. So are the lines of weights of which
packing takes only a part, weights and panels that need not come back, and sums that wait beside the
output.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mopt_mlir.estimate.lines import parts_in_lines
from mopt_mlir.estimate.nest_in_cache import NestInCache
from mopt_mlir.loop_nest import tile_loops
from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.conflicts import crowded_lines, touched_lines
from mopt_mlir.model.cost import FILLED_FROM, visits_of
from mopt_mlir.model.footprint import footprint
from mopt_mlir.model.packing import PACK_PASSES
from mopt_mlir.model.rates import OUTPUT_PASSES
from mopt_mlir.model.room import line_bytes
from mopt_mlir.plan import LEVELS, Plan, Prediction
from mopt_mlir.problem import TENSORS, WEIGHTS, Problem, Tensor
from mopt_mlir.vector_access import keeps_sums_in_output, scalar_operand

CROWDED = ("L2", "L3")
"""Caches of which it counts on which sets the lines of a block fall. (With it choices for Table 1
lose 3.2% on Zen 4 with channels last and AVX2 code, not 5.0%, and as much as before where channels
come first. With L1, too, in which register tiles count their conflicts, they lose more.)"""

Volumes = Mapping[str, Mapping[str, float]]


def resident_volumes(
    problem: Problem, machine: Machine, plan: Plan, prediction: Prediction
) -> Volumes:
    """The volumes of `prediction` in bytes, which is that of `plan`, as they are with what caches
    keep beyond their tiles. Packing happens as often as that says: whenever its tile is entered.

    Raises ValueError for a plan for several cores, or without all levels.
    """
    if plan.cores > 1 or len(plan.levels) < len(LEVELS):
        raise ValueError("what caches keep is known for plans with all levels, for one core")
    found = {name: dict(volumes) for name, volumes in prediction.volumes.items()}
    for depth, level in enumerate(LEVELS, 1):
        lines = [_line_bytes(problem, machine, plan, tensor, level) for tensor in problem.tensors]
        size, sets = machine.cache(level).size, level in CROWDED
        nest = NestInCache(problem, plan, depth, size, lines, sets=sets)
        volumes = found[FILLED_FROM[level]]
        for name, tensor, moved in zip(TENSORS, problem.tensors, nest.entering(), strict=True):
            passes = OUTPUT_PASSES if tensor is problem.output else 1
            entering = passes * tensor.element.size * moved
            if tensor is problem.input or (tensor is problem.weights and _unpacked(plan, level)):
                volumes[name] = entering
            else:  # stores past the caches move less than what passes through them
                volumes[name] = min(volumes[name], entering)
        volumes["output"] += _sums(problem, machine, plan, level)
        kept = _just_packed(problem, machine, plan, level, prediction)
        volumes["weights"] = max(0.0, volumes["weights"] - kept)
    if plan.packing in LEVELS:
        for level, name in FILLED_FROM.items():
            if "packing" in found[name]:
                found[name]["packing"] *= _packed_lines(problem, machine, plan)
                found[name]["packing"] *= _part_fetched(problem, machine, plan, level)
    found["L2"]["input"] = _crowded_input(problem, machine, plan, found["L2"]["input"])
    name, evicted = evicted_again(problem, machine, plan)
    found["L2"][name] += evicted
    return found


def _unpacked(plan: Plan, level: str) -> bool:
    """Whether a cache holds weights as they are, which come in whole lines, and not panels."""
    if plan.packing in LEVELS:
        return LEVELS.index(level) <= LEVELS.index(plan.packing)
    return not plan.reads_panels


def _packed_lines(problem: Problem, machine: Machine, plan: Plan) -> float:
    """How many times as much packing moves as if the weights of a block lay together: their lines
    come in whole."""
    block = plan.packed_block(problem)
    cache = machine.cache(plan.packing)
    lines = prod(
        part.occupied(block[part.axis.image], 1)
        for part in parts_in_lines(problem, problem.weights, cache.line)
    )
    read = lines / footprint(problem, problem.weights, block)
    return (read + PACK_PASSES - 1) / PACK_PASSES


def _part_fetched(problem: Problem, machine: Machine, plan: Plan, level: str) -> float:
    """The part of the packed weights that `level`, a cache inside of the one where they are packed,
    has to fetch for that: of weights that are packed again it may have some still, and panels."""
    depth = LEVELS.index(plan.packing) + 1
    block = plan.packed_block(problem)
    weights = problem.weights
    room = machine.cache(level).size - weights.element.size * footprint(problem, weights, block)
    lines = [machine.cache(level).line] * len(problem.tensors)

    def fetched(capacity: int) -> int:
        return NestInCache(problem, plan, depth, capacity, lines).entering()[WEIGHTS]

    return min(1.0, fetched(max(0, room)) / fetched(0))


def _just_packed(
    problem: Problem, machine: Machine, plan: Plan, level: str, prediction: Prediction
) -> float:
    """Bytes of panels that a cache need not fetch when they are read first, as they were packed
    while it could keep them, beside the weights that they were made of."""
    places = ("whole", *LEVELS[: LEVELS.index(level)])  # outside of this cache
    if level == "L1" or plan.packing not in places:
        return 0.0
    block = plan.packed_block(problem)
    size = problem.weights.element.size * footprint(problem, problem.weights, block)
    packed = prediction.volumes["L1"]["packing"] / PACK_PASSES
    return packed if 2 * size <= machine.cache(level).size else 0.0


def _sums(problem: Problem, machine: Machine, plan: Plan, level: str) -> float:
    """Bytes that a cache exchanges for sums that wait outside of the output, beyond those that come
    and go at each visit.

    If their buffer stays in the cache, it is fetched when it is first written to, and goes back at
    the end. If not, the last visit only reads them, and fetches and writes the output.
    """
    if keeps_sums_in_output(problem, plan.microkernel) or visits_of(problem, plan) == 1:
        return 0.0
    sizes = dict(problem.extents)
    for dim, tile in tile_loops(plan.levels):
        if tile < sizes[dim] and dim in problem.reduction_dims:
            break  # the buffer is for what this loop visits several times
        sizes[dim] = min(sizes[dim], tile)
    buffer, output = (
        problem.output.element.size * footprint(problem, problem.output, part)
        for part in (sizes, problem.extents)
    )
    if buffer <= machine.cache(level).size:
        return OUTPUT_PASSES * buffer
    return output


def _crowded_input(problem: Problem, machine: Machine, plan: Plan, entering: float) -> float:
    """Bytes of input that come from L2, of which `entering` would if L1 kept any tile that fits.

    Lines that fall on a set with too many come whenever a register tile reads them. So it is with
    channels a multiple of 1 KiB apart, such as those of 16x16 pixels: every fourth falls on the
    same set.
    """
    cache, kernel, tile = machine.cache("L1"), plan.microkernel, plan.levels[-1].tile
    block = {dim: tile[dim] for dim in problem.input.dims}
    crowded = crowded_lines(problem.input, block, cache)
    if not crowded:
        return entering
    part = crowded / touched_lines(problem.input, block, cache)
    read = {dim: min(size, kernel.extent(dim)) for dim, size in block.items()}
    read |= {dim: block[dim] for dim in problem.reduction_dims if dim in block}
    tiles = prod(-(-problem.extent(d) // kernel.extent(d)) for d in problem.parallel_dims)
    pieces = prod(-(-problem.extent(dim) // tile[dim]) for dim in problem.reduction_dims)
    lines = touched_lines(problem.input, read, cache) * tiles * pieces
    return max(entering, part * cache.line * lines + (1 - part) * entering)


def evicted_again(problem: Problem, machine: Machine, plan: Plan) -> tuple[str, float]:
    """The operand that is read in scalars, and bytes of it that come from L2 once more in each step
    of a microkernel, since lines of the same register tile have evicted them: all of those on a set
    with too many, if it is the least recently used that are evicted."""
    kernel, cache = plan.microkernel, machine.cache("L1")
    tensor = scalar_operand(problem, kernel)
    rows = {dim: size for dim, size in kernel.tile.items() if dim in tensor.dims}
    steps = problem.points(problem.reduction_dims)
    tiles = prod(-(-problem.extent(d) // kernel.extent(d)) for d in problem.parallel_dims)
    lines = crowded_lines(tensor, rows, cache)
    return TENSORS[problem.tensors.index(tensor)], float(lines * cache.line * steps * tiles)


def _line_bytes(problem: Problem, machine: Machine, plan: Plan, tensor: Tensor, level: str) -> int:
    """As `line_bytes`; sums that wait for the next visit outside of the output have no gaps."""
    if tensor is problem.output and not keeps_sums_in_output(problem, plan.microkernel):
        splits = any(
            p.tile[d] < problem.extent(d) for p in plan.levels for d in problem.reduction_dims
        )
        if splits and level != LEVELS[0]:
            return 0
    return line_bytes(problem, machine, tensor, level, panels=not _unpacked(plan, level))
