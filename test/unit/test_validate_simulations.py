"""Which plans of a trial are simulated, and for which machine."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from benchmarks.crew import Progress
from benchmarks.operators import problem_of
from benchmarks.validation import crosscheck, simulations
from benchmarks.validation.records import (
    FORMAT,
    MEASUREMENTS,
    Choice,
    Failed,
    Measurement,
    Simulated,
    Start,
    Subject,
    appending,
    read,
)
from benchmarks.validation.sample import sample_plans
from benchmarks.validation.simulations import Request, simulate_plans
from benchmarks.validation.trials import read_trials
from benchmarks.validation.volumes import GivenUpError, Result
from benchmarks.workloads import Workload
from mopt_mlir import UserError
from mopt_mlir.machine import by_name

TINY = Workload("tiny", k=16, h=4, w=8, c=4, r=1, s=1)
SIZES = {"n": 1, "k": 16, "h": 4, "w": 8, "c": 4, "r": 1, "s": 1,
         "strides": [1, 1], "dilations": [1, 1]}  # fmt: skip
MACHINE = by_name("graniterapids")
OWN, LAST, *SAMPLE = sample_plans(problem_of(TINY), MACHINE, 8, 0)
SLOWEST = ("L1", "L1", "L3", "L2", "L3", "DRAM")


def measured(role, plan):
    return Measurement(Subject("tiny", role, plan), False, ((1.0,),), ((1.0,),), 0.1, 0.0, {})


@pytest.fixture
def trial(tmp_path):
    """An own plan, another candidate, and six sampled plans, on another machine than this."""
    head = {
        "kind": MEASUREMENTS,
        "format": FORMAT,
        "must_agree": {"isa": "avx2", "seed": 5, "operators": "o", "generator": "g"},
        "operators": "table1",
        "machine": {"planned_for": asdict(MACHINE)},
    }
    path = tmp_path / "other.jsonl"
    keys = tuple(Subject("tiny", "own", plan).key for plan in (OWN, LAST))
    with appending(path, head) as (_, log):
        log(Start("tiny", SIZES, OWN, 100.0))
        for plan in (OWN, LAST):
            log(measured("own" if plan is OWN else "candidate", plan))
        for plan in SAMPLE:
            log(measured("sample", plan))
        log(Choice("tiny", keys))
    return path


@pytest.fixture
def simulated(monkeypatch):
    """The plans that are simulated, which is played; the slowest memory of each sample."""
    asked = []

    def simulate(workload, plan, machine, isa, limit):
        asked.append((plan, machine.caches, isa))
        if plan == SAMPLE[0]:
            raise GivenUpError("too long")
        return Result({"associative": {}, "full": {}}, 1, {"L1": 1, "L2": 1})

    def expected(problem, machine, plan):
        return SimpleNamespace(slowest_memory=SLOWEST[SAMPLE.index(plan)])

    monkeypatch.setattr(simulations, "simulate", simulate)
    monkeypatch.setattr(simulations, "Expected", SimpleNamespace(of=expected))
    return asked


def test_plans_are_the_timed_ones_until_each_memory_has_its_number(tmp_path, trial, simulated):
    request = Request(trial, tmp_path / "x.jsonl", samples=2, slowest=1)
    simulate_plans(request, Progress())
    assert simulated == [
        (plan, MACHINE.caches, "avx2")
        for plan in (OWN, LAST, *SAMPLE[:2], SAMPLE[2], SAMPLE[3], SAMPLE[5])
    ]
    head, records = read(request.path)
    assert head["must_agree"]["caches"].startswith("L1 49152 bytes in 12 ways")
    assert {key: head["must_agree"][key] for key in ("isa", "seed", "operators")} == {
        "isa": "avx2", "seed": 5, "operators": "o",
    }  # fmt: skip
    (failed,) = (record for record in records if isinstance(record, Failed))
    assert (failed.subject.plan, failed.reason) == (SAMPLE[0], "too long")
    found = [record for record in records if isinstance(record, Simulated)]
    assert [record.picked for record in found] == [False] * 3 + [True] * 3
    # what is there already is not simulated again
    simulated.clear()
    simulate_plans(Request(trial, request.path, samples=2, slowest=2), Progress())
    assert [plan for plan, *_ in simulated] == [SAMPLE[4]]


def test_another_sample_is_not_added(tmp_path, trial, simulated):
    """Plans of it may have been picked: they would be missing from the sample."""
    request = Request(trial, tmp_path / "x.jsonl", samples=2, slowest=1)
    simulate_plans(request, Progress())
    more = replace(request, samples=4)
    with pytest.raises(UserError, match="measured with samples 2, and this is 4; move the file"):
        simulate_plans(more, Progress())
    # files of earlier versions do not tell
    head, rest = request.path.read_text().split("\n", 1)
    older = json.loads(head)
    del older["must_agree"]["samples"]
    request.path.write_text(json.dumps(older) + "\n" + rest)
    simulated.clear()
    simulate_plans(request, Progress())
    assert simulated == []


def test_what_the_host_lacks_is_an_error_and_tried_again(tmp_path, trial, simulated, monkeypatch):
    request = Request(trial, tmp_path / "x.jsonl", samples=0, slowest=0)

    def full(*_):
        raise UserError("cannot write a temporary file: no space; set TMPDIR")

    with monkeypatch.context() as host:
        host.setattr(simulations, "simulate", full)
        with pytest.raises(UserError, match="no space; set TMPDIR"):
            simulate_plans(request, Progress())
    assert read(request.path)[1] == []
    simulate_plans(request, Progress())
    assert [plan for plan, *_ in simulated] == [OWN, LAST]


def test_none_are_picked_unless_asked_for(tmp_path, trial, simulated):
    simulate_plans(Request(trial, tmp_path / "x.jsonl", samples=0, slowest=0), Progress())
    assert [plan for plan, *_ in simulated] == [OWN, LAST]


def test_volumes_are_no_measurements(tmp_path, trial, simulated):
    request = Request(trial, tmp_path / "x.jsonl", samples=0, slowest=0)
    simulate_plans(request, Progress())
    with pytest.raises(UserError, match="it has volumes, and no measurements"):
        simulate_plans(Request(request.path, tmp_path / "y.jsonl"), Progress())


def test_plans_of_another_machine_are_simulated_with_its_caches(tmp_path, trial):
    """For real, on whatever this is."""
    path = tmp_path / "other-volumes.jsonl"
    simulate_plans(Request(trial, path, samples=1, slowest=0), Progress())
    assert len(read(path)[1]) == 3
    (found,) = read_trials([trial, path])
    assert {flow.key for flow in found.flows} <= found.verdicts[0].points.keys()
    assert all(0.2 < flow.ratio("DRAM") < 5 for flow in found.flows)


def test_what_fails_under_valgrind_is_an_error_and_no_plan_that_cannot_be_simulated(
    tmp_path, trial, monkeypatch
):
    def fails(*_):
        raise UserError("valgrind crashed")

    monkeypatch.setattr(crosscheck, "is_available", lambda: True)
    monkeypatch.setattr(crosscheck, "misses", fails)
    path = tmp_path / "x.jsonl"
    with pytest.raises(UserError, match="valgrind crashed"):
        simulate_plans(Request(trial, path, samples=0, check=True), Progress())
    assert read(path)[1] == []
