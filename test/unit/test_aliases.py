"""Tensors that share a buffer until one of them is written to: each keeps what it is."""

import re

import numpy as np
import pytest
from plain_convolution import convolve

from mopt_mlir import UserError, compile, sink
from mopt_mlir.lowering.aliases import copy_aliases
from mopt_mlir.pipeline.loading import load_module

F32 = np.float32
TENSOR = "tensor<4xf32>"
DOUBLED = """
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%s : tensor<4xf32>) outs(%s : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %w = arith.addf %a, %b : f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
"""
"""Written in place, if bufferisation takes nobody for reading %s later."""


def run(text, *arguments):
    with sink(lambda _: None):
        function = compile(text, machine="generic-avx2")["f"]
    return function(*arguments)


CHOICES = {
    "itself": "%k = tensor.cast ONE : tensor<4xf32> to tensor<4xf32>",
    "if": """%k = scf.if %p -> tensor<4xf32> {
      scf.yield ONE : tensor<4xf32>
    } else {
      scf.yield OTHER : tensor<4xf32>
    }""",
    "select": "%k = arith.select %p, ONE, OTHER : tensor<4xf32>",
    "region": """%k = scf.execute_region -> tensor<4xf32> {
      scf.yield ONE : tensor<4xf32>
    }""",
}
"""%k is one of two tensors, the first if %p holds."""


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("is_own", [False, True])
def test_a_loop_that_goes_on_with_a_tensor_from_outside_leaves_that_alone(is_own, choice):
    outer = "%o" if is_own else "%x"
    goes_on = CHOICES[choice].replace("ONE", outer).replace("OTHER", "%t")
    before, going = run(
        f"""func.func @f(%x: {TENSOR}, %p: i1) -> ({TENSOR}, {TENSOR}) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %o = arith.addf %x, %x : {TENSOR}
          %i, %r = scf.while (%i = %c0, %s = {outer}) : (index, {TENSOR}) -> (index, {TENSOR}) {{
            {DOUBLED}
            %go = arith.cmpi slt, %i, %c3 : index
            scf.condition(%go) %i, %y : index, {TENSOR}
          }} do {{
          ^bb0(%i: index, %t: {TENSOR}):
            %j = arith.addi %i, %c1 : index
            {goes_on}
            scf.yield %j, %k : index, {TENSOR}
          }}
          return {outer}, %r : {TENSOR}, {TENSOR}
        }}""",
        x := np.arange(4, dtype=F32),
        True,
    )
    expected = np.arange(4) * (2 if is_own else 1)
    np.testing.assert_array_equal(before, expected)
    np.testing.assert_array_equal(going, 2 * expected)
    np.testing.assert_array_equal(x, np.arange(4))


@pytest.mark.parametrize("place", ["scf.condition", "scf.yield"])
def test_a_loop_that_goes_on_with_one_tensor_twice_has_two(place):
    first = f"{'%y, %y' if place == 'scf.condition' else '%y, %u'}"
    second = f"{'%t, %v' if place == 'scf.condition' else '%v, %v'}"
    result = run(
        f"""func.func @f(%x: {TENSOR}) -> {TENSOR} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %i, %r, %q = scf.while (%i = %c0, %s = %x, %u = %x)
              : (index, {TENSOR}, {TENSOR}) -> (index, {TENSOR}, {TENSOR}) {{
            {DOUBLED}
            %go = arith.cmpi slt, %i, %c1 : index
            scf.condition(%go) %i, {first} : index, {TENSOR}, {TENSOR}
          }} do {{
          ^bb0(%i: index, %t: {TENSOR}, %v: {TENSOR}):
            %j = arith.addi %i, %c1 : index
            scf.yield %j, {second} : index, {TENSOR}, {TENSOR}
          }}
          return %q : {TENSOR}
        }}""",
        np.arange(4, dtype=F32),
    )
    times = 4 if place == "scf.condition" else 1
    np.testing.assert_array_equal(result, times * np.arange(4))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_loop_that_goes_on_with_what_may_be_one_tensor_has_two(choice):
    chosen = CHOICES[choice].replace("ONE", "%s").replace("OTHER", "%y")
    changed, kept = run(
        f"""func.func @f(%a: {TENSOR}, %b: {TENSOR}, %p: i1) -> ({TENSOR}, {TENSOR}) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %v = arith.constant 100.0 : f32
          %r:2 = scf.for %i = %c0 to %c1 step %c1 iter_args(%x = %a, %y = %b)
              -> ({TENSOR}, {TENSOR}) {{
            %s = arith.addf %x, %x : {TENSOR}
            {chosen}
            scf.yield %s, %k : {TENSOR}, {TENSOR}
          }}
          %d = tensor.insert %v into %r#0[%c0] : {TENSOR}
          return %d, %r#1 : {TENSOR}, {TENSOR}
        }}""",
        np.arange(1, 5, dtype=F32),
        np.zeros(4, F32),
        True,
    )
    np.testing.assert_array_equal(kept, 2 * np.arange(1, 5))
    np.testing.assert_array_equal(changed, [100, 4, 6, 8])


