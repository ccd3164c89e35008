"""The figures of `mopt-bench scale`, and the file that holds them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import write_output

from .results import FORMAT, read_json

KIND = "mopt-bench scale"

COUNTS = (1, 10, 100, 1000)
PLAN_CACHES = ("empty", "full")
PREDICTED_CORES = (8, 32, 128)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
OPERATORS = ("Y8", "R2", "R9", "R11")
"""Of Table 1, for cores and batches: a large image, one of medium size, a small one, and a 1x1 that
has little to share out."""


@dataclass(frozen=True)
class Planning:
    """Seconds to plan, and to compile what was planned, a module of so many distinct operators.
    `plan_cache` is `empty` (every plan is solved for, and kept) or `full`."""

    operators: int
    plan_cache: str
    plan_seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class Scaling:
    """GFLOP/s on so many cores, constant weights, warm; None where this host has fewer cores."""

    operator: str
    cores: int
    gflops: float | None
    predicted_gflops: float


@dataclass(frozen=True)
class Batch:
    """Seconds for a batch on one core, constant weights, warm."""

    operator: str
    batch: int
    seconds: float
    predicted_seconds: float


@dataclass
class Scale:
    """A file of these figures."""

    head: dict[str, Any]
    planning: list[Planning] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    batch: list[Batch] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Raises UserError if that is not possible."""
        parts = {name: list(map(asdict, getattr(self, name))) for name in _PARTS}
        data = {"kind": KIND, "format": FORMAT, **self.head, **parts}
        write_output(path, (json.dumps(data, indent=1) + "\n").encode())

    @staticmethod
    def read(path: Path) -> Scale:
        """Raises UserError if there is no such file, or it is of another kind."""
        data = read_json(path, KIND)
        try:
            parts = {name: [of(**row) for row in data.pop(name)] for name, of in _PARTS.items()}
        except (KeyError, TypeError) as error:
            raise UserError(f"not a complete file of figures: {error}", str(path)) from None
        return Scale(data, **parts)


_PARTS: dict[str, Any] = {"planning": Planning, "scaling": Scaling, "batch": Batch}
