"""`mopt-demo`: what the compiler does with each function of a file, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mopt_mlir.tools.command_line import (
    Parser,
    add_compilation_options,
    compile_options,
    run_tool,
)
from mopt_mlir.tools.printing import BOTTLENECK_NOTE, CLASSES_NOTE, GAP_NOTE, print_tables
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.lowering.function import Function
    from mopt_mlir.machine import Machine
    from mopt_mlir.measuring.running import Measurement, RunOptions
    from mopt_mlir.pipeline.source import Source
    from mopt_mlir.plan import Plan

DESCRIPTION = """\
Plan, compile and run each function of a file on random data, and print what came out: the plan, how
long that took, GFLOP/s, the share of this host's measured FMA peak, and the error. Exit code 1 if a
result is further from the float64 reference than rounding can explain."""

NOTES = f"""\
{CLASSES_NOTE}{BOTTLENECK_NOTE}\
solve: what finding the plan took; next to nothing if it was found before and kept on disk
{GAP_NOTE}\
GFLOP/s: of the median run, with warm caches
of peak: relative to cores that do nothing but FMAs, as measured on this host beside each operator
error: the largest one, relative to the largest value, against a float64 reference"""


@dataclass(frozen=True)
class Result:
    """What became of one function: `plans` of its convolutions, times in seconds."""

    plans: tuple[Plan, ...]
    solve_seconds: float
    compile_seconds: float
    measured: Measurement

    @property
    def is_right(self) -> bool:
        """As far as it could be checked."""
        return self.measured.accuracy is None or self.measured.accuracy.is_good


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-demo on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _run, argv)


def _parser() -> Parser:
    parser = Parser(
        prog="mopt-demo",
        description=DESCRIPTION,
        epilog=NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_compilation_options(parser, "this host")
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="runs (default 20)")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import track

    from mopt_mlir.diagnostics import UserError
    from mopt_mlir.machine import resolve
    from mopt_mlir.measuring.running import RunOptions
    from mopt_mlir.output import check_output
    from mopt_mlir.pipeline.loading import load_module
    from mopt_mlir.pipeline.source import read

    check_output("-")
    options = compile_options(arguments)
    run = RunOptions(repeat=arguments.repeat, check=True)
    source = read(arguments.input)
    module = load_module(source)
    machine = resolve(options.planned_machine, module)
    names = _public_functions(module)
    if not names:
        raise UserError("there is no function to run", source.name)
    screen = Console(stderr=True)
    steps = track(
        names,
        "Compiling, running and checking",
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
    found = [_result(source, name, run, options) for name in steps]
    results = [result for result in found if result is not None]
    if not results:
        raise UserError("none of its functions can be run", source.name)
    print_tables(_table(results, machine, options.threads), NOTES)
    wrong = [result.measured.entry for result in results if not result.is_right]
    if wrong:
        raise UserError(
            f"wrong results, further from the reference than rounding can explain: "
            f"{', '.join(wrong)}; please report it",
            source.name,
        )
    return 0


def _result(source: Source, name: str, run: RunOptions, options: CompileOptions) -> Result | None:
    """What became of the function `name`; None, after a warning, if it cannot be run from here."""
    from mopt_mlir.compiler.choosing import choose_plans
    from mopt_mlir.compiler.compilation import compile_with
    from mopt_mlir.diagnostics import UserError, emit
    from mopt_mlir.pipeline.loading import keep_only, load_module

    module = load_module(source)
    keep_only(name, module)  # so that times are its own
    start = perf_counter()
    if options.candidates > 1:
        choose_plans(module, options, options.target_here())
    plans = _analyze(module, options)
    solved = perf_counter()
    executable = compile_with(module, options)
    compiled = perf_counter()
    if name not in executable:
        return None
    try:
        measured = _measured(executable[name], module, run, options)
    except UserError as error:  # sizes that are open, or more than memory has room for
        emit("warning", error.location, f"'{name}' is not run: {error.message}")
        return None
    return Result(plans, solved - start, compiled - solved, measured)


def _measured(
    function: Function, module: Any, run: RunOptions, options: CompileOptions
) -> Measurement:
    """Speed, and distance from the reference; with a warning instead of the latter if there is
    something that the reference does not know."""
    from mopt_mlir.diagnostics import emit
    from mopt_mlir.measuring.running import measure
    from mopt_mlir.reference import NotInReferenceError

    measured = partial(measure, function, module, threads=options.threads, cpu=options.cpu)
    try:
        return measured(run)
    except NotInReferenceError as unknown:
        emit("warning", unknown.location, f"results are not checked: {unknown.message}")
        return measured(replace(run, check=False))


def _public_functions(module: Any) -> list[str]:
    from mopt_mlir.func_ops import name_of, public_functions

    return list(map(name_of, public_functions(module)))


def _analyze(module: Any, options: CompileOptions) -> tuple[Plan, ...]:
    """Attach a plan to each convolution of `module` and return them. What is not tiled is for
    compiling to say."""
    from mopt_mlir.bindings import bindings_of
    from mopt_mlir.diagnostics import NOT_TILED, without
    from mopt_mlir.operations import inside
    from mopt_mlir.pipeline.loading import run_passes
    from mopt_mlir.pipeline.pass_registry import create
    from mopt_mlir.planning import plan_attribute

    with without(NOT_TILED):
        run_passes(module, create("mopt-analyze", **options.planning_options()))
    bindings = bindings_of(module)
    plans = (plan_attribute.attached(operation, bindings) for operation in inside(module))
    return tuple(plan for plan in plans if plan is not None)


def _table(results: Iterable[Result], machine: Machine, threads: int) -> Table:
    from rich import box
    from rich.table import Table

    cores = counted(threads, "core")
    table = Table(
        title=f"Planned for {machine.name} ({machine.cpu}), run on {cores}",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("operator", no_wrap=True)
    table.add_column("classes")
    table.add_column("bottleneck")
    for title in ("solve", "gap", "compile", "GFLOP/s", "of peak", "error"):
        table.add_column(title, justify="right")
    for result in results:
        table.add_row(*_cells(result))
    return table


def _cells(result: Result) -> tuple[str | Text, ...]:
    from rich.text import Text

    measured = result.measured
    predictions = [plan.prediction for plan in result.plans if plan.prediction is not None]
    accuracy = measured.accuracy
    error = "unchecked" if accuracy is None else f"{accuracy.relative:.1e}"
    return (
        measured.entry,
        "\n".join(_classes(plan) for plan in result.plans) or "not tiled",
        "\n".join(prediction.bottleneck for prediction in predictions),
        f"{result.solve_seconds:.2f} s" if result.plans else "",
        "\n".join(f"{prediction.gap:.2%}" for prediction in predictions),
        f"{result.compile_seconds:.2f} s",
        f"{measured.gflops:.1f}" if measured.gflops else "",
        f"{measured.share_of_peak:.0%}" if measured.share_of_peak else "",
        error if result.is_right else Text(f"{error} WRONG", "bold red"),
    )


def _classes(plan: Plan) -> str:
    """The permutation class of each level, outermost first: `s wk h`."""
    if plan.prediction is None:
        return "by hand"
    return " ".join(plan.prediction.classes[level.name] for level in plan.levels)
