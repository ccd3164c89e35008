"""The wheel: it builds from a clean copy and gives a working compiler outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "resnet18.mlir"

# one worker builds and installs, however many run the tests
pytestmark = pytest.mark.xdist_group("wheel")


@dataclass(frozen=True)
class Installation:
    scripts: Path
    cwd: Path

    def run(self, command: str, *arguments: str) -> str:
        """Standard output of an installed command, run in a directory that is no checkout."""
        return run([str(self.scripts / command), *arguments], self.cwd)


def run(command: Sequence[str], cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because setuptools would take over what an earlier build left behind."""
    source = tmp_path_factory.mktemp("source") / "mopt-mlir"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    run([sys.executable, "-m", "build", "--wheel", "--outdir", "dist"], source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("installation")
    run([sys.executable, "-m", "venv", str(directory / "venv")], directory)
    scripts = directory / "venv" / "bin"
    run([str(scripts / "python"), "-m", "pip", "install", "--quiet", str(wheel)], directory)
    yield Installation(scripts, directory)
    shutil.rmtree(directory / "venv")  # 1 GB, and pytest keeps the directories of three runs


def test_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    held = set(ZipFile(wheel).namelist())
    sources = {
        str(path.relative_to(ROOT))
        for pattern in ("*.py", "*.toml", "*.json", "py.typed")
        for path in (ROOT / "mopt_mlir").rglob(pattern)
    }
    sources |= {
        f"mopt_mlir/{path.relative_to(ROOT)}"
        for directory in ("passes", "benchmarks")
        for path in (ROOT / directory).rglob("*.*")
        if path.suffix in (".py", ".json", ".md", ".txt", ".cpp")
    }
    assert sources <= held
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_installed_tools_answer(installation: Installation) -> None:
    assert version("mopt-mlir") in installation.run("mopt-opt", "--version")
    assert "--mopt-tile" in installation.run("mopt-opt", "--help")
    assert "suite" in installation.run("mopt-bench", "--help")
    assert "simulate" in installation.run("mopt-validate", "--help")


def test_installed_compiler_compiles(installation: Installation) -> None:
    installation.run("mopt-compile", str(EXAMPLE), "--machine=generic-avx2", "-o", "resnet18.s")
    assert "vfmadd" in (installation.cwd / "resnet18.s").read_text()


def test_python_may_start_in_a_checkout(installation: Installation) -> None:
    """Which hides what is installed, but for what it does not have in the same place."""
    text = (
        "import mopt_mlir; print(mopt_mlir.__file__);"
        "mopt_mlir.compile('examples/conv.mlir', passes='mopt-tile{machine=generic-avx2}')"
    )
    told = run([str(installation.scripts / "python"), "-c", text], ROOT)
    assert told.strip() == str(ROOT / "mopt_mlir" / "__init__.py")


def test_installed_compiler_runs_and_checks(installation: Installation) -> None:
    text = installation.run("mopt-run", str(EXAMPLE), "--entry=conv4_x_1x1_s2", "--check")
    assert "largest error: " in text
