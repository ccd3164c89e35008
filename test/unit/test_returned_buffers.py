"""Functions that return buffers: whose memory that is, how it lies, and who frees it."""

import numpy as np
import pytest

from mopt_mlir import UserError, compile
from mopt_mlir.buffers import aligned_bytes
from mopt_mlir.lowering.arrays import completed
from mopt_mlir.lowering.bufferize import bufferize
from mopt_mlir.pipeline.loading import load_module

F32 = np.float32


def compiled(text: str):
    return compile(text, passes="")["f"]


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("memref<4xf32, strided<[2]>>", [0, 2, 4, 6]),
        ("memref<4xf32, strided<[-2], offset: 7>>", [7, 5, 3, 1]),
        ("memref<0xf32, strided<[2]>>", []),
    ],
)
def test_a_result_may_have_gaps_and_run_backwards(type_, expected):
    layout = type_.removesuffix(">").split("strided<[")[1]
    stride, offset = int(layout.split("]")[0]), 7 if "offset" in layout else 0
    function = compiled(
        f"""func.func @f(%x: memref<8xf32>) -> {type_} {{
          %v = memref.reinterpret_cast %x to offset: [{offset}], sizes: [{len(expected)}],
              strides: [{stride}] : memref<8xf32> to {type_}
          return %v : {type_}
        }}"""
    )
    assert function(np.arange(8, dtype=F32)).tolist() == expected


@pytest.mark.parametrize("strides", ["8, 1", "?, 1", "8, ?", "?, ?"])
def test_a_result_may_begin_anywhere_and_have_strides_that_only_the_run_tells(strides):
    """It has memory of its own, for all of its elements."""
    type_ = f"memref<4x8xf32, strided<[{strides}], offset: ?>>"
    function = compiled(
        f"""func.func @f(%a: memref<8x8xf32>, %i: index) -> {type_} {{
          %s = memref.subview %a[%i, 0] [4, 8] [1, 1]
              : memref<8x8xf32> to memref<4x8xf32, strided<[8, 1], offset: ?>>
          %c = memref.cast %s : memref<4x8xf32, strided<[8, 1], offset: ?>> to {type_}
          return %c : {type_}
        }}"""
    )
    given = np.arange(64, dtype=F32).reshape(8, 8)
    result = function(given, 2)
    given[:] = 0
    np.testing.assert_array_equal(result, np.arange(16, 48).reshape(4, 8))
    memory = result if result.base is None else result.base
    assert not np.shares_memory(memory, given)
    assert len({result[at : at + 1, i].ctypes.data for at in range(4) for i in range(8)}) == 32


def test_a_large_result_with_gaps_stays_in_its_memory():
    function = compiled(
        """func.func @f(%x: memref<1000000xf32>) -> memref<500000xf32, strided<[2]>> {
          %v = memref.subview %x[0] [500000] [2]
              : memref<1000000xf32> to memref<500000xf32, strided<[2]>>
          return %v : memref<500000xf32, strided<[2]>>
        }"""
    )
    result = function(np.arange(1_000_000, dtype=F32))
    np.testing.assert_array_equal(result, np.arange(0, 1_000_000, 2))


def test_a_result_of_dynamic_shape_may_run_backwards():
    function = compiled(
        """func.func @f(%x: memref<8xf32>, %n: index) -> memref<?xf32, strided<[-1], offset: 7>> {
          %a = memref.alloc() : memref<8xf32>
          memref.copy %x, %a : memref<8xf32> to memref<8xf32>
          %r = memref.reinterpret_cast %a to offset: [7], sizes: [%n], strides: [-1]
              : memref<8xf32> to memref<?xf32, strided<[-1], offset: 7>>
          return %r : memref<?xf32, strided<[-1], offset: 7>>
        }"""
    )
    assert function(np.arange(8, dtype=F32), 4).tolist() == [7, 6, 5, 4]


WRITES_THROUGH = {
    "parameter": "return %x : memref<8xf32>",
    "global": "%g = memref.get_global @g : memref<8xf32>\n  return %g : memref<8xf32>",
}


