"""How many cycles register tiles take, and what they read and write.

A microkernel is an outer product of `vectors` vectors and `rows` broadcast elements, repeated over
the reduction dims with all of its accumulators in registers; `menu` has those that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.conflicts import conflicting_lines
from mopt_mlir.model.stores import output_cycles, store_cycles
from mopt_mlir.problem import Problem, Tensor
from mopt_mlir.vector_access import (
    keeps_sums_in_output,
    scalar_operand,
)

LOOP_CYCLES = 0.25
"""Per reduction step: what the loop costs beyond its FMAs, where these take one slot each. A
machine may say otherwise for `mopt_mlir.estimate`."""

LATENCY_NORM = 6
"""The exponent of the norm in which issue slots and latency add up: tiles whose accumulators just
cover the latency do not reach it, those with twice as many feel nothing of it."""

ISSUE_NORM = 12
"""The exponent of the norm in which FMAs and loads add up, which compete for less. A machine may
say otherwise for the objective."""

LOAD_OVERHEAD = 1.05
"""How many times as long as its slots say a step takes to load. We take it for prefetches, which
need slots as well: microkernels that are timed by themselves have none, and do without this factor.
Good sampled plans that load as often as they multiply take 4 to 5% longer than others that would be
predicted to take as long without it, with AVX2 code on Zen 5, and 1 to 2% with AVX-512 code."""

CALL_CYCLES = 10.0
"""Per visit, beside storing and loading sums: its first addresses, and what does not overlap with
the visit before. (Cutting a reduction of 256 channels into up to 32 pieces, with sums that stay in
L1, costs 0 to 10 cycles for each on Zen 4.)"""

CONFLICT_CYCLES = 3.0
"""For each line too many in a set of L1: one of them comes from L2 at each use (measured)."""

SAME_SETS_CYCLES = 3.0
"""For each line of weights in place that a step loads, where those of all steps fall on the same
sets of L1: none stays there until the next register tile, and they are pages apart, so that nothing
foresees them. Measured on Zen 4 with operations of one slot and HWCF filters of 1024 and 2048
channels: those of 1056 channels cost 0.2."""

SAME_SETS_POWER = 2.5
"""The power of `gcd(pitch, way) / way`, of the pitch of rows of weights and the bytes of a way of
L1, by which such lines cost less where those of all steps share more sets than one. Measured like
that with 512 channels, 0.45 cycles, and 256, 0.15."""

APART_CYCLES = 0.15
"""More for each line of weights in place, if operations take one slot. (Where pitches have nothing
in common, lines cost 0.1 cycles more than packed ones, with warm caches. But own plans of AVX2 code
for filters of 64 to 384 channels take 4.7% less time, cold, where the model packs 26 of 28 than
where it packs two; with AVX-512 code it is all the same.)"""

INSIDE_LINE_CYCLES = 0.6
"""For the weights in place that a step loads, where the rows of steps begin anywhere in lines:
there is one line more. (Measured on Zen 4 with HWCF filters of 2883 channels, not 2880, and
register tiles of 12 to 24 accumulators: 0.1 to 1.6 cycles.)"""

EVICTED_STORE_CYCLES = 4.0
"""For each line of output too many in a set of L1: a store waits for it, and for the one that is
written back first. A machine may say otherwise."""

EVICTED_SUMS_CYCLES = 15.0
"""For each such line of sums. Measured on Zen 5 where later register tiles evict them, when they
were still loaded before the first outer product: 9 to 17."""


class RegisterWork(NamedTuple):
    """What register tiles need when each output tile is visited `visits` times.

    Compute takes `cycles + cycles_per_visit * visits`; the registers exchange `input + weights +
    output + output_per_visit * visits` elements with L1. (More than one visit means that a
    reduction dim is split at some level: accumulators go back to memory in between. The first visit
    loads nothing, unless the problem accumulates, so `cycles` and `output` carry a negative part.)
    """

    cycles: float = 0.0
    cycles_per_visit: float = 0.0
    input: float = 0.0
    weights: float = 0.0
    output: float = 0.0
    output_per_visit: float = 0.0


@dataclass(frozen=True)
class TileOperations:
    """What a core does for one register tile: in each step, at each visit, and once."""

    steps: int
    """Outer products, over all reduction dims."""
    accumulators: int
    """FMAs of a step."""
    slots: int
    """Issue slots of each FMA (`Machine.slots`)."""
    load_slots: float
    """Those of the loads of a step."""
    waiting_cycles: float
    """In a step, for lines that were evicted, or that a load crosses."""
    stored_cycles: float
    """In which the sums are stored, at each visit."""
    evicted_cycles: float
    """For lines of sums that were evicted, at each visit."""
    sum_lines: float
    """Lines of sums that a visit leaves to the next one."""
    finish_cycles: float
    """In which the sums are stored to the output, once."""
    input: int
    """Elements that a step reads."""
    weights: int
    """Elements that a step reads."""
    output: int
    """Elements that are written, once."""
    accumulates: bool = False
    """Whether the first visit reads what is written."""

    def step_cycles(self, machine: Machine) -> float:
        """Cycles of one of the outer products, all that it waits for included."""
        issued = issue_cycles(machine, self.accumulators * self.slots, self.load_slots)
        return loop_cycles(self.slots) + issued + self.waiting_cycles

    def work(self, machine: Machine) -> RegisterWork:
        """As if visits did not overlap with each other."""
        save = self.stored_cycles + self.evicted_cycles
        restore = self.accumulators * self.slots / machine.loads_per_cycle
        saved = save + (0.0 if self.accumulates else restore)
        return RegisterWork(
            cycles=self.steps * self.step_cycles(machine) + self.finish_cycles - saved,
            cycles_per_visit=CALL_CYCLES + save + restore,
            input=self.input * self.steps,
            weights=self.weights * self.steps,
            output=0 if self.accumulates else -self.output,
            output_per_visit=2 * self.output,
        )


TileCounts = Mapping[str, tuple[int, int]]
"""Register tiles along each output dim: whole ones, and at most one partial one."""


@dataclass(frozen=True)
class TileKind:
    """A register tile that is partial in some dims (their remainder) and whole in the others."""

    partial: frozenset[str]
    tile: TileOperations
    work: RegisterWork


def vector_slots(problem: Problem, machine: Machine, kernel: Microkernel) -> int:
    """The issue slots that an operation on vectors of `kernel` takes."""
    return machine.slots(8 * problem.output.element.size * kernel.vector)


def issue_cycles(machine: Machine, fmas: int, loads: float) -> float:
    """Cycles of one step of the outer product, of slots of FMAs and of loads.

    FMAs and loads take their issue slots, and the accumulation chain its latency, as every
    accumulator is updated once per step; the longest of the three counts, and a little of those
    that are close to it. Without `LOAD_OVERHEAD`, but with `loop_cycles`, this is within
    5% of what most tiles of 1x7 to 10x2 take by themselves on Zen 5, with 256 and with 512 bits,
    and within 15% of what any takes.
    """
    fma, load = fmas / machine.fma_per_cycle, load_cycles(machine, loads)
    issued = norm(machine.issue_norm or ISSUE_NORM, fma, load)
    return norm(LATENCY_NORM, issued, machine.fma_latency)


def loop_cycles(slots: int) -> float:
    """Cycles of one step that the loop takes beside `issue_cycles`. A core whose FMAs take several
    `slots` each goes on issuing meanwhile, so that the loop hides behind them."""
    return LOOP_CYCLES if slots == 1 else 0.0


def waiting_part(slots: int) -> float:
    """Part of what a step waits for that does not hide behind operations of so many slots. (That a
    quarter is left with two was measured on Zen 4, with 512 bits.)"""
    return 1 / slots**2


def load_cycles(machine: Machine, loads: float) -> float:
    """Cycles in which a core can issue the slots of `loads`, with what else takes such slots."""
    return LOAD_OVERHEAD * loads / machine.loads_per_cycle


def norm(exponent: float, *values: float) -> float:
    """The p-norm of `values`, p being `exponent`: a smooth maximum, the sharper the higher p."""
    return float(sum(value**exponent for value in values) ** (1 / exponent))


def tile_kinds(
    problem: Problem, machine: Machine, kernel: Microkernel, *, panels: bool
) -> tuple[TileKind, ...]:
    """The whole and the partial register tiles of `problem`, with the work of one such tile over
    all reduction dims; `panels` says whether weights are packed. A remainder of pixels or channels
    is a smaller kernel of its own; a remainder of lanes still computes whole vectors."""
    sizes = []
    for dim in {kernel.lanes: 1, **kernel.tile}:
        unit = min(kernel.extent(dim), problem.extent(dim))
        rest = problem.extent(dim) % kernel.extent(dim)
        sizes.append([(dim, unit, False)] + ([(dim, rest, True)] if 0 < rest < unit else []))
    kinds = []
    for tile in product(*sizes):
        extents = {dim: size for dim, size, _ in tile}
        found = _register_tile(problem, machine, kernel, extents, panels=panels)
        partial = frozenset(dim for dim, _, partial in tile if partial)
        kinds.append(TileKind(partial, found, found.work(machine)))
    return tuple(kinds)


def count_register_tiles(covered: int, unit: int, extent: int) -> tuple[int, int]:
    """(whole, partial) register tiles of `unit` in `covered` points of a dim of `extent`; a dim
    that is smaller than the register tile is one whole tile."""
    whole, rest = divmod(covered, min(unit, extent))
    return whole, int(rest > 0)


def register_work(kinds: Iterable[TileKind], counts: TileCounts) -> RegisterWork:
    """The work of one core that visits these register tiles."""
    totals = RegisterWork()
    for kind in kinds:
        number = tiles_of(kind, counts)
        totals = RegisterWork(*(a + number * b for a, b in zip(totals, kind.work, strict=True)))
    return totals


def tiles_of(kind: TileKind, counts: TileCounts) -> int:
    """How many of the register tiles are of a kind."""
    return prod(counts[dim][dim in kind.partial] for dim in counts)


def _register_tile(
    problem: Problem,
    machine: Machine,
    kernel: Microkernel,
    tile: Mapping[str, int],
    *,
    panels: bool,
) -> TileOperations:
    steps = problem.points(problem.reduction_dims)
    rows = prod(size for dim, size in tile.items() if dim != kernel.lanes)
    vectors = -(-tile[kernel.lanes] // kernel.vector)
    width = vectors * kernel.vector
    slots = vector_slots(problem, machine, kernel)
    crossing = 0.0 if panels else _crossing(problem, machine, kernel)
    input_, weights = rows, width  # elements that a step reads
    if kernel.lanes in problem.input.dims:
        input_, weights = width, rows
    crossed = (machine.crossing_cycles or 0.0) * vectors * crossing
    in_place = 0.0 if panels else _in_place_cycles(problem, machine, kernel, width, slots)
    too_many = _conflicts(machine, scalar_operand(problem, kernel), tile)
    evicted = _conflicts(machine, problem.output, tile)
    store = machine.evicted_store_cycles or EVICTED_STORE_CYCLES
    in_output = keeps_sums_in_output(problem, kernel)
    return TileOperations(
        steps=steps,
        accumulators=rows * vectors,
        slots=slots,
        load_slots=rows + vectors * (slots + crossing),
        waiting_cycles=CONFLICT_CYCLES * too_many + crossed + in_place,
        stored_cycles=store_cycles(machine, rows * vectors * slots),
        evicted_cycles=max(store, EVICTED_SUMS_CYCLES) * evicted if in_output else 0.0,
        sum_lines=rows * width * problem.output.element.size / machine.cache("L1").line,
        finish_cycles=output_cycles(problem, machine, kernel, tile, slots)
        + (0.0 if in_output else store * evicted),
        input=input_,
        weights=weights,
        output=rows * tile[kernel.lanes],
        accumulates=problem.accumulates,
    )


def _conflicts(machine: Machine, tensor: Tensor, tile: Mapping[str, int]) -> int:
    """Lines of a register tile of `tensor` that evict each other from L1."""
    sizes = {dim: size for dim, size in tile.items() if dim in tensor.dims}
    return conflicting_lines(tensor, sizes, machine.cache("L1"))


def _in_place_cycles(
    problem: Problem, machine: Machine, kernel: Microkernel, width: int, slots: int
) -> float:
    """What a step waits for weights in place that it loads in vectors, `width` elements altogether:
    the more, the fewer sets of L1 those of all steps share, and the less, the more slots an
    operation takes; and more where rows begin inside of lines."""
    cache, weights = machine.cache("L1"), problem.weights
    if kernel.lanes not in weights.dims or kernel.lanes in problem.input.dims:
        return 0.0
    moving = [dim for dim in kernel.reduction if problem.extent(dim) > 1]
    pitch = weights.pitch(moving[-1]) if moving else None
    if not pitch:
        return 0.0
    way, pitch = cache.way_bytes, pitch * weights.element.size
    shared: float = (gcd(pitch, way) / way) ** SAME_SETS_POWER
    each = SAME_SETS_CYCLES * shared * waiting_part(slots) + (APART_CYCLES if slots == 1 else 0.0)
    inside = 1 - gcd(pitch, cache.line) / cache.line
    return each * width * weights.element.size / cache.line + INSIDE_LINE_CYCLES * inside


def _crossing(problem: Problem, machine: Machine, kernel: Microkernel) -> float:
    """The part of the vector loads that cross a cache line, and take one more slot for it, on
    average over where they may begin. Operands begin with a line."""
    operands = [t for t in (problem.input, problem.weights) if kernel.lanes in t.dims]
    grains = [_grain(problem, tensor, kernel) for tensor in operands]
    behind = kernel.vector - min(grains)
    return behind * problem.output.element.size / machine.cache("L1").line


def _grain(problem: Problem, tensor: Tensor, kernel: Microkernel) -> int:
    """Elements of which each vector load of `tensor` begins at a multiple, at most a vector."""
    steps = [kernel.vector]
    for axis, stride in zip(tensor.axes, tensor.strides, strict=True):
        for dim, factor in axis.terms:
            if dim != kernel.lanes and factor and problem.extent(dim) > 1:
                steps.append(factor * stride if stride else 1)
    return gcd(*steps)
