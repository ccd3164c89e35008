"""How far the reference says that programs may be from it: their results must be between its
limits, and these not so far apart that nothing could be outside."""

import math
import random
from contextlib import suppress

import numpy as np
import pytest

from mopt_mlir import UserError
from mopt_mlir.reference import NotInReferenceError, evaluate

GENERATOR = np.random.default_rng(0)


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
    (expected,) = evaluate(module, "dot", arguments).results
    bound = expected.error
    assert 0 < abs(summed - expected.value) <= bound
    # Another product, or one that is missing, is further away than rounding.
    assert bound < np.abs(a * b).max()
    magnitude = np.abs(a.astype(float) * b).sum()
    np.testing.assert_allclose(bound, 2 * 2.0**-24 * (count + 1) * magnitude, rtol=1e-12)


def test_bounds_of_elementwise_operations_on_tensors(parse):
    module = parse("""
      func.func @f(%a: tensor<100xf16>, %b: tensor<100xf16>) -> tensor<100xf16> {
        %0 = arith.mulf %a, %b : tensor<100xf16>
        %1 = arith.addf %0, %a : tensor<100xf16>
        return %1 : tensor<100xf16>
      }""")
    a, b = GENERATOR.standard_normal((2, 100)).astype(np.float16)
    (expected,) = evaluate(module, "f", [a, b]).results
    error = np.abs((a * b + a) - expected.value)
    assert error.any()
    assert (error <= expected.error).all()
    assert (expected.error < 0.01 * (np.abs(a * b) + np.abs(a)) + 1e-6).all()


def test_bounds_hold_below_the_normal_numbers(parse):
    module = parse("""
      func.func @f(%a: tensor<1xf16>) -> tensor<1xf16> {
        %0 = arith.mulf %a, %a : tensor<1xf16>
        return %0 : tensor<1xf16>
      }""")
    tiny = np.array([1e-4], np.float16)
    (expected,) = evaluate(module, "f", [tiny]).results
    assert 0 < np.abs(tiny * tiny - expected.value) <= expected.error < 1e-6


def elementwise(parse, body, operands=1, element="f32", result=None, scale=1):
    """What a function of elements computes for random arguments, and these."""
    names = ["%a", "%b", "%c"][:operands]
    size = 1000
    tensor = f"tensor<{size}x{element}>"
    module = parse(f"""
      func.func @f({", ".join(f"{name}: {tensor}" for name in names)})
          -> tensor<{size}x{result or element}> {{
        %one = arith.constant dense<1.0> : {tensor}
        {body.replace("T", tensor)}
        return %r : tensor<{size}x{result or element}>
      }}""")
    dtype = {"f32": np.float32, "f16": np.float16}[element]
    arguments = list((scale * GENERATOR.standard_normal((operands, size))).astype(dtype))
    (expected,) = evaluate(module, "f", arguments).results
    return expected, arguments


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "silu": (
        """%0 = arith.negf %a : T
        %1 = math.exp %0 : T
        %2 = arith.addf %1, %one : T
        %r = arith.divf %a, %2 : T""",
        lambda x: x * sigmoid(x),
        lambda x: x / (np.float32(1) + np.exp(-x)),
    ),
    "softplus": (
        """%0 = math.exp %a : T
        %r = math.log1p %0 : T""",
        lambda x: np.log1p(np.exp(x)),
        lambda x: np.log1p(np.exp(x)),
    ),
    "mish": (
        """%0 = math.exp %a : T
        %1 = math.log1p %0 : T
        %2 = math.tanh %1 : T
        %r = arith.mulf %a, %2 : T""",
        lambda x: x * np.tanh(np.log1p(np.exp(x))),
        lambda x: x * np.tanh(np.log1p(np.exp(x))),
    ),
    "norm": (
        """%0 = arith.mulf %a, %a : T
        %1 = arith.addf %0, %one : T
        %2 = math.rsqrt %1 : T
        %r = arith.mulf %a, %2 : T""",
        lambda x: x / np.sqrt(x * x + 1),
        lambda x: x * (np.float32(1) / np.sqrt(x * x + np.float32(1))),
    ),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_bounds_of_activations_hold_and_are_not_idle(parse, name):
    body, formula, program = ACTIVATIONS[name]
    expected, (a,) = elementwise(parse, body)
    np.testing.assert_allclose(expected.value, formula(a.astype(float)), rtol=1e-12)
    error = np.abs(program(a) - expected.value)
    assert program(a).dtype == np.float32
    assert error.any()
    assert (error <= expected.error).all()
    assert (expected.error < 1e-5 * np.abs(expected.value) + 1e-6).all()


