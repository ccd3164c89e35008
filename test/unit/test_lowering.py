"""What mopt-lower-to-llvm and the native code after it compute, on IR that is written by hand."""

import math
import re

import numpy as np
import pytest

from mopt_mlir import UserError, add_passes, compile
from mopt_mlir.bindings import bindings
from mopt_mlir.diagnostics import Failure, sink
from mopt_mlir.lowering.native import compile_text
from mopt_mlir.lowering.scratch import RELEASE
from mopt_mlir.lowering.target import of_cpu
from mopt_mlir.lowering.upstream import run_upstream
from mopt_mlir.pipeline.loading import load_module, run_passes
from mopt_mlir.pipeline.pass_registry import create

F32 = np.float32
NO_TILING = ""  # passes in front of the lowering


def test_results_keep_their_order():
    function = compile(
        """func.func @f(%a: tensor<3xf32>, %x: f32) -> (tensor<3xf32>, f32, tensor<3xf32>) {
          %one = arith.constant 1.0 : f32
          %empty = tensor.empty() : tensor<3xf32>
          %ones = linalg.fill ins(%one : f32) outs(%empty : tensor<3xf32>) -> tensor<3xf32>
          return %ones, %x, %a : tensor<3xf32>, f32, tensor<3xf32>
        }""",
        passes=NO_TILING,
    )["f"]
    ones, x, a = function(np.arange(3, dtype=F32), 2.5)
    assert (ones.tolist(), x, a.tolist()) == ([1, 1, 1], 2.5, [0, 1, 2])


