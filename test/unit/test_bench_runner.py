"""The order of a benchmark with peers that are played, and with two that are real."""

from __future__ import annotations

import ast
import errno
import json
import os
import signal
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mopt_mlir
from benchmarks import environment, runner, workers
from benchmarks.crew import Crew, Progress, unsuitable
from benchmarks.environment import (
    available_cpus,
    generator_sources,
    provenance,
    worker_environment,
)
from benchmarks.operators import read_operators
from benchmarks.peers.interface import Prepared
from benchmarks.protocol import Configuration, Protocol
from benchmarks.results import Results, check_continues
from benchmarks.runner import Request, compulsory_bytes, measure_operator, run_benchmark
from benchmarks.timing import WARM_UP
from benchmarks.worker import Session, flush_of
from benchmarks.workers import Worker, WorkerError
from benchmarks.workloads import Workload
from mopt_mlir import UserError
from mopt_mlir.cache_flush import FlushedCpus
from mopt_mlir.machine import by_name

# real workers start processes; one pytest worker at a time, as they pin themselves to a core
pytestmark = pytest.mark.xdist_group("bench")

TINY = Workload("tiny", k=16, h=6, w=5, c=3, r=3, s=3, strides=(2, 1))
BANDWIDTHS = {"DRAM read": 10.0}
GOOD = {"max_rel_err": 1e-7, "error_of_bound": 0.1}


class PlayedCrew:
    """Answers as `script` says: peer -> call -> answer, or None for a failure."""

    def __init__(self, script, cold=False):
        self.script = script
        self.configuration = Configuration(Protocol.PAPER, cold)
        self.workers = {peer: SimpleNamespace(version="1.0") for peer in script}
        self.cpus = [max(os.sched_getaffinity(0))]
        self.progress = Progress()
        self.asked = []

    def ask(self, peer, operator, call, **arguments):
        self.asked.append((peer, call, arguments))
        answer = self.script[peer][call]
        if call == "run" and answer is not None:
            return {"seconds": [answer] * arguments["count"]}
        return answer

    def runs_of(self, peer):
        return [arguments for who, call, arguments in self.asked if (who, call) == (peer, "run")]


def played(seconds=1e-3, run_seconds=1e-3, run=True, last=GOOD):
    prepared = {"run_seconds": run_seconds, "prepare_seconds": 0.5, "detail": "kernel", **GOOD}
    return {"prepare": prepared, "run": seconds if run else None, "check": last}


def measured(crew, **options):
    request = Request([TINY], crew.configuration, list(crew.script), Path("unused"), **options)
    return measure_operator(TINY, request, crew, {"bandwidths": BANDWIDTHS})


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(runner, "fma_peak", lambda *_: 100.0)
    monkeypatch.setattr(runner, "measure_bandwidths", lambda cpus: BANDWIDTHS)
    monkeypatch.setattr(environment, "load", lambda: 0.0)  # which takes half a second
    monkeypatch.setattr(workers, "largest_cache", lambda: 1 << 20)  # flushing 512 MiB takes as long


def test_peers_take_turns_in_rotating_order():
    crew = PlayedCrew({"mopt": played(), "onednn": played(), "torch": played()})
    measured(crew, repeat=5)
    order = [peer for peer, call, _ in crew.asked if call == "run"]
    rounds = [order[i : i + 3] for i in range(0, 15, 3)]
    assert all(sorted(peers) == ["mopt", "onednn", "torch"] for peers in rounds)
    assert [peers[0] for peers in rounds] == ["mopt", "onednn", "torch", "mopt", "onednn"]


@pytest.mark.parametrize(("cold", "dropped"), [(True, 1), (False, 3)])
def test_the_first_runs_of_a_round_are_dropped(cold, dropped):
    crew = PlayedCrew({"mopt": played()}, cold)
    (record,) = measured(crew, repeat=50)
    assert [run["drop"] for run in crew.runs_of("mopt")] == [dropped] * runner.ROUNDS
    assert {run["cold"] for run in crew.runs_of("mopt")} == {cold}
    assert sum(map(len, record.seconds)) == 50


