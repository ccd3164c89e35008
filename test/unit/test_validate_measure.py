"""The order of measuring with a process that is played, and all commands once with real ones."""

import errno
import json
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import groupby, pairwise
from shutil import copy

import pytest

from benchmarks import environment, workers
from benchmarks.crew import Progress
from benchmarks.environment import available_cpus
from benchmarks.validation import measure, process
from benchmarks.validation.command_line import main
from benchmarks.validation.counters import Counters
from benchmarks.validation.measure import Request
from benchmarks.validation.planned import machine_for
from benchmarks.validation.records import (
    Choice,
    Failed,
    Latency,
    Measurement,
    Start,
    joined,
    operator_of,
    read,
)
from benchmarks.validation.trials import read_trials
from benchmarks.workers import WorkerError
from benchmarks.workloads import Workload
from mopt_mlir import UserError

# real workers pin themselves to a core
pytestmark = pytest.mark.xdist_group("bench")

TINY = Workload("tiny", k=32, h=6, w=16, c=8, r=3, s=3)


class PlayedWorker:
    """Plans take as many seconds as `seconds` says, by their number; some fail to load."""

    started = 0
    failing: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()
    deadly = ""  # the key of a plan that cannot be timed
    survives = False  # whether a process survives that
    closed = False
    broken = ""  # what the host cannot do
    counters: tuple[str, ...] = ()
    asked: list[tuple[str, dict]]

    def __init__(self, *arguments):
        type(self).started += 1
        if self.broken == "start":
            raise WorkerError("there is no memory")
        self.loaded, self.is_alive = [], True

    def ask(self, call, **arguments):
        self.asked.append((call, arguments))
        if call == self.broken:
            raise WorkerError("there is no memory")
        if call == "hello":
            return {"counters": self.counters}
        if call == "load":
            number = sum(c == "load" and a["key"] != "reference" for c, a in self.asked)
            if arguments["key"] != "reference" and number in self.failing:
                raise WorkerError("no code")
            if arguments["key"] != "reference" and number in self.dying:
                self.is_alive = False
                raise WorkerError("it is dead")
            self.loaded.append(arguments["key"])
            return {"compile_seconds": 0.1, "run_seconds": 1e-3, "error_of_bound": 0.1}
        if call == "latencies":
            assert arguments["caches"].keys() == {"L1", "L2", "L3"}
            return {"nanoseconds": {"L1": 1.4, "L2": 4.1, "L3": 30.0, "memory": 150.0}}
        if call == "round":
            assert {*arguments["keys"], "reference"} <= set(self.loaded)
            if self.deadly in arguments["keys"]:
                self.is_alive = self.survives
                raise WorkerError("it crashed")
            return {"pairs": {key: [[1e-3], [2e-3]] for key in arguments["keys"]}}
        if call == "count":
            return {"counters": dict.fromkeys(self.counters, 7.0)}
        if call == "unload":
            self.loaded = [key for key in self.loaded if key not in arguments["keys"]]
        return {}

    def close(self):
        type(self).closed = True
        self.is_alive = False


known_subjects = cache(measure.subjects)  # most tests ask for the same plans


@pytest.fixture
def played(monkeypatch):
    played = type("Played", (PlayedWorker,), {"asked": []})
    monkeypatch.setattr(process, "Worker", played)
    monkeypatch.setattr(measure, "fma_peak", lambda *_: 100.0)
    monkeypatch.setattr(measure, "subjects", known_subjects)
    monkeypatch.setattr(environment, "load", lambda: 0.0)  # which takes half a second
    return played


def request(path, **options):
    options = {"version": "1", "samples": 14, "rounds": 3, "final_rounds": 2} | options
    return Request([TINY], path / "x.jsonl", "list", **options)


def measured(records, final):
    return [r for r in records if isinstance(r, Measurement) and r.final == final]


