"""What a calibration is measured with: buffers for every level of this host's memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from mopt_mlir.buffers import aligned_bytes
from mopt_mlir.machine.machine import CACHE_NAMES, Machine
from mopt_mlir.machine.quantities import PEAKS, Quantity
from mopt_mlir.measuring import kernels
from mopt_mlir.measuring.memory import check_memory
from mopt_mlir.measuring.team import Team
from mopt_mlir.problem import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Buffers = list[NDArray[np.int32]]

DRAM = "DRAM"

IN_CACHE = 0.5
"""The part of a cache that a buffer fills, for the reads of one to come from there and nowhere
else: the rest is for whatever else the core, or another one, has in it."""

BEYOND_L2 = 1.5
"""A buffer of so many L2 caches, read in circles, is never found in L2."""

NEAR_L2 = 16
"""A buffer of more L2 caches than this says little of what plans read again: what a tile too large
for L2 leaves to L3 is megabytes. The far end of a last cache of hundreds of them, spread over a
socket whose other cores the process may not even see, is read little faster than memory."""

WARM_UP = 2
"""Rounds that bring a buffer into a cache: the last ones of Xeons keep what came from memory only
once it has been read again (measured on Granite Rapids: 19, 20, then 31 GB/s)."""

BEYOND_CACHES = 8
"""The buffers in memory are together so many times as large as the outer caches: some caches keep
what they can of a buffer that is read in circles. A power of two."""

PAGE = 2 << 20
"""Bytes of a huge page: buffers start at one, so that the sets of a cache fill up evenly."""

_CONTENT = 0x3F9D70A4
"""Of all buffers: not zero, as writing zeros is twice as fast on some CPUs."""


def buffer_bytes(machine: Machine, level: str, threads: int, sharing: int) -> int:
    """The buffer of each of `threads` cores to measure `level`, a cache or DRAM; `sharing` cores
    have a last cache in common."""
    l2, l3 = machine.cache("L2").size, machine.cache("L3").size
    if level == DRAM:
        domains = -(-threads // sharing)
        size = BEYOND_CACHES * (l2 + l3 * domains / threads)
    elif level == "L3":
        # Where cores have little more L3 each than L2, L3 holds what falls out of L2.
        share = IN_CACHE * l3 / min(threads, sharing)
        size = max(BEYOND_L2 * l2, min(share, NEAR_L2 * l2))
    else:
        size = IN_CACHE * machine.cache(level).size
    step = kernels.step_bytes(machine.vector_bits) * (BEYOND_CACHES if level == DRAM else 1)
    return max(step, int(size) // step * step)


def numbers(element: ElementType, lanes: int) -> NDArray[Any]:
    """The vector that a kernel of FMAs computes with."""

    return np.ones(lanes, np.float32 if element is ElementType.F32 else np.float64)


class HostBench:
    """Measures this host; a context manager. `places` are logical CPUs on different cores, of which
    `sharing` neighbours each have a last cache in common.

    Raises UserError, which ends in `way_out`, if there is too little memory.
    """

    def __init__(
        self,
        machine: Machine,
        places: Sequence[int],
        sharing: int,
        way_out: str = "measure on a machine with more",
    ) -> None:
        self._machine = machine
        self._sharing = sharing
        self._code = kernels.compiled(machine.vector_bits)
        self._team = Team(places)
        self._values = [self._vectors() for _ in places]
        self._caches, self._dram = self._allocate(len(places), way_out)
        self._position = 0  # in the buffers of DRAM, in parts

    def __enter__(self) -> HostBench:
        return self

    def __exit__(self, *_: object) -> None:
        self._team.__exit__()

    def work(self, quantity: Quantity, threads: int) -> float:
        """FLOPs or bytes of one round of all threads."""
        if quantity in PEAKS:
            return 2.0 * self._machine.lanes(_element(quantity)) * kernels.CHAINS * threads
        return float(threads * self._bytes(quantity.level, threads) // _rounds_per_buffer(quantity))

    def seconds(self, quantity: Quantity, threads: int, rounds: int) -> float:
        """How long `rounds`, a power of two, take."""
        kernel = self._code[quantity.kernel]
        values = [vectors[quantity.kernel] for vectors in self._values[:threads]]
        if quantity in PEAKS:
            return self._team.seconds(kernel, rounds, [(vector,) for vector in values])
        per_buffer = _rounds_per_buffer(quantity)
        parts = min(rounds, per_buffer)  # at once, of the buffer
        first = self._next_part(parts) if per_buffer > 1 else 0
        memory = self._dram if quantity.level == DRAM else self._caches
        part = self._bytes(quantity.level, threads) // memory[0].itemsize // per_buffer
        window = slice(first * part, (first + parts) * part)
        buffers = (whole[window] for whole in memory)
        arguments = list(zip(values, buffers, strict=False))
        if quantity.level != DRAM:
            self._team.seconds(kernel, WARM_UP, arguments)
        return self._team.seconds(kernel, rounds // parts, arguments)

    def _next_part(self, parts: int) -> int:
        """Where so many parts of a buffer in memory begin that were not read recently."""
        first = -(-self._position // parts) * parts % BEYOND_CACHES
        self._position = first + parts
        return first

    def _bytes(self, level: str, threads: int) -> int:
        return buffer_bytes(self._machine, level, threads, self._sharing)

    def _vectors(self) -> dict[str, NDArray[Any]]:
        """A vector of numbers for each kernel."""
        integers = np.full(self._machine.vector_bits // 32, _CONTENT, np.int32)
        vectors: dict[str, NDArray[Any]] = dict.fromkeys(("read", "write", "stream"), integers)
        for quantity in PEAKS:
            element = _element(quantity)
            vectors[quantity.kernel] = numbers(element, self._machine.lanes(element))
        return vectors

    def _allocate(self, threads: int, way_out: str) -> tuple[_Buffers, _Buffers]:
        """Memory for each thread, on that core's node: the thread itself touches it first. What is
        read from memory lies apart: a part of it would be in the cache that was measured before."""
        sizes = [self._sizes(levels, threads) for levels in (CACHE_NAMES, (DRAM,))]
        check_memory(sum(size + PAGE for size in chain(*sizes)), "measuring", way_out)
        in_caches, in_dram = ([_aligned(size) for size in each] for each in sizes)
        for buffers in (in_caches, in_dram):
            self._team.run([partial(buffer.fill, _CONTENT) for buffer in buffers])
        return in_caches, in_dram

    def _sizes(self, levels: Sequence[str], threads: int) -> list[int]:
        """Of each thread's buffer for `levels`, however many of the threads are busy."""
        return [
            max(self._bytes(level, n) for level in levels for n in range(thread + 1, threads + 1))
            for thread in range(threads)
        ]


def _aligned(size: int) -> NDArray[np.int32]:
    """So many bytes from the start of a page."""
    return aligned_bytes(size, PAGE).view(np.int32)


def _rounds_per_buffer(quantity: Quantity) -> int:
    """Into how many rounds the reading of a buffer in memory is cut: nothing of it is found in a
    cache, and each run goes on where the last one ended, so that a run may be short. Writing is
    not cut: the caches would still hold what was written last, and hide what it costs."""
    return BEYOND_CACHES if (quantity.level, quantity.kernel) == (DRAM, "read") else 1


def _element(quantity: Quantity) -> ElementType:
    return ElementType(quantity.kernel.removeprefix("fma_"))
