"""The least cost of any plan of a tiny problem, by looking at all of them.

Shares no formula with the model or the solver: tiles are cut as ranges, what they touch is counted
address by address, and every order of the loops is tried. Only the cycles of a single register
tile are taken from the model, and its constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, reduce, wraps
from itertools import combinations, count, permutations, product
from math import ceil, inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.machine import Machine
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.cost import EXPOSED, PARALLEL_START
from mopt_mlir.model.microkernel import tile_kinds
from mopt_mlir.model.packing import ELEMENT_CYCLES, PACK_CYCLES, PACK_PASSES, PACK_ROW_CYCLES
from mopt_mlir.model.rates import RUN_SECONDS
from mopt_mlir.problem import Problem, Role, Tensor

Array = NDArray[Any]
Lengths = tuple[tuple[int, int], ...]
"""(length of a tile, how many there are)"""

Reuse = tuple[frozenset[str], str | None]
"""The loops inside the innermost one that moves a tensor, and that one if it slides."""

LEVELS = ("L3", "L2", "L1")
INPUT, WEIGHTS, OUTPUT = range(3)


def kept(method: Any) -> Any:
    """`method`, of which the object keeps what comes of each argument; nobody changes that."""

    @wraps(method)
    def look_up(self: Any, *arguments: Any) -> Any:
        known = self.__dict__.setdefault(f"kept_{method.__name__}", {})
        if arguments not in known:
            known[arguments] = method(self, *arguments)
        return known[arguments]

    return look_up


def cut(ranges: Iterable[range], size: int) -> list[range]:
    return [r[start : start + size] for r in ranges for start in range(0, len(r), size)]


def lengths(ranges: Iterable[range]) -> Lengths:
    return tuple(sorted(Counter(map(len, ranges)).items()))


@dataclass(frozen=True)
class Cut:
    """How one dim is cut: sizes of tiles per level, what they are cut from, and the lengths of
    these and of the tiles, of all cores (L3) or of the first one."""

    sizes: tuple[int, int, int]
    outer_sizes: tuple[int, int, int]
    outer: tuple[Lengths, Lengths, Lengths]
    inner: tuple[Lengths, Lengths, Lengths]
    register_tiles: Lengths


@cache
def cuts(extent: int, unit: int, ways: int) -> tuple[Cut, ...]:
    """Every way to cut a dim into tiles that are multiples of `unit` or all of it."""
    found = []
    allowed = [size for size in range(1, extent + 1) if size % unit == 0 or size == extent]
    for l3 in allowed:
        share = l3 if ways == 1 else ceil(l3 / (ways * unit)) * unit
        tiles = cut([range(extent)], l3)
        mine = [tile[:share] for tile in tiles]
        for l2 in (size for size in allowed if size <= share):
            for l1 in (size for size in allowed if size <= l2):
                second = cut(mine, l2)
                first = cut(second, l1)
                found.append(
                    Cut(
                        (l3, l2, l1),
                        (extent, min(share, l3), l2),
                        (((extent, 1),), lengths(mine), lengths(second)),
                        (lengths(tiles), lengths(second), lengths(first)),
                        lengths(cut(mine, unit)),
                    )
                )
    return tuple(found)


@cache
def distinct(terms: tuple[tuple[int, int], ...]) -> int:
    """Distinct values of `sum(coefficient * i)` over `i` below the length, for each term."""
    values = {0}
    for coefficient, length in terms:
        values = {v + coefficient * i for v in values for i in range(length)}
    return len(values)


@cache
def in_lines(terms: tuple[tuple[int, int], ...], line: int, steps: frozenset[int]) -> float:
    """Elements of the lines of a tile, on average over the places in a line that multiples of
    `steps` lead to; each value owns the addresses up to where the next could be, if that is not
    lines away."""
    starts = {0}
    while more := {(start + step) % line for start in starts for step in steps} - starts:
        starts |= more
    owned = max((coefficient for coefficient, _ in terms if coefficient <= line), default=1)
    values = {0}
    for coefficient, length in terms:
        values = {v + coefficient * i for v in values for i in range(length)}
    if min(coefficient for coefficient, _ in terms) > line:  # each point by itself
        return float(line * len(values))
    lines = [len({(at + v + i) // line for v in values for i in range(owned)}) for at in starts]
    return line * sum(lines) / len(lines)


@cache
def span(terms: tuple[tuple[int, int], ...]) -> int:
    return 1 + sum(coefficient * (length - 1) for coefficient, length in terms)


def undercuts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def register_tiles(problem: Problem, machine: Machine) -> list[Microkernel]:
    """Every microkernel whose sums fit into registers beside the vectors of a step and one scalar.

    Vectors hold output channels, for one or more pixels of a row, or for whole rows; or they hold a
    dim that is contiguous in input and output, for one or more output channels. No vector is empty,
    and one that is not full may be shorter, down to a quarter, if it is the only one.
    """
    longest = machine.vector_bits // 8 // problem.output.element.size
    order = tuple(sorted(problem.reduction_dims, key=lambda dim: -step(problem.input, dim)))
    found = []
    for dim in problem.dims:
        lanes, size = dim.name, dim.extent
        along = [contiguous(tensor, lanes) for tensor in problem.tensors]
        if dim.role is Role.OUT_CHANNEL:
            rows = pixel_boxes(problem)
        elif lanes not in problem.weights.dims and size > 1 and along[INPUT] and along[OUTPUT]:
            channels = [d.name for d in problem.dims if d.role is Role.OUT_CHANNEL]
            rows = boxes(channels, problem)
        else:
            continue
        vectors = [(longest, number) for number in range(1, ceil(size / longest) + 1)]
        vectors += [(n, 1) for n in (longest // 2, longest // 4) if n >= size and n > 1]
        found += [
            Microkernel(lanes, vector, {lanes: number * vector, **box}, order)
            for vector, number in vectors
            for box in rows
            if number * prod(box.values()) + number + 1 <= machine.vector_registers
        ]
    return found


def step(tensor: Tensor, dim: str) -> int:
    """Elements of memory from one value of `dim` to the next."""
    return sum(
        coefficient * (stride or 0)
        for axis, stride in zip(tensor.axes, tensor.strides, strict=True)
        for d, coefficient in axis.terms
        if d == dim
    )


def contiguous(tensor: Tensor, dim: str) -> bool:
    """Whether vectors can be read along `dim`."""
    return dim in tensor.axes[-1].dims and step(tensor, dim) == 1


def boxes(dims: list[str], problem: Problem) -> list[dict[str, int]]:
    """Every number of elements along each of `dims`."""
    sizes = product(*(range(1, problem.extent(dim) + 1) for dim in dims))
    return [dict(zip(dims, box, strict=True)) for box in sizes]


def pixel_boxes(problem: Problem) -> list[dict[str, int]]:
    """Pixels that a register tile may have: some of a row, or whole rows. Where there is but one
    pixel, images of the batch are taken for these."""
    for role in (Role.IMAGE, Role.BATCH):
        dims = [dim.name for dim in problem.dims if dim.role is role and dim.extent > 1]
        dims = sorted(dims, key=lambda dim: -step(problem.output, dim))
        if dims:
            break
    if not dims:
        return [{}]
    *outer, row = dims
    return [
        box
        for box in boxes(dims, problem)
        if all(box[dim] == 1 for dim in outer[:-1])
        and (all(box[dim] == 1 for dim in outer) or box[row] == problem.extent(row))
    ]


class Enumeration:
    """All plans of `problem`; `best` is the least cost in seconds."""

    def __init__(self, problem: Problem, machine: Machine, threads: int, constant: bool) -> None:
        self.problem, self.machine, self.threads = problem, machine, threads
        self.constant = constant
        self.moving = [dim for dim in problem.names if problem.extent(dim) > 1]
        self.line = machine.caches[0].line // problem.input.element.size

    def best(self) -> float:
        return min(
            One(self, kernel, ways, packs).best()
            for kernel in register_tiles(self.problem, self.machine)
            for ways in self.splits(kernel)
            for packs in self.packs(kernel)
        )

    def packs(self, kernel: Microkernel) -> tuple[bool, ...]:
        """Whether panels are made at run time: vectors of weights that are not contiguous need
        them, and others may have them."""
        if self.constant or kernel.lanes in self.problem.input.dims:
            return (False,)
        return (False, True) if self.problem.weights.runs_along(kernel.lanes) else (True,)

    def splits(self, kernel: Microkernel) -> list[dict[str, int]]:
        """One core alone, and all splits whose largest share no other one undercuts; of those with
        the same shares the one with the fewest cores."""
        dims = self.problem.parallel_dims
        tiles = [ceil(self.problem.extent(dim) / kernel.extent(dim)) for dim in dims]
        every = product(*(range(1, min(n, self.threads) + 1) for n in tiles))
        allowed = [ways for ways in every if prod(ways) <= self.threads]
        shares = {tuple(ceil(n / w) for n, w in zip(tiles, ways, strict=True)) for ways in allowed}
        least = [share for share in shares if not any(undercuts(o, share) for o in shares)]
        fewest = [tuple(ceil(n / s) for n, s in zip(tiles, share, strict=True)) for share in least]
        return [dict(zip(dims, ways, strict=True)) for ways in {*fewest, (1,) * len(dims)}]

    @cached_property
    def orders(self) -> Mapping[tuple[Reuse, Reuse, Reuse], set[frozenset[str]]]:
        """What is reused by each order of some of the loops, and of which loops these are."""
        found: dict[tuple[Reuse, Reuse, Reuse], set[frozenset[str]]] = {}
        for number in range(len(self.moving) + 1):
            for order in permutations(self.moving, number):
                found.setdefault(self.reuse(order), set()).add(frozenset(order))
        return found

    def reuse(self, order: tuple[str, ...]) -> tuple[Reuse, Reuse, Reuse]:
        found: list[Reuse] = []
        for tensor in self.problem.tensors:
            present = [dim for dim in order if dim in tensor.dims]
            innermost = present[-1] if present else None
            inside = order[order.index(innermost) + 1 :] if innermost else order
            axes = (dict(self.terms(tensor, axis)) for axis in range(len(tensor.axes)))
            slides = any(len(axis) > 1 and innermost in axis for axis in axes)
            found.append((frozenset(inside), innermost if slides else None))
        return found[0], found[1], found[2]

    @kept
    def touched(self, index: int, axis: int, packed: bool, lengths_: tuple[int, ...]) -> float:
        """Elements along an axis of one tile: distinct ones, or those of its lines, which weights
        that are `packed` do not have."""
        tensor = self.problem.tensors[index]
        terms, stride = self.terms(tensor, axis), tensor.strides[axis]
        if stride is None or packed or axis != self.contiguous(tensor):
            return distinct(tuple((c, n) for (_, c), n in zip(terms, lengths_, strict=True)))
        steps = tuple((c * stride, n) for (_, c), n in zip(terms, lengths_, strict=True))
        whole = all(
            n == self.problem.extent(dim) for (dim, _), n in zip(terms, lengths_, strict=True)
        )
        rows, along = self.pitches(tensor), steps[0][0] * steps[0][1]
        every = in_lines(steps, self.line, frozenset((*rows, along)))
        if whole and self.joined(tensor):
            return min(span(steps), every)  # it runs on into the next row
        return in_lines(steps, self.line, frozenset(rows)) if whole else every

    @kept
    def terms(self, tensor: Tensor, axis: int) -> list[tuple[str, int]]:
        """The moving dims of an axis and their coefficients."""
        return [(d, c) for d, c in tensor.axes[axis].terms if self.problem.extent(d) > 1]

    @kept
    def contiguous(self, tensor: Tensor) -> int | None:
        """The axis along which elements lie closest."""
        closest = [
            (min(c for _, c in terms) * stride, axis)
            for axis, stride in enumerate(tensor.strides)
            if stride is not None and (terms := self.terms(tensor, axis))
        ]
        return min(closest)[1] if closest else None

    @kept
    def pitches(self, tensor: Tensor) -> list[int]:
        """Elements between neighbours along all axes but the contiguous one."""
        return [
            coefficient * stride
            for axis, stride in enumerate(tensor.strides)
            if stride is not None and axis != self.contiguous(tensor)
            for _, coefficient in self.terms(tensor, axis)
        ]

    @kept
    def joined(self, tensor: Tensor) -> bool:
        """Whether all rows along the contiguous axis lie one after the other, as far as the next
        axis goes."""
        if not self.pitches(tensor):
            return True
        closest = self.contiguous(tensor)
        next_ = min(
            (min(c for _, c in self.terms(tensor, axis)) * stride, axis)
            for axis, stride in enumerate(tensor.strides)
            if stride is not None and axis != closest and self.terms(tensor, axis)
        )[1]
        owned: set[int] = set()
        starts = self.values(tensor, next_)
        row = self.values(tensor, closest)
        gap = max(c for _, c in self.terms(tensor, closest)) * tensor.strides[closest]
        for start in starts:
            owned.update(range(start, start + max(row) + gap))
        return len(owned) >= max(owned) + 1

    def values(self, tensor: Tensor, axis: int) -> set[int]:
        """The addresses of an axis."""
        found = {0}
        for dim, coefficient in self.terms(tensor, axis):
            step, extent = coefficient * tensor.strides[axis], self.problem.extent(dim)
            found = {at + step * i for at in found for i in range(extent)}
        return found


class One:
    """All tilings for one microkernel and split at once: arrays have one axis per moving dim, over
    its `cuts`."""

    def __init__(
        self, whole: Enumeration, kernel: Microkernel, ways: Mapping[str, int], packs: bool
    ) -> None:
        self.whole, self.problem, self.machine = whole, whole.problem, whole.machine
        self.kernel, self.cores = kernel, prod(ways.values())
        self.ways = ways
        self.cuts = {
            dim: cuts(
                self.problem.extent(dim),
                self.unit(dim, packs),
                ways.get(dim, 1),
            )
            for dim in self.problem.names
        }
        self.packs = packs
        self.panels = packs or (whole.constant and kernel.lanes not in self.problem.input.dims)

    def unit(self, dim: str, packs: bool) -> int:
        """Elements of a register tile, or so many outermost reduction steps that weights to be
        packed fill whole vectors."""
        if not (packs and self.gathers and dim == self.kernel.reduction[0]):
            return self.kernel.extent(dim)
        taps = prod(self.problem.extent(d) for d in self.kernel.reduction[1:])
        return next(n for n in count(1) if n * taps % self.kernel.vector == 0)

    @property
    def in_vectors(self) -> bool:
        return self.problem.weights.runs_along(self.kernel.lanes)

    @property
    def sums_stay(self) -> bool:
        """Whether the output keeps sums until the next visit: in rows of vectors, of pixels of
        which not every one falls on the same eighth of L1's sets (64 of 64 bytes)."""
        output, seen = self.problem.output, self.problem.input.dims
        pixels = [d for d in self.problem.parallel_dims if d in seen and self.problem.extent(d) > 1]
        lines = [(output.pitch(dim) or 0) * output.element.size / 64 for dim in pixels]
        crowded = bool(lines) and min(lines) % 8 == 0 and self.kernel.lanes not in seen
        return output.runs_along(self.kernel.lanes) and not crowded

    @property
    def gathers(self) -> bool:
        """Whether vectors are transposed: the weights of a channel follow each other in memory as
        the reduction reads them, one channel after the other."""
        weights, dims = self.problem.weights, self.kernel.reduction
        steps = [weights.pitch(dim) or 0 for dim in dims]
        points = product(*(range(self.problem.extent(dim)) for dim in dims))
        row = [sum(a * b for a, b in zip(point, steps, strict=True)) for point in points]
        alone = self.problem.extent(self.kernel.lanes) == 1
        apart = alone or (weights.pitch(self.kernel.lanes) or 0) >= len(row)
        return not self.in_vectors and len(row) > 1 and row == list(range(len(row))) and apart

    def best(self, *places: str) -> float:
        """The least cost of all plans, or of those that pack at one of `places`."""
        least = inf
        options = [self.options(level) for level in range(3)]
        for place in places or (("whole", *LEVELS) if self.packs else ("none",)):
            fits = reduce(np.logical_and, [self.fits(level, place) for level in range(3)])
            for chosen in self.coupled(options, place):
                cost = np.where(fits, self.total(chosen, place), inf)
                least = min(least, float(cost.min()))
        return least

    def spread(self, dims: Iterable[str], values: Mapping[tuple[Any, ...], Any] | Array) -> Array:
        """An array over the cuts of `dims` (in the order of the moving dims), for broadcasting."""
        shape = [len(self.cuts[d]) if d in dims else 1 for d in self.whole.moving]
        return np.asarray(values, dtype=float).reshape(shape)

    def by_cut(self, dim: str, of: Any) -> Array:
        return self.spread([dim], np.array([of(cut_) for cut_ in self.cuts[dim]]))

    # ---- capacity ----------------------------------------------------------------------------

    def fits(self, level: int, place: str) -> Array:
        used: Any = 0.0
        for index in (INPUT, WEIGHTS, OUTPUT):
            copies = 1.0
            if index == WEIGHTS and LEVELS[level] == place:
                copies = 1.5 if place == "L1" else 2  # the next block is on its way
            used = used + copies * self.held(level, index)
        if LEVELS[level] == place and self.gathers:
            for dim in self.kernel.reduction[1:]:
                if dim in self.whole.moving:  # else weights would be moved one by one
                    whole = self.problem.extent(dim)
                    spans = self.by_cut(dim, lambda c, whole=whole: c.sizes[level] == whole)
                    used = used + np.where(spans > 0, 0.0, inf)
        cache_ = self.machine.cache(LEVELS[level])
        return np.asarray(used <= self.machine.capacity_factor * cache_.size)

    @kept
    def held(self, level: int, index: int) -> Array:
        """Bytes of a tensor in one tile of a level."""

        def one_tile(c: Cut) -> Lengths:
            return ((c.sizes[level], 1),)

        tensor = self.problem.tensors[index]
        size: Any = tensor.element.size
        for axis in range(len(tensor.axes)):
            size = size * self.over_axis(index, axis, one_tile, one_tile)
        return np.asarray(size)

    def over_axis(self, index: int, axis: int, first: Any, second: Any) -> Any:
        """Elements along an axis, summed over its tiles: `first` and `second` give their lengths
        for a cut of each of its dims."""
        terms = self.whole.terms(self.problem.tensors[index], axis)
        if not terms:
            return 1.0
        packed = index == WEIGHTS and self.panels
        ordered = sorted(terms, key=lambda term: self.whole.moving.index(term[0]))
        totals: dict[tuple[Lengths, ...], float] = {}  # many cuts have tiles of the same lengths
        values = []
        for pair in product(*(self.cuts[dim] for dim, _ in ordered)):
            by_dim = {dim: c for (dim, _), c in zip(ordered, pair, strict=True)}
            tiles = tuple(
                of(by_dim[dim]) for of, (dim, _) in zip((first, second), terms, strict=False)
            )
            if tiles not in totals:
                totals[tiles] = sum(
                    prod(number for _, number in some)
                    * self.whole.touched(index, axis, packed, tuple(length for length, _ in some))
                    for some in product(*tiles)
                )
            values.append(totals[tiles])
        return self.spread([dim for dim, _ in terms], np.array(values))

    # ---- volumes, for every order of the loops ------------------------------------------------

    def options(self, level: int) -> dict[tuple[Reuse, Reuse, Reuse], tuple[Array, Array, Array]]:
        """Elements of input, weights and output (as often as it passes) that enter the tiles of a
        level, for every reuse that some order of the loops that iterate gives; infinite for tilings
        in which none does."""
        iterates = {
            dim: self.by_cut(dim, lambda c: c.sizes[level] < c.outer_sizes[level]) > 0
            for dim in self.whole.moving
        }
        moving, passes = self.whole.moving, 2.0 if level else self.passes("write")
        only = {
            frozenset(loops): reduce(
                np.logical_and, [iterates[d] if d in loops else ~iterates[d] for d in moving]
            )
            for number in range(len(moving) + 1)
            for loops in combinations(moving, number)
        }
        found = {}
        for key, sets in self.whole.orders.items():
            live = reduce(np.logical_or, [only[loops] for loops in sets])
            if live.any():
                found[key] = (
                    np.where(live, self.moved(level, INPUT, key[INPUT]), inf),
                    np.where(live, self.moved(level, WEIGHTS, key[WEIGHTS]), inf),
                    np.where(live, passes * self.moved(level, OUTPUT, key[OUTPUT]), inf),
                )
        return found

    @kept
    def moved(self, level: int, index: int, reuse: Reuse) -> Array:
        inside, overlap = reuse
        tensor = self.problem.tensors[index]

        def number(dim: str) -> Any:
            return lambda c: sum(n for _, n in (c.outer if dim in inside else c.inner)[level])

        def tiles(dim: str) -> Any:
            return lambda c: (c.outer if dim == overlap else c.inner)[level]

        total: Any = 1.0
        for dim in self.whole.moving:
            if dim not in tensor.dims:
                total = total * self.by_cut(dim, number(dim))
        for axis in range(len(tensor.axes)):
            of = [tiles(dim) for dim, _ in self.whole.terms(tensor, axis)]
            total = total * self.over_axis(index, axis, *[*of, None, None][:2])
        return np.asarray(total)

    # ---- cost --------------------------------------------------------------------------------

    def coupled(self, options: list[Any], place: str) -> Iterator[list[Any]]:
        """What to choose per level. More traffic never helps, so that a level of its own takes the
        least; where the weights are packed and where accumulators stay in registers the choice
        matters for more than its traffic."""
        names = []
        for level, of_level in enumerate(options):
            if LEVELS[level] == place or level == 2 or (level == 1 and place == "none"):
                names.append(list(of_level))
            else:
                names.append([None])
        least = [reduce(np.minimum, [sum(amounts) for amounts in o.values()]) for o in options]
        for keys in product(*names):
            yield [
                (least[level], None, frozenset())
                if key is None
                else (sum(options[level][key]), options[level][key][WEIGHTS], key[OUTPUT][0])
                for level, key in enumerate(keys)
            ]

    def total(self, chosen: list[Any], place: str) -> Array:
        carried = chosen[2][2] if place != "L1" else frozenset()
        visits = self.visits(carried)
        cycles, each, read, weights, output, again = self.registers()
        core = cycles + each * visits
        channels = self.problem.by_role(Role.OUT_CHANNEL)
        rows_apart = not any(self.problem.weights.runs_along(dim) for dim in channels)
        if place == "none" and not self.panels:  # rows of weights are waited for
            size = self.problem.weights.element.size
            l3 = self.machine.cache("L3")
            rate = min(l3.busy_bandwidth or inf, l3.bandwidth, l3.bandwidth_all / self.cores)
            bits = 8 * size * self.kernel.vector
            slots = 1 if rows_apart else ceil(bits / (self.machine.unit_bits or bits))
            core = core + size * chosen[1][1] / rate * self.machine.frequency / slots**2
        amounts = {
            "L1": read + weights + output + again * visits,
            **{name: chosen[level][0] for level, name in enumerate(("DRAM", "L3", "L2"))},
        }
        runs: Any = RUN_SECONDS * self.runs() / self.cores
        if self.may_stream():
            once = np.asarray(self.moved(0, OUTPUT, (frozenset(), None)))
            size = self.problem.output.element.size * once
            read = min(self.machine.dram_bandwidth * self.cores, self.machine.dram_bandwidth_all)
            past, through = (self.passes(how) * size / (read * 1e9) for how in ("stream", "write"))
            runs = np.where(visits == 1, np.minimum(past - through, runs), runs)
        runs = runs + self.memory_for_sums()
        passed = {"whole": ("L1", "L2", "L3", "DRAM"), "L3": ("L1", "L2", "L3")}
        passed |= {"L2": ("L1", "L2"), "L1": ("L1",), "none": ()}
        if place != "none":
            packed: Any = float(prod(self.problem.extent(d) for d in self.problem.weights.dims))
            if place != "whole":
                packed = chosen[LEVELS.index(place)][1]
            mine = packed / self.cores if place in ("whole", "L3") else packed
            one_by_one = not (self.in_vectors or self.gathers)
            each = ELEMENT_CYCLES if one_by_one else PACK_CYCLES[place]
            if self.in_vectors:  # rows one after the other, however short
                each = max(each, PACK_ROW_CYCLES / self.kernel.tile[self.kernel.lanes])
            core = core + each * mine + self.first_wait(place, each)
            for name in passed[place]:
                amounts[name] = amounts[name] + PACK_PASSES * (packed if name == "DRAM" else mine)
        return self.objective(core, amounts, runs)

    @kept
    def first_wait(self, place: str, each: float) -> Array:
        """Cycles in which a core waits until the first block and the lines of its panels have come
        from memory, while it packs that block, `each` cycles per weight."""
        block: Any = 1.0
        for dim in self.problem.weights.dims:
            if dim in self.whole.moving:
                whole = self.problem.extent(dim)
                at = None if place == "whole" else LEVELS.index(place)
                block = block * self.by_cut(
                    dim, lambda c, at=at, whole=whole: whole if at is None else c.sizes[at]
                )
        cores = [1 if place in ("whole", "L3") else n for n in self.ways.values()]
        own = [
            n for (dim, n) in zip(self.ways, cores, strict=True) if dim in self.problem.weights.dims
        ]
        packs = self.cores if place in ("whole", "L3") else 1  # so many cores share it
        read = min(self.machine.dram_bandwidth * self.cores, self.machine.dram_bandwidth_all)
        size = self.problem.weights.element.size
        comes = size * block * (prod(own) + prod(cores)) / read * self.machine.frequency
        return np.asarray(np.maximum(comes, each * block / packs) - each * block / packs)

    @kept
    def runs(self) -> Array:
        """Elements of the output behind one of another L1 tile, or behind a gap."""
        dims = [dim for axis in self.problem.output.axes for dim in axis.dims]
        points = dict(zip(dims, np.indices([self.problem.extent(d) for d in dims]), strict=True))
        places = sum(points[dim] * (self.problem.output.pitch(dim) or 0) for dim in dims)
        gaps = np.diff(np.asarray(places).ravel()) != 1

        @cache
        def number(sizes: tuple[tuple[str, int], ...]) -> int:
            of_tile = np.array([(points[dim] // size).ravel() for dim, size in sizes])
            return 1 + int(((of_tile[:, 1:] != of_tile[:, :-1]).any(axis=0) | gaps).sum())

        ordered = sorted(dims, key=self.problem.names.index)
        sizes = product(*([(dim, c.sizes[2]) for c in self.cuts[dim]] for dim in ordered))
        return self.spread(dims, np.array([number(some) for some in sizes]))

    @kept
    def memory_for_sums(self) -> Array:
        """Seconds of memory for the sums of tiles that a loop over the reduction comes back to."""
        found: Any = np.zeros(1)
        if self.sums_stay:
            return np.asarray(found)
        for level, cores in ((0, 1), (1, self.cores)):
            comes_back: Any = False
            tile: Any = float(self.problem.output.element.size * cores)
            for dim in self.whole.moving:
                if dim in self.problem.output.dims:
                    tile = tile * self.by_cut(dim, lambda c, at=level: c.sizes[at])
                else:
                    whole = self.problem.extent(dim)
                    comes_back = comes_back | (
                        self.by_cut(
                            dim,
                            lambda c, at=level, whole=whole: (
                                c.sizes[at] < (c.sizes[at - 1] if at else whole)
                            ),
                        )
                        > 0
                    )
            found = np.maximum(found, np.where(comes_back, tile, 0.0))
        read = min(self.machine.dram_bandwidth * self.cores, self.machine.dram_bandwidth_all)
        return np.asarray(2 * found / (read * 1e9))

    @kept
    def visits(self, carried: frozenset[str]) -> Array:
        def is_register_tile(dim: str) -> Any:
            return lambda c: c.sizes[2] <= self.kernel.extent(dim)

        def number(which: str) -> Any:
            return lambda c: sum(n for _, n in getattr(c, which)[2])

        single: Any = True
        for dim in self.problem.parallel_dims:
            if dim in self.whole.moving:
                single = single & (self.by_cut(dim, is_register_tile(dim)) > 0)
        total: Any = 1.0
        for dim in self.problem.reduction_dims:
            if dim in self.whole.moving:
                inner, outer = (self.by_cut(dim, number(which)) for which in ("inner", "outer"))
                total = total * (np.where(single, outer, inner) if dim in carried else inner)
        return np.asarray(total)

    @kept
    def registers(self) -> list[Array]:
        """The fields of `RegisterWork`, summed over the register tiles of the first core."""
        kinds = {
            kind.partial: kind.work
            for kind in tile_kinds(self.problem, self.machine, self.kernel, panels=self.panels)
        }
        dims = [dim for dim in self.problem.parallel_dims if dim in self.whole.moving]

        def number(dim: str, short: bool) -> Any:
            unit = min(self.kernel.extent(dim), self.problem.extent(dim))
            return lambda c: sum(n for size, n in c.register_tiles if (size < unit) == short)

        totals: list[Any] = [0.0] * 6
        for shorts in product((False, True), repeat=len(dims)):
            names = frozenset(dim for dim, short in zip(dims, shorts, strict=True) if short)
            if names in kinds:
                some: Any = 1.0
                for dim, short in zip(dims, shorts, strict=True):
                    some = some * self.by_cut(dim, number(dim, short))
                totals = [t + some * w for t, w in zip(totals, kinds[names], strict=True)]
        return totals

    def passes(self, how: str) -> float:
        """How many times as long as a read from memory a write there takes."""
        one = getattr(self.machine, f"dram_{how}_bandwidth")
        if one is None:
            return 2.0 if how == "write" else 1.0
        most = getattr(self.machine, f"dram_{how}_bandwidth_all")
        read = min(self.machine.dram_bandwidth * self.cores, self.machine.dram_bandwidth_all)
        return float(read / min(one * self.cores, most))

    @kept
    def may_stream(self) -> bool:
        """Whether the output exceeds the last cache, or costs more to keep than to read again, and
        is written in whole aligned vectors."""
        output, vector, machine = self.problem.output, self.kernel.vector, self.machine
        size = output.element.size * prod(self.problem.extent(d) for d in output.dims)
        holding = [c.bandwidth for c in machine.caches if size <= machine.capacity_factor * c.size]
        if holding:
            rates = machine.dram_stream_bandwidth, machine.dram_write_bandwidth
            if None in rates:
                return False
            past, through = (size / rate for rate in rates)
            later = size / machine.dram_bandwidth - size / holding[0]
            if past + later >= through:
                return False
        along = self.kernel.lanes in output.axes[-1].dims and output.strides[-1] == 1
        return along and not any((step or 1) % vector for step in output.strides[:-1])

    @kept
    def starts(self) -> Array:
        """How often work is handed out: once for each tile of L3."""
        tiles: Any = 1.0
        for dim in self.whole.moving:
            tiles = tiles * self.by_cut(dim, lambda c: sum(n for _, n in c.inner[0]))
        return np.asarray(tiles)

    def objective(self, core: Any, amounts: Mapping[str, Any], runs: Any) -> Array:
        machine, cores = self.machine, self.cores
        rates = {
            cache_.name: min(
                cache_.busy_bandwidth or inf, cache_.bandwidth, cache_.bandwidth_all / cores
            )
            for cache_ in machine.caches
        }
        rates["DRAM"] = min(machine.dram_bandwidth * cores, machine.dram_bandwidth_all)
        size = self.problem.input.element.size
        times = {"core": core / (machine.frequency * 1e9)}
        for name, amount in amounts.items():
            times[name] = size * amount / (rates[name] * 1e9) + (runs if name == "DRAM" else 0.0)
        start = PARALLEL_START * self.starts() if cores > 1 else 0.0
        slots = 2 if machine.unit_bits and machine.vector_bits > machine.unit_bits else 1
        known = {cache_.name: cache_.exposed for cache_ in machine.caches}
        slowest, on_top = np.zeros(1), np.zeros(1)
        for name, time in times.items():
            part = (known.get(name) or EXPOSED[name]) / (slots if name == "L2" else 1)
            slowest, on_top = np.maximum(slowest, time), on_top + part * time
        return np.asarray(start + slowest + on_top)