def test_all_plans_meet_the_reference_and_the_foremost_once_more(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    assert isinstance(records[0], Start)
    assert isinstance(records[1], Choice)
    first, final = measured(records, False), measured(records, True)
    keys = {record.subject.key for record in final}
    roles = [record.subject.role for record in first]
    assert roles.count("sample") == 14
    assert {"own", "again"} <= set(roles)
    assert all(len(record.seconds) == 3 for record in first)
    assert {sum(len(r.reference) for r in final if r.subject.key == key) for key in keys} == {2}
    keys_of = {call: {*()} for call in ("load", "unload")}
    for call, arguments in played.asked:
        if call in keys_of:
            keys_of[call] |= {*arguments.get("keys", [arguments.get("key")])}
    assert keys_of["unload"] == keys_of["load"] - {"reference"}  # nothing is left in memory
    others = [record for record in first if record.subject.role != "sample"]
    assert {r.subject.key for r in others} <= {r.subject.key for r in final}
    assert len(keys) < len(first)


def test_ten_sampled_plans_meet_again_for_their_times(tmp_path, played, monkeypatch):
    """However fast those of the solver are, which meet again anyway."""
    monkeypatch.setattr(measure, "FINAL_PREDICTED", 0)
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    final = {r.subject.key for r in measured(records, True) if r.subject.role == "sample"}
    assert len(final) == 10  # all plans take as long as each other here


def test_final_rounds_are_spread_over_passes_through_all_operators(tmp_path, played):
    """A disturbance of minutes then meets no plan in all of its rounds."""
    other = Workload("other", k=16, h=4, w=16, c=8, r=1, s=1)
    options = {"samples": 14, "rounds": 3, "final_rounds": 10}
    both = Request([TINY, other], tmp_path / "x.jsonl", "list", "1", **options)
    measure.measure(both, Progress())
    _, records = read(tmp_path / "x.jsonl")
    final = measured(records, True)
    turns = [operator for operator, _ in groupby(final, key=lambda r: r.subject.operator)]
    assert turns == ["tiny", "other"] * 4
    for key in {record.subject.key for record in final}:
        rounds = [len(r.seconds) for r in final if r.subject.key == key]
        assert rounds in ([3, 3, 2, 2], [6, 6, 4, 4])  # a plan may be one of both
    for name in ("tiny", "other"):
        found = joined([r for r in records if operator_of(r) == name])
        assert {len(r.seconds) for r in found.values()} == {3, 10}
        assert {len(r.reference) for r in found.values() if r.final} == {10}


def test_no_plan_always_follows_the_same_one(tmp_path, played):
    """What one leaves in a last cache would count for the other."""
    measure.measure(request(tmp_path, rounds=20, final_rounds=80), Progress())
    first = [a["keys"] for call, a in played.asked if call == "round" and len(a["keys"]) > 15][:20]
    assert all(sorted(keys) == sorted(first[0]) for keys in first)
    in_a_row = [key for keys in first for key in keys]
    followed = Counter(pairwise(in_a_row))
    assert len(first) == 20
    assert max(followed.values()) <= 6


def test_it_is_looked_before_and_after_rounds_what_the_core_has_of_its_caches(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    looks = [record for record in records if isinstance(record, Latency)]
    assert {look.nanoseconds["L3"] for look in looks} == {30.0}
    calls = [call for call, _ in groupby(played.asked, key=lambda asked: asked[0])]
    rounds = [at for at, call in enumerate(calls) if call == "round"]
    assert len(rounds) == 3  # the first ones, and two passes of final ones
    assert all(calls[at - 1] == calls[at + 1] == "latencies" for at in rounds)
    assert len(looks) == 6 * len(rounds)


def test_what_was_measured_is_not_measured_again(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    before, played.asked[:] = read(tmp_path / "x.jsonl"), []
    measure.measure(request(tmp_path), Progress())
    assert played.asked == []
    assert read(tmp_path / "x.jsonl") == before


def test_what_was_timed_in_another_way_is_not_continued(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    path = tmp_path / "x.jsonl"
    head, rest = path.read_text().split("\n", 1)
    older = json.loads(head)
    del older["must_agree"]["protocol"]
    path.write_text(json.dumps(older) + "\n" + rest)
    with pytest.raises(UserError, match="cannot resume: measured with protocol None"):
        measure.measure(request(tmp_path), Progress())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 4}, "measured with rounds 3, and this is 4; move the file away, or write"),
        ({"final_rounds": 9}, "measured with final_rounds 2, and this is 9; move the file away"),
        ({"seconds": 9.0}, "measured with seconds 4.0, and this is 9.0; move the file away"),
    ],
)
def test_a_run_of_other_durations_is_not_continued(tmp_path, played, options, message):
    measure.measure(request(tmp_path), Progress())
    with pytest.raises(UserError, match=message):
        measure.measure(request(tmp_path, **options), Progress())


