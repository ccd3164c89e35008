"""The ways to order the loops around register tiles and to pack the weights, as far as the model
tells them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mopt_mlir.model.classes import PermutationClass
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import OUTPUT, WEIGHTS

IN_PLACE, IN_PLACE_LEVEL = "none", "L2"
"""The place of weights that are not packed, and the level whose traffic of them a core waits for
then."""


@dataclass(frozen=True)
class Scenario:
    """A place to pack at, the classes that each level may have in it (where the weights are packed,
    or waited for in place, all of them with the same reuse of the weights), and the reduction dims
    over which accumulators are `carried` in registers, if the L1 tiles are register tiles.

    `packing` is an index into the places that are possible, `members` one into the classes."""

    packing: int
    members: tuple[tuple[int, ...], ...]
    carried: frozenset[str]


def scenarios(classes: Sequence[PermutationClass], packings: Sequence[str]) -> tuple[Scenario, ...]:
    """All of `classes` in which weights are packed at one of `packings`."""
    every = tuple(range(len(classes)))
    by_output = _grouped(classes, OUTPUT)
    by_weights = list(_grouped(classes, WEIGHTS).values())
    found = []
    for packing, place in enumerate(packings):
        # A kernel that has to stop for packing at every L1 tile cannot run through several.
        runs = {frozenset[str](): every} if place == LEVELS[-1] else by_output
        moving = IN_PLACE_LEVEL if place == IN_PLACE else place
        for carried, members in runs.items():
            for block in by_weights if moving in LEVELS else [every]:
                levels = [every, every, members]
                if moving in LEVELS:
                    at = LEVELS.index(moving)
                    levels[at] = tuple(index for index in levels[at] if index in block)
                found.append(Scenario(packing, tuple(levels), carried))
    return tuple(scenario for scenario in found if all(scenario.members))


def _grouped(
    classes: Sequence[PermutationClass], tensor: int
) -> dict[frozenset[str], tuple[int, ...]]:
    """The classes by the dims of the loops inside the innermost one that moves `tensor`."""

    def members(inside: frozenset[str]) -> Iterator[int]:
        return (at for at, cls in enumerate(classes) if cls.reuse[tensor].inside == inside)

    found = dict.fromkeys(cls.reuse[tensor].inside for cls in classes)
    return {inside: tuple(members(inside)) for inside in found}
