"""The bandwidths of this host while a benchmark runs: what moving data costs at least."""

from __future__ import annotations

from collections.abc import Sequence

from . import environment

DRAM = "DRAM read"

_SECONDS = 3.0  # of measuring; calibration takes longer, as its figures serve for good


def measure_bandwidths(cpus: Sequence[int]) -> dict[str, float]:
    """GB/s at which `cpus` together read from every level and write to memory, by the names that
    calibration uses; the best of several runs."""
    from mopt_mlir.machine.facts import observe
    from mopt_mlir.machine.quantities import READS, WRITES
    from mopt_mlir.measuring.bench import HostBench
    from mopt_mlir.measuring.calibrating import best, measure

    machine, threads = environment.machine_of(cpus), len(cpus)
    with HostBench(machine, cpus, observe().sharing(cpus)) as bench:
        figures = best(measure(bench, sorted({1, threads}), seconds=_SECONDS))
    return {quantity.name: figures[quantity.name][threads] for quantity in (*READS, *WRITES)}
