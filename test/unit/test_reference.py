"""The float64 reference against loops that are written out, and against numbers known by heart."""

import itertools

import numpy as np
import pytest

from mopt_mlir import UserError
from mopt_mlir.reference import evaluate, flops_of

GENERATOR = np.random.default_rng(0)


def convolve(images, filters, strides, dilations):
    """A 2-d convolution NCHW, FCHW, element by element."""
    n, _, height, width = images.shape
    k, c, r, s = filters.shape
    h = (height - dilations[0] * (r - 1) - 1) // strides[0] + 1
    w = (width - dilations[1] * (s - 1) - 1) // strides[1] + 1
    output = np.zeros((n, k, h, w))
    for at in np.ndindex(n, k, h, w):
        for i, j, m in itertools.product(range(c), range(r), range(s)):
            y, x = at[2] * strides[0] + j * dilations[0], at[3] * strides[1] + m * dilations[1]
            output[at] += images[at[0], i, y, x] * filters[at[1], i, j, m]
    return output


@pytest.mark.parametrize(("strides", "dilations"), [((1, 1), (1, 1)), ((2, 1), (1, 3))])
def test_convolution_on_memrefs_accumulates(parse, strides, dilations):
    images, filters = GENERATOR.random((2, 3, 9, 11)), GENERATOR.random((4, 3, 3, 2))
    expected = convolve(images, filters, strides, dilations)
    types = [f"memref<{'x'.join(map(str, a.shape))}xf32>" for a in (images, filters, expected)]
    module = parse(f"""
      func.func @f(%i: {types[0]}, %w: {types[1]}, %o: {types[2]}) {{
        linalg.conv_2d_nchw_fchw {{
            strides = dense<[{strides[0]}, {strides[1]}]> : tensor<2xi64>,
            dilations = dense<[{dilations[0]}, {dilations[1]}]> : tensor<2xi64>}}
          ins(%i, %w : {types[0]}, {types[1]}) outs(%o : {types[2]})
        return
      }}""")
    outcome = evaluate(module, "f", [images, filters, np.ones(expected.shape)])
    np.testing.assert_allclose(outcome.arguments[2].value, expected + 1, rtol=1e-12)
    assert flops_of(module, "f") == 2 * expected.size * 3 * 3 * 2


def test_bias_and_relu_on_tensors(parse):
    module = parse("""
      #all = affine_map<(h, w, k) -> (h, w, k)>
      #channel = affine_map<(h, w, k) -> (k)>
      func.func @f(%i: tensor<4x4x2xf32>, %w: tensor<2x3xf32>, %b: tensor<3xf32>)
          -> tensor<4x4x3xf32> {
        %zero = arith.constant 0.0 : f32
        %empty = tensor.empty() : tensor<4x4x3xf32>
        %bias = linalg.generic {indexing_maps = [#channel, #all],
            iterator_types = ["parallel", "parallel", "parallel"]}
            ins(%b : tensor<3xf32>) outs(%empty : tensor<4x4x3xf32>) {
          ^bb0(%x: f32, %_: f32):
            linalg.yield %x : f32
        } -> tensor<4x4x3xf32>
        %sum = linalg.generic {indexing_maps = [affine_map<(h, w, k, c) -> (h, w, c)>,
            affine_map<(h, w, k, c) -> (c, k)>, affine_map<(h, w, k, c) -> (h, w, k)>],
            iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
            ins(%i, %w : tensor<4x4x2xf32>, tensor<2x3xf32>) outs(%bias : tensor<4x4x3xf32>) {
          ^bb0(%x: f32, %y: f32, %acc: f32):
            %0 = arith.mulf %y, %x : f32
            %1 = arith.addf %0, %acc : f32
            linalg.yield %1 : f32
        } -> tensor<4x4x3xf32>
        %relu = linalg.generic {indexing_maps = [#all, #all],
            iterator_types = ["parallel", "parallel", "parallel"]}
            ins(%sum : tensor<4x4x3xf32>) outs(%empty : tensor<4x4x3xf32>) {
          ^bb0(%x: f32, %_: f32):
            %0 = arith.cmpf ugt, %x, %zero : f32
            %1 = arith.select %0, %x, %zero : f32
            linalg.yield %1 : f32
        } -> tensor<4x4x3xf32>
        return %relu : tensor<4x4x3xf32>
      }""")
    images, filters = GENERATOR.standard_normal((4, 4, 2)), GENERATOR.standard_normal((2, 3))
    bias = GENERATOR.standard_normal(3)
    expected = np.maximum(np.tensordot(images, filters, 1) + bias, 0)
    (result,) = evaluate(module, "f", [images, filters, bias]).results
    np.testing.assert_allclose(result.value, expected, rtol=1e-12)
    assert (result.value == 0).any()