def test_one_tensor_may_be_returned_twice():
    function = compile(
        """func.func @f(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
          %double = arith.addf %a, %a : tensor<3xf32>
          return %double, %double, %a : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
        }""",
        passes=NO_TILING,
    )["f"]
    a = np.arange(3, dtype=F32)
    for result, expected in zip(function(a), (2 * a, 2 * a, a), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_function_may_call_another_and_return_its_result():
    function = compile(
        """func.func private @double(%a: tensor<3xf32>) -> tensor<3xf32> {
          %0 = arith.addf %a, %a : tensor<3xf32>
          return %0 : tensor<3xf32>
        }
        func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
          %0 = call @double(%a) : (tensor<3xf32>) -> tensor<3xf32>
          %1 = call @double(%0) : (tensor<3xf32>) -> tensor<3xf32>
          return %1 : tensor<3xf32>
        }""",
        passes=NO_TILING,
    )["f"]
    np.testing.assert_array_equal(function(np.arange(3, dtype=F32)), [0, 4, 8])


def test_dynamic_and_static_results_mix_in_a_module():
    executable = compile(
        """func.func @dynamic(%a: tensor<?x2xf32>) -> (tensor<?x2xf32>, i32) {
          %0 = arith.addf %a, %a : tensor<?x2xf32>
          %1 = arith.constant 7 : i32
          return %0, %1 : tensor<?x2xf32>, i32
        }
        func.func @static(%a: tensor<3x2xf32>) -> tensor<3x2xf32> {
          %0 = tensor.cast %a : tensor<3x2xf32> to tensor<?x2xf32>
          %1, %2 = call @dynamic(%0) : (tensor<?x2xf32>) -> (tensor<?x2xf32>, i32)
          %3 = tensor.cast %1 : tensor<?x2xf32> to tensor<3x2xf32>
          return %3 : tensor<3x2xf32>
        }""",
        passes=NO_TILING,
    )
    a = np.arange(6, dtype=F32).reshape(3, 2)
    np.testing.assert_array_equal(executable["static"](a), 2 * a)
    doubled, seven = executable["dynamic"](a[:2])
    np.testing.assert_array_equal(doubled, 2 * a[:2])
    assert seven == 7


@pytest.mark.parametrize("package", ["mlir", "torch_mlir"])
def test_the_pass_runs_on_the_callers_own_bindings(package):
    pytest.importorskip(package)
    own = bindings(package)
    with own.ir.Context():
        module = own.ir.Module.parse(
            """func.func @f(%a: tensor<3xf32>, %b: memref<?xf32>) -> tensor<3xf32> {
              %0 = arith.addf %a, %a : tensor<3xf32>
              return %0 : tensor<3xf32>
            }"""
        )
        manager = own.passmanager.PassManager("builtin.module")
        add_passes(manager, "mopt-lower-to-llvm{threads=2}")
        manager.run(module.operation)
        text = own.llvm.translate_module_to_llvmir(module.operation)
    assert "define void @_mlir_ciface_f(ptr" in text


@pytest.mark.parametrize("threads", [-1, 5_000_000_000])
def test_an_impossible_number_of_threads_is_refused(threads):
    own = bindings()
    refused = rf"pipeline:1:1: error: .*threads={threads} is not from 0 to 10000"
    with own.ir.Context():
        manager = own.passmanager.PassManager("builtin.module")
        with pytest.raises(UserError, match=refused):
            add_passes(manager, f"mopt-lower-to-llvm{{threads={threads}}}")


def test_a_dynamic_result_may_be_returned_twice():
    function = compile(
        """func.func @f(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
          %0 = arith.addf %a, %a : tensor<?xf32>
          return %0, %0 : tensor<?xf32>, tensor<?xf32>
        }""",
        passes=NO_TILING,
    )["f"]
    first, second = function(np.arange(3, dtype=F32))
    first[:] = 0
    assert second.tolist() == [0, 2, 4]


def test_a_buffer_that_is_returned_is_never_the_callers_own():
    function = compile(
        "func.func @f(%a: memref<?xf32>) -> memref<?xf32> { return %a : memref<?xf32> }",
        passes=NO_TILING,
    )["f"]
    a = np.arange(3, dtype=F32)
    result = function(a)
    result[:] = 0
    assert a.tolist() == [0, 1, 2]


def test_integers_in_vectors_are_added_and_multiplied_by_constants():
    function = compile(
        """func.func @f(%a: memref<4xi32>) {
          %c0 = arith.constant 0 : index
          %one = arith.constant dense<[1, -2, 3, 4]> : vector<4xi32>
          %three = arith.constant dense<3> : vector<4xi32>
          %v = vector.load %a[%c0] : memref<4xi32>, vector<4xi32>
          %s = arith.addi %v, %one : vector<4xi32>
          %p = arith.muli %s, %three : vector<4xi32>
          vector.store %p, %a[%c0] : memref<4xi32>, vector<4xi32>
          return
        }""",
        passes=NO_TILING,
    )["f"]
    function(a := np.arange(4, dtype=np.int32))
    assert a.tolist() == [3, -3, 15, 21]


def test_a_loop_with_steps_of_0_may_never_run():
    function = compile(
        """func.func @f(%p: i1, %v: vector<4xf32>, %out: memref<4xf32>) {
          %c0 = arith.constant 0 : index
          %c4 = arith.constant 4 : index
          scf.if %p {
            scf.for %i = %c0 to %c4 step %c0 {
              vector.store %v, %out[%c0] : memref<4xf32>, vector<4xf32>
            }
            %x = memref.load %out[%c0] : memref<4xf32>
            %sums = scf.for %i = %c0 to %c4 step %c0 iter_args(%sum = %v) -> vector<4xf32> {
              %s = vector.outerproduct %v, %x, %sum {kind = #vector.kind<add>} : vector<4xf32>, f32
              scf.yield %s : vector<4xf32>
            }
            vector.store %sums, %out[%c0] : memref<4xf32>, vector<4xf32>
          }
          return
        }
        func.func @g(%p: i1, %out: memref<4xf32>) {
          %v = arith.constant dense<1.0> : vector<4xf32>
          func.call @f(%p, %v, %out) : (i1, vector<4xf32>, memref<4xf32>) -> ()
          return
        }""",
        passes=NO_TILING,
    )["g"]
    function(False, result := np.zeros(4, F32))
    assert result.tolist() == [0, 0, 0, 0]


def test_a_tensor_is_handed_on_by_a_loop():
    function = compile(
        """func.func @f(%a: tensor<3xf32>, %n: index) -> tensor<3xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %0 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<3xf32> {
            %empty = tensor.empty() : tensor<3xf32>
            %sum = linalg.add ins(%x, %a : tensor<3xf32>, tensor<3xf32>)
                outs(%empty : tensor<3xf32>) -> tensor<3xf32>
            scf.yield %sum : tensor<3xf32>
          }
          return %0 : tensor<3xf32>
        }""",
        passes=NO_TILING,
    )["f"]
    a = np.arange(3, dtype=F32)
    for n in range(4):
        np.testing.assert_array_equal(function(a, n), (n + 1) * a)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("around", ["func.func", "func.func private"])
def test_a_branch_may_give_back_what_a_caller_gave(is_first, around):
    """What it gives back otherwise is freed, which is no reason to refuse it."""
    doubled = "%y = arith.addf %x, %x : tensor<64x64xf32> scf.yield %y : tensor<64x64xf32>"
    handed_on = "scf.yield %x : tensor<64x64xf32>"
    branches = (doubled, handed_on) if is_first else (handed_on, doubled)
    executable = compile(f"""
      {around} @f(%x: tensor<64x64xf32>, %p: i1) -> tensor<64x64xf32> {{
        %r = scf.if %p -> tensor<64x64xf32> {{ {branches[0]} }} else {{ {branches[1]} }}
        return %r : tensor<64x64xf32>
      }}
      func.func @g(%x: tensor<64x64xf32>, %p: i1) -> tensor<64x64xf32> {{
        %r = call @f(%x, %p) : (tensor<64x64xf32>, i1) -> tensor<64x64xf32>
        return %r : tensor<64x64xf32>
      }}
    """)
    x = np.arange(4096.0, dtype=np.float32).reshape(64, 64)
    for p in (True, False):
        for _ in range(3):  # what is freed and was not allocated is noticed by the next malloc
            result = executable["g"](x, p)
            np.testing.assert_array_equal(result, 2 * x if p is is_first else x)
    np.testing.assert_array_equal(x.ravel(), np.arange(4096.0))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_interchanged_loops_compute_the_same(order):
    """`c[i, j] += a[i, k] * b[k, j] + i + 10 * j + 100 * k`, whatever order the loops come in."""
    i, j, k = (f"d{order[n]}" for n in range(3))
    kinds = ["parallel", "parallel", "reduction"]
    given = [kinds[order.index(n)] for n in range(3)]
    maps = (f"affine_map<(d0, d1, d2) -> ({x}, {y})>" for x, y in ((i, k), (k, j), (i, j)))
    type_ = "memref<9x9xi64>"
    function = compile(
        f"""func.func @f(%a: {type_}, %b: {type_}, %c: {type_}) {{
          linalg.generic {{indexing_maps = [{", ".join(maps)}],
              iterator_types = [{", ".join(f'"{kind}"' for kind in given)}]}}
              ins(%a, %b : {type_}, {type_}) outs(%c : {type_}) {{
            ^bb0(%x: i64, %y: i64, %z: i64):
              %i = linalg.index {order[0]} : index
              %j = linalg.index {order[1]} : index
              %k = linalg.index {order[2]} : index
              %ten = arith.constant 10 : index
              %kk = arith.muli %k, %ten : index
              %jk = arith.addi %j, %kk : index
              %jjk = arith.muli %jk, %ten : index
              %ijk = arith.addi %i, %jjk : index
              %n = arith.index_cast %ijk : index to i64
              %0 = arith.muli %x, %y : i64
              %1 = arith.addi %0, %n : i64
              %2 = arith.addi %1, %z : i64
              linalg.yield %2 : i64
          }}
          return
        }}""",
        passes=NO_TILING,
    )["f"]
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(0, 9, (9, 9)) for _ in range(3))
    at = np.indices((9, 9, 9))
    expected = c + a @ b + (at[0] + 10 * at[1] + 100 * at[2]).sum(axis=2)
    function(a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_buffers_with_gaps_are_copied():
    function = compile(
        """func.func @f(%a: memref<2x3xf32, strided<[8, 2], offset: 5>>, %b: memref<2x3xf32>) {
          memref.copy %a, %b : memref<2x3xf32, strided<[8, 2], offset: 5>> to memref<2x3xf32>
          return
        }""",
        passes=NO_TILING,
    )["f"]
    a = np.arange(32, dtype=F32)[5:].reshape(-1)[: 2 * 8].reshape(2, 8)[:, :6:2]
    b = np.zeros((2, 3), F32)
    function(a, b)
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("offset", [0, 3])
def test_buffers_that_run_backwards(offset):
    """With indices that are constants, that vary, and both."""
    type_ = f"memref<4xf32, strided<[-1], offset: {offset}>>"
    function = compile(
        f"""func.func @f(%a: {type_}, %b: memref<3xf32>, %i: index) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c2 = arith.constant 2 : index
          %next = arith.addi %i, %c1 : index
          %x = memref.load %a[%c2] : {type_}
          %y = memref.load %a[%i] : {type_}
          %z = memref.load %a[%next] : {type_}
          memref.store %x, %b[%c0] : memref<3xf32>
          memref.store %y, %b[%c1] : memref<3xf32>
          memref.store %z, %b[%c2] : memref<3xf32>
          return
        }}""",
        passes=NO_TILING,
    )["f"]
    a, b = np.arange(4, dtype=F32)[::-1], np.zeros(3, F32)
    function(a, b, 2)
    assert b.tolist() == [1, 1, 0]


def test_truth_values_are_bytes():
    function = compile(
        """func.func @f(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi1> {
          %0 = arith.cmpi slt, %a, %b : tensor<4xi32>
          return %0 : tensor<4xi1>
        }""",
        passes=NO_TILING,
    )["f"]
    result = function(np.arange(4, dtype=np.int32), np.full(4, 2, np.int32))
    assert result.tolist() == [True, True, False, False]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_parallel_loop_with_buffers_of_its_own(any_threads, threads):
    function = compile(
        """func.func @f(%a: memref<64x4xf32>, %b: memref<64xf32>) {
          affine.parallel (%i) = (0) to (64) {
            %row = memref.alloca() : memref<4xf32>
            affine.for %j = 0 to 4 {
              %x = affine.load %a[%i, %j] : memref<64x4xf32>
              affine.store %x, %row[%j] : memref<4xf32>
            }
            %y = affine.load %row[3] : memref<4xf32>
            affine.store %y, %b[%i] : memref<64xf32>
          }
          return
        }""",
        passes=NO_TILING,
        threads=threads,
    )["f"]
    a, b = np.arange(256, dtype=F32).reshape(64, 4), np.zeros(64, F32)
    function(a, b)
    np.testing.assert_array_equal(b, a[:, 3])


def test_a_buffer_that_the_next_iteration_reads():
    """What is written into the next one must not be the same memory."""
    function = compile(
        """func.func @f(%a: memref<4xf32>, %b: memref<4xf32>) {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %three = arith.constant 3 : index
          %four = arith.constant 4 : index
          %last = scf.for %i = %zero to %three step %one iter_args(%old = %a) -> memref<4xf32> {
            %new = memref.alloca() : memref<4xf32>
            scf.for %j = %zero to %four step %one {
              %k = arith.subi %three, %j : index
              %x = memref.load %old[%k] : memref<4xf32>
              memref.store %x, %new[%j] : memref<4xf32>
            }
            scf.yield %new : memref<4xf32>
          }
          memref.copy %last, %b : memref<4xf32> to memref<4xf32>
          return
        }""",
        passes=NO_TILING,
    )["f"]
    a, b = np.arange(4, dtype=F32), np.zeros(4, F32)
    function(a, b)
    np.testing.assert_array_equal(b, a[::-1])


@pytest.mark.parametrize("kind", ["dense", "resource", "splat", "global"])
def test_large_constants(kind):
    count = 5000
    values = np.full(count, 3.5, F32) if kind == "splat" else np.arange(count, dtype=F32)
    data = values.tobytes().hex().upper()
    attribute = {
        "splat": "dense<3.5>",
        "resource": "dense_resource<weights>",
    }.get(kind, f'dense<"0x{data}">')
    type_ = f"{count}xf32"
    resources = f'{{-# dialect_resources: {{ builtin: {{ weights: "0x04000000{data}" }} }} #-}}'
    on_tensors = f"""
      func.func @f(%a: tensor<{type_}>) -> tensor<{type_}> {{
        %w = arith.constant {attribute} : tensor<{type_}>
        %0 = arith.addf %a, %w : tensor<{type_}>
        return %0 : tensor<{type_}>
      }}"""
    on_memrefs = f"""
      memref.global "private" constant @w : memref<{type_}> = {attribute}
      func.func @f(%a: memref<{type_}>) {{
        %w = memref.get_global @w : memref<{type_}>
        linalg.add ins(%w, %w : memref<{type_}>, memref<{type_}>) outs(%a : memref<{type_}>)
        return
      }}"""
    source = on_memrefs if kind == "global" else on_tensors
    source += resources if kind == "resource" else ""
    function = compile(source, passes=NO_TILING)["f"]
    a = np.ones(count, F32)
    if kind == "global":
        function(a)
        np.testing.assert_array_equal(a, 2 * values)
    else:
        np.testing.assert_array_equal(function(a), a + values)


RESOURCES = {
    "global": """memref.global "private" constant @w : memref<7xELEMENT> = dense_resource<weights>
func.func @f(%a: memref<7xELEMENT>) {
  %w = memref.get_global @w : memref<7xELEMENT>
  memref.copy %w, %a : memref<7xELEMENT> to memref<7xELEMENT>
  return
}""",
    "tensor": """func.func @f(%a: tensor<7xELEMENT>) -> tensor<7xELEMENT> {
  %w = arith.constant dense_resource<weights> : tensor<7xELEMENT>
  return %w : tensor<7xELEMENT>
}""",
    "vector": """func.func @f(%a: memref<7xELEMENT>) {
  %c0 = arith.constant 0 : index
  %w = arith.constant dense_resource<weights> : vector<7xELEMENT>
  vector.store %w, %a[%c0] : memref<7xELEMENT>, vector<7xELEMENT>
  return
}""",
}


def resource(data: bytes) -> str:
    return f'\n{{-# dialect_resources: {{builtin: {{weights: "0x08000000{data.hex()}"}}}} #-}}'


@pytest.mark.parametrize(
    ("element", "dtype"), [("f32", F32), ("i1", np.bool_), ("i8", np.int8), ("f64", np.float64)]
)
def test_small_resources(element, dtype):
    """Also of elements that MLIR's translation would end the process for."""
    values = np.arange(7).astype(dtype)
    text = RESOURCES["global"].replace("ELEMENT", element) + resource(values.tobytes())
    a = np.zeros(7, dtype)
    compile(text, passes=NO_TILING)["f"](a)
    np.testing.assert_array_equal(a, values)


@pytest.mark.parametrize(("kind", "line"), [("global", 1), ("tensor", 2), ("vector", 3)])
@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("", "lacks the contents of dense_resource<weights> : .*7xf32>, 28 bytes: print it with"),
        (resource(bytes(4)), "contents of dense_resource<weights> .* are 4 bytes instead of 28"),
        (resource(bytes(56)), "are 56 bytes instead of 28"),
    ],
    ids=["none", "short", "long"],
)
def test_a_constant_whose_contents_are_not_there_is_refused(kind, line, contents, message):
    text = RESOURCES[kind].replace("ELEMENT", "f32") + contents
    with pytest.raises(UserError, match=message) as refused:
        compile(text, passes=NO_TILING)
    assert refused.value.location.startswith(f"<text>:{line}:")


