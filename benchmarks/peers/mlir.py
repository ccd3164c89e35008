"""What the same MLIR gives without this project's pass: linalg's own lowering to loops."""

from __future__ import annotations

from importlib import metadata

from .interface import Prepared, Task
from .mopt import Mopt

_PARALLEL = "func.func(convert-linalg-to-parallel-loops)"


def create(name: str) -> DefaultLowering:
    return DefaultLowering()


class DefaultLowering:
    """Plain loops through the same LLVM; parallel ones if there are several threads."""

    def __init__(self) -> None:
        Mopt()  # raises UnavailableError where it is not installed

    @property
    def version(self) -> str:
        return metadata.version("xtc-mlir-python-bindings")

    def prepare(self, task: Task) -> Prepared:
        passes = "" if task.configuration.threads == 1 else _PARALLEL
        return Mopt(passes=passes).prepare(task)
