"""Unrolled reductions compute what the loops say, and what cannot be unrolled is left alone."""

import numpy as np
import pytest
from plain_convolution import convolve

from mopt_mlir import compile
from mopt_mlir.compiler.lowered import lower_module
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.pipeline.loading import load_module

F32 = np.float32
ASSEMBLY = "llvm.inline_asm has_side_effects"
"""What stands behind each scalar of a loop that is unrolled."""

PRODUCTS = """
    %0 = vector.outerproduct %v, %p, %x {kind = #vector.kind<add>} : vector<8xf32>, f32
    %1 = vector.outerproduct %w, %p, %y {kind = #vector.kind<add>} : vector<8xf32>, f32"""


def reduction(first: str, last: str, step: int = 1, word: str = "index", *, unsigned: bool = False,
              products: str = PRODUCTS, before: str = "") -> str:  # fmt: skip
    """Two rows of out plus the sums of the products of a column of pixels and one of panel, from
    `first` to `last`, which are constants or one of the arguments %m and %n."""
    bounds = [
        bound if bound.startswith("%") else f"%{name}"
        for name, bound in (("first", first), ("last", last))
    ]
    constants = "\n".join(
        f"  %{name} = arith.constant {bound} : {word}"
        for name, bound in (("first", first), ("last", last), ("step", str(step)))
        if not bound.startswith("%")
    )
    at = "%c" if word == "index" else "%at"
    cast = "" if word == "index" else f"%at = arith.index_cast %c : {word} to index"
    return f"""
func.func @f(%pixels: memref<100x2xf32>, %panel: memref<100x16xf32>, %out: memref<2x16xf32>,
             %m: {word}, %n: {word}) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
{constants}
  {before}
  %a = vector.load %out[%zero, %zero] : memref<2x16xf32>, vector<8xf32>
  %b = vector.load %out[%one, %eight] : memref<2x16xf32>, vector<8xf32>
  %sums:2 = scf.for {"unsigned" if unsigned else ""} %c = {bounds[0]} to {bounds[1]} step %step
      iter_args(%x = %a, %y = %b) -> (vector<8xf32>, vector<8xf32>) : {word} {{
    {cast}
    %v = vector.load %panel[{at}, %zero] : memref<100x16xf32>, vector<8xf32>
    %w = vector.load %panel[{at}, %eight] : memref<100x16xf32>, vector<8xf32>
    %p = memref.load %pixels[{at}, %one] : memref<100x2xf32>{products}
    scf.yield %0, %1 : vector<8xf32>, vector<8xf32>
  }}
  vector.store %sums#0, %out[%zero, %zero] : memref<2x16xf32>, vector<8xf32>
  vector.store %sums#1, %out[%one, %eight] : memref<2x16xf32>, vector<8xf32>
  return
}}"""


def check(text: str, first: int, last: int, indices: range) -> None:
    """Whether the sums are those over `indices`, in plain numpy."""
    function = compile(text, passes="", cpu="haswell")["f"]
    rng = np.random.default_rng(0)
    pixels, panel, out = (
        rng.integers(-4, 5, shape).astype(F32) for shape in ((100, 2), (100, 16), (2, 16))
    )
    expected = out.astype(np.float64)
    for c in indices:
        expected[0, :8] += np.float64(pixels[c, 1]) * panel[c, :8]
        expected[1, 8:] += np.float64(pixels[c, 1]) * panel[c, 8:]
    function(pixels, panel, out, first, last)
    np.testing.assert_array_equal(out, expected)


def lowered(text: str) -> str:
    return str(lower_module(load_module(text), CompileOptions(passes="", cpu="haswell")).module)


@pytest.mark.parametrize("word", ["index", "i32", "i64"])
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (7, 5), (2, 3), (0, 23), (1, 25), (3, 27), (0, 72), (5, 100)]
)
def test_loops_of_any_length(first, last, step, word):
    """Several trips become one, and some may be left over, or none be there at all."""
    dynamic, indices = reduction("%m", "%n", step, word), range(first, last, step)
    assert ASSEMBLY in lowered(dynamic)
    check(dynamic, first, last, indices)
    check(reduction(str(first), str(last), step, word), 0, 0, indices)


