"""mopt_mlir.compile: sources, arguments, refusals. The code itself is tested elsewhere."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from plain_convolution import close, convolve

import mopt_mlir
from mopt_mlir import UserError
from mopt_mlir.bindings import bindings
from mopt_mlir.diagnostics import Diagnostic, sink
from mopt_mlir.linalg import decomposition
from mopt_mlir.lowering import conventions
from mopt_mlir.lowering.entries import annotate_entries
from mopt_mlir.pipeline.loading import load_module

DOCS = Path(__file__).resolve().parents[2] / "docs" / "embedding.md"

F32 = np.float32

ADD = """
func.func @add(%left: memref<2x3xf32>, %right: memref<2x3xf32>, %sum: memref<2x3xf32>) {
  affine.for %i = 0 to 2 {
    affine.for %j = 0 to 3 {
      %0 = affine.load %left[%i, %j] : memref<2x3xf32>
      %1 = affine.load %right[%i, %j] : memref<2x3xf32>
      %2 = arith.addf %0, %1 : f32
      affine.store %2, %sum[%i, %j] : memref<2x3xf32>
    }
  }
  return
}
"""
DOUBLE = """
func.func @double(%values: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %values, %values : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
STRIDED = """
func.func @first(%rows: memref<3x2xf32, strided<[?, 1], offset: 4>>, %out: memref<3xf32>) {
  affine.for %i = 0 to 3 {
    %0 = affine.load %rows[%i, 0] : memref<3x2xf32, strided<[?, 1], offset: 4>>
    affine.store %0, %out[%i] : memref<3xf32>
  }
  return
}
"""
CONV = """
func.func @conv(%i: memref<1x4x10x10xi32>, %w: memref<8x4x3x3xi32>, %o: memref<1x8x8x8xi32>) {
  linalg.conv_2d_nchw_fchw
      {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%i, %w : memref<1x4x10x10xi32>, memref<8x4x3x3xi32>) outs(%o : memref<1x8x8x8xi32>)
  return
}
"""


@pytest.fixture(scope="module")
def add():
    return mopt_mlir.compile(ADD, passes="")["add"]


@pytest.fixture(scope="module")
def double():
    return mopt_mlir.compile(DOUBLE, passes="")["double"]


@pytest.fixture
def arrays():
    left = np.arange(6, dtype=F32).reshape(2, 3)
    return left, np.ones((2, 3), F32), np.zeros((2, 3), F32)


class Exporter:
    """Exports an array through DLPack, and in no other way."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class OldExporter(Exporter):
    """Knows DLPack from before it could say that memory is read-only."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


def test_buffers_are_written_in_place(add, arrays):
    left, right, total = arrays
    assert add(left, right, total) is None
    np.testing.assert_array_equal(total, left + right)


def test_tensors_are_returned(double):
    values = np.arange(4, dtype=F32)
    first, second = double(values), double(values + 1)
    np.testing.assert_array_equal(first, 2 * values)
    np.testing.assert_array_equal(second, 2 * values + 2)


def test_a_result_can_go_into_a_given_array(double):
    out = np.zeros(4, F32)
    assert double(np.ones(4, F32), out=out) is out
    assert out.tolist() == [2, 2, 2, 2]
    with pytest.raises(TypeError, match="it has 1 tensor results, but out has 2 arrays"):
        double(np.ones(4, F32), out=[out, out])


@pytest.mark.parametrize("exporter", [Exporter, OldExporter])
def test_dlpack(add, arrays, exporter):
    add(*map(exporter, arrays))
    np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])


def test_dlpack_that_does_not_fit(add, arrays):
    left, right, total = arrays
    with pytest.raises(TypeError, match="'right': the data is not in the memory of the CPU"):
        add(left, Exporter(right, device=(2, 0)), total)
    total.flags.writeable = False
    with pytest.raises(ValueError, match="'sum': the function writes to it, but it is read-only"):
        add(left, right, Exporter(total))


def test_arguments_that_do_not_fit(add, arrays):
    left, right, total = arrays
    unaligned = np.zeros(25, np.uint8)[1:].view(F32).reshape(2, 3)
    read_only = total.copy()
    read_only.flags.writeable = False
    for arguments, error, message in [
        ((left, right), TypeError, r"add: expected 3 arguments \(left, right, sum\), got 2"),
        ((left, [1], total), TypeError, "add: argument 'right': expected a numpy array .* list"),
        ((left, right.astype(float), total), TypeError, "'right': expected elements of float32"),
        ((left, right[:1], total), ValueError, r"'right': expected shape \(2, 3\), got \(1, 3\)"),
        ((left, right.ravel(), total), ValueError, r"expected shape \(2, 3\), got \(6,\)"),
        ((np.asfortranarray(left), right, total), ValueError, "'left': expected a dense row-major"),
        ((left, right, read_only), ValueError, "'sum': the function writes to it"),
        ((unaligned, right, total), ValueError, "'left': its address .* multiple of 4 bytes"),
        ((left, total, total), ValueError, "'sum' is written to and overlaps 'right'"),
    ]:
        with pytest.raises(error, match=message):
            add(*arguments)
    assert not total.any()


def test_what_is_only_read_may_be_read_only_and_shared(add, arrays):
    left, _, total = arrays
    left.flags.writeable = False
    add(left, left, total)
    np.testing.assert_array_equal(total, 2 * left)


