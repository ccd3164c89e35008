"""What `mopt-bench` does once its command line is read."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, prod
from os.path import getsize, isfile
from pathlib import Path
from typing import TYPE_CHECKING

from mopt_mlir.diagnostics import UserError, to_stderr
from mopt_mlir.measuring.memory import check_memory
from mopt_mlir.output import check_keeps, check_output, make_directory
from mopt_mlir.tools.printing import print_tables

from . import environment
from .comparison import Comparison, check_ours
from .crew import Crew, Progress
from .operators import problem_of, read_operators
from .peers import REGISTRY
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

_BYTES_PER_ELEMENT = 16  # an operand, and the same in float64 for the reference or to draw it


def configurations(cores: int) -> list[Configuration]:
    """What the suite measures: every protocol, cold and warm, on one core and on all; and the
    paper's with AVX2 code."""
    native = [
        Configuration(protocol, cold, threads)
        for protocol in Protocol
        for cold in (True, False)
        for threads in sorted({1, cores})
    ]
    return [*native, Configuration(Protocol.PAPER, cold=True, threads=1, isa="avx2")]


def run(arguments: argparse.Namespace) -> int:
    """Measure one configuration, and print its table."""
    check_output("-")
    _check_is_new(arguments)
    configuration = Configuration(
        Protocol(arguments.protocol), arguments.cold, arguments.threads, arguments.isa
    )
    comparison = _measure(arguments, configuration, arguments.json, arguments.resume)
    print_tables(comparison_table(comparison))
    return _verdict([comparison])


def _check_is_new(arguments: argparse.Namespace) -> None:
    """Raise UserError where the file of results would replace anything."""
    check_keeps(arguments.operators, [arguments.json])
    check_output(arguments.json)
    if not arguments.resume and isfile(arguments.json) and getsize(arguments.json):
        reason = "there is such a file; continue it with --resume, or name another one"
        raise UserError(reason, str(arguments.json))


def suite(arguments: argparse.Namespace) -> int:
    """Measure every configuration, and print the summary."""
    check_output("-")
    chosen = _configurations(arguments.configurations)
    make_directory(arguments.directory)
    comparisons = [
        _measure(arguments, configuration, arguments.directory / f"{configuration.slug}.json", True)
        for configuration in chosen
    ]
    print_tables(summary_table(comparisons))
    return _verdict(comparisons)


def _configurations(slugs: Sequence[str]) -> list[Configuration]:
    """Those of the suite that are named, or all. Raises UserError for an unknown name.

    A name without a number, as `a-cold`, is both of one core and of all.
    """
    suite = configurations(len(environment.core_cpus()))
    known = [name for configuration in suite for name in _names(configuration)]
    for slug in slugs:
        if slug not in known:
            raise UserError(f"no configuration '{slug}'; known: {', '.join(dict.fromkeys(known))}")
    return [c for c in suite if not slugs or not {*slugs}.isdisjoint(_names(c))]


def _names(configuration: Configuration) -> tuple[str, ...]:
    """What a configuration of the suite may be called."""
    slug = configuration.slug
    every, _, _ = slug.rpartition("-")
    return (slug, every) if configuration.isa == "native" else (slug,)


def _measure(
    arguments: argparse.Namespace, configuration: Configuration, path: Path, resume: bool
) -> Comparison:
    check_positive(arguments, "repeat", "seconds")
    operators = read_operators(arguments.operators, arguments.only)
    for operator in operators:
        try:
            problem_of(operator).check_size()
        except ValueError as error:
            raise UserError(f"{operator.name}: {error}", arguments.operators) from None
        shapes = operator.input_shape, operator.weights_shape, operator.output_shape
        needed = _BYTES_PER_ELEMENT * sum(map(prod, shapes))
        check_memory(needed, f"'{operator.name}'", "measure others")
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
    with progress_bar(configuration.title, len(operators)) as (progress, finish):

        def done(operator: Workload, results: Results) -> None:
            rates = {r.peer: r for r in results.records if r.operator == operator.name}
            line = ", ".join(f"{peer} {record.gflops_median:.1f}" for peer, record in rates.items())
            finish(f"{operator.name}: {line}")

        results = run_benchmark(request, progress, done)
    return Comparison.of(results)