def test_plans_for_two_calibrations_do_not_get_into_one_file(tmp_path, played, monkeypatch):
    measure.measure(request(tmp_path), Progress())
    machine = measure.machine_for("native", available_cpus())
    calibrated = replace(machine, dram_bandwidth=1.01 * machine.dram_bandwidth)
    with monkeypatch.context() as other:
        other.setattr(measure, "machine_for", lambda isa, cpus: calibrated)
        with pytest.raises(UserError, match="cannot resume: measured with machine figures"):
            measure.measure(request(tmp_path), Progress())
    # own plans of another model are welcome
    monkeypatch.setattr("mopt_mlir.planning.plan_cache.version", lambda: "another")
    measure.measure(request(tmp_path), Progress())
    # files of earlier versions do not tell
    path = tmp_path / "x.jsonl"
    head, rest = path.read_text().split("\n", 1)
    older = json.loads(head)
    del older["seconds"], older["must_agree"]["machine figures"]
    path.write_text(json.dumps(older) + "\n" + rest)
    measure.measure(request(tmp_path), Progress())


def test_an_interrupted_run_is_continued(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    path = tmp_path / "x.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    measure.measure(request(tmp_path), Progress())
    found = [record.subject.key for record in measured(read(path)[1], False)]
    assert len(found) == len(set(found))

    def but_for_looks(data):
        return sorted(line for line in data.splitlines() if b'"latency"' not in line)

    assert but_for_looks(path.read_bytes()) == but_for_looks(whole)


def test_a_plan_that_fails_is_kept_with_the_reason(tmp_path, played):
    played.failing, warnings = (3,), []
    measure.measure(request(tmp_path), Progress(warn=warnings.append))
    failed = [r for r in read(tmp_path / "x.jsonl")[1] if isinstance(r, Failed)]
    assert [record.reason for record in failed] == ["no code"]
    assert warnings[-1] == "tiny: a plan failed: no code"


def test_a_process_that_dies_is_replaced(tmp_path, played):
    played.dying = (4,)
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    passes = 2  # of final rounds, each in a process of its own
    assert played.started == 2 + passes
    failed = {r.subject.key for r in records if isinstance(r, Failed)}
    sample = {r.subject.key for r in measured(records, False) if r.subject.role == "sample"}
    assert len(failed | sample) >= 14
    assert "it is dead" in [r.reason for r in records if isinstance(r, Failed)]


@pytest.mark.parametrize("survives", [False, True])
def test_a_plan_that_cannot_be_timed_takes_no_other_with_it(tmp_path, played, survives):
    measure.measure(request(tmp_path), Progress())
    keys = [r.subject.key for r in measured(read(tmp_path / "x.jsonl")[1], False)]
    (tmp_path / "x.jsonl").unlink()
    played.deadly, played.survives = keys[5], survives
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    assert [(r.subject.key, r.reason) for r in records if isinstance(r, Failed)] == [
        (keys[5], "it crashed")
    ]
    assert {r.subject.key for r in measured(records, False)} == {*keys} - {keys[5]}
    assert {len(r.seconds) for r in measured(records, False)} == {3}


def test_what_counters_count_is_kept(tmp_path, played):
    played.counters = ("cycles",)
    measure.measure(request(tmp_path), Progress())
    found = measured(read(tmp_path / "x.jsonl")[1], False)
    assert [record.counters for record in found] == [{"cycles": 7.0}] * len(found)


def test_operators_of_another_size_are_not_added(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    with pytest.raises(UserError, match="cannot resume: measured with operators 1, and this is 2"):
        measure.measure(request(tmp_path, version="2"), Progress())


@pytest.mark.parametrize("broken", ["start", "hello", "open", "latencies"])
def test_what_the_host_cannot_do_is_no_failure_of_plans(tmp_path, played, broken):
    played.broken = broken
    message = "^tiny: its plans cannot be timed: there is no memory; .*, and give the command again"
    with pytest.raises(UserError, match=message):
        measure.measure(request(tmp_path), Progress())
    assert played.closed == (broken != "start")  # a process of no use is not left behind
    kinds = [type(record) for record in read(tmp_path / "x.jsonl")[1]]
    assert kinds == [Start, Choice]
    played.broken = ""
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    assert not [record for record in records if isinstance(record, Failed)]
    roles = [record.subject.role for record in measured(records, False)]
    assert roles.count("sample") == 14


def test_in_short_the_own_plan_is_compared_with_others_that_are_right(tmp_path, played):
    measure.measure(request(tmp_path), Progress())
    _, records = read(tmp_path / "x.jsonl")
    final = measured(records, True)
    again = next(record.subject for record in final if record.subject.role == "again")
    wrong, other = [record.subject for record in final if record.subject.role == "sample"][:2]
    own = next(record for record in records if isinstance(record, Choice)).keys[0]

    def in_short(changes):
        return measure._in_short(
            "tiny",
            [
                replace(record, **changes.get(record.subject.key, {}))
                if isinstance(record, Measurement)
                else record
                for record in records
            ],
        )

    quick = {"seconds": ((1e-3,),) * 2, "reference": ((1e-3,),) * 2}
    changes = {again.key: quick, wrong.key: {**quick, "error": None}}
    assert in_short(changes) == "tiny: own plan 1.000 times the fastest"
    assert in_short({**changes, other.key: quick}) == "tiny: own plan 2.000 times the fastest"
    unknown = "tiny: the model's own plan could not be measured, or is wrong"
    assert in_short({own: {"error": 7.0}}) == unknown


def test_a_host_without_counters_says_so(tmp_path, played, monkeypatch):
    def refuse(attribute):
        raise OSError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(measure, "Counters", lambda: Counters(refuse))
    warnings = []
    measure.measure(request(tmp_path), Progress(warn=warnings.append))
    reason = "this host offers no hardware counters: No such file or directory"
    assert warnings == [f"{reason}; data volumes can only be simulated"]


def test_slow_plans_get_fewer_rounds(tmp_path, played):
    measure.measure(request(tmp_path, seconds=1e-4), Progress())
    first = measured(read(tmp_path / "x.jsonl")[1], False)
    assert {len(record.seconds) for record in first} == {1}


LIST = """{"fields": ["name", "k", "h", "w", "c", "r", "s"],
           "operators": [["tiny", 32, 6, 16, 8, 3, 3]]}"""


@pytest.fixture
def small_caches(monkeypatch):
    """To be flushed, and to be looked at: where the last cache is large both take seconds."""

    def small(isa, cpus):
        machine = machine_for(isa, cpus)
        caches = (replace(cache, size=min(cache.size, 4 << 20)) for cache in machine.caches)
        return replace(machine, caches=tuple(caches))

    monkeypatch.setattr(measure, "machine_for", small)
    monkeypatch.setattr(workers, "largest_cache", lambda: 1 << 20)


@pytest.mark.usefixtures("small_caches")
def test_measure_simulate_and_report(tmp_path, capfd):
    """Everything for once as a user would call it."""
    operators = tmp_path / "own.json"
    operators.write_text(LIST)
    common = ["--operators", str(operators), "--directory", str(tmp_path), "--samples", "2"]
    common += ["--isa", "avx2"]
    assert main(["measure", *common, "--rounds", "1", "--final-rounds", "1"]) == 0
    simulate = ["simulate", "--directory", str(tmp_path), "--jobs", "1"]
    assert main(simulate) == 0
    files = sorted(map(str, tmp_path.glob("*.jsonl")))
    names = [re.sub(".*/", "", file) for file in files]
    assert names == ["own-avx2-volumes.jsonl", "own-avx2.jsonl"]
    (trial,) = read_trials(sorted(tmp_path.glob("*.jsonl")))
    (verdict,) = trial.verdicts
    assert verdict.failed == ()
    assert not verdict.wrong
    assert {flow.key for flow in trial.flows} == verdict.points.keys()
    # a file that an interrupted run left without a single plan is passed over
    started = tmp_path / "started.jsonl"
    started.write_text("".join((tmp_path / "own-avx2.jsonl").read_text().splitlines(True)[:2]))
    assert main(["report", str(started)]) == 1
    assert "no measurements" in capfd.readouterr().err
    files += [str(started)]
    assert main(["report", *files, "--output", str(tmp_path / "docs")]) == 0
    assert "| tiny | 32,6x16,8,3x3 |" in (tmp_path / "docs/validation/losses.md").read_text()
    text = (tmp_path / "docs/validation.md").read_text()
    assert "| own-avx2 | 12 |" in text  # looks at caches: before and after first and final rounds
    data = sorted(path.name for path in (tmp_path / "docs/validation").glob("*.xz"))
    assert data == [f"{name}.xz" for name in (*names, "started.jsonl")]
    # volumes of other plans are not added
    other = tmp_path / "other"
    other.mkdir()
    copy(tmp_path / "own-avx2-volumes.jsonl", other)
    head, *lines = (tmp_path / "own-avx2.jsonl").read_text().splitlines(True)
    text = "".join([head.replace('"seed": 0', '"seed": 1'), *lines])
    (other / "own-avx2.jsonl").write_text(text)
    assert main(["simulate", "--directory", str(other), "--jobs", "1"]) == 1
    assert "cannot resume: measured with seed 0, and this is 1" in capfd.readouterr().err


@pytest.mark.usefixtures("small_caches")
def test_another_layout_is_a_trial_of_its_own(tmp_path, capfd):
    operators = tmp_path / "own.json"
    operators.write_text(LIST)
    common = ["--operators", str(operators), "--directory", str(tmp_path), "--samples", "2"]
    other = [*common, "--layout", "nhwc_hwcf"]
    assert main(["measure", *other, "--rounds", "1", "--final-rounds", "1"]) == 0
    assert main(["simulate", "--directory", str(tmp_path), "--jobs", "1"]) == 0
    (trial,) = read_trials(sorted(tmp_path.glob("*.jsonl")))
    assert trial.title == "own-nhwc_hwcf-native"
    (verdict,) = trial.verdicts
    assert verdict.workload.input_shape == (1, 8, 18, 8)
    assert verdict.workload.weights_shape == (3, 3, 8, 32)
    assert not verdict.wrong
    assert {flow.key for flow in trial.flows} == verdict.points.keys()
    # nor do plans of both get into one file
    (tmp_path / "own-nhwc_hwcf-native.jsonl").rename(tmp_path / "own-native.jsonl")
    assert main(["measure", *common]) == 1
    assert "cannot resume: measured with operators" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "--layout", "nhwc"], "choose from 'nchw_fchw', 'nhwc_hwcf', 'nhwc_fhwc'"),
        (["measure", "--samples", "0"], "samples=0: must be positive"),
        (["measure", "--seconds", "inf"], "seconds=inf: must be positive and finite"),
        (["measure", "--operators", "heldouts"], "no such file; did you mean 'heldout'?"),
        (["measure", "--operators", "lists.json"], "lists.json: error: cannot read it"),
        (["measure", "--seed", "-1"], "-1 is not a whole number from 0 on"),
        (["measure", "--directory", "file"], "file: error: cannot create it: File exists"),
        (["measure", "--operators", "huge.json"], "large: its loop over w has 8388608 iterations"),
        (["measure", "--only", "R99"], "no operator 'R99'; did you mean 'R9'"),
        (["simulate", "--jobs", "0"], "jobs=0: must be positive"),
        (["simulate", "--slowest", "-1"], "-1 is not a whole number from 0 on"),
        (["simulate"], "no measurements; mopt-validate measure writes them to build/validation"),
        (["simulate", "none.jsonl"], "none.jsonl: error: cannot read it"),
        (["report", "none.jsonl"], "none.jsonl: error: cannot read it"),
        (
            ["report", "peers.json"],
            "no measurements in these files; those that mopt-validate measure",
        ),
    ],
)
def test_nonsense_is_refused(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    row = '["large", 1, 1, 8388608, 1, 1, 3]'
    (tmp_path / "huge.json").write_text(re.sub(r'\["tiny".*?\]', row, LIST))
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "build").exists(), "nothing is left behind"


def test_a_report_of_nothing_says_how_to_measure(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 1
    assert "no measurements; mopt-validate measure writes them" in capsys.readouterr().err


def test_sets_to_test_the_model_with_have_no_operator_in_common():
    from benchmarks.operators import read_operators
    from benchmarks.validation.places import LISTS

    def sizes(workload):
        return *(getattr(workload, name) for name in "nkhwcrs"), workload.strides

    known = {sizes(workload) for workload in read_operators("table1")}
    for path in LISTS.values():
        found = {sizes(workload) for workload in read_operators(str(path))}
        assert len(found) >= 12
        assert not known & found
        known |= found
        with pytest.raises(UserError, match="no operator"):
            read_operators(str(path), ["R2"])
