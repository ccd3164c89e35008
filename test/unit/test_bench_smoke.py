"""The quick look: what it is asked for is checked before the minutes that it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import smoke

CHECKED = {"operator": "R1", "compile_seconds": 0.5, "error": 0.25}
RECORD = {"resnet": [CHECKED], "table1": [CHECKED], "random": [CHECKED], "import_seconds": 0.1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--random", "0"], "random=0: must be positive"),
        (["--random", "-3"], "random=-3: must be positive"),
        (["--json", "file/a.json"], "file: error: cannot create it"),
        (["--json", "directory"], "directory: error: cannot write it: it is a directory"),
        (["--jsn", "a.json"], "unrecognized arguments: --jsn"),
    ],
)
def test_what_cannot_be_checked_or_written_is_refused_before(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("directory").mkdir()
    monkeypatch.setattr(smoke, "measure", None)
    assert smoke.main(arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("part", ["resnet", "random"])
@pytest.mark.parametrize(("error", "code"), [(0.25, 0), (1.5, 1), (float("nan"), 1)])
def test_what_is_wrong_is_told_and_written(
    part: str,
    error: float,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = {**RECORD, part: [{**CHECKED, "error": error}]}
    monkeypatch.setattr(smoke, "measure", lambda number: {**record, "number": number})
    path = tmp_path / "new" / "a.json"
    assert smoke.main(["--random", "7", "--json", str(path)]) == code
    said = capsys.readouterr()
    assert "table1: 1 checked, 0 wrong, largest error 2.5e-01 of the bound" in said.out
    assert said.err.count("WRONG: ") == code
    assert json.loads(path.read_text())["number"] == 7
