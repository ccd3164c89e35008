"""Measuring a host, and keeping what was measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mopt_mlir.diagnostics import Diagnostic, UserError
from mopt_mlir.machine import Machine, by_name, calibration, host, resolve
from mopt_mlir.machine.calibration import Calibration, Identity
from mopt_mlir.machine.facts import observe
from mopt_mlir.machine.quantities import QUANTITIES, READS, WRITES, Quantity
from mopt_mlir.machine.registry import SHIPPED
from mopt_mlir.measuring import calibrating, kernels
from mopt_mlir.measuring.bench import HostBench, buffer_bytes
from mopt_mlir.measuring.memory import check_memory
from mopt_mlir.measuring.team import Team
from mopt_mlir.problem import ElementType
from mopt_mlir.tools.mopt_machine import main

RATES = dict(zip(QUANTITIES, (256.0, 128.0, 500.0, 200.0, 100.0, 40.0, 20.0, 30.0), strict=True))
"""GFLOP/s or GB/s of one core."""

THIS = Identity.of(observe())


def measured(threads: int = 2, identity: Identity = THIS) -> Calibration:
    """Every quantity in proportion to the cores."""
    figures = {q.name: {n: RATES[q] * n for n in range(1, threads + 1)} for q in QUANTITIES}
    return Calibration(identity, "2026-01-31", figures)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOPT_CACHE_DIR", str(tmp_path / "cache"))
    calibration.ignore.cache_clear()
    return tmp_path / "cache"


# Measuring, on a bench that never runs anything


@dataclass
class FakeBench:
    """A machine whose rates are in proportion to the cores; `disturbance` slows a run down."""

    disturbance: Callable[[int], float] = lambda run: 1.0
    rates: dict[Quantity, float] = field(default_factory=lambda: dict(RATES))
    now: float = 0.0
    runs: int = 0

    def work(self, quantity: Quantity, threads: int) -> float:
        return 1000.0 * threads

    def seconds(self, quantity: Quantity, threads: int, rounds: int) -> float:
        assert threads >= 1
        self.runs += 1
        took = 1e-9 * 1000.0 * rounds / self.rates[quantity] * self.disturbance(self.runs)
        self.now += took
        return took

    def clock(self) -> float:
        return self.now


def test_figures_are_those_of_the_machine() -> None:
    bench = FakeBench()
    samples = calibrating.measure(bench, (1, 2), seconds=1, clock=bench.clock)
    figures = calibrating.best(samples)
    for quantity in QUANTITIES:
        assert figures[quantity.name] == pytest.approx({1: RATES[quantity], 2: 2 * RATES[quantity]})
    assert 1 <= bench.now < 3
    assert [*calibrating.contradictions(figures), *calibrating.disturbances(samples)] == []


def test_the_best_runs_count_and_the_user_hears_of_the_others() -> None:
    bench = FakeBench(disturbance=lambda run: 1.0 if run % 3 == 0 else 5.0)
    samples = calibrating.measure(bench, (1,), seconds=10, clock=bench.clock)
    for name, figures in calibrating.best(samples).items():
        (rate,) = (RATES[quantity] for quantity in QUANTITIES if quantity.name == name)
        assert figures[1] == pytest.approx(rate)
    (remark,) = calibrating.disturbances(samples)
    assert "the machine was busy: of 8 of the 8 figures" in remark


def test_a_single_lucky_run_does_not_count() -> None:
    bench = FakeBench(disturbance=lambda run: 0.5 if run == 300 else 1.0)
    samples = calibrating.measure(bench, (1,), seconds=2, clock=bench.clock)
    assert bench.runs > 300
    figures = calibrating.best(samples)
    assert [*figures.values()] == [{1: pytest.approx(rate)} for rate in RATES.values()]


def test_runs_are_long_enough_to_be_timed() -> None:
    bench = FakeBench()
    durations: list[float] = []
    time, bench_seconds = bench.clock, bench.seconds

    def seconds(quantity: Quantity, threads: int, rounds: int) -> float:
        durations.append(bench_seconds(quantity, threads, rounds))
        return durations[-1]

    bench.seconds = seconds  # type: ignore[method-assign]
    calibrating.measure(bench, (1,), seconds=1, clock=time)
    assert min(durations[len(durations) // 2 :]) >= calibrating.RUN_SECONDS / 2


def test_contradictory_figures_are_measured_for_longer() -> None:
    bench = FakeBench(rates={**RATES, READS[1]: 50.0})  # L2 slower than L3, whatever one does
    samples = calibrating.measure(bench, (1,), seconds=1, clock=bench.clock)
    assert bench.now >= calibrating.PATIENCE
    (remark,) = calibrating.contradictions(calibrating.best(samples))
    assert remark == "L3 read (100 GB/s) is faster than L2 read (50 GB/s) on 1 core"


def test_progress_is_told_and_never_goes_back() -> None:
    bench = FakeBench()
    shares: list[float] = []
    calibrating.measure(bench, (1,), seconds=1, clock=bench.clock, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


@pytest.mark.parametrize(
    ("name", "threads", "figure", "message"),
    [
        (
            "DRAM read",
            2,
            300.0,
            "DRAM read (300 GB/s) is faster than L3 read (200 GB/s) on 2 cores",
        ),
        ("L1 read", 2, 450.0, "L1 read is slower on 2 cores (450 GB/s) than on 1 core (500)"),
        ("f64 FMA", 1, 256.0, "the f32 peak (256 GFLOP/s) is not twice the f64 peak (256)"),
    ],
)
def test_contradictions_are_found(name: str, threads: int, figure: float, message: str) -> None:
    figures = {key: dict(values) for key, values in measured().figures.items()}
    assert list(calibrating.contradictions(figures)) == []
    figures[name][threads] = figure
    assert message in list(calibrating.contradictions(figures))


def test_numbers_of_cores() -> None:
    assert calibrating.thread_counts(1) == (1,)
    assert calibrating.thread_counts(3) == (1, 2, 3)
    assert calibrating.thread_counts(20) == (1, 2, 4, 8, 16, 20)
    assert calibrating.thread_counts(64) == (1, 2, 4, 8, 16, 32, 64)


@pytest.mark.parametrize("name", ["znver5", "i7-9700k", "i9-10980xe", "sapphirerapids", "haswell"])
def test_buffers_lie_where_they_are_measured(name: str) -> None:
    machine = by_name(name)
    l1, l2, l3 = (cache.size for cache in machine.caches)
    for threads in (1, 2, machine.cores):
        size = {
            level: buffer_bytes(machine, level, threads, machine.cores)
            for level in ("L1", "L2", "L3", "DRAM")
        }
        assert size["L1"] < l1 < size["L2"] < l2 < size["L3"]
        # what does not fit in L3 is in the L2 caches, of which Xeons have as much
        assert size["L3"] * threads <= l3 + l2 * threads
        assert size["DRAM"] * threads >= 4 * (l3 + l2 * threads)
        assert all(
            bytes_ % kernels.step_bytes(machine.vector_bits) == 0 for bytes_ in size.values()
        )


def test_each_last_cache_gets_buffers_of_its_own() -> None:
    zen = by_name("znver5")
    assert buffer_bytes(zen, "DRAM", 16, sharing=8) * 16 >= 2 * 8 * zen.cache("L3").size
    assert buffer_bytes(zen, "L3", 16, sharing=8) == buffer_bytes(zen, "L3", 8, sharing=8)


def test_a_huge_last_cache_is_read_where_plans_use_it() -> None:
    xeon = replace(by_name("sapphirerapids"), cores=2)
    l1, l2, l3 = xeon.caches
    huge = replace(xeon, caches=(l1, l2, replace(l3, size=480 << 20)))
    bytes_ = buffer_bytes(huge, "L3", 1, sharing=2)
    assert 4 * l2.size <= bytes_ <= 32 * l2.size
    assert buffer_bytes(huge, "DRAM", 1, sharing=2) >= 4 * huge.cache("L3").size


def test_a_buffer_is_in_its_cache_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read twice, as some last caches take what comes from memory with the second reading."""
    vector_bits()
    runs: list[int] = []

    def seconds(self: Team, kernel: object, rounds: int, arguments: object) -> float:
        runs.append(rounds)
        return 1e-3 * rounds

    monkeypatch.setattr(Team, "seconds", seconds)
    monkeypatch.setattr("mopt_mlir.measuring.bench.BEYOND_CACHES", 1)  # little memory
    machine = resolve("host,L3.size=8388608,L3.ways=16,L2.size=1048576,L2.ways=16")
    quantities = {quantity.name: quantity for quantity in QUANTITIES}
    with HostBench(machine, observe().places[:1], 1) as bench:
        for name, warm_up in (("L1 read", 2), ("L2 read", 2), ("L3 read", 2), ("DRAM write", 0)):
            runs.clear()
            assert bench.seconds(quantities[name], 1, 4) == 4e-3
            assert sum(runs[:-1]) == warm_up
            assert runs[-1] == 4


