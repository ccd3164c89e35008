"""Machine files, overrides, and the detection of a host from what an OS would say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import get_ident
from time import sleep

import numpy as np
import pytest
from numpy.typing import NDArray

from mopt_mlir import cache_flush
from mopt_mlir.cache_flush import CacheFlush
from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import Machine, by_name, flushing, host, names, report, resolve
from mopt_mlir.machine import facts as facts_module
from mopt_mlir.machine.detection import describe_host
from mopt_mlir.machine.facts import CacheFacts, HostFacts, observe
from mopt_mlir.machine.files import read
from mopt_mlir.machine.registry import SHIPPED, describe, shipped
from mopt_mlir.problem import ElementType

DOCS = Path(__file__).resolve().parents[2] / "docs" / "machines.md"
AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
ZEN5 = HostFacts("x86_64", "znver5", ("zen5", "zen4", "x86_64_v4", "x86_64_v3"), AVX512)


def machine_on(facts: HostFacts) -> Machine:
    return describe_host(facts, map(shipped, names())).machine


# Shipped machines


def test_shipped_machines_are_the_documented_ones() -> None:
    assert set(names()) == {
        "znver5", "znver4", "znver3", "i7-9700k", "i9-10980xe", "skylake-avx512", "icelake-server",
        "sapphirerapids", "emeraldrapids", "graniterapids", "haswell", "generic-avx2",
        "generic-avx512",
    }  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_shipped_machine_is_consistent(name: str) -> None:
    machine = by_name(name)
    machine.check()
    assert machine.name == name
    # nothing reads faster than the load ports, and vectors of AVX-512 need 32 registers
    width = machine.unit_bits or machine.vector_bits
    ports = machine.loads_per_cycle * width / 8 * machine.frequency
    assert machine.cache("L1").bandwidth <= 1.01 * ports
    assert (machine.vector_bits == 512) == (machine.vector_registers == 32)
    bandwidths = [cache.bandwidth for cache in machine.caches] + [machine.dram_bandwidth]
    assert bandwidths == sorted(bandwidths, reverse=True)


@pytest.mark.parametrize("name", names())
def test_every_figure_of_a_shipped_machine_says_where_it_is_from(name: str) -> None:
    notes = shipped(name).notes
    assert [key for key, note in notes.items() if not note] == []
    required = {key for key, value in by_name(name).values().items() if value is not None}
    derived = {"L1.bandwidth_all", "L2.bandwidth_all"}
    defaults = {"capacity_factor", "prefetch_into"}
    assert required - derived - defaults <= set(notes)


@pytest.mark.parametrize("name", names())
def test_llvm_knows_the_cpu_of_a_shipped_machine(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu=by_name(name).cpu)
    assert "not a recognized processor" not in capfd.readouterr().err


def test_figures_follow_from_fields() -> None:
    zen5, coffee_lake = by_name("znver5"), by_name("i7-9700k")
    assert (zen5.lanes(ElementType.F32), zen5.lanes(ElementType.F64)) == (16, 8)
    assert zen5.peak(ElementType.F32) == pytest.approx(2 * 16 * 2 * 4.4)
    assert coffee_lake.peak(ElementType.F64, threads=8) == pytest.approx(2 * 4 * 2 * 4.6 * 8)


# Overrides


def test_override_replaces_fields_and_says_so_in_the_name() -> None:
    machine = resolve("znver5,cores=4,L2.size=524288,fma_latency=5")
    assert machine.name == "znver5,cores=4,L2.size=524288,fma_latency=5"
    assert (machine.cores, machine.cache("L2").size, machine.fma_latency) == (4, 524288, 5)
    assert machine.cache("L1") == replace(by_name("znver5").cache("L1"), bandwidth_all=4 * 565.0)


def test_override_of_cores_scales_what_all_cores_read_together() -> None:
    two, many = resolve("znver5,cores=2"), resolve("znver5,cores=64")
    assert [cache.bandwidth_all for cache in two.caches] == [1130, 410, 240]
    # two cores saturate memory, as measured, and more do not read more
    assert two.dram_bandwidth_all == many.dram_bandwidth_all == 88
    assert many.cache("L3").bandwidth_all == by_name("znver5").cache("L3").bandwidth_all


def test_override_of_a_total_is_kept() -> None:
    machine = resolve("znver5,cores=2,L3.bandwidth_all=200,L1.bandwidth=500")
    assert machine.cache("L3").bandwidth_all == 200
    assert machine.cache("L1").bandwidth_all == 1000


@pytest.mark.parametrize(
    ("override", "totals"),
    [
        ("capacity_factor=0.7", [800, 400, 160]),
        ("frequency=3.5,L2.size=524288,L3.bandwidth=50", [800, 400, 160]),
        ("cores=4", [800, 400, 160]),  # as many as before
        ("cores=2", [474, 208, 96]),
        ("L1.bandwidth=230", [920, 400, 160]),
        ("cores=2,L2.bandwidth=100", [474, 200, 96]),
        ("cores=2,L2.bandwidth_all=150", [474, 150, 96]),
        ("L3.shared=false", [800, 400, 192]),
    ],
)
def test_only_totals_that_depend_on_an_override_are_derived_anew(
    override: str, totals: list[float], machine_file: Path
) -> None:
    """Four cores together read less than four times what one does."""
    text = machine_file.read_text()
    for one, together in ("237.0", 800), ("104.0", 400):
        text = text.replace(f"bandwidth = {one}", f"bandwidth_all = {together}\nbandwidth = {one}")
    machine_file.write_text(text)
    machine = resolve(f"{machine_file},{override}")
    assert [cache.bandwidth_all for cache in machine.caches] == totals


def test_more_cores_never_read_less_than_one() -> None:
    slow = replace(by_name("znver5"), dram_bandwidth=60.0, dram_bandwidth_all=60.0)
    assert slow.with_cores(1).dram_bandwidth_all == 60


def test_a_core_with_narrow_units_does_as_much_with_narrow_vectors() -> None:
    """Zen 4 takes two slots for 512 bits, so that AVX-512 does not double what it computes."""
    wide, narrow = resolve("znver4"), resolve("znver4,vector_bits=256,vector_registers=16")
    assert (wide.slots(512), wide.slots(256), wide.slots(128)) == (2, 1, 1)
    assert wide.peak(ElementType.F32) == narrow.peak(ElementType.F32) == pytest.approx(118.4)
    full = resolve("znver5")
    assert full.slots(512) == full.slots(128) == 1
    assert full.peak(ElementType.F32) == 2 * resolve("znver5,vector_bits=256").peak(ElementType.F32)


def test_writing_to_memory_is_optional_and_follows_the_cores() -> None:
    machine = by_name("haswell")
    assert machine.dram_write_bandwidth is None
    spec = "haswell,dram_write_bandwidth=8,dram_write_bandwidth_all=12"
    assert resolve(spec).dram_write_bandwidth_all == 12
    assert resolve(spec).with_cores(1).dram_write_bandwidth_all == 8
    assert resolve(spec).with_cores(1).dram_stream_bandwidth_all is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("zen5", "unknown machine 'zen5'; did you mean 'znver5'? known: auto, host, emeraldrapids"),
        ("cray-1", "unknown machine 'cray-1'; known: auto, host, emeraldrapids, generic-avx2"),
        ("znver5,cores", "'cores' is not of the form field=value"),
        ("znver5,cores=", "'cores=' is not of the form field=value"),
        ("znver5,cores=2,L2.size=1,cores=8", "'cores' is given twice"),
        ("znver5,sockets=2", "unknown field 'sockets'; known: cpu, cores"),
        (
            "znver5,L4.size=1024",
            "unknown field 'L4.size'; did you mean 'L1.size'? known: cpu, cores",
        ),
        ("znver5,L2.sizes=5", "unknown field 'L2.sizes'; did you mean 'L2.size'? known: cpu"),
        ("znver5,core=2", "unknown field 'core'; did you mean 'cores'? known: cpu, cores"),
        ("znver5,cores=two", "cores: 'two' is not an integer"),
        ("znver5,frequency=fast", "frequency: 'fast' is not a number"),
        ("znver5,frequency=nan", "frequency: nan is not from 0.01 to 10 GHz"),
        ("znver5,frequency=4400", "frequency: 4400.0 is not from 0.01 to 10 GHz"),
        ("znver5,L3.shared=yes", "L3.shared: 'yes' is neither true nor false"),
        ("znver5,cores=-1", "cores: -1 is not from 1 to 10000"),
        (f"znver5,cores={10**400}", "0 is not from 1 to 10000"),
        ("znver5,vector_registers=2", "vector_registers: 2 is not from 3 to 128"),
        ("znver5,vector_registers=1", "vector_registers: 1 is not from 3 to 128"),
        ("znver5,frequency=1e-320", "frequency: 1e-320 is not from 0.01 to 10 GHz"),
        ("znver5,L1.bandwidth=1e300", "L1.bandwidth: 1e+300 is not from 0.001 to 100000 GB/s"),
        ("znver5,dram_bandwidth_all=inf", "dram_bandwidth_all: inf is not from 0.001 to"),
        ("znver5,fma_latency=1001", "fma_latency: 1001 is not from 1 to 1000 cycles"),
        ("znver5,L3.size=2199023255552", "L3.size: 2199023255552 is not from 64 to 1099511627776"),
        ("znver5,capacity_factor=0", "capacity_factor: 0.0 is not from 0.001 to 1 of a cache"),
        ("znver5,capacity_factor=nan", "capacity_factor: nan is not from 0.001 to 1 of a cache"),
        ("znver5,vector_bits=384", "vector_bits: 384 is not one of 128, 256, 512"),
        ("znver5,evicted_store_cycles=-1", "evicted_store_cycles: -1.0 is not from 0.001"),
        ("znver5,saved_line_cycles=0", "saved_line_cycles: 0.0 is not from 0.001"),
        ("znver5,crossing_cycles=0", "crossing_cycles: 0.0 is not from 0.001 to 10000 cycles"),
        ("znver5,issue_norm=0.5", "issue_norm: 0.5 is not from 1 to 100"),
        ("znver5,L2.busy_bandwidth=0", "L2.busy_bandwidth: 0.0 is not from 0.001 to 100000 GB/s"),
        ("znver5,loop_cycles=-1", "loop_cycles: -1.0 is not from 0.001 to 10000 cycles"),
        ("znver4,queued_stores=0", "queued_stores: 0 is not from 1 to 10000 slots"),
        ("znver4,misprediction_cycles=0", "misprediction_cycles: 0.0 is not from 0.001 to 10000"),
        ("znver4,prefetch_into=L3", "prefetch_into: 'L3' is not L1, L2 or both"),
        ("znver4,unit_bits=300", "unit_bits: 300 is not one of 128, 256, 512"),
        (
            "znver5,pixel_room=1.5",
            "pixel_room: 1.5 is not from 0.001 to 1 of the distance between pixels",
        ),
        ("znver5,capacity_factor=1.5", "capacity_factor: 1.5 is not from 0.001 to 1 of a cache"),
        ("znver3,L2.exposed=0", "L2.exposed: 0.0 is not from 0.001 to 1 of the time of what"),
        ("znver5,L1.line=48", "L1.line: 48 is not a power of two"),
        ("znver5,L1.size=1000", "L1.size: 1000 is not a multiple of 12 ways of 64 bytes"),
        ("znver5,L2.size=32768", "L2.size: 32768 is not larger than L1's 49152"),
        ("znver5,L3.bandwidth_all=1", "L3.bandwidth_all: all cores cannot read less than one"),
        ("znver5,dram_bandwidth=99", "dram_bandwidth_all: all cores cannot read less than one"),
        ("haswell,dram_stream_bandwidth=9", "dram_stream_bandwidth_all: missing"),
        ("haswell,dram_write_bandwidth_all=9", "dram_write_bandwidth: missing"),
        (
            "haswell,dram_write_bandwidth=9,dram_write_bandwidth_all=8",
            "dram_write_bandwidth_all: all cores cannot write less than one",
        ),
    ],
)
def test_impossible_machine_is_refused(spec: str, message: str) -> None:
    with pytest.raises(UserError) as refusal:
        resolve(spec)
    assert message in str(refusal.value)


# Files


@pytest.fixture
def machine_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text((SHIPPED / "haswell.toml").read_text())
    return path


def test_notes_belong_to_the_table_they_stand_in(machine_file: Path) -> None:
    text = machine_file.read_text()
    sizes = [line for line in text.splitlines() if line.startswith("size = ")]
    text = text.replace("[L2]", "[L2]  # the second level").replace(
        sizes[1], "size = 262144  # two"
    )
    machine_file.write_text(text)
    notes = read(machine_file).notes
    assert notes["L2.size"] == "two"
    assert notes["L1.size"] == shipped("haswell").notes["L1.size"]


def test_file_is_read_by_its_path(machine_file: Path) -> None:
    assert resolve(str(machine_file)) == replace(by_name("haswell"), name="mine")
    assert resolve(f"{machine_file},cores=2").cores == 2


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("cores = 4", "", "cores: missing"),
        ("cores = 4", "cores = 4.5", "cores: 4.5 is not an integer"),
        ("cores = 4", f"cores = {10**400}", "cores: 1000"),
        ("cores = 4", f"cores = {'9' * 5000}", "a number in it has thousands of digits"),
        ("frequency = 3.7", f"frequency = {10**400}", "frequency: 1000"),
        ("cores = 4", f"cores = 4\ncapacity_factor = {10**400}", "capacity_factor: 1000"),
        ("cores = 4", "cores = true", "cores: true is not an integer"),
        ("cores = 4", "cores = 4\nsockets = 1", "sockets: unknown field; known: cpu, cores"),
        ('cpu = "haswell"', 'cpu = ""', "cpu: is empty"),
        ("[L3]", "[L4]", "[L4]: unknown table; known: [L1], [L2], [L3]"),
        ("bandwidth_all = 160.0", "", "L3.bandwidth_all: missing"),
        ("size = 262144", "size = -1", "L2.size: -1 is not from 64 to 1099511627776 bytes"),
        ('microarchitecture = "haswell"', "microarchitecture = 4", "microarchitecture: is not a"),
    ],
)
def test_file_with_a_mistake_is_refused_and_named(
    machine_file: Path, line: str, instead: str, message: str
) -> None:
    text = machine_file.read_text()
    assert line in text
    machine_file.write_text(text.replace(line, instead))
    with pytest.raises(UserError) as refusal:
        resolve(str(machine_file))
    assert str(refusal.value).startswith(f"{machine_file}: error: {message}")


def lines_with_a_field() -> list[tuple[str, str]]:
    """Each field of a machine file, by the key of `Machine.values`, and its line."""
    lines, table = [], ""
    for line in (SHIPPED / "haswell.toml").read_text().splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        elif " = " in line and not line.startswith("microarchitecture"):
            lines.append((table + line.split()[0], line))
    return lines


def with_field(path: Path, key: str, line: str) -> str:
    """The path of a copy of haswell.toml in which `line` stands for the field `key`."""
    table, _, _ = key.rpartition(".")
    head, bracket, tail = (SHIPPED / "haswell.toml").read_text().partition(f"[{table}]")
    old = dict(lines_with_a_field())[key]
    text = head + bracket + tail.replace(old, line, 1) if table else head.replace(old, line, 1)
    path.write_text(text + bracket + tail if not table else text)
    return str(path)


@pytest.mark.parametrize("key", dict(lines_with_a_field()))
def test_each_field_is_needed_and_checked(key: str, tmp_path: Path) -> None:
    path, name = tmp_path / "mine.toml", key.rpartition(".")[2]
    with pytest.raises(UserError) as refusal:
        resolve(with_field(path, key, ""))
    assert str(refusal.value) == f"{path}: error: {key}: missing"
    for nonsense, why in (
        ("[]", ": [] is not "),
        ("-1", ""),
        ("0", ""),
        ("nan", ""),
        ("inf", ""),
    ):
        with pytest.raises(UserError) as refusal:
            resolve(with_field(path, key, f"{name} = {nonsense}"))
        assert str(refusal.value).startswith(f"{path}: error: {key}: ")
        assert why in str(refusal.value)


def test_file_without_a_cache_is_refused(machine_file: Path) -> None:
    machine_file.write_text(machine_file.read_text().partition("[L3]")[0])
    with pytest.raises(UserError, match=r"L3: missing, a table \[L3\] is needed"):
        resolve(str(machine_file))


def test_file_that_is_not_toml_is_refused_with_its_line(machine_file: Path) -> None:
    machine_file.write_text('cpu = "haswell"\ncores 4\n')
    with pytest.raises(UserError, match=r"mine\.toml:2:7: error: not TOML: "):
        resolve(str(machine_file))


def test_file_that_is_nested_too_deeply_is_refused(machine_file: Path) -> None:
    machine_file.write_text("cores = " + "[" * 20_000)
    with pytest.raises(UserError, match=r"mine\.toml: error: the machine file is nested too deep"):
        resolve(str(machine_file))


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.toml: error: cannot read .* No such file"):
        resolve(str(tmp_path / "absent.toml"))


# Hosts


def test_host_takes_latencies_from_the_file_and_caches_from_the_os(tmp_path: Path) -> None:
    """Two cores of two threads; L3 shared by them and by cores that we may not use."""
    for cpu in range(4):
        write(tmp_path, f"cpu{cpu}/topology/thread_siblings_list", f"{cpu % 2},{cpu % 2 + 2}")
    for index, (level, kind, size, ways, sharers) in enumerate(
        [
            (1, "Data", "32K", 8, "0,2"),
            (1, "Instruction", "64K", 8, "0,2"),
            (2, "Unified", "2M", 16, "0,2"),
            (3, "Unified", "98304K", 16, "0-15"),
        ]
    ):
        cache = f"cpu0/cache/index{index}"
        write(tmp_path, f"{cache}/level", level)
        write(tmp_path, f"{cache}/type", kind)
        write(tmp_path, f"{cache}/size", size)
        write(tmp_path, f"{cache}/ways_of_associativity", ways)
        write(tmp_path, f"{cache}/coherency_line_size", 64)
        write(tmp_path, f"{cache}/shared_cpu_list", sharers)
    seen = observe(tmp_path, threads=frozenset(range(4)), cgroup=tmp_path)
    machine = machine_on(
        replace(ZEN5, threads=seen.threads, siblings=seen.siblings, caches=seen.caches)
    )
    assert machine.name == "host"
    assert machine.cores == 2
    assert [cache.size for cache in machine.caches] == [32 << 10, 2 << 20, 96 << 20]
    assert [cache.ways for cache in machine.caches] == [8, 16, 16]
    assert [cache.shared for cache in machine.caches] == [False, False, True]
    assert [cache.bandwidth_all for cache in machine.caches] == [1130, 410, 240]
    assert machine.fma_latency == by_name("znver5").fma_latency


def write(root: Path, path: str, text: object) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{text}\n")


def test_host_without_sysfs_keeps_the_caches_of_the_file(tmp_path: Path) -> None:
    assert observe(tmp_path).caches == {}
    machine = machine_on(ZEN5)
    shared = by_name("znver5").with_cores(1)
    assert machine == replace(shared, name="host")


def test_host_with_avx512_hidden_gets_avx2_code() -> None:
    facts = HostFacts("x86_64", "", ("zen3", "zen2", "zen", "x86_64_v3"), AVX2)
    machine = machine_on(facts)
    assert (machine.cpu, machine.vector_bits, machine.vector_registers) == ("znver3", 256, 16)
    assert machine_on(replace(facts, lineage=facts.lineage[1:])).cpu == "x86-64-v3"


def test_host_of_an_unknown_kind_takes_its_nearest_ancestor() -> None:
    facts = HostFacts("x86_64", "alderlake", ("alderlake", "skylake", "haswell"), AVX2)
    machine = machine_on(facts)
    assert machine.cpu == "alderlake"
    assert machine.fma_latency == by_name("i7-9700k").fma_latency


@pytest.mark.parametrize(
    ("name", "instructions", "cpu", "file"),
    [
        ("rocketlake", {"amx-tile", "prefetchi"}, "graniterapids", "graniterapids"),
        ("icelake-server", {"amx-tile"}, "sapphirerapids", "sapphirerapids"),
        ("icelake-server", set(), "icelake-server", "icelake-server"),
        ("graniterapids", {"amx-tile", "prefetchi"}, "graniterapids", "graniterapids"),
        ("emeraldrapids", {"amx-tile"}, "emeraldrapids", "emeraldrapids"),
        ("diamondrapids", {"amx-tile", "prefetchi"}, "diamondrapids", "graniterapids"),
    ],
)
def test_host_with_a_hidden_model_is_known_by_its_instructions(
    name: str,
    instructions: set[str],
    cpu: str,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """As under a hypervisor that shows a server's CPU as an older one, hides `waitpkg`, for which
    archspec goes back to Ice Lake, but not the instructions that set the newer ones apart."""
    import archspec.cpu
    from llvmlite import binding as llvm

    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(archspec.cpu, "host", lambda: archspec.cpu.TARGETS["icelake"])
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: name)
    features = {"avx512f": True, "sha512": False, **dict.fromkeys(instructions, True)}
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    machine = machine_on(observe(tmp_path, threads=frozenset({0})))
    assert machine.cpu == cpu
    assert machine == replace(by_name(file).with_cores(1), name="host", cpu=cpu)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (replace(ZEN5, architecture="aarch64"), "this host is aarch64, and code is generated for"),
        (HostFacts("x86_64", "nehalem", ("nehalem",), frozenset()), "this host has no AVX2"),
    ],
)
def test_host_that_cannot_run_the_code_is_refused(facts: HostFacts, message: str) -> None:
    with pytest.raises(UserError, match=message):
        machine_on(facts)


def test_host_of_which_the_system_says_nonsense_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = replace(ZEN5, caches={"L1": CacheFacts(512, 64, 16, frozenset({0}))})
    monkeypatch.setattr(facts_module, "observe", lambda: said)
    with pytest.raises(UserError, match=r"makes no machine: L1\.size: 0 is not .*; name another"):
        resolve("host")


def test_host_may_be_limited_to_some_cores_of_the_machine(tmp_path: Path) -> None:
    """Four cores of two threads, of which the last two share another L3: three may be used."""
    for cpu in range(8):
        write(tmp_path, f"cpu{cpu}/topology/thread_siblings_list", f"{cpu % 4},{cpu % 4 + 4}")
        last = f"cpu{cpu}/cache/index3"
        for index, text in ("level", 3), ("type", "Unified"), ("size", "32M"):
            write(tmp_path, f"{last}/{index}", text)
        write(tmp_path, f"{last}/shared_cpu_list", "0-1,4-5" if cpu % 4 < 2 else "2-3,6-7")
    write(tmp_path, "cpuinfo", "processor : 0\nmodel name\t: Some  CPU @ 3 GHz\n")
    seen = observe(tmp_path, frozenset({0, 3, 5, 7}), tmp_path / "cpuinfo", tmp_path)
    assert seen.model == "Some CPU @ 3 GHz"
    assert (seen.cores, seen.installed_cores, seen.domains) == (3, 4, 2)
    assert seen.places == (0, 5, 3)


def test_cores_may_be_spread_unevenly_over_last_caches(tmp_path: Path) -> None:
    """Two L3s of eight cores: of the first one core may be used, of the other all."""
    for cpu in range(16):
        write(tmp_path, f"cpu{cpu}/topology/thread_siblings_list", str(cpu))
        for index, text in ("level", 3), ("type", "Unified"), ("size", "32M"):
            write(tmp_path, f"cpu{cpu}/cache/index3/{index}", text)
        sharers = "0-7" if cpu < 8 else "8-15"
        write(tmp_path, f"cpu{cpu}/cache/index3/shared_cpu_list", sharers)
    seen = observe(tmp_path, frozenset(range(7, 16)), tmp_path / "cpuinfo", tmp_path)
    assert (seen.cores, seen.domains) == (9, 2)
    assert seen.sharing(seen.places) == 8


def twelve_last_caches(root: Path) -> frozenset[int]:
    """96 cores of one thread in twelve groups that share an L3 each, as of an EPYC 9654."""
    for cpu in range(96):
        write(root, f"cpu{cpu}/topology/thread_siblings_list", str(cpu))
        has_l3(root, cpu, f"{cpu // 8 * 8}-{cpu // 8 * 8 + 7}")
    return frozenset(range(96))


def has_l3(root: Path, cpu: int, sharers: str) -> None:
    for name, text in ("level", 3), ("type", "Unified"), ("size", "32M"):
        write(root, f"cpu{cpu}/cache/index3/{name}", text)
    write(root, f"cpu{cpu}/cache/index3/shared_cpu_list", sharers)


@pytest.mark.parametrize(
    ("quota", "cores", "domains", "sharing"),
    [("max", 96, 12, 8), (200000, 2, 1, 2), (1000000, 10, 2, 8)],
)
def test_a_quota_counts_in_last_caches_as_well(
    tmp_path: Path, quota: object, cores: int, domains: int, sharing: int
) -> None:
    threads = twelve_last_caches(tmp_path)
    write(tmp_path, "cpu.max", f"{quota} 100000")
    seen = observe(tmp_path, threads, tmp_path / "cpuinfo", tmp_path)
    assert (seen.cores, seen.domains) == (cores, domains)
    assert seen.sharing(seen.places[:cores]) == sharing


def test_cores_without_a_last_cache_share_none(tmp_path: Path) -> None:
    """Two of six, as the low-power ones of a Meteor Lake; unless no core is known to have one."""
    for cpu in range(6):
        write(tmp_path, f"cpu{cpu}/topology/thread_siblings_list", str(cpu))
        if cpu >= 2:
            has_l3(tmp_path, cpu, "2-5")
    seen = observe(tmp_path, frozenset(range(6)), tmp_path / "cpuinfo", tmp_path)
    assert (seen.cores, seen.domains, seen.sharing(seen.places)) == (6, 1, 4)
    assert seen.places == (2, 3, 4, 5, 0, 1)
    assert seen.by_last_cache(range(6)) == ((0, 1), (2, 3, 4, 5))
    unknown = observe(tmp_path, frozenset({0, 1}), tmp_path / "cpuinfo", tmp_path)
    assert (unknown.domains, unknown.sharing(unknown.places)) == (1, 2)


def test_neighbours_share_a_last_cache(tmp_path: Path) -> None:
    """Also where the numbers of CPUs alternate between them; the typical core is the first."""
    for cpu in range(6):
        write(tmp_path, f"cpu{cpu}/topology/thread_siblings_list", str(cpu))
        has_l3(tmp_path, cpu, ["0,3", "1,4", "2,5"][cpu % 3])
    where = (tmp_path, frozenset(range(6)), tmp_path / "cpuinfo", tmp_path)
    assert observe(*where).places == (0, 3, 1, 4, 2, 5)
    assert observe(*where, typical=5).places == (2, 5, 0, 3, 1, 4)


def test_a_core_of_another_kind_may_stand_for_all(tmp_path: Path) -> None:
    """Of eight cores the last four share an L2, as small ones do, and have another L3."""
    for cpu in range(8):
        write(tmp_path, f"cpu{cpu}/topology/thread_siblings_list", str(cpu))
        is_small = cpu >= 4
        for level, size, sharers in (
            (2, "4M" if is_small else "2M", "4-7" if is_small else str(cpu)),
            (3, "32M" if is_small else "96M", "4-7" if is_small else "0-3"),
        ):
            for name, text in (
                ("level", level), ("type", "Unified"), ("size", size), ("shared_cpu_list", sharers)
            ):  # fmt: skip
                write(tmp_path, f"cpu{cpu}/cache/index{level}/{name}", text)
    for typical, sizes in (None, [2 << 20, 96 << 20]), (7, [1 << 20, 32 << 20]):
        seen = observe(
            tmp_path, frozenset(range(8)), tmp_path / "cpuinfo", tmp_path, typical=typical
        )
        facts = replace(
            seen, architecture="x86_64", cpu="znver5", lineage=("zen5",), features=AVX512
        )
        machine = machine_on(facts)
        assert [cache.size for cache in machine.caches[1:]] == sizes
        assert [cache.shared for cache in machine.caches] == [False, False, True]
        assert machine.cores == 8


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000"}, 4),
        ({"cpu.max": "250000 100000"}, 3),
        ({"cpu.max": "800000 100000"}, 4),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "nonsense"}, 4),
        ({"cpu/cpu.cfs_quota_us": -1, "cpu/cpu.cfs_period_us": 100000}, 4),
        ({"cpu/cpu.cfs_quota_us": 200000, "cpu/cpu.cfs_period_us": 100000}, 2),
    ],
)
def test_a_container_has_as_many_cores_as_its_time_comes_to(
    tmp_path: Path, files: dict[str, object], cores: int
) -> None:
    for name, text in files.items():
        write(tmp_path, f"cgroup/{name}", text)
    seen = observe(tmp_path, frozenset(range(4)), tmp_path / "cpuinfo", tmp_path / "cgroup")
    assert (seen.cores, seen.installed_cores, len(seen.places)) == (cores, 4, 4)


def test_cores_that_share_an_l2_have_a_part_of_it_each() -> None:
    """Four cores with one L2, as Intel's small ones."""
    together = frozenset(range(4))
    caches = {
        "L1": CacheFacts(32 << 10, 64, 8, frozenset({0})),
        "L2": CacheFacts(2 << 20, 64, 16, together),
        "L3": CacheFacts(32 << 20, 64, 16, together),
    }
    siblings = {cpu: frozenset({cpu}) for cpu in together}
    machine = machine_on(replace(ZEN5, threads=together, siblings=siblings, caches=caches))
    assert [cache.size for cache in machine.caches] == [32 << 10, 512 << 10, 32 << 20]
    assert [cache.shared for cache in machine.caches] == [False, False, True]
    assert machine.caches[1].bandwidth_all == 4 * machine.caches[1].bandwidth


