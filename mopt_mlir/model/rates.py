"""How fast resources are for a plan that runs on so many cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mopt_mlir.machine.machine import Cache, Machine
from mopt_mlir.plan import LEVELS

OUTPUT_PASSES = 2
"""An output tile is read into a cache and written back (stores allocate their line)."""

STREAMED_PASSES = 1
"""Non-temporal stores go to memory past the caches, without reading the line first."""

RUN_SECONDS = 2.5e-9
"""More to write a run of output to memory: hardware prefetchers foresee the rest of a run, and a
core waits for few first lines at a time (measured on Zen 5, as the difference between kernels with
runs of 128 to 640 bytes)."""


@dataclass(frozen=True)
class Rates:
    """Bytes per second of each resource with `cores` active, which compute meanwhile: of one core
    for the caches, of all together for DRAM; cycles per second of a core.

    `write_passes` and `stream_passes` are how many times as long as reading it from memory it takes
    to write a byte of the output there, through the caches and past them.
    """

    cores: int
    cycles: float
    bytes: Mapping[str, float]
    write_passes: float
    stream_passes: float

    @property
    def run(self) -> float:
        """Seconds for each run of output that is written through the caches, beside its bytes."""
        return RUN_SECONDS / self.cores

    def passes(self, level: str, is_output: bool) -> float:
        """How often a tensor passes between the cache `level` and the next one outside, in passes
        that take as long as reading it."""
        if not is_output:
            return 1
        return self.write_passes if level == LEVELS[0] else OUTPUT_PASSES

    def written(self, *, streams: bool) -> float:
        """How many times as long as reading the output from memory it takes to write it there, at
        least; `streams` says whether it may go past the caches."""
        return min(self.write_passes, self.stream_passes) if streams else self.write_passes

    @staticmethod
    def of(machine: Machine, cores: int) -> Rates:
        rates = {
            cache.name: 1e9 * min(_of_one(cache), cache.bandwidth_all / cores)
            for cache in machine.caches
        }
        read = _shared(machine.dram_bandwidth, machine.dram_bandwidth_all, cores)
        rates["DRAM"] = 1e9 * read
        one, most = machine.dram_write_bandwidth, machine.dram_write_bandwidth_all
        written = OUTPUT_PASSES if one is None else read / _shared(one, most, cores)
        one, most = machine.dram_stream_bandwidth, machine.dram_stream_bandwidth_all
        streamed = STREAMED_PASSES if one is None else read / _shared(one, most, cores)
        return Rates(cores, 1e9 * machine.frequency, rates, written, streamed)


def _of_one(cache: Cache) -> float:
    """GB/s at which one core reads from a cache while it computes."""
    return min(cache.bandwidth, cache.busy_bandwidth or cache.bandwidth)


def _shared(one: float, most: float | None, cores: int) -> float:
    """GB/s of `cores` cores that reach `one` each and `most` together."""
    return one * cores if most is None else min(one * cores, most)
