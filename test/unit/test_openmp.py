"""Where the OpenMP runtime is found."""

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from mopt_mlir import UserError
from mopt_mlir.lowering.openmp import find_openmp


def _nothing_installed(name):
    raise PackageNotFoundError(name)


def test_a_missing_openmp_runtime_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    monkeypatch.setattr("importlib.metadata.files", _nothing_installed)
    with pytest.raises(UserError, match=r'pip install "mopt-mlir\[openmp\]"'):
        find_openmp()


def test_the_openmp_runtime_is_where_pip_put_it(monkeypatch, tmp_path):
    """Not in the environment's lib/, as with `pip install --user`."""
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    assert find_openmp().name == "libiomp5.so"


LOADED_FOR_ITSELF = """
import ctypes, sys
from mopt_mlir.lowering import openmp
from mopt_mlir.lowering.openmp import find_openmp, is_in_process, load_openmp

ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
assert not is_in_process("__kmpc_fork_call")
openmp.find_openmp = lambda: sys.exit("a second runtime was looked for")
load_openmp()
assert is_in_process("__kmpc_fork_call")
"""


def test_a_runtime_that_an_extension_loaded_for_itself_is_used(tmp_path):
    """Under the name of another library's own copy, as wheels have them."""
    copy = shutil.copy(find_openmp(), tmp_path / "libomp-0f1e2d.so")
    subprocess.run([sys.executable, "-c", LOADED_FOR_ITSELF, copy], check=True)