@pytest.mark.parametrize(
    ("operation", "function", "least"),
    [
        ("math.atan", np.arctan, -9), ("math.cbrt", np.cbrt, -9), ("math.ceil", np.ceil, -9),
        ("math.cos", np.cos, -9), ("math.erf", None, -9), ("math.exp", np.exp, -9),
        ("math.exp2", np.exp2, -9), ("math.expm1", np.expm1, -9), ("math.floor", np.floor, -9),
        ("math.log", np.log, 1 / 8), ("math.log10", np.log10, 1 / 8),
        ("math.log1p", np.log1p, 1 / 8),
        ("math.log2", np.log2, 1 / 8), ("math.roundeven", np.rint, -9), ("math.sin", np.sin, -9),
        ("math.sqrt", np.sqrt, 1 / 8), ("math.tanh", np.tanh, -9), ("math.trunc", np.trunc, -9),
    ],
)  # fmt: skip
def test_errors_go_through_functions(parse, operation, function, least):
    """The function of a product, which is inexact, lies between those of what it may be."""
    steps = function in (np.ceil, np.floor, np.rint, np.trunc)
    expected, (a, b) = elementwise(
        parse,
        f"""%low = arith.constant dense<{float(least)}> : T
        %0 = arith.mulf %a, %b : T
        %1 = arith.maximumf %0, %low : T
        %r = {operation} %1 : T""",
        operands=2,
        element="f16",
        scale=8 if steps else 1,
    )
    function = function or np.vectorize(math.erf)
    products = a.astype(float) * b
    exact = np.maximum(products, least)
    np.testing.assert_allclose(expected.value, function(exact), rtol=1e-12)
    off = np.abs(products) * 2**-11
    ends = np.maximum(products + np.stack([-off, off]), least)
    apart = np.abs(function(ends) - expected.value)
    assert apart.any()
    assert (apart <= expected.error + 1e-15).all()
    if steps:
        assert set(expected.error) == {0, 1}
    else:
        slope = np.exp(exact) + 1 / np.maximum(np.abs(exact), 0.1)
        assert (expected.error < 20 * off * slope + 0.01 * np.abs(expected.value) + 1e-4).all()


def test_a_condition_that_rounding_decides_leaves_both_choices(parse):
    expected, (a, b) = elementwise(
        parse,
        """%ten = arith.constant dense<10.0> : T
        %0 = arith.mulf %a, %b : T
        %1 = arith.subf %0, %0 : T
        %2 = arith.cmpf ogt, %1, %0 : T
        %3 = arith.cmpf oge, %1, %1 : T
        %r0 = arith.select %2, %ten, %one : tensor<1000xi1>, T
        %r1 = arith.select %3, %ten, %one : tensor<1000xi1>, T
        %r = arith.addf %r0, %r1 : T""",
        operands=2,
    )
    # The difference may be off in either direction, so that it may be less than itself ...
    assert (expected.error >= 9).all()
    clear = np.abs(a * b) > 1e-3
    # ... but where it is far from the product only the second choice is open.
    assert (expected.error[clear] < 9.001).all()
    np.testing.assert_array_equal(expected.value, np.where(a * b < 0, 20, 11))


def test_bits_and_integers_made_of_rounded_numbers(parse):
    expected, (a, b) = elementwise(
        parse,
        """%0 = arith.mulf %a, %b : T
        %1 = arith.fptosi %0 : T to tensor<1000xi32>
        %2 = arith.constant dense<1> : tensor<1000xi32>
        %3 = arith.cmpi sge, %1, %2 : tensor<1000xi32>
        %4 = arith.cmpf olt, %0, %one : T
        %5 = arith.xori %3, %4 : tensor<1000xi1>
        %r = arith.select %5, %1, %2 : tensor<1000xi1>, tensor<1000xi32>""",
        operands=2,
        element="f16",
        result="i32",
        scale=8,
    )
    whole = np.trunc(a.astype(float) * b)
    assert (expected.value == whole).all()
    rounded = np.trunc((a * b).astype(float))
    assert (rounded != whole).any()
    # 1 and more are not less than 1: one bit is set, whichever side rounding puts a number on.
    unsure = expected.error > 0
    assert unsure[rounded != whole].all()
    assert not unsure.all()


