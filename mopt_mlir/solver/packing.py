"""The cost of packing weights, of many tilings at once: the formulas of `model.packing` and
`model.cost` over numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mopt_mlir.model.cost import passed_by_packing
from mopt_mlir.model.packing import IN_COMMON, PACK_PASSES, pack_cycles, seconds_to_wait
from mopt_mlir.plan import LEVELS, PLACES_TO_PACK
from mopt_mlir.problem import Problem
from mopt_mlir.solver.arrays import Floats, Ints
from mopt_mlir.solver.space import Choice


@dataclass(frozen=True)
class PackingCosts:
    """What it costs to pack the weights of `problem` for the microkernel of a choice that packs."""

    problem: Problem
    choice: Choice

    def seconds(self, place: str, entering: Floats, times: dict[str, Floats]) -> Floats:
        """Seconds in which a core packs, where so many weights enter the tiles of `place`; adds the
        traffic of packing to `times`, those of each resource."""
        rates, size = self.choice.rates, self.problem.weights.element.size
        mine = entering / rates.cores if place in IN_COMMON else entering
        for resource in passed_by_packing(place):
            amount = entering if resource == "DRAM" else mine
            times[resource] = times[resource] + PACK_PASSES * size * amount / rates.bytes[resource]
        return np.asarray(mine * self._cycles[place] / rates.cycles)

    def waiting(self, place: str, sizes: Ints) -> Floats:
        """Seconds in which a core waits for the first block that is packed at `place`, with tiles
        of such `sizes` (`[tiling, level, dim]`) in elements."""
        problem, choice = self.problem, self.choice
        each = seconds_to_wait(problem, choice.rates, choice.parallel, place, self._cycles[place])
        if place not in LEVELS:
            return np.full(len(sizes), each * self.everything)
        at = [problem.names.index(dim) for dim in problem.weights.dims]
        return np.asarray(each * sizes[:, LEVELS.index(place), at].prod(axis=-1, dtype=float))

    @cached_property
    def everything(self) -> float:
        """All weights, in elements."""
        return float(self.problem.points(self.problem.weights.dims))

    @cached_property
    def _cycles(self) -> dict[str, float]:
        """Of one weight, by the place."""
        kernel = self.choice.kernel
        return {place: pack_cycles(self.problem, kernel, place) for place in PLACES_TO_PACK}