@pytest.mark.parametrize("yielded", ["%sum", "%part"])
def test_what_a_loop_gives_back_twice_is_two_tensors(yielded):
    size = 4 if yielded == "%sum" else 2
    text = f"""func.func @f(%a: tensor<4xf32>, %b: tensor<{size}xf32>) -> tensor<{size}xf32> {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %value = arith.constant 7.0 : f32
      %r:2 = scf.for %i = %zero to %one step %one iter_args(%x = %a, %y = %b)
          -> (tensor<4xf32>, tensor<{size}xf32>) {{
        %empty = tensor.empty() : tensor<4xf32>
        %sum = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>)
            outs(%empty : tensor<4xf32>) -> tensor<4xf32>
        %part = tensor.extract_slice %sum[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
        scf.yield %sum, {yielded} : tensor<4xf32>, tensor<{size}xf32>
      }}
      %first = linalg.fill ins(%value : f32) outs(%r#0 : tensor<4xf32>) -> tensor<4xf32>
      %seven = tensor.extract_slice %first[0] [{size}] [1]
          : tensor<4xf32> to tensor<{size}xf32>
      %0 = arith.addf %r#1, %seven : tensor<{size}xf32>
      return %0 : tensor<{size}xf32>
    }}"""
    a = np.arange(4, dtype=F32)
    second = 2 * a if yielded == "%sum" else 2 * a[1:3]
    result = compile(text, passes=NO_TILING)["f"](a, np.zeros(size, F32))
    np.testing.assert_array_equal(result, second + 7)


