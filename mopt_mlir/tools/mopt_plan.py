"""`mopt-plan`: plans for many operators at once, with their predicted times and proofs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mopt_mlir import units
from mopt_mlir.plan import GAP, TIME_LIMIT
from mopt_mlir.tools.command_line import (
    Parser,
    add_constant_weights_option,
    add_jobs_option,
    add_machine_options,
    add_plan_cache_option,
    run_tool,
)
from mopt_mlir.tools.printing import BOTTLENECK_NOTE, CLASSES_NOTE, GAP_NOTE, print_tables
from mopt_mlir.tools.progress import progress_bar
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

    from mopt_mlir.planning.plan_many import Planned

DESCRIPTION = """\
Find the best plan for each convolution of a file and print what the model predicts of it, with the
proven gap to the best one that can be chosen. Plans are kept for the passes, mopt-compile and
mopt-run.

The input is MLIR, a list of sizes in JSON, or table1: the 32 convolutions of Yolo-9000, ResNet-18
and MobileNet in Table 1 of the paper."""

NOTES = f"""\
{CLASSES_NOTE}\
registers: the outputs that a core holds in registers
parallel: into how many parts a dim is split between cores
{BOTTLENECK_NOTE}\
cost: the model's objective, about the time of one run
{GAP_NOTE}\
solve: what finding the plan took; "kept" if it was found before"""

EPILOG = """\
On a cluster: start `dask scheduler` on one machine and `dask worker ADDRESS` on each, all with this
version of mopt-mlir, then `mopt-plan table1 --backend dask --scheduler ADDRESS`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run mopt-plan on `argv`, by default the process's own: 0, or 1 after a message."""
    return run_tool(_parser(), _run, argv)


def _parser() -> Parser:
    parser = Parser(
        prog="mopt-plan",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input", nargs="?", help="table1, a .json file, or MLIR (- for standard input)"
    )
    add_machine_options(parser)
    add_constant_weights_option(parser)
    parser.add_argument(
        "--solver",
        default="exact",
        help="exact (the default), or algorithm1: that of the paper, as a baseline",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help=f"seconds for an operator (default {TIME_LIMIT:g})",
    )
    parser.add_argument(
        "--gap",
        type=float,
        help=f"stop when no other plan to choose from can be better by more (default {GAP})",
    )
    add_jobs_option(parser)
    parser.add_argument(
        "--backend", default="loky", help="loky (the default): this machine, or dask: a cluster"
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report")
    add_plan_cache_option(parser)
    parser.add_argument(
        "--clear-cache", action="store_true", help="remove all plans that were kept, first"
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mopt_mlir.output import check_output, write_output

    if arguments.clear_cache:
        _clear_cache()
    if arguments.input is not None:
        check_output("-")
        planned = _plan(arguments)
        if arguments.format == "text":
            print_tables(_table(planned), NOTES)
        else:
            write_output("-", f"{_json(planned)}\n".encode())
    elif not arguments.clear_cache:
        _parser().error("an input is needed")
    return 0


def _plan(arguments: argparse.Namespace) -> tuple[Planned, ...]:
    from mopt_mlir.planning.plan_many import plan_many
    from mopt_mlir.tools.inputs import list_or_source

    with progress_bar("Planning") as progress:
        return plan_many(
            list_or_source(arguments.input),
            machine=arguments.machine,
            threads=arguments.threads,
            constant_weights=arguments.constant_weights,
            solver=arguments.solver,
            gap=GAP if arguments.gap is None else arguments.gap,
            time_limit=TIME_LIMIT if arguments.time_limit is None else arguments.time_limit,
            jobs=arguments.jobs,
            backend=arguments.backend,
            scheduler=arguments.scheduler,
            plan_cache=arguments.plan_cache,
            progress=progress,
        )


def _clear_cache() -> None:
    from mopt_mlir.diagnostics import UserError, to_stderr
    from mopt_mlir.planning.plan_cache import PlanCache

    try:
        removed = PlanCache().clear()
    except OSError as error:
        raise UserError(f"cannot remove it: {error.strerror}", error.filename or "") from None
    to_stderr(f"mopt-plan: {counted(removed, 'plan')} removed")


def _json(planned: Sequence[Planned]) -> str:
    return json.dumps([one.record() for one in planned], indent=2)


def _table(planned: Sequence[Planned]) -> Table:
    from rich import box
    from rich.table import Table

    machine, threads = planned[0].machine, planned[0].request.threads
    table = Table(
        title=f"Planned for {machine.name} ({machine.cpu}), {counted(threads, 'core')}",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("operator", no_wrap=True)
    for title in ("classes", "registers", "parallel", "bottleneck"):
        table.add_column(title)
    for title in ("cost", "gap", "solve"):
        table.add_column(title, justify="right")
    for one in planned:
        table.add_row(*_cells(one))
    return table


def _cells(one: Planned) -> tuple[str, ...]:
    plan = one.solution.plan
    predicted = plan.prediction
    assert predicted is not None
    return (
        one.operator.name,
        " ".join(predicted.classes[level.name] for level in plan.levels),
        " x ".join(f"{dim} {size}" for dim, size in plan.microkernel.tile.items()),
        " x ".join(f"{dim} {ways}" for dim, ways in plan.parallel.items() if ways > 1),
        predicted.bottleneck,
        units.seconds(predicted.cost),
        f"{predicted.gap:.2%}",
        "kept" if one.solution.cached else f"{one.solution.seconds:.2f} s",
    )
