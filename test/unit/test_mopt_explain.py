"""mopt-explain as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mopt_mlir import solver
from mopt_mlir.explain import rivals
from mopt_mlir.explain.sources import explain_source
from mopt_mlir.machine.registry import SHIPPED
from mopt_mlir.plan import Level, Plan
from mopt_mlir.tools.mopt_explain import main

CONV = """
func.func @{name}(%i: memref<1x16x14x14xf32>, %w: memref<32x16x3x3xf32>,
                %o: memref<1x32x12x12xf32>) {{
  linalg.conv_2d_nchw_fchw{plan}
      ins(%i, %w : memref<1x16x14x14xf32>, memref<32x16x3x3xf32>)
      outs(%o : memref<1x32x12x12xf32>)
  return
}}
"""
PLAN = """ {{mopt.plan = {{
      machine = "{machine}", threads = 1, packing = "whole", parallel = {{}},
      microkernel = {{lanes = "k", vector = 8, tile = {{k = 16, w = 4}},
                      reduction = ["c", "r", "s"]}},
      levels = [{{name = "L1", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {{k = 16, h = {h}, w = 12, c = 8, r = 3, s = 3}}}}]}}}}"""
TINY = "haswell,L1.size=64,L1.ways=1"
MATMUL = """
func.func @matmul(%a: memref<4x5xf32>, %b: memref<5x6xf32>, %c: memref<4x6xf32>) {
  linalg.matmul ins(%a, %b : memref<4x5xf32>, memref<5x6xf32>) outs(%c : memref<4x6xf32>)
  return
}
"""
SIZES = (
    '{"fields": ["name", "k", "h", "w", "c", "r", "s"], "operators": [["a", 32, 9, 9, 8, 3, 3]]}'
)

Run = Callable[..., tuple[int, str, str]]


def planned(machine: str = "haswell", h: int = 2) -> str:
    return CONV.format(name="by_hand", plan=PLAN.format(machine=machine, h=h))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run mopt-explain beside some files: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    first, second = (CONV.format(name=name, plan="") for name in ("first", "second"))
    Path("all.mlir").write_text(first + second + planned() + MATMUL)
    Path("by_hand.mlir").write_text(planned())
    Path("unknown.mlir").write_text(planned("cray-1"))
    Path("wrong.mlir").write_text(planned(h=13))
    Path("matmul.mlir").write_text(MATMUL)
    Path("sizes.json").write_text(SIZES)
    Path("none.json").write_text(SIZES.partition("[[")[0] + "[]}")
    Path("crowd.mlir").write_text(planned().replace("threads = 1", "threads = 64"))
    Path("dollars.mlir").write_text(
        CONV.format(name="a$_$b", plan=PLAN.format(machine="haswell", h=2))
    )
    before = set(os.listdir())

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        if code:
            assert set(os.listdir()) == before, "nothing is written after an error"
        return (code, *capfd.readouterr())

    return run


def record(text: str) -> list[dict[str, Any]]:
    operators = json.loads(text)["operators"]
    assert isinstance(operators, list)
    return operators


def test_every_convolution_once(run: Run) -> None:
    code, text, errors = run("all.mlir", "--machine", "znver5", "--format", "json")
    assert code == 0
    assert [operator["name"] for operator in record(text)] == ["first", "by_hand"]
    places = record(text)[0]["places"]
    assert places == ["all.mlir:4:3", "all.mlir:12:3"], "equal ones share an explanation"
    assert "all.mlir:32:3: remark: 'linalg.matmul' is not tiled" in errors


def test_what_handing_out_work_takes(run: Run) -> None:
    """It is among the times of which the slowest is the bottleneck."""
    Path("sizes.json").write_text(SIZES.replace("32, 9, 9, 8", "64, 56, 56, 64"))
    arguments = ("sizes.json", "--machine", "haswell,cores=2", "--format", "json")
    alone, shared = (
        record(run(*arguments, "--threads", threads)[1])[0]["prediction"] for threads in ("1", "2")
    )
    assert alone["parallel_seconds"] == 0
    assert 0 < shared["parallel_seconds"] < shared["seconds"]


def test_one_function(run: Run) -> None:
    code, text, errors = run("all.mlir", "--entry", "second", "--machine", "haswell")
    assert (code, errors) == (0, "")
    assert text.startswith("second: k=32 h=12 w=12 c=16 r=3 s=3\n=====")


def test_a_plan_is_explained_for_a_machine_that_the_solver_has_none_for(run: Run) -> None:
    code, text, errors = run("by_hand.mlir", "--machine", TINY, "--format", "json")
    assert (code, errors) == (0, "")
    (operator,) = record(text)
    assert [a for a in operator["alternatives"] if a["kind"] == "plan"] == []


def test_a_function_is_explained_with_those_that_it_calls(run: Run, tmp_path: Path) -> None:
    types = "memref<1x16x14x14xf32>, memref<32x16x3x3xf32>, memref<1x32x12x12xf32>"
    parameters = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(types.split(", ")))
    callee = CONV.format(name="callee", plan="").replace("func.func", "func.func private")
    caller = f"func.func @caller({parameters}) {{\n  call @callee(%0, %1, %2) : ({types}) -> ()"
    larger = CONV.replace("14x14", "16x16").replace("12x12", "14x14")
    other = larger.format(name="other", plan="")
    (tmp_path / "calls.mlir").write_text(f"{callee}{caller}\n  return\n}}\n{other}")
    for entry in "caller", "callee":
        code, text, errors = run("calls.mlir", "--entry", entry, "--machine", "haswell")
        assert (code, errors) == (0, "")
        assert text.startswith("callee: k=32")
        assert "other: k=32" not in text


def test_a_plan_by_hand_is_explained_for_its_own_machine(run: Run) -> None:
    code, text, _ = run("by_hand.mlir")
    assert code == 0
    assert "of 1 core of haswell" in text
    assert "the plan has no L3 and L2" in text.replace("\n  ", " ")
    assert "for h_L1" in text
    _, text, _ = run("by_hand.mlir", "--machine", "znver4")
    assert "of 1 core of znver4" in text


def test_threads_are_of_plans_that_are_not_there_yet(run: Run) -> None:
    """However many cores this host has: the plan says for which machine it is."""
    code, text, _ = run("by_hand.mlir", "--threads", "4096")
    assert code == 0
    assert "of 1 core of haswell" in text


def test_other_threads_than_those_of_a_plan_are_told(run: Run) -> None:
    _, _, errors = run("by_hand.mlir", "--threads", "2")
    assert errors == (
        "by_hand.mlir:4:3: warning: its plan is for 1 thread, but threads=2 was asked for; ask for "
        "threads=1, or leave out 'mopt.plan' to have it planned anew\n"
    )
    two = planned().replace("threads = 1", "threads = 2").replace("{}", "{k = 2}")
    Path("by_hand.mlir").write_text(two)
    code, text, errors = run("by_hand.mlir")  # nobody asked for a number
    assert (code, errors) == (0, "")
    assert "before all loops, by 2 cores" in text
    assert run("by_hand.mlir", "--threads", "2")[2] == ""
    _, _, errors = run("by_hand.mlir", "--threads", "1")
    assert "warning: its plan is for 2 threads, but threads=1 was asked for; ask for" in errors


def test_help_says_for_how_many_threads(run: Run) -> None:
    code, text, _ = run("--help")
    assert code == 0
    assert "the machine's (default: the plan's, else 1)" in " ".join(text.split())


def test_an_operator_of_table_1(run: Run) -> None:
    code, text, _ = run("--operator", "R11", "--machine", "znver5", "--threads", "2")
    assert code == 0
    assert text.startswith("R11: k=512 h=7 w=7 c=256")
    assert "peak of 2 cores of znver5" in text


def test_a_list_with_constant_weights(run: Run) -> None:
    arguments = ("sizes.json", "--machine", "haswell", "--format", "json")
    _, packed, _ = run(*arguments)
    _, free, _ = run(*arguments, "--constant-weights")
    (before,), (after,) = record(packed), record(free)
    assert after["prediction"]["packing_seconds"] == 0
    assert after["prediction"]["seconds"] <= before["prediction"]["seconds"]


def test_an_operator_of_a_single_register_tile(run: Run) -> None:
    Path("sizes.json").write_text(SIZES.replace("32, 9, 9, 8, 3, 3", "16, 1, 1, 1, 1, 1"))
    code, text, _ = run("sizes.json", "--machine", "znver5")
    assert code == 0
    assert "1 accumulator += 1 vector of weights x 1 value of input" in text
    assert "1 accumulator, 1 vector of 16, 1 broadcast" in text
    assert "1 vector load, 1 broadcast, 1 FMA\n" in text


def test_operators_of_one_name_are_all_explained(run: Run) -> None:
    Path("sizes.json").write_text(SIZES.replace("]]}", '], ["a", 32, 9, 9, 4, 3, 3]]}'))
    for arguments in ((), ("--operator", "a")):
        code, text, _ = run("sizes.json", *arguments, "--machine", "znver5", "--format", "json")
        assert code == 0
        assert [one["dims"]["c"] for one in record(text)] == [8, 4]


def test_formats_and_files(run: Run) -> None:
    code, text, errors = run(
        *("by_hand.mlir", "--format", "json", "-o", "out.json"),
        *("--html", "page.html", "--png", "picture.png"),
    )
    assert (code, text, errors) == (0, "", "")
    assert record(Path("out.json").read_text())[0]["name"] == "by_hand"
    assert Path("page.html").read_text().startswith("<!DOCTYPE html>")
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_that_is_called_as_the_list_is_not_the_input(run: Run) -> None:
    Path("table1").write_text("")
    code, _, errors = run("table1", "--operator", "R11", "--machine", "znver5", "-o", "table1")
    assert (code, errors) == (0, "")
    assert Path("table1").read_text().startswith("R11: ")


def test_picture_on_a_pipe(run: Run) -> None:
    command = [sys.executable, "-c", "from mopt_mlir.tools.mopt_explain import main; main()"]
    done = subprocess.run([*command, "by_hand.mlir", "--format", "png"], capture_output=True)
    assert done.stdout.startswith(b"\x89PNG")


def test_no_picture_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    code, _, errors = run("by_hand.mlir", "--format", "png")
    assert code == 1
    assert "use --png FILE" in errors


def test_names_are_no_formulas(run: Run) -> None:
    code, _, errors = run("dollars.mlir", "-o", "out.txt", "--png", "picture.png")
    assert (code, errors) == (0, "")


def test_pictures_are_the_same_whatever_the_settings_of_matplotlib(run: Run) -> None:
    run("by_hand.mlir", "-o", "out.txt", "--png", "picture.png")
    Path("matplotlibrc").write_text("text.usetex: True\nlines.linewidth: 9\n")
    command = [sys.executable, "-c", "from mopt_mlir.tools.mopt_explain import main; main()"]
    done = subprocess.run([*command, "by_hand.mlir", "--format", "png"], capture_output=True)
    assert done.stdout == Path("picture.png").read_bytes()


def test_a_backend_of_matplotlib_that_there_is_not(run: Run) -> None:
    command = "import sys; from mopt_mlir.tools.mopt_explain import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", command, "by_hand.mlir", "--format", "png"],
        capture_output=True,
        env={**os.environ, "MPLBACKEND": "nowhere"},
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "mopt-explain: error: matplotlib cannot be set up, see MPLBACKEND: "
    )


def test_files_are_written_before_standard_output(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr("mopt_mlir.output.write_output", lambda path, _: written.append(path))
    run("by_hand.mlir", "--html", "page.html", "--png", "picture.png")
    assert written == ["page.html", "picture.png", "-"]


def test_without_matplotlib_nothing_is_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, text, errors = run("by_hand.mlir", "-o", "out.txt", "--png", "picture.png")
    assert (code, text) == (1, "")
    assert "pip install matplotlib" in errors
    code, _, errors = run("wrong.mlir", "--html", "page.html")
    assert code == 1
    assert "pip install matplotlib" in errors, "said before anything is read and planned"


def test_a_machine_file_whose_name_is_not_utf8(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m\udce9.toml").write_bytes((SHIPPED / "znver4.toml").read_bytes())
    code, text, _ = run("by_hand.mlir", "--machine", "m\udce9.toml", "--no-plan-cache")
    assert code == 0
    assert r"of 1 core of m\xe9" in text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "error: an input is needed, or --operator for one of table1; see mopt-explain --help"),
        (["none.json"], "none.json: error: there is no convolution to explain"),
        (["none.json", "--format", "html"], "error: there is no convolution to explain"),
        (
            ["crowd.mlir"],
            "crowd.mlir:4:3: error: its plan is for 64 threads, machine 'haswell' has 4 cores; "
            "name one with as many, as in --machine haswell,cores=64",
        ),
        (
            ["crowd.mlir", "--machine", "haswell,L2.size=131072"],
            "as in --machine haswell,L2.size=131072,cores=64",
        ),
        (["--operator", "R22"], "error: no operator 'R22'; did you mean 'R2'?"),
        (["table1", "--operator", "?"], "error: no operator '?'; known: Y0, Y2,"),
        (["table1", "--entry", "f"], "table1 has no functions; use --operator"),
        (["all.mlir", "--operator", "first"], "'first' is looked for in lists; use --entry"),
        (["all.mlir", "--entry", "x", "--operator", "y"], "not allowed with argument"),
        (["all.mlir", "--entry", "frist"], "no function 'frist'; did you mean 'first'?"),
        (["matmul.mlir"], "matmul.mlir: error: there is no convolution to explain in the module"),
        (
            ["all.mlir", "--constant-weights"],
            "error: that weights are constant can be said of lists only",
        ),
        (["matmul.mlir", "--entry", "matmul"], "no convolution to explain in function 'matmul'"),
        (["unknown.mlir"], "unknown.mlir:4:3: error: its plan is for a machine that is not known"),
        (["wrong.mlir"], "wrong.mlir:4:3: error: 'mopt.plan': L1.tile[h] = 13 is not in [1, 12]: "),
        (["tabel1"], "tabel1: error: there is no such file; did you mean 'table1'?"),
        (["none.mlir"], "none.mlir: error: cannot read it"),
        (["sizes.json", "--machine", "haswel"], "did you mean 'haswell'?"),
        (["sizes.json", "--machine", TINY], f"no plan for machine '{TINY}': no register tile fits"),
        (["sizes.json", "--threads", "0"], "threads=0: at least one is needed"),
        (["by_hand.mlir", "--threads", "-3"], "error: threads=-3: at least one is needed"),
        (["sizes.json", "--html", "-"], "--html needs a file; for standard output use --format"),
        (["sizes.json", "--html", "/dev/stdout"], "--html needs a file; for standard output use"),
        (["sizes.json", "--html", "no/a.html"], "no/a.html: error: cannot write it"),
        (["sizes.json", "--html", "/dev/fd/999"], "/dev/fd/999: error: cannot write it: Bad file"),
        (["sizes.json", "--format", "pdf"], "invalid choice: 'pdf'"),
        (["sizes.json", "--machine", "haswell", "--threads", "99"], "'haswell' has 4 cores; use"),
        (["all.mlir", "--machine", "haswell", "--threads", "99"], "'haswell' has 4 cores; use"),
        (["all.mlir", "--machine", "haswell,cores=2", "--threads", "9"], "it is: haswell,cores=9"),
        (["crowd.mlir", "--machine", "haswell,cores=2"], "as in --machine haswell,cores=64"),
        (["sizes.json", "-o", "a.html", "--html", "./a.html"], "two outputs go to the same file"),
        (
            ["sizes.json", "--format", "json", "-o", "sizes.json"],
            "sizes.json: error: it would overwrite the input; give the output another name",
        ),
        (["all.mlir", "--html", "./all.mlir"], "./all.mlir: error: it would overwrite the input; "),
        (["all.mlir", "--png", "all.mlir"], "all.mlir: error: it would overwrite the input; give"),
    ],
)
def test_what_a_user_may_get_wrong(run: Run, argv: list[str], message: str) -> None:
    before = {path: path.read_text() for path in map(Path, os.listdir())}
    code, text, errors = run(*argv)
    assert (code, text) == (1, "")
    assert message in errors
    assert "Traceback" not in errors
    assert {path: path.read_text() for path in before} == before


def test_the_solvers_other_plans_are_runners_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def candidates(*request: Any, constant_weights: bool, **_: Any) -> tuple[Plan, ...]:
        *given, threads, count = request
        asked.append((threads, count, constant_weights))
        best = solver.solve(*given, threads, constant_weights=constant_weights)
        return best, replace(best, packing="L1", levels=(*best.levels[:2], one_channel(best)))

    monkeypatch.setattr(solver, "candidates", candidates)
    _, text, _ = run("all.mlir", "--entry", "first", "--machine", "haswell", "--format", "json")
    (operator,) = record(text)
    (other,) = [a for a in operator["alternatives"] if a["kind"] == "plan"]
    assert asked == [(1, rivals.NUMBER, False)]
    assert other["loss"] > 0
    assert "L1 c 1" in other["change"]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the solver is asked for."""
    asked: list[str] = []
    for name in ("solve", "candidates"):
        honest = getattr(solver, name)

        def counted(*request: Any, name: str = name, honest: Any = honest, **options: Any) -> Any:
            asked.append(name)
            return honest(*request, **options)

        monkeypatch.setattr(solver, name, counted)
    return asked