def test_pooling_padding_and_slices(parse):
    module = parse("""
      func.func @f(%i: tensor<1x3x3x1xf32>) -> tensor<1x2x1x1xf32> {
        %low = arith.constant -9.0 : f32
        %padded = tensor.pad %i low[0, 1, 0, 0] high[0, 0, 1, 0] {
          ^bb0(%a: index, %b: index, %c: index, %d: index):
            tensor.yield %low : f32
        } : tensor<1x3x3x1xf32> to tensor<1x4x4x1xf32>
        %window = tensor.empty() : tensor<2x2xf32>
        %empty = tensor.empty() : tensor<1x2x2x1xf32>
        %init = linalg.fill ins(%low : f32) outs(%empty : tensor<1x2x2x1xf32>)
            -> tensor<1x2x2x1xf32>
        %max = linalg.pooling_nhwc_max {strides = dense<2> : vector<2xi64>}
            ins(%padded, %window : tensor<1x4x4x1xf32>, tensor<2x2xf32>)
            outs(%init : tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
        %column = tensor.extract_slice %max[0, 0, 1, 0] [1, 2, 1, 1] [1, 1, 1, 1]
            : tensor<1x2x2x1xf32> to tensor<1x2x1x1xf32>
        return %column : tensor<1x2x1x1xf32>
      }""")
    (result,) = evaluate(module, "f", [np.arange(9.0).reshape(1, 3, 3, 1)]).results
    assert result.value.ravel().tolist() == [2, 8]


def test_subviews_write_through_and_calls_return(parse):
    module = parse("""
      memref.global "private" constant @scale : memref<2xf32> = dense<[10.0, 20.0]>
      func.func private @scaled(%a: memref<2xf32, strided<[2], offset: 1>>) {
        %scale = memref.get_global @scale : memref<2xf32>
        linalg.mul ins(%a, %scale : memref<2xf32, strided<[2], offset: 1>>, memref<2xf32>)
            outs(%a : memref<2xf32, strided<[2], offset: 1>>)
        return
      }
      func.func @f(%a: memref<5xf32>) {
        %odd = memref.subview %a[1] [2] [2]
            : memref<5xf32> to memref<2xf32, strided<[2], offset: 1>>
        call @scaled(%odd) : (memref<2xf32, strided<[2], offset: 1>>) -> ()
        return
      }""")
    argument = np.arange(5.0)
    assert evaluate(module, "f", [argument]).arguments[0].value.tolist() == [0, 10, 2, 60, 4]
    assert argument.tolist() == [0, 1, 2, 3, 4]
    assert flops_of(module, "f") == 2


def test_what_was_never_written_shows(parse):
    module = parse("""
      func.func @f() -> tensor<2xf32> {
        %0 = tensor.empty() : tensor<2xf32>
        return %0 : tensor<2xf32>
      }""")
    assert np.isnan(evaluate(module, "f", []).results[0].value).all()


def test_operations_without_segments(parse):
    module = parse("""
      func.func @f(%a: memref<2x3xf32>, %t: memref<3x2xf32>, %b: memref<2x3x2xf32>,
                   %m: memref<2x3xf32>, %s: memref<2xf32>) {
        linalg.transpose ins(%a : memref<2x3xf32>) outs(%t : memref<3x2xf32>) permutation = [1, 0]
        linalg.broadcast ins(%t : memref<3x2xf32>) outs(%b : memref<2x3x2xf32>) dimensions = [0]
        linalg.map { arith.mulf } ins(%a, %a : memref<2x3xf32>, memref<2x3xf32>)
            outs(%m : memref<2x3xf32>)
        linalg.reduce { arith.addf } ins(%a : memref<2x3xf32>) outs(%s : memref<2xf32>)
            dimensions = [1]
        return
      }""")
    a = GENERATOR.random((2, 3))
    empty = [np.zeros(shape) for shape in ((3, 2), (2, 3, 2), (2, 3), 2)]
    _, t, b, m, s = evaluate(module, "f", [a, *empty]).arguments
    for result, expected in ((t, a.T), (b, [a.T, a.T]), (m, a * a), (s, a.sum(axis=1))):
        np.testing.assert_allclose(result.value, expected)
    assert flops_of(module, "f") == 2 * 3 + 2 * 3


