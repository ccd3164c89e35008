"""Fixtures and paths shared by the Python tests."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks: workloads to check

# Neither plans nor calibrations of the user reach a test, nor those of a test the user. Set before
# anything is imported, and inherited by the tools that tests start.
_CACHES = tempfile.TemporaryDirectory(prefix="mopt-test-")
os.environ["MOPT_CACHE_DIR"] = _CACHES.name

# Threads of OpenMP that wait for work would take a core from the tests beside them.
os.environ.setdefault("KMP_BLOCKTIME", "0")


@pytest.fixture
def parse():
    """Parse MLIR; the context lives as long as the test."""
    from mopt_mlir.bindings import bindings

    context = bindings().ir.Context()
    return lambda text: bindings().ir.Module.parse(text, context).operation


@pytest.fixture
def any_threads(monkeypatch):
    """More threads than this process has CPUs, which are slow, but right."""
    from mopt_mlir.compiler.options import CompileOptions

    monkeypatch.setattr(CompileOptions, "check_runs_here", lambda *_: None)


@pytest.fixture
def told():
    """The diagnostics of a test."""
    from mopt_mlir import sink

    diagnostics = []
    with sink(diagnostics.append):
        yield diagnostics
