"""`mopt-run`: compile a function, run it on random data, and say how fast and how exact it is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from mopt_mlir import units
from mopt_mlir.tools.command_line import (
    Parser,
    add_compilation_options,
    compile_options,
    run_tool,
)
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from mopt_mlir.measuring.running import Measurement


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-run on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _run, argv)


def _parser() -> Parser:
    parser = Parser(
        prog="mopt-run",
        description="Compile a function and run it in this process on random data. Prints the "
        "median time, GFLOP/s, the share of this host's measured FMA peak, and with --check the "
        "largest error against a float64 reference.",
    )
    add_compilation_options(parser, "this host")
    parser.add_argument("--entry", help="the function to run; needed if there are several")
    parser.add_argument("--seed", type=int, default=0, help="of the random data (default 0)")
    parser.add_argument("--repeat", type=int, default=10, metavar="N", help="runs (default 10)")
    parser.add_argument("--cold", action="store_true", help="flush the caches before each run")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the reference; exit code 1 if far from it",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mopt_mlir.diagnostics import UserError
    from mopt_mlir.measuring.running import RunOptions, run_entry
    from mopt_mlir.output import check_output, write_output
    from mopt_mlir.pipeline.source import read
    from mopt_mlir.reference import NotInReferenceError

    check_output("-")
    options = compile_options(arguments)
    run = RunOptions(arguments.seed, arguments.repeat, arguments.cold, arguments.check)
    source = read(arguments.input)
    try:
        measured = run_entry(source, arguments.entry, run, options)
    except NotInReferenceError as unknown:
        raise UserError(f"{unknown.message}; leave out --check", unknown.location) from None
    report = (
        _text(measured) if arguments.format == "text" else json.dumps(_data(measured), indent=2)
    )
    write_output("-", f"{report}\n".encode())
    if measured.accuracy is not None and not measured.accuracy.is_good:
        raise UserError(
            f"'{measured.entry}' is further from the reference than rounding can explain "
            f"({measured.accuracy.of_bound:.3g} times the bound); please report it"
        )
    return 0


def _text(measured: Measurement) -> str:
    caches = "cold" if measured.cold else "warm"
    threads = counted(measured.threads, "thread")
    line = f"{measured.entry}: {units.seconds(measured.time)}"
    if measured.gflops and measured.share_of_peak:  # there is no speed to tell where both are 0
        line += f", {measured.gflops:.1f} GFLOP/s, {measured.share_of_peak:.1%} of peak"
        line += f" ({measured.peak:.0f} GFLOP/s)"
    lines = [f"{line}; median of {len(measured.seconds)}, {caches}, {threads}"]
    if measured.accuracy is not None:
        accuracy = measured.accuracy
        lines.append(
            f"largest error: {accuracy.relative:.1e} of the largest value, "
            f"{accuracy.of_bound:.2g} of what rounding can explain"
        )
    return "\n".join(lines)


def _data(measured: Measurement) -> dict[str, Any]:
    accuracy = measured.accuracy
    return {
        "entry": measured.entry,
        "threads": measured.threads,
        "cold": measured.cold,
        "seconds": {
            "median": measured.time,
            "min": min(measured.seconds),
            "max": max(measured.seconds),
        },
        "runs": len(measured.seconds),
        "flops": measured.flops,
        "gflops": measured.gflops,
        "peak_gflops": measured.peak,
        "share_of_peak": measured.share_of_peak,
        "error": None
        if accuracy is None
        else {"relative": _finite(accuracy.relative), "of_bound": _finite(accuracy.of_bound)},
    }


def _finite(number: float) -> float | None:
    """JSON has no infinities, and nothing for what is no number."""
    return number if isfinite(number) else None