def test_upstream_passes_are_given_what_is_verified():
    ir = bindings().ir
    with ir.Context(), ir.Location.file("made.mlir", 1, 2):
        module = ir.Module.parse("func.func @f(%a: i32, %b: i64) { return }")
        block = module.body.operations[0].regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            ir.Operation.create("arith.addi", [block.arguments[0].type], list(block.arguments))
    told = []
    with sink(told.append), pytest.raises(Failure):
        run_upstream(module.operation, "canonicalize")
    errors = [one.location for one in told if one.severity == "error"]
    assert errors == ["made.mlir:1:2"]


def test_weights_with_a_part_of_an_element_are_refused():
    text = """func.func @f(%a: tensor<6x6xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %w = arith.constant dense_resource<weights> : tensor<3x3xf32>
      %0 = linalg.conv_2d ins(%a, %w : tensor<6x6xf32>, tensor<3x3xf32>)
        outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }"""
    with pytest.raises(UserError, match=r"contents of .* are 35 bytes instead of 36"):
        compile(text + resource(bytes(35)), machine="generic-avx2")


def test_integers_of_more_bits_than_a_register():
    """The bindings would end the process."""
    text = """func.func @f(%a: memref<?xf32>, %value: f32) {
      %zero = arith.constant 0 : index
      %first = arith.constant 0 : i128
      %last = arith.constant 73786976294838206468 : i128
      %step = arith.constant 36893488147419103232 : i128
      %bits = arith.trunci %last : i128 to i64
      %four = arith.index_cast %bits : i64 to index
      %part = memref.subview %a[0] [%four] [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
      scf.for %i = %first to %last step %step : i128 {
        %old = memref.load %part[%zero] : memref<?xf32, strided<[1]>>
        %new = arith.addf %old, %value : f32
        memref.store %new, %part[%zero] : memref<?xf32, strided<[1]>>
      }
      return
    }"""
    a = np.zeros(4, F32)
    compile(text, passes=NO_TILING)["f"](a, 2.0)
    np.testing.assert_array_equal(a, [6, 0, 0, 0])


