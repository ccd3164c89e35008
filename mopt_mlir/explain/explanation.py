"""What a plan does to a machine: everything that a report says of it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mopt_mlir.explain.alternatives import Alternative
from mopt_mlir.loop_nest import Step
from mopt_mlir.machine.machine import Machine
from mopt_mlir.plan import Plan, Prediction
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class Registers:
    """The microkernel. In each step of the reduction it loads `vectors` vectors of `vector`
    elements, broadcasts `broadcasts` elements, and updates one accumulator per pair of them."""

    lanes: str
    vector: int
    vectors: int
    broadcasts: int
    available: int
    """The vector registers of the machine."""
    fma_cycles: float
    """In which the core issues the FMAs of a step."""
    load_cycles: float
    """In which it issues the loads of a step."""
    latency: float
    """Cycles that an accumulator takes from one step to the next."""
    step_cycles: float
    """What the model counts for a step: the longest of the three and a little of the others, the
    loop, and what loads wait for."""
    useful: float
    """The part of all lanes that hold results rather than padding."""

    @property
    def accumulators(self) -> int:
        return self.vectors * self.broadcasts

    @property
    def used(self) -> int:
        """Registers for the accumulators, the vectors and one broadcast."""
        return self.accumulators + self.vectors + 1

    @property
    def loads(self) -> int:
        """Per step, vectors and broadcasts."""
        return self.vectors + self.broadcasts


@dataclass(frozen=True)
class CacheUse:
    """One level of tiling: what its tile occupies in its cache of `size` bytes, in bytes per
    tensor, of the `usable` bytes that tiles may fill. `order_class` names the innermost loops from
    tile to tile."""

    name: str
    tile: Mapping[str, int]
    order_class: str
    footprint: Mapping[str, int]
    usable: float
    size: int

    @property
    def bytes(self) -> int:
        return sum(self.footprint.values())

    @property
    def filled(self) -> float:
        """The part of the usable capacity that the tile takes; above 1 it does not fit."""
        return self.bytes / self.usable


@dataclass(frozen=True)
class Transfer:
    """Data on its way from the memory `source` to what it fills, `into`: of the busiest core, from
    DRAM of all cores."""

    source: str
    into: str
    volumes: Mapping[str, float]
    """Bytes of each tensor."""
    bandwidth: float
    """Bytes per second."""
    seconds: float
    slack: float
    """The part of the slowest resource's time that `seconds` leaves over."""
    intensity: float
    """Floating-point operations per byte."""
    roof: float
    """FLOP/s of all cores that the memory can sustain at that intensity (less than its bandwidth
    says where writing takes longer)."""

    @property
    def bytes(self) -> float:
        return sum(self.volumes.values())


@dataclass(frozen=True)
class Forecast:
    """What the model predicts. FLOP/s are of all cores that take part."""

    prediction: Prediction
    transfers: tuple[Transfer, ...]
    core_seconds: float
    """Computing and packing, which a core does one after the other."""
    core_slack: float
    """The part of the slowest resource's time that these leave over."""
    starting_seconds: float
    """What it takes to hand out work to cores."""
    slowest: float
    """The longest of these and the transfers, in seconds."""
    performance: float
    """FLOP/s."""
    compute_roof: float
    """FLOP/s of computing as the microkernel does, and nothing else."""
    peak: float
    """FLOP/s of nothing but FMAs."""
    bound: float | None
    """Seconds that no plan of the solver's undercuts; None if they are not known, or if this plan
    takes less."""
    undercut: float | None
    """That bound, if this plan takes less."""

    @property
    def seconds(self) -> float:
        """The cost of the plan, which is in seconds."""
        return self.prediction.cost

    @property
    def gap(self) -> float | None:
        """By how much the plan is slower than the bound; None if there is none for it."""
        return None if self.bound is None else (self.seconds - self.bound) / self.bound


@dataclass(frozen=True)
class Explanation:
    """An operator, its plan, and why.

    `places` are the `file:line:col` of the operations that have this problem and plan; of a list,
    the names of its operators, if there are several. `forecast` is None where the model cannot
    predict the plan; `unpredicted` then says why, and there are no `alternatives`. `notes` are
    sentences that qualify the rest.
    """

    name: str
    places: tuple[str, ...]
    problem: Problem
    machine: Machine
    plan: Plan
    nest: tuple[Step, ...]
    registers: Registers
    caches: tuple[CacheUse, ...]
    forecast: Forecast | None
    unpredicted: str
    alternatives: tuple[Alternative, ...]
    notes: tuple[str, ...]

    @property
    def cores(self) -> int:
        """The cores that get a share of the work: where that is whole register tiles, there may be
        fewer than the plan is split between."""
        plan, extents = self.plan, self.problem.extents
        tile = plan.levels[0].tile if plan.levels else extents
        return prod(
            -(-min(tile[dim], extents[dim]) // plan.core_tile(dim, extents[dim]))
            for dim in plan.parallel
        )
