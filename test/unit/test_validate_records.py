"""Files of results: read back, continued, cut off, refused, compressed."""

import json
import resource
from contextlib import contextmanager
from dataclasses import replace

import pytest

from benchmarks.validation import records
from benchmarks.validation.records import (
    Choice,
    Failed,
    Latency,
    Measurement,
    Simulated,
    Start,
    Subject,
    appending,
    joined,
    passes,
    read,
)
from benchmarks.workloads import is_right
from mopt_mlir import UserError
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.plan import Level, Plan

PLAN = Plan(
    "m", 1, Microkernel("k", 8, {"k": 8, "w": 4}, ("c",)),
    (Level("L1", ("k", "w", "c"), {"k": 8, "w": 4, "c": 2}),),
)  # fmt: skip
HEAD = {
    "kind": records.MEASUREMENTS,
    "format": records.FORMAT,
    "must_agree": {"cpu": "x", "seed": 0},
}
SUBJECT = Subject("R2", "sample", PLAN)
RECORDS = [
    Start("R2", {"k": 8}, PLAN, 100.0),
    Choice("R2", ("a", "b")),
    Latency("R2", {"L1": 1.38, "memory": 169.4}),
    Measurement(SUBJECT, True, ((0.001, 0.002),), ((0.003,),), 0.1, None, {"cycles": 1.0}),
    Failed(SUBJECT, "why"),
    Simulated(SUBJECT, {"full": {"L1": {"input": 4}}}, 7, {"L1": 3}, {"L1": 4}),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table1-native.jsonl"
    with appending(path, HEAD) as (found, log):
        assert found == []
        for record in RECORDS:
            log(record)
    return path


def test_records_are_read_back(path):
    assert read(path) == (HEAD, RECORDS)


def test_a_run_that_was_cut_off_is_continued(path):
    with path.open("a") as file:
        file.write('{"record": "meas')
    with appending(path, HEAD) as (found, log):
        assert found == RECORDS
        log(RECORDS[1])
    assert read(path)[1] == [*RECORDS, RECORDS[1]]


@pytest.mark.parametrize(
    ("errors", "largest", "right"),
    [((0.5, 0.9, 0.1), 0.9, True), ((0.5, 2.0, 0.1), 2.0, False), ((None, 0.1), None, False)],
)
def test_the_largest_error_of_all_passes_counts(errors, largest, right):
    measured = [replace(RECORDS[3], error=error) for error in errors]
    (found,) = joined(measured).values()
    assert found.error == largest
    assert is_right(found.error) == right


def test_another_host_does_not_continue_it(path):
    other = {**HEAD, "must_agree": {"cpu": "y", "seed": 0}}
    with (
        pytest.raises(UserError, match="measured with cpu x, and this is y; move the file"),
        appending(path, other),
    ):
        pass


def test_another_calibration_does_not_continue_it(tmp_path):
    path = tmp_path / "x.jsonl"
    agreed = {**HEAD["must_agree"], "machine figures": "b"}
    with appending(path, {**HEAD, "must_agree": agreed}):
        pass
    other = {**HEAD, "must_agree": {**agreed, "machine figures": "c"}}
    with (
        pytest.raises(UserError, match="measured with machine figures b, and this is c; move"),
        appending(path, other),
    ):
        pass


def test_files_that_do_not_tell_the_calibration_are_continued(path):
    agreed = {**HEAD["must_agree"], "machine figures": "b"}
    with appending(path, {**HEAD, "must_agree": agreed, "seconds": 4.0}) as (found, _):
        assert found == RECORDS


@pytest.mark.parametrize("name", ["rounds", "final_rounds", "seconds"])
def test_other_durations_do_not_continue_it(tmp_path, name):
    path = tmp_path / "x.jsonl"
    head = {**HEAD, "rounds": 7, "final_rounds": 20, "seconds": 4.0}
    for _ in range(2):
        with appending(path, head):
            pass
    with (
        pytest.raises(UserError, match=f"measured with {name} {head[name]}, and this is 9; move"),
        appending(path, {**head, name: 9}),
    ):
        pass


@contextmanager
def largest_file(size):
    """What is written beyond so many bytes of a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))  # Python ignores SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_there_is_no_room_for_is_an_error_and_leaves_nothing(path):
    whole = path.read_bytes()
    with (
        pytest.raises(UserError, match="cannot write it: File too large") as caught,
        appending(path, HEAD) as (_, log),
        largest_file(len(whole) + 10),
    ):
        log(RECORDS[0])
    assert caught.value.location == str(path)
    assert path.read_bytes() == whole
    with appending(path, HEAD) as (found, log):
        log(RECORDS[0])
    assert read(path)[1] == [*found, RECORDS[0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("no json\n", "not a file of mopt-validate"),
        ('{"kind": "mopt-bench run"}\n', "not its head"),
        (json.dumps({**HEAD, "format": 0}) + "\n", "another version"),
        (json.dumps(HEAD) + '\n{"record": "dance", "operator": "R2"}\n', "not a file"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert caught.value.location.startswith(str(path))


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot read it"):
        read(tmp_path / "none.jsonl")
    damaged = tmp_path / "x.jsonl.xz"
    damaged.write_bytes(b"abc")
    with pytest.raises(UserError, match="damaged"):
        read(damaged)


def test_compressed_files_read_the_same_and_are_the_same(path, tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for directory in (first, second):
        directory.mkdir()
        records.compress(path, directory)
    (name,) = [file.name for file in first.iterdir()]
    assert name == "table1-native.jsonl.xz"
    assert (first / name).read_bytes() == (second / name).read_bytes()
    assert read(first / name) == (HEAD, RECORDS)


def test_the_reference_again_is_a_plan_of_its_own():
    assert Subject("R2", "own", PLAN).key == SUBJECT.key
    assert Subject("R2", "again", PLAN).key != SUBJECT.key


def test_keys_are_those_of_files_that_have_them():
    """Files name plans by their keys, so that these must stay what they were, also where a machine
    has learnt to prefetch into another cache since."""
    assert SUBJECT.key == "75e52f4a4b31"
    assert Subject("R2", "sample", replace(PLAN, prefetch="L2")).key == SUBJECT.key
    assert Subject("R2", "sample", replace(PLAN, packing="none")).key != SUBJECT.key


def test_final_passes_count_instead_of_first_rounds_and_remain_apart():
    first = Measurement(SUBJECT, False, ((9.0,),), ((1.0,),), 0.1, None, {})
    one = replace(first, final=True, seconds=((1.0,), (2.0,)), reference=((1.0,), (1.0,)))
    two = replace(first, final=True, seconds=((3.0,),))
    again = replace(first, subject=Subject("R2", "again", PLAN))
    assert passes([first, again]) == {SUBJECT.key: [first], again.subject.key: [again]}
    assert passes([first, one, first, two]) == {SUBJECT.key: [one, two]}
    assert joined([first, one, two])[SUBJECT.key].seconds == ((1.0,), (2.0,), (3.0,))
    assert joined([first])[SUBJECT.key] == first