def test_interleaved_arrays_do_not_overlap(add, arrays):
    function = mopt_mlir.compile(
        STRIDED.replace("memref<3xf32>", "memref<3xf32, strided<[4]>>"), passes=""
    )["first"]
    memory = np.arange(12, dtype=F32).reshape(3, 4)
    function(memory[:, :2], memory[:, 3])
    assert memory[:, 3].tolist() == [0, 4, 8]
    with pytest.raises(ValueError, match="'out' is written to and overlaps 'rows'"):
        function(memory[:, :2], memory[:, 1])


def test_memory_in_front_of_the_first_element_counts():
    dynamic = "memref<3xf32, strided<[?], offset: ?>>"
    function = mopt_mlir.compile(
        f"""func.func @copy(%a: {dynamic}, %b: {dynamic}) {{
          memref.copy %a, %b : {dynamic} to {dynamic}
          return
        }}""",
        passes="",
    )["copy"]
    memory = np.arange(8, dtype=F32)
    backwards = memory[4:1:-1]  # 4, 3, 2
    function(backwards, memory[5:])
    assert memory.tolist() == [0, 1, 2, 3, 4, 4, 3, 2]
    with pytest.raises(ValueError, match="'b' is written to and overlaps 'a'"):
        function(backwards, memory[:3])
    with pytest.raises(ValueError, match="'b' is written to and overlaps 'a'"):
        function(memory[:3], backwards)


def test_memory_of_arrays_that_may_begin_anywhere_in_theirs_is_compared():
    layout = "memref<4x8xf32, strided<[8, 1], offset: ?>>"
    function = mopt_mlir.compile(
        f"""func.func @copy(%a: {layout}, %b: {layout}) {{
          memref.copy %a, %b : {layout} to {layout}
          return
        }}""",
        passes="",
    )["copy"]
    memory = np.arange(64, dtype=F32).reshape(8, 8)
    for start in (0, 3):
        with pytest.raises(ValueError, match="'b' is written to and overlaps 'a'"):
            function(memory[:4], memory[start : start + 4])
    function(memory[:4], memory[4:])
    np.testing.assert_array_equal(memory[4:], memory[:4])


def test_what_is_written_to_has_memory_for_each_element():
    dynamic = "memref<2x3xf32, strided<[?, ?], offset: ?>>"
    function = mopt_mlir.compile(
        f"""func.func @copy(%a: {dynamic}, %b: {dynamic}) {{
          memref.copy %a, %b : {dynamic} to {dynamic}
          return
        }}""",
        passes="",
    )["copy"]
    source, memory = np.arange(6, dtype=F32).reshape(2, 3), np.zeros(12, F32)
    for strides in ((12, 4), (4, 8), (24, -8)):
        target = np.lib.stride_tricks.as_strided(memory[4:], (2, 3), strides)
        function(source, target)
        np.testing.assert_array_equal(target, source)
    for strides in ((0, 4), (4, 4), (8, 4)):
        target = np.lib.stride_tricks.as_strided(memory, (2, 3), strides)
        with pytest.raises(ValueError, match=r"'b': .* elements share memory"):
            function(source, target)
    function(np.broadcast_to(source[:1], (2, 3)), memory[:6].reshape(2, 3))
    assert memory[:6].tolist() == [0, 1, 2, 0, 1, 2]


def test_a_type_whose_elements_share_memory_is_only_read():
    shared = "memref<2x3xf32, strided<[1, 1]>>"
    module = mopt_mlir.compile(
        f"""func.func @read(%a: {shared}, %b: memref<2x3xf32>) {{
          memref.copy %a, %b : {shared} to memref<2x3xf32>
          return
        }}
        func.func @write(%a: memref<2x3xf32>, %b: {shared}) {{
          memref.copy %a, %b : memref<2x3xf32> to {shared}
          return
        }}""",
        passes="",
    )
    array = np.lib.stride_tricks.as_strided(np.arange(4, dtype=F32), (2, 3), (4, 4))
    module["read"](array, dense := np.zeros((2, 3), F32))
    assert dense.tolist() == [[0, 1, 2], [1, 2, 3]]
    with pytest.raises(ValueError, match=r"'b': .* elements share memory"):
        module["write"](dense, array)


def test_elements_may_lie_between_each_other():
    between = "memref<3x2xf32, strided<[2, 3]>>"
    module = mopt_mlir.compile(
        f"""func.func @write(%a: memref<3x2xf32>, %b: {between}) {{
          memref.copy %a, %b : memref<3x2xf32> to {between}
          return
        }}""",
        passes="",
    )
    memory, source = np.zeros(8, F32), np.arange(6, dtype=F32).reshape(3, 2)
    array = np.lib.stride_tricks.as_strided(memory, (3, 2), (8, 12))
    module["write"](source, array)
    assert memory.tolist() == [0, 0, 2, 1, 4, 3, 0, 5]


def test_a_buffer_may_begin_far_in_front_of_its_first_element():
    far = "memref<3xf32, strided<[1], offset: 40000000000000>>"
    module = mopt_mlir.compile(
        f"""func.func @pointers(%a: {far}, %b: memref<3xf32>) {{
          memref.copy %a, %b : {far} to memref<3xf32>
          return
        }}
        func.func @descriptors(%a: {far}, %b: memref<?xf32>) {{
          memref.copy %a, %b : {far} to memref<?xf32>
          return
        }}""",
        passes="",
    )
    for name in ("pointers", "descriptors"):
        module[name](np.arange(3, dtype=F32), result := np.zeros(3, F32))
        assert result.tolist() == [0, 1, 2]


