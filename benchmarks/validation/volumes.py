"""Simulate the memory accesses of a plan: how much of each tensor moves between which caches."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import CFUNCTYPE, c_void_p
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mopt_mlir.diagnostics import UserError

from ..operators import problem_of
from ..workloads import Workload
from .planned import module_with, options_for
from .simulator import READ, WRITTEN, Counts, Layout, Level, Simulation
from .trace import allocations, traced

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine
    from mopt_mlir.plan import Plan

ASSOCIATIVE, FULL = "associative", "full"
"""Hierarchies: the machine's, and one whose caches are fully associative."""

INPUT, WEIGHTS, OUTPUT, PANELS, SUMS = range(5)
"""Regions of memory: the tensors, packed weights, and other scratch memory, for partial sums."""

Volumes = dict[str, dict[str, int]]
"""Bytes by resource (named after where they are read from, as in the model) and tensor."""

PAGE, HUGE_PAGE = 4096, 2 << 20
FIRST = 1 << 20  # bytes: where memory begins, so that no pointer is null
ELEMENT_BYTES = {"f32": 4, "f64": 8}


class GivenUpError(Exception):
    """A plan has no code, or made more accesses than allowed."""


@dataclass(frozen=True)
class Result:
    """`volumes` by hierarchy, the number of loads and stores, and the lines that were fetched into
    each cache of the machine's own hierarchy."""

    volumes: dict[str, Volumes]
    accesses: int
    misses: dict[str, int]


def simulate(
    workload: Workload, plan: Plan, machine: Machine, isa: str, limit: int = 1 << 40
) -> Result:
    """Run the accesses of the code that is generated for `plan` through the caches of `machine`,
    and through fully associative ones of the same sizes. Caches are empty before.

    Raises GivenUpError if no code can be generated, and after `limit` accesses. What is not the
    plan's fault is a UserError, as that the caches differ in the size of their lines.
    """
    code = _Code.of(workload, plan, isa)
    memory = _memory(workload, plan, machine, code)
    hierarchies = {
        ASSOCIATIVE: [Level.of(cache) for cache in machine.caches],
        FULL: [Level.of(cache, full=True) for cache in machine.caches],
    }
    simulation = Simulation.of(memory.layout, hierarchies, limit)
    _run(code, memory, simulation)
    assert simulation.outside == 0
    if simulation.accesses > limit:
        raise GivenUpError(f"more than {limit:,} accesses")
    packed = plan.reads_panels
    volumes = {title: _volumes(simulation, title, packed) for title in hierarchies}
    counts = simulation.counts(ASSOCIATIVE)
    misses = {name: int(one.fills.sum()) for name, one in counts.items()}
    return Result(volumes, simulation.accesses, misses)


@dataclass(frozen=True)
class _Code:
    """LLVM IR of a plan, its function, and the target that it is for."""

    text: str
    symbol: str
    target: Any

    @staticmethod
    def of(workload: Workload, plan: Plan, isa: str) -> _Code:
        from mopt_mlir.bindings import bindings_of
        from mopt_mlir.compiler.compilation import lower_source

        options = options_for(isa)
        target = options.target_here()
        try:
            lowered = lower_source(module_with(workload, plan), options, target)
        except UserError as error:
            raise GivenUpError(str(error)) from None
        (entry,) = lowered.entries
        text = bindings_of(lowered.module).llvm.translate_module_to_llvmir(lowered.module)
        return _Code(text, entry.symbol, target)


@dataclass(frozen=True)
class _Memory:
    """`tensors` are the addresses of the operands, `scratch` those of the allocations."""

    layout: Layout
    tensors: tuple[int, ...]
    scratch: tuple[int, ...]


