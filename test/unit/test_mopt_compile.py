"""mopt-compile as a user meets it: files, a C program that links against them, refusals."""

import ctypes
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mopt_mlir
from mopt_mlir import UserError
from mopt_mlir.compiler.ahead_of_time import compile_to_file
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.lowering import native
from mopt_mlir.tools.mopt_compile import main

EXAMPLES = Path(__file__).parents[2] / "examples"
ADD = """
func.func @add(%class: memref<4xf32>, %sum: memref<4xf32>) {
  affine.parallel (%i) = (0) to (4) {
    %0 = affine.load %class[%i] : memref<4xf32>
    %1 = arith.addf %0, %0 : f32
    affine.store %1, %sum[%i] : memref<4xf32>
  }
  return
}
"""
WEIGHTS = """
func.func @shift(%a: tensor<3000xf32>) -> tensor<3000xf32> {
  %w = arith.constant dense_resource<w> : tensor<3000xf32>
  %0 = arith.addf %a, %w : tensor<3000xf32>
  return %0 : tensor<3000xf32>
}
func.func @dynamic(%a: tensor<?xf32>) -> (tensor<?xf32>, i8) {
  %0 = arith.addf %a, %a : tensor<?xf32>
  %1 = arith.constant 3 : i8
  return %0, %1 : tensor<?xf32>, i8
}
{-# dialect_resources: { builtin: { w: "0x04000000DATA" } } #-}
"""
WEIGHTS_VALUES = np.arange(3000, dtype=np.float32)
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