def test_strides_must_be_those_of_the_type():
    function = mopt_mlir.compile(STRIDED, passes="")["first"]
    memory, out = np.arange(40, dtype=F32).reshape(4, 10), np.zeros(3, F32)
    function(memory[1:, 3:5], out)
    assert out.tolist() == [13, 23, 33]
    with pytest.raises(ValueError, match=r"expected strides of \(\?, 4\) bytes, got \(40, 8\)"):
        function(memory[1:, 3:7:2], out)


def test_strides_of_axes_with_one_element_are_free():
    function = mopt_mlir.compile(ADD.replace("2x3", "1x3").replace("0 to 2", "0 to 1"), passes="")
    left, total = np.arange(6, dtype=F32).reshape(2, 3)[1:], np.zeros((1, 3), F32)
    function["add"](left[::-1], left, total)
    assert total.tolist() == [[6, 8, 10]]


def test_strides_of_open_types_are_whole_elements_where_they_matter():
    kind = "memref<?xf32, strided<[?]>>"
    text = f"""func.func @f(%a: {kind}) -> f32 {{
      %i = arith.constant 0 : index
      %0 = memref.load %a[%i] : {kind}
      return %0 : f32
    }}"""
    function = mopt_mlir.compile(text, passes="")["f"]
    numbers = np.array([(1.5, 0), (2.5, 0)], [("number", F32), ("byte", np.int8)])["number"]
    assert function(numbers[:1]) == 1.5
    with pytest.raises(ValueError, match="a stride of 5 bytes is not a whole number of elements"):
        function(numbers)


def test_dynamic_shapes_are_dense_unless_they_say_otherwise():
    function = mopt_mlir.compile(
        """func.func @f(%a: memref<?x?xf32>, %b: memref<?x?xf32>) {
          memref.copy %a, %b : memref<?x?xf32> to memref<?x?xf32>
          return
        }""",
        passes="",
    )["f"]
    a, b = np.arange(6, dtype=F32).reshape(2, 3), np.zeros((2, 3), F32)
    function(a, b)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="'a': expected a dense row-major array"):
        function(a.T, b)
    with pytest.raises(ValueError, match=r"'b': expected shape \(\?, \?\), got \(6,\)"):
        function(a, b.ravel())


@pytest.mark.parametrize(
    "layout", ["", ", strided<[4, 1], offset: 0>", ", strided<[-3, 1], offset: ?>"]
)
def test_results_begin_with_a_cache_line(layout):
    buffer = f"memref<5x3xf32{layout}>"
    function = mopt_mlir.compile(
        f"""func.func @same(%a: {buffer}) -> {buffer} {{
          return %a : {buffer}
        }}""",
        passes="",
    )["same"]
    strides = (-12, 4) if "-3" in layout else (16, 4) if layout else (12, 4)
    first = 12 if "-3" in layout else 0
    given = np.lib.stride_tricks.as_strided(np.arange(32, dtype=F32)[first:], (5, 3), strides)
    results = [function(given) for _ in range(8)]
    assert {result.ctypes.data % 64 for result in results} == {0}
    for result in results:
        np.testing.assert_array_equal(result, given)


def test_empty_arrays():
    function = mopt_mlir.compile(DOUBLE.replace("4xf32", "?xf32"), passes="")["double"]
    assert function(np.zeros(0, F32)).shape == (0,)


def test_scalars():
    function = mopt_mlir.compile(
        """func.func @f(%x: f32, %n: i8, %flag: i1, %i: index, %out: memref<1xf64>) -> i8 {
          %0 = arith.extf %x : f32 to f64
          affine.store %0, %out[0] : memref<1xf64>
          return %n : i8
        }""",
        passes="",
    )["f"]
    out = np.zeros(1)
    assert function(np.float64(2.5), np.int64(-3), np.bool_(True), 4, out) == -3
    assert out[0] == 2.5
    for arguments, error, message in [
        (("x", 0, 0, 0, out), TypeError, "f: argument 'x': expected a number, got str"),
        ((0, 1.5, 0, 0, out), TypeError, "'n': expected an integer, got float"),
        ((0, 128, 0, 0, out), ValueError, "'n': 128 does not fit i8"),
        ((10**400, 0, 0, 0, out), ValueError, "'x': it is too large for f32"),
        ((-1e40, 0, 0, 0, out), ValueError, "'x': it is too large for f32"),
    ]:
        with pytest.raises(error, match=message):
            function(*arguments)


@pytest.mark.parametrize("layout", ["", ", strided<[?]>"])
def test_scalars_without_results(layout):
    out = f"memref<1xf32{layout}>"
    function = mopt_mlir.compile(
        f"""func.func @store(%out: {out}, %x: f32) {{
          affine.store %x, %out[0] : {out}
          return
        }}""",
        passes="",
    )["store"]
    stored = np.zeros(1, F32)
    assert function(stored, 2.5) is None
    assert stored[0] == 2.5


def test_an_unknown_function_is_refused_with_the_known_ones():
    executable = mopt_mlir.compile(ADD + DOUBLE, passes="")
    assert [entry.name for entry in executable.entries] == ["add", "double"]
    assert (list(executable), len(executable)) == (["add", "double"], 2)
    assert "add" in executable
    with pytest.raises(UserError, match="no function 'ad'; did you mean 'add'"):
        executable["ad"]
    with pytest.raises(UserError, match="no function 'xyz'; known: add, double"):
        executable["xyz"]
    with pytest.raises(TypeError, match="a function is named by a text, not by int"):
        executable[0]