@pytest.mark.parametrize("second", ["%y", "%outer"])
def test_what_a_loop_ends_with_though_it_began_without_is_two_tensors(second):
    changed, kept, outer = run(
        f"""func.func @f(%x: {TENSOR}, %n: index) -> ({TENSOR}, {TENSOR}, {TENSOR}) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %v = arith.constant 100.0 : f32
          %outer = arith.addf %x, %x : {TENSOR}
          %r, %q = scf.while (%i = %c0) : (index) -> ({TENSOR}, {TENSOR}) {{
            %y = arith.mulf %x, %x : {TENSOR}
            %go = arith.cmpi slt, %i, %n : index
            scf.condition(%go) {second}, %y : {TENSOR}, {TENSOR}
          }} do {{
          ^bb0(%t: {TENSOR}, %u: {TENSOR}):
            scf.yield %n : index
          }}
          %d = tensor.insert %v into %r[%c0] : {TENSOR}
          return %d, %q, %outer : {TENSOR}, {TENSOR}, {TENSOR}
        }}""",
        x := np.arange(1, 5, dtype=F32),
        1,
    )
    np.testing.assert_array_equal(kept, x * x)
    np.testing.assert_array_equal(outer, 2 * x)
    np.testing.assert_array_equal(changed, [100, *(x * x if second == "%y" else 2 * x)[1:]])


def test_what_is_returned_twice_beside_a_tensor_of_open_shape_is_two_tensors():
    changed, kept = run(
        f"""func.func private @two(%x: {TENSOR}, %w: tensor<?xf32>)
            -> ({TENSOR}, {TENSOR}, tensor<?xf32>) attributes {{no_inline}} {{
          %y = arith.addf %x, %x : {TENSOR}
          %d = arith.addf %w, %w : tensor<?xf32>
          return %y, %y, %d : {TENSOR}, {TENSOR}, tensor<?xf32>
        }}
        func.func @f(%x: {TENSOR}, %w: tensor<?xf32>) -> ({TENSOR}, {TENSOR}) {{
          %c0 = arith.constant 0 : index
          %v = arith.constant 100.0 : f32
          %a, %b, %c = call @two(%x, %w)
              : ({TENSOR}, tensor<?xf32>) -> ({TENSOR}, {TENSOR}, tensor<?xf32>)
          %d = tensor.insert %v into %a[%c0] : {TENSOR}
          return %d, %b : {TENSOR}, {TENSOR}
        }}""",
        np.arange(1, 5, dtype=F32),
        np.ones(3, F32),
    )
    np.testing.assert_array_equal(kept, [2, 4, 6, 8])
    np.testing.assert_array_equal(changed, [100, 4, 6, 8])


def test_what_a_loop_ends_with_twice_is_two_tensors():
    changed, kept = run(
        f"""func.func @f(%x: {TENSOR}) -> ({TENSOR}, {TENSOR}) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %value = arith.constant 100.0 : f32
          %i, %r, %q = scf.while (%i = %c0, %s = %x) : (index, {TENSOR})
              -> (index, {TENSOR}, {TENSOR}) {{
            %y = arith.addf %s, %s : {TENSOR}
            %go = arith.cmpi slt, %i, %c1 : index
            scf.condition(%go) %i, %y, %y : index, {TENSOR}, {TENSOR}
          }} do {{
          ^bb0(%i: index, %t: {TENSOR}, %v: {TENSOR}):
            %j = arith.addi %i, %c1 : index
            %sum = arith.addf %t, %v : {TENSOR}
            scf.yield %j, %sum : index, {TENSOR}
          }}
          %d = tensor.insert %value into %r[%c0] : {TENSOR}
          return %d, %q : {TENSOR}, {TENSOR}
        }}""",
        np.arange(1, 5, dtype=F32),
    )
    np.testing.assert_array_equal(kept, 8 * np.arange(1, 5))
    np.testing.assert_array_equal(changed, [100, 16, 24, 32])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("written", "kept"), [("%y", "%q"), ("%q", "%y"), ("%q", "%x")])
def test_what_a_switch_gives_back_is_apart(number, written, kept):
    changed, other = run(
        f"""func.func @f(%x: {TENSOR}, %n: index) -> ({TENSOR}, {TENSOR}) {{
          %c0 = arith.constant 0 : index
          %v = arith.constant 100.0 : f32
          %y = arith.addf %x, %x : {TENSOR}
          %q = scf.index_switch %n -> {TENSOR}
          case 1 {{ scf.yield %y : {TENSOR} }}
          default {{ scf.yield %x : {TENSOR} }}
          %d = tensor.insert %v into {written}[%c0] : {TENSOR}
          return %d, {kept} : {TENSOR}, {TENSOR}
        }}""",
        x := np.arange(1, 5, dtype=F32),
        number,
    )
    values = {"%x": np.arange(1, 5), "%y": 2 * np.arange(1, 5)}
    values["%q"] = values["%y" if number == 1 else "%x"]
    np.testing.assert_array_equal(other, values[kept])
    np.testing.assert_array_equal(changed, [100, *values[written][1:]])
    np.testing.assert_array_equal(x, values["%x"])


@pytest.mark.parametrize(
    "second",
    [
        "%y",
        "%part",
        "%either",
        "%selected",
        "%called",
    ],
)
def test_what_a_function_returns_twice_is_two_tensors(second):
    type_ = "tensor<?xf32>"
    changed, kept = run(
        f"""func.func private @same(%x: {type_}) -> {type_} attributes {{no_inline}} {{
          return %x : {type_}
        }}
        func.func private @two(%x: {type_}, %p: i1, %n: index) -> ({type_}, {type_})
            attributes {{no_inline}} {{
          %y = arith.addf %x, %x : {type_}
          %part = tensor.extract_slice %y[0] [%n] [1] : {type_} to {type_}
          %either = scf.if %p -> {type_} {{ scf.yield %y : {type_} }}
              else {{ scf.yield %x : {type_} }}
          %selected = arith.select %p, %y, %x : {type_}
          %called = func.call @same(%y) : ({type_}) -> {type_}
          return %y, {second} : {type_}, {type_}
        }}
        func.func @f(%x: {type_}, %p: i1, %n: index) -> ({type_}, f32) {{
          %c0 = arith.constant 0 : index
          %v = arith.constant 100.0 : f32
          %a, %b = call @two(%x, %p, %n) : ({type_}, i1, index) -> ({type_}, {type_})
          %d = tensor.insert %v into %a[%c0] : {type_}
          %e = tensor.extract %b[%c0] : {type_}
          return %d, %e : {type_}, f32
        }}""",
        np.arange(1, 6, dtype=F32),
        True,
        3,
    )
    np.testing.assert_array_equal(changed, [100, 4, 6, 8, 10])
    assert kept == 2


