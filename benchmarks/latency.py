"""How much of its caches a core really has: dependent loads, through a part of each.

Other guests of a host use the last cache, those on the same core its private ones as well. That is
seen by no clock and in no load average, but loads from there take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.buffers import aligned_bytes

if TYPE_CHECKING:
    from mopt_mlir.compiler.executable import Executable

MEMORY = "memory"

PARTS = {"L1": 0.75, "L2": 0.5, "L3": 0.25}
"""The part of each cache that a chain goes through: less than plans count on, so that a core that
has its caches to itself finds all of it there."""

_FAR = 64 << 20  # bytes of the chain through memory, which no cache has after a flush
_PAGE = 2 << 20  # bytes of a huge page, which keeps misses of the TLB out of the figures
_LINE = 64  # bytes
_STEPS = 1 << 16  # that are timed

_CHASE = """
func.func @chase(%steps: index, %next: memref<?xindex>, %at: memref<1xindex>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %first = memref.load %at[%zero] : memref<1xindex>
  %last = scf.for %i = %zero to %steps step %one iter_args(%line = %first) -> index {
    %following = memref.load %next[%line] : memref<?xindex>
    scf.yield %following : index
  }
  memref.store %last, %at[%zero] : memref<1xindex>
  return
}
"""


class Chains:
    """A chain through a part of each cache, of which `caches` are the bytes by name, and one
    through memory, in the order of these. `flush` evicts all that the caches have."""

    def __init__(self, caches: Mapping[str, int], flush: Callable[[], object]) -> None:
        sizes = {name: int(PARTS[name] * size) for name, size in caches.items()}
        sizes[MEMORY] = _FAR
        self._flush = flush
        self._code = compile_chase()
        chains = _linked([size // _LINE for size in sizes.values()])
        self._links = dict(zip(sizes, chains, strict=True))
        self._at = {name: np.zeros(1, np.int64) for name in sizes}

    def nanoseconds(self) -> dict[str, float]:
        """Of a load, by name. Chains through caches are gone through once before they are timed,
        that through memory is evicted, and goes on where it ended."""
        return {name: self._time(name) for name in self._links}

    def _time(self, name: str) -> float:
        links, at = self._links[name], self._at[name]
        if name == MEMORY:
            self._flush()
        else:
            self._code["chase"](len(links) * links.itemsize // _LINE, links, at)
        chase = self._code["chase"].bind(_STEPS, links, at)
        start = perf_counter()
        chase()
        return round((perf_counter() - start) / _STEPS * 1e9, 2)


def compile_chase() -> Executable:
    """Code with a function `chase(steps, next, at)`: it goes so many steps from index `at[0]`, each
    time to `next` of where it is, and leaves in `at` where it ended."""
    from mopt_mlir import compile

    return compile(_CHASE, passes="canonicalize")


def _linked(numbers: list[int]) -> list[NDArray[Any]]:
    """Chains of so many lines each, in random order: prefetchers find nothing to do."""
    order = np.random.default_rng(0)
    memory = aligned_bytes(sum(numbers) * _LINE, _PAGE).view(np.int64)
    step = _LINE // memory.itemsize
    chains = np.split(memory, np.cumsum(numbers)[:-1] * step)
    for number, chain in zip(numbers, chains, strict=True):
        lines = order.permutation(number) * step
        chain[lines] = np.roll(lines, -1)
    return chains
