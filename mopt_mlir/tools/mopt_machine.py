"""`mopt-machine`: show a machine and where its figures come from, or measure this one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from mopt_mlir.tools.command_line import Parser, run_tool

if TYPE_CHECKING:
    from pathlib import Path

    from mopt_mlir.machine.calibration import Calibration

HOST = "host"  # as in machine.spec, which takes a while to load

DESCRIPTION = """\
Print a machine: every figure that plans are made from, its unit, and where it comes from. With
--calibrate, measure the FMA peak and the bandwidths of this machine first and keep them in the
user's cache directory, from where every tool takes them for the machine `host`."""

EPILOG = """\
MOPT_CACHE_DIR names another cache directory. docs/machines.md describes the fields."""

WIDTH = 100
"""Of the lines of the help."""


class _MachineParser(Parser):
    """Looks the known machines up when they are to be printed, as that takes a while."""

    def format_help(self) -> str:
        from mopt_mlir.machine.registry import names

        known = f"Known machines: {', '.join(names())}."
        self.epilog = f"{fill(known, WIDTH, break_on_hyphens=False)}\n\n{EPILOG}"
        return super().format_help()


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-machine on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _run, argv)


def _parser() -> Parser:
    parser = _MachineParser(
        prog="mopt-machine",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "machine",
        nargs="?",
        default=HOST,
        help="host (the default), a known machine or a .toml file; overrides may follow, as in "
        "znver5,cores=2,L2.size=524288",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "toml"),
        default="text",
        help="toml is a machine file that can be edited and named instead of a machine",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--calibrate", action="store_true", help="measure this machine, which takes 15 to 45 s"
    )
    action.add_argument(
        "--forget", action="store_true", help="remove what was measured on this machine"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="cores to calibrate with (default: all)"
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mopt_mlir.diagnostics import UserError
    from mopt_mlir.machine import report
    from mopt_mlir.machine.registry import describe
    from mopt_mlir.output import check_output

    check_output("-")
    if arguments.threads is not None and not arguments.calibrate:
        raise UserError("--threads needs --calibrate")
    if (arguments.calibrate or arguments.forget) and arguments.machine != HOST:
        action = "measured" if arguments.calibrate else "forgotten"
        raise UserError(f"only this host can be {action}, not '{arguments.machine}'")
    if arguments.forget and arguments.format != "text":
        raise UserError("--forget prints no machine; it excludes --format")
    if arguments.forget:
        _print(_forget())
        return 0
    formats = {"text": report.text_of, "json": report.json_of, "toml": report.toml_of}
    show = formats[arguments.format]
    if not arguments.calibrate:
        _print(show(describe(arguments.machine)))
        return 0
    calibration, path = _calibrate(arguments.threads)
    if arguments.format == "text":
        _print(f"{report.table_of(calibration)}\n\nkept in {path}\n")
    _print(show(describe(HOST)))
    return 0


def _calibrate(threads: int | None) -> tuple[Calibration, Path]:
    """Measure this host with a progress bar, and keep the figures."""
    from rich.console import Console
    from rich.progress import Progress

    from mopt_mlir.diagnostics import emit
    from mopt_mlir.machine import calibration, facts
    from mopt_mlir.measuring import calibrating

    # what would go wrong in the end had better go wrong now
    observed = facts.observe()
    threads = calibrating.cores_to_measure(threads, observed)
    path = calibration.prepare(calibration.Identity.of(observed))
    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("Measuring this machine", total=1.0)
        measured = calibrating.calibrate(
            threads, lambda share: progress.update(task, completed=share)
        )
    for remark in measured.remarks:
        emit("remark", str(path), remark)
    return measured, calibration.store(measured)


def _forget() -> str:
    from mopt_mlir.machine import calibration, facts

    identity = calibration.Identity.of(facts.observe())
    path = calibration.forget(identity)
    return f"nothing is kept of {identity}" if path is None else f"removed {path}"


def _print(text: str) -> None:
    from mopt_mlir.output import write_output

    # the names of files need not be UTF-8
    write_output("-", f"{text}\n".encode(errors="surrogateescape"))
