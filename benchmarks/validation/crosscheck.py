"""The same code under valgrind, which simulates caches as well: a check on our own simulation.

Valgrind knows no AVX-512, and two levels of cache only, which are given the sizes of L1 and L2. It
sees the machine code, so that what LLVM spills to the stack counts there, and real addresses. Its
counts are of the whole process: those of one that does not call the function are taken off.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import temporary_directory

from ..workloads import Workload
from .planned import module_with, options_for

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine
    from mopt_mlir.plan import Plan

VALGRIND = "valgrind"
TIMEOUT = 600.0  # seconds; it is some fifty times slower than the code alone

_DRIVER = """
import ctypes, mmap, sys
library, calls, *sizes = sys.argv[1:]
arrays = [mmap.mmap(-1, int(size)) for size in sizes]
pointers = [ctypes.addressof(ctypes.c_char.from_buffer(array)) for array in arrays]
function = ctypes.CDLL(library).conv
function.argtypes = [ctypes.c_void_p] * len(pointers)
function.restype = None
for _ in range(int(calls)):
    function(*pointers)
"""

_TOTALS = re.compile(r"^(events|summary): (.*)$", re.MULTILINE)


def is_available() -> bool:
    return shutil.which(VALGRIND) is not None


def misses(workload: Workload, plan: Plan, machine: Machine) -> dict[str, int]:
    """Misses of loads and stores in L1 and L2 of the AVX2 code of `plan`, as valgrind counts them;
    an access to two lines counts once.

    Raises UserError if valgrind fails.
    """
    from mopt_mlir.compiler.ahead_of_time import compile_to_file

    sizes = [
        str(4 * prod(shape))
        for shape in (workload.input_shape, workload.weights_shape, workload.output_shape)
    ]
    with temporary_directory() as directory:
        library = directory / "conv.so"
        compile_to_file(module_with(workload, plan), library, options_for("avx2"))
        without, with_call = (_counts(library, [str(calls), *sizes], machine) for calls in (0, 1))
    return {name: with_call[name] - without[name] for name in with_call}


def _counts(library: Path, arguments: list[str], machine: Machine) -> dict[str, int]:
    """Misses of a process that runs the driver with these arguments."""
    first, last, counts = machine.cache("L1"), machine.cache("L2"), library.with_name("counts")
    command = [
        VALGRIND,
        "--tool=cachegrind",
        "--cache-sim=yes",
        f"--D1={first.size},{first.ways},{first.line}",
        f"--LL={last.size},{last.ways},{last.line}",
        f"--cachegrind-out-file={counts}",
        *(sys.executable, "-S", "-c", _DRIVER, str(library), *arguments),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # the same process but for the call
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, env=environment
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"valgrind took more than {TIMEOUT:.0f} s") from None
    if done.returncode or not counts.exists():
        tail = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"valgrind failed: {tail}")
    return read_counts(counts.read_text())


def read_counts(text: str) -> dict[str, int]:
    """Misses by cache in a file of cachegrind. Raises UserError if there are none."""
    lines = dict(_TOTALS.findall(text))
    values = lines.get("summary", "").split()
    found = dict(zip(lines.get("events", "").split(), map(int, values), strict=False))
    if not {"D1mr", "D1mw", "DLmr", "DLmw"} <= found.keys():
        raise UserError("valgrind did not count any misses")
    return {"L1": found["D1mr"] + found["D1mw"], "L2": found["DLmr"] + found["DLmw"]}
