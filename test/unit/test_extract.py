"""Operations become problems: roles, linear forms, strides, and which dims fuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mopt_mlir.bindings import bindings
from mopt_mlir.linalg.extract import Convolution, UnsupportedError, extract
from mopt_mlir.normal_form import normalise
from mopt_mlir.operations import enclosing_module
from mopt_mlir.planning.planner import convolutions
from mopt_mlir.problem import Role, conv2d


def convolution(text: str, package: str = "mlir") -> Convolution:
    """The last linalg operation of a function."""
    mlir = bindings(package)
    context = mlir.ir.Context()
    with context, mlir.ir.Location.unknown():
        module = mlir.ir.Module.parse(text)
        operations: list[Any] = []

        def visit(operation: Any) -> Any:
            if operation.name.startswith("linalg.") and operation.name != "linalg.yield":
                operations.append(operation)
            return mlir.ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        found = extract(operations[-1], mlir)
    KEPT.append((module, context))
    return found


KEPT: list[Any] = []  # operations stay valid as long as their module and context do


def nchw(a: str, f: str, x: str, attributes: str = "") -> str:
    return f"""func.func @f(%a: {a}, %f: {f}, %x: {x}) {{
  linalg.conv_2d_nchw_fchw {attributes} ins(%a, %f : {a}, {f}) outs(%x : {x})
  return
}}"""


@pytest.mark.parametrize("package", ["mlir", "torch_mlir"])
def test_named_operation_equals_problem_by_hand(package: str) -> None:
    text = nchw(
        "memref<2x5x13x17xf32>",
        "memref<7x5x3x2xf32>",
        "memref<2x7x6x5xf32>",
        "{strides = dense<[2, 3]> : tensor<2xi64>, dilations = dense<[1, 4]> : tensor<2xi64>}",
    )
    by_hand = conv2d(n=2, k=7, h=6, w=5, c=5, r=3, s=2, stride=(2, 3), dilation=(1, 4))
    assert convolution(text, package).problem == replace(by_hand, accumulates=True)


def test_two_image_dims_alone() -> None:
    image, filters, result = "memref<6x6xf64>", "memref<3x3xf64>", "memref<4x4xf64>"
    problem = convolution(f"""func.func @f(%a: {image}, %f: {filters}, %x: {result}) {{
  linalg.conv_2d ins(%a, %f : {image}, {filters}) outs(%x : {result})
  return
}}""").problem
    assert problem.names == ("h", "w", "r", "s")
    normal, _ = normalise(problem)
    assert normal.by_role(Role.OUT_CHANNEL) == ("k",), "vectors may always run over k"


def test_subview_strides() -> None:
    strided = "memref<1x4x4x4xf32, strided<[512, 128, 16, 2], offset: 7>>"
    problem = convolution(nchw("memref<1x3x6x6xf32>", "memref<4x3x3x3xf32>", strided)).problem
    assert problem.output.strides == (512, 128, 16, 2)
    assert not problem.output.runs_along("w")
    dynamic = "memref<1x4x4x4xf32, strided<[?, ?, 16, 1], offset: ?>>"
    problem = convolution(nchw("memref<1x3x6x6xf32>", "memref<4x3x3x3xf32>", dynamic)).problem
    assert problem.output.strides == (None, None, 16, 1)
    assert problem.output.runs_along("w")


@pytest.mark.parametrize(
    ("shape", "strides", "known"),
    [
        ("1x3x4x4", "[512, 16, 4, 1]", (512, 16, 4, 1)),
        ("1x3x4x5", "[512, 16, 4, 1]", (512, 16, None, 1)),
        ("1x3x4x5", "[512, 16, 3, 2]", (512, 16, 3, 2)),
        ("1x3x4x5", "[1, 64, 12, 3]", (1, 64, None, 3)),
        ("1x3x4x4", "[512, -16, 4, -1]", (512, None, 4, None)),
    ],
)
def test_strides_of_rows_that_overlap_or_run_backwards_count_as_unknown(
    shape: str, strides: str, known: tuple[int | None, ...]
) -> None:
    """Of rows that overlap, those that are read may look as if they were dense. Where there is a
    single row it does not matter."""
    type_ = f"memref<{shape}xf32, strided<{strides}>>"
    problem = convolution(nchw(type_, "memref<4x3x1x1xf32>", "memref<1x4x4x4xf32>")).problem
    assert problem.input.strides == known


def test_pixels_of_a_pointwise_convolution_fuse() -> None:
    problem, groups = normalise(conv2d(n=2, k=8, h=5, w=7, c=4, r=1, s=1))
    assert problem.extents == {"n": 2, "k": 8, "w": 35, "c": 4}
    assert groups["input"] == groups["output"] == ((0,), (1,), (2, 3))


def test_batch_fuses_too_where_pixels_follow_it() -> None:
    problem, groups = normalise(conv2d(n=2, k=8, h=5, w=7, c=4, r=1, s=1, layout="nhwc"))
    assert problem.extents == {"k": 8, "w": 70, "c": 4}
    assert groups["output"] == ((0, 1, 2), (3,))


def test_last_axes_of_one_element_are_part_of_the_one_before() -> None:
    column = nchw("memref<1x3x9x1xf32>", "memref<4x3x3x1xf32>", "memref<1x4x7x1xf32>")
    problem, groups = normalise(convolution(column).problem)
    assert problem.input.runs_along("h")
    assert problem.output.runs_along("h")
    assert groups["output"] == ((0,), (1,), (2, 3))
    assert groups["weights"] == ((0,), (1,), (2, 3))


def test_axes_of_which_one_element_is_used_stay() -> None:
    """The second column of the input is there, though no pixel of the output reads it."""
    stride = "{strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}"
    types = "memref<1x3x9x2xf32>", "memref<4x3x3x1xf32>", "memref<1x4x4x1xf32>"
    problem, groups = normalise(convolution(nchw(*types, stride)).problem)
    assert not problem.input.runs_along("h")
    assert problem.output.runs_along("h")
    assert groups["input"] == ((0,), (1,), (2,), (3,))


@pytest.mark.parametrize("change", [{"stride": 2}, {"r": 2}])
def test_no_fusion_where_pixels_do_not_follow_each_other(change: dict[str, int]) -> None:
    sizes = {"k": 8, "h": 5, "w": 7, "c": 4, "r": 1, "s": 1, **change}
    problem, _ = normalise(conv2d(**sizes))
    assert problem.extent("h") == 5
    assert problem.extent("w") == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            nchw("memref<1x3x?x6xf32>", "memref<4x3x3x3xf32>", "memref<1x4x?x4xf32>"),
            "dynamic shape",
        ),
        (nchw("memref<1x3x6x6xf16>", "memref<4x3x3x3xf16>", "memref<1x4x4x4xf16>"), "type is f16"),
        (nchw("memref<1x3x6x6xi8>", "memref<4x3x3x3xi8>", "memref<1x4x4x4xi32>"), "integers"),
        (nchw("memref<1x3x6x6xf16>", "memref<4x3x3x3xf16>", "memref<1x4x4x4xf32>"), "body is not"),
        (nchw("memref<0x3x6x6xf32>", "memref<4x3x3x3xf32>", "memref<0x4x4x4xf32>"), "no elements"),
        (
            nchw("memref<1x3x6x6xf32>", "memref<4x3x3x3xf32>", "memref<1x4x4x4xf32, 1>"),
            "another memory space",
        ),
    ],
)
def test_unsupported(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        convolution(text)


def test_modules_of_another_kind() -> None:
    inside = nchw("memref<1x3x6x6xf32>", "memref<4x3x3x3xf32>", "memref<1x4x4x4xf32>")
    kernel = inside.replace("func.func", "gpu.func").replace("return", "gpu.return")
    with pytest.raises(UnsupportedError, match=r"it is in a gpu\.module"):
        convolution(f"gpu.module @kernels {{ {kernel} }}")
    assert convolution(f"module {{ {inside} }}").problem.extent("k") == 4


def test_code_in_no_function() -> None:
    buffers = "".join(
        f"%{name} = memref.alloc() : memref<{n}x{n}xf32>\n"
        for name, n in zip("xfo", (6, 3, 4), strict=True)
    )
    with pytest.raises(UnsupportedError, match="it is in no function"):
        convolution(f"""{buffers} linalg.conv_2d ins(%x, %f : memref<6x6xf32>, memref<3x3xf32>)
                        outs(%o : memref<4x4xf32>)""")


def generic(product: str, total: str, result: str) -> str:
    """A row of pixels, with a body of two operations whose operands are given, and their type."""
    return f"""func.func @f(%x: memref<10xf32>, %w: memref<3xf32>, %o: memref<8xf32>, %v: f32) {{
  linalg.generic {{indexing_maps = [affine_map<(w, s) -> (w + s)>, affine_map<(w, s) -> (s)>,
                                   affine_map<(w, s) -> (w)>],
                  iterator_types = ["parallel", "reduction"]}}
      ins(%x, %w : memref<10xf32>, memref<3xf32>) outs(%o : memref<8xf32>) {{
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf {product} : f32
    %s = arith.addf {total} : f32
    linalg.yield {result} : f32
  }}
  return
}}"""


@pytest.mark.parametrize("product", ["%a, %b", "%b, %a"])
@pytest.mark.parametrize("total", ["%acc, %m", "%m, %acc"])
def test_products_and_sums_have_their_operands_in_any_order(product: str, total: str) -> None:
    assert convolution(generic(product, total, "%s")).problem.names == ("w", "s")


@pytest.mark.parametrize(
    "body",
    [
        ("%a, %a", "%acc, %m", "%s"),
        ("%b, %b", "%acc, %m", "%s"),
        ("%acc, %a", "%b, %m", "%s"),
        ("%acc, %a", "%acc, %m", "%s"),
        ("%a, %v", "%acc, %m", "%s"),
        ("%a, %b", "%v, %m", "%s"),
        ("%a, %b", "%m, %m", "%s"),
        ("%a, %b", "%acc, %acc", "%s"),
        ("%a, %b", "%acc, %a", "%s"),
        ("%a, %b", "%acc, %m", "%m"),
        ("%a, %b", "%acc, %m", "%acc"),
        ("%a, %b", "%acc, %m", "%v"),
    ],
)
def test_another_body_of_the_same_operations(body: tuple[str, str, str]) -> None:
    with pytest.raises(UnsupportedError, match="does not add input times weights to the output"):
        convolution(generic(*body))


def test_pixels_are_fused_up_to_what_plans_are_made_for() -> None:
    for pixels, dims in ((2048, ("k", "w", "c")), (2049, ("k", "h", "w", "c"))):
        problem, _ = normalise(conv2d(k=8, h=pixels, w=pixels, c=4, r=1, s=1))
        assert problem.names == dims
        problem.check_size()


OUTPUT = "memref<1x4x4x8xf32>"
VECTOR_OF_OUTPUT = "memref<8xf32, strided<[1], offset: ?>>"


def initialized(
    writer: str, *, before: str = "", output: str = "%o", package: str = "mlir"
) -> Convolution:
    """A convolution behind `writer`, in NHWC, of a function with a bias and a scalar."""
    text = f"""