CONVOLUTION = """linalg.conv_2d_nhwc_hwcf ins({image}, %w : tensor<1x6x6x8xf32>,
    tensor<3x3x8x16xf32>) outs(%f : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>"""


ONE_SHOT = """convert-elementwise-to-linalg,
    one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops
    function-boundary-type-conversion=identity-layout-map}"""


@pytest.mark.parametrize(
    "passes",
    [
        "mopt-tile",
        "mopt-tile,canonicalize,cse",
        f"mopt-tile,cse,{ONE_SHOT}",
    ],
)
def test_convolutions_around_a_change_read_before_and_after_it(passes):
    """Common subexpression elimination must not take the image of both for one."""
    text = f"""func.func @f(%given: tensor<1x6x6x8xf32>, %w: tensor<3x3x8x16xf32>, %v: f32)
        -> (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x6x6x8xf32>) {{
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0.0 : f32
      %x = arith.addf %given, %given : tensor<1x6x6x8xf32>
      %e = tensor.empty() : tensor<1x4x4x16xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
      %c0 = arith.constant 0 : index
      %a = {CONVOLUTION.format(image="%x")}
      %y = tensor.insert %v into %x[%c0, %c1, %c1, %c1] : tensor<1x6x6x8xf32>
      %b = {CONVOLUTION.format(image="%x")}
      return %a, %b, %y : tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x6x6x8xf32>
    }}"""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(F32) for s in ((1, 6, 6, 8), (3, 3, 8, 16)))
    a, b, y = compile(text, passes=passes)["f"](x.copy(), w, F32(100))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(a, convolve(2 * x, w, "nhwc_hwcf"), atol=1e-3)
    assert y[0, 1, 1, 1] == 100


RESULT = "tensor<1x4x4x16xf32>"
CHANGE = f"tensor.insert %v into %a[%c0, %c1, %c1, %c1] : {RESULT}"
AGAIN = f"""linalg.conv_2d_nhwc_hwcf ins(%a, %w2 : {RESULT}, tensor<3x3x16x16xf32>)
        outs(%g : tensor<1x2x2x16xf32>) -> tensor<1x2x2x16xf32>"""


def check_that_it_is_read_as_it_was(passes, rest, first=CONVOLUTION):
    """`rest` returns what a second convolution makes of %a, the result of the `first`, and %a with
    one element changed to %v; %always holds."""
    text = f"""func.func @f(%x: tensor<1x6x6x8xf32>, %w: tensor<3x3x8x16xf32>,
        %w2: tensor<3x3x16x16xf32>, %v: f32, %always: i1)
        -> (tensor<1x2x2x16xf32>, {RESULT}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {RESULT}
      %f = linalg.fill ins(%zero : f32) outs(%e : {RESULT}) -> {RESULT}
      %e2 = tensor.empty() : tensor<1x2x2x16xf32>
      %g = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x2x2x16xf32>) -> tensor<1x2x2x16xf32>
      %a = {first.format(image="%x")}
      {rest}
    }}"""
    random = np.random.default_rng(0)
    shapes = (1, 6, 6, 8), (3, 3, 8, 16), (3, 3, 16, 16)
    x, w, w2 = (random.standard_normal(shape).astype(F32) for shape in shapes)
    b, y = compile(text, passes=passes)["f"](x, w, w2, F32(100), np.True_)
    a = convolve(x, w, "nhwc_hwcf")
    np.testing.assert_allclose(b, convolve(a, w2, "nhwc_hwcf"), atol=1e-2)
    a[0, 1, 1, 1] = 100
    np.testing.assert_allclose(y, a, atol=1e-3)


