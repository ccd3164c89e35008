"""Chains of loads: each goes through all of its lines, and through no other."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks import latency
from benchmarks.latency import MEMORY, PARTS, Chains

CACHES = {"L1": 32 << 10, "L2": 1 << 18, "L3": 1 << 20}


@pytest.fixture(scope="module")
def chains():
    return Chains(CACHES, lambda: None)


def test_a_chain_goes_through_a_part_of_its_cache_in_one_circle(chains):
    sizes = {name: PARTS[name] * size for name, size in CACHES.items()}
    sizes[MEMORY] = 64 << 20
    assert chains._links.keys() == sizes.keys()
    for name, links in chains._links.items():
        lines, at = [], 0
        while True:
            lines.append(at)
            at = int(links[at])
            if at == 0:
                break
        assert len(set(lines)) == len(lines) == sizes[name] // 64
        assert {line % 8 for line in lines} == {0}  # one load of each line
        assert np.mean(np.abs(np.diff(lines)) == 8) < 0.05  # no order that prefetchers know


def test_no_two_chains_have_a_line_in_common(chains):
    ends = [
        (links.ctypes.data, links.ctypes.data + links.nbytes) for links in chains._links.values()
    ]
    ends.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert all(start % 64 == 0 for start, _ in ends)


def test_the_generated_code_follows_the_links():
    code = latency.compile_chase()
    links, at = np.array([3, 9, 9, 2, 9, 0], np.int64), np.array([5], np.int64)
    code["chase"](3, links, at)
    assert at == [2]


class Played:
    """Stands for the code: notes of each run whether it is timed, its steps, lines, and start; and
    how many there were before each flush."""

    def __init__(self):
        self.runs, self.flushes = [], []

    def __getitem__(self, name):
        return self

    def __call__(self, *arguments):
        self._run(False, *arguments)

    def bind(self, *arguments):
        return lambda: self._run(True, *arguments)

    def flush(self):
        self.flushes.append(len(self.runs))

    def _run(self, timed, steps, links, at):
        self.runs.append((timed, steps, len(links) // 8, int(at[0])))
        at[0] += steps


def test_caches_are_filled_before_and_memory_is_evicted(chains, monkeypatch):
    played = Played()
    monkeypatch.setattr(chains, "_code", played)
    monkeypatch.setattr(chains, "_flush", played.flush)
    monkeypatch.setattr(chains, "_at", {name: np.zeros(1, np.int64) for name in chains._at})
    for _ in range(2):
        chains.nanoseconds()
    lines = len(chains._links[MEMORY]) // 8
    caches = [run for run in played.runs if run[2] != lines]
    memory = [run for run in played.runs if run[2] == lines]
    for first, timed in zip(caches[::2], caches[1::2], strict=True):
        assert (first[0], timed[0]) == (False, True)
        assert first[1] == first[2] == timed[2]  # each line once
    assert [(timed, start) for timed, _, _, start in memory] == [(True, 0), (True, memory[0][1])]
    assert played.flushes == [played.runs.index(run) for run in memory]


def test_a_chain_is_timed_by_the_load(chains, monkeypatch):
    clock = iter([1.0, 3.0] * 4)
    monkeypatch.setattr(latency, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(latency, "_STEPS", 1000)
    assert chains.nanoseconds() == dict.fromkeys((*CACHES, MEMORY), 2e6)