@pytest.mark.parametrize("body", WRITES_THROUGH.values(), ids=WRITES_THROUGH)
def test_a_caller_writes_through_what_it_was_given(body):
    function = compiled(
        f"""memref.global "private" @g : memref<8xf32> = dense<1.0>
        func.func private @given(%x: memref<8xf32>) -> memref<8xf32> {{
          {body}
        }}
        func.func @f(%x: memref<8xf32>, %seen: memref<8xf32>) {{
          %two = arith.constant 2.0 : f32
          %v = call @given(%x) : (memref<8xf32>) -> memref<8xf32>
          linalg.fill ins(%two : f32) outs(%v : memref<8xf32>)
          %w = call @given(%x) : (memref<8xf32>) -> memref<8xf32>
          memref.copy %w, %seen : memref<8xf32> to memref<8xf32>
          return
        }}"""
    )
    x, seen = np.zeros(8, F32), np.zeros(8, F32)
    function(x, seen)
    assert seen.tolist() == [2] * 8
    assert x.tolist() == ([2] * 8 if body == WRITES_THROUGH["parameter"] else [0] * 8)


def test_one_buffer_that_is_returned_twice_is_one():
    function = compiled(
        """func.func private @twice() -> (memref<8xf32>, memref<8xf32>) {
          %m = memref.alloc() : memref<8xf32>
          return %m, %m : memref<8xf32>, memref<8xf32>
        }
        func.func @f(%seen: memref<8xf32>) {
          %two = arith.constant 2.0 : f32
          %v:2 = call @twice() : () -> (memref<8xf32>, memref<8xf32>)
          linalg.fill ins(%two : f32) outs(%v#0 : memref<8xf32>)
          memref.copy %v#1, %seen : memref<8xf32> to memref<8xf32>
          return
        }"""
    )
    seen = np.zeros(8, F32)
    function(seen)
    assert seen.tolist() == [2] * 8


@pytest.mark.parametrize("size", ["8", "?"])
def test_a_caller_may_free_what_it_was_given(size):
    made = f"memref<{size}xf32>"
    function = compiled(
        f"""func.func private @copy(%x: memref<8xf32>) -> {made} {{
          %m = memref.alloc() : memref<8xf32>
          memref.copy %x, %m : memref<8xf32> to memref<8xf32>
          %r = memref.cast %m : memref<8xf32> to {made}
          return %r : {made}
        }}
        func.func @f(%x: memref<8xf32>, %seen: memref<8xf32>) {{
          %v = call @copy(%x) : (memref<8xf32>) -> {made}
          memref.copy %v, %seen : {made} to memref<8xf32>
          memref.dealloc %v : {made}
          return
        }}"""
    )
    x, seen = np.arange(8, dtype=F32), np.zeros(8, F32)
    for _ in range(100):
        function(x, seen)
    assert seen.tolist() == x.tolist()


def test_a_call_that_cannot_be_inlined_is_refused_with_its_location():
    text = """func.func private @either(%x: memref<8xf32>, %c: i1) -> memref<8xf32> {
      cf.cond_br %c, ^given, ^new
    ^given:
      return %x : memref<8xf32>
    ^new:
      %m = memref.alloc() : memref<8xf32>
      return %m : memref<8xf32>
    }
    func.func @f(%x: memref<8xf32>, %c: i1) {
      scf.if %c {
        %v = func.call @either(%x, %c) : (memref<8xf32>, i1) -> memref<8xf32>
      }
      return
    }"""
    message = r"<text>:11:\d+: error: @either returns a buffer, .* let it write to a parameter"
    with pytest.raises(UserError, match=message):
        compiled(text)


@pytest.mark.parametrize("body", ["", "{ return %x : memref<8xf32> }"], ids=["declared", "defined"])
def test_a_pointer_to_a_function_that_returns_a_buffer_is_refused_with_its_location(body):
    text = f"""func.func private @g(%x: memref<8xf32>) -> memref<8xf32> {body}
    func.func private @use(%p: (memref<8xf32>) -> memref<8xf32>)
    func.func @f() {{
      %p = func.constant @g : (memref<8xf32>) -> memref<8xf32>
      call @use(%p) : ((memref<8xf32>) -> memref<8xf32>) -> ()
      return
    }}"""
    with pytest.raises(UserError, match=r"<text>:4:\d+: error: @g returns .* let it write to a"):
        compiled(text)


@pytest.mark.parametrize("type_", ["(tensor<8xf32>) -> tensor<8xf32>", "(tensor<8xf32>) -> ()"])
def test_a_pointer_to_a_function_of_tensors_is_refused_with_its_location(type_):
    text = f"""func.func private @g{type_}
    func.func private @use(%p: {type_})
    func.func @f() {{
      %p = func.constant @g : {type_}
      call @use(%p) : ({type_}) -> ()
      return
    }}"""
    with pytest.raises(UserError, match=r"<text>:4:\d+: error: the tensors of @g .* call it by"):
        compiled(text)