FORMS = {
    "reshaped": f"""%p = tensor.collapse_shape %a [[0, 1, 2], [3]]
        : {RESULT} into tensor<16x16xf32>
      CHANGE
      %q = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 4, 16]
        : tensor<16x16xf32> into {RESULT}""",
    "cast": f"""%p = tensor.cast %a : {RESULT} to tensor<?x4x4x16xf32>
      CHANGE
      %q = tensor.cast %p : tensor<?x4x4x16xf32> to {RESULT}""",
    "branch": f"""CHANGE
      %q = scf.if %always -> {RESULT} {{ scf.yield %a : {RESULT} }}
        else {{ scf.yield %a : {RESULT} }}""",
    "loop": f"""CHANGE
      %q = scf.for %i = %c0 to %c1 step %c1 iter_args(%t = %a) -> {RESULT} {{
        scf.yield %t : {RESULT} }}""",
    "select": f"""CHANGE
      %q = arith.select %always, %a, %a : {RESULT}""",
    "switch": f"""CHANGE
      %q = scf.index_switch %c0 -> {RESULT} case 0 {{ scf.yield %a : {RESULT} }}
        default {{ scf.yield %a : {RESULT} }}""",
    "while": f"""CHANGE
      %never = arith.constant false
      %q = scf.while (%t = %a) : ({RESULT}) -> {RESULT} {{
        scf.condition(%never) %t : {RESULT}
      }} do {{
      ^bb0(%t: {RESULT}):
        scf.yield %t : {RESULT}
      }}""",
    "generic": f"""CHANGE
      %e3 = tensor.empty() : {RESULT}
      %q = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
          affine_map<(a, b, c, d) -> (a, b, c, d)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
          ins(%a : {RESULT}) outs(%e3 : {RESULT}) {{
        ^bb0(%one: f32, %other: f32): linalg.yield %one : f32
      }} -> {RESULT}""",
    "product": f"""%ones = arith.constant dense<1.0> : {RESULT}
      CHANGE
      %q = arith.mulf %a, %ones : {RESULT}""",
    "sum": f"""%zeros = arith.constant dense<-0.0> : {RESULT}
      CHANGE
      %q = arith.addf %a, %zeros : {RESULT}""",
    "maximum": f"""CHANGE
      %q = arith.maximumf %a, %a : {RESULT}""",
    "slice": f"""CHANGE
      %q = tensor.extract_slice %a[0, 0, 0, 0] [1, 4, 4, 16] [1, 1, 1, 1] : {RESULT} to {RESULT}""",
    "inserted": f"""%e3 = tensor.empty() : {RESULT}
      CHANGE
      %q = tensor.insert_slice %a into %e3[0, 0, 0, 0] [1, 4, 4, 16] [1, 1, 1, 1]
        : {RESULT} into {RESULT}""",
    "padded": f"""%padding = arith.constant 0.0 : f32
      CHANGE
      %q = tensor.pad %a low[0, 0, 0, 0] high[0, 0, 0, 0] {{
        ^bb0(%i0: index, %i1: index, %i2: index, %i3: index): tensor.yield %padding : f32
      }} : {RESULT} to {RESULT}""",
    "concatenated": f"""CHANGE
      %q = tensor.concat dim(0) %a : ({RESULT}) -> {RESULT}""",
    "transposed": f"""%e3 = tensor.empty() : {RESULT}
      CHANGE
      %q = linalg.transpose ins(%a : {RESULT}) outs(%e3 : {RESULT}) permutation = [0, 1, 2, 3]""",
    "broadcast": f"""%e3 = tensor.empty() : {RESULT}
      CHANGE
      %q = linalg.broadcast ins(%a : {RESULT}) outs(%e3 : {RESULT}) dimensions = []""",
}
"""%q is %a by other operations, that folding takes away, around a change of it."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("passes", ["mopt-tile", "mopt-tile,canonicalize,cse"])
def test_a_result_that_is_read_in_another_form_is_read_as_it_was(passes, form):
    check_that_it_is_read_as_it_was(
        passes,
        f"""{FORMS[form].replace("CHANGE", f"%y = {CHANGE}")}
      %b = {AGAIN.replace("%a", "%q")}
      return %b, %y : tensor<1x2x2x16xf32>, {RESULT}""",
    )


@pytest.mark.parametrize("passes", ["mopt-tile", "mopt-tile,canonicalize,cse"])
@pytest.mark.parametrize(
    ("around", "behind"),
    [
        (f"scf.if %always -> {RESULT} {{{{", f"}}}} else {{{{ scf.yield %f : {RESULT} }}}}"),
        (f"scf.for %i = %c0 to %c1 step %c1 iter_args(%t = %f) -> {RESULT} {{{{", "}}"),
        (f"scf.execute_region -> {RESULT} {{{{", "}}"),
    ],
)
def test_a_result_that_leaves_a_branch_or_a_loop_is_read_as_it_was(passes, around, behind):
    check_that_it_is_read_as_it_was(
        passes,
        f"""%y = {CHANGE}
      %b = {AGAIN}
      return %b, %y : tensor<1x2x2x16xf32>, {RESULT}""",
        f"""{around}
        %inner = {CONVOLUTION}
        scf.yield %inner : {RESULT}
      {behind}""",
    )


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("passes", ["mopt-tile", "mopt-tile,canonicalize,cse"])
def test_a_result_that_is_changed_and_read_in_other_blocks_is_read_as_it_was(passes, elsewhere):
    before, behind = ("", f"%y = {CHANGE}") if elsewhere else (f"%y = {CHANGE}", "")
    check_that_it_is_read_as_it_was(
        passes,
        f"""{before}
      cf.cond_br %always, ^one, ^other
    ^one:
      {behind}
      %b = {AGAIN}
      cf.br ^end(%b, %y : tensor<1x2x2x16xf32>, {RESULT})
    ^other:
      cf.br ^end(%g, %a : tensor<1x2x2x16xf32>, {RESULT})
    ^end(%c: tensor<1x2x2x16xf32>, %d: {RESULT}):
      return %c, %d : tensor<1x2x2x16xf32>, {RESULT}""",
    )


@pytest.mark.parametrize("where", ["", "scf.if %always", "scf.for %i = %c0 to %c1 step %c1"])
@pytest.mark.parametrize("passes", ["mopt-tile", "mopt-tile,canonicalize,cse"])
def test_a_result_that_is_changed_is_read_as_it_was(passes, where):
    """Folding must not let the second convolution read the buffer of the first one's result, which
    the change is made in."""
    change = CHANGE
    if where.startswith("scf.if"):
        change = f"""{where} -> {RESULT} {{
          %u = {change}
          scf.yield %u : {RESULT}
        }} else {{
          scf.yield %a : {RESULT}
        }}"""
    elif where:
        change = f"""{where} iter_args(%t = %a) -> {RESULT} {{
          %u = {change.replace("%a", "%t")}
          scf.yield %u : {RESULT}
        }}"""
    check_that_it_is_read_as_it_was(
        passes,
        f"""%y = {change}
      %b = {AGAIN}
      return %b, %y : tensor<1x2x2x16xf32>, {RESULT}""",
    )


@pytest.mark.parametrize(
    "views",
    [
        "%v = memref.subview %b[0] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1]>>",
        """%c = memref.cast %b : memref<4xf32> to memref<?xf32>
        %v = memref.subview %c[0] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1]>>""",
        """%c = memref.assume_alignment %b, 4 : memref<4xf32>
        %v = memref.subview %c[0] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1]>>""",
    ],
)
def test_a_view_of_a_tensor_is_left_as_the_tensor_was(views):
    text = f"""
    func.func @f(%x: f32, %before: memref<2xf32>, %after: memref<2xf32>) -> tensor<4xf32> {{
      %zero = arith.constant 0 : index
      %nine = arith.constant 9.0 : f32
      %e = tensor.empty() : tensor<4xf32>
      %t = linalg.fill ins(%x : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %b = bufferization.to_buffer %t read_only : tensor<4xf32> to memref<4xf32>
      {views}
      memref.copy %v, %before : memref<2xf32, strided<[1]>> to memref<2xf32>
      %u = tensor.insert %nine into %t[%zero] : tensor<4xf32>
      memref.copy %v, %after : memref<2xf32, strided<[1]>> to memref<2xf32>
      return %u : tensor<4xf32>
    }}"""
    before, after = np.zeros(2, F32), np.zeros(2, F32)
    result = compile(text)["f"](3.0, before, after)
    np.testing.assert_array_equal([*result, *before, *after], [9, 3, 3, 3, 3, 3, 3, 3])


@pytest.mark.parametrize(
    "passes", ["mopt-tile", "mopt-tile,func.func(loop-invariant-code-motion),cse"]
)
def test_a_convolution_in_a_loop_reads_what_the_loop_has_changed(passes):
    text = f"""func.func @f(%given: tensor<1x6x6x8xf32>, %w: tensor<3x3x8x16xf32>, %v: f32)
        -> (tensor<1x4x4x16xf32>, tensor<1x6x6x8xf32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %zero = arith.constant 0.0 : f32
      %x = arith.addf %given, %given : tensor<1x6x6x8xf32>
      %e = tensor.empty() : tensor<1x4x4x16xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
      %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %f, %z = %x)
          -> (tensor<1x4x4x16xf32>, tensor<1x6x6x8xf32>) {{
        %a = {CONVOLUTION.format(image="%x")}
        %y = tensor.insert %v into %x[%c0, %c1, %c1, %i] : tensor<1x6x6x8xf32>
        %t = arith.addf %a, %s : tensor<1x4x4x16xf32>
        scf.yield %t, %y : tensor<1x4x4x16xf32>, tensor<1x6x6x8xf32>
      }}
      return %r#0, %r#1 : tensor<1x4x4x16xf32>, tensor<1x6x6x8xf32>
    }}"""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(F32) for s in ((1, 6, 6, 8), (3, 3, 8, 16)))
    total, last = compile(text, passes=passes)["f"](x, w, F32(100))
    np.testing.assert_allclose(total, 3 * convolve(2 * x, w, "nhwc_hwcf"), atol=1e-3)
    expected = 2 * x
    expected[0, 1, 1, 2] = 100
    np.testing.assert_allclose(last, expected)


TO_ROW = """
  %row = memref.subview %out[%i, 0] [1, 4] [1, 1]
      : memref<3x4xf32> to memref<4xf32, strided<[1], offset: ?>>
  memref.copy %b, %row : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
