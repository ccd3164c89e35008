"""Memory that compiled code keeps between calls, and what the process keeps of it."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from plain_convolution import Array, close, convolve

import mopt_mlir
from mopt_mlir.compiler.choosing import _times_when_cold
from mopt_mlir.lowering.function import Function
from mopt_mlir.lowering.native import compile_text
from mopt_mlir.lowering.target import of_cpu
from mopt_mlir.machine import host
from mopt_mlir.measuring.running import RunOptions, _seconds

STATISTICS = Path("/proc/self/statm")
needs_statistics = pytest.mark.skipif(not STATISTICS.exists(), reason="needs /proc")

MIB = 1 << 20


def resident() -> int:
    """Bytes of the process that are in memory, garbage excluded."""
    gc.collect()
    return int(STATISTICS.read_text().split()[1]) * mmap.PAGESIZE


def packed(k: int, c: int, h: int, r: int = 1) -> Function:
    """A convolution with a single core that packs all of its weights first, into memory of
    `4 * k * c * r * r` bytes."""
    reduction = '"c"' if r == 1 else '"c", "r", "s"'
    types = (
        f"memref<1x{c}x{h + r - 1}x{h + r - 1}xf32>",
        f"memref<{k}x{c}x{r}x{r}xf32>",
        f"memref<1x{k}x{h}x{h}xf32>",
    )
    text = f"""func.func @conv(%image: {types[0]}, %weights: {types[1]}, %output: {types[2]}) {{
      %zero = arith.constant 0.0 : f32
      linalg.fill ins(%zero : f32) outs(%output : {types[2]})
      linalg.conv_2d_nchw_fchw {{mopt.plan = {{
          machine = "none", threads = 1, packing = "whole", levels = [], microkernel = {{
          lanes = "k", vector = 8, tile = {{k = 16}}, reduction = [{reduction}]}}}}}}
        ins(%image, %weights : {types[0]}, {types[1]}) outs(%output : {types[2]})
      return
    }}"""
    return mopt_mlir.compile(text, require_tiled=True)["conv"]


def operands(function: Function, seed: int) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(seed)
    shapes = [parameter.shape for parameter in function.entry.parameters]
    image, weights, output = (generator.standard_normal(shape, np.float32) for shape in shapes)
    return image, weights, output


def test_threads_have_memory_of_their_own_for_their_weights() -> None:
    """Each has other weights, and other ones in each call."""
    conv = packed(k=64, c=32, h=4, r=3)

    def work(number: int) -> None:
        for call in range(50):
            image, weights, output = operands(conv, 50 * number + call)
            conv(image, weights, output)
            close(output, convolve(image, weights))

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, number) for number in range(4)]:
            done.result()


@needs_statistics
def test_calls_keep_one_block_and_not_one_each() -> None:
    conv = packed(k=512, c=512, h=2)
    image, weights, output = operands(conv, 0)
    call = conv.bind(image, weights, output)
    call()
    before = resident()
    for _ in range(100):  # 1 MiB each
        call()
    assert resident() - before < 20 * MIB


@needs_statistics
def test_code_that_is_unloaded_keeps_nothing() -> None:
    def use() -> None:
        conv = packed(k=2048, c=2048, h=1)  # 16 MiB
        conv(*operands(conv, 0))

    for _ in range(2):
        use()
    before = resident()
    for _ in range(6):
        use()
    assert resident() - before < 32 * MIB


@needs_statistics
def test_compiling_again_and_again_keeps_nothing() -> None:
    text = "define void @f() { ret void }"

    def compile_often(times: int) -> None:
        for _ in range(times):
            compile_text(text, of_cpu("haswell"), ["f"])

    compile_often(50)
    before = resident()
    compile_often(200)
    assert resident() - before < 200 * 10 * 1024


COLD: dict[str, Callable[[Callable[[], None]], object]] = {
    "candidates": lambda run: _times_when_cold([run]),
    "mopt-run --cold": lambda run: _seconds(run, RunOptions(cold=True)),
}


@needs_statistics
@pytest.mark.parametrize("measure", COLD.values(), ids=COLD)
def test_what_flushes_caches_is_given_back(
    measure: Callable[[Callable[[], None]], object],
) -> None:
    during: list[int] = []
    measure(lambda: during.append(resident()))
    assert min(during) - resident() > max(cache.size for cache in host().caches)
