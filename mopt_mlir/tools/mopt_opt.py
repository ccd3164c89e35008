"""`mopt-opt`: an mlir-opt that has the passes of mopt-mlir as well as MLIR's own."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from mopt_mlir.diagnostics import Diagnostic, Failure, UserError, to_stderr
from mopt_mlir.output import check_output, write_output
from mopt_mlir.pipeline.driver import Driver, Settings, printer
from mopt_mlir.pipeline.options import Option, option, options_of
from mopt_mlir.pipeline.pass_base import Pass, help_of
from mopt_mlir.pipeline.pass_registry import REGISTRY, load
from mopt_mlir.pipeline.source import Source, read
from mopt_mlir.pipeline.steps import (
    MLIR_PASSES,
    MODULE,
    Step,
    UnknownPass,
    make_step,
    parse_pipeline,
)
from mopt_mlir.tools.command_line import exit_code
from mopt_mlir.tools.versions import versions

_USAGE = """\
usage: mopt-opt [options] [passes] [input|-]

Run passes over MLIR, text or bytecode, and print what results. Every pass of MLIR and of mopt-mlir
is a flag, with its options as the flag's value; they run in the order in which they are given:

  mopt-opt --canonicalize --mopt-tile="machine=znver5 threads=2" --cse input.mlir -o output.mlir
"""
_PIPELINE = "--pass-pipeline"  # what diagnostics call the text of that option
_SHORT = {"h": "help"}
_CLOSE = 0.8  # difflib's measure from which a flag is what was meant, rather than a pass
_WIDTH, _HELP_COLUMN = 100, 44  # of --help


@dataclass(frozen=True)
class Flags(Settings):
    """All flags that are not passes."""

    output: str = option("-", "write to this file, as a whole or not at all", name="o")
    pass_pipeline: str = option(
        "", "run a pipeline, such as builtin.module(canonicalize,mopt-tile{threads=2})"
    )
    help: bool = option(False, "print this")
    version: bool = option(False, "print the versions of mopt-mlir, MLIR and llvmlite")


@dataclass(frozen=True)
class Command:
    """A command line, understood as far as that goes without loading MLIR."""

    flags: Flags
    steps: tuple[Step, ...]
    input: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-opt on `argv`, by default the process's own; 0, or 1 after a message on stderr."""
    words = sys.argv[1:] if argv is None else argv
    return exit_code("mopt-opt", lambda: _main(words), alone=argv is None)


def _main(argv: Sequence[str]) -> int:
    command = _parse(argv)
    flags = command.flags
    if flags.help or flags.version:
        write_output("-", (_help() if flags.help else versions()).encode())
        return 0
    check_output(flags.output)
    if flags.emit_bytecode and flags.output == "-" and sys.stdout and sys.stdout.isatty():
        raise UserError("bytecode is not for a terminal; use -o FILE")
    driver = _driver(command)
    if flags.dump_pass_pipeline:
        to_stderr(driver.manager)
    write_output(flags.output, driver.run(_input(command.input)))
    return 0


def _parse(argv: Sequence[str]) -> Command:
    """Raises UserError; whether a pass exists that is not ours is known to MLIR only."""
    known = options_of(Flags)
    values: dict[str, Any] = {}
    steps: list[Step] = []
    inputs: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            inputs.extend(words)
        elif word == "-" or not word.startswith("-"):
            inputs.append(word)
        else:
            name, equals, value = word.lstrip("-").partition("=")
            name = _SHORT.get(name, name)
            if name in known:
                flag = known[name]
                if flag.field in values:
                    raise UserError(f"option '{name}' is given twice")
                values[flag.field] = flag.parse(value if equals else _next_if_needed(flag, words))
            else:
                steps.append(make_step(name, value, word.partition("=")[0]))
    if len(inputs) > 1:
        raise UserError(f"one input only; these are {len(inputs)}: {' '.join(inputs)}")
    if values.get("pass_pipeline") == "":
        raise UserError(f"{_PIPELINE} is empty; write {_PIPELINE}='{MODULE}(cse)'")
    if steps and "pass_pipeline" in values:
        raise UserError(f"passes as flags and {_PIPELINE} exclude each other: {steps[0].location}")
    return Command(Flags(**values), tuple(steps), inputs[0] if inputs else "-")


def _next_if_needed(flag: Option, words: Iterator[str]) -> str | None:
    return next(words, None) if flag.bare is None else None


def _driver(command: Command) -> Driver:
    flags = command.flags
    if flags.pass_pipeline:
        return _pipeline_driver(flags)
    try:
        return Driver(command.steps, flags)
    except UnknownPass as error:
        close = get_close_matches(error.name, options_of(Flags), 1, cutoff=_CLOSE)
        if not close:
            raise
        message = f"no pass or option is called '{error.name}'; did you mean '--{close[0]}'?"
        raise UserError(message, error.location) from None


def _pipeline_driver(flags: Flags) -> Driver:
    try:
        anchor, steps = parse_pipeline(flags.pass_pipeline, _PIPELINE)
        return Driver(steps, flags, anchor)
    except UserError as error:
        if not error.location.startswith(_PIPELINE):
            raise
        show = printer(Source(_PIPELINE, os.fsencode(flags.pass_pipeline)))
        show(Diagnostic("error", error.location, error.message))
        raise Failure(_PIPELINE) from None


def _input(path: str) -> Source:
    if path == "-" and sys.stdin and sys.stdin.isatty():
        to_stderr("mopt-opt: reading standard input; end it with ctrl-d")
    return read(path)


def _help() -> str:
    flags = options_of(Flags)
    own = [flag for flag in flags.values() if flag.name not in options_of(Settings)]
    return "\n".join(
        [
            _USAGE,
            "options:",
            *(_flag_help(flag) for flag in [*own, *options_of(Settings).values()]),
            "",
            "passes of mopt-mlir:",
            *(_pass_help(load(name)) for name in REGISTRY),
            f"The passes of MLIR, such as --canonicalize or --lower-affine: {MLIR_PASSES}",
            "",
        ]
    )


def _flag_help(flag: Option) -> str:
    dashes = "-" if len(flag.name) == 1 else "--"
    value = "" if flag.is_flag else "=<value>" if flag.bare is None else "[=<value>]"
    default = "; default on, off with =0" if flag.default is True else ""
    return _entry(f"  {dashes}{flag.name}{value}", flag.help + default)


def _pass_help(cls: type[Pass]) -> str:
    options = (
        _entry(f"      {flag.name}={flag.default_text}", flag.help)
        for flag in options_of(cls).values()
    )
    return "\n".join([f"  --{cls.name}", textwrap.indent(help_of(cls), "    "), *options, ""])


def _entry(left: str, right: str) -> str:
    indent = f"{left:<{_HELP_COLUMN - 1}} "
    return textwrap.fill(
        right,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=" " * _HELP_COLUMN,
        break_on_hyphens=False,
    )