def test_what_is_not_exported_is_internal():
    text = "define void @unused() { ret void }\ndefine void @f() { ret void }"
    assert "@unused" not in compile_text(text, of_cpu("host"), ["f"]).ir()


NEST = """linalg.conv_2d_nchw_fchw {mopt.plan = {
      machine = "haswell", threads = 1, packing = "whole", levels = [],
      microkernel = {lanes = "k", vector = 8, tile = {k = 8, w = 4}, reduction = ["c", "r", "s"]}}}
      ins(%x, WEIGHTS : memref<1x4x6x6xf32>, memref<8x4x3x3xf32>) outs(OUTPUT : memref<1x8x4x4xf32>)
"""


def test_modules_that_are_linked_have_only_their_functions_in_common():
    """What is generated beside them, nests that several convolutions share, packed weights, and
    memory that is kept, has the same names in each."""
    import llvmlite.binding as llvm

    nests = [("%w", "%o"), ("%v", "%p"), ("%c", "%o"), ("%c", "%p")]
    calls = "".join(NEST.replace("WEIGHTS", w).replace("OUTPUT", o) for w, o in nests)
    texts = []
    for name in ("f", "g"):
        module = load_module(
            f"""memref.global "private" constant @taps : memref<8x4x3x3xf32> = dense<0.5>
            func.func @{name}(%x: memref<1x4x6x6xf32>, %w: memref<8x4x3x3xf32>,
                              %v: memref<8x4x3x3xf32>, %o: memref<1x8x4x4xf32>,
                              %p: memref<1x8x4x4xf32>) {{
              %c = memref.get_global @taps : memref<8x4x3x3xf32>
              {calls}
              return
            }}"""
        )
        run_passes(module, "mopt-tile,mopt-lower-to-llvm")
        texts.append(bindings().llvm.translate_module_to_llvmir(module))
        assert all(part in texts[-1] for part in ("@convolution_1(", "@packed_weights_0", RELEASE))
    context = llvm.create_context()
    one, other = (llvm.parse_assembly(text, context) for text in texts)
    one.link_in(other)
    symbols = (*one.functions, *one.global_variables)
    seen = [s.name for s in symbols if not s.is_declaration and s.linkage.name == "external"]
    assert seen == ["f", "g"]


