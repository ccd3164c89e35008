"""What the figures of a machine can be, so that a slip in one is told by its name.

Wide enough for every CPU that there is or may be; whatever lies outside was given in another unit,
or would only fail later on, in a logarithm or for lack of registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """From `least` to `most`, both included."""

    least: float
    most: float
    unit: str = ""

    def __str__(self) -> str:
        return f"from {self.least} to {self.most} {self.unit}".rstrip()


MOST_CORES = 10_000
_BANDWIDTH = Range(0.001, 100_000, "GB/s")
_BANDWIDTH_ALL = Range(0.001, 100_000 * MOST_CORES, "GB/s")
_CYCLES = Range(0.001, 10_000, "cycles")
_PER_CYCLE = Range(1, 64, "per cycle")

RANGES: Mapping[str, Range] = {
    "cores": Range(1, MOST_CORES),
    "frequency": Range(0.01, 10, "GHz"),
    # at least one each for sums, for a vector of one operand and for a broadcast of the other
    "vector_registers": Range(3, 128),
    "fma_per_cycle": _PER_CYCLE,
    "loads_per_cycle": _PER_CYCLE,
    "fma_latency": Range(1, 1000, "cycles"),
    "capacity_factor": Range(0.001, 1, "of a cache"),
    "pixel_room": Range(0.001, 1, "of the distance between pixels"),
    "exposed": Range(0.001, 1, "of the time of what is read"),
    "evicted_store_cycles": _CYCLES,
    "saved_line_cycles": _CYCLES,
    "crossing_cycles": _CYCLES,
    "issue_norm": Range(1, 100),
    "loop_cycles": _CYCLES,
    "queued_stores": Range(1, 10_000, "slots"),
    "misprediction_cycles": _CYCLES,
    "dram_bandwidth": _BANDWIDTH,
    "dram_bandwidth_all": _BANDWIDTH_ALL,
    "dram_write_bandwidth": _BANDWIDTH,
    "dram_write_bandwidth_all": _BANDWIDTH_ALL,
    "dram_stream_bandwidth": _BANDWIDTH,
    "dram_stream_bandwidth_all": _BANDWIDTH_ALL,
    "size": Range(64, 1 << 40, "bytes"),
    "line": Range(16, 4096, "bytes"),
    "ways": Range(1, 1 << 16),
    "bandwidth": _BANDWIDTH,
    "bandwidth_all": _BANDWIDTH_ALL,
    "busy_bandwidth": _BANDWIDTH,
}
"""By field of `Machine` or `Cache`."""


def check_range(key: str, value: str | float | bool | None) -> None:
    """Raise ValueError, naming the field `key` (dotted, that of a cache), if `value` is a number
    outside of its range. None, for what nobody measured, is in any."""
    allowed = RANGES.get(key.rpartition(".")[2])
    if allowed is None or value is None or isinstance(value, str):
        return
    if not allowed.least <= value <= allowed.most:  # in this form it refuses a NaN as well
        raise ValueError(f"{key}: {value} is not {allowed}")
