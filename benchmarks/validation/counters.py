"""Hardware counters of one run, through Linux's perf_event_open, where the host has them.

Many virtual machines have none. Then `Counters.reason` says so, and nothing is counted.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Mapping
from fcntl import ioctl
from typing import Any

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
"""The number of perf_event_open, by architecture."""

_ATTRIBUTE_BYTES = 112  # struct perf_event_attr, version 5
_HARDWARE, _CACHE = 0, 3  # enum perf_type_id
_L1D, _LAST_LEVEL = 0, 2  # enum perf_hw_cache_id
_READ, _WRITE = 0, 1  # enum perf_hw_cache_op_id
_ACCESS, _MISS = 0, 1  # enum perf_hw_cache_op_result_id
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403  # ioctl requests
_TIMES = 3  # PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
_VALUE = struct.Struct("QQQ")  # count, nanoseconds enabled, nanoseconds running


def _cache(level: int, operation: int, result: int) -> tuple[int, int]:
    return _CACHE, level | operation << 8 | result << 16


EVENTS: Mapping[str, tuple[int, int]] = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "L1 loads": _cache(_L1D, _READ, _ACCESS),
    "L1 stores": _cache(_L1D, _WRITE, _ACCESS),
    "L1 misses": _cache(_L1D, _READ, _MISS),
    "L2 misses": _cache(_LAST_LEVEL, _READ, _ACCESS),
    "L3 misses": _cache(_LAST_LEVEL, _READ, _MISS),
}
"""perf_event's type and configuration by name. What reaches the last level has missed in L2."""

Open = Callable[[bytes], int]
"""Opens an event, given its attribute, and returns a file descriptor. Raises OSError."""


class Counters:
    """The events of EVENTS that this host can count, of this thread in user mode.

    `reason` says why there are none. `open_` stands in for the system call in tests.
    """

    def __init__(self, open_: Open | None = None) -> None:
        self._files: dict[str, int] = {}
        self.reason = ""
        refusals: list[str] = []
        for name, (type_, configuration) in EVENTS.items():
            try:
                self._files[name] = (open_ or _open)(attribute(type_, configuration))
            except OSError as error:
                refusals.append(str(error.strerror or error))
        if not self._files:
            self.reason = f"this host offers no hardware counters: {refusals[0]}"

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def over(self, run: Callable[[], Any]) -> dict[str, float]:
        """Counts during one call of `run`, by name, scaled to the whole time where the hardware
        took turns between events; without those that it never got to."""
        for file in self._files.values():
            ioctl(file, _RESET, 0)
            ioctl(file, _ENABLE, 0)
        try:
            run()
        finally:
            for file in self._files.values():
                ioctl(file, _DISABLE, 0)
        values = {name: value(os.read(file, _VALUE.size)) for name, file in self._files.items()}
        return {name: count for name, count in values.items() if count is not None}

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files = {}


def attribute(type_: int, configuration: int) -> bytes:
    """A struct perf_event_attr that counts an event in user mode, once it is enabled."""
    flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    head = struct.pack("IIQQQQQ", type_, _ATTRIBUTE_BYTES, configuration, 0, 0, _TIMES, flags)
    return head.ljust(_ATTRIBUTE_BYTES, b"\0")


def value(data: bytes) -> float | None:
    """The count in what an event's file gives; None if it never ran."""
    count, enabled, running = _VALUE.unpack(data)
    return count * enabled / running if running else None


def _open(data: bytes) -> int:
    number = _SYSCALLS.get(platform.machine())
    if sys.platform != "linux" or number is None:
        raise OSError(0, f"not known for {sys.platform} on {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    this_thread, any_cpu, no_group, no_flags = 0, -1, -1, 0
    file: int = libc.syscall(number, data, this_thread, any_cpu, no_group, no_flags)
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return file
