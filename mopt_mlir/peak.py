"""The FMA peak of this host, measured: what a share of peak is a share of."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import perf_counter

from mopt_mlir.lowering.jit import LoadedCode
from mopt_mlir.lowering.native import compile_text
from mopt_mlir.lowering.target import check_runs_here, of_cpu, vector_bits
from mopt_mlir.problem import ElementType

_ACCUMULATORS = 12
"""Independent chains of FMAs: more than latency times throughput on known CPUs (5 cycles, 2 per
cycle), fewer than the 16 registers of AVX2."""

_SECONDS = 5e-3  # of one run: long enough to reach the sustained clock, short enough to repeat
_RUNS = 7
_LLVM_TYPES = {ElementType.F32: "float", ElementType.F64: "double"}

Kernel = Callable[[int], None]


def measure_peak(
    element: ElementType | str = ElementType.F32, threads: int = 1, cpu: str | None = None
) -> float:
    """GFLOP/s of `threads` cores of this host that do nothing but vector FMAs; takes about 50 ms.

    The best of several runs, so that what else runs on the host counts little. `cpu` (LLVM's name)
    limits the instructions, e.g. `haswell` to AVX2. Raises UserError for a CPU that LLVM does not
    know or this host cannot run.
    """
    element = ElementType(element)
    target = of_cpu(cpu or "host")
    check_runs_here(target)
    lanes = vector_bits(target) // (8 * element.size)
    code = LoadedCode(compile_text(_kernel(element, lanes), target, ["peak"]), ["peak"])
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64)(code.address("peak"))
    rounds = _rounds_for(kernel, _SECONDS)
    with ThreadPoolExecutor(threads) as pool:
        best = min(_run_together(pool, kernel, rounds, threads) for _ in range(_RUNS))
    return float(2 * lanes * _ACCUMULATORS * rounds * threads / best * 1e-9)


def _rounds_for(kernel: Kernel, seconds: float) -> int:
    """How many rounds of the kernel take at least `seconds`."""
    rounds = 1024
    while True:
        start = perf_counter()
        kernel(rounds)
        if (elapsed := perf_counter() - start) >= seconds:
            return rounds
        rounds *= 2 if elapsed > seconds / 8 else 8


def _run_together(pool: ThreadPoolExecutor, kernel: Kernel, rounds: int, threads: int) -> float:
    """Seconds from when the first thread starts until the last has finished."""
    barrier = Barrier(threads)

    def run(_: int) -> tuple[float, float]:
        barrier.wait()
        start = perf_counter()
        kernel(rounds)
        return start, perf_counter()

    times = list(pool.map(run, range(threads)))
    return max(end for _, end in times) - min(start for start, _ in times)


def _kernel(element: ElementType, lanes: int) -> str:
    """LLVM IR of `peak(rounds)`: in each round one FMA on every accumulator.

    The accumulators end in a volatile store, or they would be optimised away.
    """
    vector = f"<{lanes} x {_LLVM_TYPES[element]}>"
    one = f"{vector} splat ({_LLVM_TYPES[element]} 1.0)"
    chains = range(_ACCUMULATORS)
    fma = f"llvm.fma.v{lanes}{element.value}"
    phis = [f"%a{i} = phi {vector} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in chains]
    fmas = [
        f"%b{i} = call {vector} @{fma}({vector} %a{i}, {vector} %x, {vector} %x)" for i in chains
    ]
    stores = [f"store volatile {vector} %b{i}, ptr %sink" for i in chains]
    return "\n".join(
        [
            f"declare {vector} @{fma}({vector}, {vector}, {vector})",
            "define void @peak(i64 %rounds) {",
            "entry:",
            f"%sink = alloca {vector}",
            f"store volatile {one}, ptr %sink",
            f"%x = load volatile {vector}, ptr %sink",  # a value that the optimiser does not know
            "br label %loop",
            "loop:",
            "%n = phi i64 [ %rounds, %entry ], [ %m, %loop ]",
            *phis,
            *fmas,
            "%m = sub i64 %n, 1",
            "%more = icmp ne i64 %m, 0",
            "br i1 %more, label %loop, label %done",
            "done:",
            *stores,
            "ret void",
            "}",
        ]
    )