def test_what_is_read_from_memory_is_in_no_cache_that_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Buffers of caches and of memory are apart, on one core and on two; all of it is asked for."""
    vector_bits()
    read: list[tuple[int, int]] = []
    allocated: list[int] = []
    asked: list[int] = []
    empty = np.empty

    def seconds(self: Team, kernel: object, rounds: int, arguments: Sequence[Any]) -> float:
        for _, buffer in arguments:
            read.append((buffer.ctypes.data, buffer.ctypes.data + buffer.nbytes))
        return 1e-3

    def allocate(size: int, dtype: Any) -> NDArray[Any]:
        allocated.append(size)
        return empty(size, dtype)

    monkeypatch.setattr(Team, "seconds", seconds)
    monkeypatch.setattr(Team, "run", lambda self, tasks: 0.0)
    monkeypatch.setattr(np, "empty", allocate)
    monkeypatch.setattr(
        "mopt_mlir.measuring.bench.check_memory", lambda needed, what, way_out: asked.append(needed)
    )
    machine = resolve("host,L3.size=8388608,L3.ways=16,L2.size=1048576,L2.ways=16")
    of_level: dict[str, list[tuple[int, int]]] = {}
    with HostBench(machine, [0, 1], 2) as bench:
        for threads in (1, 2):
            for quantity in (*READS, *WRITES):
                for _ in range(8):  # reading in parts comes to all of them
                    bench.seconds(quantity, threads, 2)
                of_level.setdefault(quantity.level, []).extend(read)
                read.clear()
    from_dram = of_level.pop("DRAM")
    assert len(of_level) == 3
    for start, end in (buffer for buffers in of_level.values() for buffer in buffers):
        assert all(end <= first or last <= start for first, last in from_dram)
    assert asked == [sum(allocated)]


def test_too_little_memory_to_measure_has_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    vector_bits()
    monkeypatch.setattr("mopt_mlir.measuring.memory._of_machine", lambda meminfo: 1 << 20)
    with pytest.raises(UserError, match=r"1 are free; measure on a machine with more$"):
        HostBench(host(), [0], 1)
    with pytest.raises(UserError, match=r"1 are free; a machine file can be written by hand$"):
        calibrating.calibrate(1)


# The kernels, on this host

ALONE = np.zeros(1, np.int64)
"""For a thread that waits for no other."""


def vector_bits() -> int:
    try:
        return host().vector_bits
    except UserError as refusal:
        pytest.skip(refusal.message)


def test_reading_reads_everything() -> None:
    bits = vector_bits()
    buffer = np.zeros(3 * kernels.step_bytes(bits) // 4, np.int32)
    values = np.zeros(bits // 32, np.int32)
    buffer[:] = 1 << np.arange(buffer.size) % 31
    kernels.compiled(bits)["read"](ALONE.copy(), 1, 2, values, buffer)
    lanes = buffer.reshape(-1, values.size)
    np.testing.assert_array_equal(values, np.bitwise_or.reduce(lanes))


@pytest.mark.parametrize("name", ["write", "stream"])
def test_writing_writes_everything(name: str) -> None:
    bits = vector_bits()
    size = 3 * kernels.step_bytes(bits) // 4
    memory = np.zeros(size + 16, np.int32)
    start = -memory.ctypes.data % 64 // 4
    buffer = memory[start : start + size]
    values = np.arange(1, bits // 32 + 1, dtype=np.int32)
    kernels.compiled(bits)[name](ALONE.copy(), 1, 1, values, buffer)
    np.testing.assert_array_equal(
        buffer.reshape(-1, values.size), np.tile(values, (size // values.size, 1))
    )
    assert np.count_nonzero(memory) == size


def test_only_streaming_passes_the_caches_by() -> None:
    stream, others = [], []
    for function in kernels.module(512).body:
        (stream if function.name.value == "stream" else others).append(str(function))
    assert stream[0].count("nontemporal = true") == kernels.UNROLL
    assert not any("nontemporal" in text for text in others)


@pytest.mark.parametrize("element", list(ElementType))
def test_computing_does_one_fma_per_chain_and_round(element: ElementType) -> None:
    bits = vector_bits()
    dtype = np.float32 if element is ElementType.F32 else np.float64
    values = np.ones(bits // (8 * element.size), dtype)
    kernels.compiled(bits)[f"fma_{element.value}"](ALONE.copy(), 1, 10, values)
    # each chain starts at one and adds one ten times; the vector is the sum of all
    np.testing.assert_array_equal(values, kernels.CHAINS * 11)


def test_threads_wait_for_each_other() -> None:
    bits = vector_bits()
    arrived = np.zeros(1, np.int64)
    values = [np.ones(bits // 32, np.float32) for _ in range(3)]
    kernel = kernels.compiled(bits)["fma_f32"]
    with ThreadPoolExecutor(3) as pool:
        first = [pool.submit(kernel, arrived, 3, 10, values[at]) for at in range(2)]
        done, _ = wait(first, timeout=0.05)
        assert not done
        kernel(arrived, 3, 10, values[2])
    assert arrived[0] == 3
    for vector in values:
        np.testing.assert_array_equal(vector, kernels.CHAINS * 11)


def test_this_host_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With small buffers, and no more than a glance at each figure."""
    vector_bits()
    monkeypatch.setattr(calibrating, "RUN_SECONDS", 1e-5)
    monkeypatch.setattr(calibrating, "RUN_SECONDS_PER_THREAD", 0.0)
    monkeypatch.setattr(calibrating, "SWEEPS", 1)
    machine = resolve(
        "host,L1.size=32768,L1.ways=8,L2.size=131072,L2.ways=8,L3.size=262144,L3.ways=8"
    )
    facts = observe()
    threads = min(2, facts.cores)
    with HostBench(machine, facts.places[:threads], facts.cores) as bench:
        figures = calibrating.best(
            calibrating.measure(bench, calibrating.thread_counts(threads), seconds=0)
        )
    assert set(figures) == {quantity.name for quantity in QUANTITIES}
    for by_threads in figures.values():
        assert list(by_threads) == list(range(1, threads + 1))
        assert all(0 < figure < 1e5 for figure in by_threads.values())