def test_sums_of_inexact_numbers_in_another_order(parse):
    count = 1000
    module = parse(f"""
      func.func @f(%a: tensor<{count}xf32>, %c: tensor<f32>) -> tensor<f32> {{
        %0 = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
            iterator_types = ["reduction"]}} ins(%a : tensor<{count}xf32>) outs(%c : tensor<f32>) {{
          ^bb0(%x: f32, %sum: f32):
            %1 = math.exp %x : f32
            %2 = arith.addf %sum, %1 : f32
            linalg.yield %2 : f32
        }} -> tensor<f32>
        return %0 : tensor<f32>
      }}""")
    a = GENERATOR.standard_normal(count).astype(np.float32)
    (expected,) = evaluate(module, "f", [a, np.float32(0)]).results
    for order in (a, a[::-1], np.sort(a), np.sort(a)[::-1]):
        summed = np.float32(0)
        for number in np.exp(order):
            summed += number
        assert 0 < abs(summed - expected.value) <= expected.error
    assert expected.error < 1e-3 * expected.value


def test_small_numbers_may_be_added_to_a_large_one(parse):
    """In f16, one by one, they are lost, but not if the large one comes last."""
    module = parse("""
      func.func @f(%a: tensor<1000xf16>, %c: tensor<f16>) -> tensor<f16> {
        %0 = linalg.reduce { arith.addf } ins(%a : tensor<1000xf16>) outs(%c : tensor<f16>)
            dimensions = [0]
        return %0 : tensor<f16>
      }""")
    a = np.append(np.full(999, 2.0**-12, np.float16), np.float16(1))
    (expected,) = evaluate(module, "f", [a, np.float16(0)]).results
    assert expected.value == 1 + 999 * 2.0**-12
    assert expected.low <= 1


@pytest.mark.parametrize("side", ["left", "right"])
def test_errors_of_one_product_are_operands_of_the_next(parse, side):
    """In f16, so that the errors of the first are most of what the second has."""
    shapes = [(16, 200), (200, 30), (16, 30)]
    shapes += [(30, 4), (16, 4)] if side == "left" else [(4, 16), (4, 30)]
    a, b, c, d, e = (f"tensor<{m}x{n}xf16>" for m, n in shapes)
    operands = f"%0, %d : {c}, {d}" if side == "left" else f"%d, %0 : {d}, {c}"
    module = parse(f"""
      func.func @f(%a: {a}, %b: {b}, %c: {c}, %d: {d}, %e: {e}) -> {e} {{
        %0 = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
        %1 = linalg.matmul ins({operands}) outs(%e : {e}) -> {e}
        return %1 : {e}
      }}""")
    arguments = [GENERATOR.standard_normal(shape).astype(np.float16) for shape in shapes]
    (expected,) = evaluate(module, "f", arguments).results

    def product(first, second):
        return first @ second if side == "left" else second @ first

    x, y, z, v, w = (argument.astype(float) for argument in arguments)
    first = x @ y + z
    np.testing.assert_allclose(expected.value, product(first, v) + w, rtol=1e-12)
    off = 2**-11 * 201 * (np.abs(x) @ np.abs(y) + np.abs(z))
    least, own = product(off, np.abs(v)), product(np.abs(first), np.abs(v)) + np.abs(w)
    assert (expected.error > least).all()
    assert (expected.error < 4 * (least + 31 * 2**-11 * own)).all()
    x, y, z, v, w = arguments
    rounded = product(x @ y + z, v) + w
    assert (np.abs(rounded - expected.value) <= expected.error).all()


def test_errors_move_with_the_numbers(parse):
    module = parse("""
      func.func @f(%a: tensor<4xf32>, %t: tensor<6xf32>) -> tensor<6xf32> {
        %one = arith.constant 1.0 : f32
        %0 = arith.mulf %a, %a : tensor<4xf32>
        %1 = tensor.pad %0 low[1] high[0] {
          ^bb0(%i: index):
            tensor.yield %one : f32
        } : tensor<4xf32> to tensor<5xf32>
        %2 = tensor.extract_slice %1[0] [3] [2] : tensor<5xf32> to tensor<3xf32>
        %3 = tensor.insert_slice %2 into %t[1] [3] [1] : tensor<3xf32> into tensor<6xf32>
        return %3 : tensor<6xf32>
      }""")
    (result,) = evaluate(module, "f", [np.arange(1.0, 5.0), np.full(6, 7.0)]).results
    assert result.value.tolist() == [7, 1, 4, 16, 7, 7]
    assert (result.error > 0).tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize(
    "body",
    [
        "%2 = arith.divf %x, %1 : f32",
        "%2 = math.log %1 : f32",
        "%2 = math.rsqrt %1 : f32",
        "%2 = math.powf %1, %x : f32",
    ],
)
def test_what_may_be_undefined_has_no_bound(parse, body):
    """What is left of `(x * y) - x * y` may be anything near 0."""
    module = parse(f"""func.func @f(%x: f32, %y: f32) -> f32 {{
        %0 = arith.mulf %x, %y : f32
        %1 = arith.subf %0, %0 : f32
        {body}
        return %2 : f32
      }}""")
    with pytest.raises(UserError, match=r"-:4:\d+: error: the reference cannot bound the error of"):
        evaluate(module, "f", [3.0, 5.0])


