"""How things grow: planning with the number of operators, speed with cores, time with the batch."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import check_output, temporary_directory

from . import environment
from .bandwidth import DRAM
from .comparison import check_ours
from .crew import Crew, Progress
from .operators import problem_of
from .peers import OURS
from .protocol import Configuration, Protocol
from .results import check_continues
from .runner import Request, measure_operator
from .scale_results import (
    BATCHES,
    COUNTS,
    PLAN_CACHES,
    PREDICTED_CORES,
    Batch,
    Planning,
    Scale,
    Scaling,
)
from .workloads import Workload

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine

_SIZES = {
    "k": (16, 32, 48, 64, 96, 128, 192, 256, 384, 512),
    "c": (16, 32, 48, 64, 96, 128, 192, 256, 384, 512),
    "h": (7, 8, 14, 17, 28, 32, 35, 56),
    "r": (1, 3, 5),
    "stride": (1, 2),
}
"""What the operators of a network are made of: 4800 combinations."""

_NOT_COUNTED = Workload("first", k=8, h=9, w=9, c=8, r=3, s=3)
"""None of these: whatever is planned first takes as long as it takes to import what plans."""

_UNKNOWN_BANDWIDTH = {DRAM: float("inf")}  # shares of the roofline are not reported here


def measure_scale(
    path: Path,
    operators: Sequence[Workload],
    counts: Sequence[int] = COUNTS,
    batches: Sequence[int] = BATCHES,
    repeat: int = 20,
    progress: Progress | None = None,
) -> Scale:
    """Measure all three. `path` is written after each part; what it has already is not measured
    again. Raises UserError if it cannot be written, or was measured otherwise, and where code of
    ours fails or computes something else."""
    check_output(path)
    progress = progress or Progress()
    arguments = {
        "operators": [operator.name for operator in operators],
        "counts": list(counts),
        "batches": list(batches),
        "repeat": repeat,
    }
    machine = environment.machine_of(environment.choose_cpus(1))
    scale = _start(path, arguments, machine)
    for count in counts:
        if count not in {planning.operators for planning in scale.planning}:
            progress.step(f"planning {count} operators")
            scale.planning += measure_planning(distinct_operators(count))
            scale.write(path)
    for cores in sorted({*_powers_of_two(machine.cores), machine.cores, *PREDICTED_CORES}):
        if cores not in {scaling.cores for scaling in scale.scaling}:
            progress.step(f"{cores} cores")
            scale.scaling += _scaling(operators, cores, machine, repeat, path, progress)
            scale.write(path)
    for operator in operators:
        if operator.name not in {batch.operator for batch in scale.batch}:
            progress.step(f"{operator.name}: batches")
            scale.batch += _batches(operator, batches, machine, repeat, path, progress)
            scale.write(path)
    return scale


def _start(path: Path, arguments: dict[str, Any], machine: Machine) -> Scale:
    """No figures yet, or those to continue."""
    head = {
        "date": environment.today(),
        "commit": environment.commit(),
        **environment.provenance(machine),
        "machine": environment.describe_machine(machine),
        "versions": environment.own_versions(),
        "arguments": arguments,
    }
    if not path.exists():
        return Scale(head)
    scale = Scale.read(path)
    check_continues(scale.head, head, path)
    return scale


def distinct_operators(count: int, seed: int = 0) -> list[Workload]:
    """Convolutions of sizes that networks have, no two alike. Raises UserError for too many."""
    combinations = list(product(*_SIZES.values()))
    if count > len(combinations):
        raise UserError(f"{count} distinct operators: there are {len(combinations)}")
    operators = []
    for number, values in enumerate(random.Random(seed).sample(combinations, count)):
        k, c, h, r, stride = values
        operators.append(Workload(f"conv{number}", k, h, h, c, r, r, strides=(stride, stride)))
    return operators


def measure_planning(operators: Sequence[Workload]) -> Iterator[Planning]:
    """Plan one module of all `operators` with an empty plan cache, and with the one filled then;
    compile it, which takes the same time for both."""
    _plan_and_compile([_NOT_COUNTED])
    plan_seconds, compile_seconds = _plan_and_compile(operators)
    for plan_cache, seconds in zip(PLAN_CACHES, plan_seconds, strict=True):
        yield Planning(len(operators), plan_cache, seconds, compile_seconds)


def _plan_and_compile(operators: Sequence[Workload]) -> tuple[list[float], float]:
    """Seconds to plan a module of `operators` with each of PLAN_CACHES, and to compile it."""
    import mopt_mlir
    from mopt_mlir.pipeline.loading import load_module, run_passes

    text = "".join(o.mlir().replace("@conv(", f"@{o.name}(") for o in operators)
    seconds = []
    with temporary_directory() as directory, _plan_cache_in(str(directory)):
        for _ in PLAN_CACHES:
            module = load_module(text)
            start = perf_counter()
            run_passes(module, "mopt-analyze{machine=host}")
            seconds.append(perf_counter() - start)
    start = perf_counter()
    mopt_mlir.compile(module, require_tiled=True, plan_cache=False)  # the plans are attached
    return seconds, perf_counter() - start


@contextmanager
def _plan_cache_in(directory: str) -> Iterator[None]:
    """Leave the user's plans alone."""
    from mopt_mlir.cache_directory import ENVIRONMENT

    before = os.environ.get(ENVIRONMENT)
    os.environ[ENVIRONMENT] = directory
    try:
        yield
    finally:
        if before is None:
            del os.environ[ENVIRONMENT]
        else:
            os.environ[ENVIRONMENT] = before


