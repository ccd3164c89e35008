"""Footprints and data volumes in the SCIP model, from below."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log
from typing import Any

import numpy as np

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.footprint import MemoryAxis, joined_dims
from mopt_mlir.model.packing import PACKED_COPIES
from mopt_mlir.model.rates import OUTPUT_PASSES
from mopt_mlir.model.room import usable
from mopt_mlir.plan import LEVELS
from mopt_mlir.problem import OUTPUT, WEIGHTS, Problem
from mopt_mlir.solver.arrays import Ints
from mopt_mlir.solver.axis_bounds import (
    Amounts,
    Listed,
    facets,
    facets_of_pieces,
    least,
    of_partitions,
    of_pieces,
    of_tile,
    of_tile_or_more,
    rate,
)
from mopt_mlir.solver.space import Choice
from mopt_mlir.solver.variables import Expression, Variables
from mopt_mlir.vector_access import keeps_sums_in_output

NEGLIGIBLE = 14.0
"""By how much a binary lowers the logarithm of a term that it turns off, which is a part of the
cost at most: what is left is far below the tolerance of bounds."""


class Traffic(Variables):
    """Lower bounds on footprints and volumes. Times are divided by `scale` seconds; `visits` is the
    logarithm of how often each accumulator is stored, `past` 1 where that goes past the caches.
    `held` are bytes of weights in a tile of each level that packs, relative to what may be used of
    its cache."""

    def __init__(
        self,
        problem: Problem,
        machine: Machine,
        choices: Sequence[Choice],
        scale: float,
        table: int,
    ) -> None:
        super().__init__(problem, machine, choices, table)
        self.machine, self.scale = machine, scale
        self.held: dict[str, Expression] = {}
        self._known_sizes: dict[str, Ints] = {}
        for level in LEVELS:
            self._capacity(level, usable(machine, level))
        self.visits = self._log_visits()
        self.past = self._past()

    # ---- capacity ----------------------------------------------------------------------------

    def _capacity(self, level: str, usable_bytes: float) -> None:
        sizes = []
        for index, tensor in enumerate(self.problem.tensors):
            exponent = log(tensor.element.size / usable_bytes)
            for number, part in enumerate(self.room[level, index]):
                exponent = exponent + self._log_occupied(level, part, f"{level}:{index}:{number}")
            sizes.append(self.exp(f"footprint:{level}:{tensor.name}", exponent))
        if level in self.place:
            self.held[level] = sizes[WEIGHTS]
            more = self.variable(f"packed:{level}")
            self.add(more >= (PACKED_COPIES[level] - 1) * (sizes[WEIGHTS] - 1 + self.place[level]))
            sizes.append(more)
        self.add(self.sum(sizes) <= 1)

    def _log_occupied(self, level: str, part: MemoryAxis, name: str) -> Expression:
        """At least the logarithm of the elements that a tile occupies along an axis."""
        axis, x = part.axis, self.x[level, part.axis.image]
        if part.plain:
            return x
        if axis.filter is not None:
            return self._log_extent(level, part, name)
        values, row = Listed(of_tile(part, 1)), self.pick.get((level, axis.image))
        if row is not None:
            return self._least_of(row, axis.image, values)
        sizes = self._sizes(axis.image)
        bounds = x + log(rate(values, sizes)), log(least(values, sizes))
        return self.at_least(f"occupied:{name}", *bounds)

    def _log_extent(self, level: str, part: MemoryAxis, name: str) -> Expression:
        """The logarithm of the extent of an axis with a halo, from below.

        `slope * points + offset <= extent`, divided by `extent`: so the terms are at most 1, and
        the big-M that frees the constraints of larger filter tiles is small.
        """
        image, row = part.axis.image, self.filter_row(level, part.axis)
        extent = self.variable(f"extent:{name}")
        images, points = self.pick.get((level, image)), self.x[level, image]
        if images is None:
            own, halo = self.exp(f"own:{name}", points - extent), self.exp(f"halo:{name}", -extent)
        for index, (taps, _) in enumerate(row):
            values = of_tile_or_more(part, taps)
            every, smaller = values.telling(), 1 - self.sum(y for _, y in row[index:])
            if images is not None:
                occupied = self._least_of(images, image, values)
                self.add(extent >= occupied - log(values.at(every).max()) * smaller)
                continue
            sizes = self._sizes(image)
            excess = float((values.at(every) / of_tile_or_more(part, 1).at(every)).max()) - 1
            for slope, offset in facets(values, sizes):
                self.add(slope * own + offset * halo <= 1 + excess * smaller)
            self.add(extent >= points + log(rate(values, sizes)) * (1 - smaller))
        return extent

    def _least_of(self, row: Sequence[tuple[int, Any]], dim: str, values: Amounts) -> Expression:
        """The logarithm of the least value of a table's size: that of any size it stands for."""
        until = self.until[dim]
        return self.sum(y * log(values.least_from(size, until[size])) for size, y in row)

    def _sizes(self, dim: str) -> Ints:
        """All sizes in elements that a tile along a dim may have, of which one point at least takes
        an element's room in a cache."""
        if dim not in self._known_sizes:
            extent, units = self.problem.extent(dim), {choice.step(dim) for choice in self.choices}
            room = usable(self.machine, LEVELS[0]) // self.problem.output.element.size
            possible = np.zeros(min(extent, max(int(room), *units)) + 1, dtype=np.bool_)
            for unit in units:
                possible[unit::unit] = True
            possible[extent:] = True
            self._known_sizes[dim] = np.flatnonzero(possible)
        return self._known_sizes[dim]

    # ---- volumes -----------------------------------------------------------------------------

    def _log_volume(self, level: str, resource: str, index: int) -> Expression:
        """The logarithm of the scaled seconds of `resource` in which one tensor enters the tiles of
        a level, at least."""
        tensor = self.problem.tensors[index]
        exponent = self.of_choice(
            log(tensor.element.size * rates.passes(level, index == OUTPUT))
            - log(rates.bytes[resource] * self.scale)
            for rates in (choice.rates for choice in self.choices)
        )
        for dim in self.dims:
            if dim not in tensor.dims:
                reused = self.of_class(level, (dim in c.reuse[index].inside for c in self.classes))
                exponent = exponent + self.trips_unless(level, dim, reused, f"again{index}")
        for number, part in enumerate(self.axes[level, index]):
            if part.plain:
                exponent = exponent + self.log_covered(level, part.axis.image)
            elif part.axis.filter is None:
                exponent = exponent + self._log_brought(level, part, index)
            else:
                exponent = exponent + self.log_covered(level, part.axis.image)
                exponent = exponent + self._log_moved(level, index, part, number)
        if index == OUTPUT and level == LEVELS[0]:
            exponent = exponent + self._log_passes()
        return exponent

    def _sums(self) -> Expression:
        """Scaled seconds in which memory for partial sums comes and goes, at least
        (`model.cost.sums_seconds`)."""
        output = self.problem.output
        waits = [not keeps_sums_in_output(self.problem, c.kernel) for c in self.choices]
        reduction = [dim for dim in self.dims if dim in self.problem.reduction_dims]
        if not any(waits) or not reduction:
            return 0.0
        parallel = [dim for dim in self.dims if dim in self.problem.parallel_dims]
        most = sum(log(self.problem.extent(dim)) for dim in reduction)
        all_ = sum(log(self.problem.extent(dim)) for dim in parallel)
        sums, outer = self.variable("sums"), most
        for level in LEVELS[:-1]:
            rates = [choice.rates for choice in self.choices]
            cores = [1 if level == LEVELS[0] else of.cores for of in rates]
            passed = OUTPUT_PASSES * output.element.size / self.scale
            each = self.of_choice(
                log(passed * n / of.bytes["DRAM"]) - (0 if some else all_ + NEGLIGIBLE)
                for n, of, some in zip(cores, rates, waits, strict=True)
            )
            inner = self.sum(self.x[level, dim] for dim in reduction)
            split = self.binary(f"split:{level}")
            self.add(outer - inner <= most * split)
            held = self.sum(self.x[level, dim] for dim in parallel)
            whole = (all_ + NEGLIGIBLE) * (1 - split)
            self.add(sums >= self.exp(f"sums:{level}", held + each - whole))
            outer = inner
        return sums

    def _runs(self) -> Expression:
        """Scaled seconds of the runs of output of the L1 tiles (`model.footprint.output_runs`).

        Along a dim that is not whole there are at least as many runs as tiles, for each point of
        the dims outside of it, whatever the tiles of those inside.
        """
        level, rest = LEVELS[-1], self.problem.points(self.problem.output.dims)
        most, runs = log(rest), self.variable("runs")
        each = self.of_choice(log(choice.rates.run / self.scale) for choice in self.choices)
        each -= (2 * most + NEGLIGIBLE) * self.past
        for dim in joined_dims(self.problem):
            extent = self.problem.extent(dim)
            tiles, whole = log(extent) - self.x[level, dim], self._whole(level, dim)
            if (level, dim) in self.pick:
                tiles = self.sum(y * log(ceil(extent / n)) for n, y in self.pick[level, dim])
            rest //= extent
            self.add(runs >= self.exp(f"runs:{dim}", tiles + log(rest) + each - most * whole))
        self.add(runs >= self.exp("runs:least", log(rest) + each))
        return runs

    def _whole(self, level: str, dim: str) -> Expression:
        """1 only if the tiles of a level are whole along a dim."""
        extent = self.problem.extent(dim)
        if (level, dim) in self.pick:
            return self.sum(y for size, y in self.pick[level, dim] if size == extent)
        whole = self.binary(f"whole:{level}:{dim}")
        self.add(self.x[level, dim] >= log(extent) * whole)
        return whole

    # ---- visits ------------------------------------------------------------------------------

    def _log_visits(self) -> Expression:
        """At least the logarithm of how often each accumulator is stored (`model.cost`): a kernel
        may run through reduction loops if its tile is the L1 tile and it does not stop to pack."""
        inner = LEVELS[-1]
        insides = [cls.reuse[OUTPUT].inside for cls in self.classes]
        carried: dict[frozenset[str], Any] = {}
        for inside in dict.fromkeys(insides):
            if inside:
                carry = carried[inside] = self.binary(f"stream:{len(carried)}")
                self.add(carry <= self.sum(self.of_class(inner, (i == inside for i in insides))))
        if carried:
            self._single_tiles(self.sum(carried.values()))
        visits = []
        for dim in self.dims:
            if dim in self.problem.reduction_dims:
                through = [carry for inside, carry in carried.items() if dim in inside]
                visits.append(self.trips_unless(inner, dim, through, "visits"))
        return self.sum(visits)

    def _single_tiles(self, carry: Expression) -> None:
        """Where `carry` is 1, L1 tiles are register tiles and nothing is packed at L1."""
        inner = LEVELS[-1]
        if self.place:
            self.add(carry + self.place[inner] <= 1)
        for dim in self.dims:
            if dim in self.problem.parallel_dims:
                extent = self.problem.extent(dim)
                units = [log(choice.step(dim)) for choice in self.choices]
                room = log(extent) - min(units)
                self.add(self.x[inner, dim] <= self.of_choice(units) + room * (1 - carry))

    def _past(self) -> Expression:
        """1 if the output goes to memory past the caches: only where every accumulator is stored
        just once."""
        if not any(choice.streams for choice in self.choices):
            return 0.0
        past = self.binary("nontemporal")
        self.add(past <= self.of_choice(float(choice.streams) for choice in self.choices))
        most = sum(log(self.problem.extent(dim)) for dim in self.problem.reduction_dims)
        self.add(self.visits <= most * (1 - past))
        return past

    def _log_passes(self) -> Expression:
        """The logarithm of the part that is left of the time to write the output to memory, if it
        goes past the caches."""
        streaming = [choice for choice in self.choices if choice.streams]
        parts = [choice.written / choice.rates.write_passes for choice in streaming]
        return self.past * log(min(parts, default=1.0))

    def _log_brought(self, level: str, part: MemoryAxis, tensor: int) -> Expression:
        """At least the logarithm of the elements that all tiles bring in along a contiguous axis
        without a halo."""
        dim = part.axis.image
        row = self.pick.get((level, dim))
        if row is not None:
            moved = self._partitioned(level, part, 1, self._least_covered(level, dim))
            return self.sum(y * log(moved[size]) for size, y in row)
        values = Listed(of_tile(part, 1))
        points = self.log_covered(level, dim) + log(rate(values))
        tiles = self.trips[level, dim] + log(least(values))
        return self.at_least(f"brought:{level}:{tensor}", points, tiles)

    def _least_covered(self, level: str, dim: str) -> int:
        """Points along `dim` that enter the caches of a level, at least."""
        if level == LEVELS[0]:
            return self.problem.extent(dim)
        return min(choice.covered[dim] for choice in self.choices)

    def _partitioned(
        self, level: str, part: MemoryAxis, most: int, points: int
    ) -> dict[int, float]:
        """`of_partitions` for the sizes of a table, in which all choices agree, by the largest that
        each stands for."""
        choice, dim = self.choices[0], part.axis.image
        share = min(-(-choice.units[dim] // choice.ways(dim)) * choice.unit(dim), part.points)
        sizes = [size for size, _ in self.pick[level, dim]]
        moved = of_partitions(
            part,
            most,
            [self.until[dim][size] for size in sizes],
            unit=choice.step(dim),
            points=points,
            largest=part.points if level == LEVELS[0] else share,
        )
        return dict(zip(sizes, moved, strict=True))

    def _log_moved(self, level: str, tensor: int, part: MemoryAxis, number: int) -> Expression:
        """At least the logarithm of the elements moved along an axis with a halo, per image point.

        `slope + offset * runs / points <= moved`, divided by `moved` as in `_log_extent`. Loops
        along which tiles overlap count as if they were whole: by the numbers of the next outer
        level.
        """
        axis = part.axis
        assert axis.filter is not None
        row = self.filter_row(level, axis)
        over_image, over_filter = (
            self.of_class(level, (c.reuse[tensor].overlap == dim for c in self.classes))
            for dim in (axis.image, axis.filter)
        )
        low = log(rate(of_pieces(part, part.taps)))
        single = of_pieces(part, 1)
        sizes = single.telling()
        high = log((single.at(sizes) / sizes).max())
        tabulated = (level, axis.image) in self.pick
        # Points are counted that a core covers at least, and tiles that may be its own or all.
        ways = 1 if tabulated else max(choice.ways(axis.image) for choice in self.choices)
        moved = self.variable(f"moved:{level}:{number}", low, high + log(ways))
        if not tabulated:
            runs = self.trips_unless(level, axis.image, over_image, f"runs{number}")
            runs = runs - self.log_covered(level, axis.image)
            own = self.exp(f"moved own:{level}:{number}", -moved)
            halo = self.exp(f"moved halo:{level}:{number}", runs - moved)
        outer = LEVELS.index(level) - 1
        for end, (piece, _) in enumerate(row, start=1):
            # `cut`: the filter comes in pieces of at most this size, or one that it stands for.
            most = self.until[axis.filter][piece]
            cut = self.variable(f"cut:{level}:{number}:{piece}", 0.0, 1.0)
            self.add(cut >= self.sum(y for _, y in row[:end]) - self.sum(over_filter))
            if outer >= 0:
                outer_row = self.filter_row(LEVELS[outer], axis)
                self.add(cut >= self.sum(y for _, y in outer_row[:end]))
            elif piece == part.taps:
                self.add(cut >= 1)
            if tabulated:
                slack = (1 - cut) * (high - low)
                self._tabulated(level, part, most, moved - low + slack, over_image)
                continue
            for slope, offset in facets_of_pieces(part, most):
                excess = (slope + offset) / exp(low) - 1
                self.add(slope * own + offset * halo <= 1 + excess * (1 - cut))
            self.add(moved >= low + (log(rate(of_pieces(part, most))) - low) * cut)
        return moved

    def _tabulated(
        self, level: str, part: MemoryAxis, most: int, moved: Expression, over_image: list[Any]
    ) -> None:
        """`moved`, here beyond its least value, where the tiles of the image are those of a table
        and the filter comes in pieces of at most `most`."""
        dim, outer = part.axis.image, LEVELS.index(level) - 1
        covered = {self._least_covered(level, dim)}
        if outer >= 0 and dim in self.covered:
            covered = {points for points, _ in self.covered[dim]}
        cut = [(n, self._partitioned(level, part, most, n)) for n in covered]
        low = log(rate(of_pieces(part, part.taps)))
        per_point = {
            size: log(min(found[size] / n for n, found in cut)) - low
            for size, _ in self.pick[level, dim]
        }

        def of_level(name: str) -> Expression:
            return self.sum(y * per_point[size] for size, y in self.pick[name, dim])

        span = max(per_point.values())
        self.add(moved >= of_level(level) - span * self.sum(over_image))
        self.add(moved >= (of_level(LEVELS[outer]) if outer >= 0 else per_point[part.points]))