@pytest.mark.parametrize(("cold", "dropped"), [(True, 1), (False, 0)])
def test_slow_peers_make_fewer_runs_but_some(cold, dropped):
    """Whose first runs count where caches are warm: they fill these by themselves."""
    crew = PlayedCrew({"mopt": played(run_seconds=1.0), "mlir": played(run_seconds=100.0)}, cold)
    measured(crew, repeat=50, seconds=10.0)
    assert sum(run["count"] for run in crew.runs_of("mopt")) == 10
    assert sum(run["count"] for run in crew.runs_of("mlir")) == runner.LEAST_RUNS
    assert all(run["drop"] == dropped for run in crew.runs_of("mlir"))


def test_plain_loops_are_not_run_more_often_than_says_something():
    crew = PlayedCrew({"mopt": played(), "mlir": played()})
    measured(crew, repeat=50)
    assert sum(run["count"] for run in crew.runs_of("mlir")) == 3
    assert {run["drop"] for run in crew.runs_of("mlir")} == {WARM_UP}  # there is time for more


def test_a_record_has_rates_and_shares():
    (record,) = measured(PlayedCrew({"mopt": played(seconds=1e-6)}), repeat=5)
    assert record.flops == 2 * 16 * 6 * 5 * 3 * 3 * 3
    assert record.bytes == 4 * (3 * 13 * 7 + 16 * 3 * 3 * 3 + 16 * 6 * 5)
    assert record.gflops_median == pytest.approx(record.flops / 1e-6 * 1e-9)
    assert record.share_of_peak == pytest.approx(record.gflops_median / 100)
    seconds_at_least = max(record.flops / 100e9, record.bytes / 10e9)
    assert record.share_of_roofline == pytest.approx(seconds_at_least / 1e-6)
    assert (record.peer, record.version, record.detail) == ("mopt", "1.0", "kernel")


@pytest.mark.parametrize(
    "last",
    [
        {"max_rel_err": 0.5, "error_of_bound": 2.0},
        {"max_rel_err": None, "error_of_bound": None},  # NaN
    ],
)
def test_what_is_wrong_after_the_last_run_is_wrong(last):
    (record,) = measured(PlayedCrew({"mopt": played(last=last)}), repeat=5)
    assert not record.is_correct
    assert record.max_rel_err == last["max_rel_err"]


def test_who_fails_has_no_record_and_the_others_go_on():
    crew = PlayedCrew({"mopt": played(), "onednn": played(run=False)})
    assert [record.peer for record in measured(crew, repeat=50)] == ["mopt"]
    assert len(crew.runs_of("onednn")) == 1


def test_weights_are_counted_in_every_layout():
    sizes = {compulsory_bytes(protocol.workload(TINY)) for protocol in Protocol}
    assert len(sizes) == 1


def test_peers_that_do_not_suit_say_why():
    nhwc = Configuration(Protocol.NHWC, cold=False)
    avx2 = Configuration(Protocol.PAPER, cold=True, isa="avx2")
    assert unsuitable("onnxruntime", nhwc) == "not for protocol nhwc"
    assert unsuitable("iree", avx2) == "cannot be limited to AVX2"
    assert unsuitable("onednn", avx2) is unsuitable("torch", nhwc) is None


@pytest.fixture
def worker():
    cpus = available_cpus()
    with Worker("mopt", sys.executable, worker_environment(1, "native"), cpus[-1:], cpus) as w:
        yield w


def test_a_worker_survives_what_its_library_raises(worker):
    arguments = {"workload": asdict(TINY), "configuration": {"protocol": "paper", "cold": True}}
    with pytest.raises(WorkerError, match="FileNotFoundError"):
        worker.ask("prepare", directory="nowhere", **arguments)
    with pytest.raises(WorkerError, match="KeyError: 'dance'"):
        worker.ask("dance")
    assert worker.is_alive


