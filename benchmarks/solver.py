"""How long proofs take, and what they are worth: `python -m benchmarks.solver`, about ten minutes.

Plans the operators of Table 1 on three machines for 1, 2 and 8 cores, exactly and by the paper's
Algorithm 1, and then convolutions of unusual shapes, in one process on one core. Compares
each bound with random plans, `--certificates N` of them. Writes each result as JSON and all of them
as the tables of docs/model.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.machine import Machine
from mopt_mlir.machine.registry import by_name
from mopt_mlir.output import check_output, make_directory, write_output
from mopt_mlir.plan import GAP, TIME_LIMIT, Plan
from mopt_mlir.planning.operators import TABLE1, read_list
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver import solve
from mopt_mlir.tools.command_line import Parser, run_tool

from .certificates import challenge
from .environment import ROOT, core_cpus, cpu_model, own_versions, today
from .operators import read_operators
from .solver_results import PATIENCE, Results, Solved
from .solver_tables import check_page, replaced, summary

MACHINES = ("znver5", "i7-9700k", "i9-10980xe")
CORES = (1, 2, 8)

UNUSUAL_GAP = 0.01
"""The proven gap that is asked for of unusual shapes."""

CERTIFICATES = 12_000
"""Random plans per bound: more than 10^5 for each operator, over the machines and cores."""

UNUSUAL = {
    "VGG-16 1.1": {"k": 64, "h": 224, "w": 224, "c": 3, "r": 3, "s": 3},
    "VGG-16 1.2": {"k": 64, "h": 224, "w": 224, "c": 64, "r": 3, "s": 3},
    "VGG-16 2.2": {"k": 128, "h": 112, "w": 112, "c": 128, "r": 3, "s": 3},
    "VGG-16 3.3": {"k": 256, "h": 56, "w": 56, "c": 256, "r": 3, "s": 3},
    "VGG-16 4.3": {"k": 512, "h": 28, "w": 28, "c": 512, "r": 3, "s": 3},
    "VGG-16 5.3": {"k": 512, "h": 14, "w": 14, "c": 512, "r": 3, "s": 3},
    "Inception-v3 1x7": {"k": 192, "h": 17, "w": 17, "c": 192, "r": 1, "s": 7},
    "Inception-v3 7x1": {"k": 192, "h": 17, "w": 17, "c": 192, "r": 7, "s": 1},
    "Inception-v3 1x3": {"k": 384, "h": 8, "w": 8, "c": 384, "r": 1, "s": 3},
    "ConvNeXt stem 4x4/4": {"k": 96, "h": 56, "w": 56, "c": 3, "r": 4, "s": 4, "stride": 4},
    "ConvNeXt 7x7": {"k": 96, "h": 56, "w": 56, "c": 96, "r": 7, "s": 7},
    "7x7, K = 1": {"k": 1, "h": 56, "w": 56, "c": 96, "r": 7, "s": 7},
    "7x7, C = 1": {"k": 96, "h": 56, "w": 56, "c": 1, "r": 7, "s": 7},
    "dilated by 2": {"k": 256, "h": 28, "w": 28, "c": 256, "r": 3, "s": 3, "dilation": 2},
    "dilated by 4": {"k": 512, "h": 28, "w": 28, "c": 512, "r": 3, "s": 3, "dilation": 4},
    "batch of 8": {"n": 8, "k": 256, "h": 14, "w": 14, "c": 256, "r": 3, "s": 3},
    "batch of 32": {"n": 32, "k": 512, "h": 7, "w": 7, "c": 512, "r": 3, "s": 3},
    "prime extents": {"k": 103, "h": 53, "w": 47, "c": 101, "r": 3, "s": 3},
    "prime, pointwise": {"k": 211, "h": 29, "w": 31, "c": 199, "r": 1, "s": 1},
    "1x1 image": {"k": 997, "h": 1, "w": 1, "c": 1009, "r": 1, "s": 1},
    "1x1 image, 3x3": {"k": 512, "h": 1, "w": 1, "c": 512, "r": 3, "s": 3},
    "all extents 1": {"k": 1, "h": 1, "w": 1, "c": 1, "r": 1, "s": 1},
}
LAYOUTS = (("nchw", "fchw"), ("nhwc", "hwcf"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark on `argv`: 0, or 1 if a bound was found to be wrong, or after a message."""
    parser = Parser(prog="benchmarks.solver", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=Path("build/bench-solver.json"))
    parser.add_argument("--document", type=Path, default=ROOT / "docs" / "model.md")
    parser.add_argument("--certificates", type=int, default=CERTIFICATES, metavar="N")
    parser.add_argument("--operators", nargs="+", help="only these operators of Table 1")
    return run_tool(parser, _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    results = measure(arguments.operators, arguments.certificates)
    print(summary(results))
    record = asdict(results) | {"versions": own_versions()}
    write_output(arguments.json, (json.dumps(record, indent=1) + "\n").encode())
    if arguments.operators is None:
        page = replaced(_text_of(arguments.document), results)
        write_output(arguments.document, page.encode())
    wrong = [s for s in (*results.table1, *results.unusual) if s.lower_bound > s.cost * (1 + 1e-9)]
    for solved in wrong:
        print(f"WRONG BOUND: {solved}", file=sys.stderr)
    return 1 if wrong else 0


def _check(arguments: argparse.Namespace) -> None:
    """Raise UserError before work is spent on what is not there or cannot be written."""
    if arguments.certificates < 0:
        raise UserError(f"certificates={arguments.certificates}: must be 0, for none, or more")
    if arguments.operators is None:
        check_output(arguments.document)
        check_page(_text_of(arguments.document))
    else:
        read_operators(TABLE1, arguments.operators)
    make_directory(arguments.json.parent)
    check_output(arguments.json)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise UserError("it is not UTF-8 text", str(path)) from None


def measure(operators: Sequence[str] | None, certificates: int) -> Results:
    """Plan everything on one core; only `operators` of Table 1 if they are given."""
    os.sched_setaffinity(0, core_cpus()[:1])
    solve(conv2d(k=8, h=8, w=8, c=8, r=3, s=3), by_name(MACHINES[0]))  # imports are not counted
    start, started = time.perf_counter(), time.process_time()
    table1 = list(_table1(operators, certificates))
    unusual = [] if operators else list(_unusual(certificates))
    share = (time.process_time() - started) / (time.perf_counter() - start)
    return Results(table1, unusual, cpu_model(), today()[:10], share)


def _table1(only: Sequence[str] | None, certificates: int) -> Iterator[Solved]:
    for machine in map(by_name, MACHINES):
        for threads in CORES:
            print(f"Table 1 on {machine.name}, {threads} cores", file=sys.stderr)
            for operator in read_list(TABLE1):
                if only and operator.name not in only:
                    continue
                case = operator.name, operator.problem, machine, threads
                yield _solved(*case, "exact", GAP, certificates)
                yield _solved(*case, "algorithm1", GAP)


def _unusual(certificates: int) -> Iterator[Solved]:
    for machine in map(by_name, MACHINES):
        print(f"unusual shapes on {machine.name}", file=sys.stderr)
        for threads in CORES:
            for name, sizes in UNUSUAL.items():
                for layout, weights in LAYOUTS:
                    problem = conv2d(**sizes, layout=layout, weights=weights)  # type: ignore[arg-type]
                    case = f"{name}, {layout}", problem, machine, threads
                    yield _solved(*case, "exact", UNUSUAL_GAP, certificates)


def _solved(
    name: str,
    problem: Problem,
    machine: Machine,
    threads: int,
    solver: str,
    gap: float,
    certificates: int = 0,
) -> Solved:
    start = time.process_time()
    limit = PATIENCE if solver == "exact" else TIME_LIMIT
    plan = solve(problem, machine, threads, gap=gap, solver=solver, time_limit=limit)
    seconds = time.process_time() - start
    assert plan.prediction is not None
    cost, bound = plan.prediction.cost, plan.prediction.lower_bound
    number = _challenged(problem, machine, plan, certificates) if certificates else 0
    return Solved(name, machine.name, threads, solver, seconds, cost, bound, number)


def _challenged(problem: Problem, machine: Machine, plan: Plan, number: int) -> int:
    """The number of random plans that were evaluated. Raises UserError if one refutes the bound."""
    assert plan.prediction is not None
    bound = plan.prediction.lower_bound
    found = challenge(problem, machine, plan, number)
    least = min(found.least, found.predicted)
    if least < bound * (1 - 1e-9):
        raise UserError(f"a plan of {least} s refutes the bound of {bound} s: {problem}")
    return found.plans


if __name__ == "__main__":
    sys.exit(main())