def test_many_cores_flush_caches_with_the_same_memory() -> None:
    """Each with a part of it, which together are all of it."""
    for cores in (1, 2, 8, 64):
        much, little = cache_flush._blocks((cores,), 32 << 20)
        whole = much[0].base
        assert whole.nbytes == 4 * 32 << 20
        starts = [part.ctypes.data - whole.ctypes.data for part in much]
        ends = [start + part.nbytes for start, part in zip(starts, much, strict=True)]
        assert (starts[0], ends[-1], len(little)) == (0, whole.nbytes, cores)
        assert all(start <= end for start, end in zip(starts[1:], ends, strict=False))


def test_of_one_last_cache_two_cores_read_a_half_each() -> None:
    """And then keep an eighth of the cache each, a different one."""
    (first, second), kept = cache_flush._blocks((2,), 32 << 20)
    assert [part.nbytes for part in (first, second, *kept)] == [64 << 20] * 2 + [4 << 20] * 2
    assert second.ctypes.data - first.ctypes.data == 64 << 20
    assert abs(kept[1].ctypes.data - kept[0].ctypes.data) >= 4 << 20


@pytest.mark.parametrize("groups", [[1], [2], [8, 8], [4, 5], [4, 64]])
def test_what_flushes_takes_no_more_memory_than_is_said(groups: list[int]) -> None:
    cpus = cache_flush.FlushedCpus([range(size) for size in groups], sum(groups))
    blocks = cache_flush._blocks(tuple(groups), 8 << 20)
    taken = sum(parts[0].base.nbytes for parts in blocks)
    assert taken <= cache_flush.memory_of(cpus, 8 << 20) <= 1.2 * taken


