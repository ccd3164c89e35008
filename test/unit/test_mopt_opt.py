"""mopt-opt as a user meets it: exit codes, messages, files. What it prints is tested with lit."""

import errno
import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mopt_mlir.operations import inside
from mopt_mlir.pipeline.loading import load_module
from mopt_mlir.pipeline.pass_base import Pass, option
from mopt_mlir.pipeline.pass_registry import REGISTRY
from mopt_mlir.tools.mopt_opt import main

GOOD = "func.func @f() {\n  %0 = arith.constant 1 : i32\n  return\n}\n"
BAD = "func.func @f() {\n  return 1\n}\n"
HEAVY = ("mlir", "torch_mlir", "numpy", "pyscipopt", "llvmlite", "rich")
TOOL = [
    sys.executable,
    "-c",
    "import sys; from mopt_mlir.tools.mopt_opt import main; sys.exit(main())",
]


@dataclass(frozen=True)
class Crash(Pass):
    """A pass with a mistake in it."""

    name: ClassVar[str] = "test-crash"

    interrupt: bool = option(False, help="be stopped by the user instead")
    memory: bool = option(False, help="find no memory instead")
    invalid: bool = option(False, help="take the terminator from a function instead")

    def run(self, module: Any) -> None:
        if self.interrupt:
            raise KeyboardInterrupt
        if self.memory:
            raise MemoryError
        if not self.invalid:
            raise ZeroDivisionError("a mistake")
        function = module.regions[0].blocks[0].operations[0]
        for operation in list(function.regions[0].blocks[0].operations):
            operation.erase()


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run mopt-opt in an empty directory; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(REGISTRY, "test-crash", f"{__name__}:Crash")
    (tmp_path / "good.mlir").write_text(GOOD)
    (tmp_path / "bad.mlir").write_text(BAD)

    def run(*argv: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(argv)
        return (code, *capfd.readouterr())

    return run


def test_flags_may_stand_anywhere(run):
    expected = run("good.mlir", "--canonicalize", "--mlir-print-op-generic")
    assert expected[0] == 0
    assert "arith.constant" not in expected[1]
    assert run("--mlir-print-op-generic", "-canonicalize", "good.mlir") == expected
    assert run("-canonicalize", "--mlir-print-op-generic", "--", "good.mlir") == expected


def test_a_flag_can_be_turned_off(run):
    assert run("--mlir-print-op-generic=0", "good.mlir") == run("good.mlir")


@pytest.mark.parametrize("name", [[], ["-"], ["--", "-"]])
def test_standard_input_is_the_default(run, name):
    assert run(*name, stdin=GOOD.encode()) == run("good.mlir")


def test_a_terminal_is_told_what_to_do_and_stderr_need_not_take_it(monkeypatch, capfd):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for stderr, told in ((sys.stderr, "mopt-opt: reading standard input"), (Full(), "")):
        monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(GOOD.encode())))
        monkeypatch.setattr(sys, "stderr", stderr)
        assert main(["-"]) == 0
        out, err = capfd.readouterr()
        assert "arith.constant 1" in out
        assert err.startswith(told)


