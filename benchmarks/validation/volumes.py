"""Simulate the memory accesses of a plan: how much of each tensor moves between which caches."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import CFUNCTYPE, c_void_p
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..workloads import Workload
from .planned import module_with, options_for
from .simulator import READ, WRITTEN, Counts, Layout, Level, Simulation
from .trace import traced

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine
    from mopt_mlir.plan import Plan

ASSOCIATIVE, FULL = "associative", "full"
"""Hierarchies: the machine's, and one whose caches are fully associative."""

INPUT, WEIGHTS, OUTPUT, PANELS = range(4)
"""Regions of memory."""

Volumes = dict[str, dict[str, int]]
"""Bytes by resource (named after where they are read from, as in the model) and tensor."""

PAGE = 4096
FIRST = 1 << 20  # bytes: where memory begins, so that no pointer is null
ELEMENT_BYTES = {"f32": 4, "f64": 8}


class GivenUpError(Exception):
    """A simulation had more accesses than allowed."""


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

    Raises GivenUpError after `limit` accesses, ValueError if the caches differ in the size of their
    lines, and UserError if no code can be generated.
    """
    layout, starts = _layout(workload, plan, machine)
    hierarchies = {
        ASSOCIATIVE: [Level.of(cache) for cache in machine.caches],
        FULL: [Level.of(cache, full=True) for cache in machine.caches],
    }
    simulation = Simulation.of(layout, hierarchies, limit, starts[PANELS])
    _run(workload, plan, isa, simulation, starts)
    if simulation.accesses > limit:
        raise GivenUpError(f"more than {limit:,} accesses")
    packed = plan.packing != "none"
    volumes = {title: _volumes(simulation, title, packed) for title in hierarchies}
    counts = simulation.counts(ASSOCIATIVE)
    misses = {name: int(one.fills.sum()) for name, one in counts.items()}
    return Result(volumes, simulation.accesses, misses)


def _layout(workload: Workload, plan: Plan, machine: Machine) -> tuple[Layout, list[int]]:
    """Where the tensors lie: one behind the other, each from the beginning of a page on, as large
    blocks of memory do. (Physical pages may lie anywhere, which a simulation cannot know.)"""
    line_sizes = {cache.line for cache in machine.caches}
    if len(line_sizes) > 1:
        raise ValueError(f"the caches of {machine.name} have lines of different sizes")
    (line,) = line_sizes
    size = ELEMENT_BYTES[workload.element]
    shapes = (workload.input_shape, workload.weights_shape, workload.output_shape)
    starts = [FIRST]
    for shape in shapes:
        starts.append(-(-(starts[-1] + size * prod(shape)) // PAGE) * PAGE)
    end = starts[PANELS] + size * _most_panels(workload, plan) + PAGE
    return Layout(tuple(start // line for start in starts), -(-end // line), line), starts


def _most_panels(workload: Workload, plan: Plan) -> int:
    """Elements of packed weights, at most: all of them, in whole register tiles."""
    channels = next((n for d, n in plan.microkernel.tile.items() if d == "k"), 1)
    return -(-workload.k // channels) * channels * workload.c * workload.r * workload.s


def _run(
    workload: Workload, plan: Plan, isa: str, simulation: Simulation, starts: list[int]
) -> None:
    from mopt_mlir.bindings import bindings_of
    from mopt_mlir.compilation import lower_source
    from mopt_mlir.lowering.jit import LoadedCode
    from mopt_mlir.lowering.native import compile_text
    from mopt_mlir.lowering.scratch import RELEASE

    options = options_for(isa)
    target = options.target_here()
    lowered = lower_source(module_with(workload, plan), options, target)
    (entry,) = lowered.entries
    text = bindings_of(lowered.module).llvm.translate_module_to_llvmir(lowered.module)
    native = compile_text(traced(text) + simulation.ir(), target, [entry.symbol])
    assert not native.defines(RELEASE)  # it would free what was never allocated
    code = LoadedCode(native, [entry.symbol], simulation.symbols)  # type: ignore[arg-type]
    function = CFUNCTYPE(None, *[c_void_p] * PANELS)(code.address(entry.symbol))
    function(*starts[:PANELS])


def _volumes(simulation: Simulation, hierarchy: str, packed: bool) -> Volumes:
    """As the model has them: packing reads the plain weights and writes the panels, and what the
    kernel then reads of these counts as weights."""
    line = simulation.layout.line_bytes
    counts = simulation.counts(hierarchy)
    volumes = {"L1": _tensors(simulation.moved, np.zeros(4, np.int64), packed)}
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
        "output": moved[OUTPUT].sum() + written[OUTPUT],
        "packing": moved[PANELS, WRITTEN] + written[PANELS] + packed * moved[WEIGHTS].sum(),
    }
    return {name: int(amount) for name, amount in tensors.items()}