def test_a_worker_that_dies_says_how(worker):
    os.kill(worker._process.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="its process ended with SIGKILL"):
        worker.ask("run", count=1, drop=0, cold=False)
    assert not worker.is_alive


def test_a_worker_that_does_not_answer_is_ended(worker, monkeypatch):
    monkeypatch.setattr(worker, "_signal", lambda number: None)  # it stays stopped
    with pytest.raises(WorkerError, match="no answer for 0 seconds"):
        worker.ask("check", timeout=0.1)
    worker._process.wait(10)
    assert not worker.is_alive


def test_missing_peers_are_reported_and_skipped():
    said = []
    configuration = Configuration(Protocol.PAPER, cold=True)
    progress = Progress(warn=said.append)
    empty = sys.executable  # has no driver for oneDNN
    with Crew(["onednn"], configuration, available_cpus()[:1], empty, progress) as crew:
        assert not crew.workers
        assert "driver cannot be loaded" in crew.unavailable["onednn"]
    assert said == [f"onednn is left out: {crew.unavailable['onednn']}"]


@pytest.mark.parametrize("cold", [True, False])
def test_who_times_while_preparing_has_caches_as_they_are_measured(tmp_path, monkeypatch, cold):
    flushed, tasks = [], []

    class Flush:
        def __init__(self, cpus, cache_bytes):
            assert cpus == FlushedCpus([[0, 1]], 2)
            assert cache_bytes == 1 << 20

        def __call__(self):
            flushed.append(True)

    class Peer:
        def prepare(self, task):
            tasks.append(task)
            if task.flush is not None:
                task.flush()
            return Prepared(lambda: None, lambda: reference)

    monkeypatch.setattr("benchmarks.worker.CacheFlush", Flush)
    input_, weights, _ = TINY.operands(0)
    reference = TINY.reference(input_, weights)
    for name, array in (("input", input_), ("weights", weights), ("reference", reference)):
        np.save(tmp_path / f"{name}.npy", array)
    flush = partial(flush_of, '{"groups": [[0, 1]], "at_once": 2, "cache_bytes": 1048576}')
    session = Session(Peer(), sorted(os.sched_getaffinity(0)), flush)
    configuration = asdict(Configuration(Protocol.PAPER, cold))
    session.prepare(asdict(TINY), configuration, str(tmp_path))
    assert len(tasks) == 1
    assert len(flushed) == cold


def test_a_python_that_does_not_start():
    with pytest.raises(UserError, match="cannot start /nowhere/python: No such file"):
        Worker("mopt", "/nowhere/python", {}, [0], [0])


