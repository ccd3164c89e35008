"""Plans that differ from a given one in a single decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.classes import permutation_classes
from mopt_mlir.model.cost import can_stream
from mopt_mlir.model.menu import menu
from mopt_mlir.plan import PACKINGS, Level, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import needs_panels, streams_whole_vectors

Move = tuple[str, Plan]
"""What is different, in words, and the plan; which level, the caller knows."""


INNERMOST = " innermost"


def other_orders(problem: Problem, plan: Plan, level: Level) -> Iterator[Move]:
    """`plan` with the loops from tile to tile of `level` in the order of each class."""
    for cls in permutation_classes(problem):
        if cls.order != level.order:
            yield cls.name + INNERMOST, _with_level(plan, replace(level, order=cls.order))


def other_tiles(problem: Problem, plan: Plan, level: Level) -> Iterator[Move]:
    """`plan` with the tile of `level` halved or doubled in one dim, as far as the tiles outside it
    allow; the tiles inside it follow where they have to."""
    position = plan.levels.index(level)
    for dim in problem.names:
        unit, size = plan.microkernel.extent(dim), level.tile[dim]
        most = plan.outer_tile(problem, position)[dim]
        half = -(-(size // 2) // unit) * unit
        for other in (half, min(2 * size, most)):
            if other not in (0, size) and (other == most or other % unit == 0):
                tile = {**level.tile, dim: other}
                changed = _with_level(plan, replace(level, tile=tile))
                yield f"{dim} {other} instead of {size}", fitted(problem, changed)


def other_packings(problem: Problem, plan: Plan) -> Iterator[Move]:
    """`plan` with the weights packed elsewhere, or not at all where vectors can read them as they
    lie."""
    if plan.microkernel.lanes in problem.input.dims:
        return
    for packing in PACKINGS:
        possible = packing != "none" or not needs_panels(problem, plan.microkernel)
        if packing != plan.packing and possible:
            yield packing, replace(plan, packing=packing)


def other_stores(problem: Problem, machine: Machine, plan: Plan) -> Iterator[Move]:
    """`plan` with the output written through the caches if it goes past them; else past them, where
    that serves a purpose: the model has no price for output that the caches would have kept."""
    if plan.nontemporal:
        yield "through the caches", replace(plan, nontemporal=False)
    elif can_stream(problem, machine, plan.microkernel, plan.cores):
        yield "past the caches", replace(plan, nontemporal=True)


def other_splits(problem: Problem, plan: Plan) -> Iterator[Move]:
    """`plan` with another split between as many cores."""
    cores = plan.cores
    current = {dim: ways for dim, ways in plan.parallel.items() if ways > 1}
    for ways in _factorisations(cores, len(problem.parallel_dims)):
        split = {d: n for d, n in zip(problem.parallel_dims, ways, strict=True) if n > 1}
        room = all(
            n <= -(-plan.levels[0].tile[dim] // plan.microkernel.extent(dim))
            for dim, n in split.items()
        )
        if room and split != current:
            text = " x ".join(f"{dim} {n}" for dim, n in split.items())
            yield text, fitted(problem, replace(plan, parallel=split))


def other_kernels(
    problem: Problem, machine: Machine, plan: Plan, *, constant_weights: bool
) -> Iterator[Move]:
    """`plan` with each other microkernel of the menu, its tiles rounded to whole register tiles."""
    for kernel in menu(problem, machine):
        if kernel == plan.microkernel:
            continue
        packing = "none"
        if kernel.lanes not in problem.input.dims:
            if constant_weights:
                packing = "whole"
            elif plan.reads_panels:
                packing = plan.packing
            elif needs_panels(problem, kernel):
                packing = "whole"
        past = plan.nontemporal and streams_whole_vectors(problem.output, kernel)
        changed = replace(plan, microkernel=kernel, packing=packing, nontemporal=past)
        yield other_kernel_text(kernel, plan.microkernel), fitted(problem, changed)


def kernel_text(kernel: Microkernel) -> str:
    """`w 14 x k 32`: the register tile, the dim of the lanes last."""
    rows = [f"{dim} {size}" for dim, size in kernel.tile.items() if dim != kernel.lanes]
    return " x ".join([*rows, f"{kernel.lanes} {kernel.extent(kernel.lanes)}"])


def other_kernel_text(kernel: Microkernel, known: Microkernel) -> str:
    """The same of `kernel`, and what else it does otherwise than the one that is `known`."""
    text = kernel_text(kernel)
    if kernel.vector != known.vector:
        text += f", vectors of {kernel.vector}"
    if kernel.reduction != known.reduction:
        text += f", reduction {' '.join(kernel.reduction)}"
    return text


def fitted(problem: Problem, plan: Plan) -> Plan:
    """`plan` with its tiles inside one another and rounded down to whole register tiles."""
    for position, level in enumerate(plan.levels):
        outer = plan.outer_tile(problem, position)
        tile = {}
        for dim in problem.names:
            unit, size = plan.microkernel.extent(dim), level.tile[dim]
            whole = max(size // unit, 1) * unit
            tile[dim] = outer[dim] if size >= outer[dim] else min(whole, outer[dim])
        plan = _with_level(plan, replace(level, tile=tile))
    return plan


def _with_level(plan: Plan, level: Level) -> Plan:
    levels = tuple(level if old.name == level.name else old for old in plan.levels)
    return replace(plan, levels=levels)


def _factorisations(number: int, factors: int) -> Iterator[tuple[int, ...]]:
    """Every way to write `number` as an ordered product of so many factors."""
    if factors == 0:
        if number == 1:
            yield ()
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _factorisations(number // first, factors - 1):
                yield (first, *rest)
