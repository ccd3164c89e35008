"""What is measured of the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE = 60.0
"""Seconds that a proof may take where the core has other things to do; those are not counted."""


@dataclass(frozen=True)
class Solved:
    """One plan: how long it took to find, what the model says of it, both in seconds, and
    `random_plans` how many random plans do not cost less than its bound."""

    operator: str
    machine: str
    threads: int
    solver: str
    seconds: float
    cost: float
    lower_bound: float
    random_plans: int = 0

    @property
    def gap(self) -> float:
        return self.cost / self.lower_bound - 1


@dataclass(frozen=True)
class Results:
    """All plans, the CPU they were found on, and the part of that time that this process had it."""

    table1: Sequence[Solved]
    unusual: Sequence[Solved]
    cpu: str
    date: str
    share: float
