"""Lines of memory that evict each other from a cache although it has room: those that lie a
multiple of its sets apart, as rows whose length is a power of two do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mopt_mlir.machine.machine import Cache
from mopt_mlir.problem import Tensor


def conflicting_lines(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> int:
    """By how many lines a tile of `tile` points of `tensor` exceeds the ways of the sets of `cache`
    that they fall on. 0 where nothing is known of the memory."""
    return sum(max(0, number - cache.ways) for number in _per_set(tensor, tile, cache))


def crowded_lines(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> int:
    """All lines on such sets: none of them stays where the least recently used is what is replaced,
    as it is what is needed next."""
    return sum(number for number in _per_set(tensor, tile, cache) if number > cache.ways)


def _per_set(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> list[int]:
    """How many lines fall on each set that any falls on."""
    offsets, size = {0}, tensor.element.size
    for dim, points in tile.items():
        step = tensor.step(dim)
        if step is None:
            return []
        every = max(1, cache.line // max(1, abs(step) * size))  # points of a line
        offsets = {at + step * point for at in offsets for point in range(0, points, every)}
    sets = max(1, cache.size // (cache.line * cache.ways))
    lines = {at * size // cache.line for at in offsets}
    return list(Counter(line % sets for line in lines).values())