def test_arrays_without_room_are_said(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    message = "cannot write a temporary file: No space left on device; set TMPDIR to a directory"
    with pytest.raises(UserError, match=message):
        measured(PlayedCrew({"mopt": played()}))


def operators(path: Path, *names: str, k: int = 16) -> Path:
    rows = [[name, k, 6, 5, 3, 3, 3, 2] for name in names]
    fields = ["name", "k", "h", "w", "c", "r", "s", "stride"]
    path.write_text(json.dumps({"fields": fields, "operators": rows}))
    return path


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("isa", ["native", "avx2"])
def test_ours_and_plain_mlir_from_end_to_end(tmp_path, protocol, isa):
    spec = operators(tmp_path / "operators.json", "tiny")
    configuration = Configuration(protocol, cold=isa == "native", isa=isa)
    path = tmp_path / "out.json"
    request = Request(
        read_operators(str(spec)), configuration, ["mopt", "mlir"], path, str(spec), repeat=5
    )
    results = run_benchmark(request)
    assert [(r.peer, r.is_correct) for r in results.records] == [("mopt", True), ("mlir", True)]
    for record in Results.read(path).records:
        assert 0 <= record.max_rel_err < 1e-5
        assert record.gflops_median > 0
        assert record.protocol == protocol.value
    planned_for = results.head["machine"]["planned_for"]  # by a worker with a single core
    assert planned_for["cores"] == 1
    assert isa == "native" or planned_for["vector_bits"] == 256


def test_resuming_keeps_what_was_measured(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    spec = operators(tmp_path / "operators.json", "first")
    configuration = Configuration(Protocol.PAPER, cold=False)

    def run(peers, resume):
        found = read_operators(str(spec))
        return run_benchmark(
            Request(found, configuration, peers, path, str(spec), repeat=5, resume=resume)
        )

    (first,) = run(["mopt"], resume=False).records
    operators(spec, "first", "second")
    again, second = run(["mopt"], resume=True).records
    assert again == first
    assert second.operator == "second"
    monkeypatch.setattr(runner, "Crew", None)  # nobody is needed where nothing is left to do
    assert run(["mopt"], resume=True).records == [first, second]
    operators(spec, "first", "second", k=7)
    with pytest.raises(UserError, match="cannot resume: 'first' was measured with other sizes"):
        run(["mopt"], resume=True)
    operators(spec, "first", "second")
    with pytest.raises(UserError, match=r"cannot resume: measured with peers=\['mopt'\], not"):
        run(["mopt", "mlir"], resume=True)


class PlayedRun(PlayedCrew):
    """A crew for a whole run: ours and `others`, by version, without those that are `missing`."""

    missing: dict[str, str]
    others: dict[str, str]

    def __init__(self, *arguments):
        self.versions = {"mopt": "1.0", **self.others}
        super().__init__({peer: played() for peer in self.versions})
        self.unavailable, self.failures = dict(self.missing), []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def test_resuming_keeps_what_records_were_made_with(tmp_path, monkeypatch):
    def run(names, bandwidth, missing):
        monkeypatch.setattr(PlayedRun, "missing", missing, raising=False)
        monkeypatch.setattr(PlayedRun, "others", {}, raising=False)
        monkeypatch.setattr(runner, "measure_bandwidths", lambda cpus: {"DRAM read": bandwidth})
        found = [replace(TINY, name=name) for name in names]
        configuration = Configuration(Protocol.PAPER, cold=False)
        path = tmp_path / "out.json"
        return run_benchmark(Request(found, configuration, ["mopt"], path, repeat=5, resume=True))

    monkeypatch.setattr(runner, "Crew", PlayedRun)
    monkeypatch.setattr(runner.environment, "load", lambda: 0.0)
    run(["first"], 10.0, {"torch": "none"})
    results = run(["first", "second"], 40.0, {"iree": "none either"})
    assert results.done == ["first", "second"]
    assert results.head["unavailable"] == {"torch": "none", "iree": "none either"}
    shares = {record.share_of_roofline for record in results.records}
    assert len(shares) == 1  # of the bandwidth that the file tells
    (record, _) = results.records
    bound = record.bytes / (results.head["bandwidths"]["DRAM read"] * 1e9)
    assert bound > record.flops / 100e9
    assert shares.pop() == pytest.approx(bound / 1e-3)


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({}, {"onednn": "1.0"}, "measured without onednn, which is available now; remove it, or"),
        ({"onednn": "1.0"}, {}, r"measured with onednn, which is not available now \(no driver\)"),
        ({"onednn": "1.0"}, {"onednn": "2.0"}, "measured with onednn 1.0, and this is 2.0; remove"),
    ],
)
def test_operators_of_other_peers_do_not_get_into_one_file(
    tmp_path, monkeypatch, before, now, message
):
    path = tmp_path / "out.json"

    def run(names, others):
        missing = {} if others else {"onednn": "no driver"}
        monkeypatch.setattr(PlayedRun, "missing", missing, raising=False)
        monkeypatch.setattr(PlayedRun, "others", others, raising=False)
        found = [replace(TINY, name=name) for name in names]
        configuration = Configuration(Protocol.PAPER, cold=False)
        peers = ["mopt", "onednn"]
        return run_benchmark(Request(found, configuration, peers, path, repeat=5, resume=True))

    monkeypatch.setattr(runner, "Crew", PlayedRun)
    monkeypatch.setattr(runner.environment, "load", lambda: 0.0)
    run(["first"], before)
    whole = path.read_bytes()
    with pytest.raises(UserError, match=f"cannot resume: {message}") as caught:
        run(["first", "second"], now)
    assert caught.value.location == str(path)
    assert path.read_bytes() == whole
    assert run(["first", "second"], before).done == ["first", "second"]


