"""`mopt-bench`: measure ours and the peers, and report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mopt_mlir.tools.command_line import Parser, run_tool

from .peers import OURS, REGISTRY
from .protocol import ISAS, Protocol
from .scale_results import BATCHES, COUNTS, OPERATORS

DESCRIPTION = """\
Measure convolutions compiled by this project beside other libraries and compilers, in turn on the
same cores, and report. `make bench-peers` installs the peers; without them ours and MLIR's own
lowering are measured."""

PROTOCOLS = "\n".join(
    ["protocols:", *(f"  {p.value} (class {p.class_}): {p.description}" for p in Protocol)]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-bench on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _dispatch, argv)


def _dispatch(arguments: argparse.Namespace) -> int:
    from . import commands  # not for --help

    code: int = getattr(commands, arguments.command)(arguments)
    return code


def _parser() -> Parser:
    parser = Parser(prog="mopt-bench", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="command", required=True)
    _add_run(commands)
    _add_suite(commands)
    _add_scale(commands)
    _add_report(commands)
    peers = commands.add_parser("peers", help="list the peers and whether they are installed")
    _add_python(peers)
    peers.set_defaults(command="peers")
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="measure operators in one configuration",
        description="Measure operators in one configuration, ours (mopt) and the peers in turn. "
        "The results are written after each operator.",
        epilog=PROTOCOLS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_measuring(run)
    run.add_argument(
        "--protocol",
        choices=[protocol.value for protocol in Protocol],
        default=Protocol.PAPER.value,
        help="what is timed, see below (default paper)",
    )
    run.add_argument("--threads", type=int, default=1, metavar="N", help="cores (default 1)")
    caches = run.add_mutually_exclusive_group()
    caches.add_argument(
        "--cold",
        dest="cold",
        action="store_true",
        help="flush the caches of all cores before each run (default)",
    )
    caches.add_argument("--warm", dest="cold", action="store_false", help="do not")
    run.add_argument("--isa", choices=ISAS, default=ISAS[0], help="limit the instructions")
    run.add_argument("--json", type=Path, required=True, metavar="OUT", help="file of results")
    run.add_argument(
        "--resume",
        action="store_true",
        help="keep the operators that OUT has already; without, there must be no such file",
    )
    run.set_defaults(command="run", cold=True)


def _add_suite(commands: Any) -> None:
    suite = commands.add_parser(
        "suite",
        help="measure operators in every configuration that the report shows",
        description="Measure operators in every configuration that the report shows, a file each. "
        "What the files have already is kept, so that it can be interrupted and started again.",
    )
    _add_measuring(suite)
    suite.add_argument(
        "--directory", type=Path, default=Path("build/bench"), help="of the files of results"
    )
    suite.add_argument(
        "--configurations",
        type=names,
        default=[],
        metavar="NAMES",
        help="of these, only, as in a-cold-1,c-warm,a-cold-1-avx2: class, caches, cores (one and "
        "all, if there is no number)",
    )
    suite.set_defaults(command="suite")


def _add_scale(commands: Any) -> None:
    scale = commands.add_parser(
        "scale",
        help="measure how planning, cores and batches scale",
        description="Measure what planning and compiling costs as the number of operators grows, "
        "speed on 1 to all cores beside what the model predicts, for more cores as well, and time "
        "as the batch grows. What OUT has already is kept.",
    )
    scale.add_argument("--json", type=Path, required=True, metavar="OUT", help="file of results")
    scale.add_argument(
        "--only", type=names, default=list(OPERATORS), metavar="NAMES", help="of Table 1"
    )
    scale.add_argument(
        "--counts", type=_numbers, default=list(COUNTS), help="of operators to plan, as in 1,10"
    )
    scale.add_argument("--batches", type=_numbers, default=list(BATCHES), help="as in 1,2,4")
    scale.add_argument("--repeat", type=int, default=20, metavar="N", help="runs (default 20)")
    scale.set_defaults(command="scale")


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="print tables, write plots and performance.md",
        description="Print tables of results; write plots and performance.md. The plots need "
        "matplotlib: pip install matplotlib.",
    )
    report.add_argument("files", nargs="+", type=Path, metavar="FILE", help="of run, suite, scale")
    report.add_argument(
        "--output", type=Path, default=Path("build"), help="directory to write to (default build)"
    )
    report.add_argument("--tables-only", action="store_true", help="write nothing")
    report.add_argument(
        "--relative-to",
        choices=list(REGISTRY),
        default="onednn",
        metavar="PEER",
        help="whose rate is 1 in the plots (default onednn)",
    )
    report.set_defaults(command="report")


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    """What `run` and `suite` share."""
    parser.add_argument(
        "--operators",
        default="table1",
        metavar="FILE",
        help="a JSON file of the form of Table 1, or table1 (default)",
    )
    parser.add_argument("--only", type=names, default=[], metavar="NAMES", help="of these, only")
    default = [name for name, entry in REGISTRY.items() if entry.default]
    parser.add_argument(
        "--peers",
        type=_peer_names,
        default=default,
        metavar="NAMES",
        help=f"of {', '.join(name for name in REGISTRY if name != OURS)} (default: all but "
        f"{', '.join(sorted(set(REGISTRY) - set(default)))}); none for ours alone",
    )
    parser.add_argument("--repeat", type=int, default=50, metavar="N", help="runs (default 50)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="a peer that takes longer for one operator makes fewer runs (default 10)",
    )
    _add_python(parser)


def _add_python(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python", help="the interpreter that has the peers (default: that of make bench-peers)"
    )


def names(text: str) -> list[str]:
    """The type of an option that takes names, as in R2,R6."""
    found = [name for name in text.split(",") if name]
    if not found:
        raise argparse.ArgumentTypeError("there is no name in it")
    return found


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not positive numbers, as in 1,10")
    return list(map(int, parts))


def _peer_names(text: str) -> list[str]:
    """In the order of the registry, ours always among them."""
    given = [] if text == "none" else names(text)
    for name in given:
        if name not in REGISTRY:
            known = ", ".join(REGISTRY)
            raise argparse.ArgumentTypeError(f"unknown peer '{name}'; known: {known}")
    return [name for name in REGISTRY if name == OURS or name in given]
