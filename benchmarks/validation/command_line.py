"""`mopt-validate`: put the model on trial, and report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mopt_mlir.tools.command_line import Parser, run_tool

from ..command_line import names
from ..protocol import ISAS
from ..workloads import LAYOUTS
from .places import DIRECTORY, HELDOUT, NETWORKS, TESTSET

DESCRIPTION = """\
Compare what the model predicts of many plans with what measuring them and simulating their memory
accesses says, on one core. Files of results are continued where they end, so that every command can
be interrupted and given again."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-validate on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _dispatch, argv)


def _dispatch(arguments: argparse.Namespace) -> int:
    from . import commands  # not for --help

    code: int = getattr(commands, arguments.command)(arguments)
    return code


def _parser() -> Parser:
    parser = Parser(prog="mopt-validate", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="command", required=True)
    _add_measure(commands)
    _add_simulate(commands)
    _add_report(commands)
    return parser


def _add_measure(commands: Any) -> None:
    measure = commands.add_parser(
        "measure",
        help="time plans from all over the design space, and the model's own",
        description="Time plans from all over the design space, and the model's own, each in turn "
        "with the same reference plan. Results go to DIRECTORY/OPERATORS-ISA.jsonl, with channels "
        "last to OPERATORS-LAYOUT-ISA.jsonl; with warm caches -warm comes behind ISA.",
    )
    measure.add_argument(
        "--operators",
        default="table1",
        metavar="FILE",
        help=f"table1 (default), {TESTSET}, {HELDOUT} or {NETWORKS} (others, in the order in which "
        "the model was tried on them), or a JSON file of the form of Table 1",
    )
    measure.add_argument("--only", type=names, default=[], metavar="NAMES", help="of these, only")
    measure.add_argument(
        "--layout",
        choices=LAYOUTS,
        default=LAYOUTS[0],
        help=f"of images and filters, other than the paper's ({LAYOUTS[0]})",
    )
    measure.add_argument("--isa", choices=ISAS, default=ISAS[0], help="limit the instructions")
    measure.add_argument(
        "--samples", type=int, default=100, metavar="N", help="plans of each operator (100)"
    )
    measure.add_argument("--seed", type=_natural, default=0, metavar="N", help="of the sample (0)")
    measure.add_argument(
        "--directory", type=Path, default=DIRECTORY, help=f"of the results ({DIRECTORY})"
    )
    measure.add_argument("--rounds", type=int, default=7, metavar="N", help="of each plan (7)")
    measure.add_argument(
        "--final-rounds", type=int, default=20, metavar="N", help="of the foremost plans (20)"
    )
    measure.add_argument(
        "--seconds",
        type=float,
        default=4.0,
        metavar="S",
        help="a plan that takes longer in all rounds of a pass gets fewer (4)",
    )
    measure.add_argument(
        "--warm", dest="cold", action="store_false", help="do not flush the caches before each run"
    )
    measure.set_defaults(command="measure")


def _add_simulate(commands: Any) -> None:
    simulate = commands.add_parser(
        "simulate",
        help="run the memory accesses of plans through simulated caches",
        description="Run the memory accesses of plans that were timed through simulated caches of "
        "the machine that they were timed on, which may be another one than this. Results go to "
        "DIRECTORY/TRIAL-volumes.jsonl.",
    )
    simulate.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="with measurements (all in DIRECTORY), compressed or not",
    )
    simulate.add_argument(
        "--samples",
        type=_natural,
        default=8,
        metavar="N",
        help="the first plans of each operator's sample (8), beside what the model chose",
    )
    simulate.add_argument(
        "--slowest",
        type=_natural,
        default=4,
        metavar="N",
        help="and more of it, until each memory is the slowest of so many, as predicted (4)",
    )
    simulate.add_argument(
        "--accesses",
        type=int,
        default=1_000_000_000,
        metavar="N",
        help="of one plan, after which it is given up, and counted as such (1000000000, some 10 "
        "seconds)",
    )
    simulate.add_argument(
        "--jobs", type=int, metavar="N", help="plans to simulate at a time (one on each core)"
    )
    simulate.add_argument(
        "--valgrind",
        action="store_true",
        help="let valgrind count the misses of the model's own plans as well, if it is installed "
        "(AVX2 code only, which is all that it knows)",
    )
    simulate.add_argument(
        "--directory", type=Path, default=DIRECTORY, help=f"of the results ({DIRECTORY})"
    )
    simulate.set_defaults(command="simulate")


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="write validation.md with its pages, plots and data",
        description="Write validation.md, pages with more of each trial, plots and the compressed "
        "data. Predictions are those "
        "of today's model. A file that is called like another one, with -before at its end, is "
        "compared with that one only. The plots need matplotlib: pip install matplotlib.",
    )
    report.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help=f"of results (all in {DIRECTORY}); those of mopt-bench run (.json) as well, and "
        "pages in Markdown (.md), which are put beside it and named in it",
    )
    report.add_argument(
        "--bench",
        nargs="*",
        type=Path,
        default=[],
        metavar="FILE",
        help="more results of mopt-bench run, for the comparison with other libraries",
    )
    report.add_argument(
        "--output", type=Path, default=Path("build"), help="directory to write to (build)"
    )
    report.set_defaults(command="report")


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 on")
    return int(text)
