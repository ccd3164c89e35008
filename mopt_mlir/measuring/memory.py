"""How much memory there is: the OS would rather end a process than refuse it some."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.facts import CGROUP, text_of

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
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text_of(meminfo), re.MULTILINE)
    return int(found[1]) << 10 if found else inf


def _of_container(cgroup: Path) -> float:
    """Bytes that this process's container may still have, by version 2 of cgroups or by 1; infinite
    where it is not limited."""
    return min(
        _left(cgroup, "memory.max", "memory.current", "file"),
        _left(cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
    )


def _left(cgroup: Path, limit: str, used: str, kept: str) -> float:
    """What those files say, with what holds files now, `kept` in `memory.stat`."""
    most, current = text_of(cgroup / limit), text_of(cgroup / used)
    if not (most.isdigit() and current.isdigit()):
        return inf
    files = re.search(rf"^{kept} (\d+)", text_of(cgroup / "memory.stat"), re.MULTILINE)
    return max(0, int(most) - int(current) + (int(files[1]) if files else 0))