def test_a_pointer_that_is_called_itself_is_no_pointer_any_more():
    """MLIR makes a call by name of it."""
    function = compiled(
        """func.func private @copy(%x: memref<8xf32>) -> memref<8xf32> {
          %m = memref.alloc() : memref<8xf32>
          memref.copy %x, %m : memref<8xf32> to memref<8xf32>
          return %m : memref<8xf32>
        }
        func.func @f(%x: memref<8xf32>, %seen: memref<8xf32>) {
          %p = func.constant @copy : (memref<8xf32>) -> memref<8xf32>
          %v = func.call_indirect %p(%x) : (memref<8xf32>) -> memref<8xf32>
          memref.copy %v, %seen : memref<8xf32> to memref<8xf32>
          return
        }"""
    )
    x, seen = np.arange(8, dtype=F32), np.zeros(8, F32)
    function(x, seen)
    assert seen.tolist() == x.tolist()


def test_calls_that_are_not_to_be_inlined_stay_so():
    """Also those in what is inlined itself; those of which nothing was said do not become so."""
    module = load_module("""
    func.func private @once(%x: memref<8xf32>)
    func.func private @twice(%x: memref<8xf32>)
    func.func private @given(%x: memref<8xf32>) -> memref<8xf32> {
      call @once(%x) {no_inline} : (memref<8xf32>) -> ()
      call @twice(%x) : (memref<8xf32>) -> ()
      return %x : memref<8xf32>
    }
    func.func @f(%x: memref<8xf32>) {
      %v = call @given(%x) : (memref<8xf32>) -> memref<8xf32>
      call @once(%v) {no_inline} : (memref<8xf32>) -> ()
      call @twice(%v) : (memref<8xf32>) -> ()
      return
    }""")
    bufferize(module)
    calls = [line for line in str(module).splitlines() if " call @" in line]
    assert all(("no_inline" in line) == ("@once" in line) for line in calls)
    assert sum("@once" in line for line in calls) > 1
    assert "mopt." not in "".join(calls)


def test_a_buffer_that_is_accessed_as_aligned_stays_the_functions_own():
    """What a caller gives may begin anywhere."""
    source = """
    func.func @f(%a: memref<16xf32>) -> memref<16xf32> {
      %zero = arith.constant 0 : index
      %r = memref.alloc() {alignment = 64} : memref<16xf32>
      %part = memref.subview %r[0] [16] [1] : memref<16xf32> to memref<16xf32, strided<[1]>>
      %v = vector.load %a[%zero] : memref<16xf32>, vector<16xf32>
      vector.store %v, %part[%zero] {alignment = 64}
          : memref<16xf32, strided<[1]>>, vector<16xf32>
      return %r : memref<16xf32>
    }"""
    function = compiled(source)
    memory = aligned_bytes(128)
    out, a = memory[4:68].view(np.float32), np.arange(16, dtype=np.float32)
    function(a, out=out)
    assert np.array_equal(out, a)


def test_what_is_returned_has_the_alignment_that_a_callee_assumes():
    text = """
    func.func private @fill(%a: memref<64xf32>) {
      %one = arith.constant 1.0 : f32
      %x = memref.assume_alignment %a, 64 : memref<64xf32>
      linalg.fill ins(%one : f32) outs(%x : memref<64xf32>)
      return
    }
    func.func @f() -> memref<64xf32> {
      %b = memref.alloc() {alignment = 64} : memref<64xf32>
      call @fill(%b) : (memref<64xf32>) -> ()
      return %b : memref<64xf32>
    }"""
    memory = np.zeros(96, F32)
    first = -memory.ctypes.data // 4 % 16
    shifted = memory[first + 1 : first + 65]
    compile(text)["f"](out=shifted)  # the caller's need not be aligned
    assert (shifted == 1).all()


def test_strides_that_are_left_open_keep_elements_apart():
    assert completed((4, 4, 3), (16, 20, None), 4) == [16, 20, 4 + 3 * 16 + 3 * 20]
    assert completed((1, 8), (4_000_000, None), 4) == [4_000_000, 4]
    assert completed((2, 3), (None, None), 8) == [24, 8]
