"""mopt-bench as a user meets it."""

from __future__ import annotations

import errno
import io
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import command_line, commands, environment, runner, scale, workers
from benchmarks.command_line import main
from benchmarks.operators import read_operators
from benchmarks.peers import REGISTRY
from benchmarks.protocol import Configuration, Protocol
from benchmarks.results import Failure
from benchmarks.scale_results import Scale
from benchmarks.validation import prose
from mopt_mlir.pipeline import loading

pytestmark = pytest.mark.xdist_group("bench")

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ["name", "k", "h", "w", "c", "r", "s"]
TINY = ["tiny", 16, 6, 5, 3, 3, 3]


@pytest.fixture
def operators(tmp_path, monkeypatch):
    """A list of one operator, and what is measured besides made up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "measure_bandwidths", lambda cpus: {"DRAM read": 40.0})
    monkeypatch.setattr(runner, "fma_peak", lambda *_: 100.0)
    monkeypatch.setattr(environment, "load", lambda: 0.0)  # which takes half a second
    monkeypatch.setattr(workers, "largest_cache", lambda: 1 << 20)  # flushing 512 MiB takes as long

    def write(rows=(TINY,), fields=FIELDS):
        Path("operators.json").write_text(json.dumps({"fields": fields, "operators": rows}))
        return "operators.json"

    write()
    return write


def test_run_writes_a_record_per_operator_and_peer(operators, capsys):
    arguments = ["run", "--operators", operators(), "--protocol", "constant-weights", "--warm"]
    arguments += ["--threads", "1", "--peers", "mlir", "--repeat", "5", "--json", "out.json"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "B warm, 1 core (constant-weights): GFLOP/s, median of 5 runs" in captured.out
    assert "tiny: mopt " in captured.err
    data = json.loads(Path("out.json").read_text())
    assert [record["peer"] for record in data["records"]] == ["mopt", "mlir"]
    assert data["arguments"]["cold"] is False
    assert data["operators"]["tiny"]["h"] == 6
    for record in data["records"]:
        assert record["is_correct"]
        assert record["version"]


def test_results_are_not_replaced(operators, capsys):
    """Neither those of another run nor the list of operators."""
    for file, reason in (
        ("operators.json", "it would overwrite the input; give the output another name"),
        ("out.json", "there is such a file; continue it with --resume, or name another one"),
    ):
        Path("out.json").write_text("{}")
        assert main(["run", "--operators", operators(), "--json", file]) == 1
        assert capsys.readouterr().err == f"{file}: error: {reason}\n"


def test_nobody_need_read_what_is_said(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    with commands.progress_bar("all", 1) as (progress, finish):
        progress.warn("nobody hears it")
        finish("done")


def test_names_are_no_markup_and_there_is_no_bar_without_a_terminal(capsys):
    with commands.progress_bar("all", 1) as (progress, finish):
        progress.step("[/b]")
        finish("a:smile:[b]")
    assert capsys.readouterr().err == "all: a:smile:[b]\n"


def test_a_suite_measures_every_configuration_and_keeps_what_there_is(
    operators, capsys, monkeypatch
):
    few = [Configuration(Protocol.PAPER, True), Configuration(Protocol.NHWC, False)]
    monkeypatch.setattr(commands, "configurations", lambda cores: few)
    arguments = ["suite", "--operators", operators(), "--peers", "none", "--repeat", "5"]
    assert main([*arguments, "--directory", "results"]) == 0
    assert "Ours / the best peer of each operator" in capsys.readouterr().out
    files = sorted(Path("results").iterdir())
    assert [file.name for file in files] == ["a-cold-1.json", "c-warm-1.json"]
    before = [file.read_bytes() for file in files]
    assert main([*arguments, "--directory", "results"]) == 0
    assert [file.read_bytes() for file in files] == before
    assert main([*arguments, "--directory", "one", "--configurations", "c-warm-1"]) == 0
    assert [file.name for file in Path("one").iterdir()] == ["c-warm-1.json"]


def test_the_suite_has_every_configuration_once():
    slugs = [configuration.slug for configuration in commands.configurations(4)]
    assert len(slugs) == len(set(slugs)) == 13
    assert {"a-cold-1", "a-cold-4", "c-warm-1", "a-cold-1-avx2"} <= set(slugs)
    assert len(commands.configurations(1)) == 7


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_what_is_measured_on_all_cores_has_a_name_on_every_host(cores, monkeypatch):
    monkeypatch.setattr(commands.environment, "core_cpus", lambda: list(range(cores)))
    found = [c.slug for c in commands._configurations(["a-cold", "c-warm-1"])]
    assert found == list(dict.fromkeys(["a-cold-1", f"a-cold-{cores}", "c-warm-1"]))
    assert [c.slug for c in commands._configurations(["a-cold-1-avx2"])] == ["a-cold-1-avx2"]


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("text", [(ROOT / "Makefile").read_text(), prose.INTRODUCTION])
def test_what_we_say_to_measure_can_be_measured_on_every_host(text, cores, monkeypatch):
    monkeypatch.setattr(commands.environment, "core_cpus", lambda: list(range(cores)))
    asked = re.findall(r"mopt-bench suite --configurations ([\w,-]+)", text)
    assert asked
    for names in asked:
        assert commands._configurations(command_line.names(names))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command; see mopt-bench --help"),
        (["run"], "the following arguments are required: --json; see mopt-bench run --help"),
        (["run", "--json", "o", "--only", ","], "argument --only: there is no name in it; see"),
        (["scale", "--counts", "1,0"], "argument --counts: '1,0' is not positive numbers, as in"),
        (["run", "--json", "o", "--peers", "mkl"], "unknown peer 'mkl'; known: mopt, mopt-5, "),
        (["run", "--json", "o", "--protocol", "d"], "argument --protocol: invalid choice: 'd'"),
        (["run", "--json", "o", "--cold", "--warm"], "not allowed with argument"),
        (["run", "--json", "o", "--repeat", "0"], "repeat=0: must be positive"),
        (["run", "--json", "o", "--seconds", "inf"], "seconds=inf: must be positive and finite"),
        (["scale", "--json", "o", "--repeat", "0"], "repeat=0: must be positive"),
        (["run", "--json", "o", "--threads", "4096"], "threads=4096: this process may use "),
        (["run", "--json", "no/o.json"], "no/o.json: error: cannot write it: there is no"),
        (["run", "--json", "o", "--operators", "x.json"], "x.json: error: cannot read it: No such"),
        (["run", "--json", "o", "--only", "R99"], "table1: error: no operator 'R99'; did you mean"),
        (["suite", "--configurations", "d-hot-1"], "no configuration 'd-hot-1'; known: a-cold-1, "),
        (["scale", "--json", "o", "--counts", "0"], "argument --counts: '0' is not positive"),
        (["scale", "--json", "o", "--counts", "9999"], "9999 distinct operators: there are 4800"),
        (["run", "--json", "o", "--python", "/nowhere"], "cannot start /nowhere: No such file"),
    ],
)
def test_refusals(arguments, message, operators, capsys):
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert [path.name for path in Path().iterdir()] == ["operators.json"]


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        ([], FIELDS, "there are no operators"),
        ([TINY, TINY], FIELDS, "two operators are called 'tiny'"),
        ([[*TINY, "nhwc_hwcf"]], [*FIELDS, "layout"], "tiny: layout is not nchw_fchw"),
        ([[*TINY, "f64"]], [*FIELDS, "element"], "tiny: element is not f32"),
        ([["tiny", 0, 6, 5, 3, 3, 3]], FIELDS, "operators[0]: k: 0 is not a positive integer"),
        ([["vast", 2**30, 6, 5, 3, 3, 3]], FIELDS, "vast: its loop over k has 1073741824"),
    ],
)
def test_lists_that_cannot_be_measured(rows, fields, message, operators, capsys):
    assert main(["run", "--json", "o", "--operators", operators(rows, fields)]) == 1
    assert f"operators.json: error: {message}" in capsys.readouterr().err


def test_operators_that_memory_has_no_room_for(operators, capsys):
    large = ["large", 1 << 20, 1 << 10, 1 << 10, 3, 3, 3]
    assert main(["run", "--json", "o", "--operators", operators([large], FIELDS)]) == 1
    assert "'large' needs " in (told := capsys.readouterr().err)
    assert "MB of memory" in told


def test_lists_may_say_more_than_table_1(operators):
    fields = [*FIELDS, "n", "stride", "dilation"]
    (workload,) = read_operators(operators([[*TINY, 2, [2, 1], 3]], fields))
    assert (workload.n, workload.strides, workload.dilations) == (2, (2, 1), (3, 3))
    assert len(read_operators("table1")) == 32
    assert [w.name for w in read_operators("table1", ["R9", "Y0"])] == ["Y0", "R9"]


def test_peers_are_listed_with_their_state(operators, capsys):
    assert main(["peers", "--python", sys.executable]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in REGISTRY)
    assert "driver" in printed  # of oneDNN, which this Python does not have


def test_scale(operators, capsys, monkeypatch):
    monkeypatch.setattr(scale, "PREDICTED_CORES", (8,))
    arguments = ["--counts", "1", "--batches", "1,2", "--only", "R11", "--repeat", "5"]
    assert main(["scale", "--json", "scale.json", *arguments]) == 0
    assert "Planning and compiling" in capsys.readouterr().out
    figures = Scale.read(Path("scale.json"))
    states = [(p.operators, p.plan_cache) for p in figures.planning]
    assert states == [(1, "empty"), (1, "full")]
    measured = {s.cores: s.gflops is not None for s in figures.scaling}
    assert measured[1]
    assert [b.batch for b in figures.batch] == [1, 2]
    one, eight = (s.predicted_gflops for s in figures.scaling if s.cores in (1, 8))
    assert eight > 2 * one
    figures.batch.clear()
    figures.write(Path("scale.json"))  # as if interrupted
    assert main(["scale", "--json", "scale.json", *arguments]) == 0
    again = Scale.read(Path("scale.json"))
    assert (again.planning, again.scaling) == (figures.planning, figures.scaling)
    assert [b.batch for b in again.batch] == [1, 2]
    assert main(["scale", "--json", "scale.json", *arguments, "--counts", "2"]) == 1
    assert "cannot resume: measured with counts=[1], not [2]" in capsys.readouterr().err


def test_scale_has_no_figures_of_what_is_wrong_or_fails(operators, capsys, monkeypatch):
    crew = SimpleNamespace(unavailable={}, failures=[])
    outcome = ["right"]

    def measured(operator, request, crew, head):
        if outcome[0] == "failed":
            crew.failures.append(Failure(operator.name, "mopt", "no plan"))
            return []
        is_correct = outcome[0] == "right"
        record = {"operator": operator.name, "peer": "mopt", "is_correct": is_correct}
        return [SimpleNamespace(**record, gflops_median=50.0)]

    def run(what):
        outcome[0] = what
        crew.failures.clear()
        arguments = ["--json", "scale.json", "--counts", "1", "--batches", "1", "--only", "R11"]
        code = main(["scale", *arguments])
        return code, capsys.readouterr().err, Scale.read(Path("scale.json"))

    monkeypatch.setattr(scale, "PREDICTED_CORES", ())
    monkeypatch.setattr(scale, "measure_planning", lambda operators: [])
    monkeypatch.setattr(scale, "Crew", lambda *arguments: nullcontext(crew))
    monkeypatch.setattr(scale, "measure_operator", measured)
    for what, message in (
        ("wrong", "wrong results, further from the reference than rounding can explain: R11"),
        ("failed", "ours failed on R11, see the warnings above"),
    ):
        code, errors, figures = run(what)
        assert (code, figures.scaling) == (1, [])  # so that it is measured again
        assert message in errors
    code, _, figures = run("right")
    assert code == 0
    assert {one.gflops for one in figures.scaling} == {50.0}
    assert [one.batch for one in figures.batch] == [1]
    figures.batch.clear()
    figures.write(Path("scale.json"))
    code, _, found = run("wrong")
    assert (code, found) == (1, figures)


def test_what_is_imported_for_the_first_plan_is_not_counted(monkeypatch):
    """Each step takes a second, the first time it is made ten more."""
    clock, made = [0.0], set()

    def step(name):
        clock[0] += 1.0 if name in made else 11.0
        made.add(name)

    planned = []

    def run_passes(module, passes):
        planned.append(str(module))
        step("plan")

    monkeypatch.setattr(scale, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(loading, "run_passes", run_passes)
    monkeypatch.setattr("mopt_mlir.compile", lambda module, **options: step("compile"))
    found = list(scale.measure_planning(scale.distinct_operators(2)))
    assert [(p.operators, p.plan_seconds, p.compile_seconds) for p in found] == [(2, 1.0, 1.0)] * 2
    assert not {*planned[:-2]} & {*planned[-2:]}  # else the cache would not be empty


def test_distinct_operators_are_distinct_and_always_the_same():
    operators = scale.distinct_operators(1000)
    assert len({(o.k, o.c, o.h, o.r, o.strides) for o in operators}) == 1000
    assert scale.distinct_operators(1000) == operators


def test_machines_grow_by_whole_last_caches():
    from mopt_mlir.machine import by_name

    machine = by_name("znver5").with_cores(2)
    larger = scale.larger_machine(machine, 32)
    kind = by_name("znver5")
    assert larger.cores == 32
    assert larger.dram_bandwidth_all == 4 * kind.dram_bandwidth_all
    assert scale.larger_machine(machine, 2) is machine


def test_help_is_quick_and_needs_no_compiler():
    program = (
        "import sys, benchmarks.command_line as c\n"
        "code = c.main(['run', '--help'])\n"
        "sys.exit(code or any(m in sys.modules for m in ('numpy', 'mlir', 'rich', 'llvmlite')))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "constant-weights (class B): NCHW input and output" in done.stdout
    assert command_line.PROTOCOLS in done.stdout
