"""Run a compiled function on random data: its speed, and its distance from the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.bindings import bindings_of
from mopt_mlir.compiler.arguments import bytes_of, random_arguments
from mopt_mlir.compiler.compilation import compile_with
from mopt_mlir.compiler.executable import no_function
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.compiler.trial import time_call
from mopt_mlir.diagnostics import UserError, describe, emit
from mopt_mlir.func_ops import functions_of, name_of, public_functions
from mopt_mlir.lowering.entries import entry_functions
from mopt_mlir.lowering.signature import Entry, Parameter
from mopt_mlir.machine.flushing import flush_bytes, host_flush
from mopt_mlir.measuring.memory import check_memory
from mopt_mlir.measuring.peak import measure_peak
from mopt_mlir.pipeline.loading import errors_raised, keep_only, load_module
from mopt_mlir.reference import evaluate, flops_of

if TYPE_CHECKING:
    from mopt_mlir.lowering.function import Function
    from mopt_mlir.reference import Numbers

Array = NDArray[Any]

_WARM_UP = 3  # runs that are not counted
_REFERENCE_FACTOR = 18  # times the buffers: values, limits and sums of magnitudes in float64


@dataclass(frozen=True)
class Accuracy:
    """How far results are from the float64 reference.

    `relative` is the largest error relative to the largest magnitude of the results, `of_bound` the
    largest share of what rounding can explain (see `reference.evaluate`).
    """

    relative: float
    of_bound: float

    @property
    def is_good(self) -> bool:
        return self.of_bound <= 1


@dataclass(frozen=True)
class Measurement:
    """`seconds` of each run; `flops` per run, None if unknown; `peak` in GFLOP/s."""

    entry: str
    threads: int
    cold: bool
    seconds: tuple[float, ...]
    flops: int | None
    peak: float
    accuracy: Accuracy | None

    @property
    def time(self) -> float:
        """The median in seconds."""
        return median(self.seconds)

    @property
    def gflops(self) -> float | None:
        """GFLOP/s of the median run."""
        return None if self.flops is None else self.flops / self.time * 1e-9

    @property
    def share_of_peak(self) -> float | None:
        """GFLOP/s relative to the measured FMA peak."""
        return None if self.gflops is None else self.gflops / self.peak


@dataclass(frozen=True)
class RunOptions:
    """How to run: on random data from `seed`, `repeat` times, each time with caches flushed if
    `cold`; with `check` the results of one run are compared with the reference.

    Raises UserError for a value that makes no sense.
    """

    seed: int = 0
    repeat: int = 10
    cold: bool = False
    check: bool = False

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise UserError(f"repeat={self.repeat}: at least one run is needed")
        if self.seed < 0:
            raise UserError(f"seed={self.seed}: a seed is 0 or more")


_DEFAULTS = CompileOptions()


def run_entry(
    source: Any,
    entry: str | None = None,
    run: RunOptions = RunOptions(),
    options: CompileOptions = _DEFAULTS,
) -> Measurement:
    """Compile `source`, run one of its functions on random data, and measure it.

    `entry` may be left out if there is only one; what it does not need is not compiled. Raises
    UserError.
    """
    with errors_raised():
        module = load_module(source)
        public = public_functions(module)
        known = tuple(map(name_of, [*public, *entry_functions(module)]))
        # before anything is planned and compiled
        if entry is None and len(known) > 1:
            raise UserError(_ambiguous(known), describe(module.location))
        if entry is not None:
            if entry not in known:
                raise UserError(no_function(entry, known))
            keep_only(entry, module)
    executable = compile_with(module, options)
    if entry is None:
        entry = _only(executable.entries, describe(module.location))
    return measure(executable[entry], module, run, threads=options.threads, cpu=options.cpu)


def measure(
    function: Function,
    module: Any,
    run: RunOptions = RunOptions(),
    *,
    threads: int = 1,
    cpu: str | None = None,
) -> Measurement:
    """Run a function of `module` that was compiled for `threads` and `cpu`, and measure it. Raises
    UserError for shapes that are not static, and where memory is short."""
    signature = function.entry
    _check_memory(signature, run)
    accuracy = _accuracy(function, module, run.seed) if run.check else None
    arguments = random_arguments(signature, run.seed)
    element = _peak_element(signature.parameters)
    before = measure_peak(element, threads, cpu)
    seconds = _seconds(function.bind(*arguments), run)
    after = measure_peak(element, threads, cpu)  # the clock drifts, and other processes disturb
    return Measurement(
        entry=signature.name,
        threads=threads,
        cold=run.cold,
        seconds=seconds,
        flops=flops_of(module, signature.name),
        peak=max(before, after),
        accuracy=accuracy,
    )


def _seconds(call: Callable[[], Any], run: RunOptions) -> tuple[float, ...]:
    if not run.cold:
        return time_runs(call, run.repeat)
    with host_flush() as flush:
        return time_runs(call, run.repeat, flush)


def time_runs(
    run: Callable[[], Any], repeat: int, before_each: Callable[[], Any] | None = None
) -> tuple[float, ...]:
    """Seconds of each of `repeat` runs. `before_each` is not timed; without it the first runs,
    which warm the caches, are not counted."""
    if before_each is None:
        for _ in range(_WARM_UP):
            run()
    return tuple(time_call(run, before_each) for _ in range(repeat))


def _only(entries: Sequence[Entry], where: str) -> str:
    if len(entries) == 1:
        return entries[0].name
    if not entries:
        raise UserError("the module has no function that can be run", where)
    raise UserError(_ambiguous([entry.name for entry in entries]), where)


def _ambiguous(names: Sequence[str]) -> str:
    return f"the module has {len(names)} functions, name one with --entry: {', '.join(names)}"


def _check_memory(entry: Entry, run: RunOptions) -> None:
    """Raise UserError where a function's buffers, and what flushes caches, are more than there is
    room for."""
    needed = sum(bytes_of(parameter) for parameter in entry.parameters)
    if run.check:
        needed *= 1 + _REFERENCE_FACTOR
    if run.cold:
        needed += flush_bytes()
    check_memory(needed, f"'{entry.name}'", "run a smaller function, or on a machine with more")


def _peak_element(parameters: Sequence[Parameter]) -> str:
    """The element type whose peak is what to compare with: f16 is computed in vectors of f32."""
    return "f32" if any(p.element in ("f16", "f32") for p in parameters) else "f64"


def _results(returned: Any) -> tuple[Any, ...]:
    """What a compiled function returned, one by one."""
    if returned is None:
        return ()
    return returned if isinstance(returned, tuple) else (returned,)


def _accuracy(function: Function, module: Any, seed: int) -> Accuracy:
    """Compare one run with the reference."""
    entry = function.entry
    arguments = random_arguments(entry, seed)
    expected = evaluate(module, entry.name, arguments)
    results = _results(function(*arguments))
    given = [p for p in entry.parameters if p.access != "result"]
    tensors = _tensors(module, entry.name)
    compared = [p.access == "write" and at not in tensors for at, p in enumerate(given)]
    compared += [True] * len(results)
    relative = of_bound = 0.0
    tells = False
    pairs = zip((*arguments, *results), (*expected.arguments, *expected.results), strict=True)
    for (ours, reference), counts in zip(pairs, compared, strict=True):
        if not counts:
            continue
        error = _errors(ours, reference)
        tells |= bool((reference.error < np.abs(reference.value)).any() or reference.is_exact)
        if np.isnan(error).any():
            return Accuracy(np.nan, np.inf)
        wrong = error > 0
        if wrong.any():
            finite = reference.value[np.isfinite(reference.value)]
            largest = np.abs(finite).max(initial=0.0)
            with np.errstate(divide="ignore"):
                relative = max(relative, float(error.max() / largest))
                of_bound = max(of_bound, float(np.max(error[wrong] / reference.error[wrong])))
    if not tells and any(compared):
        emit(
            "warning",
            "",
            f"the check of '{entry.name}' says nothing: by roundings alone, every result may be "
            "off by more than it is",
        )
    return Accuracy(relative, of_bound)


def _tensors(module: Any, name: str) -> set[int]:
    """The parameters of a function that are tensors: what is left in the memory of one that may be
    overwritten is not a part of what the function computes."""
    ir = bindings_of(module).ir
    (function,) = (found for found in functions_of(module) if name_of(found) == name)
    types = function.attributes["function_type"].value.inputs
    return {at for at, type_ in enumerate(types) if isinstance(type_, ir.RankedTensorType)}


def _errors(ours: Any, reference: Numbers) -> Array:
    """How far numbers are from those of the reference. What that comes to when it is rounded to
    their type has no error. Infinities, and what is no number, have none where a correct program
    may have them, and NaN where not."""
    ours, value = np.asarray(ours), reference.value
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = value.astype(ours.dtype)
        errors = np.abs(np.asarray(ours, np.float64) - value)
        possible = (reference.low <= ours) & (ours <= reference.high)
    same = (ours == rounded) | (np.isnan(ours) & np.isnan(rounded))
    errors = np.where(np.isfinite(errors), errors, np.where(possible, 0.0, np.nan))
    return np.where(same, 0.0, errors)
