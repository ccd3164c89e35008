"""mopt-plan as a user meets it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mopt_mlir.machine.registry import SHIPPED
from mopt_mlir.planning.plan_cache import PlanCache
from mopt_mlir.tools.mopt_plan import main
from mopt_mlir.tools.progress import progress_bar

HEAVY = ("mlir", "torch_mlir", "numpy", "pyscipopt", "llvmlite", "rich", "joblib", "distributed")
LIST = {
    "fields": ["name", "k", "h", "w", "c", "r", "s"],
    "operators": [["zebra", 16, 6, 14, 8, 3, 3], ["ant", 32, 7, 7, 16, 1, 1]],
}
CONV = """func.func @conv(%a: memref<1x8x8x14xf32>, %w: memref<16x8x3x3xf32>,
                %o: memref<1x16x6x12xf32>) {
  linalg.conv_2d_nchw_fchw ins(%a, %w : memref<1x8x8x14xf32>, memref<16x8x3x3xf32>)
      outs(%o : memref<1x16x6x12xf32>)
  return
}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run mopt-plan in a directory with two inputs; exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOPT_CACHE_DIR", str(tmp_path / "cache"))
    Path("list.json").write_text(json.dumps(LIST))
    Path("conv.mlir").write_text(CONV)

    def run(*argv: str, machine: str = "znver5") -> tuple[int, str, str]:
        code = main(["--machine", machine, "--jobs", "1", *argv])
        return (code, *capfd.readouterr())

    return run


def test_json_has_a_record_per_operator_in_the_order_of_the_list(run: Run) -> None:
    code, text, errors = run("list.json", "--format", "json", "--threads", "2")
    records = json.loads(text)
    assert (code, errors) == (0, "")
    assert [(one["operator"], one["threads"]) for one in records] == [("zebra", 2), ("ant", 2)]
    assert all(0 < one["lower_bound"] <= one["cost"] for one in records)
    assert {one["machine"] for one in records} == {"znver5"}


def test_text_has_a_line_per_operator_and_says_what_was_kept(run: Run) -> None:
    first, second = run("list.json")[1], run("list.json")[1]
    assert first.lstrip().startswith("Planned for znver5 (znver5), 1 core")
    lines = [line for line in first.splitlines() if re.match(r" (zebra|ant) ", line)]
    assert [line.split()[0] for line in lines] == ["zebra", "ant"]
    assert all(re.search(r" \d+(\.\d+)? [nu]s +\d\.\d\d% +\d\.\d\d s *$", line) for line in lines)
    kept = [line for line in second.splitlines() if re.match(r" (zebra|ant) .* kept *$", line)]
    assert len(kept) == 2
    assert "\x1b" not in first  # no colours where there is no terminal


def test_brackets_and_colons_in_names_are_no_markup(run: Run, tmp_path: Path) -> None:
    machine = tmp_path / "[b].toml"
    machine.write_bytes((SHIPPED / "haswell.toml").read_bytes())
    names = ("conv[/a]", "[red]", ":cat:")
    rows = [[name, 16, 6, 14, 8, 3, 3] for name in names]
    Path("marked.json").write_text(json.dumps({**LIST, "operators": rows}))
    code, text, errors = run("marked.json", machine=str(machine))
    assert (code, errors) == (0, "")
    assert text.lstrip().startswith("Planned for [b] (haswell), 1 core")
    assert [name for name in names if f"\n {name} " in text] == list(names)


def test_a_long_name_leaves_room_for_the_figures(run: Run) -> None:
    name = "x" * 150
    Path("long.json").write_text(json.dumps({**LIST, "operators": [[name, 16, 6, 14, 8, 3, 3]]}))
    code, text, errors = run("long.json")
    assert (code, errors) == (0, "")
    (line,) = (line for line in text.splitlines() if name in line)
    assert re.search(r" \d+(\.\d+)? [nu]s +\d\.\d\d% +\d\.\d\d s *$", line)


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_nobody_need_read_what_is_said(run: Run, jobs: str, where: str) -> None:
    """A plan cache that cannot be used is worth a remark, which is nowhere to be seen then."""
    program = "import sys; from mopt_mlir.tools.mopt_plan import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "list.json", "--machine", "znver5", "--format=json"]
    Path("file").touch()
    shell = ["sh", "-c", f'MOPT_CACHE_DIR="$PWD/file" "$@" {where}', "sh"]
    done = subprocess.run([*shell, *command, "--jobs", jobs], capture_output=True, text=True)
    assert done.returncode == 0
    json.loads(done.stdout)  # and nothing else


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("format_", ["text", "json"])
@pytest.mark.parametrize(
    ("output", "message"),
    [
        (">&-", "mopt-plan: error: standard output is closed"),
        (">/dev/full", "<stdout>: error: cannot write it: No space left on device"),
    ],
)
def test_a_report_that_cannot_be_written(
    run: Run, output: str, message: str, format_: str, jobs: str
) -> None:
    program = "import sys; from mopt_mlir.tools.mopt_plan import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "list.json", "--machine", "znver5"]
    options = ["--format", format_, "--jobs", jobs]
    shell = ["sh", "-c", f'"$@" {output}', "sh"]
    done = subprocess.run([*shell, *command, *options], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"{message}\n")