def test_what_is_exactly_undefined_is_that(parse):
    module = parse("""func.func @f(%x: f32) -> f32 {
        %0 = arith.divf %x, %x : f32
        return %0 : f32
      }""")
    (result,) = evaluate(module, "f", [0.0]).results
    assert np.isnan(result.value)


def test_numbers_beyond_the_type_are_infinite_on_the_way(parse):
    """In f32 the exponential is infinite and the quotient 0; in float64 they are not."""
    expected, _ = elementwise(
        parse,
        """%0 = arith.constant dense<100.0> : T
        %1 = math.exp %0 : T
        %2 = arith.addf %1, %one : T
        %r = arith.divf %one, %2 : T""",
    )
    assert (expected.value == 0).all()
    assert (expected.error < 1e-44).all()


def test_what_may_overflow_may_be_either(parse):
    expected, _ = elementwise(
        parse,
        """%0 = arith.constant dense<6.55e+04> : T
        %1 = arith.mulf %0, %one : T
        %2 = arith.addf %1, %one : T
        %r = arith.divf %one, %2 : T""",
        element="f16",
    )
    assert (expected.low <= 0).all()
    assert ((expected.low > -1e-7) & (expected.high < 1.6e-5)).all()
    np.testing.assert_allclose(expected.value, 1 / 65505, rtol=1e-3)


def test_sums_of_exponentials_are_positive_however_inexact(parse):
    """The exponent may be off by more than 1, so that a symmetric error would reach below 0."""
    expected, _ = elementwise(
        parse,
        """%k = arith.constant dense<1000.0> : T
        %0 = arith.mulf %a, %k : T
        %1 = arith.subf %0, %0 : T
        %2 = math.exp %1 : T
        %3 = arith.addf %2, %one : T
        %r = arith.divf %one, %3 : T""",
        element="f16",
    )
    assert (expected.error > 0.2).any()
    assert ((expected.low >= 0) & (expected.high <= 1.01)).all()
    np.testing.assert_allclose(expected.value, 0.5)


def test_an_inexact_number_by_an_exact_zero(parse):
    module = parse("""func.func @f(%x: f32, %zero: f32) -> f32 {
        %0 = arith.mulf %x, %x : f32
        %1 = arith.divf %0, %zero : f32
        return %1 : f32
      }""")
    (result,) = evaluate(module, "f", [3.0, 0.0]).results
    assert result.value == result.low == np.inf


UNARY = {
    "arith.negf": np.negative, "math.absf": np.abs, "math.atan": np.arctan, "math.cbrt": np.cbrt,
    "math.ceil": np.ceil, "math.cos": np.cos, "math.exp": np.exp, "math.expm1": np.expm1,
    "math.floor": np.floor, "math.log": np.log, "math.log1p": np.log1p, "math.roundeven": np.rint,
    "math.rsqrt": lambda a: a.dtype.type(1) / np.sqrt(a), "math.sin": np.sin, "math.sqrt": np.sqrt,
    "math.tanh": np.tanh, "math.trunc": np.trunc,
}  # fmt: skip

BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
}  # fmt: skip


def random_program(generator, tensor, values):
    """The text of some operations on `values`, arrays by name, to which their results are added as
    numpy has them, which rounds to the type of its operands each time."""
    lines = []
    for number in range(generator.randint(2, 8)):
        name, kind = f"%v{number}", generator.random()
        a, b, c, d = generator.choices(list(values), k=4)
        if kind < 0.4:
            operation = generator.choice(list(UNARY))
            lines.append(f"{name} = {operation} {a} : {tensor}")
            values[name] = UNARY[operation](values[a])
        elif kind < 0.9:
            operation = generator.choice(list(BINARY))
            lines.append(f"{name} = {operation} {a}, {b} : {tensor}")
            values[name] = BINARY[operation](values[a], values[b])
        else:
            lines.append(f"%c{number} = arith.cmpf ogt, {a}, {b} : {tensor}")
            lines.append(f"{name} = arith.select %c{number}, {c}, {d} : tensor<50xi1>, {tensor}")
            values[name] = np.where(values[a] > values[b], values[c], values[d])
    return "\n".join(lines)


ATTEMPTS = 50


