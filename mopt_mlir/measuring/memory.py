"""How much memory there is: the OS would rather end a process than refuse it some."""

from __future__ import annotations

import re
from pathlib import Path

from mopt_mlir.diagnostics import UserError

_MEMINFO = Path("/proc/meminfo")


def check_memory(needed: int, what: str, way_out: str, meminfo: Path = _MEMINFO) -> None:
    """Raise UserError, which says `what` needs it and names a `way_out`, where so many bytes are
    not there."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return
    if found and needed > int(found[1]) << 10:
        raise UserError(
            f"{what} needs {needed >> 20} MB of memory, {int(found[1]) >> 10} are free; {way_out}"
        )
