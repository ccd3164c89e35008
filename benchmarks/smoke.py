"""A quick look at correctness and speed: `python -m benchmarks.smoke`, a few minutes.

Checks the operators of Table 1 and random convolutions against float64, measures ResNet-18's 3x3
layers of stride 1 with constant weights against the FMA peak measured in the same minute, and how
long import and compilation take. Writes a record of every line as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mopt_mlir.output import check_output, make_directory, write_output
from mopt_mlir.tools.command_line import Parser, run_tool

from .commands import check_positive
from .workloads import Workload, is_right, random_workloads, table1

REPEAT = 30  # timed runs of each layer; the median is reported
RESNET = ("R2", "R6", "R9", "R12")  # 3x3, stride 1
MACHINES = ("znver5", "haswell")  # AVX-512 and AVX2 code
IMPORT = "import time; t = time.perf_counter(); import mopt_mlir; print(time.perf_counter() - t)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark on `argv`: 0, or 1 if something was wrong, or after a message."""
    parser = Parser(prog="benchmarks.smoke", description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=300, help="random convolutions to check")
    parser.add_argument("--json", type=Path, default=Path("build/bench-smoke.json"))
    return run_tool(parser, _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "random")
    make_directory(arguments.json.parent)
    check_output(arguments.json)
    record = measure(arguments.random)
    summary(record)
    write_output(arguments.json, (json.dumps(record, indent=1) + "\n").encode())
    checked = record["resnet"] + record["table1"] + record["random"]
    wrong = [r for r in checked if not is_right(r["error"])]
    for r in wrong:
        print(f"WRONG: {r}", file=sys.stderr)
    return 1 if wrong else 0


def measure(number: int) -> dict[str, Any]:
    """Everything, with so many random convolutions."""
    from mopt_mlir.measuring.peak import measure_peak

    record: dict[str, Any] = {"host": platform.processor() or platform.machine()}
    record["peak_gflops"] = measure_peak("f32")
    print(f"measured FMA peak, f32, one core: {record['peak_gflops']:.0f} GFLOP/s\n")
    record["resnet"] = [resnet_layer(w) for w in table1() if w.name in RESNET]
    record["table1"] = [check(w, "host", 1, 0) for w in progress(table1(), "Table 1")]
    randoms = list(random_workloads(number))
    record["random"] = [
        check(workload, MACHINES[i % 2], 1 + i // 2 % 2, i)
        for i, workload in enumerate(progress(randoms, "random convolutions"))
    ]
    record["import_seconds"] = import_seconds()
    return record


def check(workload: Workload, machine: str, threads: int, seed: int) -> dict[str, Any]:
    """Compile, run once, compare; `error` is in units of the bound of `Workload.error`."""
    import mopt_mlir

    input_, weights, output = workload.operands(seed)
    start = time.perf_counter()
    executable = mopt_mlir.compile(
        workload.mlir(), machine=machine, threads=threads, require_tiled=True
    )
    compile_seconds = time.perf_counter() - start
    executable["conv"](input_, weights, output)
    error = workload.error(output, workload.reference(input_, weights), input_, weights)
    return {
        "operator": workload.name,
        "machine": machine,
        "threads": threads,
        "layout": workload.layout,
        "element": workload.element,
        "compile_seconds": compile_seconds,
        "error": error,
    }


def resnet_layer(workload: Workload) -> dict[str, Any]:
    """One core, warm, weights packed at compile time; the peak is measured right beside it."""
    import mopt_mlir
    from mopt_mlir.measuring.peak import measure_peak

    input_, weights, output = workload.operands(0)
    start = time.perf_counter()
    executable = mopt_mlir.compile(workload.mlir(constant=weights), require_tiled=True)
    compile_seconds = time.perf_counter() - start
    conv = executable["conv"]
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    try:
        peak = measure_peak("f32")
        seconds = median_seconds(lambda: conv(input_, output))
    finally:
        os.sched_setaffinity(0, affinity)
    gflops = workload.flops / seconds / 1e9
    error = workload.error(output, workload.reference(input_, weights), input_, weights)
    line = replace(workload, name=f"{workload.k},{workload.h},{workload.w},{workload.c}")
    print(
        f"{workload.name:4} {line.name:14} {gflops:6.1f} GFLOP/s  {gflops / peak:6.1%} of peak"
        f"  compiled in {compile_seconds:.2f} s  error {error:.1e} of the bound"
    )
    return {
        "operator": workload.name,
        "gflops": gflops,
        "peak": peak,
        "share_of_peak": gflops / peak,
        "compile_seconds": compile_seconds,
        "error": error,
    }


def median_seconds(run: Callable[[], Any]) -> float:
    run()
    times = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_seconds() -> float:
    """Median of a few fresh interpreters."""
    times = [
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    return statistics.median(times)


def progress(items: list[Workload], title: str) -> Any:
    from rich.progress import track

    return track(items, description=title, transient=True)


def summary(record: dict[str, Any]) -> None:
    for name in ("table1", "random"):
        rows = record[name]
        compile_seconds = [row["compile_seconds"] for row in rows]
        wrong = sum(not is_right(row["error"]) for row in rows)
        print(
            f"\n{name}: {len(rows)} checked, {wrong} wrong, largest error"
            f" {max(row['error'] for row in rows):.1e} of the bound; text to callable"
            f" {statistics.median(compile_seconds):.2f} s median,"
            f" {max(compile_seconds):.2f} s worst"
        )
    print(f"import mopt_mlir: {record['import_seconds'] * 1e3:.0f} ms")


if __name__ == "__main__":
    sys.exit(main())