def test_mlir_from_a_file_and_from_standard_input(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("conv.mlir")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONV.encode())))
    code, text, _ = run("-", "--format", "json")
    (record,) = json.loads(text)
    assert (code, record["operator"], record["cached"]) == (0, "conv", True)


def test_constant_weights_need_no_packing_at_run_time(run: Run) -> None:
    costs = []
    for flags in ((), ("--constant-weights",)):
        records = json.loads(run("list.json", "--format", "json", *flags)[1])
        costs.append(records[0]["cost"])
    assert costs[1] < costs[0]


def test_clear_cache(run: Run, tmp_path: Path) -> None:
    run("list.json")
    assert run("--clear-cache") == (0, "", "mopt-plan: 2 plans removed\n")
    assert run("--clear-cache") == (0, "", "mopt-plan: 0 plans removed\n")
    run("list.json", "--no-plan-cache")
    code, text, errors = run("list.json", "--clear-cache")
    assert (code, errors) == (0, "mopt-plan: 0 plans removed\n")
    assert "kept" not in text.partition("classes:")[0]


def test_a_cache_that_cannot_be_cleared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: PlanCache) -> int:
        raise PermissionError(13, "Permission denied", "/somebody/else")

    monkeypatch.setattr(PlanCache, "clear", fail)
    errors = "/somebody/else: error: cannot remove it: Permission denied\n"
    assert run("--clear-cache") == (1, "", errors)


def test_a_progress_bar_only_on_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("Planning") as progress:
        assert progress is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, text, errors = run("list.json", "--format", "json")
    assert code == 0
    assert len(json.loads(text)) == 2
    assert "Planning" in errors


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "mopt-plan: error: an input is needed; see mopt-plan --help"),
        (["nowhere.mlir"], "nowhere.mlir: error: cannot read it: No such file"),
        (["Table1"], "Table1: error: there is no such file; did you mean 'table1'?"),
        (["nowhere.json"], "nowhere.json: error: cannot read it: No such file"),
        (["list.txt"], "list.txt: error: this is JSON, not MLIR; of a list of operators the name"),
        (["conv.mlir", "--machine", "pdp11"], "mopt-plan: error: unknown machine 'pdp11'"),
        (["conv.mlir", "--threads", "0"], "mopt-plan: error: threads=0: at least one"),
        (["conv.mlir", "--solver", "x"], "mopt-plan: error: solver=x: not one of exact,"),
        (
            ["conv.mlir", "--constant-weights"],
            "error: that weights are constant can be said of lists only",
        ),
        (["conv.mlir", "--gap", "0"], "mopt-plan: error: gap=0.0: must be more than 0"),
        (["conv.mlir", "--gap", "x"], "argument --gap: invalid float value: 'x'"),
        (["conv.mlir", "--time-limit", "-1"], "mopt-plan: error: time-limit=-1.0: not a"),
        (["conv.mlir", "--backend", "mpi"], "mopt-plan: error: backend=mpi: not one of"),
        (["conv.mlir", "--format", "xml"], "argument --format: invalid choice: 'xml'"),
        (
            ["conv.mlir", "--machine", "znver5,L1.size=64,L1.ways=1"],
            "conv.mlir:3:3: error: 'conv': no plan for machine 'znver5,L1.size=64,L1.ways=1': no",
        ),
    ],
)
def test_refusals(run: Run, argv: list[str], message: str) -> None:
    Path("list.txt").write_text(Path("list.json").read_text())
    code, text, errors = run(*argv)
    assert (code, text) == (1, "")
    assert message in errors
    assert "Traceback" not in errors


def test_too_little_memory_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("SCIP: insufficient memory error!")

    monkeypatch.setattr("mopt_mlir.solver.solve", full)
    code, text, errors = run("table1", "--no-plan-cache", "--jobs", "1")
    assert (code, text) == (1, "")
    assert errors.endswith("mopt-plan: error: there is not enough memory for it\n")
    assert "Traceback" not in errors


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from mopt_mlir.tools.mopt_plan import main; code = main(['--help']); "
        f"sys.exit(code or ' '.join(m for m in {HEAVY} if m in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--clear-cache" in done.stdout
