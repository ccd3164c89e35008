"""How many cycles stores of accumulators take."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, prod

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import STORED_IN_PARTS_BYTES, runs, scalar_offsets, storing_way

QUEUE_CYCLES = 2.0
"""For each slot of stores after each other beyond those that a core queues. Measured on Zen 4 with
512 bits: outer products of 14 to 30 sums, which are stored then, take this longer, wherever in the
caches the sums go."""

PARTED = 0.5
"""Part of that where vectors are transposed between the stores. Measured on Zen 4 with 512 bits."""

SHUFFLE_CYCLES = 0.75
"""Per vector and stage of an in-register transposition. Measured like that, too."""

STORE_CYCLES = 1.0
"""Per issue slot of a vector store: one per cycle on every machine described here. Where it is
known how many a core queues, they hide behind what it computes next."""


def store_cycles(machine: Machine, slots: int) -> float:
    """Cycles to store vectors in so many slots after each other."""
    if machine.queued_stores is None:
        return STORE_CYCLES * slots
    return QUEUE_CYCLES * max(0, slots - machine.queued_stores)


def parted_store_cycles(machine: Machine, slots: int) -> float:
    """Cycles to store vectors in so many slots that are transposed between the stores."""
    return (1.0 if machine.queued_stores is None else PARTED) * store_cycles(machine, slots)


def output_cycles(
    problem: Problem, machine: Machine, kernel: Microkernel, tile: Mapping[str, int], slots: int
) -> float:
    """Cycles to store the accumulators of one register tile to the output, each vector in so many
    issue slots. (Between visits they are whole registers, wherever they lie.)"""
    rows = prod(size for dim, size in tile.items() if dim != kernel.lanes)
    lanes, size = tile[kernel.lanes], problem.output.element.size
    way = storing_way(problem, kernel, rows)
    if way == "vectors":
        return store_cycles(machine, rows * _stores(kernel, size, lanes) * slots)
    if way == "elements":
        return rows * lanes * STORE_CYCLES
    scalars = scalar_offsets(problem, kernel, tile)
    lengths = map(len, runs(problem.output, scalars, kernel.vector))
    accesses = lanes * sum(_stores(kernel, size, length) for length in lengths)
    registers = rows * -(-lanes // kernel.vector)
    shuffles = registers * log2(kernel.vector) * SHUFFLE_CYCLES
    return shuffles + parted_store_cycles(machine, accesses * slots)


def _stores(kernel: Microkernel, size: int, count: int) -> int:
    """Vector stores of `count` elements of `size` bytes that follow each other."""
    whole, rest = divmod(count, kernel.vector)
    in_parts = kernel.vector * size <= STORED_IN_PARTS_BYTES
    return whole + (rest.bit_count() if in_parts else int(rest > 0))
