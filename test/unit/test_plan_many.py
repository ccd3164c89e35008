"""Plans for many operators: lists and modules, processes, a Dask cluster, and what can go wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mopt_mlir import UserError, solver
from mopt_mlir.diagnostics import Diagnostic
from mopt_mlir.plan import Plan
from mopt_mlir.planning.operators import TABLE1, read_list
from mopt_mlir.planning.plan_many import Planned, plan_many
from mopt_mlir.planning.solving import Request
from mopt_mlir.planning.tasks import Task, cores, in_parallel, work
from mopt_mlir.problem import conv2d

FIELDS = ["name", "k", "h", "w", "c", "r", "s"]
SMALL = [
    ["first", 16, 6, 14, 8, 3, 3],
    ["second", 32, 7, 7, 16, 1, 1],
    ["third", 2, 1, 3, 1, 1, 1],
    ["again", 16, 6, 14, 8, 3, 3],
]
MODULE = """
func.func @two(%a: memref<1x8x8x14xf32>, %w: memref<16x8x3x3xf32>, %o: memref<1x16x6x12xf32>) {
  linalg.conv_2d_nchw_fchw ins(%a, %w : memref<1x8x8x14xf32>, memref<16x8x3x3xf32>)
      outs(%o : memref<1x16x6x12xf32>)
  linalg.conv_2d_nchw_fchw ins(%a, %w : memref<1x8x8x14xf32>, memref<16x8x3x3xf32>)
      outs(%o : memref<1x16x6x12xf32>)
  return
}
func.func @integers(%a: memref<1x8x8x14xi8>, %w: memref<16x8x3x3xi8>, %o: memref<1x16x6x12xi8>) {
  linalg.conv_2d_nchw_fchw ins(%a, %w : memref<1x8x8x14xi8>, memref<16x8x3x3xi8>)
      outs(%o : memref<1x16x6x12xi8>)
  return
}
func.func @constant(%a: memref<1x8x8x14xf32>, %o: memref<1x16x6x12xf32>) {
  %w = memref.get_global @weights : memref<16x8x3x3xf32>
  linalg.conv_2d_nchw_fchw ins(%a, %w : memref<1x8x8x14xf32>, memref<16x8x3x3xf32>)
      outs(%o : memref<1x16x6x12xf32>)
  return
}
memref.global "private" constant @weights : memref<16x8x3x3xf32> = dense<0.5>
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty plan cache, which is the user's."""
    monkeypatch.setenv("MOPT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "plans"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return written(tmp_path, {"fields": FIELDS, "operators": SMALL})


def written(directory: Path, data: Any) -> Path:
    path = directory / "list.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def entries(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


def plans(planned: tuple[Planned, ...]) -> list[tuple[str, Plan]]:
    return [(one.operator.name, one.solution.plan) for one in planned]


# Lists


def test_table_1_comes_with_the_package() -> None:
    operators = {operator.name: operator.problem for operator in read_list(TABLE1)}
    assert len(operators) == 32
    assert operators["R4"].flops == 2 * 128 * 28 * 28 * 64 * 3 * 3
    # a stride of 2, and the dim of the batch is gone
    assert operators["R4"].input.axes[2].coefficient("h") == 2
    assert operators["R4"].names == ("k", "h", "w", "c", "r", "s")
    # the pixels of a 1x1 convolution are one dim
    assert operators["R3"].extents == {"k": 64, "w": 56 * 56, "c": 64}


def test_every_field_of_a_list_counts(tmp_path: Path) -> None:
    fields = [*FIELDS, "n", "stride", "dilation", "layout", "element"]
    row = ["x", 16, 6, 14, 8, 3, 3, 2, [2, 1], 2, "nhwc_hwcf", "f64"]
    (operator,) = read_list(written(tmp_path, {"fields": fields, "operators": [row]}), True)
    sizes = {"k": 16, "h": 6, "w": 14, "c": 8, "r": 3, "s": 3, "n": 2}
    expected = conv2d(
        **sizes,
        stride=(2, 1),
        dilation=(2, 2),
        layout="nhwc",
        weights="hwcf",
        element=operator.problem.input.element,
    )
    assert operator.problem == expected
    assert operator.problem.input.element.value == "f64"
    assert operator.constant_weights


ROW = {"fields": FIELDS, "operators": [["x", 1, 2, 3, 4, 5, 6]]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[1, 2\n 3]", ":2:2: error: not JSON: Expecting ',' delimiter"),
        ("[" * 100_000, ": error: it is nested too deeply"),
        ([], ': error: not an object with "fields" and "operators"'),
        ({"fields": "name", "operators": []}, '"fields" and "operators" must be lists'),
        ({"fields": FIELDS[:-1], "operators": []}, '"fields" lacks "s"'),
        ({**ROW, "fields": [*FIELDS, "groups"]}, '"fields" has "groups"; known: name, k, h'),
        ({**ROW, "fields": [*FIELDS, "k"]}, '"fields" has "k" more than once'),
        ({**ROW, "operators": [["x", 1]]}, "operators[0]: not a list of 7 values"),
        ({**ROW, "operators": [ROW["operators"][0], 3]}, "operators[1]: not a list of 7 values"),
        ({**ROW, "operators": [["", 1, 2, 3, 4, 5, 6]]}, 'operators[0]: name: "" is not a name'),
        ({**ROW, "operators": [["\ud800", 1, 2, 3, 4, 5, 6]]}, 'name: "\\ud800" is not a name'),
        (f"[{'9' * 5000}]", ": error: a number in it has thousands of digits"),
        ({**ROW, "operators": [["x", 0, 2, 3, 4, 5, 6]]}, "k: 0 is not a positive integer"),
        ({**ROW, "operators": [["x", 1, True, 3, 4, 5, 6]]}, "h: true is not a positive"),
        ({**ROW, "operators": [["x", 1, 2, 3.5, 4, 5, 6]]}, "w: 3.5 is not a positive"),
        ({**ROW, "operators": [["x", 1, 2, 3, 2**40, 5, 6]]}, "c: 1099511627776 is not a"),
        (
            {"fields": [*FIELDS, "stride"], "operators": [["x", 1, 2, 3, 4, 5, 6, [1]]]},
            "stride: [1] is neither",
        ),
        (
            {"fields": [*FIELDS, "layout"], "operators": [["x", 1, 2, 3, 4, 5, 6, "chwn"]]},
            'layout: "chwn" is not one of nchw_fchw, nhwc_hwcf, nhwc_fhwc',
        ),
        (
            {"fields": [*FIELDS, "element"], "operators": [["x", 1, 2, 3, 4, 5, 6, "f16"]]},
            'element: "f16" is not one of f32, f64',
        ),
        ({"fields": FIELDS, "operators": []}, ": error: there is no convolution to plan"),
    ],
)
def test_a_list_of_another_form_is_refused(tmp_path: Path, data: Any, message: str) -> None:
    path = written(tmp_path, data)
    with pytest.raises(UserError) as refusal:
        plan_many(path, machine="znver5")
    assert str(refusal.value).startswith(f"{path}:")
    assert message in str(refusal.value)


