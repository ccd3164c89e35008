"""mopt-run as a user meets it. No times are asserted."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.array_utils import byte_bounds

from mopt_mlir import UserError, compile, reference
from mopt_mlir.compiler.arguments import random_arguments
from mopt_mlir.compiler.lowered import lower_module
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.lowering.native import compile_module
from mopt_mlir.lowering.target import of_cpu
from mopt_mlir.machine import host
from mopt_mlir.machine.facts import observe
from mopt_mlir.machine.flushing import host_flush
from mopt_mlir.measuring import kernels, peak, running
from mopt_mlir.measuring.peak import measure_peak
from mopt_mlir.measuring.running import time_runs
from mopt_mlir.tools.mopt_run import main

DOCS = Path(__file__).resolve().parents[2] / "docs" / "embedding.md"

CONV = """
func.func @conv(%i: memref<1x4x8x8xi32, strided<[256, 64, 8, 1], offset: 4>>,
                %w: memref<2x4x3x3xi32>, %o: memref<1x2x6x6xi32>) {
  linalg.conv_2d_nchw_fchw
      {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%i, %w : memref<1x4x8x8xi32, strided<[256, 64, 8, 1], offset: 4>>, memref<2x4x3x3xi32>)
      outs(%o : memref<1x2x6x6xi32>)
  return
}
"""
MATMUL = """
func.func @matmul(%a: tensor<4x5xf64>, %b: tensor<5x6xf64>) -> tensor<4x6xf64> {
  %zero = arith.constant 0.0 : f64
  %empty = tensor.empty() : tensor<4x6xf64>
  %init = linalg.fill ins(%zero : f64) outs(%empty : tensor<4x6xf64>) -> tensor<4x6xf64>
  %0 = linalg.matmul ins(%a, %b : tensor<4x5xf64>, tensor<5x6xf64>)
      outs(%init : tensor<4x6xf64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
}
"""
HALF = """
func.func @half(%i: memref<18x18xf16>, %w: memref<3x3xf16>, %o: memref<16x16xf16>) {
  linalg.conv_2d ins(%i, %w : memref<18x18xf16>, memref<3x3xf16>) outs(%o : memref<16x16xf16>)
  return
}
"""
HUGE = """func.func @huge(%a: memref<1048576x1048576xf32>) {
  return
}
"""
BRANCH = """
func.func @branch(%a: memref<4xf32>, %c: i1) {
  cf.cond_br %c, ^then, ^end
^then:
  linalg.add ins(%a, %a : memref<4xf32>, memref<4xf32>) outs(%a : memref<4xf32>)
  cf.br ^end
^end:
  return
}
"""
DYNAMIC = "func.func @dynamic(%a: memref<?xf32>) { return }\n"


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run mopt-run on all functions above, in any order of flags; exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    Path("all.mlir").write_text(CONV + MATMUL + DYNAMIC)
    Path("none.mlir").write_text("func.func private @f()")
    Path("half.mlir").write_text(HALF)
    Path("branch.mlir").write_text(BRANCH)
    Path("huge.mlir").write_text(HUGE)
    Path("matmul.mlir").write_text(MATMUL)

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["--machine", "haswell", *argv])
        return (code, *capfd.readouterr())

    return run


def test_text_says_speed_and_error(run):
    code, text, _ = run("matmul.mlir", "--check", "--repeat", "3")
    assert code == 0
    first, second = text.splitlines()
    assert first.startswith("matmul: ")
    assert first.endswith("; median of 3, warm, 1 thread")
    assert "of peak" in first
    assert second.startswith("largest error: ")


def test_a_closed_output_is_noticed_before_anything_is_measured(tmp_path):
    (tmp_path / "wrong.mlir").write_text("this is not MLIR")
    program = "import sys; from mopt_mlir.tools.mopt_run import main; sys.exit(main())"
    command = [sys.executable, "-c", program, str(tmp_path / "wrong.mlir")]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "mopt-run: error: standard output is closed\n")


def test_json_has_it_all(run):
    code, text, _ = run("all.mlir", "--entry", "matmul", "--format", "json", "--check", "--cold")
    data = json.loads(text)
    assert code == 0
    assert (data["entry"], data["cold"], data["runs"], data["threads"]) == ("matmul", True, 10, 1)
    assert data["flops"] == 2 * 4 * 5 * 6
    assert 0 < data["seconds"]["min"] <= data["seconds"]["median"] <= data["seconds"]["max"]
    assert data["share_of_peak"] == pytest.approx(data["gflops"] / data["peak_gflops"])
    assert 0 <= data["error"]["of_bound"] <= 1
    described = DOCS.read_text()
    for key in (*data, *data["seconds"], *data["error"]):
        assert f"`{key}`" in described, key


def test_integers_and_buffers_with_gaps(run):
    code, text, warnings = run("all.mlir", "--entry", "conv", "--check", "--seed", "3")
    assert code == 0
    assert "largest error: 0.0e+00" in text
    assert "all.mlir:4:3: warning:" in warnings


def test_buffers_that_run_backwards(run):
    kind = "memref<3x1000xf32, strided<[1024, -1], offset: 999>>"
    source = f"""
      func.func @f(%a: {kind}, %b: {kind}) {{
        linalg.add ins(%a, %a : {kind}, {kind}) outs(%b : {kind})
        return
      }}"""
    Path("backwards.mlir").write_text(source)
    code, text, _ = run("backwards.mlir", "--check", "--repeat", "1")
    assert code == 0
    assert "largest error: " in text
    for argument in random_arguments(compile(source, machine="generic-avx2")["f"].entry):
        first, last = byte_bounds(argument)
        memory = argument
        while memory.base is not None:
            memory = memory.base
        assert memory.ctypes.data <= first < last <= memory.ctypes.data + memory.nbytes
        assert last - first == 4 * (2 * 1024 + 1000)


def test_random_data_does_not_overlap_itself_where_a_stride_is_open(run):
    kind = "memref<4x8xf32, strided<[1, ?]>>"
    Path("columns.mlir").write_text(f"""
      func.func @f(%a: {kind}, %b: {kind}) {{
        linalg.add ins(%a, %a : {kind}, {kind}) outs(%b : {kind})
        return
      }}""")
    code, text, _ = run("columns.mlir", "--check", "--repeat", "1")
    assert code == 0
    assert "largest error: 0.0e+00 of" in text


@pytest.mark.parametrize("layout", ["", ", strided<[-1], offset: 7>"])
def test_random_data_is_aligned_as_a_function_assumes(run, tmp_path, layout):
    source = f"""
    func.func @f(%a: memref<8xf32{layout}>, %b: memref<8xf32>) {{
      %x = memref.assume_alignment %a, 4096 : memref<8xf32{layout}>
      memref.copy %x, %b : memref<8xf32{layout}> to memref<8xf32>
      return
    }}"""
    (tmp_path / "aligned.mlir").write_text(source)
    code, text, _ = run("aligned.mlir", "--check", "--repeat", "1")
    assert code == 0
    assert "largest error: 0.0e+00 of" in text
    first, _ = random_arguments(compile(source, machine="generic-avx2")["f"].entry)
    assert first.ctypes.data % 4096 == 0


def test_tensors_that_may_be_overwritten_are_not_compared(run, tmp_path):
    (tmp_path / "in_place.mlir").write_text("""
    func.func @f(%a: tensor<8xf32> {bufferization.writable = true}) -> tensor<8xf32> {
      %one = arith.constant 1.0 : f32
      %filled = linalg.fill ins(%one : f32) outs(%a : tensor<8xf32>) -> tensor<8xf32>
      return %filled : tensor<8xf32>
    }""")
    code, text, _ = run("in_place.mlir", "--check", "--repeat", "1")
    assert code == 0
    assert "largest error: 0.0e+00 of" in text


def test_half_precision_is_compared_with_what_it_can_do(run):
    code, text, _ = run("half.mlir", "--check")
    assert code == 0
    error, share = text.splitlines()[1].split(" of ")[0], text.split(", ")[-1].split()[0]
    assert float(error.removeprefix("largest error: ")) > 1e-5
    assert 0.001 < float(share) <= 1


def test_what_depends_on_arguments_has_no_gflops(run):
    code, text, _ = run("branch.mlir", "--format", "json")
    data = json.loads(text)
    assert code == 0
    assert [data[key] for key in ("flops", "gflops", "share_of_peak")] == [None] * 3
    _, text, _ = run("branch.mlir")
    assert "GFLOP/s" not in text


def test_what_has_no_floating_point_has_none_per_second(run):
    code, text, _ = run("all.mlir", "--entry", "conv", "--format", "json")
    data = json.loads(text)
    assert code == 0
    assert [data[key] for key in ("flops", "gflops", "share_of_peak")] == [0, 0, 0]
    _, text, _ = run("all.mlir", "--entry", "conv")
    assert "GFLOP/s" not in text


def test_the_plan_is_for_the_cpu(capfd, run):
    Path("conv.mlir").write_text(CONV.replace("i32", "f32"))
    wider = ("--machine", "generic-avx512", "--cpu", "haswell")
    code = main(["conv.mlir", "--cpu", "haswell"])
    assert (code, "vectors of" in capfd.readouterr().err) == (0, False)
    code, _, warnings = run("conv.mlir", *wider)
    assert code == 0
    assert "warning: the plan is for vectors of 512 bits" in warnings
    # where nothing is planned no plan can be wrong
    code, _, warnings = run("matmul.mlir", *wider)
    assert (code, "vectors of" in warnings) == (0, False)


def test_wrong_results_are_told_and_fail(run, monkeypatch):
    honest = reference.evaluate

    def wrong(*arguments):
        outcome = honest(*arguments)
        for result in outcome.results:
            for part in result.parts:
                part += 1
        return outcome

    monkeypatch.setattr(running, "evaluate", wrong)
    code, text, errors = run("matmul.mlir", "--check")
    assert code == 1
    assert "largest error" in text
    assert "'matmul' is further from the reference than rounding can explain" in errors


@pytest.mark.parametrize("start", ["0xFF800000", "0x7FC00000"], ids=["-inf", "nan"])
@pytest.mark.parametrize("off", [0, 1])
def test_infinities_and_what_is_no_number_are_compared(run, monkeypatch, start, off):
    """A maximum from -inf on has finite results without roundings; one from NaN on has none."""
    Path("pool.mlir").write_text(f"""
      func.func @pool(%x: memref<1x6x6x8xf32>, %w: memref<3x3xf32>, %o: memref<1x4x4x8xf32>) {{
        %start = arith.constant {start} : f32
        linalg.fill ins(%start : f32) outs(%o : memref<1x4x4x8xf32>)
        linalg.pooling_nhwc_max ins(%x, %w : memref<1x6x6x8xf32>, memref<3x3xf32>)
            outs(%o : memref<1x4x4x8xf32>)
        return
      }}""")
    honest = reference.evaluate

    def wrong(*arguments):
        outcome = honest(*arguments)
        for part in outcome.arguments[-1].parts:
            part[0, 1, 2, 3] += off
        return outcome

    monkeypatch.setattr(running, "evaluate", wrong)
    code, _, errors = run("pool.mlir", "--check")
    is_wrong = off and start == "0xFF800000"  # what is added to NaN is not seen
    assert code == (1 if is_wrong else 0)
    assert ("(inf times the bound)" in errors) == bool(is_wrong)
    assert "RuntimeWarning" not in errors


def test_numbers_beyond_the_element_type_are_infinite(run):
    Path("large.mlir").write_text("""
      func.func @large(%x: tensor<8xf32>) -> tensor<8xf32> {
        %c = arith.constant dense<3.0e+38> : tensor<8xf32>
        %y = arith.mulf %x, %c : tensor<8xf32>
        %z = arith.mulf %y, %c : tensor<8xf32>
        return %z : tensor<8xf32>
      }""")
    assert run("large.mlir", "--check")[0] == 0


def test_what_the_entry_does_not_need_is_not_compiled(run, monkeypatch):
    Path("mixed.mlir").write_text("""
      func.func private @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = arith.addf %x, %x : tensor<8xf32>
        return %0 : tensor<8xf32>
      }
      func.func @doubled(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = call @twice(%x) : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
      func.func @other(%x: memref<8xf32>, %y: memref<8xf32>) {
        linalg.softmax dimension(0) ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
        return
      }""")
    code, text, errors = run("mixed.mlir", "--entry", "doubled", "--check")
    assert (code, errors) == (0, "")
    assert text.startswith("doubled: ")
    code, _, errors = run("mixed.mlir", "--entry", "other")
    assert code == 1
    way_out = "on tensors of floats MLIR can take it apart"
    assert f"'linalg.softmax' cannot be lowered to LLVM; {way_out}" in errors
    monkeypatch.setattr(running, "compile_with", None)  # this is known before
    code, _, errors = run("all.mlir", "--entry", "matmol")
    assert code == 1
    assert "no function 'matmol'; did you mean 'matmul'?" in errors


def test_integers_are_extended_before_they_are_multiplied(run):
    Path("bytes.mlir").write_text("""
      func.func @bytes(%x: memref<1x6x6x8xi8>, %o: memref<1x4x4x16xi32>) {
        %w = memref.get_global @w : memref<3x3x8x16xi8>
        linalg.conv_2d_nhwc_hwcf ins(%x, %w : memref<1x6x6x8xi8>, memref<3x3x8x16xi8>)
            outs(%o : memref<1x4x4x16xi32>)
        return
      }
      memref.global "private" constant @w : memref<3x3x8x16xi8> = dense<100>""")
    assert run("bytes.mlir", "--check")[0] == 0


def test_activations_are_compared_with_what_roundings_make_of_them(run):
    Path("silu.mlir").write_text("""
      #map = affine_map<(n, k) -> (n, k)>
      func.func @silu(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %o: memref<8x64xf32>) {
        linalg.matmul ins(%x, %w : memref<8x32xf32>, memref<32x64xf32>) outs(%o : memref<8x64xf32>)
        %one = arith.constant 1.0 : f32
        linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel"]}
            outs(%o : memref<8x64xf32>) {
        ^bb0(%a: f32):
          %0 = arith.negf %a : f32
          %1 = math.exp %0 : f32
          %2 = arith.addf %1, %one : f32
          %3 = arith.divf %a, %2 : f32
          linalg.yield %3 : f32
        }
        return
      }""")
    code, text, _ = run("silu.mlir", "--check")
    assert code == 0
    share = text.split(", ")[-1].split()[0]
    assert 0.001 < float(share) <= 1


def test_a_check_that_cannot_fail_says_so(run):
    """Sums of 576 products in f16 may be all wrong; of 9 they may not."""
    for channels, is_idle in ((64, True), (1, False)):
        types = f"tensor<1x8x8x{channels}xf16>", f"tensor<3x3x{channels}x8xf16>"
        Path("half.mlir").write_text(f"""
          func.func @sums(%x: {types[0]}, %w: {types[1]}, %o: tensor<1x6x6x8xf16>)
              -> tensor<1x6x6x8xf16> {{
            %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : {types[0]}, {types[1]})
                outs(%o : tensor<1x6x6x8xf16>) -> tensor<1x6x6x8xf16>
            return %0 : tensor<1x6x6x8xf16>
          }}""")
        code, _, errors = run("half.mlir", "--check", "--repeat", "1")
        assert code == 0
        assert ("the check of 'sums' says nothing" in errors) == is_idle


def test_json_has_no_infinities(run, monkeypatch):
    honest = reference.evaluate

    def wrong(*arguments):
        outcome = honest(*arguments)
        for result in outcome.results:
            for part in result.parts:
                part[...] = np.inf
        return outcome

    monkeypatch.setattr(running, "evaluate", wrong)
    code, text, _ = run("matmul.mlir", "--check", "--format", "json")
    assert code == 1
    assert json.loads(text)["error"] == {"relative": None, "of_bound": None}


def test_fused_multiply_adds_round(run):
    Path("fma.mlir").write_text("""
      #map = affine_map<(n) -> (n)>
      func.func @fused(%x: memref<64xf32>, %o: memref<64xf32>) {
        linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
            ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) {
        ^bb0(%a: f32, %c: f32):
          %s = math.fma %a, %a, %a : f32
          linalg.yield %s : f32
        }
        return
      }""")
    code, text, _ = run("fma.mlir", "--check")
    assert code == 0
    assert "GFLOP/s" in text


def test_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MATMUL.encode())))
    assert run("-")[0] == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["all.mlir"], "the module has 3 functions, name one with --entry: conv, matmul, dynamic"),
        (["all.mlir", "--entry", "matmull"], "no function 'matmull'; did you mean 'matmul'?"),
        (["all.mlir", "--entry", "x"], "no function 'x'; known: conv, matmul, dynamic"),
        (["all.mlir", "--entry", "dynamic"], "all.mlir:19:1: error: 'a' has the dynamic shape"),
        (["all.mlir", "--entry", "matmul", "--repeat", "0"], "repeat=0: at least one run"),
        (["all.mlir", "--entry", "conv", "--require-tiled"], "all.mlir:4:3: error: "),
        (["nowhere.mlir"], "nowhere.mlir: error: cannot read it"),
        (["matmul.mlir", "--machine", "pdp11"], "mopt-run: error: unknown machine 'pdp11'"),
        (["matmul.mlir", "--cpu", "pdp11"], "mopt-run: error: LLVM knows no CPU 'pdp11'"),
        (["matmul.mlir", "--cpu", "x86-64"], "mopt-run: error: CPU 'x86-64' has no AVX2 and FMA"),
        (["matmul.mlir", "--format", "xml"], "argument --format: invalid choice: 'xml'"),
        (["matmul.mlir", "--seed", "-1"], "mopt-run: error: seed=-1: a seed is 0 or more"),
        (["matmul.mlir", "--threads", "2000"], "mopt-run: error: threads=2000: this process may"),
        (["huge.mlir", "--check"], "error: 'huge' needs 79691776 MB of memory, "),
        (["none.mlir", "--entry", "f"], "no function 'f'; the module has none whose arguments"),
        (["none.mlir"], "none.mlir: error: the module has no function that can be run"),
        (
            ["branch.mlir", "--check"],
            "branch.mlir:2:1: error: the reference does not know what function",
        ),
        (["branch.mlir", "--check"], "; leave out --check"),
    ],
)
def test_refusals(run, argv, message):
    code, text, errors = run(*argv)
    assert (code, text) == (1, "")
    assert message in errors
    assert "Traceback" not in errors


def test_a_closed_pipe():
    program = "import sys; from mopt_mlir.tools.mopt_run import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "--machine", "haswell", "-"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    process.stdin.write(MATMUL.encode())
    process.stdin.close()
    errors = process.stderr.read().decode()
    assert process.wait() == 1
    assert "mopt-run: error: the reader closed the pipe before it had all" in errors
    assert "Traceback" not in errors


def test_the_peak_is_measured_with_the_instructions_asked_for():
    assert measure_peak("f32", cpu="haswell") > 1
    assert measure_peak("f64", threads=2) > 1
    with pytest.raises(UserError, match="LLVM knows no CPU 'pdp11'"):
        measure_peak(cpu="pdp11")


def fmas_of(name, cpu, bits):
    """The multiply-adds in the loop of a kernel in assembly, of which no other vectors are."""
    options = CompileOptions(cpu=cpu, passes="canonicalize")
    lowered = lower_module(kernels.module(bits).operation, options)
    symbols = [entry.symbol for entry in lowered.entries]
    assembly = compile_module(lowered.module, of_cpu(cpu), symbols).assembly()
    body = assembly.partition(f"\n{name}:\n")[2].partition("\n.Lfunc_end")[0]
    blocks = re.split(r"^\.LBB.*:.*$", body, flags=re.MULTILINE)
    (loop,) = (block for block in blocks if "vfmadd" in block)
    return [line for line in loop.splitlines() if "vfmadd" in line]


@pytest.mark.parametrize(
    ("cpu", "register", "bits"), [("haswell", "%ymm", 256), ("skylake-avx512", "%zmm", 512)]
)
@pytest.mark.parametrize(("element", "element_bits"), [("f32", 32), ("f64", 64)])
def test_the_peak_counts_the_operations_of_the_kernel(
    monkeypatch, cpu, register, bits, element, element_bits
):
    """Two for each lane of each multiply-add, here of rounds that take a nanosecond."""
    fmas = fmas_of(f"fma_{element}", cpu, bits)
    assert len(fmas) >= 10  # two in each of five cycles
    assert all(len(re.findall(register, fma)) == 3 for fma in fmas)

    class Team:
        def __init__(self, places):
            assert len(places) == 3

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def seconds(self, kernel, rounds, arguments):
            assert kernel == f"fma_{element} of {bits} bits for {cpu}"
            assert [len(values) for (values,) in arguments] == [bits // element_bits] * 3
            return rounds * 1e-9

    names = ("fma_f32", "fma_f64")
    monkeypatch.setattr(peak, "Team", Team)
    monkeypatch.setattr(peak, "check_runs_here", lambda _: None)
    monkeypatch.setattr(
        peak, "compiled", lambda b, c: {name: f"{name} of {b} bits for {c}" for name in names}
    )
    gigaflops = measure_peak(element, threads=3, cpu=cpu)
    assert gigaflops == pytest.approx(2 * bits / element_bits * len(fmas) * 3)


def test_runs_are_counted_and_caches_flushed_before_each():
    calls = []
    seconds = time_runs(lambda: calls.append("run"), 2, lambda: calls.append("flush"))
    assert len(seconds) == 2
    assert calls == ["flush", "run", "flush", "run"]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be pinned here")
def test_flushing_reads_on_every_core(monkeypatch):
    places = []
    monkeypatch.setattr(np, "max", lambda _: places.append(frozenset(os.sched_getaffinity(0))))
    before = os.sched_getaffinity(0)
    with host_flush() as flush:
        flush()
    assert os.sched_getaffinity(0) == before
    assert all(len(place) == 1 for place in places)
    seen = observe()
    assert seen.cores_of(cpu for place in places for cpu in place) == seen.cores_of(before)


def test_flushing_reads_more_than_the_caches_hold(monkeypatch):
    read = []
    monkeypatch.setattr(np, "max", lambda part: read.append(part.nbytes))
    with host_flush() as flush:
        flush()
    shared = [cache.size for cache in host().caches if cache.shared]
    private = [cache.size for cache in host().caches if not cache.shared]
    cores = len(observe().places)
    ballast, kept = read[: read.index(read[-1])], read[read.index(read[-1]) :]
    assert sum(ballast) > 2 * max(shared, default=0)  # each piece twice
    assert min(ballast) > max(private)
    assert min(ballast) > max(kept)  # no core reads what fits before all have read the rest
    # then what fits, several times over, for a last cache that learns what to keep
    assert len(kept) >= 4 * cores
    assert sum(kept[:cores]) < max(cache.size for cache in host().caches)


def test_what_flushes_caches_counts_as_memory_that_is_needed(run, monkeypatch):
    needed = []
    monkeypatch.setattr(running, "check_memory", lambda size, *_: needed.append(size))
    for options in ([], ["--cold"]):
        assert run("matmul.mlir", "--repeat", "1", *options)[0] == 0
    warm, cold = needed
    assert cold - warm > max(cache.size for cache in host().caches)


def test_the_peak_needs_fma():
    with pytest.raises(UserError, match="CPU 'x86-64' has no AVX2 and FMA"):
        measure_peak(cpu="x86-64")


DIGEST = """
import hashlib, sys
from mopt_mlir import compile
from mopt_mlir.compiler.arguments import random_arguments

entry = compile(sys.argv[1], machine="haswell")["matmul"].entry
for seed in (1, 1, 2):
    data = b"".join(array.tobytes() for array in random_arguments(entry, seed=seed))
    print(hashlib.sha256(data).hexdigest())
"""


def test_random_data_does_not_depend_on_the_process():
    digests = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", DIGEST, MATMUL]
        printed = subprocess.check_output(command, env=environment, text=True)
        digests.append(printed.split())
    first, again, other = digests[0]
    assert first == again != other
    assert digests[0] == digests[1]


def test_random_data_begins_at_a_cache_line():
    entry = compile(MATMUL, machine="haswell")["matmul"].entry
    assert [array.ctypes.data % 64 for array in random_arguments(entry, seed=1)] == [0, 0]


def test_which_function_is_asked_before_any_is_compiled(monkeypatch):
    monkeypatch.setattr("mopt_mlir.measuring.running.compile_with", None)
    resnet = Path(__file__).parents[2] / "examples" / "resnet18.mlir"
    with pytest.raises(UserError, match="the module has 12 functions, name one"):
        running.run_entry(resnet)
