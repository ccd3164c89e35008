"""What packing weights costs, and reading them in place instead: cycles, and waiting."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.conflicts import conflicting_lines
from mopt_mlir.model.microkernel import vector_slots, waiting_part
from mopt_mlir.model.rates import Rates
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import packing_way

PACK_CYCLES: Mapping[str, float] = {"whole": 0.38, "L3": 0.38, "L2": 0.31, "L1": 0.17}
"""Cycles to move one weight into its panel, by the place of packing: loads, a transposition in
registers and stores, as measured on Zen 5. The smaller the block of panels, the nearer it stays."""

ELEMENT_CYCLES = 0.75
"""Cycles to move one weight where weights cannot be moved in whole vectors. (This and the two below
are fitted to sampled plans: where blocks are small, much of it hides behind what is computed.)"""

REST_CYCLES = 0.63
"""Cycles to move one weight of what is left over of a vector, which goes through the transposition
alone."""

PACK_CONFLICT_CYCLES = 2.6
"""More per weight whose row falls on a set of L1 with too many others."""

PACK_ROW_CYCLES = 10.0
"""At least, for each row of output channels that lies in memory as in its panel: the first time it
comes from memory, and few of them are under way. (Measured on Zen 4: own plans of layers with
images of 7x7 take 9 to 12 cycles for rows of 16 and of 24 channels. With it 29 own plans of AVX2
code take 0.7% less time, five of AVX-512 code 0.3%.) Rows that are packed again come from nearer,
and move like others: see `estimate.times`."""

PACK_PASSES = 3
"""Weights are read, the lines of the panel are read for the stores to them, and written back."""

PACKED_COPIES: Mapping[str, float] = {"L3": 2.0, "L2": 2.0, "L1": 1.5}
"""How much room weights take at the level that packs them: the next block is on its way while one
is in use (measured: panels of half of L2 are a tenth slower than of a quarter). In L1 it comes line
by line and drives out less: with 1.5 plans for Table 1 and the test set that change take 1.2% less
time than with 1 for AVX-512 code on Zen 5, with 2 they take 1.2% more; for AVX2 code it is all the
same."""

IN_PLACE_WAIT = 1.0
"""More of the time that weights take from L3 which are read in place: each of their rows lies in
another page, and no prefetcher foresees the next one. Fitted to sampled plans of Table 1 on Zen 4,
Zen 5 and Granite Rapids, whose times ask for 0.2 to 1.6.

Rows may be those of output channels or, if weights run along these, of one reduction step each,
which hide behind operations of more than a slot. (Measured on Zen 4, with weights in place against
packed ones, of 62 layers: times of AVX2 code ask for 2; with 1 rather than 0, nine own plans change
and take 2% less time. With AVX-512 code, of two slots, they take 0.1% more with 1 and 2.4% more
with 2; with 1/4 all stays the same.)"""

IN_COMMON = ("whole", "L3")
"""The places where cores share the work of packing: in front of the nest, and the cache that is
common to all of them."""


def pack_cycles(problem: Problem, kernel: Microkernel, place: str) -> float:
    """Cycles to pack one weight at `place`, in whole vectors where their memory lets it."""
    way = packing_way(problem, kernel, problem.extents)
    if way == "vectors":
        return max(PACK_CYCLES[place], PACK_ROW_CYCLES / kernel.extent(kernel.lanes))
    return PACK_CYCLES[place] if way == "transposed" else ELEMENT_CYCLES


def cycles_per_weight(problem: Problem, machine: Machine, plan: Plan) -> float:
    """Cycles to pack one weight: in whole vectors, if the block spans all reduction dims but the
    outermost, and its rows are whole vectors or all that there is."""
    kernel, cycles = plan.microkernel, pack_cycles(problem, plan.microkernel, plan.packing)
    block = plan.packed_block(problem)
    whole = all(block[dim] == problem.extent(dim) for dim in kernel.reduction)
    if whole or packing_way(problem, kernel, problem.extents) != "transposed":
        return cycles
    width = {kernel.lanes: kernel.extent(kernel.lanes)}
    conflicting = (
        conflicting_lines(problem.weights, width, machine.cache("L1")) / width[kernel.lanes]
    )
    if packing_way(problem, kernel, block) == "elements":
        return ELEMENT_CYCLES + PACK_CONFLICT_CYCLES * conflicting
    row = prod(block[dim] for dim in kernel.reduction)
    rest = row % kernel.vector / row
    return (1 - rest) * cycles + rest * (REST_CYCLES + PACK_CONFLICT_CYCLES * conflicting)


def in_place_wait(problem: Problem, machine: Machine, kernel: Microkernel) -> float:
    """More of the time that weights take from L3 which are read in place."""
    along = problem.weights.runs_along(problem.out_channel)
    slots = vector_slots(problem, machine, kernel)
    return IN_PLACE_WAIT * (waiting_part(slots) if along else 1.0)


def first_block_seconds(problem: Problem, machine: Machine, plan: Plan) -> float:
    """Seconds in which a core waits for memory while it packs the first block of `plan`."""
    if not plan.reads_panels:
        return 0.0
    block = plan.packed_block(problem)
    rates = Rates.of(machine, plan.cores)
    cycles = cycles_per_weight(problem, machine, plan)
    waiting = seconds_to_wait(problem, rates, plan.parallel, plan.packing, cycles)
    return waiting * prod(block[dim] for dim in problem.weights.dims)


def seconds_to_wait(
    problem: Problem, rates: Rates, parallel: Mapping[str, int], place: str, cycles: float
) -> float:
    """Seconds in which a core waits for each weight of the first block, if weights take `cycles`
    each to be packed at `place`, by cores that are split `parallel`.

    There is nothing to compute before a block is packed. Its weights come from memory, and so do
    the lines of its panels, as a store to a line that no cache has reads it first. Later blocks can
    be asked for while the one before is in use, and find the panels where they were. (Measured on
    Zen 4, cold: with its weights in L2 beforehand R8 takes 8.5 us less if all of them are packed at
    once, and 4 us less if a quarter is; the bandwidth of memory makes it 5.5 and 1.4.)
    """
    in_common = place in IN_COMMON
    read = 1 if in_common else prod(parallel.get(dim, 1) for dim in problem.weights.dims)
    panels = 1 if in_common else rates.cores
    moved = (read + panels) * problem.weights.element.size / rates.bytes["DRAM"]
    own = cycles / rates.cycles / (rates.cores if in_common else 1)
    return max(0.0, moved - own)