def evaluated(parse, generator, tensor, arguments):
    """The result of a random program as numpy has it, and as the reference has it, of which it may
    not know one: a divisor, or the operand of a logarithm, may be 0."""
    for _ in range(ATTEMPTS):
        values = dict(arguments)
        text = random_program(generator, tensor, values)
        module = parse(f"""func.func @f(%a: {tensor}, %b: {tensor}) -> {tensor} {{
          {text}
          return {list(values)[-1]} : {tensor}
        }}""")
        with suppress(NotInReferenceError):
            (expected,) = evaluate(module, "f", list(arguments.values())).results
            return list(values.values())[-1], expected
    pytest.fail(f"the reference knows none of {ATTEMPTS} programs")


@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
@pytest.mark.parametrize("seed", range(20))
def test_random_programs_end_up_between_the_limits(parse, element, seed):
    generator, tensor = random.Random(f"{element}{seed}"), f"tensor<50x{element}>"
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[element]
    scale = generator.choice([1, 1, 10, 1e-3, 300])
    numbers = scale * np.random.default_rng(seed).standard_normal((2, 50))
    arguments = dict(zip(("%a", "%b"), numbers.astype(dtype), strict=True))
    with np.errstate(all="ignore"):
        result, expected = evaluated(parse, generator, tensor, arguments)
        inside = (expected.low <= result) & (result <= expected.high)
        same = (result == expected.value.astype(dtype)) | np.isnan(result + expected.value)
    assert result.dtype == dtype
    assert (inside | same).all()


def test_slices_backwards_and_without_single_axes(parse):
    module = parse("""
      func.func @f(%a: memref<6x4xf32>, %b: memref<4xf32>, %n: index) {
        %back = memref.subview %a[5, 1] [6, 1] [-1, 1]
            : memref<6x4xf32> to memref<6xf32, strided<[-4], offset: 21>>
        %part = memref.subview %back[1] [4] [1] : memref<6xf32, strided<[-4], offset: 21>>
            to memref<4xf32, strided<[-4], offset: 17>>
        memref.copy %part, %b : memref<4xf32, strided<[-4], offset: 17>> to memref<4xf32>
        return
      }
      func.func @g(%a: tensor<1x6x4xf32>, %n: index, %m: index) -> tensor<?x?xf32> {
        %0 = tensor.extract_slice %a[0, 1, 1] [1, %n, %m] [1, 1, 1]
            : tensor<1x6x4xf32> to tensor<?x?xf32>
        return %0 : tensor<?x?xf32>
      }""")
    a = GENERATOR.standard_normal((6, 4)).astype(np.float32)
    written = evaluate(module, "f", [a, np.zeros(4, np.float32), 0]).arguments[1]
    np.testing.assert_array_equal(written.value, a[4:0:-1, 1])
    (part,) = evaluate(module, "g", [a[None], 5, 3]).results
    np.testing.assert_array_equal(part.value, a[1:6, 1:4])


@pytest.mark.parametrize(
    "pad", ["low[-1] high[1] { ^bb0(%i: index): tensor.yield %zero : f32 }", None]
)
def test_padding_that_the_reference_does_not_know(parse, pad):
    own = """low[1] high[1] {
      ^bb0(%i: index):
        %x = arith.index_cast %i : index to i32
        %y = arith.sitofp %x : i32 to f32
        tensor.yield %y : f32 }"""
    module = parse(f"""
      func.func @f(%a: tensor<4xf32>) -> tensor<?xf32> {{
        %zero = arith.constant 0.0 : f32
        %0 = tensor.pad %a {pad or own} : tensor<4xf32> to tensor<{4 if pad else 6}xf32>
        %1 = tensor.cast %0 : tensor<{4 if pad else 6}xf32> to tensor<?xf32>
        return %1 : tensor<?xf32>
      }}""")
    with pytest.raises(NotInReferenceError, match=r"tensor\.pad"):
        evaluate(module, "f", [np.ones(4, np.float32)])


def test_a_buffer_that_is_selected_is_that_buffer(parse):
    module = parse("""
      func.func @f(%c: i1, %a: memref<4xf32>, %b: memref<4xf32>) {
        %m = arith.select %c, %a, %b : memref<4xf32>
        %one = arith.constant 1.0 : f32
        linalg.fill ins(%one : f32) outs(%m : memref<4xf32>)
        return
      }""")
    for chosen in (True, False):
        arrays = [np.zeros(4, np.float32) for _ in range(2)]
        _, a, b = evaluate(module, "f", [np.bool_(chosen), *arrays]).arguments
        assert (a.value.all(), b.value.all()) == (chosen, not chosen)
