"""What a calibration measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """One figure of a machine, for a number of cores.

    `kernel` is the loop that is run to measure it, on a buffer that lies in `level`; `field` the
    field of `Machine` that it gives for one core, and with `_all` at its end for all.
    """

    name: str
    unit: str
    kernel: str
    level: str = ""
    field: str = ""


PEAKS = (
    Quantity("f32 FMA", "GFLOP/s", "fma_f32"),
    Quantity("f64 FMA", "GFLOP/s", "fma_f64"),
)

READS = (
    Quantity("L1 read", "GB/s", "read", "L1", "L1.bandwidth"),
    Quantity("L2 read", "GB/s", "read", "L2", "L2.bandwidth"),
    Quantity("L3 read", "GB/s", "read", "L3", "L3.bandwidth"),
    Quantity("DRAM read", "GB/s", "read", "DRAM", "dram_bandwidth"),
)
"""From the nearest to the farthest."""

WRITES = (
    Quantity("DRAM write", "GB/s", "write", "DRAM", "dram_write_bandwidth"),
    Quantity("DRAM non-temporal write", "GB/s", "stream", "DRAM", "dram_stream_bandwidth"),
)

QUANTITIES = (*PEAKS, *READS, *WRITES)