def test_a_linkage_that_a_function_has_is_kept():
    module = load_module(
        """func.func private @g() attributes {llvm.linkage = #llvm.linkage<linkonce_odr>} { return }
        func.func @f() { call @g() : () -> ()
          return }"""
    )
    run_passes(module, "mopt-lower-to-llvm")
    assert "llvm.func linkonce_odr @g()" in str(module)


def test_functions_of_the_c_library():
    function = compile(
        """func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
          %0 = math.erf %a : tensor<3xf32>
          %1 = math.tanh %0 : tensor<3xf32>
          return %1 : tensor<3xf32>
        }""",
        passes=NO_TILING,
    )["f"]
    expected = [math.tanh(math.erf(x)) for x in (0, 0.5, 2)]
    np.testing.assert_allclose(function(np.array([0, 0.5, 2], F32)), expected, rtol=1e-6)


def test_what_only_a_compiler_has_is_refused():
    """LLVM calls for the quotient of such integers what no C library has."""
    text = """func.func @f(%a: memref<2xi64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %0 = memref.load %a[%c0] : memref<2xi64>
      %1 = memref.load %a[%c1] : memref<2xi64>
      %2 = arith.extsi %0 : i64 to i128
      %3 = arith.extsi %1 : i64 to i128
      %4 = arith.muli %2, %2 : i128
      %5 = arith.divsi %4, %3 : i128
      %6 = arith.trunci %5 : i128 to i64
      memref.store %6, %a[%c0] : memref<2xi64>
      return
    }"""
    with pytest.raises(UserError, match="needs functions of a compiler's runtime that"):
        compile(text, passes=NO_TILING)


def test_a_symbol_that_nobody_defines_is_refused():
    with pytest.raises(UserError, match=r"nobody defines nowhere_to_be_found.* load the library"):
        compile(
            """func.func private @nowhere_to_be_found()
            func.func @f() {
              call @nowhere_to_be_found() : () -> ()
              return
            }""",
            passes=NO_TILING,
        )


def test_indices_may_be_sums_of_any_length():
    steps = "\n".join(f"%v{i + 1} = arith.addi %x, %v{i} : index" for i in range(3000))
    function = compile(
        f"""func.func @f(%m: memref<8192xf32>, %x: index, %v0: index) -> f32 {{
          {steps}
          %r = memref.load %m[%v3000] : memref<8192xf32>
          return %r : f32
        }}""",
        passes=NO_TILING,
    )["f"]
    assert function(np.arange(8192, dtype=np.float32), 2, 5) == 6005