def test_bytecode_with_aligned_constants_is_read(run, tmp_path):
    """Which MLIR refuses unless it begins at a multiple of their alignment."""
    (tmp_path / "constant.mlir").write_text("""
      memref.global "private" constant @w : memref<4xf32> = dense_resource<w>
      {-# dialect_resources: {builtin: {w: "0x400000000000803F000000400000404000008040"}} #-}
    """)
    assert run("constant.mlir", "--emit-bytecode", "-o", "constant.mlirbc") == (0, "", "")
    bytecode = (tmp_path / "constant.mlirbc").read_bytes()
    for _ in range(4):
        code, text, errors = run(stdin=bytecode)
        assert (code, errors) == (0, "")
        assert "0x400000000000803F000000400000404000008040" in text
    code, _, errors = run(stdin=bytecode[: len(bytecode) // 2])
    assert code == 1
    assert all(line.startswith("<stdin>: ") for line in errors.splitlines())
    assert "  " not in errors


def test_a_temporary_file_without_room_is_said(run, tmp_path, monkeypatch):
    assert run("good.mlir", "--emit-bytecode", "-o", "good.mlirbc") == (0, "", "")
    write = Path.write_bytes

    def full(path, data):
        if path.parent.name.startswith("mopt-"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    message = (
        "mopt-opt: error: cannot write a temporary file: No space left on device; "
        "set TMPDIR to a directory that has room\n"
    )
    assert run("good.mlirbc") == (1, "", message)


def test_bytecode_is_read_from_files_and_standard_input(run, tmp_path):
    assert run("good.mlir", "--emit-bytecode", "-o", "good.mlirbc") == (0, "", "")
    bytecode = (tmp_path / "good.mlirbc").read_bytes()
    assert bytecode.startswith(b"ML\xefR")
    assert run("good.mlirbc") == run("good.mlir")
    assert run(stdin=bytecode) == run("good.mlir")


def test_the_output_may_be_the_input(run, tmp_path):
    _, text, _ = run("--canonicalize", "good.mlir")
    assert run("--canonicalize", "good.mlir", "-o", "good.mlir") == (0, "", "")
    assert (tmp_path / "good.mlir").read_text() == text


def test_a_new_output_has_the_permissions_that_files_get(run, tmp_path):
    (tmp_path / "plain").touch()
    assert run("good.mlir", "-o", "output") == (0, "", "")
    modes = [(tmp_path / name).stat().st_mode for name in ("plain", "output")]
    assert modes[0] == modes[1]
    assert not list(tmp_path.glob(".mopt-*"))


def test_an_output_keeps_its_permissions_and_its_links(run, tmp_path):
    (tmp_path / "target").touch(0o640)
    (tmp_path / "link").symlink_to("target")
    assert run("good.mlir", "-o", "link") == (0, "", "")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640
    assert run("good.mlir", "-o", "/dev/null") == (0, "", "")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["missing.mlir"], "missing.mlir: error: cannot read it: No such file"),
        (["."], ".: error: cannot read it: Is a directory"),
        ([""], "mopt-opt: error: the name of the input file is empty"),
        (["good.mlir", "bad.mlir"], "mopt-opt: error: one input only"),
        (["bad.mlir"], "bad.mlir:2:9: error: expected operation name in quotes\n  return 1\n"),
        (["good.mlir", "-o", "no/out"], "no/out: error: cannot write it: there is no directory"),
        (["good.mlir", "-o", "."], ".: error: cannot write it: it is a directory"),
        (["good.mlir", "-o", "new/"], "new/: error: cannot write it: it names a directory, and"),
        (["good.mlir", "-o"], "mopt-opt: error: option 'o' needs a value"),
        (["good.mlir", "-o="], "mopt-opt: error: the name of the output file is empty"),
        (["--canonicalise"], "--canonicalise: error: 'canonicalise' is not a registered pass; did"),
        (["--mopt-tiel"], "did you mean 'mopt-tile'?"),
        (["--verify-eahc"], "'verify-eahc'; did you mean '--verify-each'?"),
        (["--nothing"], "'nothing' is not a registered pass; MLIR's are listed at https://"),
        (["--cse,cse"], "--cse,cse: error: 'cse,cse' is not a name that a pass can have"),
        (["--cse=a=1"], "--cse: error: 'cse' has no option 'a'"),
        (["--mopt-tile=threads=x"], "--mopt-tile: error: mopt-tile: threads='x' is not an integer"),
        (["--verify-each=maybe"], "verify-each='maybe' is not true or false"),
        (["--verify-diagnostics=some"], "mopt-opt: error: verify-diagnostics='some': only 'all'"),
        (["--verify-diagnostics=some", "--pass-pipeline=any(cse)"], "mopt-opt: error: verify-diag"),
        (["--emit-bytecode", "--split-input-file"], "--emit-bytecode writes one module"),
        (["--mlir-print-ir-tree-dir=ir"], "mopt-opt: error: --mlir-print-ir-tree-dir says where"),
        (["good.mlir", "-o", "a", "-o=b"], "mopt-opt: error: option 'o' is given twice"),
        (["--verify-each", "-verify-each=0"], "error: option 'verify-each' is given twice"),
        (
            ["--pass-pipeline=any(cse)", "--pass-pipeline", "any(canonicalize)"],
            "mopt-opt: error: option 'pass-pipeline' is given twice",
        ),
        (["--pass-pipeline="], "--pass-pipeline is empty"),
        (["--cse", "--pass-pipeline=any(cse)"], "--pass-pipeline exclude each other: --cse"),
        (
            ["--pass-pipeline", "any(cse,func.func(mopt-tile))"],
            "--pass-pipeline:1:19: error: 'mopt-tile' runs on the whole module: put it directly "
            "between the parentheses of builtin.module(...)\nany(cse,func.func(mopt-tile))\n"
            + " " * 18 + "^",
        ),
        (["good.mlir", "--test-crash"], "good.mlir: error: 'test-crash' failed, which is"),
        (
            ["good.mlir", "--test-crash=memory"],
            "good.mlir: error: 'test-crash': there is not enough memory for it",
        ),
        (["good.mlir", "--pass-pipeline=func.func(cse)"], "can't run 'func.func' pass manager"),
        (["good.mlir", "--mopt-tile=machine=pdp11"], "--mopt-tile: error: unknown machine 'pdp11'"),
        (["good.mlir", "--mopt-tile=machine=x.toml"], "x.toml: error: cannot read the machine fi"),
        (
            ["good.mlir", "--mopt-tile=machine=znver5 threads=99"],
            "good.mlir: error: threads=99: machine 'znver5' has 8 cores",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_one_message(run, tmp_path, argv, message):
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*argv, *([] if "-o" in argv or "-o=" in argv else ["-o", "out.mlir"]))
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("error:") == 1
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_text_and_bytes_that_are_not_mlir(run):
    assert run(stdin=b"\xff\xfe\x00")[2].startswith("<stdin>:1:1: error: ")
    assert run(stdin=b"ML\xefR\x00")[0] == 1


def test_the_caret_stands_below_what_is_wrong_behind_text_of_several_bytes(run):
    line = 'func.func @f() attributes {note = "\u00e9\u4e2d"} { return 1 }'
    err = run(stdin=line.encode())[2].splitlines()
    column = int(err[0].split(":")[2])
    assert line in err
    caret = err[err.index(line) + 1]
    assert line.encode()[: column - 1].decode() == line[: len(caret) - 1]
    assert caret.strip() == "^"


def test_arguments_that_are_not_unicode(run):
    code, _, err = run("bad.mlir", "--pass-pipeline=builtin.module(\udcff)")
    assert code == 1
    assert err.count("error:") == 1
    code, out, _ = run("--split-input-file=\udcff", stdin=b"module {\n}\n\xff\nmodule {\n}\n")
    assert (code, out.count("module")) == (0, 2)


def test_a_failure_leaves_the_output_as_it_was(run, tmp_path):
    (tmp_path / "out.mlir").write_text("before")
    assert run("bad.mlir", "-o", "out.mlir")[0] == 1
    assert (tmp_path / "out.mlir").read_text() == "before"


def test_every_chunk_is_tried_and_keeps_its_lines(run, tmp_path):
    (tmp_path / "chunks.mlir").write_text(f"{BAD}// -----\n{GOOD}// -----\n\n{BAD}")
    code, out, err = run("--split-input-file", "chunks.mlir")
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if "error" in line] == [
        "chunks.mlir:2:9: error: expected operation name in quotes",
        "chunks.mlir:12:9: error: expected operation name in quotes",
    ]


@pytest.mark.parametrize("where", ["the file", "the directory"])
def test_a_read_only_output_is_refused_before_work_is_done(run, monkeypatch, tmp_path, where):
    if where == "the file":
        (tmp_path / "out.mlir").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    code, _, err = run("missing.mlir", "-o", "out.mlir")
    assert code == 1
    assert f"out.mlir: error: cannot write it: {where}" in err
    assert "read-only" in err


def test_no_temporary_file_remains(run, monkeypatch, tmp_path):
    def fail(*_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", fail)
    before = sorted(tmp_path.iterdir())
    code, _, err = run("good.mlir", "-o", "out.mlir")
    assert (code, err) == (1, "out.mlir: error: cannot write it: Read-only file system\n")
    assert sorted(tmp_path.iterdir()) == before


def test_a_process_that_is_told_to_end_while_it_writes_leaves_no_temporary_file(tmp_path):
    program = """if True:
        import os, signal
        from mopt_mlir.output import write_output
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
        write_output("out.mlir", b"")
        print("not ended")
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_the_ir_is_verified_after_each_pass_of_ours(run):
    code, _, err = run("good.mlir", "--test-crash=invalid")
    assert code == 1
    assert "good.mlir:1:1: error: empty block: expect at least a terminator" in err
    code, out, _ = run("good.mlir", "--test-crash=invalid", "--verify-each=0")
    assert code == 0
    assert '"func.func"() ' in out


def test_an_interrupt_while_operations_are_collected_is_one():
    """MLIR's bindings make a RuntimeError of it."""
    module = load_module("func.func @f() { return }")

    def interrupt(frame, event, _):
        if frame.f_code.co_name == "visit":
            sys.settrace(None)
            raise KeyboardInterrupt

    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            inside(module)
    finally:
        sys.settrace(None)


def test_an_interrupted_pass_ends_the_run(run):
    with pytest.raises(KeyboardInterrupt):
        run("good.mlir", "--test-crash=interrupt")


def test_mlir_reports_once_inside_a_pass_of_ours(run, tmp_path):
    (tmp_path / "odd.mlir").write_text(
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = "who.knows"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}\n"
    )
    code, _, err = run("odd.mlir", "--allow-unregistered-dialect", "--mopt-lower-to-llvm")
    assert code == 1
    assert err.startswith("odd.mlir:2:8: error: op was not bufferized\n")
    assert err.count("error:") == 1


def test_an_interrupt_while_reading_ends_the_process_as_the_signal_does():
    """By which a shell knows that it has to leave its loop."""
    with subprocess.Popen(
        [*TOOL, "--dump-pass-pipeline"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # whoever runs the tests in the background may have made us ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr
        assert process.stderr.readline()  # it reads standard input next
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert b"Traceback" not in err


def test_a_closed_pipe_gets_one_message():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        TOOL, input=GOOD.encode(), stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"the reader closed the pipe before it had all" in done.stderr


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_help_and_version_load_nothing_heavy(flag):
    check = (
        "import sys; from mopt_mlir.tools.mopt_opt import main; code = main();"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules];"
        "sys.exit(f'loads {loaded}' if loaded else code)"
    )
    done = subprocess.run([sys.executable, "-c", check, flag], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_lists_every_pass_with_its_options(run):
    code, out, _ = run("--help")
    assert code == 0
    for name in REGISTRY:
        assert f"\n  --{name}\n" in out
    assert "A pass with a mistake in it." in out
    assert "interrupt=false" in out
    assert max(map(len, out.splitlines())) <= 100


def test_version_names_what_it_is_made_of(run):
    code, out, _ = run("--version")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["mopt-mlir", "MLIR", "llvmlite"]
