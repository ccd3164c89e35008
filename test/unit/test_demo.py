"""`mopt-demo`: a line per function, and a result that is wrong does not go unnoticed."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mopt_mlir import reference
from mopt_mlir.compiler import choosing
from mopt_mlir.measuring import running
from mopt_mlir.tools.mopt_demo import main

# in generic-avx2 the plan uses vectors that every supported host has
OPTIONS = ["--machine=generic-avx2,cores=1", "--repeat=1"]

CONV = """
func.func @small(%input: memref<1x4x10x10xf32>, %weights: memref<8x4x3x3xf32>,
    %output: memref<1x8x8x8xf32>) {
  linalg.conv_2d_nchw_fchw ins(%input, %weights : memref<1x4x10x10xf32>, memref<8x4x3x3xf32>)
      outs(%output : memref<1x8x8x8xf32>)
  return
}
func.func @doubled(%x: memref<16xf32>, %y: memref<16xf32>) {
  linalg.add ins(%x, %x : memref<16xf32>, memref<16xf32>) outs(%y : memref<16xf32>)
  return
}
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "small.mlir"
    path.write_text(CONV)
    return str(path)


def test_table_has_a_line_per_function(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([source, *OPTIONS]) == 0
    printed = capsys.readouterr().out
    title, *lines = printed.splitlines()
    assert "generic-avx2,cores=1 (x86-64-v3), run on 1 core" in title
    for column in ("classes", "bottleneck", "solve", "gap", "compile", "of peak", "error"):
        assert column in printed
    assert "\nGFLOP/s: of the median run, with warm caches\n" in printed
    (small,) = [line.split() for line in lines if line.startswith(" small ")]
    (doubled,) = [line for line in lines if line.startswith(" doubled ")]
    gflops, share, error = small[-3:]
    assert float(gflops) > 0
    assert share.endswith("%")
    assert 0 < float(error) < 1e-5
    assert "not tiled" in doubled


def test_candidates_are_measured(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fastest(times: Any) -> int:
        asked.append(times)
        return 0

    monkeypatch.setattr(choosing, "fastest", fastest)
    assert main([source, *OPTIONS, "--candidates=2"]) == 0
    assert len(asked) == 1


def test_brackets_in_names_are_no_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "marked.mlir"
    path.write_text(CONV.replace("@small", '@"conv[/a]"').replace("@doubled", '@"[red]"'))
    assert main([str(path), *OPTIONS]) == 0
    printed = capsys.readouterr()
    assert "\n conv[/a] " in printed.out
    assert "\n [red] " in printed.out
    assert printed.err == ""  # no progress bar where there is no terminal


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (">&-", "mopt-demo: error: standard output is closed"),
        (">/dev/full", "<stdout>: error: cannot write it: No space left on device"),
    ],
)
def test_a_table_that_cannot_be_written(source: str, output: str, message: str) -> None:
    program = "import sys; from mopt_mlir.tools.mopt_demo import main; sys.exit(main())"
    shell = ["sh", "-c", f'"$@" {output}', "sh"]
    command = [*shell, sys.executable, "-c", program, source, *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith(f"{message}\n")
    assert "Traceback" not in done.stderr


def test_what_is_not_tiled_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "product.mlir"
    types = "memref<4x4xf32>"
    path.write_text(f"""
func.func @product(%a: {types}, %b: {types}, %c: {types}) {{
  linalg.matmul ins(%a, %b : {types}, {types}) outs(%c : {types})
  return
}}
""")
    assert main([str(path), *OPTIONS]) == 0
    said = capsys.readouterr().err
    assert said.count("is not tiled") == 1
    assert f"{path}:3:3: warning: 'linalg.matmul' is not tiled" in said


def test_wrong_result_is_marked_and_the_exit_code_says_so(
    source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = reference.evaluate

    def off_by_a_little(*arguments: Any) -> reference.Outcome:
        outcome = right(*arguments)
        return replace(
            outcome, arguments=[a.map(lambda part: part + 1e-3) for a in outcome.arguments]
        )

    monkeypatch.setattr(running, "evaluate", off_by_a_little)
    assert main([source, *OPTIONS]) == 1
    captured = capsys.readouterr()
    assert captured.out.count("WRONG") == 2
    assert f"{source}: error: wrong results" in captured.err
    assert "small, doubled" in captured.err


def test_what_the_reference_does_not_know_runs_unchecked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tan.mlir"
    path.write_text("""
func.func @tangents(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = math.tan %x : tensor<16xf32>
  return %0 : tensor<16xf32>
}
func.func @twice(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = arith.addf %x, %x : tensor<16xf32>
  return %0 : tensor<16xf32>
}
""")
    assert main([str(path), *OPTIONS]) == 0
    captured = capsys.readouterr()
    warning = "warning: results are not checked: the reference does not know 'math.tan'"
    assert f"{path}:3:8: {warning}" in captured.err
    assert captured.out.count("unchecked") == 1


def test_public_functions_run_with_what_they_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "calls.mlir"
    path.write_text("""
func.func public @doubled(%x: memref<16xf32>, %y: memref<16xf32>) {
  linalg.add ins(%x, %x : memref<16xf32>, memref<16xf32>) outs(%y : memref<16xf32>)
  return
}
func.func @caller(%x: memref<16xf32>, %y: memref<16xf32>) {
  call @doubled(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  return
}
""")
    assert main([str(path), *OPTIONS]) == 0
    printed = capsys.readouterr().out
    assert " doubled " in printed
    assert " caller " in printed


UNRUNNABLE = """
func.func @open(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.add ins(%x, %x : memref<?xf32>, memref<?xf32>) outs(%y : memref<?xf32>)
  return
}
func.func @half(%x: memref<16xbf16>, %y: memref<16xbf16>) {
  linalg.add ins(%x, %x : memref<16xbf16>, memref<16xbf16>) outs(%y : memref<16xbf16>)
  return
}
"""


def test_functions_that_cannot_be_run_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.mlir"
    path.write_text(UNRUNNABLE + CONV)
    assert main([str(path), *OPTIONS]) == 0
    captured = capsys.readouterr()
    for name in ("small", "doubled"):
        assert f" {name} " in captured.out
    for name in ("open", "half"):
        assert name not in captured.out
    assert f"{path}:2:1: warning: 'open' is not run: 'x' has the dynamic shape" in captured.err
    assert f"{path}:6:1: warning: @half cannot be called from C" in captured.err
    assert captured.err.count("warning: ") == 2


def test_standard_input_is_called_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"module {}")))
    assert main(["-"]) == 1
    assert capsys.readouterr().err == "<stdin>: error: there is no function to run\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (UNRUNNABLE, [], "{path}: error: none of its functions can be run"),
        ("module {}", [], "{path}: error: there is no function to run"),
        (CONV, ["--machine=zen5"], "unknown machine 'zen5'; did you mean 'znver5'?"),
        (CONV, ["--repeat=0"], "repeat=0: at least one run is needed"),
        (CONV, ["--threads=0"], "threads"),
        (CONV, ["--fast"], "unrecognized arguments: --fast; see mopt-demo --help"),
        ("func.func @f(", [], "{path}:1:13: error: "),
    ],
)
def test_bad_input_is_refused(
    text: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "input.mlir"
    path.write_text(text)
    assert main([str(path), *options]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message.format(path=path) in captured.err
    assert "Traceback" not in captured.err