@pytest.mark.parametrize("operation", ["log1p", "expm1"])
@pytest.mark.parametrize(("element", "digits"), [("f16", 1e-3), ("f32", 2e-7), ("f64", 4e-16)])
def test_functions_that_are_nothing_near_zero_are_accurate(operation, element, digits):
    """Which `log(1 + x)` and `exp(x) - 1` are not."""
    kind = f"tensor<6x{element}>"
    function = compile(
        f"""func.func @f(%x: {kind}) -> {kind} {{
          %0 = math.{operation} %x : {kind}
          %1 = math.{operation} %0 : {kind}
          return %0 : {kind}
        }}""",
        passes=NO_TILING,
    )["f"]
    dtype = {"f16": np.float16, "f32": F32, "f64": np.float64}[element]
    x = np.array([1e-3, -2e-3, 1e-4, 0.5, -0.5, 2], dtype) * (1 if element == "f16" else 1e-3)
    expected = getattr(np, operation)(x.astype(np.longdouble))
    np.testing.assert_allclose(function(x.astype(dtype)), expected, rtol=digits)


@pytest.mark.parametrize("buffer", ["", "%b: memref<?xf32>, "])
def test_a_bit_that_is_returned_is_0_or_1(buffer):
    """With a dynamic buffer through MLIR's C interface."""
    function = compile(
        f"""func.func @odd({buffer}%a: i8) -> i1 {{
          %0 = arith.trunci %a : i8 to i1
          return %0 : i1
        }}""",
        passes=NO_TILING,
    )["odd"]
    before = [np.zeros(1, F32)] if buffer else []
    assert [function(*before, number) for number in (1, 2, 3, -2)] == [True, False, True, False]


def test_what_upstream_would_abort_at_is_refused():
    with pytest.raises(UserError, match=r"<text>:3:\d+: error: 'memref.expand_shape' leaves two"):
        compile(
            """
            func.func @f(%x: memref<?xf32>, %a: index, %b: index, %y: memref<?x?xf32>) {
              %0 = memref.expand_shape %x [[0, 1]] output_shape [%a, %b]
                  : memref<?xf32> into memref<?x?xf32>
              memref.copy %0, %y : memref<?x?xf32> to memref<?x?xf32>
              return
            }""",
            passes=NO_TILING,
        )


@pytest.mark.parametrize("element", ["i4", "i24", "i128", "f80", "bf16"])
def test_constants_of_elements_that_numpy_lacks(element):
    values = "[1.0, 0.0]" if element in ("f80", "bf16") else "[1, 0]"
    function = compile(
        f"""memref.global "private" constant @w : memref<2x{element}> = dense<{values}>
        func.func @f() -> index {{
          %c0 = arith.constant 0 : index
          %w = memref.get_global @w : memref<2x{element}>
          %size = memref.dim %w, %c0 : memref<2x{element}>
          return %size : index
        }}""",
        passes=NO_TILING,
    )["f"]
    assert function() == 2


def test_parameters_keep_their_names_behind_text_that_is_not_ascii():
    executable = compile(
        'func.func @"é"(%image: memref<4xf32>, %weights: memref<4xf32>) { return }',
        passes=NO_TILING,
    )
    (entry,) = executable.entries
    assert [parameter.name for parameter in entry.parameters] == ["image", "weights"]


@pytest.mark.parametrize(("kind", "dtype"), [("i1", np.bool_), ("i8", np.int8)])
def test_vectors_of_bits_are_bytes_in_memory(kind, dtype):
    type_ = f"memref<2x9x{kind}>"
    text = f"""func.func @f(%m: {type_}, %v: {type_}, %s: {type_}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %x = vector.load %m[%c1, %c1] : {type_}, vector<8x{kind}>
      vector.store %x, %v[%c1, %c0] : {type_}, vector<8x{kind}>
      %e = vector.extract %x[2] : {kind} from vector<8x{kind}>
      memref.store %e, %s[%c0, %c1] : {type_}
      return
    }}"""
    given = np.random.default_rng(0).integers(0, 2, (2, 9)).astype(dtype)
    given[1, 3] = 1
    vectors, single = np.zeros((2, 2, 9), dtype)
    compile(text)["f"](given, vectors, single)
    expected = np.zeros((2, 9), dtype)
    expected[1, :8] = given[1, 1:]
    np.testing.assert_array_equal(vectors, expected)
    assert np.argwhere(single).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            "vector.maskedload %m[%c0], %mask, %bits : memref<8xi1>, vector<8xi1>, vector<8xi1> "
            "into vector<8xi1>\nvector.store %x, %m[%c0] : memref<8xi1>, vector<8xi1>",
            r":6:\d+: error: 'vector.maskedload' of elements of less than a byte is not lowered",
        ),
        (
            "vector.transfer_read %m[%c0], %bit {in_bounds = [true]} : memref<8xi1>, vector<8xi1>\n"
            "vector.store %x, %m[%c0] : memref<8xi1>, vector<8xi1>",
            r":6:\d+: error: 'vector.transfer_read' of elements of less than a byte is not lowered",
        ),
        (
            "vector.load %m[%c0] : memref<8xi1>, vector<1xi1>\n"
            "vector.transfer_write %x, %m[%c0] {in_bounds = [true]} : vector<1xi1>, memref<8xi1>",
            r":7:\d+: error: 'vector.transfer_write' of elements of less than a byte is not ",
        ),
        (
            "vector.load %n[%i, %c0] : memref<8x8xf32>, vector<2x4xf32>\n"
            "vector.store %x, %n[%i, %c0] : memref<8x8xf32>, vector<2x4xf32>",
            r":6:\d+: error: 'vector.load' cannot be lowered to LLVM",
        ),
    ],
)
def test_accesses_that_nothing_lowers_are_told_of(access, message):
    text = f"""func.func @f(%m: memref<8xi1>, %n: memref<8x8xf32>, %i: index) {{
      %c0 = arith.constant 0 : index
      %bit = arith.constant false
      %mask = vector.load %m[%c0] : memref<8xi1>, vector<8xi1>
      %bits = arith.constant dense<false> : vector<8xi1>
      %x = {access}
      return
    }}"""
    with pytest.raises(UserError, match=message):
        compile(text)