def test_no_trip_is_made_where_bounds_wrap_around():
    largest = np.iinfo(np.int64).max
    check(reduction("%m", "%n"), largest, -largest + 100, range(0))
    unsigned = reduction("%m", "%n", unsigned=True)
    assert ASSEMBLY not in lowered(unsigned)
    check(unsigned, -100, 3, range(0))  # from 2**64 - 100
    check(unsigned, 3, 100, range(3, 100))


@pytest.mark.parametrize("length", [6, 24, 48, 60, 64, 67])
def test_a_tile_is_known_to_be_as_long_as_it_is(length):
    """Wherever it begins: nothing is left over if some number of trips divides it."""
    text = reduction("%m", "%end", before=f"""%tile = arith.constant {length} : index
  %end = arith.addi %m, %tile : index""")  # fmt: skip
    check(text, 30, 0, range(30, 30 + length))
    steps = lowered(text).count(ASSEMBLY)
    assert steps == (2 if length == 67 else 1)


@pytest.mark.parametrize(
    ("first", "last", "together"), [("%m", "%n", 32), ("0", "96", 32), ("0", "100", 25)]
)
def test_trips_are_joined_by_powers_of_two(first, last, together):
    """If as many are left over: of 96, none by 24, 32 and 48; of 100, none by 25 and 50."""
    assert f"constant({together} : index)" in lowered(reduction(first, last))


@pytest.mark.parametrize(("most", "together"), [(48, 24), (63, 24), (64, 32)])
def test_two_rounds_are_left_of_the_most_trips(most, together):
    """Rather than one and a second loop of many trips."""
    before = f"""%tile = arith.constant {most} : index
  %end = arith.minsi %n, %tile : index"""
    assert f"constant({together} : index)" in lowered(reduction("0", "%end", before=before))


@pytest.mark.parametrize(
    ("bound", "is_unrolled"), [("6, 90, 80", False), ("80, 90, 47", False), ("80, 90, 48", True)]
)
def test_the_smallest_of_several_bounds_counts(bound, is_unrolled):
    """Both where the loop begins with a constant and where its tile does."""
    one, two, three = bound.split(", ")
    before = f"""%k1 = arith.constant {one} : index
  %k2 = arith.constant {two} : index
  %k3 = arith.constant {three} : index
  %some = arith.minsi %k1, %n : index
  %more = arith.minsi %some, %k2 : index
  %end = arith.minsi %k3, %more : index"""
    text = reduction("0", "%end", before=before)
    assert (ASSEMBLY in lowered(text)) == is_unrolled
    check(text, 0, 99, range(min(int(one), int(two), int(three))))


@pytest.mark.parametrize(
    "products",
    [
        # the second sum goes on from the first
        PRODUCTS.replace("%y {", "%0 {"),
        # a sum is stored before the other one is there
        PRODUCTS.replace("f32\n", "f32\n    vector.store %0, %out[%zero, %zero]"
                         " : memref<2x16xf32>, vector<8xf32>\n", 1),
        # there is no register for the third one on this CPU
        PRODUCTS + """
    %z = vector.load %panel[%c, %zero] : memref<100x16xf32>, vector<16xf32>
    %o = vector.load %out[%zero, %zero] : memref<2x16xf32>, vector<16xf32>
    %2 = vector.outerproduct %z, %p, %o {kind = #vector.kind<add>} : vector<16xf32>, f32
    vector.store %2, %out[%zero, %zero] : memref<2x16xf32>, vector<16xf32>""",
        # what else there is would be there many times
        PRODUCTS + """
    %first = arith.cmpi eq, %c, %zero : index
    scf.if %first {
      scf.for %i = %zero to %eight step %one {
        memref.store %p, %out[%zero, %i] : memref<2x16xf32>
      }
    }""",
    ],
    ids=["chained", "between", "wide", "bulky"],
)  # fmt: skip
def test_what_cannot_be_kept_in_order_is_left_alone(products):
    text = reduction("%m", "%n", products=products)
    assert ASSEMBLY not in lowered(text)
    compile(text, passes="", cpu="haswell")


