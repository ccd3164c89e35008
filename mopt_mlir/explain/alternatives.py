"""What other decisions would cost: the runners-up of a plan, by kind of decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from mopt_mlir.explain.moves import (
    Move,
    other_kernel_text,
    other_kernels,
    other_orders,
    other_packings,
    other_splits,
    other_stores,
    other_tiles,
)
from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.cost import predict
from mopt_mlir.model.room import cache_bytes, usable
from mopt_mlir.plan import Level, Plan, Prediction
from mopt_mlir.problem import Problem

KINDS = ("plan", "microkernel", "order", "packing", "stores", "parallel", "tile")
"""The decision in which an alternative differs; "plan" for one that differs in several."""

KERNELS = 6
"""Microkernels that are looked at closely: the most promising of different shapes."""

TRIES = 150
"""Plans that are evaluated to adapt the tiles to another microkernel or split, at 0.2 ms each."""

PENALTY = 100.0
"""Makes plans that overflow a cache the worst, the more so the more they do, while tiles are
adapted."""


@dataclass(frozen=True)
class Alternative:
    """`plan` differs from the explained one by `change`, at `level` ("" if that concerns all).

    `loss` is how much more it costs, relative (negative: it costs less); None, with the `obstacle`
    in words, where its tiles do not fit into the caches. `bottleneck` is its slowest resource.
    """

    kind: str
    level: str
    change: str
    plan: Plan
    loss: float | None
    bottleneck: str
    obstacle: str = ""


@dataclass(frozen=True)
class _Judge:
    """Predicts plans of one problem on one machine, and compares them with `plan`."""

    problem: Problem
    machine: Machine
    plan: Plan
    constant_weights: bool

    def predict(self, plan: Plan) -> Prediction:
        constant = self.constant_weights
        return predict(self.problem, self.machine, plan, constant_weights=constant)

    def fill(self, plan: Plan) -> dict[str, float]:
        """Per level, the part of the usable capacity that a tile takes."""
        return {
            level.name: sum(self._footprint(plan, level).values())
            / usable(self.machine, level.name)
            for level in plan.levels
        }

    @cached_property
    def _known(self) -> dict[str, float]:
        return self.fill(self.plan)

    def overflow(self, plan: Plan) -> tuple[str, float]:
        """The level that tiles overfill most, and the part of its usable capacity; "" if none does
        more than `self.plan` itself, which may be one that somebody wrote by hand."""
        known = self._known
        over = {k: part for k, part in self.fill(plan).items() if part > max(1.0, known[k])}
        level = max(over, key=lambda name: over[name], default="")
        return level, over.get(level, 0.0)

    def _footprint(self, plan: Plan, level: Level) -> dict[str, int]:
        return cache_bytes(
            self.problem,
            self.machine,
            level.name,
            level.tile,
            panels=plan.reads_panels,
            packs=plan.packing == level.name,
        )

    def penalised_cost(self, plan: Plan) -> float:
        """The cost, with a penalty for what overflows."""
        _, part = self.overflow(plan)
        return self.predict(plan).cost * (1 + PENALTY * part)

    def adapted(self, plan: Plan) -> Plan:
        """`plan` with better tiles, orders and packing around its microkernel and split, as far as
        single changes within TRIES evaluations lead."""
        best, least, tries = plan, self.penalised_cost(plan), 0
        improved = True
        while improved and tries < TRIES:
            improved = False
            for _, candidate in self._neighbours(best):
                tries += 1
                found = self.penalised_cost(candidate)
                if found < least:
                    best, least, improved = candidate, found, True
                    break
                if tries >= TRIES:
                    break
        return best

    def _neighbours(self, plan: Plan) -> Iterator[Move]:
        for level in reversed(plan.levels):
            yield from other_tiles(self.problem, plan, level)
            yield from other_orders(self.problem, plan, level)
        if not self.constant_weights:
            yield from other_packings(self.problem, plan)
        yield from other_stores(self.problem, self.machine, plan)


def runners_up(
    problem: Problem,
    machine: Machine,
    plan: Plan,
    *,
    constant_weights: bool = False,
    rivals: Iterable[Plan] = (),
) -> tuple[Alternative, ...]:
    """The alternatives to `plan`, which must have all levels, in the order of KINDS, of levels and
    of their loss; those that cost exactly the same are left out.

    Orders, packings, stores and tiles change one decision and nothing else. To another microkernel
    or split between cores the other decisions are adapted; those microkernels are looked at that
    cost least before that, one of each shape. `rivals` are plans to compare with as they are.
    """
    judge = _Judge(problem, machine, plan, constant_weights)
    cost = judge.predict(plan).cost
    kernels = other_kernels(problem, machine, plan, constant_weights=constant_weights)
    moves: list[tuple[str, str, Iterable[Move]]] = [
        ("plan", "", ((difference(plan, rival), rival) for rival in rivals)),
        ("microkernel", "", _adapted(judge, _of_each_shape(judge, kernels))),
        *(("order", level.name, other_orders(problem, plan, level)) for level in plan.levels),
        ("packing", "", () if constant_weights else other_packings(problem, plan)),
        ("stores", "", other_stores(problem, machine, plan)),
        ("parallel", "", _adapted(judge, other_splits(problem, plan))),
        *(("tile", level.name, other_tiles(problem, plan, level)) for level in plan.levels),
    ]
    found = []
    for kind, level, candidates in moves:
        rated = [_rated(judge, kind, level, move, cost) for move in candidates]
        found += sorted(filter(_differs, rated), key=_rank)
    return tuple(found)


def difference(plan: Plan, other: Plan) -> str:
    """What `other` does differently, in words."""
    parts = []
    if other.microkernel != plan.microkernel:
        parts.append(f"microkernel {other_kernel_text(other.microkernel, plan.microkernel)}")
    if dict(other.parallel) != dict(plan.parallel):
        ways = " x ".join(f"{dim} {n}" for dim, n in other.parallel.items())
        parts.append(f"split {ways or 'between no cores'}")
    if other.packing != plan.packing:
        parts.append(f"packing {other.packing}")
    if other.nontemporal != plan.nontemporal:
        parts.append(f"stores {'past' if other.nontemporal else 'through'} the caches")
    mine = {level.name: level for level in plan.levels}
    for level in other.levels:
        known = mine.get(level.name)
        if known is None:
            continue
        sizes = [f"{d} {level.tile[d]}" for d in level.order if level.tile[d] != known.tile.get(d)]
        if sizes:
            parts.append(f"{level.name} {' '.join(sizes)}")
        if level.order != known.order:
            parts.append(f"{level.name} order {' '.join(level.order)}")
    return ", ".join(parts) or "the same"


def _of_each_shape(judge: _Judge, kernels: Iterable[Move]) -> list[Move]:
    """The best of `kernels` for each number of vectors along each dim, KERNELS at most."""
    shapes: dict[tuple[str, int], tuple[float, Move]] = {}
    for move in kernels:
        kernel = move[1].microkernel
        shape = kernel.lanes, kernel.extent(kernel.lanes)
        cost = judge.penalised_cost(move[1])
        if shape not in shapes or cost < shapes[shape][0]:
            shapes[shape] = cost, move
    ranked = sorted(shapes.values(), key=lambda item: item[0])
    return [move for _, move in ranked[:KERNELS]]


def _adapted(judge: _Judge, moves: Iterable[Move]) -> Iterator[Move]:
    for text, plan in moves:
        yield text, judge.adapted(plan)


def _rated(judge: _Judge, kind: str, level: str, move: Move, cost: float) -> Alternative:
    change, plan = move
    predicted = judge.predict(plan)
    overfull, part = judge.overflow(plan)
    if overfull:
        obstacle = f"{overfull} filled to {part:.0%}"
        return Alternative(kind, level, change, plan, None, predicted.bottleneck, obstacle)
    plan = replace(plan, prediction=predicted)
    return Alternative(kind, level, change, plan, predicted.cost / cost - 1, predicted.bottleneck)


def _differs(alternative: Alternative) -> bool:
    return alternative.loss != 0.0


def _rank(alternative: Alternative) -> float:
    return float("inf") if alternative.loss is None else alternative.loss