@pytest.mark.parametrize("rows", [-8, 8])
@pytest.mark.parametrize("columns", [-1, 1, "?"])
def test_single_elements_where_a_stride_is_open(rows, columns):
    """Products of constant indices and strides that are not known may be negative."""
    type_ = f"memref<4x4xf32, strided<[{columns}, ?], offset: ?>>"
    text = f"""func.func @f(%x: {type_}, %o: memref<1xf32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %v = memref.load %x[%c1, %c2] : {type_}
      memref.store %v, %o[%c0] : memref<1xf32>
      return
    }}"""
    step = -1 if columns == "?" else columns
    memory = np.arange(64, dtype=np.float32)
    x = np.lib.stride_tricks.as_strided(memory[32:], (4, 4), (4 * step, 4 * rows))
    o = np.zeros(1, np.float32)
    compile(text)["f"](x, o)
    assert o[0] == 32 + step + 2 * rows


def test_elements_of_an_open_shape_where_a_stride_is_negative():
    type_ = "memref<?x?x?xf32, strided<[-8, 64, 1], offset: ?>>"
    text = f"""func.func @f(%x: {type_}, %o: memref<3x2xf32>) {{
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      affine.for %i = 0 to 3 {{
        affine.for %j = 0 to 2 {{
          %v = memref.load %x[%c1, %i, %j] : {type_}
          memref.store %v, %o[%i, %j] : memref<3x2xf32>
        }}
      }}
      return
    }}"""
    memory = np.arange(256, dtype=np.float32)
    x = np.lib.stride_tricks.as_strided(memory[8:], (2, 3, 2), (-32, 256, 4))
    o = np.zeros((3, 2), np.float32)
    compile(text)["f"](x, o)
    np.testing.assert_array_equal(o, x[1])
    lowered = load_module(text)
    run_passes(lowered, create("mopt-lower-to-llvm"))
    negative, *_ = re.findall(r"(%\w+) = llvm.mlir.constant\(-8 : index\)", str(lowered))
    (product,) = re.findall(rf"(%\w+) = llvm.mul .*{negative} : i64", str(lowered))
    assert re.search(rf"llvm.add .*{product}\b.* : i64", str(lowered))
    assert not re.search(rf"({negative}|{product})\b.* overflow<", str(lowered))


@pytest.mark.parametrize("layout", ["strided<[-1, ?], offset: ?>", "strided<[-1, ?]>"])
def test_strides_of_which_one_is_negative_and_one_open(layout):
    """What LLVM is told of the products of indices and strides must not say that they are
    positive."""
    type_ = f"memref<8x16xf64, {layout}>"
    text = f"""func.func @f(%x: {type_}, %w: memref<32x16xf64>, %o: memref<8x32xf64>) {{
      linalg.generic {{indexing_maps = [affine_map<(c, h, k) -> (h, c)>,
                                       affine_map<(c, h, k) -> (k, c)>,
                                       affine_map<(c, h, k) -> (h, k)>],
                      iterator_types = ["reduction", "parallel", "parallel"]}}
          ins(%x, %w : {type_}, memref<32x16xf64>) outs(%o : memref<8x32xf64>) {{
      ^bb0(%a: f64, %b: f64, %c: f64):
        %p = arith.mulf %a, %b : f64
        %s = arith.addf %c, %p : f64
        linalg.yield %s : f64
      }}
      return
    }}"""
    random = np.random.default_rng(0)
    x, w = random.standard_normal((16, 8)).T[::-1], random.standard_normal((32, 16))
    o = np.zeros((8, 32))
    compile(text)["f"](x, w, o)
    np.testing.assert_allclose(o, x @ w.T, atol=1e-12)