def _powers_of_two(limit: int) -> list[int]:
    return [1 << exponent for exponent in range(limit.bit_length())]


def _scaling(
    operators: Sequence[Workload],
    cores: int,
    machine: Machine,
    repeat: int,
    path: Path,
    progress: Progress,
) -> Iterator[Scaling]:
    rates: dict[str, float] = {}
    if cores <= machine.cores:
        rates = dict(_rates(operators, cores, repeat, path, progress))
    larger = larger_machine(machine, cores)
    for operator in operators:
        predicted = operator.flops / predicted_seconds(operator, larger, cores) * 1e-9
        yield Scaling(operator.name, cores, rates.get(operator.name), predicted)


def larger_machine(machine: Machine, cores: int) -> Machine:
    """`machine` with so many cores, in as many last caches as its kind has for them."""
    from mopt_mlir.machine import by_name, names

    if cores <= machine.cores:
        return machine
    kinds = (by_name(name) for name in names())
    kind = next((kind for kind in kinds if kind.cpu == machine.cpu), machine)
    return kind.with_cores(cores, domains=-(-cores // kind.cores))


def predicted_seconds(operator: Workload, machine: Machine, cores: int) -> float:
    """What the model expects of its best plan, with constant weights."""
    from mopt_mlir import solve

    plan = solve(problem_of(operator), machine, cores, constant_weights=True)
    prediction = plan.prediction
    assert prediction is not None
    return prediction.cost


def _batches(
    operator: Workload,
    batches: Sequence[int],
    machine: Machine,
    repeat: int,
    path: Path,
    progress: Progress,
) -> Iterator[Batch]:
    batched = [replace(operator, n=n, name=f"{operator.name} x {n}") for n in batches]
    rates = dict(_rates(batched, 1, repeat, path, progress))
    for workload in batched:
        seconds = workload.flops / rates[workload.name] * 1e-9
        predicted = predicted_seconds(workload, machine, 1)
        yield Batch(operator.name, workload.n, seconds, predicted)


def _rates(
    operators: Sequence[Workload], cores: int, repeat: int, path: Path, progress: Progress
) -> Iterator[tuple[str, float]]:
    """GFLOP/s of ours, by the name of the operator. Raises UserError where it fails, or computes
    something else."""
    configuration = Configuration(Protocol.CONSTANT_WEIGHTS, cold=False, threads=cores)
    request = Request(operators, configuration, [OURS], path, repeat=repeat)
    cpus = environment.choose_cpus(cores)
    with Crew(request.peers, configuration, cpus, request.python, progress) as crew:
        if OURS in crew.unavailable:
            raise UserError(f"{OURS}: {crew.unavailable[OURS]}")
        for operator in operators:
            records = measure_operator(operator, request, crew, {"bandwidths": _UNKNOWN_BANDWIDTH})
            check_ours(records, crew.failures)
            for record in records:
                yield record.operator, record.gflops_median