def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.json: error: cannot read it: No such file"):
        plan_many(tmp_path / "absent.json", machine="znver5")
    with pytest.raises(UserError, match="error: cannot read it: embedded null"):
        plan_many("a\0.json", machine="znver5")
    (tmp_path / "list.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UserError, match=r"list\.json: error: it is not UTF-8 text"):
        plan_many(tmp_path / "list.json", machine="znver5")


# Modules


def test_the_convolutions_of_a_module_are_named_after_their_functions(
    tmp_path: Path, told: list[Diagnostic]
) -> None:
    source = tmp_path / "module.mlir"
    source.write_text(MODULE)
    planned = plan_many(source, machine="znver5", jobs=1)
    assert [one.operator.name for one in planned] == ["two#1", "two#2", "constant"]
    assert [one.operator.constant_weights for one in planned] == [False, False, True]
    assert planned[1].operator.location == f"{source}:5:3"
    (remark,) = told
    assert (remark.severity, remark.location) == ("remark", f"{source}:10:3")
    assert "is not tiled" in remark.message


def test_a_plan_of_a_module_is_what_the_passes_find(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mopt_mlir

    plan_many(MODULE.partition("func.func @integers")[0], machine="generic-avx2", jobs=1)
    assert entries(directory) == 1
    monkeypatch.delattr(solver, "solve")
    mopt_mlir.compile(MODULE.partition("func.func @integers")[0], machine="generic-avx2")


def test_a_module_without_a_convolution_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "none.mlir"
    source.write_text("func.func @f() { return }")
    with pytest.raises(UserError, match=r"none\.mlir: error: there is no convolution to plan"):
        plan_many(str(source), machine="znver5")
    source.write_text("func.func @f() { return 1 }")
    with pytest.raises(UserError, match=r"none\.mlir:1:24: error: "):
        plan_many(str(source), machine="znver5")


# What is solved, and where


def test_a_record_tells_all(small: Path) -> None:
    record = plan_many(small, machine="znver5", threads=2, jobs=1)[0].record()
    assert json.loads(json.dumps(record)) == record
    assert list(record) == [
        *("operator", "machine", "threads", "seconds", "cached", "cost", "lower_bound", "gap"),
        *("classes", "tiles", "microkernel", "parallel", "packing", "bottleneck", "plan"),
    ]
    assert (record["operator"], record["machine"], record["threads"]) == ("first", "znver5", 2)
    assert 0 < record["lower_bound"] <= record["cost"]
    assert record["gap"] == pytest.approx(record["cost"] / record["lower_bound"] - 1)
    assert record["seconds"] > 0
    for level in ("L3", "L2", "L1"):
        assert record["classes"][level]
        assert set(record["tiles"][level]) == {"k", "h", "w", "c", "r", "s"}
    assert record["bottleneck"] in ("compute", "L1", "L2", "L3", "DRAM", "packing")


def test_a_record_has_the_plan_itself(small: Path) -> None:
    for planned in plan_many(small, machine="znver4", jobs=1):
        plan = Plan.from_dict(json.loads(json.dumps(planned.record()))["plan"])
        assert plan == replace(planned.solution.plan, prediction=None)
        assert plan.prefetch == "L2"  # which other keys do not tell


def test_equal_operators_are_solved_once_and_kept(
    small: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, int]] = []
    first = plan_many(
        small, machine="znver5", jobs=1, progress=lambda done, total: steps.append((done, total))
    )
    assert [one.operator.name for one in first] == [row[0] for row in SMALL]
    assert first[0].solution is first[3].solution
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert entries(directory) == 3
    monkeypatch.delattr(solver, "solve")
    second = plan_many(small, machine="znver5")
    assert plans(second) == plans(first)
    assert all(one.solution.cached for one in second)
    with pytest.raises(ImportError):
        plan_many(small, machine="znver5", jobs=1, plan_cache=False)


def test_processes_find_the_same_plans(small: Path, directory: Path) -> None:
    here = plan_many(small, machine="znver5", jobs=1, plan_cache=False)
    assert entries(directory) == 0
    assert plans(plan_many(small, machine="znver5", jobs=2)) == plans(here)
    assert entries(directory) == 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as local:
        yield local


def test_a_dask_cluster_of_two_workers_finds_the_same_plans(
    cluster: Any, small: Path, directory: Path
) -> None:
    here = plan_many(small, machine="znver5", jobs=1, plan_cache=False)
    there = plan_many(small, machine="znver5", backend="dask", scheduler=cluster.scheduler_address)
    assert plans(there) == plans(here)
    assert not any(one.solution.cached for one in there)
    assert entries(directory) == 3  # here, not where the workers are


def test_a_cluster_without_workers_is_an_error(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("mopt_mlir.planning.plan_many.CONNECT", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(UserError, match=r"has no workers; start some with 'dask worker tcp://"),
    ):
        plan_many(small, machine="znver5", backend="dask", scheduler=empty.scheduler_address)


def test_an_operator_without_a_plan_is_an_error_and_the_others_are_kept(
    cluster: Any, small: Path, directory: Path
) -> None:
    tiny = "znver5,L1.size=128,L1.ways=1"  # holds a register tile of the third only
    for where in (
        {"jobs": 1},
        {"jobs": 2},
        {"backend": "dask", "scheduler": cluster.scheduler_address},
    ):
        with pytest.raises(UserError) as refusal:
            plan_many(small, machine=tiny, **where)
        assert refusal.value.location == str(small)
        for name in ("first", "second", "again"):
            assert f"'{name}': no plan for machine '{tiny}': no register" in refusal.value.message
        assert "third" not in refusal.value.message
        assert entries(directory) == 1


def test_a_plan_that_the_time_limit_cut_short_is_told(
    small: Path, directory: Path, told: list[Diagnostic]
) -> None:
    plan_many(small, machine="znver5", jobs=1, time_limit=1e-6, gap=1e-6)
    assert told
    assert all(one.severity == "remark" and one.location == str(small) for one in told)
    assert "': the time limit of 1e-06 s ended the search" in told[0].message
    assert entries(directory) < 3
    assert "; mopt-plan --gap 1e-06 --time-limit 60, with" in told[0].message
    told.clear()
    arguments = {"machine": "znver5", "time_limit": 1e-6, "gap": 1e-6}
    plan_many(small, jobs=1, constant_weights=True, **arguments)
    assert "; mopt-plan --gap 1e-06 --constant-weights --time-limit 60, with" in told[0].message


# What can go wrong between processes and machines


def test_a_worker_of_another_version_is_refused() -> None:
    problem = conv2d(k=16, h=6, w=14, c=8, r=3, s=3)
    from mopt_mlir.machine import by_name

    with pytest.raises(UserError, match="a worker has another version of mopt-mlir"):
        work(0, Task(problem, by_name("znver5"), Request(), "another"))


class Deadly:
    """A task that kills the process which gets it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_a_worker_that_dies_is_an_error() -> None:
    tasks: Any = [Deadly(), Deadly()]
    with pytest.raises(UserError, match="a worker failed: "):
        list(in_parallel(tasks, "loky", 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "mpi"}, "backend=mpi: not one of loky, dask"),
        ({"jobs": 0}, "jobs=0: at least one is needed"),
        ({"threads": 0}, "threads=0: at least one is needed"),
        ({"threads": 9}, "use fewer threads, or say of how many cores it is: znver5,cores=9"),
        ({"solver": "x"}, "solver=x: not one of exact, algorithm1"),
        ({"backend": "dask"}, "the backend dask needs the address of a scheduler"),
        ({"backend": "dask", "scheduler": "a:1", "jobs": 2}, "jobs are for the backend loky"),
        ({"scheduler": "a:1"}, "a scheduler is for the backend dask, not for loky"),
        ({"backend": "dask", "scheduler": "nowhere"}, "there is no Dask scheduler at 'nowhere'"),
        ({"machine": "pdp11"}, "unknown machine 'pdp11'"),
    ],
)
def test_refusals(small: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refusal:
        plan_many(small, **{"machine": "znver5", **options})
    assert message in str(refusal.value)


def test_a_number_of_cores_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "many")
    with pytest.raises(UserError, match="LOKY_MAX_CPU_COUNT=many is no number of cores; correct"):
        cores()
