"""What is timed, and that caches are flushed before it on every core."""

from __future__ import annotations

import os

import numpy as np
import pytest

from benchmarks import timing
from benchmarks.environment import choose_cpus, cpu_model, load, worker_environment
from benchmarks.timing import CacheFlush, aligned_copy, ballast_bytes, largest_cache, time_runs
from mopt_mlir import UserError


def test_flush_before_each_run_and_the_first_ones_dropped():
    calls = []
    seconds = time_runs(lambda: calls.append("run"), 3, 2, lambda: calls.append("flush"))
    assert calls == ["flush", "run"] * 5
    assert len(seconds) == 3


def test_only_the_run_is_timed_and_what_is_dropped_is_not_counted(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: clock[0])
    durations = iter([8.0, 1.0, 2.0])  # the first run is slow

    def run():
        clock[0] += next(durations)

    def flush():
        clock[0] += 100.0

    assert time_runs(run, 2, 1, flush) == [1.0, 2.0]


def test_warm_runs_flush_nothing():
    calls = []
    assert len(time_runs(lambda: calls.append("run"), 2, 1)) == 2
    assert calls == ["run"] * 3


@pytest.mark.parametrize(("cache", "ballast"), [(32, 128), (128, 512), (480, 512), (600, 600)])
def test_flush_reads_all_of_a_huge_cache_and_four_times_a_smaller_one(cache: int, ballast: int):
    assert ballast_bytes(cache << 20) == ballast << 20


def test_flush_reads_more_than_the_cache_on_each_cpu():
    cpus = sorted(os.sched_getaffinity(0))
    flush = CacheFlush(cpus, cache_bytes=1 << 20)
    assert sum(ballast.nbytes for ballast in flush._ballast) >= 4 << 20
    before = os.sched_getaffinity(0)
    flush()
    assert [pool.submit(os.sched_getaffinity, 0).result() for pool in flush._pools] == [
        {cpu} for cpu in cpus
    ]
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("number", [1, 2, 16])
def test_flush_ends_with_what_fits_several_times_over(number, monkeypatch):
    """From ballast alone the last cache of some CPUs learns to keep nothing."""
    read = []
    monkeypatch.setattr("benchmarks.timing._pin", lambda cpu: None)
    monkeypatch.setattr(np, "max", lambda block: read.append(block.nbytes))
    CacheFlush(range(number), cache_bytes=1 << 20)()
    ballast, kept = read[:number], read[number:]
    assert sum(ballast) >= 4 << 20
    assert len(kept) >= 4 * number
    assert sum(kept[:number]) <= 1 << 19
    assert len(set(kept)) == 1


def test_largest_cache(tmp_path):
    for index, size in enumerate(("48K", "1024K", "32M", "?")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert largest_cache(tmp_path) == 32 << 20
    assert largest_cache(tmp_path / "nowhere") == 64 << 20


def test_copies_are_aligned_and_equal():
    array = np.arange(30, dtype=np.float32).reshape(5, 6)[:, 1:]
    copy = aligned_copy(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.ctypes.data % 64 == 0
    assert copy.flags.c_contiguous


def test_one_cpu_of_each_core(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        directory = tmp_path / f"cpu{cpu}" / "topology"
        directory.mkdir(parents=True)
        (directory / "thread_siblings_list").write_text(siblings)
    assert choose_cpus(1, tmp_path) == [3]
    assert choose_cpus(2, tmp_path) == [2, 3]
    with pytest.raises(UserError, match="threads=3: this process may use 2 cores"):
        choose_cpus(3, tmp_path)
    with pytest.raises(UserError, match="threads=0"):
        choose_cpus(0, tmp_path)


def test_all_workers_share_an_environment():
    one, two = worker_environment(1, "native"), worker_environment(2, "avx2")
    assert (one["OMP_NUM_THREADS"], two["OMP_NUM_THREADS"]) == ("1", "2")
    assert one["MALLOC_MMAP_MAX_"] == two["MALLOC_MMAP_MAX_"] == "0"
    assert "ONEDNN_MAX_CPU_ISA" not in one
    assert two["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_load_is_what_others_want(tmp_path):
    (tmp_path / "loadavg").write_text("9.00 9.00 9.00 3/97 26749\n")
    assert load(tmp_path / "loadavg") == 2
    assert load(tmp_path / "nowhere") == 0


def test_cpu_model(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast 9000: X\n")
    assert cpu_model(tmp_path / "cpuinfo") == "Fast 9000: X"
    assert cpu_model(tmp_path / "nowhere")