def test_code_is_neither_copied_nor_sent_elsewhere(capfd):
    executable = mopt_mlir.compile(DOUBLE, passes="")
    for spread in (copy.deepcopy, pickle.dumps):
        for code in (executable, executable["double"]):
            with pytest.raises(TypeError, match="native code cannot be copied: compile"):
                spread(code)
    assert capfd.readouterr() == ("", "")


def test_signatures_have_the_names_of_the_source(add, double):
    assert str(add.entry) == (
        "@add(left: memref<2x3xf32>, right: memref<2x3xf32>, sum: memref<2x3xf32>)"
    )
    assert [p.access for p in add.entry.parameters] == ["read", "read", "write"]
    assert [(p.name, p.shape) for p in double.entry.parameters] == [
        ("values", (4,)),
        ("result", (4,)),
    ]


def test_names_are_not_read_where_another_file_has_the_parameters():
    text = """func.func @f(%image: memref<4xf32> loc("other.mlir":1:37),
                                   %values: memref<4xf32> loc("other.mlir":1:14)) { return }"""
    rows = f"func.func @f(%a: memref<4xf32>,\n\n\n{15 * ' '}%b: memref<4xf32>) {{ return }}"
    # printed, the module has %arg0 in the fourth line, where %b is in the first text
    modules = (bindings().ir.Module.parse(t, bindings().ir.Context()) for t in (text, rows))
    for source in (text, *modules):
        (entry,) = mopt_mlir.compile(source, passes="").entries
        assert [parameter.name for parameter in entry.parameters] == ["arg0", "arg1"]


def test_sources(tmp_path, arrays):
    path = tmp_path / "add.mlir"
    path.write_text(ADD)
    context = bindings().ir.Context()
    module = bindings().ir.Module.parse(ADD, context)
    before = str(module)
    for source in (path, str(path), ADD, ADD.encode(), module, module.operation):
        *operands, total = arrays
        mopt_mlir.compile(source, passes="")["add"](*operands, total)
        np.testing.assert_array_equal(total, operands[0] + operands[1])
        total[:] = 0
    assert str(module) == before


def test_a_module_of_torch_mlir():
    ir = pytest.importorskip("torch_mlir.ir")
    with ir.Context():
        function = mopt_mlir.compile(ir.Module.parse(DOUBLE), passes="")["double"]
    assert function(np.ones(4, F32)).tolist() == [2, 2, 2, 2]


def test_a_function_that_loading_would_take_for_another_is_refused():
    text = DOUBLE.replace("@double", "@mopt_release_scratch")
    with pytest.raises(UserError, match=r"<text>:\d+:1: error: give @mopt_release_scratch another"):
        mopt_mlir.compile(text, passes="")


def test_sources_that_are_none(tmp_path):
    with pytest.raises(TypeError, match="a source is a path, MLIR text or a module, not int"):
        mopt_mlir.compile(3)
    with pytest.raises(UserError, match=r"nowhere\.mlir: error: cannot read it: No such file"):
        mopt_mlir.compile(tmp_path / "nowhere.mlir")
    with pytest.raises(UserError, match=r"\{name\}\.mlir: error: cannot read it: No such file"):
        mopt_mlir.compile(str(tmp_path / "{name}.mlir"))
    (tmp_path / "{this}").write_text(ADD)
    assert mopt_mlir.compile(str(tmp_path / "{this}"), passes="").entries
    with pytest.raises(UserError, match="the name of the input file has a null in it"):
        mopt_mlir.compile("a\0b.mlir")
    with pytest.raises(
        UserError, match="<text>: error: the text is not Unicode: surrogates not all"
    ):
        mopt_mlir.compile("module {  // \udcff\n}")
    path = tmp_path / "bad.mlir"
    path.write_text("func.func @f() {\n  return 1\n}\n")
    with pytest.raises(UserError, match=r"bad\.mlir:2:\d+: error: expected operation"):
        mopt_mlir.compile(path)


def test_options_that_do_not_exist():
    with pytest.raises(UserError, match="unknown machine 'pdp11'"):
        mopt_mlir.compile(ADD, machine="pdp11")
    with pytest.raises(UserError, match="LLVM knows no CPU 'pdp11'"):
        mopt_mlir.compile(ADD, cpu="pdp11")
    with pytest.raises(UserError, match="threads=0: at least one thread"):
        mopt_mlir.compile(ADD, threads=0)
    with pytest.raises(UserError, match="'nope' is not a registered pass"):
        mopt_mlir.compile(ADD, passes="nope")


def test_what_is_not_tiled_is_compiled_with_a_warning():
    diagnostics = []
    with mopt_mlir.sink(diagnostics.append):
        function = mopt_mlir.compile(CONV, machine="generic-avx2")["conv"]
    assert [(d.severity, d.location) for d in diagnostics] == [("warning", "<text>:3:3")]
    assert "becomes plain loops" in diagnostics[0].message
    images, filters = np.ones((1, 4, 10, 10), np.int32), np.ones((8, 4, 3, 3), np.int32)
    output = np.ones((1, 8, 8, 8), np.int32)
    function(images, filters, output)
    assert (output == 1 + 4 * 3 * 3).all()


