"""`mopt-explain`: what plan an operator gets, and why."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mopt_mlir.tools.command_line import (
    Parser,
    add_constant_weights_option,
    add_machine_options,
    add_plan_cache_option,
    run_tool,
)
from mopt_mlir.tools.progress import progress_bar

if TYPE_CHECKING:
    from mopt_mlir.explain import Explanation

DESCRIPTION = """\
Explain the plan of each convolution of a file: its loop nest and microkernel, what every memory
level holds and moves, the bottleneck, the proven bound, and what other decisions would cost. A plan
that an operation carries (mopt.plan) is explained as it is; for the others one is found.

The input is MLIR, a list of sizes in JSON, or table1: the convolutions in Table 1 of the paper."""

FORMATS = ("text", "json", "html", "png")


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-explain on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _run, argv)


def _parser() -> Parser:
    parser = Parser(
        prog="mopt-explain",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input",
        nargs="?",
        help="MLIR text or bytecode (- for standard input), table1, or a .json file; table1 if "
        "only an operator is named",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--entry", metavar="F", help="only the convolutions of this function")
    which.add_argument("--operator", metavar="NAME", help="only this operator of the list")
    add_machine_options(parser, "default: the plan's, else 1", "the default without a plan")
    parser.set_defaults(threads=None)  # of a plan that is carried it is told if it was asked for
    add_constant_weights_option(parser)
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="of the output (default text)"
    )
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="where it goes, else standard output"
    )
    parser.add_argument("--html", metavar="FILE", help="also write a page to this file")
    parser.add_argument("--png", metavar="FILE", help="also write a picture to this file")
    add_plan_cache_option(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mopt_mlir.output import check_keeps, write_output
    from mopt_mlir.planning.operators import TABLE1

    outputs = _outputs(arguments)
    source = arguments.input
    if source is None:
        if arguments.operator is None:
            _parser().error("an input is needed, or --operator for one of table1")
        source = TABLE1
    if source != TABLE1:
        check_keeps(source, [path for path, _ in outputs])
    if any(kind in ("html", "png") for _, kind in outputs):
        from mopt_mlir.explain.picture import check_installed

        check_installed()  # before anything is planned
    explanations = _explained(source, arguments)
    # All of it before anything is written: a format that fails leaves no other behind.
    rendered = [(path, _rendered(explanations, kind)) for path, kind in outputs]
    # Standard output last: whoever reads it may have enough before the end.
    for path, data in sorted(rendered, key=lambda output: output[0] == "-"):
        write_output(path, data)
    return 0


def _explained(source: str, arguments: argparse.Namespace) -> tuple[Explanation, ...]:
    from mopt_mlir.explain.sources import explain_source
    from mopt_mlir.tools.inputs import list_or_source

    given = list_or_source(source)
    with progress_bar("Explaining") as progress:
        return explain_source(
            given,
            entry=arguments.entry,
            operator=arguments.operator,
            machine=arguments.machine,
            threads=arguments.threads,
            constant_weights=arguments.constant_weights,
            plan_cache=arguments.plan_cache,
            progress=progress,
        )


def _outputs(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The files to write, and the format of each. Raises UserError if one cannot be written."""
    from mopt_mlir.diagnostics import UserError
    from mopt_mlir.output import canonical, check_output

    outputs = [(canonical(arguments.output), arguments.format)]
    for kind, path in (("html", arguments.html), ("png", arguments.png)):
        if path is not None and canonical(path) == "-":
            raise UserError(f"--{kind} needs a file; for standard output use --format {kind}")
        if path is not None:
            outputs.append((path, kind))
    for path, _ in outputs:
        check_output(path)
    files = [os.path.realpath(path) for path, _ in outputs if path != "-"]
    if len(set(files)) < len(files):
        raise UserError("two outputs go to the same file; name another for one of them")
    if ("-", "png") in outputs and sys.stdout is not None and sys.stdout.isatty():
        raise UserError("a terminal shows no picture; use --png FILE")
    return outputs


def _rendered(explanations: tuple[Explanation, ...], kind: str) -> bytes:
    if kind == "png":
        from mopt_mlir.explain.picture import to_png

        return to_png(explanations)
    if kind == "html":
        from mopt_mlir.explain.html import to_html

        text = to_html(explanations)
    elif kind == "json":
        from mopt_mlir.explain.record import to_record

        text = json.dumps(to_record(explanations), indent=2)
    else:
        from mopt_mlir.explain.text import to_text

        text = to_text(explanations)
    return f"{text}\n".encode()
