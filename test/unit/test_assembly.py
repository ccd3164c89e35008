"""The innermost loop in assembly: what the plan's microkernel says, and nothing else that matters.

Code is generated for CPUs that the host need not be, and read, not run.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads import table1
from mopt_mlir.bindings import bindings_of
from mopt_mlir.compiler.lowered import lower_module
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.lowering.native import compile_module
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.pipeline.loading import load_module, run_passes
from mopt_mlir.plan import Level, Plan
from mopt_mlir.planning.plan_attribute import attach, attached
from mopt_mlir.planning.planner import convolutions

LLVM_MCA = Path(sysconfig.get_path("platlib"), "llvm", "bin", "llvm-mca")

WORKLOADS = {workload.name: workload for workload in table1()}

SIMULATED = {"znver5": "skylake-avx512", "skylake-avx512": "skylake-avx512", "haswell": "haswell"}
"""The CPU whose model in LLVM is asked. For Zen 5 that is Zen 4's, whose vectors of 512 bits take
two cycles; Skylake-X has two full-width multiply-adds and two loads per cycle, as Zen 5 has."""

FMA_PER_CYCLE = 2

SLACK = 1.15
"""Part of it is Skylake's front end, which is narrower than Zen 5's."""

ITERATIONS = 200

END = "#APP"
"""What the compiler puts where a scalar is done with in a loop that it unrolls; no instruction."""

MACHINES = {"avx512": ("znver5", "skylake-avx512"), "avx2": ("haswell",)}


@dataclass(frozen=True)
class Loop:
    """The instructions of a loop without inner loops, and an END behind the products of each scalar
    if it is unrolled; `stack` matches operands on the stack."""

    instructions: tuple[str, ...]
    stack: str

    def count(self, pattern: str) -> int:
        return sum(re.search(pattern, line) is not None for line in self.instructions)

    @property
    def fmas(self) -> int:
        return self.count(r"^vfn?madd")

    @property
    def steps(self) -> int:
        """Of the reduction, in one trip: each begins by loading vectors, unless they are operands
        in memory, because there is one scalar."""
        scalars = "\n".join(self.instructions).split(END)
        load = sum(Loop((*lines.split("\n"),), "").whole_vectors > 0 for lines in scalars)
        return load or max(1, len(scalars) - 1)

    @property
    def whole_vectors(self) -> int:
        """Loads of vectors without a mask."""
        return self.count(r"^vmov[ua]p[sd]\s+[^%]*\(.*\), %[yz]mm\d+$")

    @property
    def on_stack(self) -> list[str]:
        return [line for line in self.instructions if re.search(self.stack, line)]


def loops(assembly: str) -> list[Loop]:
    """The innermost loops: what lies between a label and a jump back to it."""
    lines = (line.strip() for line in assembly.splitlines())
    lines = (line if line == END else line.split("#")[0].strip() for line in lines)
    lines = [line for line in lines if line.endswith(":") or not line.startswith(".")]
    lines = [line for line in lines if line]
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    jumps = ((at, re.match(r"j\w+\s+(\S+)$", line)) for at, line in enumerate(lines))
    spans = [(labels[to[1]], at) for at, to in jumps if to and labels.get(to[1], at) < at]
    innermost = (
        (start, end)
        for start, end in spans
        if not any(
            (start, end) != other and start <= other[0] and other[1] <= end for other in spans
        )
    )
    frame = "|%rbp" if "%rsp, %rbp" in assembly else ""  # else an ordinary register
    return [Loop(tuple(lines[a : b + 1]), rf"\(.*(%rsp{frame})") for a, b in innermost]


@cache
def generated(operator: str, machine: str, kernel: str = "") -> tuple[Plan, Loop]:
    """The plan of an operator, or one with a microkernel of KERNELS, and the loop with the largest
    register tile."""
    module = load_module(WORKLOADS[operator].mlir())
    bindings = bindings_of(module)
    if kernel:
        plan = Plan(machine, 1, KERNELS[kernel], (), packing=PACKING[KERNELS[kernel].lanes])
        give(module, plan)
    else:
        run_passes(module, f"mopt-analyze{{machine={machine}}}")
        (convolution,) = convolutions(module, bindings)
        plan = attached(convolution.operation, bindings)
    found = compiled(module, machine)
    return plan, max(found, key=lambda loop: (loop.fmas / loop.steps, loop.whole_vectors))


def give(module: Any, plan: Plan) -> None:
    """Let the convolutions of a module carry `plan`."""
    bindings = bindings_of(module)
    with module.context, module.location:
        for convolution in convolutions(module, bindings):
            attach(convolution.operation, plan, bindings)


def compiled(module: Any, machine: str, threads: int = 1) -> list[Loop]:
    """The innermost loops of a module that carries its plans."""
    options = CompileOptions(machine=machine, threads=threads)
    lowered = lower_module(module, options)
    exported = [entry.symbol for entry in lowered.entries]
    native = compile_module(lowered.module, options.target_of_files(), exported)
    return loops(native.assembly())


def by_channels(k: int, w: int, vector: int) -> Microkernel:
    return Microkernel("k", vector, {"k": k, "w": w}, ("c", "r", "s"))


def by_pixels(k: int, w: int, vector: int) -> Microkernel:
    return Microkernel("w", vector, {"k": k, "w": w}, ("c", "r", "s"))


KERNELS: Mapping[str, Microkernel] = {
    "avx512 14 x 2": by_channels(32, 14, 16),
    "avx512 8 x 3": by_channels(48, 8, 16),
    "avx512 12 x 2 pixels": by_pixels(12, 32, 16),
    "avx2 6 x 2": by_channels(16, 6, 8),
    "avx2 4 x 3": by_channels(24, 4, 8),
    "avx2 6 x 2 pixels": by_pixels(6, 16, 8),
}
PACKING = {"k": "whole", "w": "none"}
SUITED = {"k": ("R2", "Y18"), "w": ("R2", "Y0")}
"""Operators with tiles that are full, by the lanes."""


def check(plan: Plan, loop: Loop) -> None:
    """Each step of the loop does the outer product of the plan once, from memory straight into
    registers."""
    tile, vector = plan.microkernel.tile, plan.microkernel.vector
    of_weights = tile.get("k", 1)
    of_image = prod(tile.values()) // of_weights
    if plan.microkernel.lanes == "k":
        vectors, scalars = of_weights // vector, of_image
    else:
        vectors, scalars = of_image // vector, of_weights
    assert loop.on_stack == []
    assert loop.fmas == loop.steps * vectors * scalars
    assert loop.whole_vectors == loop.steps * vectors
    assert loop.count(r"^vbroadcasts[sd]\s.*\(|\{1to\d+\}") == loop.steps * scalars
    # a whole vector as an operand in memory would be read again for every pixel
    assert loop.count(r"^vfn?madd\w+\s+[^%{]*\([^{]*$") == 0
    assert loop.count(r"^vmov\w+\s+%[yz]mm\d+, .*\(") == 0  # nothing is stored


@pytest.mark.parametrize("machine", list(SIMULATED))
@pytest.mark.parametrize("operator", ["Y0", "Y5", "Y13", "R2", "R12", "M2"])
def test_the_inner_loop_of_a_plan_is_its_outer_product(operator, machine):
    check(*generated(operator, machine))


@pytest.mark.parametrize("kernel", KERNELS)
def test_large_kernels_are_bound_by_their_multiply_adds(kernel):
    for operator, machine in product(SUITED[KERNELS[kernel].lanes], MACHINES[kernel.split()[0]]):
        plan, loop = generated(operator, machine, kernel)
        check(plan, loop)
        least = loop.fmas / FMA_PER_CYCLE
        assert cycles(loop, SIMULATED[machine]) <= SLACK * least


def tiled(whole: int, outer: int, inner: int) -> Plan:
    """Tiles of so many channels of L3, L2 and L1."""
    l3 = {"k": 64, "h": 16, "w": 272, "c": whole, "r": 3, "s": 3}
    l1 = {"k": 32, "h": 3, "w": 18, "c": inner, "r": 1, "s": 1}
    levels = (
        Level("L3", ("k", "c", "r", "s", "h", "w"), l3),
        Level("L2", ("h", "c", "r", "s", "w", "k"), l3 | {"c": outer, "k": 32}),
        Level("L1", ("k", "h", "w", "c", "r", "s"), l1),
    )
    return Plan("haswell", 1, KERNELS["avx2 6 x 2"], levels, packing="whole")


@pytest.mark.parametrize(
    ("channels", "steps"),
    [((32, 31, 30), [1, 4]), ((32, 31, 14), [1]), ((32, 32, 16), [4]), ((26, 26, 13), [1])],
)
def test_what_unrolling_leaves_over_needs_no_more_pointers(channels, steps):
    """One for all pixels: no register is left for more. A short loop is unrolled only if nothing is
    left over."""
    module = load_module(replace(WORKLOADS["Y2"], c=channels[0]).mlir())
    give(module, tiled(*channels))
    found = [loop for loop in compiled(module, "haswell") if loop.fmas / loop.steps == 12]
    assert sorted(loop.steps for loop in found) == steps
    for loop in found:
        pixels = (re.match(r"vbroadcastss\s.*\((.*)\)", line) for line in loop.instructions)
        assert len({pixel[1] for pixel in pixels if pixel}) == 1


def test_a_parallel_loop_within_one_of_the_reduction_does_what_it_does_on_one_core():
    """Among others ask for what comes next, in some steps that are known beforehand."""
    levels = (
        Level("L3", ("k", "w", "c"), {"k": 512, "w": 289, "c": 512}),
        Level("L2", ("w", "c", "k"), {"k": 24, "w": 76, "c": 512}),
        Level("L1", ("k", "c", "w"), {"k": 24, "w": 4, "c": 64}),
    )
    kernel = Microkernel("k", 8, {"k": 24, "w": 4}, ("c",))
    found = []
    for threads, parallel in (1, {}), (2, {"k": 2}):
        module = load_module(replace(WORKLOADS["Y19"], layout="nhwc_hwcf").mlir())
        give(module, Plan("haswell", threads, kernel, levels, packing="whole", parallel=parallel))
        full = [loop for loop in compiled(module, "haswell", threads) if loop.fmas == 48]
        assert not any(loop.on_stack for loop in full)
        found.append(sorted((loop.count("^prefetch"), loop.count(r"^j\w+\s")) for loop in full))
    assert found[1] == found[0]
    assert sum(prefetches for prefetches, _ in found[0]) > 0


def cycles(loop: Loop, cpu: str) -> float:
    """Cycles of one iteration among many, as llvm-mca simulates them."""
    command = [LLVM_MCA, f"-mcpu={cpu}", f"-iterations={ITERATIONS}", "-instruction-info=0"]
    text = "\n".join(loop.instructions)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    assert total is not None
    return int(total[1]) / ITERATIONS


def test_a_spill_a_missing_product_and_a_folded_vector_are_noticed():
    plan, loop = generated("R2", "znver5", "avx512 14 x 2")
    lines = loop.instructions
    at = next(i for i, line in enumerate(lines) if line.startswith("vfmadd"))
    for worse in (
        (*lines[:at], "vmovups 64(%rsp), %zmm3", *lines[at:]),
        (*lines[:at], *lines[at + 1 :]),
        (*lines[:at], "vfmadd231ps 64(%rax), %zmm0, %zmm1", *lines[at + 1 :]),
        (*lines, "vmovups %zmm1, (%rax)"),
    ):
        with pytest.raises(AssertionError):
            check(plan, Loop(worse, loop.stack))
