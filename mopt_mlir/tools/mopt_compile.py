"""`mopt-compile`: MLIR to a shared library, object file, assembly or LLVM IR."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mopt_mlir.tools.command_line import (
    Parser,
    add_compilation_options,
    compile_options,
    run_tool,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-compile on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _compile, argv)


def _parser() -> Parser:
    parser = Parser(
        prog="mopt-compile",
        description="Compile the convolutions in MLIR ahead of time; the suffix of the output says "
        "to what: .so (shared library), .o (object file), .s (assembly), .ll (LLVM IR) or .mlir "
        "(MLIR's LLVM dialect).",
        epilog="With --threads a shared library is linked with, and finds, the OpenMP runtime of "
        "this Python environment (libiomp5); link an object file with -liomp5 or -lomp. Shared "
        "libraries need a C compiler: cc, or $CC.",
    )
    add_compilation_options(parser, "that of the machine")
    parser.add_argument("-o", "--output", required=True, help="the file to write")
    parser.add_argument("--header", help="also write C declarations of the functions to this file")
    return parser


def _compile(arguments: argparse.Namespace) -> int:
    from mopt_mlir.compiler.ahead_of_time import compile_to_file
    from mopt_mlir.output import check_keeps
    from mopt_mlir.pipeline.source import read

    check_keeps(arguments.input, filter(None, (arguments.output, arguments.header)))
    compile_to_file(
        read(arguments.input),
        arguments.output,
        compile_options(arguments),
        header=arguments.header,
    )
    return 0
