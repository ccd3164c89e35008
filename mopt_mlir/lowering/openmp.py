"""LLVM's OpenMP runtime, which parallel loops need."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.facts import remember_affinity

_FORK = "__kmpc_fork_call"
_NAMES = ("libiomp5.so", "libomp.so", "libiomp5.dylib", "libomp.dylib")


@cache
def load_openmp() -> None:
    """Make the OpenMP runtime available to code that is loaded into this process.

    A runtime that the process has already is used, since two of them do not get along. Raises
    UserError, saying what to install, if there is none.
    """
    import llvmlite.binding as llvm

    remember_affinity()
    if not is_in_process(_FORK):
        llvm.load_library_permanently(str(find_openmp()))


def is_in_process(symbol: str) -> bool:
    """Whether the process, with the libraries that it shares with all, has `symbol`."""
    return hasattr(ctypes.CDLL(None), symbol)


def find_openmp() -> Path:
    """The OpenMP runtime's shared library. Raises UserError if it is not installed."""
    for prefix in (sys.prefix, sys.base_prefix):
        for name in _NAMES:
            path = Path(prefix, "lib", name)
            if path.is_file():
                return path
    raise UserError(
        'parallel code needs the OpenMP runtime: pip install "mopt-mlir[openmp]", or use one thread'
    )
