"""Lines of memory that evict each other from a cache although it has room: those that lie a
multiple of its sets apart, as rows whose length is a power of two do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

from mopt_mlir.machine.machine import Cache
from mopt_mlir.problem import Problem, Tensor

PAGE = 4096
"""Bytes of a page of memory. Pages lie anywhere, so that a cache with larger ways distributes them
evenly over its sets, but not the lines of each of them."""


def row_pitch(problem: Problem, tensor: Tensor) -> int:
    """Bytes between the places of a page in which rows of `tensor` begin, along whichever dim it is
    contiguous; 0 for a single row, or where nothing is known of the memory."""
    steps = [tensor.pitch(dim) for dim in tensor.dims if problem.extent(dim) > 1]
    if None in steps or len(steps) < 2:
        return 0
    apart = sorted(abs(step) for step in steps if step is not None)[1:]
    return gcd(PAGE, *(step * tensor.element.size for step in apart))


def conflicting_lines(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> int:
    """By how many lines a tile of `tile` points of `tensor` exceeds the ways of the sets of `cache`
    that they fall on. 0 where nothing is known of the memory."""
    return sum(max(0, number - cache.ways) for number in _per_set(tensor, tile, cache))


def crowded_lines(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> int:
    """The lines of a tile on sets that have fewer ways than lines: none of them stays where the
    least recently used is what is replaced, as it is what is needed next."""
    return sum(number for number in _per_set(tensor, tile, cache) if number > cache.ways)


def touched_lines(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> int:
    """All lines of a tile. 0 where nothing is known of the memory."""
    return sum(_per_set(tensor, tile, cache))


def _per_set(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> tuple[int, ...]:
    """How many lines fall on each set that any falls on, of points that are no further apart than
    a line. (A run that begins inside of a line may touch one more than counts.)"""
    size = tensor.element.size
    progressions = []
    for dim, points in tile.items():
        step = tensor.pitch(dim)
        if step is None:
            return ()
        if step:
            every = max(1, cache.line // (abs(step) * size))  # points of a line
            progressions.append(_Progression(step * every, -(-points // every)))
    sets = max(1, cache.size // (cache.line * cache.ways))
    return _on_sets(tuple(progressions), size, cache.line, sets)


@lru_cache(maxsize=1 << 12)
def _on_sets(
    progressions: tuple[_Progression, ...], size: int, line: int, sets: int
) -> tuple[int, ...]:
    """Lines on each set that any falls on, of the points that are a sum of one of each progression.
    (Many microkernels have the same tiles.)"""
    progressions = tuple(sorted(progressions, key=lambda along: -abs(along.step)))
    points = prod(along.number for along in progressions)
    if points <= sets * line // size or not _is_nested(progressions):
        found = _listed(progressions, size, line, sets)
    else:
        found = _counted(progressions, size, line, sets)
    return tuple(number for number in found if number)


@dataclass(frozen=True)
class _Progression:
    """`number` points, the first of them at 0, each `step` elements behind the one before."""

    step: int
    number: int

    @property
    def span(self) -> int:
        """Elements from the first point to the last."""
        return abs(self.step) * (self.number - 1)


def _is_nested(progressions: Sequence[_Progression]) -> bool:
    """Whether each step passes over all that the progressions behind it, in order, go through."""
    spans = [along.span for along in progressions]
    return all(abs(along.step) > sum(spans[at + 1 :]) for at, along in enumerate(progressions))


def _listed(progressions: Sequence[_Progression], size: int, line: int, sets: int) -> list[int]:
    """Lines on each set of the points that are a sum of one of each progression, one by one."""
    offsets = {0}
    for along in progressions:
        offsets = {at + along.step * point for at in offsets for point in range(along.number)}
    lines = {at * size // line for at in offsets}
    return list(Counter(number % sets for number in lines).values())


def _counted(progressions: Sequence[_Progression], size: int, line: int, sets: int) -> list[int]:
    """How many lines fall on each set, for nested progressions, in a time that does not depend on
    how long these are.

    1. What matters of a point is where it lies in a round of all sets, so that it is enough to
       count the points at each of these places.
    2. In memory order, a point is the first of its line if it lies less far into the line than
       behind the point before it.
    3. As the progressions are nested, the point before one lies back by a step of the innermost
       that has moved, less what those inside of it went through to their ends.
    """
    round_ = sets * line // size
    first = -sum(along.span for along in progressions if along.step < 0) % round_
    places = [0] * round_
    places[first] = 1
    lines = [0] * sets
    lines[first * size // line] = 1
    for at, along in enumerate(progressions):
        moved = _moved(places, abs(along.step), along.number - 1)
        behind = size * (abs(along.step) - sum(inner.span for inner in progressions[at + 1 :]))
        for place, number in enumerate(moved):
            if place * size % line < behind:
                lines[place * size // line] += number
        places = [one + more for one, more in zip(places, moved, strict=True)]
    return lines


def _moved(places: Sequence[int], step: int, times: int) -> list[int]:
    """Points at each place after `places` have moved on, around, by one to so many `times` steps,
    all of these together."""
    moved = [0] * len(places)
    starts = gcd(step, len(places))
    for start in range(starts):
        cycle = [(start + step * turn) % len(places) for turn in range(len(places) // starts)]
        rounds, rest = divmod(times, len(cycle))
        whole = rounds * sum(places[place] for place in cycle)
        window = sum(places[cycle[-back]] for back in range(1, rest + 1))
        for turn, place in enumerate(cycle):
            moved[place] = whole + window
            window += places[place] - places[cycle[turn - rest]]
    return moved