@pytest.mark.parametrize("argv", [("sizes.json",), ("all.mlir", "--entry", "first")])
def test_a_plan_and_its_rivals_are_found_in_one_search(
    run: Run, searches: list[str], monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MOPT_CACHE_DIR", str(Path("plans").absolute()))
    told = [run(*argv, "--machine", "haswell", "--format", "json") for _ in range(2)]
    assert [(code, errors) for code, _, errors in told] == [(0, "")] * 2
    assert searches == ["candidates"] * 2
    assert told[0] == told[1], "a plan that is kept is compared with the same ones"
    assert [path for path in Path("plans").rglob("*") if path.is_file()]


def test_equal_operators_of_a_list_share_an_explanation(run: Run, searches: list[str]) -> None:
    rows = ('["a", 32, 9, 9, 8, 3, 3]', '["b", 16, 9, 9, 8, 3, 3]', '["c", 32, 9, 9, 8, 3, 3]')
    Path("sizes.json").write_text(SIZES.partition("[[")[0] + f"[{', '.join(rows)}]}}")
    arguments = ("sizes.json", "--machine", "haswell", "--no-plan-cache")
    _, text, _ = run(*arguments, "--format", "json")
    told = [(operator["name"], operator["places"]) for operator in record(text)]
    assert told == [("a", ["a", "c"]), ("b", [])]
    assert searches == ["candidates"] * 2
    _, text, _ = run(*arguments, "--operator", "c")
    assert text.startswith("c: k=32 ")
    _, text, _ = run(*arguments)
    assert "\nat a, c\n" in text
    assert "\nat b" not in text


@pytest.mark.parametrize("source", ["sizes.json", "all.mlir"])
def test_progress_is_told_and_never_goes_back(run: Run, source: str) -> None:
    steps: list[tuple[int, int]] = []
    found = explain_source(
        Path(source), machine="haswell", progress=lambda *step: steps.append(step)
    )
    shares = [done / total for done, total in steps]
    assert shares == sorted(set(shares))
    assert (shares[0] < 1, shares[-1]) == (True, 1)
    assert len(steps) > len(found)


def test_a_progress_bar_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("by_hand.mlir")[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "Explaining" in run("by_hand.mlir")[2]


def one_channel(plan: Plan) -> Level:
    return replace(plan.levels[2], tile={**plan.levels[2].tile, "c": 1})
