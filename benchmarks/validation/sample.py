"""The plans that the model is tried with: its own, and some from all over the design space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mopt_mlir.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.classes import PermutationClass, permutation_classes
from mopt_mlir.model.cost import can_stream, predict
from mopt_mlir.model.footprint import occupied
from mopt_mlir.model.menu import menu
from mopt_mlir.model.room import line_axes, usable
from mopt_mlir.plan import LEVELS, PACKINGS, Level, Plan
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import needs_panels

from .records import Subject

CANDIDATES = 5
"""As in the paper's MOpt-5."""

DRAWS, BATCHES = 4000, 100
"""Tilings that are drawn at a time, and how often, with one microkernel before another one is
drawn: some fit with none. Of the space of a large operator one in 100,000 fits into all caches."""


def subjects(
    operator: str, problem: Problem, machine: Machine, samples: int, seed: int
) -> list[Subject]:
    """The model's own plan for one core, the others that `candidates=5` offers, and a sample; each
    plan once."""
    from mopt_mlir.solver.candidates import candidates

    own, *others = candidates(problem, machine, 1, CANDIDATES)
    found = [
        Subject(operator, "own", own),
        *(Subject(operator, "candidate", plan) for plan in others),
        *(Subject(operator, "sample", p) for p in sample_plans(problem, machine, samples, seed)),
    ]
    unique: dict[str, Subject] = {}
    for subject in found:
        unique.setdefault(subject.key, subject)
    return list(unique.values())


def sample_plans(problem: Problem, machine: Machine, number: int, seed: int) -> list[Plan]:
    """`number` different plans for one core that fit into the caches of `machine`.

    Uniform over the microkernels of the menu, over the classes of loop orders on each level, over
    whether weights are packed where they need not be, and over the places to pack at. Tilings are
    three sizes of each dim, in register tiles, each uniform, put into descending order, and drawn
    anew until all levels fit: so three equal sizes are a sixth as likely as three that differ, and
    filters are split more often than not. The first plans of a longer sample are the shorter
    sample. There may be fewer where the space is small.
    """
    generator = np.random.default_rng([seed, *problem.extents.values()])
    plans: dict[str, Plan] = {}
    for plan in _draw(problem, machine, generator, attempts=20 * number):
        plans.setdefault(repr(plan), plan)
        if len(plans) == number:
            break
    return list(plans.values())


def _draw(
    problem: Problem, machine: Machine, generator: np.random.Generator, attempts: int
) -> Iterator[Plan]:
    kernels, classes = menu(problem, machine), permutation_classes(problem)
    for _ in range(attempts):
        kernel = kernels[generator.integers(len(kernels))]
        packing = "none"
        if _packs(problem, kernel, generator):
            packing = str(generator.choice(PACKINGS[1:]))
        chosen = [classes[i] for i in generator.integers(len(classes), size=len(LEVELS))]
        tiles = _tiles(problem, machine, kernel, packing != "none", generator)
        if tiles is not None:
            yield _plan(problem, machine, kernel, chosen, tiles, packing)


def _packs(problem: Problem, kernel: Microkernel, generator: np.random.Generator) -> bool:
    """Whether weights are packed for `kernel`: half of the time where it can do without."""
    if kernel.lanes in problem.input.dims:
        return False
    return needs_panels(problem, kernel) or bool(generator.integers(2))


def _plan(
    problem: Problem,
    machine: Machine,
    kernel: Microkernel,
    classes: Sequence[PermutationClass],
    tiles: Sequence[dict[str, int]],
    packing: str,
) -> Plan:
    levels = tuple(
        Level(name, class_.order, tile)
        for name, class_, tile in zip(LEVELS, classes, tiles, strict=True)
    )
    plan = Plan(machine.name, 1, kernel, levels, packing=packing, prefetch=machine.prefetch_into)
    plan.check(problem)
    if not can_stream(problem, machine, kernel, plan.cores):
        return plan
    # as the solver decides: where it moves less, which is where the output is written once
    streaming = replace(plan, nontemporal=True)
    moved = [predict(problem, machine, one).volumes["DRAM"]["output"] for one in (plan, streaming)]
    return streaming if moved[1] < moved[0] else plan


def _tiles(
    problem: Problem,
    machine: Machine,
    kernel: Microkernel,
    panels: bool,
    generator: np.random.Generator,
) -> list[dict[str, int]] | None:
    """Tiles of each level, outermost first, that fit; None if none were found."""
    units = [-(-problem.extent(dim) // kernel.extent(dim)) for dim in problem.names]
    for _ in range(BATCHES):
        drawn = generator.integers(1, np.array(units) + 1, size=(DRAWS, len(LEVELS), len(units)))
        drawn = np.sort(drawn, axis=1)[:, ::-1]
        for sizes in drawn[_may_fit(problem, machine, kernel, drawn)]:
            tiles = [_tile(problem, kernel, row) for row in sizes]
            # the innermost first: it is what fits least often
            if all(
                _fits(problem, machine, level, tile, panels)
                for level, tile in reversed(list(zip(LEVELS, tiles, strict=True)))
            ):
                return tiles
    return None


def _tile(problem: Problem, kernel: Microkernel, sizes: npt.NDArray[np.int64]) -> dict[str, int]:
    """The tile of `sizes` register tiles per dim."""
    return {
        dim: min(int(size) * kernel.extent(dim), problem.extent(dim))
        for dim, size in zip(problem.names, sizes, strict=True)
    }


def _may_fit(
    problem: Problem, machine: Machine, kernel: Microkernel, drawn: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which tilings `[tiling, level, dim]` fit as far as weights and output alone can tell, which
    have no halo and occupy at least their elements."""
    unit = np.array([kernel.extent(dim) for dim in problem.names])
    sizes = np.minimum(drawn * unit, [problem.extent(dim) for dim in problem.names])
    least = sum(
        tensor.element.size * sizes[:, :, [dim in tensor.dims for dim in problem.names]].prod(2)
        for tensor in (problem.weights, problem.output)
    )
    capacity = [usable(machine, level) for level in LEVELS]
    return np.asarray((least <= capacity).all(axis=1))


def _fits(
    problem: Problem, machine: Machine, level: str, tile: dict[str, int], panels: bool
) -> bool:
    """Whether the lines of a tile fit into a cache, if they are spread evenly over its sets."""
    touched = sum(
        tensor.element.size * occupied(line_axes(problem, machine, tensor, level, panels), tile)
        for tensor in problem.tensors
    )
    return touched <= usable(machine, level)