"""
"""Writes a row of the result in each iteration."""

LOOPS = {
    "affine.for": "affine.for %i = 0 to 3 {",
    "affine.parallel": "affine.parallel (%i) = (0) to (3) {",
    "scf.parallel": "scf.parallel (%i) = (%c0) to (%c3) step (%c1) {",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("changing", ["%y = arith.negf %s : tensor<4xf32>", DOUBLED])
def test_each_iteration_finds_a_tensor_from_outside_as_it_was(loop, changing):
    result = np.zeros((3, 4), F32)
    run(
        f"""func.func @f(%x: {TENSOR}, %out: memref<3x4xf32>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %s = arith.addf %x, %x : {TENSOR}
          {loop}
            {changing}
            %b = bufferization.to_buffer %y : {TENSOR} to memref<4xf32>
            {TO_ROW}
          }}
          return
        }}""",
        np.arange(4, dtype=F32),
        result,
    )
    expected = np.arange(4) * (-2 if "negf" in changing else 4)
    np.testing.assert_array_equal(result, [expected] * 3)


CHANGING = {
    "call": f"func.call @change(%s, %out, %i) : ({TENSOR}, memref<3xf32>, index) -> ()",
    "while": f"""scf.while (%t = %s) : ({TENSOR}) -> () {{
        func.call @change(%t, %out, %i) : ({TENSOR}, memref<3xf32>, index) -> ()
        scf.condition(%never)
      }} do {{
        scf.yield %s : {TENSOR}
      }}""",
}
"""Operations that change a tensor and have no result."""


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("changing", CHANGING.values(), ids=CHANGING)
def test_each_iteration_finds_a_tensor_as_it_was_that_others_change_without_result(changing, loop):
    result = np.zeros(3, F32)
    run(
        f"""
        func.func private @change(
            %t: {TENSOR} {{bufferization.writable = true}}, %out: memref<3xf32>, %i: index) {{
          %c0 = arith.constant 0 : index
          %one = arith.constant 1.0 : f32
          %old = tensor.extract %t[%c0] : {TENSOR}
          %more = arith.addf %old, %one : f32
          %u = tensor.insert %more into %t[%c0] : {TENSOR}
          %new = tensor.extract %u[%c0] : {TENSOR}
          memref.store %new, %out[%i] : memref<3xf32>
          return
        }}
        func.func @f(%x: {TENSOR}, %out: memref<3xf32>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %never = arith.constant false
          %s = arith.addf %x, %x : {TENSOR}
          {loop}
            {changing}
          }}
          return
        }}""",
        np.full(4, 2, F32),
        result,
    )
    assert result.tolist() == [5, 5, 5]


def test_what_a_branch_hands_on_from_outside_of_a_loop_is_left_alone():
    result = np.zeros((3, 4), F32)
    run(
        f"""func.func @f(%c: i1, %x: {TENSOR}, %out: memref<3x4xf32>) {{
          %o = arith.addf %x, %x : {TENSOR}
          %p = arith.mulf %x, %x : {TENSOR}
          affine.for %i = 0 to 3 {{
            %s = scf.if %c -> {TENSOR} {{
              scf.yield %o : {TENSOR}
            }} else {{
              scf.yield %p : {TENSOR}
            }}
            {DOUBLED}
            %b = bufferization.to_buffer %y : {TENSOR} to memref<4xf32>
            {TO_ROW}
          }}
          return
        }}""",
        True,
        np.arange(4, dtype=F32),
        result,
    )
    np.testing.assert_array_equal(result, [np.arange(4) * 4] * 3)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_buffer_that_is_written_to_is_new_in_each_iteration(loop):
    result = np.zeros((3, 4), F32)
    run(
        f"""func.func @f(%x: {TENSOR}, %out: memref<3x4xf32>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %seven = arith.constant 7.0 : f32
          %s = arith.addf %x, %x : {TENSOR}
          {loop}
            %b = bufferization.to_buffer %s : {TENSOR} to memref<4xf32>
            memref.store %seven, %b[%i] : memref<4xf32>
            {TO_ROW}
          }}
          return
        }}""",
        np.arange(4, dtype=F32),
        result,
    )
    expected = np.array([np.arange(4) * 2] * 3)
    expected[range(3), range(3)] = 7
    np.testing.assert_array_equal(result, expected)


def test_what_a_loop_only_reads_is_not_copied():
    module = load_module(
        f"""func.func @f(%x: tensor<3x4xf32>, %w: {TENSOR}, %v: tensor<f32>,
                %out: memref<3x4xf32>) {{
          affine.for %i = 0 to 3 {{
            %part = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1]
                : tensor<3x4xf32> to {TENSOR}
            %e = tensor.empty() : {TENSOR}
            %all = linalg.broadcast ins(%v : tensor<f32>) outs(%e : {TENSOR}) dimensions = [0]
            %turned = linalg.transpose ins(%w : {TENSOR}) outs(%all : {TENSOR}) permutation = [0]
            %same = tensor.insert_slice %w into %turned[0] [4] [1] : {TENSOR} into {TENSOR}
            %y = linalg.add ins(%part, %w : {TENSOR}, {TENSOR}) outs(%same : {TENSOR}) -> {TENSOR}
            %b = bufferization.to_buffer %y : {TENSOR} to memref<4xf32>
            {TO_ROW}
          }}
          return
        }}"""
    )
    copy_aliases(module)
    assert "alloc_tensor" not in str(module)


@pytest.mark.parametrize(
    ("operation", "yields", "expected"),
    [
        ("tensor.generate {", f"}} : {TENSOR}", [5, 5, 5, 5]),
        ("tensor.pad %p low[1] high[1] {", f"}} : tensor<2xf32> to {TENSOR}", [5, 2, 2, 5]),
    ],
)
def test_the_body_of_an_operation_runs_several_times(operation, yields, expected):
    result = run(
        f"""func.func @f(%x: {TENSOR}) -> {TENSOR} {{
          %c0 = arith.constant 0 : index
          %p = tensor.extract_slice %x[0] [2] [1] : {TENSOR} to tensor<2xf32>
          %s = arith.addf %x, %x : {TENSOR}
          %r = {operation}
          ^bb0(%i: index):
            %before = tensor.extract %s[%c0] : {TENSOR}
            %one = arith.constant 1.0 : f32
            %more = arith.addf %before, %one : f32
            %t = tensor.insert %more into %s[%c0] : {TENSOR}
            %now = tensor.extract %t[%c0] : {TENSOR}
            tensor.yield %now : f32
          {yields}
          return %r : {TENSOR}
        }}""",
        np.full(4, 2, F32),
    )
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("loop", ["affine.for %i = 0 to 2", "scf.for %i = %c0 to %c2 step %c1"])
def test_a_convolution_in_a_loop_reads_what_the_loop_has_made(loop):
    rng = np.random.default_rng(3)
    image = rng.standard_normal((2, 1, 6, 6, 4), F32)
    weights = rng.standard_normal((3, 3, 4, 8), F32)
    result = np.zeros((2, 1, 4, 4, 8), F32)
    run(
        f"""func.func @f(%x: tensor<2x1x6x6x4xf32>, %w: tensor<3x3x4x8xf32>,
            %out: memref<2x1x4x4x8xf32>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c2 = arith.constant 2 : index
          %zero = arith.constant 0.0 : f32
          {loop} {{
            %part = tensor.extract_slice %x[%i, 0, 0, 0, 0] [1, 1, 6, 6, 4] [1, 1, 1, 1, 1]
                : tensor<2x1x6x6x4xf32> to tensor<1x6x6x4xf32>
            %image = arith.addf %part, %part : tensor<1x6x6x4xf32>
            %empty = tensor.empty() : tensor<1x4x4x8xf32>
            %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x4x4x8xf32>)
                -> tensor<1x4x4x8xf32>
            %y = linalg.conv_2d_nhwc_hwcf
                ins(%image, %w : tensor<1x6x6x4xf32>, tensor<3x3x4x8xf32>)
                outs(%init : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
            %b = bufferization.to_buffer %y : tensor<1x4x4x8xf32> to memref<1x4x4x8xf32>
            %place = memref.subview %out[%i, 0, 0, 0, 0] [1, 1, 4, 4, 8] [1, 1, 1, 1, 1]
                : memref<2x1x4x4x8xf32> to memref<1x4x4x8xf32, strided<[128, 32, 8, 1], offset: ?>>
            memref.copy %b, %place
                : memref<1x4x4x8xf32> to memref<1x4x4x8xf32, strided<[128, 32, 8, 1], offset: ?>>
          }}
          return
        }}""",
        image,
        weights,
        result,
    )
    expected = 2 * convolve(image, weights, "bnhwc_hwcf")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("has_tensors", [True, False])
def test_a_buffer_grows(has_tensors):
    tensors = f"func.func @tensors(%x: {TENSOR}) -> {TENSOR} {{ return %x : {TENSOR} }}"
    text = f"""
        {tensors if has_tensors else ""}
        func.func @f(%n: index, %o: memref<8xf32>) {{
          %c2 = arith.constant 2 : index
          %two = arith.constant 2.0 : f32
          %a = memref.alloc(%c2) : memref<?xf32>
          linalg.fill ins(%two : f32) outs(%a : memref<?xf32>)
          %b = memref.realloc %a(%n) : memref<?xf32> to memref<?xf32>
          %part = memref.subview %b[0] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1]>>
          %place = memref.subview %o[0] [2] [1] : memref<8xf32> to memref<2xf32, strided<[1]>>
          memref.copy %part, %place
            : memref<2xf32, strided<[1]>> to memref<2xf32, strided<[1]>>
          return
        }}"""
    run(text, 8, o := np.zeros(8, F32))
    np.testing.assert_array_equal(o, [2, 2, 0, 0, 0, 0, 0, 0])


PUT = {
    "itself": "memref.store %b, %all[%i] : memref<64xmemref<1xindex>>",
    "selected": """%c = memref.alloc() : memref<1xindex>
      memref.store %i, %c[%c0] : memref<1xindex>
      %odd = arith.trunci %n : i64 to i1
      %s = arith.select %odd, %b, %c : memref<1xindex>
      memref.store %s, %all[%i] : memref<64xmemref<1xindex>>""",
    "by a function": """func.call @put(%i, %b, %all)
      : (index, memref<1xindex>, memref<64xmemref<1xindex>>) -> ()""",
    "by a pointer": """%put = func.constant @put
      : (index, memref<1xindex>, memref<64xmemref<1xindex>>) -> ()
      func.call_indirect %put(%i, %b, %all)
      : (index, memref<1xindex>, memref<64xmemref<1xindex>>) -> ()""",
    "by a branch": """%s = affine.if affine_set<() : (1 >= 0)>() -> memref<1xindex> {
        affine.yield %b : memref<1xindex>
      } else {
        affine.yield %b : memref<1xindex>
      }
      memref.store %s, %all[%i] : memref<64xmemref<1xindex>>""",
}
"""%b, or another buffer that holds the same, is in %all at %i."""


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_buffers_in_a_buffer_are_not_freed_while_it_is_in_use(put):
    text = f"""
        func.func @tensors(%x: {TENSOR}) -> {TENSOR} {{ return %x : {TENSOR} }}
        func.func private @put(%i: index, %b: memref<1xindex>, %all: memref<64xmemref<1xindex>>) {{
          memref.store %b, %all[%i] : memref<64xmemref<1xindex>>
          return
        }}
        func.func @f(%o: memref<64xindex>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c64 = arith.constant 64 : index
          %all = memref.alloc() : memref<64xmemref<1xindex>>
          scf.for %i = %c0 to %c64 step %c1 {{
            %b = memref.alloc() : memref<1xindex>
            memref.store %i, %b[%c0] : memref<1xindex>
            %n = arith.index_cast %i : index to i64
            {put}
          }}
          scf.for %i = %c0 to %c64 step %c1 {{
            %b = memref.load %all[%i] : memref<64xmemref<1xindex>>
            %n = memref.load %b[%c0] : memref<1xindex>
            memref.store %n, %o[%i] : memref<64xindex>
          }}
          return
        }}"""
    run(text, o := np.zeros(64, np.int64))
    np.testing.assert_array_equal(o, range(64))


NEW = {
    "of a known size": "%b = memref.alloc(%c2) : memref<?xindex>",
    "grown": """%small = memref.alloc(%c1) : memref<?xindex>
      %b = memref.realloc %small(%n) : memref<?xindex> to memref<?xindex>""",
}
"""A buffer of two elements."""


@pytest.mark.parametrize("new", NEW.values(), ids=NEW)
def test_buffers_in_a_buffer_stay_whatever_becomes_of_their_sizes(new):
    text = f"""
        func.func @tensors(%x: {TENSOR}) -> {TENSOR} {{ return %x : {TENSOR} }}
        func.func @f(%n: index, %o: memref<64xindex>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c2 = arith.constant 2 : index
          %c64 = arith.constant 64 : index
          %all = memref.alloc() : memref<64xmemref<?xindex>>
          scf.for %i = %c0 to %c64 step %c1 {{
            {new}
            memref.store %i, %b[%c1] : memref<?xindex>
            memref.store %b, %all[%i] : memref<64xmemref<?xindex>>
          }}
          scf.for %i = %c0 to %c64 step %c1 {{
            %b = memref.load %all[%i] : memref<64xmemref<?xindex>>
            %n1 = memref.load %b[%c1] : memref<?xindex>
            memref.store %n1, %o[%i] : memref<64xindex>
          }}
          return
        }}"""
    run(text, 2, o := np.zeros(64, np.int64))
    np.testing.assert_array_equal(o, range(64))


def test_what_is_freed_by_hand_is_freed_once_whatever_becomes_of_its_size():
    text = f"""
        func.func @tensors(%x: {TENSOR}) -> {TENSOR} {{ return %x : {TENSOR} }}
        func.func @f(%i: index, %o: memref<1xf32>) {{
          %c0 = arith.constant 0 : index
          %c4 = arith.constant 4 : index
          %two = arith.constant 2.0 : f32
          %m = memref.alloc(%c4) : memref<?xf32>
          linalg.fill ins(%two : f32) outs(%m : memref<?xf32>)
          %x = memref.load %m[%i] : memref<?xf32>
          memref.store %x, %o[%c0] : memref<1xf32>
          memref.dealloc %m : memref<?xf32>
          return
        }}"""
    run(text, 1, o := np.zeros(1, F32))
    assert o == 2


def test_switches_behind_each_other_are_looked_through_once():
    """What each of them hands on is what the one before does, in two ways: 2^40 paths. What the
    last one hands on is a copy already."""
    switches = "\n".join(
        f"""%t{n + 1} = scf.index_switch %i -> {TENSOR} case 0 {{ scf.yield %t{n} : {TENSOR} }}
          default {{ scf.yield %t{n} : {TENSOR} }}"""
        for n in range(40)
    )
    text = f"""
        func.func @f(%x: {TENSOR}) -> {TENSOR} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %one = arith.constant 1.0 : f32
          %r:2 = scf.while (%i = %c0, %t = %x) : (index, {TENSOR}) -> (index, {TENSOR}) {{
            %more = arith.cmpi slt, %i, %c3 : index
            scf.condition(%more) %i, %t : index, {TENSOR}
          }} do {{
          ^bb0(%i: index, %t: {TENSOR}):
            %t0 = tensor.insert %one into %t[%i] : {TENSOR}
            {switches}
            %next = arith.addi %i, %c1 : index
            scf.yield %next, %t40 : index, {TENSOR}
          }}
          return %r#1 : {TENSOR}
        }}"""
    copy_aliases(module := load_module(text))
    assert str(module).count("alloc_tensor") == 2 * 40


def test_what_a_function_only_reads_is_not_copied_for_it():
    text = f"""
        func.func private @read(
            %t: {TENSOR} {{bufferization.writable = false}}, %out: memref<3xf32>, %i: index) {{
          %value = tensor.extract %t[%i] : {TENSOR}
          memref.store %value, %out[%i] : memref<3xf32>
          return
        }}
        func.func @f(%x: {TENSOR}, %out: memref<3xf32>) {{
          affine.for %i = 0 to 3 {{
            func.call @read(%x, %out, %i) : ({TENSOR}, memref<3xf32>, index) -> ()
          }}
          return
        }}"""
    copy_aliases(module := load_module(text))
    assert "alloc_tensor" not in str(module)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("%m = memref.collapse_shape %a [[0, 1]] : memref<2x2xf32> into memref<4xf32>", None),
        ("%m = memref.assume_alignment %b, 4 : memref<4xf32>", None),
        (
            "%m = scf.if %c -> (memref<4xf32>) { %t = memref.alloc() : memref<4xf32>\n"
            "scf.yield %t : memref<4xf32> } else { %t = memref.alloc() : memref<4xf32>\n"
            "scf.yield %t : memref<4xf32> }",
            "'memref.dealloc' frees what several allocations, or callers, may have given",
        ),
    ],
)
def test_what_a_module_frees_beside_tensors_is_freed_once(made, message):
    text = f"""
        func.func @tensors(%x: {TENSOR}) -> {TENSOR} {{ return %x : {TENSOR} }}
        func.func @f(%c: i1, %o: memref<4xf32>) {{
          %a = memref.alloc() : memref<2x2xf32>
          %b = memref.alloc() : memref<4xf32>
          {made}
          %two = arith.constant 2.0 : f32
          linalg.fill ins(%two : f32) outs(%m : memref<4xf32>)
          memref.copy %m, %o : memref<4xf32> to memref<4xf32>
          memref.dealloc %m : memref<4xf32>
          return
        }}"""
    if message is None:
        run(text, True, o := np.zeros(4, F32))
        np.testing.assert_array_equal(o, [2, 2, 2, 2])
    else:
        with pytest.raises(UserError, match=message):
            run(text, True, np.zeros(4, F32))


def test_copies_come_in_the_order_of_what_a_loop_hands_on():
    """So that the same module gives the same code in each process, wherever operations lie."""
    tensors = [f"%o{i}" for i in range(12)]
    parameters = ", ".join(f"{name}: {TENSOR}" for name in tensors)
    types = ", ".join([TENSOR] * len(tensors))
    initial = ", ".join(f"%t{i} = {name}" for i, name in enumerate(tensors))
    inside = ", ".join(f"%t{i}" for i in range(len(tensors)))
    block = ", ".join(f"%u{i}: {TENSOR}" for i in range(len(tensors)))
    module = load_module(
        f"""func.func @f({parameters}, %go: i1) -> ({types}) {{
          %r:{len(tensors)} = scf.while ({initial}) : ({types}) -> ({types}) {{
            scf.condition(%go) {inside} : {types}
          }} do {{
          ^bb0({block}):
            scf.yield {", ".join(tensors)} : {types}
          }}
          return {", ".join(f"%r#{i}" for i in range(len(tensors)))} : {types}
        }}"""
    )
    with module.context, module.operation.location:
        copy_aliases(module.operation)
    copied = re.findall(r"alloc_tensor\(\) copy\(%arg(\d+)\)", str(module))
    assert copied == [str(i) for i in range(len(tensors))]