def test_results_of_another_commit_are_not_continued(tmp_path):
    head = {"arguments": {"repeat": 5}, "commit": "abc", "machine": {"cpu": "Fast 9000"}}
    check_continues(head, head, tmp_path)
    with pytest.raises(UserError, match="measured with commit abc, and this is def"):
        check_continues(head, head | {"commit": "def"}, tmp_path)
    with pytest.raises(UserError, match="measured with cpu Fast 9000, and this is Slow 1"):
        check_continues(head, head | {"machine": {"cpu": "Slow 1"}}, tmp_path)
    with pytest.raises(UserError, match="measured with generator None, and this is 123"):
        check_continues(head, head | {"generator": "123"}, tmp_path)
    other = {"cpu": "Fast 9000", "planned_for": {"cpu": "znver5"}}
    with pytest.raises(UserError, match="measured with planned for None, and this is znver5"):
        check_continues(head, head | {"machine": other}, tmp_path)


def test_results_of_another_model_or_calibration_are_not_continued(tmp_path):
    head = {"arguments": {}, "machine": {"cpu": "Fast 9000"}, "model": "a", "machine figures": "b"}
    check_continues(head, head, tmp_path)
    with pytest.raises(UserError, match="measured with model a, and this is c"):
        check_continues(head, head | {"model": "c"}, tmp_path)
    with pytest.raises(UserError, match="measured with machine figures b, and this is c"):
        check_continues(head, head | {"machine figures": "c"}, tmp_path)


def test_the_generator_is_all_that_the_code_of_a_plan_depends_on():
    """What its modules import, but for messages, and for what finds plans and machines."""
    roots = [Path(root) for root in mopt_mlir.__path__]
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for root in roots
        for path in root.rglob("*.py")
    }
    sources = generator_sources()
    imported = {
        name
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mopt_mlir.")
        for name in _named(node)
    }
    beside = {"bindings", "diagnostics", "output", "unicode_text", "wording"}
    machines = {
        f"machine.{name}" for name in ("facts", "flushing", "machine", "ranges", "registry")
    }
    planners = {f"planning.{name}" for name in ("plan_cache", "planner", "planning_pass")}
    missing = {name for name in imported & modules.keys() if modules[name] not in sources}
    assert missing == beside | machines | planners | {"planning.solving"}
    assert {path.parent.name for path in sources} >= {"codegen", "prefetch", "lowering", "passes"}


def _named(node: ast.ImportFrom) -> set[str]:
    """What an import may name, in the package."""
    module = str(node.module).removeprefix("mopt_mlir.")
    return {module, *(f"{module}.{name.name}" for name in node.names)}


def test_what_plans_depend_on_is_told_apart(monkeypatch):
    machine = by_name("znver5")
    before = provenance(machine)
    assert provenance(by_name("znver5")) == before
    calibrated = provenance(replace(machine, dram_bandwidth=machine.dram_bandwidth * 1.001))
    assert [key for key in before if before[key] != calibrated[key]] == ["machine figures"]
    monkeypatch.setattr("mopt_mlir.planning.plan_cache.version", lambda: "another")
    assert [key for key, hash_ in provenance(machine).items() if before[key] != hash_] == ["model"]
