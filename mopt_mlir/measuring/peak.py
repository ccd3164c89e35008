"""The FMA peak of this host, measured: what a share of peak is a share of."""

from __future__ import annotations

from collections.abc import Sequence

from mopt_mlir.lowering.target import check_runs_here, of_cpu, vector_unit
from mopt_mlir.machine.facts import observe
from mopt_mlir.measuring.bench import numbers
from mopt_mlir.measuring.kernels import CHAINS, compiled
from mopt_mlir.measuring.team import Team
from mopt_mlir.problem import ElementType

_SECONDS = 5e-3  # of one run: long enough to reach the sustained clock, short enough to repeat
_RUNS = 7


def measure_peak(
    element: ElementType | str = ElementType.F32, threads: int = 1, cpu: str | None = None
) -> float:
    """GFLOP/s of `threads` cores of this host that do nothing but vector FMAs; takes about 50 ms,
    the first time 300.

    The best of several runs, so that what else runs on the host counts little. `cpu` (LLVM's name)
    limits the instructions, e.g. `haswell` to AVX2. Raises UserError for a CPU that LLVM does not
    know or this host cannot run.
    """
    element = ElementType(element)
    target = of_cpu(cpu or "host")
    check_runs_here(target)
    bits = vector_unit(target).bits
    lanes = bits // (8 * element.size)
    kernel = compiled(bits, cpu)[f"fma_{element.value}"]
    values = [(numbers(element, lanes),) for _ in range(threads)]
    with Team(_places(threads)) as team:
        rounds = 1024
        while (elapsed := team.seconds(kernel, rounds, values)) < _SECONDS:
            rounds *= 2 if elapsed > _SECONDS / 8 else 8
        best = min(team.seconds(kernel, rounds, values) for _ in range(_RUNS))
    return 2e-9 * lanes * CHAINS * rounds * threads / best


def _places(threads: int) -> Sequence[int | None]:
    """A core for each thread: where the scheduler puts two on one, the first to start waits for the
    second in vain. Where it likes if there are more threads than cores, or only one."""
    places = observe().places if threads > 1 else ()
    return places[:threads] if threads <= len(places) else [None] * threads
