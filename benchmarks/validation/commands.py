"""What `mopt-validate` does once its command line is read."""

from __future__ import annotations

import argparse
from pathlib import Path

from mopt_mlir.diagnostics import UserError, to_stderr
from mopt_mlir.output import make_directory
from mopt_mlir.planning.operators import TABLE1
from mopt_mlir.wording import guess

from .. import environment
from ..commands import check_positive, progress_bar
from ..operators import problem_of, read_operators, version
from ..workloads import LAYOUTS, Workload
from .measure import Request as Measuring
from .measure import measure as measure_plans
from .places import DIRECTORY, LISTS
from .records import COMPRESSED, OF_VOLUMES
from .simulations import Request as Simulating
from .simulations import simulate_plans

NOTE = ".md"
"""How pages end that somebody wrote on the trials."""

_NOTHING_MEASURED = "no measurements; mopt-validate measure writes them to {}"


def measure(arguments: argparse.Namespace) -> int:
    """Time plans."""
    check_positive(arguments, "samples", "rounds", "final_rounds", "seconds")
    operators = _operators(arguments)
    title = _title(arguments)
    make_directory(arguments.directory)
    request = Measuring(
        operators,
        arguments.directory / f"{title}.jsonl",
        arguments.operators,
        version(_spec(arguments), arguments.layout),
        isa=arguments.isa,
        cold=arguments.cold,
        samples=arguments.samples,
        seed=arguments.seed,
        rounds=arguments.rounds,
        final_rounds=arguments.final_rounds,
        seconds=arguments.seconds,
    )
    with progress_bar(title, len(operators)) as (progress, finish):
        measure_plans(request, progress, finish)
    return 0


def simulate(arguments: argparse.Namespace) -> int:
    """Simulate the memory accesses of plans that were timed."""
    from .trials import title_of

    jobs = len(environment.core_cpus()) if arguments.jobs is None else arguments.jobs
    check_positive(arguments, "accesses")
    if jobs < 1:
        raise UserError(f"jobs={jobs}: must be positive")
    files = arguments.files or _measured(arguments.directory)
    if not files:
        raise UserError(_NOTHING_MEASURED.format(arguments.directory))
    requests = [
        Simulating(
            path,
            # volumes do not depend on whether the caches were warm
            arguments.directory / f"{title_of(path).removesuffix('-warm')}{OF_VOLUMES}.jsonl",
            arguments.samples,
            arguments.slowest,
            limit=arguments.accesses,
            jobs=jobs,
            check=arguments.valgrind,
        )
        for path in files
    ]
    with progress_bar("simulated", len(requests)) as (progress, finish):
        for request in requests:
            simulate_plans(request, progress)
            finish(str(request.path))
    return 0


def _measured(directory: Path) -> list[Path]:
    """The files of `measure` in a directory."""
    found = sorted(directory.glob("*.jsonl"))
    return [path for path in found if not path.stem.endswith(OF_VOLUMES)]


def report(arguments: argparse.Namespace) -> int:
    """Write the document."""
    from ..comparison import Comparison
    from ..results import Results
    from .document import Note, write_document
    from .trials import read_trials, title_of

    files = arguments.files or sorted(DIRECTORY.glob("*.jsonl"))
    bench = [*arguments.bench, *filter(_is_of_bench, files)]
    notes = [Note.read(path) for path in files if path.suffix == NOTE]
    given: dict[str, Path] = {}
    for path in (*files, *arguments.bench):
        title = title_of(path)
        if (other := given.setdefault(title, path)) is not path:
            reason = f"{other} has the same title, '{title}': leave out or rename one"
            raise UserError(reason, str(path))
    files = [path for path in files if path not in bench and path.suffix != NOTE]
    trials = read_trials(files)
    if not trials:
        needed = (
            "no measurements in these files; those that mopt-validate measure writes are needed"
        )
        raise UserError(needed if arguments.files else _NOTHING_MEASURED.format(DIRECTORY))
    bench.sort(key=title_of)
    comparisons = {title_of(path): Comparison.of(Results.read(path)) for path in bench}
    to_stderr(write_document(arguments.output, trials, comparisons, [*files, *bench], notes))
    return 0


def _is_of_bench(path: Path) -> bool:
    """Whether a file is of mopt-bench, by its name, and not of lines of JSON."""
    return path.name.removesuffix(COMPRESSED).endswith(".json")


def _operators(arguments: argparse.Namespace) -> list[Workload]:
    found = read_operators(_spec(arguments), arguments.only, arguments.layout)
    for operator in found:
        try:
            problem_of(operator).check_size()
        except ValueError as error:
            raise UserError(f"{operator.name}: {error}", arguments.operators) from None
    return found


def _spec(arguments: argparse.Namespace) -> str:
    """Where the operators are from: Table 1, or the path of a list."""
    name = arguments.operators
    lists = (TABLE1, *LISTS)
    if name not in lists and not Path(name).exists() and (hint := guess(name, lists)):
        raise UserError(f"there is no such file; {hint}", name)
    return str(LISTS.get(name, name))


def _title(arguments: argparse.Namespace) -> str:
    """The operators, their layout, if it is not the usual one, and the instruction set, as files
    are named: `table1-native`."""
    layout = "" if arguments.layout == LAYOUTS[0] else f"-{arguments.layout}"
    warm = "" if arguments.cold else "-warm"
    return f"{Path(arguments.operators).stem}{layout}-{arguments.isa}{warm}"
