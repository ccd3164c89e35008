"""The solver's benchmark: what its tables say, and that a wrong bound does not go unnoticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import solver as benchmark
from benchmarks.certificates import challenge
from benchmarks.solver_results import Results, Solved
from benchmarks.solver_tables import BEGIN, END, replaced, summary
from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import by_name
from mopt_mlir.problem import conv2d
from mopt_mlir.solver import solve

EXACT = Solved("R1", "znver5", 2, "exact", 0.25, 1.004, 1.0)
RESULTS = Results(
    table1=(
        EXACT,
        replace(EXACT, solver="algorithm1", seconds=1.0, cost=2.008),
        replace(EXACT, operator="R2", seconds=0.75, cost=1.001),
        replace(EXACT, operator="R2", solver="algorithm1", cost=1.001),
    ),
    unusual=(replace(EXACT, operator="1x1 image, nhwc", cost=1.01),),
    cpu="Some CPU",
    date="2026-01-02",
    share=1.0,
)


def test_tables_have_means_and_the_worst() -> None:
    text = summary(RESULTS)
    assert "Measured on 2026-01-02, in one process on one core (Some CPU)." in text
    assert "| znver5 | 2 | 0.50 | 0.75 (R2) | 0.40% |" in text
    assert "| znver5 | 2 | 1.414 | 2.00 (R1) | 0.62 |" in text
    assert "| R1 | 0.25 | 1.00 |" in text
    assert "| 1x1 image | 0.25 | 0.25 | 1.00% |" in text


def test_a_busy_core_is_told() -> None:
    assert "of which it had 80%" in summary(replace(RESULTS, share=0.8))


def test_tables_replace_those_before_them() -> None:
    page = f"Before\n{BEGIN}old\n{END}after\n"
    new = replaced(page, RESULTS)
    assert new == replaced(new, RESULTS)
    assert "old" not in new
    assert new.startswith("Before\n")
    assert new.endswith("after\n")
    with pytest.raises(UserError, match="the document lacks the lines"):
        replaced("nothing here", RESULTS)


def test_the_document_has_a_place_for_them() -> None:
    replaced((benchmark.ROOT / "docs" / "model.md").read_text(), RESULTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--document", "none.md"], "none.md: error: cannot read it: No such file or directory"),
        (["--document", "no/a.md"], "no/a.md: error: cannot write it: there is no directory"),
        (["--document", "empty.md"], "the document lacks the lines"),
        (["--document", "bytes.md"], "bytes.md: error: it is not UTF-8 text"),
        (["--operators", "R2", "R99"], "table1: error: no operator 'R99'; did you mean 'R9'"),
        (["--json", "file/a.json", "--operators", "R2"], "file: error: cannot create it"),
        (["--certificates", "-1"], "certificates=-1: must be 0, for none, or more"),
    ],
)
def test_what_cannot_be_written_or_planned_is_refused_before(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.md").touch()
    Path("file").touch()
    Path("bytes.md").write_bytes(b"\xff")
    monkeypatch.setattr(benchmark, "measure", None)
    assert benchmark.main(arguments) == 1
    assert message in capsys.readouterr().err


def test_a_wrong_bound_is_refuted() -> None:
    problem, machine = conv2d(k=64, h=14, w=14, c=16, r=3, s=3), by_name("znver5")
    plan = solve(problem, machine)
    assert plan.prediction is not None
    assert challenge(problem, machine, plan, 2000).least >= plan.prediction.lower_bound
    wrong = replace(plan.prediction, lower_bound=plan.prediction.cost * 1.2)
    with pytest.raises(UserError, match="refutes the bound"):
        benchmark._challenged(problem, machine, replace(plan, prediction=wrong), 20_000)