PREDICATES = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("first", ["o", "u"])
@pytest.mark.parametrize("name", PREDICATES)
def test_comparisons_are_ordered_or_not(parse, first, name):
    a, b, is_nan = comparable()
    found = PREDICATES[name](a, b)
    expected = found & ~is_nan if first == "o" else found | is_nan
    np.testing.assert_array_equal(compared(parse, first + name, a, b), expected)


@pytest.mark.parametrize(
    ("name", "of_nan", "of_numbers"),
    [("false", 0, 0), ("true", 1, 1), ("ord", 0, 1), ("uno", 1, 0)],
)
def test_comparisons_that_ask_for_nan_only(parse, name, of_nan, of_numbers):
    a, b, is_nan = comparable()
    expected = np.where(is_nan, of_nan, of_numbers)
    np.testing.assert_array_equal(compared(parse, name, a, b), expected)


def comparable():
    """Two arrays with all that matters to a comparison, and where one of them has no number."""
    a, b = np.meshgrid([-1.0, 0.0, 2.0, np.nan], [-1.0, 0.0, 2.0, np.nan])
    return a.ravel(), b.ravel(), np.isnan(a.ravel() + b.ravel())


def compared(parse, predicate, a, b):
    module = parse(f"""
      func.func @f(%a: tensor<16xf64>, %b: tensor<16xf64>) -> tensor<16xf64> {{
        %one = arith.constant dense<1.0> : tensor<16xf64>
        %zero = arith.constant dense<0.0> : tensor<16xf64>
        %0 = arith.cmpf {predicate}, %a, %b : tensor<16xf64>
        %1 = arith.select %0, %one, %zero : tensor<16xi1>, tensor<16xf64>
        return %1 : tensor<16xf64>
      }}""")
    return evaluate(module, "f", [a, b]).results[0].value