INTRINSIC = """
func.func @f(%a: memref<4xf32>) -> f32 {{
  %c = arith.constant 4.0 : f32
  %0 = llvm.call_intrinsic "{name}"(%c) : (f32) -> f32
  return %0 : f32
}}
"""


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run mopt-compile in an empty directory; exit code and standard error."""
    monkeypatch.chdir(tmp_path)
    Path("add.mlir").write_text(ADD)
    Path("weights.mlir").write_text(WEIGHTS.replace("DATA", WEIGHTS_VALUES.tobytes().hex()))

    def run(*argv: str) -> tuple[int, str]:
        code = main(argv)
        return code, capfd.readouterr().err

    return run


@pytest.mark.parametrize(
    ("suffix", "contents"),
    [
        (".o", b"\x7fELF"),
        (".s", b".globl\tadd"),
        (".ll", b"define void @add("),
        (".mlir", b"llvm.func @add("),
        pytest.param(".so", b"\x7fELF", marks=needs_cc),
    ],
)
def test_the_suffix_says_what_is_written(run, suffix, contents):
    assert run("add.mlir", "-o", f"out{suffix}", "--machine", "haswell") == (0, "")
    assert contents in Path(f"out{suffix}").read_bytes()


NETWORK = """
func.func @network(%x: tensor<1x8x10x10xf32>, %f: tensor<16x8x3x3xf32>, %g: tensor<32x16x3x3xf32>,
                   %row: tensor<1x50xf32>) -> (tensor<1x32x6x6xf32>, tensor<1x40xf32>) {
  %zero = arith.constant 0.0 : f32
  %bias = arith.constant dense_resource<bias> : tensor<32xf32>
  %0 = tensor.empty() : tensor<1x16x8x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %2 = linalg.conv_2d_nchw_fchw ins(%x, %f : tensor<1x8x10x10xf32>, tensor<16x8x3x3xf32>)
      outs(%1 : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %3 = math.expm1 %2 : tensor<1x16x8x8xf32>
  %4 = math.log1p %3 : tensor<1x16x8x8xf32>
  %5 = tensor.empty() : tensor<1x32x6x6xf32>
  %6 = linalg.broadcast ins(%bias : tensor<32xf32>) outs(%5 : tensor<1x32x6x6xf32>)
      dimensions = [0, 2, 3]
  %7 = linalg.conv_2d_nchw_fchw ins(%4, %g : tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>)
      outs(%6 : tensor<1x32x6x6xf32>) -> tensor<1x32x6x6xf32>
  %w = arith.constant dense_resource<w> : tensor<50x40xf32>
  %start = arith.constant dense<0.5> : tensor<1x40xf32>
  %8 = linalg.matmul ins(%row, %w : tensor<1x50xf32>, tensor<50x40xf32>)
      outs(%start : tensor<1x40xf32>) -> tensor<1x40xf32>
  return %7, %8 : tensor<1x32x6x6xf32>, tensor<1x40xf32>
}
{-# dialect_resources: { builtin: { bias: "0x04000000BIAS", w: "0x04000000DATA" } } #-}
"""


def written_by_processes(text, directory, suffix):
    """The bytes of two files that processes with other hash seeds, and other addresses, write."""
    (directory / "source.mlir").write_text(text)
    program = "import sys; from mopt_mlir.tools.mopt_compile import main; sys.exit(main())"
    options = ["--cpu=haswell", "--threads=2", "--no-plan-cache"]
    written = []
    for seed in ("1", "2"):
        output = directory / f"{seed}{suffix}"
        command = [sys.executable, "-c", program, "source.mlir", "-o", str(output), *options]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, cwd=directory, env=environment, check=True)
        written.append(output.read_bytes())
    return written


@pytest.mark.parametrize("suffix", [".ll", ".o"])
def test_the_code_does_not_depend_on_the_process(tmp_path, suffix):
    """Byte for byte, with plans that each finds for itself."""
    bias, w = np.arange(32, dtype=np.float32), np.arange(2000, dtype=np.float32)
    text = NETWORK.replace("BIAS", bias.tobytes().hex()).replace("DATA", w.tobytes().hex())
    first, second = written_by_processes(text, tmp_path, suffix)
    assert b"mopt_scratch" in first or suffix == ".o"
    assert first == second


def test_the_order_of_constants_does_not_depend_on_the_process(tmp_path):
    functions = (
        f"""func.func @f{number}(%a: tensor<{number}xf32>) -> tensor<{number}xf32> {{
          %w = arith.constant dense<{[float(n) for n in range(number)]}> : tensor<{number}xf32>
          %0 = arith.addf %a, %w : tensor<{number}xf32>
          return %0 : tensor<{number}xf32>
        }}"""
        for number in range(2, 12)
    )
    first, second = written_by_processes("\n".join(functions), tmp_path, ".ll")
    assert first == second


def test_an_output_whose_name_has_a_null_is_refused():
    with pytest.raises(UserError, match="cannot write it: embedded null byte"):
        compile_to_file("add.mlir", "add\0.s", CompileOptions())


@pytest.mark.parametrize("inside", ["", "func.func private @f() { return }"])
def test_an_output_that_offers_nothing_is_told(inside, run):
    Path("nothing.mlir").write_text(f"module {{ {inside} }}")
    code, errors = run("nothing.mlir", "-o", "nothing.o")
    assert code == 0
    assert "warning: there is no public function: nothing in the output can be called" in errors
    assert Path("nothing.o").exists()


def test_constants_that_nothing_uses_are_left_out(run):
    Path("unused.mlir").write_text(
        """func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
          %w = arith.constant dense<[3.25, 5.75]> : tensor<2xf32>
          %0 = arith.addf %w, %w : tensor<2xf32>
          return %a : tensor<2xf32>
        }"""
    )
    assert run("unused.mlir", "-o", "lowered.mlir") == (0, "")
    assert "mlir.global" not in Path("lowered.mlir").read_text()


@needs_cc
def test_a_c_program_calls_a_convolution(run):
    command = ["-o", "libconv.so", "--header", "conv.h", "--require-tiled"]
    assert run(str(EXAMPLES / "conv.mlir"), *command) == (0, "")
    assert "void conv(const float *input, const float *weights, float *output);" in (
        Path("conv.h").read_text()
    )
    program = [str(EXAMPLES / "call_conv.c"), "./libconv.so", "-lm", "-o", "call_conv"]
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-O1", "-I.", *program], check=True)
    done = subprocess.run(["./call_conv"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_cc
def test_a_large_variable_can_be_written_to(run):
    Path("counter.mlir").write_text(
        """memref.global "private" @count : memref<2048xi32> = dense<7>
        func.func @next() -> i32 {
          %last = arith.constant 2047 : index
          %one = arith.constant 1 : i32
          %counts = memref.get_global @count : memref<2048xi32>
          %count = memref.load %counts[%last] : memref<2048xi32>
          %sum = arith.addi %count, %one : i32
          memref.store %sum, %counts[%last] : memref<2048xi32>
          return %sum : i32
        }"""
    )
    assert run("counter.mlir", "-o", "counter.so", "--machine", "haswell") == (0, "")
    program = "import ctypes; f = ctypes.CDLL('./counter.so').next; print(f(), f())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "8 9\n", f"{done.returncode} {done.stderr}"


@needs_cc
@pytest.mark.parametrize("size", [4, 2048])
def test_variables_are_a_library_s_own(run, size):
    Path("scale.mlir").write_text(
        f"""memref.global @scale : memref<{size}xf32> = dense<2.0>
        func.func @f() -> f32 {{
          %zero = arith.constant 0 : index
          %scales = memref.get_global @scale : memref<{size}xf32>
          %first = memref.load %scales[%zero] : memref<{size}xf32>
          return %first : f32
        }}"""
    )
    assert run("scale.mlir", "-o", "scale.o", "--machine", "haswell") == (0, "")
    Path("main.c").write_text(
        "float scale[4] = {7}; float f(void); int main(void) { return 10 * f() + scale[0]; }"
    )
    subprocess.run(["cc", "main.c", "scale.o", "-o", "main"], check=True)
    assert subprocess.run(["./main"]).returncode == 27


@needs_cc
@pytest.mark.parametrize("how", ["name", "pointer"])
@pytest.mark.parametrize("type_", ["memref<4xf32>", "memref<?xf32>"])
def test_modules_call_each_other(run, type_, how):
    casts = "%p = memref.cast %a : memref<4xf32> to memref<?xf32>"
    casts += "\n%q = memref.cast %b : memref<4xf32> to memref<?xf32>"
    casts, buffers = (casts, "%p, %q") if "?" in type_ else ("", "%a, %b")
    signature = f"({type_}, {type_}) -> f32"
    call = f"call @add({buffers}) : {signature}"
    if how == "pointer":
        casts += f"\n%f = func.constant @add : {signature}"
        call = f"call @through(%f, {buffers}) : ({signature}, {type_}, {type_}) -> f32"
    Path("caller.mlir").write_text(
        f"""func.func private @add({type_}, {type_}) -> f32
        func.func private @through(%f: {signature}, %a: {type_}, %b: {type_}) -> f32 {{
          %r = call_indirect %f(%a, %b) : {signature}
          return %r : f32
        }}
        func.func @f(%a: memref<4xf32>, %b: memref<4xf32>) -> f32 {{
          {casts}
          %r = {call}
          return %r : f32
        }}"""
    )
    Path("callee.mlir").write_text(
        f"""func.func @add(%a: {type_}, %b: {type_}) -> f32 {{
          %zero = arith.constant 0 : index
          %old = memref.load %b[%zero] : {type_}
          %more = memref.load %a[%zero] : {type_}
          %new = arith.addf %old, %more : f32
          memref.store %new, %b[%zero] : {type_}
          return %more : f32
        }}"""
    )
    for name in ("caller", "callee"):
        assert run(f"{name}.mlir", "-o", f"{name}.o", "--machine", "haswell") == (0, "")
    Path("main.c").write_text(
        "float f(float *, float *);\n"
        "int main(void) { float a[4] = {1}, b[4] = {3}; int r = f(a, b); return 10 * b[0] + r; }"
    )
    subprocess.run(["cc", "main.c", "caller.o", "callee.o", "-o", "main"], check=True)
    assert subprocess.run(["./main"]).returncode == 41


def test_functions_of_other_modules_return_buffers(run):
    """Of static shape: they write them where the caller says, as their definitions do."""
    Path("caller.mlir").write_text(
        """func.func private @twice(memref<4xf32>) -> (f32, memref<4xf32>)
        func.func private @tensors(tensor<4xf32>) -> tensor<4xf32>
        func.func @f(%a: memref<4xf32>, %b: memref<4xf32>) -> f32 {
          %s, %c = call @twice(%a) : (memref<4xf32>) -> (f32, memref<4xf32>)
          %t = bufferization.to_tensor %c restrict : memref<4xf32> to tensor<4xf32>
          %u = call @tensors(%t) : (tensor<4xf32>) -> tensor<4xf32>
          bufferization.materialize_in_destination %u in restrict writable %b
              : (tensor<4xf32>, memref<4xf32>) -> ()
          return %s : f32
        }"""
    )
    Path("callee.mlir").write_text(
        """func.func @twice(%a: memref<4xf32>) -> (f32, memref<4xf32>) {
          %b = memref.alloc() : memref<4xf32>
          linalg.add ins(%a, %a : memref<4xf32>, memref<4xf32>) outs(%b : memref<4xf32>)
          %one = arith.constant 1.0 : f32
          return %one, %b : f32, memref<4xf32>
        }
        func.func @tensors(%a: tensor<4xf32>) -> tensor<4xf32> {
          %e = tensor.empty() : tensor<4xf32>
          %r = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>)
              outs(%e : tensor<4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }"""
    )
    for name in ("caller", "callee"):
        code, errors = run(f"{name}.mlir", "-o", f"{name}.o", "--machine", "haswell")
        assert (code, "error" in errors) == (0, False), errors
    Path("main.c").write_text(
        "float f(float *, float *);\n"
        "int main(void) { float a[4] = {1, 2, 3, 4}, b[4] = {0}; float s = f(a, b);\n"
        "  return 10 * b[1] + b[3] + s + 100 * (a[0] != 1); }"
    )
    subprocess.run(["cc", "main.c", "caller.o", "callee.o", "-o", "main"], check=True)
    assert subprocess.run(["./main"]).returncode == 97


@pytest.mark.parametrize(("type_", "given", "seen"), [("i1", 6, 0), ("i8", 200, -56 % 256)])
def test_narrow_integers_are_extended_for_other_functions(run, type_, given, seen):
    """As the calling convention has it: callees look at all of an int."""
    Path("caller.mlir").write_text(
        f"""func.func private @g({type_}) -> i32
        func.func @f(%x: i32) -> i32 {{
          %narrow = arith.trunci %x : i32 to {type_}
          %r = call @g(%narrow) : ({type_}) -> i32
          return %r : i32
        }}"""
    )
    assert run("caller.mlir", "-o", "caller.o", "--machine", "haswell") == (0, "")
    Path("main.c").write_text(
        "int f(int); int g(int x) { return x; }\n"
        f"int main(void) {{ return f({given} + 256) & 255; }}"
    )
    subprocess.run(["cc", "-O2", "main.c", "caller.o", "-o", "main"], check=True)
    assert subprocess.run(["./main"]).returncode == seen


def test_buffers_of_dynamic_shape_from_elsewhere_are_refused(run):
    Path("caller.mlir").write_text(
        """func.func private @g() -> memref<?xf32>
        func.func @f(%b: memref<4xf32>) {
          %c = call @g() : () -> memref<?xf32>
          %d = memref.cast %c : memref<?xf32> to memref<4xf32>
          memref.copy %d, %b : memref<4xf32> to memref<4xf32>
          return
        }"""
    )
    code, errors = run("caller.mlir", "-o", "caller.o", "--machine", "haswell")
    assert code == 1
    assert (
        "caller.mlir:1:1: error: @g is defined elsewhere, and it is not known who frees" in errors
    )


@pytest.mark.parametrize(("element", "zero"), [("f32", "0.0"), ("i32", "0")])
def test_zeros_are_not_written_out(run, monkeypatch, element, zero):
    monkeypatch.setattr(native, "_definition", None)
    Path("zeros.mlir").write_text(
        f"""memref.global "private" @v : memref<1048576x{element}> = dense<{zero}>
        func.func @f(%i: index, %new: {element}) -> {element} {{
          %v = memref.get_global @v : memref<1048576x{element}>
          %x = memref.load %v[%i] : memref<1048576x{element}>
          memref.store %new, %v[%i] : memref<1048576x{element}>
          return %x : {element}
        }}"""
    )
    assert run("zeros.mlir", "-o", "zeros.ll", "--machine", "haswell") == (0, "")
    assert "zeroinitializer" in Path("zeros.ll").read_text()


@needs_cc
def test_weights_that_are_packed_are_shipped_once(run):
    values = np.arange(64 * 32 * 9, dtype=np.float32)
    Path("conv.mlir").write_text(f"""
        memref.global "private" constant @weights : memref<64x32x3x3xf32> = dense_resource<w>
        func.func @conv(%image: memref<1x32x10x10xf32>, %output: memref<1x64x8x8xf32>) {{
          %weights = memref.get_global @weights : memref<64x32x3x3xf32>
          linalg.conv_2d_nchw_fchw
              ins(%image, %weights : memref<1x32x10x10xf32>, memref<64x32x3x3xf32>)
              outs(%output : memref<1x64x8x8xf32>)
          return
        }}
        {{-# dialect_resources: {{ builtin: {{ w: "0x04000000{values.tobytes().hex()}" }} }} #-}}
    """)
    assert run("conv.mlir", "-o", "conv.o", "--machine", "haswell") == (0, "")
    assert values.nbytes < Path("conv.o").stat().st_size < 1.5 * values.nbytes


def test_constants_and_openmp_in_a_shared_library(run):
    assert run("weights.mlir", "-o", "weights.so", "--machine", "haswell")[0] == 0
    shift = ctypes.CDLL("./weights.so").shift
    a, out = np.ones(3000, np.float32), np.zeros(3000, np.float32)
    shift(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(out.ctypes.data))
    np.testing.assert_array_equal(out, 1 + WEIGHTS_VALUES)

    assert run("add.mlir", "-o", "add.so", "--threads", "2", "--machine", "haswell")[0] == 0
    program = (
        "import ctypes; f = ctypes.CDLL('./add.so').add; a = (ctypes.c_float * 8)(1, 2, 3, 4); "
    )
    program += "f(a, ctypes.byref(a, 16)); print(list(a[4:]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[2.0, 4.0, 6.0, 8.0]\n", done.stderr


@needs_cc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_headers_compile_alone_twice_and_together(run, language):
    run("add.mlir", "-o", "add.ll", "--header", "add.h", "--machine", "haswell")
    run("weights.mlir", "-o", "weights.ll", "--header", "0-weights.h", "--machine", "haswell")
    assert "void add(const float *class_, float *sum);" in Path("add.h").read_text()
    assert "add: f32" not in Path("add.h").read_text()
    text = Path("0-weights.h").read_text()
    assert "void shift(const float *a, float *result);" in text
    assert "a: f32[3000], read" in text
    assert "void _mlir_ciface_dynamic(dynamic_results *results, const mopt_memref_1 *a);" in text
    Path("all.c").write_text('#include "add.h"\n#include "0-weights.h"\n#include "add.h"\n')
    command = ["cc", "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "all.c"]
    subprocess.run(command, check=True)


@needs_cc
def test_headers_of_one_name_do_not_hide_each_other(run):
    for directory, source in (("one", "add"), ("two", "weights")):
        Path(directory).mkdir()
        header = f"{directory}/conv\u00b2.h"
        run(f"{source}.mlir", "-o", f"{directory}/a.ll", "--header", header, "--machine", "haswell")
        assert Path(header).read_text().isascii()
    includes = '#include "one/conv\u00b2.h"\n#include "two/conv\u00b2.h"\n'
    Path("all.c").write_text(f"{includes}void *both[] = {{(void *)add, (void *)shift}};\n")
    subprocess.run(["cc", "-Werror", "-fsyntax-only", "all.c"], check=True)


def test_headers_say_what_alignment_is_assumed(run, tmp_path):
    text = """
    func.func @f(%a: memref<64xf32>, %b: memref<64xf32>) {
      %x = memref.assume_alignment %a, 64 : memref<64xf32>
      memref.copy %x, %b : memref<64xf32> to memref<64xf32>
      return
    }"""
    (tmp_path / "aligned.mlir").write_text(text)
    run("aligned.mlir", "-o", "aligned.ll", "--header", "aligned.h", "--machine", "haswell")
    header = (tmp_path / "aligned.h").read_text()
    assert "a: f32[64], at a multiple of 64 bytes, read\n" in header
    assert "b: f32[64], written\n" in header


@needs_cc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_names_in_headers_are_those_of_c_and_unique(run, language):
    buffer = "memref<1xf32>"
    names = ("%a.b", "%a_b", "%a$b", "%results", "%result0", "%int", "%-x", "%0")
    names += (
        "%mopt_memref_1",
        "%int64_t",
        "%static_assert",
        "%bitand",
        "%_Bool",
        "%linux",
        "%SIZE_MAX",
        "%__LINE__",
    )
    Path("names.mlir").write_text(
        f"func.func @f({', '.join(f'{name}: {buffer}' for name in names)}, %y: memref<?xf32>)\n"
        "    -> (f32, f32) {\n  %z = arith.constant 1.0 : f32\n  return %z, %z : f32, f32\n}\n"
        f"func.func @g({', '.join(f'{name}: {buffer}' for name in names)}) {{ return }}\n"
        "func.func @double(%x: f32) { return }\n"
        "func.func @main(%x: f32) { return }\n"
        "func.func @int8_t(%x: f32) { return }\n"
        "func.func @f_results(%x: f32) { return }\n"
        "func.func @mopt_memref_1(%x: f32) { return }\n"
        "func.func @INT8_MAX(%x: f32) { return }\n"
        "func.func @int_fast8_t(%x: f32) { return }\n"
        "func.func @NAMES_H(%x: f32) { return }\n"
        'func.func @"2f"(%y: memref<?xf32>) -> (f32, f32) {\n  %z = arith.constant 1.0 : f32\n'
        "  return %z, %z : f32, f32\n}\n"
        "func.func @_2f(%y: memref<?xf32>) -> (f32, f32) {\n  %z = arith.constant 1.0 : f32\n"
        "  return %z, %z : f32, f32\n}\n"
        'func.func @"a*/ (b"(%x: f32) { return }\n'
    )
    assert run("names.mlir", "-o", "names.o", "--header", "names.h", "--machine", "haswell")[0] == 0
    Path("main.c").write_text('#include "names.h"\nint main(void) { return 0; }\n')
    command = ["cc", "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "main.c"]
    subprocess.run(command, check=True)


def test_names_of_files_may_be_as_long_as_the_system_takes(run):
    name = "a" * 253 + ".s"
    assert run("add.mlir", "-o", name, "--machine", "haswell") == (0, "")
    assert Path(name).exists()


def test_names_of_files_need_not_be_utf_8(run):
    name = os.fsdecode(b"add\xff")
    argv = [f"{name}.mlir", "-o", f"{name}.s", "--header", f"{name}.h", "--machine", "haswell"]
    Path(f"{name}.mlir").write_text(ADD)
    assert run(*argv) == (0, "")
    assert Path(f"{name}.s").exists()
    Path(f"{name}.mlir").write_text("}")
    assert run(*argv)[1].startswith("add\\udcff.mlir:1:1: error: ")


def test_code_for_another_cpu(run):
    assert run("add.mlir", "-o", "a.ll", "--machine", "haswell", "--cpu", "skylake-avx512")[0] == 0
    assert run("add.mlir", "-o", "a.ll", "--machine", "haswell", "--cpu", "skylake")[0] == 0
    code, message = run("add.mlir", "-o", "b.ll", "--cpu", "skylake-avx513")
    assert code == 1
    assert (
        "mopt-compile: error: LLVM knows no CPU 'skylake-avx513'; did you mean skylake" in message
    )
    assert not Path("b.ll").exists()


def test_the_plan_is_for_the_cpu(run):
    conv = str(EXAMPLES / "conv.mlir")
    assert run(conv, "-o", "conv.s", "--cpu", "haswell") == (0, "")
    assembly = Path("conv.s").read_text()
    assert "ymm" in assembly
    assert "zmm" not in assembly
    stores = [line for line in assembly.splitlines() if "(%rsp)" in line and "vmovups" in line]
    assert not stores  # of accumulators that a plan for wider vectors would spill


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere.mlir", "-o", "a.o"], "nowhere.mlir: error: cannot read it: No such file"),
        (
            ["add.mlir"],
            "the following arguments are required: -o/--output; see mopt-compile --help",
        ),
        (
            ["add.mlir", "-o", "a.exe"],
            "'a.exe' has none of the known suffixes: .so (shared library)",
        ),
        (["add.mlir", "-o", "no/a.o"], "no/a.o: error: cannot write it: there is no directory"),
        (["add.mlir", "-o", "a.o", "--header", "no/a.h"], "no/a.h: error: cannot write it"),
        (
            ["add.mlir", "-o", "a.s", "--header", "./a.s"],
            "a.s: error: the header would overwrite the output; give it another name",
        ),
        (["add.mlir", "-o", "./add.mlir"], "./add.mlir: error: it would overwrite the input; give"),
        (["add.mlir", "-o", "link.mlir"], "link.mlir: error: it would overwrite the input; give"),
        (
            ["add.mlir", "-o", "a.o", "--header", "add.mlir"],
            "add.mlir: error: it would overwrite the input; give the output another name",
        ),
        (["damaged.mlirbc", "-o", "a.o"], "damaged.mlirbc: error: "),
        (["add.mlir", "-o", "a.o", "--machine", "pdp11"], "error: unknown machine 'pdp11'; known:"),
        (["add.mlir", "-o", "a.o", "--threads", "0"], "threads=0: at least one thread is needed"),
        (["add.mlir", "-o", "a.o", "--threads", "x"], "argument --threads: invalid int value: 'x'"),
        (
            ["add.mlir", "-o", "a.o", "--threads", "9", "--machine", "znver5"],
            "add.mlir: error: threads=9: machine 'znver5' has 8 cores",
        ),
        (["add.mlir", "-o", "a.o", "--cpu", "x86-64"], "error: CPU 'x86-64' has no AVX2 and FMA"),
        (["add.mlir", "-o", "a.o", "--machine", "x.toml"], "x.toml: error: cannot read the machin"),
        (["add.mlir", "-o", "a.o", "--fast"], "unrecognized arguments: --fast; see mopt-compile"),
        (
            ["add.mlir", "-o", "a.o", "--machin=znver5"],  # no abbreviations
            "unrecognized arguments: --machin=znver5; did you mean '--machine'?",
        ),
        (["bad.mlir", "-o", "a.o", "--header", "a.h"], "bad.mlir:1:16: error: "),
        (["conv.mlir", "-o", "a.o", "--require-tiled"], "conv.mlir:2:3: error: 'linalg.matmul' is"),
        (["no.mlir", "-o", "a.o"], 'no.mlir:4:8: error: could not find LLVM intrinsic: "llvm.no"'),
        (["opaque.mlir", "-o", "a.o"], "opaque.mlir:1:1: error: LLVM does not take what is said"),
        (["zero.mlir", "-o", "a.o"], "error: LLVM does not take what the module says to it: LLVM"),
    ],
)
def test_refusals(run, argv, message):
    Path("damaged.mlirbc").write_bytes(b"ML\xefR\x06damaged")
    Path("link.mlir").symlink_to("add.mlir")
    Path("bad.mlir").write_text("func.func @f() {\n}}\n")
    Path("conv.mlir").write_text(
        "func.func @f(%a: memref<4x4xi8>) {\n"
        "  linalg.matmul ins(%a, %a : memref<4x4xi8>, memref<4x4xi8>) outs(%a : memref<4x4xi8>)\n"
        "  return\n}\n"
    )
    Path("no.mlir").write_text(INTRINSIC.format(name="llvm.no"))
    of_pointer = "llvm.func @f(%p: !llvm.ptr {{{}}}) {{\n  llvm.return\n}}\n"
    opaque = of_pointer.format('llvm.byval = !llvm.struct<"no body", opaque>')
    Path("opaque.mlir").write_text(opaque)
    Path("zero.mlir").write_text(of_pointer.format("llvm.dereferenceable = 0 : i64"))
    before = sorted(os.listdir())
    code, errors = run(*argv)
    assert code == 1
    assert message in errors
    assert "Traceback" not in errors
    assert sorted(os.listdir()) == before
    assert Path("add.mlir").read_text() == ADD


def test_intrinsics_of_llvm_are_called_by_name(run):
    Path("sqrt.mlir").write_text(INTRINSIC.format(name="llvm.sqrt"))
    assert run("sqrt.mlir", "-o", "a.ll") == (0, "")
    assert "float 2.0" in Path("a.ll").read_text()


def test_attributes_for_llvm_are_handed_on(run):
    text = "func.func @f(%p: memref<4xf32> {llvm.noalias}) -> () {\n  return\n}\n"
    Path("noalias.mlir").write_text(text)
    assert run("noalias.mlir", "-o", "a.ll") == (0, "")
    assert "noalias" in Path("a.ll").read_text()


def test_a_missing_compiler_says_what_to_do(run, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    code, message = run("add.mlir", "-o", "add.so", "--machine", "haswell")
    assert code == 1
    assert "a shared library needs a C compiler, but there is none (no-such-compiler)" in message
    assert not Path("add.so").exists()


def test_a_missing_compiler_is_told_before_anything_is_planned(run, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr("mopt_mlir.compiler.ahead_of_time.lower_source", None)
    code, errors = run("add.mlir", "-o", "add.so")
    assert code == 1
    assert "a shared library needs a C compiler" in errors


def test_a_compiler_whose_quotes_are_not_closed(run, monkeypatch):
    monkeypatch.setenv("CC", "'cc")
    code, message = run("add.mlir", "-o", "add.so", "--machine", "haswell")
    assert (code, message) == (
        1,
        "mopt-compile: error: CC='cc is no command: no closing quotation; set CC to a C compiler, "
        "such as cc\n",
    )
    assert not Path("add.so").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "'CC' cannot be run: Exec format error; set CC to a C compiler, such as cc"),
        (
            "#!/bin/sh\n",
            "'CC' did not write the shared library; set CC to a C compiler, such as cc",
        ),
        ("#!/bin/sh\nprintf '\\377' >&2\nexit 1\n", "'CC' cannot link the shared library: \ufffd"),
    ],
)
def test_what_is_no_compiler_is_told(run, monkeypatch, tmp_path, script, message):
    compiler = tmp_path / "my-cc"
    compiler.write_text(script or "no program")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    code, errors = run("add.mlir", "-o", "add.so", "--machine", "haswell")
    assert (code, errors) == (
        1,
        f"mopt-compile: error: {message.replace('CC', str(compiler), 1)}\n",
    )
    assert not Path("add.so").exists()


def test_a_process_that_is_told_to_end_while_it_links_leaves_no_temporary_file(tmp_path):
    compiler, room = tmp_path / "my-cc", tmp_path / "room"
    compiler.write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 60\n")  # not waited for
    compiler.chmod(0o755)
    room.mkdir()
    (tmp_path / "add.mlir").write_text(ADD)
    program = "import sys; from mopt_mlir.tools.mopt_compile import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "add.mlir", "-o", "add.so", "--machine", "haswell"],
        cwd=tmp_path,
        env={**os.environ, "CC": str(compiler), "TMPDIR": str(room)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, b"")
    assert list(room.iterdir()) == []


@needs_cc
def test_what_cannot_be_linked_is_refused(run):
    Path("call.mlir").write_text(
        "func.func private @nowhere()\n"
        "func.func @f() {\n  call @nowhere() : () -> ()\n  return\n}\n"
    )
    code, message = run("call.mlir", "-o", "call.so", "--machine", "haswell")
    assert code == 1
    assert "'cc' cannot link the shared library" in message
    assert "nowhere" in message
    assert not Path("call.so").exists()


@pytest.mark.parametrize(
    ("option", "printed"), [("--help", "usage: mopt-compile"), ("--version", "mopt-mlir 0.1")]
)
def test_help_and_version_load_nothing_heavy(option, printed):
    program = (
        f"import sys; from mopt_mlir.tools.mopt_compile import main; main(['{option}']); "
        "print({'mlir', 'numpy', 'llvmlite', 'pyscipopt', 'rich'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith(printed)
    assert done.stdout.endswith("set()\n")


def test_the_version_of_the_package():
    assert mopt_mlir.__version__ == importlib.metadata.version("mopt-mlir")


@pytest.mark.parametrize("name", ["@inner", ""])
def test_functions_in_a_module_inside_are_warned_of(run, name):
    Path("nested.mlir").write_text(f"module @outer {{ module {name} {{ {ADD} }} }}")
    code, errors = run("nested.mlir", "-o", "nested.o")
    assert code == 0
    assert errors == (
        "nested.mlir:2:1: warning: @add cannot be called from C: it is in a module of its own\n"
        "warning: there is no public function: nothing in the output can be called\n"
    )
