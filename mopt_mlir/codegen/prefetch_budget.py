"""How much is asked for at a time, and how early.

Code generation knows nothing but the plan: a machine is reckoned with here whose core starts two
multiply-adds in a cycle and has lines of 64 bytes.
"""

from __future__ import annotations

from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem

LINE_BYTES = 64

FMA_PER_CYCLE = 2
FMA_LATENCY = 4  # cycles

MOST_PREFETCHES = 1 / 4
"""Prefetches of weights or pixels per multiply-add, at most: where more are needed, there are
none."""

AHEAD_CYCLES = 800
"""Between a prefetch of input and its use, while the core computes. Measured on Zen 5, cold: with
half as many, plans whose channels come from memory for one register tile at a time take up to 8%
longer; with twice as many they are as fast."""

AT_ONCE = 24
"""Lines at most that are asked for at once: we take it for what a core waits for at the same time.
Of more lines rows come one after the other: those of output on the machines that ask for it into L2
alone, and those of weights that are packed next. (Measured on Zen 4, cold, with AVX-512 code: eight
layers of Table 1 whose register tiles write 32 lines or more take 1.9% less time, by layer between
6.5% less and 0.9% more.) Of pixels, and of weights in place, it decides which way of asking is
taken."""

MANY_PRODUCTS = 16
"""Multiply-adds of a step beside which a prefetch does not weigh. (Measured on Zen 4, cold: where
register tiles of AVX2 code, which have 10 to 12, share rows rather than each ask in every step, 36
layers with weights in place take 2.8% less time, up to 12%; with AVX-512 code, of 13 to 28
multiply-adds, 24 layers take 0.7% more.)"""

DENSE_STEP_BYTES = 256
"""Weights that are further apart from step to step are not the dense rows of output channels that
register tiles ask for one by one."""

LEFT_TO_L2 = 256 << 10
"""Bytes of weights that are left to the L2 cache, where they stay between their uses."""


def steps_within(cycles: int, kernel: Microkernel) -> int:
    """Outer products of `kernel` that take so many cycles, if a core starts two multiply-adds in
    each. (Zen 4 starts one of 512 bits, so that it takes twice as long.)"""
    return cycles // max(kernel.accumulators // FMA_PER_CYCLE, FMA_LATENCY)


def has_room(prefetches: int, kernel: Microkernel, steps: int) -> bool:
    """Whether the multiply-adds of so many steps leave room for the prefetches beside them."""
    return prefetches <= MOST_PREFETCHES * kernel.accumulators * steps


def rows_at_once(rows: int, size: int) -> int:
    """Of so many rows of weights, of `size` bytes per step, that a register tile asks for, those
    that it asks for in each step."""
    return min(rows, max(1, rows * size // (LINE_BYTES // 2)))


def lines_of_row(size: int) -> int:
    """Lines that are asked for of a row of weights of `size` bytes per step."""
    return -(-size // LINE_BYTES)


def row_lines_at_once(rows: int, size: int) -> int:
    """The lines of `rows_at_once`. Steps that are further apart than DENSE_STEP_BYTES are not asked
    for, and their rows count as one."""
    lines = lines_of_row(size) if size <= DENSE_STEP_BYTES else 1
    return rows_at_once(rows, size) * lines


def power_of_two_up_to(most: int) -> int:
    """The largest one that is not more: it is cheap to divide by."""
    return 1 << (most.bit_length() - 1)


def power_of_two_from(least: int) -> int:
    """The smallest one that is not less."""
    return 1 << (least - 1).bit_length()


def stays_in_l2(problem: Problem) -> bool:
    """Whether there are so few weights that they stay in L2 between their uses."""
    elements = problem.points(problem.weights.dims)
    return elements * problem.weights.element.size <= LEFT_TO_L2


def weights_step_bytes(problem: Problem, dim: str) -> int:
    """Bytes from one step of `dim` to the next in the weights: an element where it is unknown."""
    return (problem.weights.pitch(dim) or 1) * problem.weights.element.size