#whole = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (k)>
#nothing = affine_map<(n, h, w, k) -> ()>
func.func @f(%a: memref<1x6x6x4xf32>, %f: memref<3x3x4x8xf32>, %o: {OUTPUT}, %x: {OUTPUT},
             %b: memref<8xf32>, %v: f32, %i: index) {{
  {before}
  {writer}
  linalg.conv_2d_nhwc_hwcf ins(%a, %f : memref<1x6x6x4xf32>, memref<3x3x4x8xf32>)
    outs({output} : {OUTPUT})
  return
}}
memref.global @first : {OUTPUT}
memref.global @second : memref<8xf32>
func.func private @elsewhere({OUTPUT})
"""
    return convolution(text, package)


def copy(maps: str, operands: str, results: int = 1) -> str:
    """A `linalg.generic` that yields the first of the elements that its body is given."""
    arguments = ", ".join(f"%e{i}: f32" for i in range(operands.count("%")))
    yielded = ", ".join(f"%e{i}" for i in range(results))
    return f"""linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} {operands} {{
  ^bb0({arguments}):
    linalg.yield {yielded} : {", ".join(["f32"] * results)}
  }}"""


def broadcast(bias: str, type_: str, output: str = "%o") -> str:
    return f"""linalg.broadcast ins({bias} : {type_}) outs({output} : {OUTPUT})
    dimensions = [0, 1, 2]"""


@pytest.mark.parametrize("package", ["mlir", "torch_mlir"])
def test_a_fill_that_was_made_generic(package: str) -> None:
    writer = copy("#nothing, #whole", f"ins(%v : f32) outs(%o : {OUTPUT})")
    found = initialized(writer, package=package)
    assert found.initializer is not None
    assert str(found.initializer.fill.type) == "f32"
    assert found.initializer.bias is None
    assert not found.problem.accumulates


def test_no_context_is_needed_to_find_a_bias() -> None:
    """Whoever asks may have none entered."""
    found = initialized(copy("#channel, #whole", f"ins(%b : memref<8xf32>) outs(%o : {OUTPUT})"))
    again = extract(found.operation, bindings())
    assert again.initializer is not None
    assert str(again.initializer.bias.type) == "memref<8xf32>"


def test_a_bias_whose_elements_lie_anywhere_stays() -> None:
    source = bias = "memref<8xf32, affine_map<(i) -> (i mod 4)>>"
    before = f"%r = memref.alloc() : {source}"
    found = initialized(broadcast("%r", bias), before=before)
    assert found.initializer is None
    assert normalise(found.problem)[0].accumulates


def test_an_operation_without_inputs_initializes_nothing() -> None:
    """It has as many operands as a broadcast, and yields what its outputs hold."""
    both = f"outs(%x, %o : {OUTPUT}, {OUTPUT})"
    assert initialized(copy("#whole, #whole", both, results=2)).initializer is None
    short = f"outs(%b, %o : memref<8xf32>, {OUTPUT})"
    assert initialized(copy("#channel, #whole", short, results=2)).initializer is None


@pytest.mark.parametrize(
    ("before", "bias", "type_", "output"),
    [
        (
            f"%s = memref.subview %o[0, %i, 0, 0] [1, 1, 1, 8] [1, 1, 1, 1] : {OUTPUT}"
            f" to {VECTOR_OF_OUTPUT}",
            "%s",
            VECTOR_OF_OUTPUT,
            "%o",
        ),
        (
            f"""%whole = memref.cast %o : {OUTPUT} to memref<1x4x4x8xf32>
  %r = memref.reinterpret_cast %o to offset: [0], sizes: [8], strides: [1]
    : {OUTPUT} to memref<8xf32>""",
            "%r",
            "memref<8xf32>",
            "%whole",
        ),
        (
            f"""%g = memref.get_global @first : {OUTPUT}
  %again = memref.get_global @first : {OUTPUT}
  %r = memref.reinterpret_cast %again to offset: [0], sizes: [8], strides: [1]
    : {OUTPUT} to memref<8xf32>""",
            "%r",
            "memref<8xf32>",
            "%g",
        ),
        (
            """%yes = arith.constant true
  %other = arith.select %yes, %b, %b : memref<8xf32>""",
            "%other",
            "memref<8xf32>",
            "%o",
        ),
    ],
    ids=["subview", "through casts", "of a global", "unknown"],
)
def test_a_bias_that_may_be_in_the_output_stays(
    before: str, bias: str, type_: str, output: str
) -> None:
    found = initialized(broadcast(bias, type_, output), before=before, output=output)
    assert found.initializer is None


@pytest.mark.parametrize(
    ("before", "bias", "output"),
    [
        ("", "%b", "%o"),
        ("%n = memref.alloc() : memref<8xf32>", "%n", "%o"),
        ("%g = memref.get_global @second : memref<8xf32>", "%g", "%o"),
        (
            f"""%g = memref.get_global @second : memref<8xf32>
  %x1 = memref.get_global @first : {OUTPUT}""",
            "%g",
            "%x1",
        ),
    ],
)
def test_a_bias_elsewhere_is_folded(before: str, bias: str, output: str) -> None:
    found = initialized(broadcast(bias, "memref<8xf32>", output), before=before, output=output)
    assert found.initializer is not None
    assert found.initializer.bias is not None


FILL = f"linalg.fill ins(%v : f32) outs(%o : {OUTPUT})"
ELSEWHERE = f"%n = memref.alloc() : {OUTPUT}"
PART = f"""%part = memref.subview %o[0, 1, 0, 0] [1, 1, 1, 8] [1, 1, 1, 1] : {OUTPUT}
    to memref<8xf32, strided<[1], offset: 32>>"""
CAPTURED = f"""linalg.generic {{indexing_maps = [#whole],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} outs(%n : {OUTPUT}) {{
  ^bb0(%e: f32):
    %first = memref.load %BUFFER[%i, %i, %i, %i] : {OUTPUT}
    linalg.yield %first : f32
  }}"""


@pytest.mark.parametrize(
    "between",
    [
        FILL.replace("%o", "%n"),
        FILL.replace("%o", "%x"),
        f"linalg.add ins(%x, %n : {OUTPUT}, {OUTPUT}) outs(%n : {OUTPUT})",
        f"memref.store %v, %n[%i, %i, %i, %i] : {OUTPUT}",
        f"memref.copy %x, %n : {OUTPUT} to {OUTPUT}",
        f"%size = memref.dim %o, %i : {OUTPUT}",
        f"%same = memref.assume_alignment %o, 64 : {OUTPUT}",
        CAPTURED.replace("%BUFFER", "%x"),
        f"memref.dealloc %n : {OUTPUT}",
    ],
)
def test_what_is_done_elsewhere_may_come_between(between: str) -> None:
    found = initialized(f"{FILL}\n{between}", before=ELSEWHERE)
    assert found.initializer is not None


@pytest.mark.parametrize(
    "between",
    [
        f"%e = memref.load %o[%i, %i, %i, %i] : {OUTPUT}",
        f"{PART}\nlinalg.fill ins(%v : f32) outs(%part : memref<8xf32, strided<[1], offset: 32>>)",
        f"linalg.add ins(%o, %n : {OUTPUT}, {OUTPUT}) outs(%n : {OUTPUT})",
        f"memref.copy %o, %n : {OUTPUT} to {OUTPUT}",
        f"%same = memref.assume_alignment %o, 64 : {OUTPUT}\n" + FILL.replace("%o", "%same"),
        f"""%yes = arith.constant true
        %other = arith.select %yes, %n, %x : {OUTPUT}
        {FILL.replace("%o", "%other")}""",
        CAPTURED.replace("%BUFFER", "%o"),
        f"func.call @elsewhere(%n) : ({OUTPUT}) -> ()",
        "scf.if %c { memref.store %v, %n[%i, %i, %i, %i] : OUTPUT }".replace("OUTPUT", OUTPUT),
        f"%t = bufferization.to_tensor %o restrict : {OUTPUT} to tensor<1x4x4x8xf32>",
    ],
)
def test_nothing_may_come_between_that_may_access_the_output(between: str) -> None:
    before = f"{ELSEWHERE}\n%c = arith.constant true"
    assert initialized(f"{FILL}\n{between}", before=before).initializer is None


@pytest.mark.parametrize(
    ("between", "folds"),
    [
        (broadcast("%b", "memref<8xf32>", "%n"), True),
        (FILL.replace("%o", "%x"), True),
        ("linalg.fill ins(%v : f32) outs(%b : memref<8xf32>)", False),
        ("memref.store %v, %b[%i] : memref<8xf32>", False),
        (
            "%half = memref.subview %b[4] [4] [1] : memref<8xf32> to "
            "memref<4xf32, strided<[1], offset: 4>>\nlinalg.fill ins(%v : f32) "
            "outs(%half : memref<4xf32, strided<[1], offset: 4>>)",
            False,
        ),
    ],
)
def test_a_bias_that_changes_before_the_convolution_stays(between: str, folds: bool) -> None:
    writer = broadcast("%b", "memref<8xf32>")
    found = initialized(f"{writer}\n{between}", before=ELSEWHERE)
    assert (found.initializer is not None) == folds


def test_all_outputs_may_be_filled_first() -> None:
    fills = "\n".join(FILL.replace("%o", name) for name in ("%o", "%n"))
    found = initialized(
        f"""{fills}
        linalg.conv_2d_nhwc_hwcf ins(%a, %f : memref<1x6x6x4xf32>, memref<3x3x4x8xf32>)
          outs(%o : {OUTPUT})""",
        before=ELSEWHERE,
        output="%n",
    )
    module = enclosing_module(found.operation)
    both = convolutions(module, bindings())
    assert [one.initializer is not None for one in both] == [True, True]


def test_outputs_that_a_caller_may_give_twice_are_taken_for_one() -> None:
    text = f"""func.func private @f(%a: memref<1x6x6x4xf32>, %f: memref<3x3x4x8xf32>, %o: {OUTPUT},
                  %x: {OUTPUT}, %v: f32) {{
      {FILL}
      {FILL.replace("%o", "%x")}
      linalg.conv_2d_nhwc_hwcf ins(%a, %f : memref<1x6x6x4xf32>, memref<3x3x4x8xf32>)
        outs(%o : {OUTPUT})
      return
    }}
    CALLER"""
    caller = f"""func.func @g(%a: memref<1x6x6x4xf32>, %f: memref<3x3x4x8xf32>, %o: {OUTPUT},
                              %v: f32) {{
      call @f(%a, %f, %o, %o, %v) : (memref<1x6x6x4xf32>, memref<3x3x4x8xf32>, {OUTPUT}, {OUTPUT},
                                     f32) -> ()
      return
    }}"""
    apart = caller.replace("%o, %o, %v", "%o, %p, %v").replace("%v: f32", f"%p: {OUTPUT}, %v: f32")
    assert convolution(text.replace("CALLER", "")).initializer is not None
    assert convolution(text.replace("CALLER", apart)).initializer is not None
    assert convolution(text.replace("CALLER", caller)).initializer is None


SQUARE = "memref<1x4x4x8xf32>"
ONE_TAP = "memref<1x1x8x8xf32>"


@pytest.mark.parametrize(("second", "folds"), [("%o", True), ("%a", False)])
def test_what_a_function_that_calls_itself_is_given(second: str, folds: bool) -> None:
    text = f"""func.func private @f(%a: {SQUARE}, %f: {ONE_TAP}, %o: {SQUARE}, %v: f32) {{
      linalg.fill ins(%v : f32) outs(%o : {SQUARE})
      linalg.conv_2d_nhwc_hwcf ins(%a, %f : {SQUARE}, {ONE_TAP}) outs(%o : {SQUARE})
      call @f(%o, %f, %a, %v) : ({SQUARE}, {ONE_TAP}, {SQUARE}, f32) -> ()
      return
    }}
    func.func @g(%a: {SQUARE}, %f: {ONE_TAP}, %o: {SQUARE}, %v: f32) {{
      call @f(%a, %f, {second}, %v) : ({SQUARE}, {ONE_TAP}, {SQUARE}, f32) -> ()
      return
    }}"""
    assert (convolution(text).initializer is not None) == folds


@pytest.mark.parametrize(
    ("image", "output", "folds"),
    [
        ("memref.view %arena[%c0][]", "memref.view %arena[%c1][]", True),
        ("memref.view %arena[%c0][]", "memref.assume_alignment %x, 64", False),
    ],
)
def test_parts_of_a_buffer_are_taken_to_lie_apart(image: str, output: str, folds: bool) -> None:
    of_output = SQUARE if "assume" in output else f"memref<1024xi8> to {SQUARE}"
    text = f"""func.func @f(%arena: memref<1024xi8>, %f: {ONE_TAP}, %v: f32) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 512 : index
      %x = {image} : memref<1024xi8> to {SQUARE}
      %o = {output} : {of_output}
      linalg.fill ins(%v : f32) outs(%o : {SQUARE})
      linalg.conv_2d_nhwc_hwcf ins(%x, %f : {SQUARE}, {ONE_TAP}) outs(%o : {SQUARE})
      return
    }}"""
    if folds:
        assert convolution(text).initializer is not None
    else:
        with pytest.raises(UnsupportedError, match="its output is its input, too"):
            convolution(text)


FOLDED = {
    "first": ("c, h * 2, w * 2", "k, c", "k, h, w", "4x9x11", "6x4", "6x5x6"),
    "last": ("n, h * 2, w * 2, c", "c, k", "n, h, w, k", "2x9x11x4", "4x6", "2x5x6x6"),
}


def folded(kind: str) -> str:
    """A 1x1 convolution of stride 2 whose unit dims are folded, channels first or last."""
    image, weights, output, *sizes = FOLDED[kind]
    loops = "n, k, h, w, c" if kind == "last" else "k, h, w, c"
    maps = ", ".join(f"affine_map<({loops}) -> ({m})>" for m in (image, weights, output))
    parallel = '"parallel", ' * (loops.count(","))
    x, f, o = (f"memref<{size}xf32>" for size in sizes)
    return f"""func.func @f(%x: {x}, %f: {f}, %o: {o}) {{
  linalg.generic {{indexing_maps = [{maps}], iterator_types = [{parallel}"reduction"]}}
      ins(%x, %f : {x}, {f}) outs(%o : {o}) {{
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  }}
  return
}}"""


@pytest.mark.parametrize(("kind", "batch"), [("first", 1), ("last", 2)])
def test_without_filter_loops_it_is_a_pointwise_convolution(kind: str, batch: int) -> None:
    layout, weights = ("nchw", "fchw") if kind == "first" else ("nhwc", "hwcf")
    by_hand = conv2d(
        n=batch, k=6, h=5, w=6, c=4, r=1, s=1, stride=2, layout=layout, weights=weights
    )
    problem, _ = normalise(convolution(folded(kind)).problem)
    expected, _ = normalise(by_hand)
    ours = {dim: problem.extent(dim) for dim in problem.names}
    renamed = {("d" if dim == "n" else dim): size for dim, size in expected.extents.items()}
    assert ours == renamed
    assert problem.flops == expected.flops


def test_products_without_a_sum_over_channels_stay() -> None:
    text = (
        folded("first").replace("(k, h, w, c)", "(k, h, w, r)").replace('"reduction"', '"parallel"')
    )
    text = text.replace("(c, h * 2, w * 2)", "(r, h * 2, w * 2)").replace("(k, c)>", "(k, r)>")
    text = text.replace("-> (k, h, w)>", "-> (k, h, w, r)>").replace("6x5x6xf32", "6x5x6x4xf32")
    with pytest.raises(UnsupportedError, match="MLIR sees no convolution of input, weights"):
        convolution(text)
