"""Nothing outside the operands is read or written: they end, or begin, at a page that faults."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from test_codegen import small, with_plan

import mopt_mlir
from benchmarks.workloads import Array, Workload, random_workloads

PAGE = mmap.PAGESIZE
PROT_NONE = 0


@contextmanager
def guarded(array: Array, at_end: bool) -> Iterator[Array]:
    """A copy of `array` that touches a page without any access rights."""
    import numpy as np

    pages = -(-array.nbytes // PAGE)
    block = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (start, start + (pages + 1) * PAGE):
        assert libc.mprotect(ctypes.c_void_p(guard), PAGE, PROT_NONE) == 0
    offset = (pages + 1) * PAGE - array.nbytes if at_end else PAGE
    copy = np.frombuffer(block, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    yield copy
    for guard in (start, start + (pages + 1) * PAGE):
        libc.mprotect(ctypes.c_void_p(guard), PAGE, mmap.PROT_READ | mmap.PROT_WRITE)


def check(workload: Workload, text: str, seed: int) -> None:
    conv = mopt_mlir.compile(text, require_tiled=True)["conv"]
    plain = workload.operands(seed)
    reference = workload.reference(plain[0], plain[1])
    for at_end in (True, False):
        with (
            guarded(plain[0], at_end) as input_,
            guarded(plain[1], at_end) as weights,
            guarded(plain[2], at_end) as output,
        ):
            conv(input_, weights, output)
            assert workload.error(output, reference, input_, weights) < 1
            del input_, weights, output


@pytest.mark.parametrize("seed", range(24))
def test_random_plans(seed: int) -> None:
    (workload,) = random_workloads(1, 9000 + seed)
    workload = small(workload)
    check(workload, with_plan(workload.mlir(), random.Random(seed), 1), seed)


@pytest.mark.parametrize("layout", ["nchw_fchw", "nhwc_hwcf", "nhwc_fhwc"])
@pytest.mark.parametrize("filter_size", [1, 3])
def test_solved_plans(layout: str, filter_size: int) -> None:
    workload = Workload("guarded", k=37, h=9, w=23, c=11, r=filter_size, s=filter_size)
    workload = replace(workload, layout=layout)
    check(workload, workload.mlir(), 0)


def test_panels_that_are_cut_short() -> None:
    """The last block of weights holds one panel of the two that there is room for."""
    workload = Workload("cut", k=40, h=4, w=8, c=16, r=3, s=3)
    plan = """mopt.plan = {machine = "none", threads = 1, packing = "L1",
      microkernel = {lanes = "k", vector = 8, tile = {k = 16, w = 4}, reduction = ["c", "r", "s"]},
      levels = [{name = "L1", order = ["k", "h", "w", "c", "r", "s"],
                 tile = {k = 32, h = 2, w = 8, c = 16, r = 3, s = 3}}]}, """
    check(workload, workload.mlir().replace("{strides", f"{{{plan}strides"), 0)