def test_too_little_memory_is_said_and_not_taken(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  4000000 kB\nMemAvailable:  1024 kB\n")
    check_memory(1 << 20, "this", "go on", meminfo)
    with pytest.raises(UserError, match="this needs 2 MB of memory, 1 are free; go on"):
        check_memory(2 << 20, "this", "go on", meminfo)
    check_memory(1 << 60, "this", "go on", tmp_path / "none", tmp_path)


@pytest.mark.parametrize(("limit", "fits"), [("max", True), (3 << 20, False), (4 << 20, True)])
def test_a_container_may_have_less_memory(tmp_path: Path, limit: object, fits: bool) -> None:
    """Of which two megabytes are in use, one of them to keep files that are elsewhere as well."""
    (tmp_path / "meminfo").write_text("MemAvailable: 1048576 kB\n")
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{2 << 20}\n")
    (tmp_path / "memory.stat").write_text(f"anon {1 << 20}\nfile {1 << 20}\n")
    with nullcontext() if fits else pytest.raises(UserError, match="3 MB of memory, 2 are free"):
        check_memory(3 << 20, "this", "go on", tmp_path / "meminfo", tmp_path)


@pytest.mark.parametrize(
    ("limit", "fits"), [(2**63 - 4096, True), (3 << 20, False), (4 << 20, True)]
)
def test_a_container_of_version_1_may_have_less_memory(
    tmp_path: Path, limit: int, fits: bool
) -> None:
    """As above; what containers inside it keep counts as well."""
    (tmp_path / "meminfo").write_text("MemAvailable: 1048576 kB\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text(f"{2 << 20}\n")
    (tmp_path / "memory" / "memory.stat").write_text(
        f"cache 0\nrss {1 << 20}\ntotal_cache {1 << 20}\ntotal_rss {1 << 20}\n"
    )
    with nullcontext() if fits else pytest.raises(UserError, match="3 MB of memory, 2 are free"):
        check_memory(3 << 20, "this", "go on", tmp_path / "meminfo", tmp_path)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_cores_that_are_not_there_are_refused(threads: int) -> None:
    vector_bits()
    with pytest.raises(
        UserError, match=f"threads={threads}: must be at least 1, and this process may use "
    ):
        calibrating.calibrate(threads)


# From figures to fields of a machine


def zen5(cores: int) -> Machine:
    return by_name("znver5").with_cores(cores)


def test_fields_for_the_numbers_of_cores_that_were_measured() -> None:
    found = measured(4)
    assert found.one_core() == {
        "L1.bandwidth": 500, "L2.bandwidth": 200, "L3.bandwidth": 100, "dram_bandwidth": 40,
        "dram_write_bandwidth": 20, "dram_stream_bandwidth": 30,
    }  # fmt: skip
    # 256 GFLOP/s per core: 2 FMAs of 16 lanes in each of 4 billion cycles
    assert found.all_cores(zen5(2)) == {
        "frequency": 4.0, "L1.bandwidth_all": 1000, "L2.bandwidth_all": 400,
        "L3.bandwidth_all": 200, "dram_bandwidth_all": 80, "dram_write_bandwidth_all": 40,
        "dram_stream_bandwidth_all": 60,
    }  # fmt: skip


def test_fields_between_the_numbers_that_were_measured() -> None:
    figures = {name: {1: f[1], 2: f[2], 4: 1.5 * f[2]} for name, f in measured(2).figures.items()}
    assert replace(measured(), figures=figures).all_cores(zen5(3))["L3.bandwidth_all"] == 250


def test_fields_for_more_cores_than_were_measured() -> None:
    fields = measured(2).all_cores(zen5(8))
    assert fields["L1.bandwidth_all"] == 8 * 500  # private: adds up
    assert fields["L3.bandwidth_all"] == by_name("znver5").cache("L3").bandwidth_all
    assert fields["dram_bandwidth_all"] == by_name("znver5").dram_bandwidth_all
    # i7-9700k.toml says nothing of writing
    assert measured(2).all_cores(by_name("i7-9700k"))["dram_write_bandwidth_all"] == 40


# Keeping them


def test_what_is_stored_is_read_again() -> None:
    assert calibration.stored(THIS) is None
    found = replace(measured(), remarks=("busy",))
    path = calibration.store(found)
    assert calibration.stored(THIS) == found
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_holds_for_one_model_and_number_of_cores(cache: Path) -> None:
    path = calibration.store(measured(identity=Identity("AMD EPYC 9575F", "znver5", 64)))
    assert path == cache / "calibration" / "amd-epyc-9575f-znver5-64-cores.json"
    assert calibration.stored(Identity("AMD EPYC 9575F", "znver5", 2)) is None
    assert calibration.stored(Identity("AMD EPYC 9175F", "znver5", 64)) is None


def damaged(change: Callable[[dict[str, object]], object]) -> bytes:
    content = json.loads(calibration.to_json(measured()))
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "damaged, not JSON"),
        (calibration.to_json(measured())[:200], "damaged, not JSON"),
        (b"\xff\xfe", "damaged, not JSON"),
        (b"[" * 100_000, "damaged, not JSON"),
        (b"[]", "damaged, or not a calibration at all"),
        (b"{}", "damaged, or not a calibration at all"),
        (damaged(lambda c: c.update(format=0)), "made by another version"),
        (damaged(lambda c: c.pop("figures")), "damaged, without 'figures'"),
        (damaged(lambda c: c.update(cores="2")), "damaged, 'cores' is '2'"),
        (damaged(lambda c: c.update(model="Z80")), "of another machine, Z80 ("),
        (damaged(lambda c: c["figures"].pop("L3 read")), "damaged, without 'L3 read'"),
        (damaged(lambda c: c["figures"].update({"L3 read": {}})), "numbers of cores are missing"),
        (damaged(lambda c: c["figures"]["L3 read"].pop("1")), "numbers of cores are missing"),
        (damaged(lambda c: c["figures"]["L3 read"].update({"1": -4.0})), "for 1 cores is -4.0"),
        (damaged(lambda c: c["figures"]["L3 read"].update({"1": "x"})), "for 1 cores is 'x'"),
        (damaged(lambda c: c["figures"]["L3 read"].update({"0": 1.0})), "for 0 cores"),
        (damaged(lambda c: c["figures"]["L3 read"].update({"1": float("nan")})), "is nan"),
        # sound as a file, but no clock of a CPU
        (damaged(lambda c: c["figures"]["f32 FMA"].update({"1": 1e9, "2": 2e9})), "frequency: "),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_ignored_with_a_remark(
    data: bytes, why: str, told: list[Diagnostic]
) -> None:
    vector_bits()
    expected = host()
    path = calibration.store(measured())
    path.write_bytes(data)
    assert host() == host() == expected
    (remark,) = told
    assert (remark.severity, remark.location) == ("remark", str(path))
    assert "the calibration is ignored: " in remark.message
    assert why in remark.message
    assert "mopt-machine --calibrate" in remark.message


def test_a_directory_in_place_of_the_file_is_ignored_with_a_remark(
    told: list[Diagnostic],
) -> None:
    path = calibration.path_of(THIS)
    assert path is not None
    path.mkdir(parents=True)
    assert calibration.stored(THIS) is None
    assert "the calibration is ignored: Is a directory" in told[0].message


def test_writers_at_the_same_time_leave_a_whole_file() -> None:
    """Three processes store over and over; whatever is read meanwhile is one of theirs."""
    store = (
        "from test_calibration import *\n"
        "for _ in range(50): calibration.store(replace(measured(), date=sys.argv[1]))"
    )
    here = Path(__file__).parent
    writers = [
        subprocess.Popen([sys.executable, "-c", store, str(number)], cwd=here)
        for number in range(3)
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if found := calibration.stored(THIS):
            seen.add(found.date)
            assert replace(found, date="") == replace(measured(), date="")
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen <= {"0", "1", "2"}
    path = calibration.path_of(THIS)
    assert path is not None
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_refused(cache: Path) -> None:
    cache.write_text("a file where the directory should be")
    with pytest.raises(UserError, match=r"cannot make the directory: .*; set MOPT_CACHE_DIR to a"):
        calibration.prepare(THIS)


def test_no_cache_directory_is_no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "cache_directory", lambda: None)
    assert calibration.stored(THIS) is None
    assert calibration.forget(THIS) is None
    with pytest.raises(UserError, match=r"no cache directory .* set MOPT_CACHE_DIR"):
        calibration.store(measured())


# In use


def test_the_host_is_as_it_was_measured_until_that_is_forgotten() -> None:
    vector_bits()
    plain = host()
    calibration.store(measured(plain.cores))
    calibrated = host()
    assert calibrated.dram_bandwidth == 40
    assert calibrated.dram_bandwidth_all == 40 * plain.cores
    assert calibrated.cache("L2").bandwidth == 200
    assert calibrated.dram_stream_bandwidth == 30
    assert calibrated.peak(ElementType.F32) == pytest.approx(256, rel=1e-3)
    assert resolve("host,L2.bandwidth=77").cache("L2").bandwidth == 77
    assert by_name("znver5").dram_bandwidth_all == 88
    assert calibration.forget(THIS) is not None
    assert host() == plain


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Figures at once; the list gets the numbers of cores that were asked for."""
    asked: list[int | None] = []

    def fake(threads: int | None, progress: Callable[[float], None]) -> Calibration:
        asked.append(threads)
        progress(1.0)
        return replace(measured(observe().cores), remarks=("the machine was busy",))

    monkeypatch.setattr(calibrating, "calibrate", fake)
    vector_bits()
    return asked


def test_tool_measures_keeps_and_shows(
    calibrate: list[int | None], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--calibrate", "--threads", "1"]) == 0
    assert calibrate == [1]
    captured = capfd.readouterr()
    path = calibration.path_of(THIS)
    assert f"{path}: remark: the machine was busy" in captured.err
    lines = [line.split() for line in captured.out.splitlines()]
    (read,) = [line for line in lines if line[:2] == ["DRAM", "read"]]
    assert (read[2], read[-1]) == ("40.0", "GB/s")
    assert ["kept", "in", str(path)] in lines
    (field_line,) = [line for line in captured.out.splitlines() if line.startswith("L2.bandwidth ")]
    assert "200  GB/s" in field_line
    assert "calibration: 1 core busy, measured 2026-01-31, doubtful" in field_line


def test_help_names_the_known_machines(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capfd.readouterr().out
    named = printed.partition("\nKnown machines: ")[2].partition(".\n")[0].replace("\n", " ")
    assert set(named.split(", ")) == {path.stem for path in SHIPPED.glob("*.toml")}
    assert max(map(len, printed.splitlines())) <= 100


def test_tool_forgets(capfd: pytest.CaptureFixture[str]) -> None:
    path = calibration.store(measured())
    assert main(["--forget"]) == 0
    assert capfd.readouterr().out == f"removed {path}\n"
    assert not path.exists()
    assert main(["--forget"]) == 0
    assert capfd.readouterr().out.startswith("nothing is kept of ")


def test_tool_does_not_measure_what_it_cannot_keep(
    calibrate: list[int | None], cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cache.write_text("a file where the directory should be")
    assert main(["--calibrate"]) == 1
    assert calibrate == []
    assert f"{cache / 'calibration'}: error: cannot make the directory" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--calibrate", "znver5"], "only this host can be measured, not 'znver5'"),
        (["--forget", "mine.toml"], "only this host can be forgotten, not 'mine.toml'"),
        (["--threads", "2"], "--threads needs --calibrate"),
        (["--calibrate", "--threads", "two"], "invalid int value: 'two'"),
        (["--calibrate", "--forget"], "not allowed with argument"),
        (["--forget", "--format", "json"], "--forget prints no machine; it excludes --format"),
        (
            ["--calibrate", "--threads", "0"],
            "threads=0: must be at least 1, and this process may use ",
        ),
        (["zen5"], "unknown machine 'zen5'; did you mean 'znver5'?"),
        (["znver5,cores=-1"], "cores: -1 is not from 1 to 10000"),
        (["none.toml"], "none.toml: error: cannot read the machine file"),
        (["--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_tool_refuses(argv: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    vector_bits()
    assert main(argv) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert not captured.err.startswith("\n")
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_a_machine_file_whose_name_is_not_utf_8(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / os.fsdecode(b"mine\xff.toml")
    path.write_bytes((SHIPPED / "haswell.toml").read_bytes())
    assert main([str(path)]) == 0
    assert capfdbinary.readouterr().out.startswith(rb"machine mine\xff" + b"\n")
