"""TVM, tuned by MetaSchedule for each operator. Slow: an operator takes many minutes, once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..workloads import Workload, aligned
from .interface import Prepared, Task, UnavailableError

WORK = Path("build", "bench", "tvm")
"""What tuning found, below the current directory: used again by the next run."""

TRIALS = 64
"""Candidates measured for an operator."""

_TRIALS_PER_ROUND = 16
_BUILD_SECONDS = 180.0  # one candidate at most; the default is too short for a slow core
_SEED = 0

# Without it each of TVM's processes builds an extension for PyTorch where that is installed.
os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")


def create(name: str) -> Tvm:
    return Tvm()


class Tvm:
    def __init__(self) -> None:
        try:
            import tvm
            from tvm.s_tir import meta_schedule
        except ImportError as error:
            raise UnavailableError(str(error)) from None
        self._tvm, self._meta_schedule = tvm, meta_schedule

    @property
    def version(self) -> str:
        return str(self._tvm.__version__)

    def prepare(self, task: Task) -> Prepared:
        tvm, threads = self._tvm, task.configuration.threads
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
        function = self._function(task.workload)
        directory = WORK / f"{_slug(task.workload)}-{threads}"
        schedule = self._tuned(function, target, directory)
        convolve = tvm.compile(schedule.mod, target=target)["main"]
        output = aligned(task.workload.output_shape, np.float32)
        output[...] = np.nan
        arguments = [tvm.runtime.from_dlpack(a) for a in (task.input, task.weights)]
        arguments.append(tvm.runtime.from_dlpack(output))
        return Prepared(lambda: convolve(*arguments), lambda: output, f"{TRIALS} trials, warm")

    def _function(self, workload: Workload) -> Any:
        """The operator as a function of TensorIR."""
        from tvm import te, topi

        nhwc = workload.layout.startswith("nhwc")
        image = te.placeholder(workload.input_shape, name="image")
        weights = te.placeholder(workload.weights_shape, name="weights")
        convolution = topi.nn.conv2d_nhwc if nhwc else topi.nn.conv2d_nchw
        result = convolution(
            image, weights, workload.strides, 0, workload.dilations, out_dtype="float32"
        )
        function = te.create_prim_func([image, weights, result])
        return function.with_attr("global_symbol", "main")

    def _tuned(self, function: Any, target: Any, directory: Path) -> Any:
        """The best schedule, from an earlier run if there was one that came to its end. As by
        MetaSchedule's default, candidates run with warm caches."""
        tuning = self._meta_schedule
        directory.mkdir(parents=True, exist_ok=True)
        database = tuning.database.JSONDatabase(work_dir=str(directory))
        if len(database) < TRIALS:
            with _all_cpus() as number:
                database = tuning.tir_integration.tune_tir(
                    function,
                    target,
                    str(directory),
                    TRIALS,
                    num_trials_per_iter=_TRIALS_PER_ROUND,
                    builder=tuning.builder.LocalBuilder(
                        max_workers=number, timeout_sec=_BUILD_SECONDS
                    ),
                    num_tuning_cores=number,
                    seed=_SEED,
                )
        schedule = tuning.tir_integration.compile_tir(database, function, target)
        if schedule is None:
            raise UnavailableError("tuning found no schedule that runs")
        return schedule


@contextmanager
def _all_cpus() -> Iterator[int]:
    """Have all cores that the benchmark was given, not those alone that it measures on, and yield
    how many there are: candidates are built on all of them, and run on any, one after the other."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
    try:
        yield len(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, pinned)


def _slug(workload: Workload) -> str:
    sizes = (getattr(workload, dim) for dim in "nkhwcrs")
    numbers = "-".join(map(str, (*sizes, *workload.strides, *workload.dilations)))
    return f"{workload.layout}-{numbers}"
