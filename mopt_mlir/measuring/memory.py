"""How much memory there is: the OS would rather end a process than refuse it some."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.facts import CGROUP

_MEMINFO = Path("/proc/meminfo")


def check_memory(
    needed: int, what: str, way_out: str, meminfo: Path = _MEMINFO, cgroup: Path = CGROUP
) -> None:
    """Raise UserError, which says `what` needs it and names a `way_out`, where so many bytes are
    not there."""
    free = min(_of_machine(meminfo), _of_container(cgroup))
    if needed > free:
        raise UserError(
            f"{what} needs {needed >> 20} MB of memory, {int(free) >> 20} are free; {way_out}"
        )


def _of_machine(meminfo: Path) -> float:
    """Bytes that are free; infinite where the OS does not say."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(meminfo), re.MULTILINE)
    return int(found[1]) << 10 if found else inf


def _of_container(cgroup: Path) -> float:
    """Bytes that this process's container may still have, with what holds files now; infinite
    where it is not limited."""
    limit, used = _text(cgroup / "memory.max").strip(), _text(cgroup / "memory.current").strip()
    if not (limit.isdigit() and used.isdigit()):
        return inf
    files = re.search(r"^file (\d+)", _text(cgroup / "memory.stat"), re.MULTILINE)
    return max(0, int(limit) - int(used) + (int(files[1]) if files else 0))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