def test_what_is_not_tiled_can_be_refused():
    with pytest.raises(UserError, match=r"<text>:3:3: error: .* must be tiled"):
        mopt_mlir.compile(CONV, machine="generic-avx2", require_tiled=True)


def test_sums_of_squares_are_no_convolution():
    """A body of the same operations, of other operands: it becomes plain loops."""
    source = """func.func @conv(%a: memref<40xf32>, %f: memref<3xf32>, %x: memref<38xf32>) {
      linalg.generic {indexing_maps = [affine_map<(w, s) -> (w + s)>, affine_map<(w, s) -> (s)>,
                                       affine_map<(w, s) -> (w)>],
                      iterator_types = ["parallel", "reduction"]}
          ins(%a, %f : memref<40xf32>, memref<3xf32>) outs(%x : memref<38xf32>) {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %m = arith.mulf %p, %p : f32
        %n = arith.addf %o, %m : f32
        linalg.yield %n : f32
      }
      return
    }"""
    diagnostics = []
    with mopt_mlir.sink(diagnostics.append):
        function = mopt_mlir.compile(source)["conv"]
    assert "does not add input times weights to the output" in diagnostics[0].message
    generator = np.random.default_rng(0)
    image, filters, output = (generator.standard_normal(size, F32) for size in (40, 3, 38))
    squares = image.astype(np.float64) ** 2
    expected = output + squares[:-2] + squares[1:-1] + squares[2:]
    function(image, filters, output)
    close(output, expected)


def test_results_are_the_same_in_each_call(any_threads):
    """On two cores, whoever is done first."""
    generator = np.random.default_rng(0)
    shapes = (1, 64, 18, 18), (48, 64, 3, 3), (1, 48, 16, 16)
    image, weights, _ = (generator.standard_normal(shape, F32) for shape in shapes)
    types = [f"memref<{'x'.join(map(str, shape))}xf32>" for shape in shapes]
    conv = mopt_mlir.compile(
        f"""func.func @conv(%image: {types[0]}, %weights: {types[1]}, %output: {types[2]}) {{
          %zero = arith.constant 0.0 : f32
          linalg.fill ins(%zero : f32) outs(%output : {types[2]})
          linalg.conv_2d_nchw_fchw ins(%image, %weights : {types[0]}, {types[1]})
            outs(%output : {types[2]})
          return
        }}""",
        machine="generic-avx2",
        threads=2,
        require_tiled=True,
    )["conv"]
    outputs = [np.empty(shapes[2], F32) for _ in range(3)]
    for output in outputs:
        conv(image, weights, output)
    close(outputs[0], convolve(image, weights))
    np.testing.assert_array_equal(outputs[1], outputs[0])
    np.testing.assert_array_equal(outputs[2], outputs[0])


def test_functions_outlive_the_executable(arrays):
    bound = mopt_mlir.compile(ADD, passes="")["add"].bind(*arrays)
    gc.collect()
    assert bound() is None
    np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])


def test_descriptors_outlive_the_function():
    rows, out = np.arange(100, dtype=F32), np.zeros(3, F32)
    view = np.lib.stride_tricks.as_strided(rows[4:], (3, 2), (40, 4))
    bound = mopt_mlir.compile(STRIDED, passes="")["first"].bind(view, out)
    del view, rows
    gc.collect()
    assert bound() is None
    assert out.tolist() == [4, 14, 24]


def test_calls_make_no_classes(add, arrays):
    """As ctypes does for each type of function that it is asked for."""

    def classes():
        return sum(isinstance(found, type) for found in gc.get_objects())

    add(*arrays)
    gc.collect()
    gc.disable()
    try:
        before = classes()
        for _ in range(10):
            add(*arrays)
        assert classes() == before
    finally:
        gc.enable()


def test_calls_leave_counts_of_references_alone(add, arrays):
    """Of None, as far as Python counts those, and of what a call has to do with."""
    bound = add.bind(*arrays)
    watched = (bound, bound.func, bound.func.__self__, *arrays)
    before, of_none = [sys.getrefcount(one) for one in watched], sys.getrefcount(None)
    for _ in range(10_000):
        bound()
    assert [sys.getrefcount(one) for one in watched] == before
    assert abs(sys.getrefcount(None) - of_none) < 5_000  # other threads may have some


WAIT = """
import threading, time
import numpy as np
import mopt_mlir

function = mopt_mlir.compile('''
func.func @wait(%flag: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  scf.while : () -> () {
    %now = memref.atomic_rmw addi %zero, %flag[%c0] : (i32, memref<1xi32>) -> i32
    %again = arith.cmpi eq, %now, %zero : i32
    scf.condition(%again)
  } do {
    scf.yield
  }
  return
}
''', passes="")["wait"]
flag = np.zeros(1, np.int32)
waiting = threading.Thread(target=function, args=(flag,))
waiting.start()
time.sleep(0.1)
flag[0] = 1
waiting.join()
print("done")
"""


def test_a_module_in_another_one_is_compiled_with_its_constants():
    ir = bindings("mlir").ir
    text = """module {
      module {
        func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
          %w = arith.constant dense_resource<w> : tensor<2xf32>
          %0 = arith.addf %x, %w : tensor<2xf32>
          return %0 : tensor<2xf32>
        }
      }
    }
    {-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}"""
    with ir.Context():
        outer = ir.Module.parse(text)
        before = str(outer)
        with ir.InsertionPoint(outer.body), ir.Location.unknown():
            found = mopt_mlir.compile(outer.body.operations[0])["f"](np.ones(2, np.float32))
        assert str(outer) == before
    np.testing.assert_array_equal(found, np.array([2, 3], np.float32))


