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
    with pytest.raises(UserError, match=r"pip install intel-openmp"):
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


@pytest.mark.parametrize("folder", ["environment", "my environment"])
def test_a_runtime_that_an_extension_loaded_for_itself_is_used(tmp_path, folder):
    """Under the name of another library's own copy, as wheels have them."""
    (tmp_path / folder).mkdir()
    copy = shutil.copy(find_openmp(), tmp_path / folder / "libomp-0f1e2d.so")
    subprocess.run([sys.executable, "-c", LOADED_FOR_ITSELF, copy], check=True)


REPLACED = """
import ctypes, os, shutil, sys
from mopt_mlir import UserError
from mopt_mlir.lowering.openmp import find_openmp, load_openmp

name, link = sys.argv[1:]
os.symlink(name, link)
ctypes.CDLL(link, mode=ctypes.RTLD_LOCAL)
os.remove(name)
if "again" in name:
    shutil.copy(find_openmp(), name)
try:
    load_openmp()
except UserError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["libomp-gone.so", "libomp-again.so"])
def test_a_runtime_that_was_replaced_since_it_was_loaded_is_a_mistake_with_a_way_out(
    tmp_path, name
):
    """What lies there now would be a second one."""
    copy = shutil.copy(find_openmp(), tmp_path / name)
    command = [sys.executable, "-c", REPLACED, copy, tmp_path / "link.so"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"{name}, which the process has loaded, is not the file that it was" in result.stdout
    assert "start the process anew, or use one thread" in result.stdout


def test_a_runtime_that_is_damaged_is_a_mistake_with_a_way_out(tmp_path):
    (tmp_path / "libiomp5.so").write_bytes(b"nothing")
    code = f"""
from pathlib import Path
from mopt_mlir import UserError
from mopt_mlir.lowering import openmp

openmp.find_openmp = lambda: Path({str(tmp_path / "libiomp5.so")!r})
try:
    openmp.load_openmp()
except UserError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "install it anew" in result.stdout