def check_positive(arguments: argparse.Namespace, *names: str) -> None:
    """Raise UserError where an option is not a positive number."""
    for name in names:
        if not 0 < (value := getattr(arguments, name)) < inf:
            raise UserError(f"{name.replace('_', '-')}={value}: must be positive and finite")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[tuple[Progress, Callable[[str], None]]]:
    """A progress bar on stderr, and what moves it one further and adds a line above it. The bar
    moves between measurements only: a thread that draws would be measured as well."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    screen = _console()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[step]}", markup=False),
    )
    hidden = not screen.is_terminal
    with Bar(*columns, console=screen, auto_refresh=False, transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=total, step="")

        def say(message: str) -> None:
            if hidden:
                to_stderr(message)
            else:
                bar.console.print(message, highlight=False)

        def step(what: str) -> None:
            bar.update(task, step=what, refresh=True)

        def finish(line: str) -> None:
            say(f"{title}: {line}")
            bar.update(task, advance=1, refresh=True)

        yield Progress(lambda message: say(f"warning: {message}"), step), finish


def _console() -> Console:
    """That of standard error, wide where it is no terminal whose width could be asked for."""
    import sys

    from rich.console import Console

    terminal = sys.stderr is not None and sys.stderr.isatty()
    width = None if terminal else _WIDTH
    return Console(stderr=True, width=width, markup=False, emoji=False)


def _verdict(comparisons: Sequence[Comparison]) -> int:
    """0. Raises UserError if ours was wrong or failed."""
    results = [comparison.results for comparison in comparisons]
    check_ours(
        (record for one in results for record in one.records),
        (failure for one in results for failure in one.failures),
    )
    return 0


def scale(arguments: argparse.Namespace) -> int:
    """Measure how things grow, and print the tables."""
    check_output("-")
    check_positive(arguments, "repeat")
    operators = read_operators("table1", arguments.only)
    with progress_bar("scale", 1) as (progress, _):
        scale = measure_scale(
            arguments.json,
            operators,
            arguments.counts,
            arguments.batches,
            arguments.repeat,
            progress,
        )
    print_tables(*scale_tables(scale))
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Print the tables of files of results, and write the document."""
    comparisons, scales = _read(arguments.files)
    print_tables(*map(comparison_table, comparisons))
    if comparisons:
        print_tables(summary_table(comparisons))
    for scale in scales:
        print_tables(*scale_tables(scale))
    if not arguments.tables_only:
        from .document import write_document

        to_stderr(write_document(arguments.output, comparisons, scales, arguments.relative_to))
    return 0


def _read(paths: Sequence[Path]) -> tuple[list[Comparison], list[Scale]]:
    """The files of either kind; results in an order to be read in."""
    scales = [Scale.read(path) for path in paths if kind_of(path) == SCALE]
    results = [Results.read(path) for path in paths if kind_of(path) != SCALE]
    measured = Counter(result.configuration.slug for result in results)
    for what, number in (*measured.items(), ("scale", len(scales))):
        if number > 1:
            raise UserError(f"{number} files have results of {what}; report one of them at a time")
    return sorted(map(Comparison.of, results), key=_position), scales


def _position(comparison: Comparison) -> tuple[bool, str, bool, int]:
    """By class, cold first, few cores first; limited instructions at the end."""
    c = comparison.results.configuration
    return c.isa != "native", c.protocol.class_, not c.cold, c.threads


def peers(arguments: argparse.Namespace) -> int:
    """List the peers."""
    from rich.table import Table

    configuration = Configuration(Protocol.PAPER, cold=True)
    python = arguments.python or environment.peers_python()
    table = Table("peer", "version", "how it is run", title=f"Peers in {python}")
    with Crew(
        list(REGISTRY), configuration, environment.choose_cpus(1), python, Progress()
    ) as crew:
        for name, entry in REGISTRY.items():
            reason = crew.unavailable.get(name)
            version = f"not available: {reason}" if reason else crew.versions[name]
            table.add_row(name, version, entry.setup)
    print_tables(table)
    return 0
