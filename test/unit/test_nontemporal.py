"""Stores past the caches: they need whole vectors at addresses that are known at run time only."""

from __future__ import annotations

import numpy as np
import pytest
from plain_convolution import close, convolve, random_arrays

import mopt_mlir
from benchmarks.workloads import aligned


def plan(threads: int = 1, packing: str = "none") -> str:
    return f"""mopt.plan = {{machine = "none", threads = {threads}, parallel = {{h = {threads}}},
      packing = "{packing}", nontemporal = true, levels = [],
      microkernel = {{lanes = "w", vector = 8, tile = {{k = 3, w = 16}},
                     reduction = ["c", "r", "s"]}}}}"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("layout", ["", ", strided<[768, 192, 32, 1], offset: 1>"])
def test_nontemporal_stores(any_threads: None, layout: str, shift: int, threads: int) -> None:
    """The output starts at a cache line, and one element behind one: both nests are right."""
    image, filters = random_arrays((1, 3, 8, 34), (4, 3, 3, 3))
    types = "memref<1x3x8x34xf32>", "memref<4x3x3x3xf32>", f"memref<1x4x6x32xf32{layout}>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {types[0]}, %f: {types[1]}, %x: {types[2]}) {{
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%x : {types[2]})
  linalg.conv_2d_nchw_fchw {{{plan(threads)}}}
    ins(%a, %f : {types[0]}, {types[1]}) outs(%x : {types[2]})
  return
}}""",
        machine="auto,cores=2",
        threads=threads,
        require_tiled=True,
    )
    buffer = aligned((4 * 6 * 32 + 16,), np.float32)
    output = buffer[shift : shift + 4 * 6 * 32].reshape(1, 4, 6, 32)
    exe["conv"](image, filters, output)
    close(output, convolve(image, filters))


@pytest.mark.parametrize("at", [0, 1, 16])
@pytest.mark.parametrize("open_offset", [False, True])
def test_nontemporal_stores_to_a_part_of_a_buffer(open_offset: bool, at: int) -> None:
    """What has to be aligned is the part, and not the buffer, which always is."""
    image, filters = random_arrays((1, 3, 8, 34), (4, 3, 3, 3))
    types = "memref<1x3x8x34xf32>", "memref<4x3x3x3xf32>", "memref<1024xf32>"
    offset, operand = ("?", "%at") if open_offset else (at, at)
    part = f"memref<1x4x6x32xf32, strided<[768, 192, 32, 1], offset: {offset}>>"
    exe = mopt_mlir.compile(
        f"""func.func @conv(%a: {types[0]}, %f: {types[1]}, %buffer: {types[2]}, %at: index) {{
  %x = memref.reinterpret_cast %buffer to offset: [{operand}], sizes: [1, 4, 6, 32],
    strides: [768, 192, 32, 1] : {types[2]} to {part}
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%x : {part})
  linalg.conv_2d_nchw_fchw {{{plan()}}} ins(%a, %f : {types[0]}, {types[1]}) outs(%x : {part})
  return
}}""",
        require_tiled=True,
    )
    buffer = aligned((1024,), np.float32)
    buffer[...] = 5
    expected = buffer.astype(np.float64)
    expected[at : at + 768] = convolve(image, filters).ravel()
    exe["conv"](image, filters, buffer, at)
    close(buffer, expected)


RESULT = "tensor<1x4x6x32xf32>"


def on_tensors(plan: str, then: str, returned: str) -> str:
    """A convolution `%x` on tensors, an operation after it, and what is returned."""
    image, filters = "tensor<1x3x8x34xf32>", "tensor<4x3x3x3xf32>"
    return f"""func.func @conv(%a: {image}, %f: {filters}) -> {RESULT} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {RESULT}
  %filled = linalg.fill ins(%zero : f32) outs(%empty : {RESULT}) -> {RESULT}
  %x = linalg.conv_2d_nchw_fchw {{{plan}}}
    ins(%a, %f : {image}, {filters}) outs(%filled : {RESULT}) -> {RESULT}
  {then}
  return {returned} : {RESULT}
}}"""


@pytest.mark.parametrize("threads", [1, 2])
def test_nontemporal_stores_of_a_tensor(any_threads: None, threads: int) -> None:
    """The fence behind them keeps nobody from deallocating buffers."""
    image, filters = random_arrays((1, 3, 8, 34), (4, 3, 3, 3))
    exe = mopt_mlir.compile(
        on_tensors(plan(threads, "whole"), f"%y = arith.addf %x, %x : {RESULT}", "%y"),
        machine="auto,cores=2",
        threads=threads,
        require_tiled=True,
    )
    close(exe["conv"](image, filters), 2 * convolve(image, filters))


@pytest.mark.parametrize("shift", [0, 1])
def test_nontemporal_stores_to_a_result(shift: int) -> None:
    """They go to the array that the caller gives, wherever it begins."""
    image, filters = random_arrays((1, 3, 8, 34), (4, 3, 3, 3))
    exe = mopt_mlir.compile(on_tensors(plan(), "", "%x"), require_tiled=True)
    buffer = aligned((1 + 768,), np.float32)
    buffer[...] = 5
    exe["conv"](image, filters, out=buffer[shift : shift + 768].reshape(1, 4, 6, 32))
    expected = np.full(769, 5.0)
    expected[shift : shift + 768] = convolve(image, filters).ravel()
    close(buffer, expected)
