"""What surrounds a process: names that are no text, cores that something binds it to, its standard
output and errors, the files where it works."""

import os
import subprocess
import sys

import pytest

from mopt_mlir.bindings import bindings
from mopt_mlir.diagnostics import UserError, file_of
from mopt_mlir.lowering.target import known_cpus
from mopt_mlir.machine import facts
from mopt_mlir.output import write_output


@pytest.mark.parametrize("name", ["a.mlir", "é.mlir", "a b", "a\\b", "\\FF", 'with "quotes"'])
def test_files_by_their_names(name):
    ir = bindings().ir
    with ir.Context():
        assert file_of(ir.Location.file(name, 1, 2)) == name


def test_a_file_whose_name_is_no_text_is_named_as_it_is_printed():
    """In a process of its own, as asking MLIR's bindings for it would end that."""
    text = r"""
from mopt_mlir import compile, sink
source = 'func.func @f(%a: memref<?xf32>) { return loc("\\FF/x.mlir":3:4) } loc("\\FF":1:2)'
with sink(print):
    compile(source, machine="generic-avx2")
print("done")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.fixture
def bound(monkeypatch):
    """Bind this thread to one core, as OpenMP may."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("threads cannot be bound here")
    before = os.sched_getaffinity(0)
    monkeypatch.setattr(facts, "_unbound", set())

    def bind():
        os.sched_setaffinity(0, {min(before)})

    yield bind
    os.sched_setaffinity(0, before)


def test_what_openmp_is_asked_to_bind_has_its_cores_still(bound, monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    before = facts.affinity()
    facts.remember_affinity()
    bound()
    assert facts.affinity() == before


def test_what_somebody_else_binds_has_one_core(bound, monkeypatch):
    for name in ("OMP_PROC_BIND", "OMP_PLACES", "KMP_AFFINITY", "GOMP_CPU_AFFINITY"):
        monkeypatch.delenv(name, raising=False)
    facts.remember_affinity()
    bound()
    assert len(facts.affinity()) == 1


@pytest.mark.parametrize("name", ["/dev/stderr", "/dev/fd/9", "/proc/self/fd/9"])
def test_an_open_file_by_its_descriptor_is_not_replaced(tmp_path, name):
    log, source = tmp_path / "log", tmp_path / "f.mlir"
    source.write_text("module {\n}\n")
    code = "import sys; from mopt_mlir.tools.mopt_opt import main; sys.exit(main())"
    opened = "2>&1" if name == "/dev/stderr" else "9>&1"
    script = f'exec "$@" {opened}'
    with log.open("wb", buffering=0) as file:
        file.write(b"head\n")
        command = ["sh", "-c", script, "sh", sys.executable, "-c", code, str(source), "-o", name]
        assert subprocess.run(command, stdout=file).returncode == 0
        file.write(b"tail\n")
    assert log.read_text() == "head\nmodule {\n}\ntail\n"


def test_a_descriptor_that_is_closed_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"^/dev/fd/999: error: cannot write it: Bad file desc"):
        write_output("/dev/fd/999", b"")
    with pytest.raises(UserError, match="cannot write it"):
        write_output(f"/dev/fd/{1 << 40}", b"")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("mopt_compile", ["{source}", "-o", "x.so"]),
        ("mopt_explain", ["--operator", "R9", "--html", "x.html"]),
        ("mopt_opt", ["{source}", "-o", "x.mlir"]),
    ],
)
def test_a_working_directory_that_was_removed_is_told(tmp_path, tool, arguments):
    source, gone = tmp_path / "f.mlir", tmp_path / "gone"
    source.write_text("module {\n}\n")
    gone.mkdir()
    code = (
        "import os, sys; "  # what is imported is found by then
        f"from mopt_mlir.tools.{tool} import main; "
        f"os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); sys.exit(main())"
    )
    command = [sys.executable, "-c", code, *(a.format(source=source) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    file = arguments[-1]
    message = f"{file}: error: cannot write it: No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_standard_output_by_its_name_is_not_replaced(tmp_path):
    """Where it is a file, that may have more in it."""
    log, source = tmp_path / "log", tmp_path / "f.mlir"
    source.write_text("module {\n}\n")
    code = "import sys; from mopt_mlir.tools.mopt_opt import main; sys.exit(main())"
    with log.open("wb", buffering=0) as file:
        file.write(b"head\n")
        command = [sys.executable, "-c", code, str(source), "-o", "/dev/stdout"]
        assert subprocess.run(command, stdout=file).returncode == 0
        file.write(b"tail\n")
    assert log.read_text() == "head\nmodule {\n}\ntail\n"


def test_pass_pipelines_that_nobody_can_be_shown_do_not_end_the_run(tmp_path):
    source = tmp_path / "f.mlir"
    source.write_text("module {\n}\n")
    code = "import sys; from mopt_mlir.tools.mopt_opt import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "--dump-pass-pipeline", "--cse", str(source)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full)
    assert (done.returncode, done.stdout) == (0, b"module {\n}\n")


def test_help_that_cannot_be_printed_is_an_error():
    code = "import sys; from mopt_mlir.tools.mopt_plan import main; sys.exit(main(['--help']))"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE)
    message = b"<stdout>: error: cannot write it: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_the_files_of_a_directory_do_not_matter_to_which_cpus_there_are(tmp_path, monkeypatch):
    (tmp_path / "ctypes.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    known_cpus.cache_clear()
    assert "haswell" in known_cpus()


@pytest.mark.skipif(len(facts.affinity()) < 2, reason="one core cannot be shared")
def test_code_for_several_cores_runs_again_where_openmp_binds():
    text = r"""
import numpy as np
from mopt_mlir import compile
source = '''
func.func @f(%a: memref<64xf32>) {
  %one = arith.constant 1.0 : f32
  affine.parallel (%i) = (0) to (64) {
    affine.store %one, %a[%i] : memref<64xf32>
  }
  return
}'''
for _ in range(2):
    compile(source, machine="generic-avx2", threads=2)["f"](np.zeros(64, np.float32))
print("done")
"""
    environment = {**os.environ, "OMP_PROC_BIND": "true"}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
