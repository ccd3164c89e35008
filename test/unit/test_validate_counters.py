"""Hardware counters, played: what is asked of the kernel, and what is made of its answers."""

import errno
import os
import struct

import pytest

from benchmarks.validation import counters
from benchmarks.validation.counters import EVENTS, Counters


def test_a_host_without_counters_says_so():
    def refuse(attribute):
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

    found = Counters(refuse)
    assert found.names == []
    assert found.reason == "this host offers no hardware counters: No such file or directory"
    assert found.over(lambda: None) == {}


def test_events_are_described_as_the_kernel_wants():
    size, type_, configuration = 112, *EVENTS["L1 misses"]
    data = counters.attribute(type_, configuration)
    assert len(data) == size
    assert struct.unpack_from("IIQ", data) == (3, size, 1 << 16)  # PERF_TYPE_HW_CACHE, L1D, miss
    (flags,) = struct.unpack_from("Q", data, 40)
    assert flags & 1  # does not count before it is enabled
    assert flags & 1 << 5  # nor in the kernel


class Played:
    """Events 0 and 1 are there. The second had half of the time, the third was never reached."""

    def __init__(self):
        self.opened, self.controlled, self.calls = [], [], 0
        self.values = {10: (1000, 8, 8), 11: (500, 8, 4), 12: (0, 8, 0)}

    def open(self, attribute):
        self.opened.append(attribute)
        if len(self.opened) > 3:
            raise OSError(errno.EINVAL, "no such event")
        return 9 + len(self.opened)

    def read(self, file, size):
        return struct.pack("QQQ", *self.values[file])

    def run(self):
        self.calls += 1


@pytest.fixture
def played(monkeypatch):
    played = Played()
    monkeypatch.setattr(counters, "ioctl", lambda *request: played.controlled.append(request))
    monkeypatch.setattr(counters.os, "read", played.read)
    return played


def test_what_there_is_is_counted_and_scaled(played):
    found = Counters(played.open)
    assert found.names == list(EVENTS)[:3]
    assert found.reason == ""
    assert found.over(played.run) == {"cycles": 1000.0, "instructions": 1000.0}
    assert played.calls == 1


def test_counting_stops_also_if_the_run_fails(played):
    found = Counters(played.open)
    with pytest.raises(ZeroDivisionError):
        found.over(lambda: 1 // 0)
    assert [file for file, request, _ in played.controlled if request == counters._DISABLE] == [
        10, 11, 12,
    ]  # fmt: skip
