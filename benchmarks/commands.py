"""What `mopt-bench` does once its command line is read."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import UserError

from . import environment
from .comparison import Comparison
from .crew import Crew, Progress
from .operators import read_operators
from .peers import OURS, REGISTRY
from .protocol import Configuration, Protocol
from .results import Results, kind_of
from .runner import Request, run_benchmark
from .scale import measure_scale
from .scale_results import KIND as SCALE
from .scale_results import Scale
from .scale_tables import scale_tables
from .tables import comparison_table, summary_table
from .workloads import Workload

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 160  # columns where the output is no terminal whose width could be asked for

SUITE: tuple[Configuration, ...] = (
    Configuration(Protocol.PAPER, cold=True, threads=1),
    Configuration(Protocol.PAPER, cold=True, threads=2),
    Configuration(Protocol.PAPER, cold=False, threads=1),
    Configuration(Protocol.PAPER, cold=False, threads=2),
    Configuration(Protocol.CONSTANT_WEIGHTS, cold=True, threads=1),
    Configuration(Protocol.CONSTANT_WEIGHTS, cold=True, threads=2),
    Configuration(Protocol.CONSTANT_WEIGHTS, cold=False, threads=1),
    Configuration(Protocol.CONSTANT_WEIGHTS, cold=False, threads=2),
    Configuration(Protocol.NHWC, cold=True, threads=1),
    Configuration(Protocol.NHWC, cold=True, threads=2),
    Configuration(Protocol.NHWC, cold=False, threads=1),
    Configuration(Protocol.NHWC, cold=False, threads=2),
    Configuration(Protocol.PAPER, cold=True, threads=1, isa="avx2"),
)
"""Every protocol, cold and warm, on one core and on two; and the paper's with AVX2 code."""


def run(arguments: argparse.Namespace) -> int:
    configuration = Configuration(
        Protocol(arguments.protocol), arguments.cold, arguments.threads, arguments.isa
    )
    comparison = _measure(arguments, configuration, arguments.json, arguments.resume)
    _print(comparison_table(comparison))
    return _verdict([comparison])


def suite(arguments: argparse.Namespace) -> int:
    arguments.directory.mkdir(parents=True, exist_ok=True)
    cores = len(environment.available_cpus())
    comparisons = [
        _measure(arguments, configuration, arguments.directory / f"{configuration.slug}.json", True)
        for configuration in SUITE
        if configuration.threads <= cores
    ]
    _print(summary_table(comparisons))
    return _verdict(comparisons)


def _measure(
    arguments: argparse.Namespace, configuration: Configuration, path: Path, resume: bool
) -> Comparison:
    for name in ("repeat", "seconds"):
        if not getattr(arguments, name) > 0:
            raise UserError(f"{name}={getattr(arguments, name)}: must be positive")
    operators = read_operators(arguments.operators, arguments.only)
    request = Request(
        operators,
        configuration,
        arguments.peers,
        path,
        spec=arguments.operators,
        repeat=arguments.repeat,
        seconds=arguments.seconds,
        resume=resume,
        python=arguments.python or environment.peers_python(),
    )
    with _progress(configuration.title, len(operators)) as (progress, done):
        results = run_benchmark(request, progress, done)
    return Comparison.of(results)


@contextmanager
def _progress(title: str, total: int) -> Iterator[tuple[Progress, Any]]:
    """A progress bar on stderr, above it a line for each operator that is done. The bar moves
    between measurements only: a thread that draws would be measured as well."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = _console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[step]}"),
    )
    with Bar(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(title, total=total, step="")

        def step(what: str) -> None:
            bar.update(task, step=what, refresh=True)

        def done(operator: Workload, results: Results) -> None:
            rates = {r.peer: r for r in results.records if r.operator == operator.name}
            line = ", ".join(f"{peer} {record.gflops_median:.1f}" for peer, record in rates.items())
            bar.console.print(f"{title}: {operator.name}: {line}", highlight=False)
            bar.update(task, advance=1, refresh=True)

        warn = lambda message: bar.console.print(f"warning: {message}", highlight=False)  # noqa: E731
        yield Progress(warn, step), done


def _console(stderr: bool = False) -> Console:
    """Wide where the output is no terminal whose width could be asked for."""
    import sys

    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr) if stream.isatty() else Console(stderr=stderr, width=_WIDTH)


def _print(*tables: Any) -> None:
    for table in tables:
        _console().print(table)


def _verdict(comparisons: Sequence[Comparison]) -> int:
    """0, or 1 and a message if one of our results was wrong."""
    wrong = {r.operator for c in comparisons for r in c.wrong if r.peer == OURS}
    if wrong:
        raise UserError(
            "wrong results, further from the reference than rounding can explain: "
            f"{', '.join(sorted(wrong))}; please report it"
        )
    return 0


def scale(arguments: argparse.Namespace) -> int:
    operators = read_operators("table1", arguments.only)
    with _progress("scale", 1) as (progress, _):
        scale = measure_scale(
            arguments.json,
            operators,
            arguments.counts,
            arguments.batches,
            arguments.repeat,
            progress,
        )
    _print(*scale_tables(scale))
    return 0


def report(arguments: argparse.Namespace) -> int:
    comparisons, scales = _read(arguments.files)
    _print(*map(comparison_table, comparisons))
    if comparisons:
        _print(summary_table(comparisons))
    for scale in scales:
        _print(*scale_tables(scale))
    if not arguments.tables_only:
        from .document import write_document

        note = write_document(arguments.output, comparisons, scales, arguments.relative_to)
        _console(stderr=True).print(note, highlight=False)
    return 0


def _read(paths: Sequence[Path]) -> tuple[list[Comparison], list[Scale]]:
    """The files of either kind; results in the order of the suite."""
    scales = [Scale.read(path) for path in paths if kind_of(path) == SCALE]
    results = [Results.read(path) for path in paths if kind_of(path) != SCALE]
    order = [configuration.slug for configuration in SUITE]

    def position(comparison: Comparison) -> int:
        slug = comparison.results.configuration.slug
        return order.index(slug) if slug in order else len(order)

    return sorted(map(Comparison.of, results), key=position), scales


def peers(arguments: argparse.Namespace) -> int:
    from rich.table import Table

    configuration = Configuration(Protocol.PAPER, cold=True)
    python = arguments.python or environment.peers_python()
    table = Table("peer", "version", "how it is run", title=f"Peers in {python}")
    with Crew(
        list(REGISTRY), configuration, environment.choose_cpus(1), python, Progress()
    ) as crew:
        for name, entry in REGISTRY.items():
            version = crew.versions.get(name) or f"not available: {crew.unavailable[name]}"
            table.add_row(name, version, entry.setup)
    _print(table)
    return 0