def test_other_threads_run_meanwhile():
    command = [sys.executable, "-c", WAIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "done\n"


def test_calls_and_compilations_from_many_threads(add):
    failures = []

    def work(number: int) -> None:
        try:
            own = mopt_mlir.compile(DOUBLE, passes="")["double"]
            for _ in range(50):
                left, total = np.full((2, 3), number, F32), np.zeros((2, 3), F32)
                add(left, left, total)
                assert (total == 2 * number).all()
                assert (own(np.full(4, number, F32)) == 2 * number).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_example_compiles_for_the_host():
    path = Path(__file__).parents[2] / "examples" / "conv.mlir"
    function = mopt_mlir.compile(path)["conv"]
    shapes = [parameter.shape for parameter in function.entry.parameters]
    images, filters, output = (np.ones(shape, F32) for shape in shapes)
    function(images, filters, output)
    assert (output == 64 * 3 * 3).all()


@pytest.mark.parametrize("rows", ["4", "?"])
def test_a_softmax_is_computed_and_is_no_convolution_that_should_have_been_tiled(rows: str) -> None:
    source = f"""
      func.func @soft(%a: tensor<{rows}x8xf32>) -> tensor<{rows}x8xf32> {{
        %0 = linalg.softmax dimension(1) ins(%a : tensor<{rows}x8xf32>)
            outs(%a : tensor<{rows}x8xf32>) -> tensor<{rows}x8xf32>
        return %0 : tensor<{rows}x8xf32>
      }}"""
    diagnostics: list[Diagnostic] = []
    with sink(diagnostics.append):
        soft = mopt_mlir.compile(source, require_tiled=True)["soft"]
    assert diagnostics == []
    logits = np.linspace(-90, 90, 32, dtype=np.float32).reshape(4, 8)
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(soft(logits), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_bindings_that_cannot_take_a_softmax_apart_say_that_it_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacks(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(decomposition, "import_module", lacks)
    with pytest.raises(UserError, match=r"'linalg.softmax' cannot be lowered to LLVM"):
        mopt_mlir.compile("""func.func @soft(%a: tensor<8xf32>) -> tensor<8xf32> {
          %0 = linalg.softmax dimension(0) ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>)
              -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }""")


def test_functions_of_the_documented_types_have_an_entry(told):
    numbers = ("f32", "f64", "index", "i1", "i8", "i16", "i32", "i64")
    elements = (*numbers, "f16", "complex<f32>", "complex<f64>")
    others = ("bf16", "i4", "i24", "ui8")
    types = [*(f"memref<4x{element}>" for element in (*elements, *others))]
    types += [*elements, *others, "memref<*xf32>"]
    functions = [f"func.func @f{at}(%a: {type_}) {{ return }}" for at, type_ in enumerate(types)]
    found = mopt_mlir.compile("\n".join(functions), passes="")
    known = [types[int(name.removeprefix("f"))] for name in found]
    assert known == [*types[: len(elements)], *numbers]
    assert len(told) == len(types) - len(known)
    assert all("cannot be called from C" in diagnostic.message for diagnostic in told)
    text = DOCS.read_text().partition("has an entry if")[2].partition("## ")[0]
    assert all(f"`{element}`" in text for element in elements)


def test_an_axis_of_one_element_has_any_stride():
    """Those that upstream computes with must be those of a dense array all the same."""
    text = """func.func @f(%a: tensor<?x?x?xf32>) -> tensor<?x?xf32> {
      %c = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x?x?xf32> into tensor<?x?xf32>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %m = tensor.dim %c, %c0 : tensor<?x?xf32>
      %n = tensor.dim %c, %c1 : tensor<?x?xf32>
      %e = tensor.empty(%m, %n) : tensor<?x?xf32>
      %r = linalg.negf ins(%c : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
      return %r : tensor<?x?xf32>
    }"""
    function = mopt_mlir.compile(text)["f"]
    values = np.arange(12, dtype=F32).reshape(3, 4)
    for array in (values[:, None], values[None], values.reshape(1, 3, 4)[::-1]):
        np.testing.assert_array_equal(function(array), -values)


POINTERS = """
func.func @add(%a: memref<4xf32>, %b: memref<4xf32>) {
  linalg.add ins(%a, %b : memref<4xf32>, memref<4xf32>) outs(%b : memref<4xf32>)
  return
}
func.func @sub(%a: memref<4xf32>, %b: memref<4xf32>) {
  linalg.sub ins(%b, %a : memref<4xf32>, memref<4xf32>) outs(%b : memref<4xf32>)
  return
}
func.func @either(%c: i1, %a: memref<4xf32>, %b: memref<4xf32>) {
  %f = func.constant @add : (memref<4xf32>, memref<4xf32>) -> ()
  %g = func.constant @sub : (memref<4xf32>, memref<4xf32>) -> ()
  %h = arith.select %c, %f, %g : (memref<4xf32>, memref<4xf32>) -> ()
  func.call_indirect %h(%a, %b) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
"""


def test_functions_are_called_through_pointers():
    executable = mopt_mlir.compile(POINTERS)
    one, five = np.ones(4, F32), np.full(4, 5, F32)
    executable["either"](True, one, five)
    np.testing.assert_array_equal([one, five], [[1] * 4, [6] * 4])
    executable["either"](False, one, five)
    np.testing.assert_array_equal([one, five], [[1] * 4, [5] * 4])
    executable["add"](one, five)
    np.testing.assert_array_equal(five, [6] * 4)


def test_functions_are_called_by_our_conventions_whatever_their_attributes_say():
    text = """func.func @f(%a: memref<4xf32>) -> (f32, f32) attributes {llvm.bareptr} {
      %zero = arith.constant 0 : index
      %x = memref.load %a[%zero] : memref<4xf32>
      %y = arith.addf %x, %x : f32
      return %x, %y : f32, f32
    }"""
    assert mopt_mlir.compile(text)["f"](np.full(4, 3, F32)) == (3, 6)


def test_results_are_freed_if_there_is_no_memory_for_copies(monkeypatch):
    function = mopt_mlir.compile("""func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
      %0 = arith.addf %a, %a : tensor<?xf32>
      return %0 : tensor<?xf32>
    }""")["f"]
    free, freed = conventions._free(), []
    monkeypatch.setattr(conventions, "_free", lambda: lambda place: freed.append(free(place)))

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(conventions, "_copy_of", fails)
    with pytest.raises(MemoryError):
        function(np.ones(4, F32))
    assert len(freed) == 1


def test_pointers_to_one_function_are_alike():
    module = load_module(POINTERS.replace("@sub :", "@add :"))
    annotate_entries(module)
    assert str(module).count("func.func private @") == 1
    assert str(module).count("constant @add_pointed_to :") == 2


@pytest.mark.parametrize("name", ["tanhf", "memcpy", "llvm.x"])
@pytest.mark.parametrize("kind", ["function", "variable"])
def test_names_that_generated_code_needs_are_refused(name, kind):
    text = f'memref.global @"{name}" : memref<4xf32> = dense<1.0>'
    if kind == "function":
        text = f'func.func @"{name}"(%a: memref<4xf32>) {{ return }}'
    with pytest.raises(UserError, match=f"give @{name} another name: "):
        mopt_mlir.compile(text + "\nfunc.func @f() { return }")


def test_constants_of_a_module_inside_are_its_own():
    text = """
    memref.global "private" constant @v : memref<2048xf32> = dense<1.0>
    func.func @f(%o: memref<2048xf32>) {
      %v = memref.get_global @v : memref<2048xf32>
      memref.copy %v, %o : memref<2048xf32> to memref<2048xf32>
      return
    }
    module @inner {
      memref.global "private" constant @v : memref<2048xf32> = dense<2.0>
      func.func @g(%o: memref<2048xf32>) {
        %v = memref.get_global @v : memref<2048xf32>
        memref.copy %v, %o : memref<2048xf32> to memref<2048xf32>
        return
      }
    }"""
    with mopt_mlir.sink(lambda _: None):
        function = mopt_mlir.compile(text)["f"]
    function(output := np.zeros(2048, F32))
    assert (output == 1).all()


@pytest.mark.parametrize("size", [512, 2048])
def test_a_variable_lies_where_it_says(size):
    text = f"""
    memref.global "private" @v : memref<{size}xf32> = dense<1.0> {{alignment = 4096}}
    func.func @f() -> index {{
      %v = memref.get_global @v : memref<{size}xf32>
      %p = memref.extract_aligned_pointer_as_index %v : memref<{size}xf32> -> index
      return %p : index
    }}"""
    assert mopt_mlir.compile(text)["f"]() % 4096 == 0


def test_an_alignment_that_is_assumed_is_no_access_and_asked_of_no_caller():
    text = """
    func.func @reads(%a: memref<4xf32>, %o: memref<4xf32>) {
      %x = memref.assume_alignment %a, 4 : memref<4xf32>
      memref.copy %x, %o : memref<4xf32> to memref<4xf32>
      return
    }
    func.func @makes() -> memref<16xf32> {
      %one = arith.constant 1.0 : f32
      %a = memref.alloc() {alignment = 64} : memref<16xf32>
      %x = memref.assume_alignment %a, 64 : memref<16xf32>
      linalg.fill ins(%one : f32) outs(%x : memref<16xf32>)
      return %a : memref<16xf32>
    }"""
    executable = mopt_mlir.compile(text)
    given = np.ones(4, F32)
    given.flags.writeable = False
    executable["reads"](given, np.zeros(4, F32))
    shifted = np.zeros(20, F32)[1:17]
    executable["makes"](out=shifted)
    assert (shifted == 1).all()


def test_an_alignment_that_is_assumed_is_asked_of_callers():
    """Vectors are loaded as if all data were there: what is not would end the process."""
    text = """
    func.func @always(%a: memref<64xf32>, %o: memref<64xf32>) {
      %x = memref.assume_alignment %a, 16 : memref<64xf32>
      %y = memref.assume_alignment %x, 64 : memref<64xf32>
      memref.copy %y, %o : memref<64xf32> to memref<64xf32>
      return
    }
    func.func @maybe(%c: i1, %a: memref<64xf32>, %o: memref<64xf32>) {
      scf.if %c {
        %x = memref.assume_alignment %a, 64 : memref<64xf32>
        memref.copy %x, %o : memref<64xf32> to memref<64xf32>
      }
      return
    }
    func.func @perhaps(%c: i1, %a: memref<64xf32>, %o: memref<64xf32>) {
      cf.cond_br %c, ^copy, ^end
    ^copy:
      %x = memref.assume_alignment %a, 64 : memref<64xf32>
      memref.copy %x, %o : memref<64xf32> to memref<64xf32>
      cf.br ^end
    ^end:
      return
    }"""
    executable = mopt_mlir.compile(text)
    output, memory = np.zeros(64, F32), np.ones(96, F32)
    first = -memory.ctypes.data // 4 % 16
    aligned, shifted = (memory[start : start + 64] for start in (first, first + 4))
    executable["always"](aligned, output)
    assert (output == 1).all()
    with pytest.raises(ValueError, match=r"'a': its address 0x.* is not a multiple of 64 bytes"):
        executable["always"](shifted, output)
    executable["maybe"](False, shifted, output)
    executable["perhaps"](False, shifted, output)


@pytest.mark.parametrize(
    "body",
    [
        """%c = memref.cast %a : memref<64xf32> to memref<?xf32>
           %x = memref.assume_alignment %c, 64 : memref<?xf32>""",
        "%v = vector.load %a[%c0] {alignment = 64 : i64} : memref<64xf32>, vector<16xf32>",
        "func.call @inner(%a) : (memref<64xf32>) -> ()",
        """%c = memref.subview %a[0] [32] [1] : memref<64xf32> to memref<32xf32, strided<[1]>>
           %x = memref.assume_alignment %c, 64 : memref<32xf32, strided<[1]>>""",
        """%shape = memref.alloca() : memref<1xindex>
           %c = memref.reshape %a(%shape) : (memref<64xf32>, memref<1xindex>) -> memref<64xf32>
           %x = memref.assume_alignment %c, 64 : memref<64xf32>""",
    ],
)
def test_an_alignment_that_views_accesses_and_callees_assume_is_asked_of_callers(body):
    text = f"""
    func.func private @inner(%a: memref<64xf32>) {{
      %c0 = arith.constant 0 : index
      %x = memref.expand_shape %a [[0, 1]] output_shape [4, 16]
          : memref<64xf32> into memref<4x16xf32>
      %y = memref.assume_alignment %x, 64 : memref<4x16xf32>
      return
    }}
    func.func @f(%a: memref<64xf32>) {{
      %c0 = arith.constant 0 : index
      {body}
      return
    }}
    func.func @elsewhere(%a: memref<64xf32>) {{
      %c4 = arith.constant 4 : index
      %v = vector.load %a[%c4] {{alignment = 64 : i64}} : memref<64xf32>, vector<16xf32>
      return
    }}"""
    executable = mopt_mlir.compile(text)
    memory = np.ones(96, F32)
    first = -memory.ctypes.data // 4 % 16
    aligned, shifted = (memory[start : start + 64] for start in (first, first + 12))
    executable["f"](aligned)
    with pytest.raises(ValueError, match=r"'a': its address 0x.* is not a multiple of 64 bytes"):
        executable["f"](shifted)
    executable["elsewhere"](shifted)


@pytest.mark.parametrize("shift", [0, 4])
def test_an_alignment_that_views_of_bytes_assume_is_asked_of_callers_where_they_begin(shift):
    text = f"""
    func.func @f(%a: memref<256xi8>) {{
      %shift = arith.constant {shift} : index
      %c = memref.view %a[%shift][] : memref<256xi8> to memref<32xf32>
      %x = memref.assume_alignment %c, 64 : memref<32xf32>
      return
    }}"""
    (entry,) = mopt_mlir.compile(text).entries
    assert entry.parameters[0].alignment == (1 if shift else 64)


@pytest.mark.parametrize(
    ("offset", "other", "expected"), [(0, 0, 64), (4, 4, 64), (4, 0, 1), (0, 4, 1), ("?", 0, 1)]
)
def test_a_view_that_begins_elsewhere_asks_nothing_of_its_own_operand(offset, other, expected):
    """Offsets count from where the memory begins, not from the parameter's first element."""
    given = f"memref<16xf32, strided<[1], offset: {offset}>>"
    made = f"memref<16xf32, strided<[1], offset: {other}>>"
    text = f"""
    func.func @f(%a: {given}) {{
      %c = memref.reinterpret_cast %a to offset: [{other}], sizes: [16], strides: [1]
          : {given} to {made}
      %x = memref.assume_alignment %c, 64 : {made}
      return
    }}"""
    (entry,) = mopt_mlir.compile(text).entries
    assert entry.parameters[0].alignment == expected


def test_pointers_in_a_module_inside_are_to_its_functions():
    with mopt_mlir.sink(lambda _: None):
        executable = mopt_mlir.compile(f"{POINTERS} module @inner {{ {POINTERS} }}")
    one, five = np.ones(4, F32), np.full(4, 5, F32)
    executable["either"](True, one, five)
    np.testing.assert_array_equal(five, [6] * 4)


def test_constants_of_complex_numbers():
    """MLIR's bindings have no class for their contents."""
    text = """
    memref.global "private" constant @v : memref<2xcomplex<f32>> = dense<[(1.0, 2.0), (3.0, 4.0)]>
    func.func @f(%o: memref<2xcomplex<f32>>) {
      %v = memref.get_global @v : memref<2xcomplex<f32>>
      memref.copy %v, %o : memref<2xcomplex<f32>> to memref<2xcomplex<f32>>
      return
    }"""
    mopt_mlir.compile(text)["f"](output := np.zeros(2, np.complex64))
    np.testing.assert_array_equal(output, [1 + 2j, 3 + 4j])
