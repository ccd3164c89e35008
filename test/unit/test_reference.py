"""The float64 reference against loops that are written out, and against numbers known by heart."""

import itertools

import numpy as np
import pytest

from mopt_mlir import UserError
from mopt_mlir.bindings import bindings
from mopt_mlir.reference import error_bounds, evaluate, flops_of

GENERATOR = np.random.default_rng(0)


@pytest.fixture
def parse():
    """Parse MLIR; the context lives as long as the test."""
    context = bindings().ir.Context()
    return lambda text: bindings().ir.Module.parse(text, context).operation


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
    np.testing.assert_allclose(outcome.arguments[2], expected + 1, rtol=1e-12)
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
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert (result == 0).any()


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
    assert result.ravel().tolist() == [2, 8]


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
    assert evaluate(module, "f", [argument]).arguments[0].tolist() == [0, 10, 2, 60, 4]
    assert argument.tolist() == [0, 1, 2, 3, 4]
    assert flops_of(module, "f") == 2


def test_what_was_never_written_shows(parse):
    module = parse("""
      func.func @f() -> tensor<2xf32> {
        %0 = tensor.empty() : tensor<2xf32>
        return %0 : tensor<2xf32>
      }""")
    assert np.isnan(evaluate(module, "f", []).results[0]).all()


def test_bounds_hold_for_float32_and_are_not_idle(parse):
    count = 1000
    module = parse(f"""
      func.func @dot(%a: tensor<{count}xf32>, %b: tensor<{count}xf32>, %c: tensor<f32>)
          -> tensor<f32> {{
        %0 = linalg.dot ins(%a, %b : tensor<{count}xf32>, tensor<{count}xf32>)
            outs(%c : tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }}""")
    a, b = GENERATOR.standard_normal((2, count)).astype(np.float32)
    summed = np.float32(0)
    for product in a * b:
        summed += product
    arguments = [a, b, np.float32(0)]
    error = abs(summed - evaluate(module, "dot", arguments).results[0])
    _, (bound,) = error_bounds(module, "dot", arguments, "f32")
    assert 0 < error <= bound
    # Another product, or one that is missing, is further away than rounding.
    assert bound < np.abs(a * b).max()
    magnitude = np.abs(a.astype(float) * b).sum()
    np.testing.assert_allclose(bound, 2 * 2.0**-24 * (count + 1) * magnitude, rtol=1e-12)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("scf.execute_region { scf.yield }", "the reference does not know 'scf.execute_region'"),
        ("%0 = math.cos %x : f32", "the reference does not know 'math.cos'"),
    ],
)
def test_what_it_does_not_know_is_refused_with_its_location(parse, body, message):
    module = parse(f"func.func @f(%x: f32) {{\n  {body}\n  return\n}}")
    with pytest.raises(UserError, match=rf"-:2:\d+: error: {message}"):
        evaluate(module, "f", [1.0])


def test_an_unknown_function_is_refused(parse):
    with pytest.raises(UserError, match="the reference finds no function 'f'"):
        evaluate(parse("module {}"), "f", [])