@pytest.mark.parametrize(
    ("vectors", "pixels", "is_unrolled"),
    [(16, 1, True), (17, 1, False), (23, 1, False), (11, 2, True)],
)
def test_no_more_sums_are_passed_at_once_than_there_are_registers(vectors, pixels, is_unrolled):
    k, rng = 8 * vectors, np.random.default_rng(0)
    text = f"""
func.func @f(%x: memref<1x1x8x1xf32>, %w: memref<1x3x1x{k}xf32>, %o: memref<1x1x6x{k}xf32>) {{
  linalg.conv_2d_nhwc_hwcf {{mopt.plan = {{machine = "none", threads = 1, levels = [],
      packing = "none", microkernel = {{lanes = "k", vector = 8, tile = {{k = {k}, w = {pixels}}},
      reduction = ["s"]}}}}}}
    ins(%x, %w : memref<1x1x8x1xf32>, memref<1x3x1x{k}xf32>) outs(%o : memref<1x1x6x{k}xf32>)
  return
}}"""
    options = CompileOptions(machine="haswell", cpu="haswell")
    assert (ASSEMBLY in str(lower_module(load_module(text), options).module)) == is_unrolled
    function = compile(text, cpu="haswell", require_tiled=True)["f"]
    x, w, o = (
        rng.integers(-4, 5, shape).astype(F32)
        for shape in ((1, 1, 8, 1), (1, 3, 1, k), (1, 1, 6, k))
    )
    expected = o + convolve(x, w, "nhwc_hwcf")
    function(x, w, o)
    np.testing.assert_array_equal(o, expected)


TAPS_IN_CHANNELS = """
func.func @f(%pixels: memref<4096xf32>, %out: memref<2x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c96 = arith.constant 96 : index
  %c97 = arith.constant 97 : index
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %sums:2 = scf.for %c = %c0 to OUTER step %c1 iter_args(%x = %zero, %y = %zero)
      -> (vector<8xf32>, vector<8xf32>) {
    %inner:2 = scf.for %s = %c0 to INNER step %c1 iter_args(%xs = %x, %ys = %y)
        -> (vector<8xf32>, vector<8xf32>) {
      %at = arith.addi %c, %s : index
      %p = memref.load %pixels[%at] : memref<4096xf32>
      %v = vector.load %pixels[%at] : memref<4096xf32>, vector<8xf32>
      %0 = vector.outerproduct %v, %p, %xs {kind = #vector.kind<add>} : vector<8xf32>, f32
      %1 = vector.outerproduct %v, %p, %ys {kind = #vector.kind<add>} : vector<8xf32>, f32
      scf.yield %1, %0 : vector<8xf32>, vector<8xf32>
    }
    scf.yield %inner#0, %inner#1 : vector<8xf32>, vector<8xf32>
  }
  vector.store %sums#0, %out[%c0, %c0] : memref<2x64xf32>, vector<8xf32>
  vector.store %sums#1, %out[%c1, %c0] : memref<2x64xf32>, vector<8xf32>
  return
}"""


@pytest.mark.parametrize(("outer", "inner"), [(96, 4), (97, 4), (4, 96)])
def test_a_loop_that_vanishes_may_stand_in_one_that_is_split(outer, inner):
    text = TAPS_IN_CHANNELS.replace("OUTER", f"%c{outer}").replace("INNER", f"%c{inner}")
    function = compile(text, passes="", cpu="haswell")["f"]
    pixels = np.random.default_rng(0).integers(-2, 3, 4096).astype(F32)
    out = np.zeros((2, 64), F32)
    function(pixels, out)
    places = [c + s for c in range(outer) for s in range(inner)]
    expected = sum(np.float64(pixels[at]) * pixels[at : at + 8] for at in places)
    np.testing.assert_array_equal(out[:, :8], [expected, expected])
    assert not out[:, 8:].any()


def test_the_same_module_is_unrolled_in_the_same_way_each_time():
    """Nothing is remembered of loops that are gone, whose place in memory others may take."""
    first, second = (
        TAPS_IN_CHANNELS.replace("OUTER", f"%c{outer}").replace("INNER", f"%c{inner}")
        for outer, inner in ((96, 4), (4, 96))
    )
    text = first + second.replace("@f", "@g")
    assert len({lowered(text) for _ in range(5)}) == 1
