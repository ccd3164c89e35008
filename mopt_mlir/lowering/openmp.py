"""LLVM's OpenMP runtime, which parallel loops need."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.facts import remember_affinity

_FORK = "__kmpc_fork_call"
_NAMES = ("libiomp5.so", "libomp.so", "libiomp5.dylib", "libomp.dylib")
_PACKAGE = "intel-openmp"

_MAPPED = re.compile(
    r"^[^/\n]*(/.*/lib(?:iomp5|omp)(?:-\w+)?\.so[.\d]*)(?: \(deleted\))?$", re.MULTILINE
)
"""The path of a runtime, which may have spaces, among the files that a process has mapped, also of
one that a wheel brings along under a name of its own, or that was replaced since."""


@cache
def load_openmp() -> None:
    """Make the OpenMP runtime available to code that is loaded into this process.

    A runtime that the process has already is used, since two of them do not get along. Raises
    UserError, saying what to do, if there is none, or it cannot be loaded.
    """
    remember_affinity()
    if is_in_process(_FORK):
        return
    mapped = _mapped()
    path = mapped or find_openmp()
    # of what is mapped never another copy, which may have taken its place
    mode = ctypes.RTLD_GLOBAL | (os.RTLD_NOLOAD if mapped else 0)
    try:
        ctypes.CDLL(str(path), mode)
    except OSError as error:
        if mapped:
            reason = f"{mapped}, which the process has loaded, is not the file that it was"
            way_out = "start the process anew"
        else:
            reason = str(error)
            way_out = f"install it anew: pip install --force-reinstall {_PACKAGE}"
        raise UserError(
            f"the OpenMP runtime cannot be used: {reason}; {way_out}, or use one thread"
        ) from None


def is_in_process(symbol: str) -> bool:
    """Whether the process, with the libraries that it shares with all, has `symbol`."""
    return hasattr(ctypes.CDLL(None), symbol)


def _mapped() -> Path | None:
    """The runtime that the process has loaded for some other library alone, as Python loads
    extensions. Loaded once more, for all, it stays the same one."""
    try:
        found = _MAPPED.search(Path("/proc/self/maps").read_text(errors="surrogateescape"))
    except OSError:  # another system than Linux
        return None
    return None if found is None else Path(found[1])


def find_openmp() -> Path:
    """The OpenMP runtime's shared library. Raises UserError if it is not installed."""
    for path in _installed():
        if path.is_file():
            return path
    raise UserError(
        f"parallel code needs the OpenMP runtime: pip install {_PACKAGE}, or use one thread"
    )


def _installed() -> Iterator[Path]:
    """Where the runtime may be: where pip says that it put it (which is not the environment's own
    lib/ for a user's packages), or in that, as conda has it."""
    try:
        files = metadata.files(_PACKAGE) or ()
    except metadata.PackageNotFoundError:
        files = ()
    yield from (Path(str(file.locate())).resolve() for file in files if file.name in _NAMES)
    yield from (
        Path(root, "lib", name) for root in (sys.prefix, sys.base_prefix) for name in _NAMES
    )