CONTRACTIONS = {
    "captured": ("%p = arith.mulf %i, %alpha : f32", "%s = arith.addf %p, %o : f32", "%s"),
    "yielded": ("%p = arith.mulf %i, %j : f32", "%s = arith.addf %p, %o : f32", "%p"),
    "square": ("%p = arith.mulf %i, %i : f32", "%s = arith.addf %p, %o : f32", "%s"),
    "other": ("%p = arith.mulf %i, %j : f32", "%s = arith.addf %p, %p : f32", "%s"),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_bodies_that_only_look_like_products(parse, name):
    first, second, yielded = CONTRACTIONS[name]
    module = parse(f"""
      func.func @f(%a: tensor<5xf32>, %alpha: f32, %b: tensor<5xf32>, %c: tensor<f32>)
          -> tensor<f32> {{
        %0 = linalg.generic {{indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>,
            affine_map<(n) -> ()>], iterator_types = ["reduction"]}}
            ins(%a, %b : tensor<5xf32>, tensor<5xf32>) outs(%c : tensor<f32>) {{
          ^bb0(%i: f32, %j: f32, %o: f32):
            {first}
            {second}
            linalg.yield {yielded} : f32
        }} -> tensor<f32>
        return %0 : tensor<f32>
      }}""")
    a, b = GENERATOR.standard_normal((2, 5))
    expected = {
        "captured": 7 + 3 * a.sum(),
        "yielded": a[-1] * b[-1],
        "square": 7 + (a * a).sum(),
        "other": 2 * a[-1] * b[-1],
    }
    (result,) = evaluate(module, "f", [a, 3.0, b, 7.0]).results
    np.testing.assert_allclose(result.value, expected[name])


def test_bits_that_are_computed_are_signed_as_well(parse):
    module = parse("""
      func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xi1>)
          -> (tensor<4xi32>, tensor<4xf32>, tensor<4xi1>) {
        %0 = arith.cmpf ogt, %a, %b : tensor<4xf32>
        %1 = arith.extsi %0 : tensor<4xi1> to tensor<4xi32>
        %2 = arith.sitofp %0 : tensor<4xi1> to tensor<4xf32>
        %3 = arith.maxsi %0, %c : tensor<4xi1>
        return %1, %2, %3 : tensor<4xi32>, tensor<4xf32>, tensor<4xi1>
      }""")
    a, b = np.array([[1, 2, 3, 4], [2, 1, 4, 3]], np.float32)
    c = np.array([False, False, True, True])
    results = [result.value.tolist() for result in evaluate(module, "f", [a, b, c]).results]
    assert results == [[0, -1, 0, -1], [0, -1, 0, -1], [False, False, False, True]]


def test_an_output_may_get_what_is_in_another_one(parse):
    module = parse("""
      #id = affine_map<(i) -> (i)>
      func.func @swap(%a: memref<4xf32>, %b: memref<4xf32>) {
        linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
            outs(%a, %b : memref<4xf32>, memref<4xf32>) {
          ^bb0(%x: f32, %y: f32):
            linalg.yield %y, %x : f32, f32
        }
        return
      }""")
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = evaluate(module, "swap", [a, b]).arguments
    assert [one.value.tolist() for one in found] == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_integers_wrap_around_and_single_bits_are_signed(parse):
    module = parse("""
      func.func @f(%a: tensor<4xi8>, %b: tensor<4xi1>, %c: tensor<4xi1>)
          -> (tensor<4xi8>, tensor<4xi32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
        %k = arith.constant dense<100> : tensor<4xi8>
        %0 = arith.muli %a, %k : tensor<4xi8>
        %1 = arith.extsi %b : tensor<4xi1> to tensor<4xi32>
        %2 = arith.addi %b, %c : tensor<4xi1>
        %3 = arith.subi %b, %c : tensor<4xi1>
        %4 = arith.cmpi slt, %b, %c : tensor<4xi1>
        return %0, %1, %2, %3, %4
            : tensor<4xi8>, tensor<4xi32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
      }""")
    a = np.array([1, 2, 3, -1], np.int8)
    b, c = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    results = [result.value.tolist() for result in evaluate(module, "f", [a, b, c]).results]
    assert results == [
        [100, -56, 44, -100],
        [0, 0, -1, -1],
        [False, True, True, False],
        [False, True, True, False],
        [False, False, True, False],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """func.func private @g(f32) -> f32
            func.func @f(%x: f32) {
              %0 = call @g(%x) : (f32) -> f32
              return
            }""",
            r"-:1:1: error: the reference does not know what function 'g' does: it has no body",
        ),
        (
            """#a = affine_map<(i, j) -> (i)>
            #b = affine_map<(i, j) -> (j)>
            #c = affine_map<(i, j) -> (i + j)>
            func.func @f(%x: memref<4xf32>, %w: memref<2xf32>, %y: memref<5xf32>) {
              linalg.generic {indexing_maps = [#a, #b, #c],
                  iterator_types = ["parallel", "parallel"]}
                  ins(%x, %w : memref<4xf32>, memref<2xf32>) outs(%y : memref<5xf32>) {
                ^bb0(%i: f32, %j: f32, %o: f32):
                  %0 = arith.mulf %i, %j : f32
                  %1 = arith.addf %0, %o : f32
                  linalg.yield %1 : f32
              }
              return
            }""",
            r"-:5:\d+: error: the reference does not know 'linalg.generic'",
        ),
    ],
)
def test_what_it_would_get_wrong_is_refused(parse, text, message):
    module = parse(text)
    arguments = [np.zeros(4), np.zeros(2), np.zeros(5)] if "%y" in text else [1.0]
    with pytest.raises(UserError, match=message):
        evaluate(module, "f", arguments)


