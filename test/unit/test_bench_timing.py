"""What is timed, and that caches are flushed before it on every core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import timing
from benchmarks.bandwidth import measure_bandwidths
from benchmarks.environment import (
    choose_cpus,
    cpu_model,
    describe_machine,
    load,
    machine_of,
    worker_environment,
)
from benchmarks.peers import tvm
from benchmarks.peers.mopt import AVX2_MACHINE
from benchmarks.timing import time_runs
from benchmarks.validation.planned import machine_for
from benchmarks.workers import _BOOTSTRAP, COMPILER, PACKAGE
from benchmarks.workloads import aligned_copy
from mopt_mlir import UserError, cache_flush
from mopt_mlir.cache_flush import CacheFlush, FlushedCpus, ballast_bytes, memory_of
from mopt_mlir.machine import facts, host, resolve


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
    flush = CacheFlush(FlushedCpus([cpus], len(cpus)), cache_bytes=1 << 20)
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
    monkeypatch.setattr(np, "max", lambda block: read.append(block.nbytes))
    CacheFlush(FlushedCpus([range(number)], number), 1 << 20, pin=lambda cpu: None)()
    ballast, kept = read[: 2 * number], read[2 * number :]
    assert sum(ballast) >= 2 * 4 << 20
    assert len(kept) >= 4 * number
    assert sum(kept[:number]) <= 1 << 19
    assert len(set(kept)) == 1


@pytest.mark.parametrize(("cpus", "cache", "kept"), [(2, 16, 2), (8, 32, 2), (2, 480, 4)])
def test_what_fits_is_small_beside_a_huge_cache(cpus, cache, kept, monkeypatch):
    """Which takes longer to read than the ballast, otherwise. Sizes in MiB, of each CPU."""
    monkeypatch.setattr(cache_flush, "ballast_bytes", lambda *_: 1 << 20)
    group = FlushedCpus([range(cpus)], cpus)
    flush = CacheFlush(group, cache << 20, pin=lambda cpu: None)
    assert {block.nbytes for block in flush._kept} == {kept << 20}
    assert memory_of(group, cache << 20) == (1 + cpus * kept) << 20


def test_a_cpu_that_cannot_be_used_is_an_error():
    """And not waited for: in a process of its own, for threads that wait would keep this one."""
    program = (
        "import os; from mopt_mlir.cache_flush import CacheFlush, FlushedCpus; "
        "CacheFlush(FlushedCpus([[min(os.sched_getaffinity(0)), 1 << 20]], 2), 1 << 20)"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "OSError: [Errno 22] Invalid argument" in ended.stderr


# as where neither the compiler is installed nor what it needs
_ONLY_NUMPY = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name in ("mopt_mlir", "archspec", "llvmlite", "mlir", "pyscipopt", "rich"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
"""


def test_workers_need_numpy_only():
    """This one finds no driver for its peer, but says so, which is all that it needs."""
    flushed = json.dumps({"groups": [[0]], "at_once": 1, "cache_bytes": 1 << 20})
    places = [str(COMPILER), str(PACKAGE), "benchmarks.worker"]
    cpus = json.dumps(sorted(os.sched_getaffinity(0)))
    command = [sys.executable, "-c", _ONLY_NUMPY + _BOOTSTRAP, *places, "onednn", cpus, flushed]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "driver cannot be loaded" in json.loads(ended.stdout)["error"]


def test_copies_are_aligned_and_equal():
    array = np.arange(30, dtype=np.float32).reshape(5, 6)[:, 1:]
    copy = aligned_copy(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.ctypes.data % 64 == 0
    assert copy.flags.c_contiguous


def test_tvm_is_tuned_on_what_the_benchmark_was_given(monkeypatch):
    """And leaves it again, also if tuning fails."""
    masks = {0: {3}, os.getppid(): {1, 3, 5}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: masks[process])
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda process, cpus: masks.update({process: cpus})
    )
    tuning = tvm._all_cpus()
    assert (tuning.__enter__(), masks[0]) == (3, {1, 3, 5})
    assert not tuning.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert masks[0] == {3}