Range = tuple[int, int]


def read_by(
    cpus: cache_flush.FlushedCpus, cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> dict[int, list[Range]]:
    """The addresses that each CPU reads in a flush. The memory is not there."""
    of_thread: dict[int, int] = {}
    read: dict[int, list[Range]] = {}

    def note(block: NDArray[np.int64]) -> None:
        start = block.ctypes.data
        read.setdefault(of_thread[get_ident()], []).append((start, start + block.nbytes))

    def pin(cpu: int) -> None:
        of_thread[get_ident()] = cpu

    monkeypatch.setattr(np, "ones", np.empty)
    monkeypatch.setattr(np, "max", note)
    with CacheFlush(cpus, cache_bytes, pin) as flush:
        flush()
    return read


def union(ranges: Iterable[Range]) -> int:
    """Bytes that are in any of some ranges."""
    covered, reached = 0, 0
    for start, end in sorted(ranges):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered


MIB = 1 << 20


@pytest.mark.parametrize(
    ("cpus", "sharing", "l3", "l2"),
    [
        (2, 2, 32, 1),  # Zen 5, a guest with two cores
        (96, 8, 32, 1),  # EPYC 9654
        (192, 192, 480, 1),  # Granite Rapids: 96 cores of two threads, with 2 MiB of L2 each
        (96, 96, 480, 2),  # the same, a thread on each core
        (24, 24, 30, 2),  # i9-12900K
        (4, 0, 32, 1),  # nothing is known of L3
    ],
)
def test_each_last_cache_is_flushed_by_its_own_cores(
    cpus: int, sharing: int, l3: int, l2: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes in MiB, of L2 for each CPU."""
    every = range(cpus)
    size = sharing or cpus
    groups = [frozenset(every[at : at + size]) for at in range(0, cpus, size)]
    last = {cpu: group for group in groups for cpu in group} if sharing else {}
    facts = replace(ZEN5, threads=frozenset(every), last_sharers=last)
    read = read_by(flushing.flushed(facts, every), l3 * MIB, monkeypatch)
    for group in groups:
        ranges = {cpu: read[cpu] for cpu in group}
        assert union(chain(*ranges.values())) >= (2 * l3 + l2 * len(group)) * MIB
        assert all(union(own) >= 2 * l2 * MIB for own in ranges.values())
        # what is read last fits, all of it together
        assert union(own[-1] for own in ranges.values()) <= l3 * MIB // 2
        for own in ranges.values():
            ballast, kept = own[: own.index(own[-1])], own[own.index(own[-1]) :]
            assert len({*kept}) == 1
            assert len(kept) > 4
            # a piece is larger than private caches, and read again at once
            assert ballast[::2] == ballast[1::2]
            assert all(end - start > 2 * l2 * MIB for start, end in ballast)
    assert union(chain(*read.values())) <= 5 * l3 * MIB  # whatever the number of caches


def test_a_quota_is_not_used_up_by_flushing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two threads at a time, and yet all cores, as the code may run on any of them."""
    threads = twelve_last_caches(tmp_path)
    write(tmp_path, "cpu.max", "200000 100000")
    seen = observe(tmp_path, threads, tmp_path / "cpuinfo", tmp_path)
    cpus = flushing.flushed(seen, seen.places)
    assert (len(cpus.groups), cpus.at_once) == (12, 2)
    busy: list[int] = []
    most: list[int] = []

    def read(block: object) -> None:
        busy.append(1)
        most.append(len(busy))
        sleep(1e-4)
        busy.pop()

    monkeypatch.setattr(np, "max", read)
    with CacheFlush(cpus, 1 << 20, lambda cpu: None) as flush:
        flush()
    assert len(most) == 96 * 10
    assert max(most) <= 2


def test_this_host_is_described() -> None:
    try:
        machine = host()
    except UserError as refusal:
        pytest.skip(refusal.message)
    machine.check()
    assert resolve("host") == machine


# Where figures come from, and how they are shown


def sources(spec: str) -> dict[str, str]:
    return {key: str(source) for key, source in describe(spec).sources.items()}


def test_sources_of_a_shipped_machine() -> None:
    found = sources("znver5")
    assert found["fma_latency"] == "shipped file: znver5.toml, uops.info, VFMADD231PS zmm"
    assert found["L1.bandwidth_all"] == "derived: L1.bandwidth times cores"
    assert found["capacity_factor"] == found["L2.exposed"] == "default"
    assert sources("znver3")["L2.exposed"].startswith("shipped file: znver3.toml, fitted to plans")


def test_a_figure_that_may_be_left_out_is_shown_as_not_given() -> None:
    lines = report.text_of(describe("znver5")).splitlines()
    assert "loop_cycles not given cycles default" in [" ".join(line.split()) for line in lines]


def test_sources_of_a_file(machine_file: Path) -> None:
    machine_file.write_text(machine_file.read_text().replace("cores = 4  ", "cores = 2 # mine"))
    found = sources(str(machine_file))
    assert found["cores"].startswith("file: mine.toml, mine")
    assert found["fma_latency"].startswith("file: mine.toml, ")


def test_sources_of_overrides_and_of_what_follows_from_them() -> None:
    found = sources("znver5,cores=2,L2.size=524288")
    assert found["cores"] == "override: cores=2"
    assert found["L2.size"] == "override: L2.size=524288"
    assert found["L3.bandwidth_all"] == "derived: from what was overridden"
    assert found["L1.size"].startswith("shipped file: znver5.toml")


def test_sources_of_a_host(tmp_path: Path) -> None:
    write(tmp_path, "cpu0/cache/index2/level", 2)
    write(tmp_path, "cpu0/cache/index2/type", "Unified")
    write(tmp_path, "cpu0/cache/index2/size", "1024K")
    caches = observe(tmp_path, frozenset({0})).caches
    host = describe_host(replace(ZEN5, caches=caches), map(shipped, names()))
    found = {key: str(source) for key, source in host.sources.items()}
    assert set(found) == set(host.machine.values())
    assert found["cpu"].startswith("OS: ")
    assert found["vector_bits"].startswith("OS: ")
    assert found["cores"].startswith("OS: ")
    assert found["L2.size"].startswith("OS: ")  # also where it is what the file says
    assert found["L1.size"].startswith("shipped file: znver5.toml")
    assert found["L1.bandwidth_all"].startswith("derived: ")


SPECS = (*names(), "znver4,cores=3,frequency=2.25", "i7-9700k,cpu=x86-64-v3,capacity_factor=0.5")


@pytest.mark.parametrize("spec", SPECS)
def test_machine_file_that_is_printed_can_be_read(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "printed.toml"
    path.write_text(report.toml_of(describe(spec)))
    assert resolve(str(path)) == replace(resolve(spec), name="printed")


def test_what_is_derived_follows_edited_cores(tmp_path: Path) -> None:
    path = tmp_path / "edited.toml"
    printed = report.toml_of(describe("znver4"))
    path.write_text(printed.replace("cores = 8 ", "cores = 6 "))
    expected = resolve("znver4,cores=6,L3.bandwidth_all=568")
    assert resolve(str(path)) == replace(expected, name="edited")


@pytest.mark.parametrize("spec", SPECS)
def test_text_has_a_line_with_unit_and_source_for_each_field(spec: str) -> None:
    title, *lines = report.text_of(describe(spec)).splitlines()
    assert title == f"machine {spec}"
    for key, source in describe(spec).sources.items():
        (line,) = [line for line in lines if line.split()[0] == key]
        assert line.endswith(f"  {source}")
        if "bandwidth" in key:
            assert "GB/s" in line


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("cpu", ""), ("cores", ""), ("frequency", "GHz"), ("vector_bits", "bits"),
        ("unit_bits", "bits"), ("fma_per_cycle", "per cycle"), ("loads_per_cycle", "per cycle"),
        ("fma_latency", "cycles"), ("evicted_store_cycles", "cycles"),
        ("saved_line_cycles", "cycles"), ("crossing_cycles", "cycles"), ("loop_cycles", "cycles"),
        ("queued_stores", "slots"), ("misprediction_cycles", "cycles"), ("L1.size", "bytes"),
        ("L1.line", "bytes"), ("L1.ways", ""), ("L3.bandwidth_all", "GB/s"),
        ("dram_write_bandwidth", "GB/s"), ("dram_stream_bandwidth_all", "GB/s"),
        ("capacity_factor", ""), ("pixel_room", ""), ("L2.exposed", ""),
    ],
)  # fmt: skip
def test_units_are_those_of_the_documentation(key: str, unit: str) -> None:
    assert json.loads(report.json_of(describe("znver4")))["fields"][key]["unit"] == unit


def test_json_has_value_unit_and_source_of_each_field() -> None:
    data = json.loads(report.json_of(describe("znver5,cores=2")))
    assert data["name"] == "znver5,cores=2"
    assert set(data["fields"]) == set(by_name("znver5").values())
    assert data["fields"]["L3.size"]["value"] == 32 << 20
    assert data["fields"]["L3.size"]["unit"] == "bytes"
    assert data["fields"]["cores"] == {
        "value": 2, "unit": "", "source": "override", "detail": "cores=2",
    }  # fmt: skip
    described = DOCS.read_text()
    for key in (*data, *data["fields"]["cores"]):
        assert f"`{key}`" in described, key