def test_bodies_without_locations_have_that_of_their_operation(parse):
    types = "memref<1x4x4x1xi8>, memref<2x2xi8>", "memref<1x3x3x1xi8>"
    module = parse(f"""func.func @f(%x: memref<1x4x4x1xi8>, %w: memref<2x2xi8>, %y: {types[1]}) {{
        linalg.pooling_nhwc_max_unsigned ins(%x, %w : {types[0]}) outs(%y : {types[1]})
        return
      }}""")
    arrays = [np.zeros(shape, np.int8) for shape in ((1, 4, 4, 1), (2, 2), (1, 3, 3, 1))]
    with pytest.raises(
        UserError, match=r"-:2:\d+: error: the reference does not know 'arith.maxui'"
    ):
        evaluate(module, "f", arrays)


MATVEC = "linalg.matvec ins(%m, %v : memref<2x3xf32>, memref<3xf32>) outs(%o : memref<2xf32>)"


@pytest.mark.parametrize(
    ("body", "flops"),
    [
        (MATVEC, 12),
        (f"affine.for %i = 0 to 10 step 3 {{ {MATVEC} }}", 4 * 12),
        (f"scf.for %i = %c1 to %c5 step %c2 {{ {MATVEC} }}", 2 * 12),
        (f"affine.parallel (%i, %j) = (0, 1) to (4, 5) step (2, 1) {{ {MATVEC} }}", 8 * 12),
        (f"scf.parallel (%i, %j) = (%c1, %c1) to (%c5, %c2) step (%c2, %c1) {{ {MATVEC} }}", 24),
        (f"affine.for %i = 0 to 4 {{ affine.for %j = 0 to 3 {{ {MATVEC} }} }}", 12 * 12),
        ("affine.for %i = 0 to 4 { %y = arith.mulf %x, %x : f32 }", 4),
        ("affine.for %i = 0 to %n { %y = arith.addi %n, %n : index }", 0),
        ("call @callee(%x) : (f32) -> ()", 1),
        (f"affine.for %i = 0 to %n {{ {MATVEC} }}", None),
        (f"scf.for %i = %c1 to %n step %c1 {{ {MATVEC} }}", None),
        (f"scf.if %c {{ {MATVEC} }}", None),
        ("call @loop() : () -> ()", None),
        ("call @elsewhere() : () -> ()", None),
    ],
)
def test_flops_are_those_of_every_iteration_or_unknown(parse, body, flops):
    module = parse(f"""
      func.func private @elsewhere()
      func.func private @loop() {{
        call @loop() : () -> ()
        return
      }}
      func.func private @callee(%x: f32) {{
        %y = arith.addf %x, %x : f32
        return
      }}
      func.func @f(%m: memref<2x3xf32>, %v: memref<3xf32>, %o: memref<2xf32>, %n: index,
                   %c: i1, %x: f32) {{
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c5 = arith.constant 5 : index
        {body}
        return
      }}""")
    assert flops_of(module, "f") == flops


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("scf.execute_region { scf.yield }", "the reference does not know 'scf.execute_region'"),
        ("%0 = math.tan %x : f32", "the reference does not know 'math.tan'"),
    ],
)
def test_what_it_does_not_know_is_refused_with_its_location(parse, body, message):
    module = parse(f"func.func @f(%x: f32) {{\n  {body}\n  return\n}}")
    with pytest.raises(UserError, match=rf"-:2:\d+: error: {message}"):
        evaluate(module, "f", [1.0])


@pytest.mark.parametrize("contents", ["", " = uninitialized"])
def test_a_global_without_contents_is_refused_with_its_location(parse, contents):
    module = parse(f"""memref.global "private" @w : memref<2xf32>{contents}
      func.func @f() {{
        %w = memref.get_global @w : memref<2xf32>
        return
      }}""")
    with pytest.raises(UserError, match=r"-:1:1: error: the reference cannot tell what @w holds"):
        evaluate(module, "f", [])


def test_constants_of_elements_that_numpy_lacks_are_refused(parse):
    module = parse("""func.func @f() {
        %w = arith.constant dense<1.5> : tensor<2xbf16>
        return
      }""")
    with pytest.raises(UserError, match=r"-:2:\d+: error: the reference does not know"):
        evaluate(module, "f", [])


def test_an_unknown_function_is_refused(parse):
    with pytest.raises(UserError, match=r"finds no func\.func 'f'.*check the module that this one"):
        evaluate(parse("module {}"), "f", [])