@pytest.mark.parametrize(("known", "tuned"), [(0, 1), (16, 1), (tvm.TRIALS, 0)])
def test_tvm_is_tuned_to_the_end_once(known, tuned, tmp_path):
    """By a MetaSchedule that is played; what an interrupted run found is not enough."""
    calls = []

    def tune(*arguments, **options):
        calls.append(arguments[2])
        return range(tvm.TRIALS)

    peer = object.__new__(tvm.Tvm)
    peer._meta_schedule = SimpleNamespace(
        database=SimpleNamespace(JSONDatabase=lambda work_dir: range(known)),
        builder=SimpleNamespace(LocalBuilder=lambda **options: None),
        tir_integration=SimpleNamespace(
            tune_tir=tune, compile_tir=lambda database, *what: f"best of {len(database)}"
        ),
    )
    directory = tmp_path / "layer"
    assert peer._tuned("function", "target", directory) == f"best of {tvm.TRIALS}"
    assert calls == [str(directory)] * tuned


def test_one_cpu_of_each_core(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        directory = tmp_path / f"cpu{cpu}" / "topology"
        directory.mkdir(parents=True)
        (directory / "thread_siblings_list").write_text(siblings)
    nowhere = tmp_path / "nowhere"
    assert choose_cpus(1, tmp_path, nowhere) == [3]
    assert choose_cpus(2, tmp_path, nowhere) == [2, 3]
    with pytest.raises(UserError, match="threads=3: this process may use 2 cores"):
        choose_cpus(3, tmp_path, nowhere)
    with pytest.raises(UserError, match="threads=0"):
        choose_cpus(0, tmp_path, nowhere)


def test_under_a_quota_fewer_cores_are_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert choose_cpus(2, tmp_path, tmp_path) == [2, 3]
    with pytest.raises(UserError, match="threads=3: this process may use 2 cores"):
        choose_cpus(3, tmp_path, tmp_path)


def on_a_machine_with_l3s(root, monkeypatch, *sizes):
    """Cores that each have an L3, of such sizes."""
    try:
        host()
    except UserError as refusal:
        pytest.skip(refusal.message)
    for cpu, size in enumerate(sizes):
        directory = root / f"cpu{cpu}" / "cache" / "index3"
        directory.mkdir(parents=True)
        lines = ("coherency_line_size", "64"), ("ways_of_associativity", "16")
        for name, text in ("level", "3"), ("type", "Unified"), ("size", size), *lines:
            (directory / name).write_text(text)
        (directory / "shared_cpu_list").write_text(str(cpu))
        (directory.parents[1] / "topology").mkdir()
        (directory.parents[1] / "topology" / "thread_siblings_list").write_text(str(cpu))
    threads = frozenset(range(len(sizes)))
    monkeypatch.setattr(facts, "observe", partial(facts.observe, root, threads))


def test_plans_are_for_the_cores_that_are_measured(tmp_path, monkeypatch):
    """With L3s of different sizes, as those of a Ryzen 9 7950X3D."""
    on_a_machine_with_l3s(tmp_path, monkeypatch, "96M", "32M")
    assert machine_of([0]).cache("L3").size == 96 << 20
    assert machine_of([1]).cache("L3").size == 32 << 20
    (last,) = (
        c for c in describe_machine(machine_of([1]))["planned_for"]["caches"] if c["name"] == "L3"
    )
    assert last["size"] == 32 << 20
    assert machine_for("native", [1]) == machine_of([1])
    limited = machine_for("avx2", [1])
    assert (limited.cache("L3").size, limited.vector_bits) == (32 << 20, 256)


def test_on_cores_that_are_alike_the_machine_is_the_host(tmp_path, monkeypatch):
    on_a_machine_with_l3s(tmp_path, monkeypatch, "32M", "32M")
    assert machine_of([0]) == machine_of([1]) == machine_of([0, 1]) == host()
    assert machine_for("avx2", [1]) == resolve(AVX2_MACHINE)


def test_bandwidths_are_measured_with_the_caches_of_the_cores(tmp_path, monkeypatch):
    """Of two cores with an L3 each none shares it with the other."""
    on_a_machine_with_l3s(tmp_path, monkeypatch, "96M", "32M", "32M")

    def measure(machine, cpus, sharing):
        raise LookupError(machine.cache("L3").size, cpus, sharing)

    monkeypatch.setattr("mopt_mlir.measuring.bench.HostBench", measure)
    with pytest.raises(LookupError) as measured:
        measure_bandwidths([1, 2])
    assert measured.value.args == (32 << 20, [1, 2], 1)


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
