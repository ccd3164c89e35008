"""Ours, in process: `mopt_mlir.compile`, called the way a user would call it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from ..workloads import aligned
from . import BEST_OF_5, OURS
from .interface import Prepared, Task, UnavailableError

AVX2_MACHINE = "host,vector_bits=256,vector_registers=16"
AVX2_CPU = "x86-64-v3"

_CANDIDATES = {OURS: 1, BEST_OF_5: 5}


def create(name: str) -> Mopt:
    return Mopt(_CANDIDATES[name])


@dataclass(frozen=True)
class Mopt:
    """`candidates` is how many plans are measured at compile time; 1 measures none."""

    candidates: int = 1
    passes: str | None = None

    def __post_init__(self) -> None:
        try:
            import mopt_mlir  # noqa: F401
        except ImportError as error:
            raise UnavailableError(f"mopt-mlir is not installed: {error}") from None

    @property
    def version(self) -> str:
        return metadata.version("mopt-mlir")

    def prepare(self, task: Task) -> Prepared:
        import mopt_mlir

        workload, configuration = task.workload, task.configuration
        constant = task.weights if configuration.protocol.constant_weights else None
        options: dict[str, Any] = {"threads": configuration.threads}
        if configuration.isa == "avx2":
            options["cpu"] = AVX2_CPU
        if self.passes is None:
            if configuration.isa == "avx2":
                options["machine"] = AVX2_MACHINE
            # plans of today's solver, and its time in that of preparing; but what was measured
            # once holds for cold and warm runs alike
            options |= {
                "require_tiled": True,
                "candidates": self.candidates,
                "plan_cache": self.candidates > 1,
            }
        else:
            options |= {"passes": self.passes}
        try:
            executable = mopt_mlir.compile(workload.mlir(constant=constant), **options)
        except mopt_mlir.UserError as error:
            raise UnavailableError(str(error)) from None
        output = aligned(workload.output_shape, np.float32)
        output[...] = np.nan  # what a run leaves out is found by the check
        arguments = [task.input, *([task.weights] if constant is None else []), output]
        return Prepared(executable["conv"].bind(*arguments), lambda: output)