def _memory(workload: Workload, plan: Plan, machine: Machine, code: _Code) -> _Memory:
    """Where everything lies: one behind the other, each from the beginning of a page on, as large
    blocks of memory do. (Physical pages may lie anywhere, which a simulation cannot know.)"""
    line_sizes = {cache.line for cache in machine.caches}
    if len(line_sizes) > 1:
        raise UserError(
            f"the caches of {machine.name} have lines of different sizes, which are not simulated; "
            "leave out what was measured there"
        )
    (line,) = line_sizes
    element = ELEMENT_BYTES[workload.element]
    shapes = (workload.input_shape, workload.weights_shape, workload.output_shape)
    scratch, panels = allocations(code.text), element * _panel_elements(workload, plan)
    is_panels = [_is_rounded(size, panels) for size in scratch]
    # by region, so that each is one run of lines
    order = sorted(range(len(scratch)), key=lambda i: not is_panels[i])
    sizes = [element * prod(shape) for shape in shapes] + [scratch[i] for i in order]
    starts = [FIRST]
    for size in sizes:
        starts.append(-(-(starts[-1] + size) // PAGE) * PAGE)
    addresses = dict(zip(order, starts[PANELS:], strict=False))
    regions = (*starts[: PANELS + 1], starts[PANELS + sum(is_panels)])
    return _Memory(
        # a region that is empty ends before it begins
        Layout(tuple(start // line for start in regions), -(-(starts[-1] + PAGE) // line), line),
        tuple(starts[:PANELS]),
        tuple(addresses[i] for i in range(len(scratch))),
    )


def _panel_elements(workload: Workload, plan: Plan) -> int:
    """Elements of the block of packed weights of a plan; 0 if nothing is packed."""
    if not plan.reads_panels:
        return 0
    from mopt_mlir.codegen.packing import panel_shape

    problem = problem_of(workload)
    return prod(panel_shape(problem, plan.microkernel, plan.packed_block(problem)))


def _is_rounded(size: int, wanted: int) -> bool:
    """Whether an allocation of `size` is for `wanted` bytes: it is rounded to lines, or to huge
    pages if it takes one at least."""
    units = (64, HUGE_PAGE) if wanted >= HUGE_PAGE else (64,)
    return wanted > 0 and size in (-(-wanted // unit) * unit for unit in units)


def _run(code: _Code, memory: _Memory, simulation: Simulation) -> None:
    from mopt_mlir.lowering.jit import LoadedCode
    from mopt_mlir.lowering.native import compile_text
    from mopt_mlir.lowering.scratch import RELEASE

    text = traced(code.text, memory.scratch) + simulation.ir()
    native = compile_text(text, code.target, [code.symbol])
    assert not native.defines(RELEASE)  # it would free what was never allocated
    loaded = LoadedCode(native, [code.symbol], simulation.symbols)
    function = CFUNCTYPE(None, *[c_void_p] * PANELS)(loaded.address(code.symbol))
    function(*memory.tensors)


def _volumes(simulation: Simulation, hierarchy: str, packed: bool) -> Volumes:
    """As the model has them: packing reads the plain weights and writes the panels, and what the
    kernel then reads of these counts as weights."""
    line = simulation.layout.line_bytes
    counts = simulation.counts(hierarchy)
    volumes = {"L1": _tensors(simulation.moved, np.zeros(SUMS + 1, np.int64), packed)}
    for inner, resource in (("L1", "L2"), ("L2", "L3"), ("L3", "DRAM")):
        found: Counts = counts[inner]
        volumes[resource] = _tensors(line * found.fills, line * found.written, packed)
    volumes["DRAM"]["output"] += int(simulation.streamed[OUTPUT])
    return volumes


def _tensors(
    moved: np.typing.NDArray[np.int64], written: np.typing.NDArray[np.int64], packed: bool
) -> dict[str, int]:
    """Bytes by tensor of what is `moved[region, how]` inwards and `written[region]` back."""
    tensors: Mapping[str, np.int64] = {
        "input": moved[INPUT].sum(),
        "weights": moved[PANELS, READ] if packed else moved[WEIGHTS].sum(),
        "output": moved[[OUTPUT, SUMS]].sum() + written[[OUTPUT, SUMS]].sum(),
        "packing": moved[PANELS, WRITTEN] + written[PANELS] + packed * moved[WEIGHTS].sum(),
    }
    return {name: int(amount) for name, amount in tensors.items()}
