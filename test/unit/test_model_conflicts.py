"""Lines that meet in a set of a cache, counted by hand."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest

from mopt_mlir import conv2d
from mopt_mlir.machine import Cache, by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model import conflicts
from mopt_mlir.model.conflicts import conflicting_lines, crowded_lines
from mopt_mlir.model.microkernel import (
    EVICTED_STORE_CYCLES,
    EVICTED_SUMS_CYCLES,
    TileOperations,
    tile_kinds,
)
from mopt_mlir.problem import ElementType, Tensor

L1 = by_name("znver5").cache("L1")  # 64 sets of 12 lines of 64 bytes
ROWS = {1024: 1, 512: 2, 256: 4, 1040: 64}
"""Input channels of a 1x1 convolution, and the sets that its rows of weights begin in."""


@pytest.mark.parametrize(("channels", "sets"), ROWS.items())
def test_rows_of_weights(channels: int, sets: int) -> None:
    problem = conv2d(k=64, h=8, w=8, c=channels, r=1, s=1)
    for rows in (4, 12, 13, 24, 25, 48, 60):
        per_set = [len(range(first, rows, sets)) for first in range(min(sets, rows))]
        expected = sum(max(0, number - 12) for number in per_set)
        assert conflicting_lines(problem.weights, {"k": rows}, L1) == expected
        crowded = sum(number for number in per_set if number > 12)
        assert crowded_lines(problem.weights, {"k": rows}, L1) == crowded


def test_neighbours_share_lines() -> None:
    problem = conv2d(k=4, h=32, w=32, c=4, r=1, s=1)
    assert conflicting_lines(problem.input, {"w": 1024}, L1) == 0


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_counted_as_if_one_by_one(seed: int) -> None:
    """In caches of a few sets, with tiles of one or two elements and of whole tensors, which may
    run backwards and have gaps between their rows."""
    rng = random.Random(seed)
    for _ in range(50):
        line, ways = rng.choice([16, 32, 64]), rng.choice([1, 2, 3])
        cache = replace(L1, size=line * ways * rng.choice([1, 2, 4, 6]), line=line, ways=ways)
        sizes = {dim: rng.choice([1, 2, 3, 8, 13, 16, 17]) for dim in "khw"}
        element = rng.choice(list(ElementType))
        tensor = conv2d(**sizes, c=1, r=1, s=1, element=element).output
        strides, step = [], 1
        for dim in reversed(("n", *sizes)):
            strides.append(step * rng.choice([1, 1, 1, -1]))
            step = step * sizes.get(dim, 1) + rng.choice([0, 0, 0, 1, 5])
        tensor = replace(tensor, strides=tuple(reversed(strides)))
        tile = {dim: rng.randint(1, sizes[dim]) for dim in rng.sample(sorted(sizes), 3)}
        per_set = lines_one_by_one(tensor, tile, cache)
        found = conflicting_lines(tensor, tile, cache), crowded_lines(tensor, tile, cache)
        assert found == (
            sum(number - cache.ways for number in per_set if number > cache.ways),
            sum(number for number in per_set if number > cache.ways),
        )


def lines_one_by_one(tensor: Tensor, tile: Mapping[str, int], cache: Cache) -> list[int]:
    """How many lines fall on each set, of points no further apart than a line needs."""
    walks = []
    for dim, points in tile.items():
        step = tensor.pitch(dim)
        assert step is not None
        every = max(1, cache.line // (abs(step) * tensor.element.size))
        walks.append([step * point for point in range(0, points, every)])
    offsets = map(sum, product(*walks))
    lines = {offset * tensor.element.size // cache.line for offset in offsets}
    return list(Counter(line % (cache.size // cache.line // cache.ways) for line in lines).values())


@pytest.mark.parametrize("width", [512, 500])
def test_a_tensor_of_any_size_takes_no_time(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("lines are listed one by one")

    monkeypatch.setattr(conflicts, "_listed", fail)
    output = conv2d(k=512, h=512, w=width, c=1, r=1, s=1).output
    # all of its lines, equally many on each set
    expected = 512 * 512 * width * 4 // 64 - 64 * 12
    assert conflicting_lines(output, {"k": 512, "h": 512, "w": width}, L1) == expected


def test_kernels_with_rows_that_meet_take_longer() -> None:
    machine = by_name("znver5")

    def cycles(channels: int, rows: int) -> float:
        problem = conv2d(k=60, h=16, w=16, c=channels, r=1, s=1)
        kernel = Microkernel("w", 16, {"w": 16, "k": rows}, ("c",))
        (whole,) = tile_kinds(problem, machine, kernel, panels=False)
        return (whole.work.cycles + whole.work.cycles_per_visit) / channels

    assert cycles(1024, 12) == pytest.approx(cycles(1040, 12), rel=0.02)
    assert cycles(1024, 20) > 1.5 * cycles(1040, 20)


@pytest.mark.parametrize(("given", "cycles"), [(20.0, 20.0), (None, EVICTED_STORE_CYCLES)])
def test_channels_of_output_that_meet_wait_for_each_other(
    given: float | None, cycles: float
) -> None:
    """Those of 64x64 pixels all begin in one set, those of 65x64 in every fourth."""
    machine = replace(by_name("znver5"), evicted_store_cycles=given)

    def tile(kernel: Microkernel, height: int) -> TileOperations:
        problem = conv2d(k=80, h=height, w=64, c=8, r=1, s=1)
        return tile_kinds(problem, machine, kernel, panels=kernel.lanes == "k")[0].tile

    channels = Microkernel("k", 16, {"k": 32, "w": 4}, ("c",))  # sums wait elsewhere
    apart, meeting = tile(channels, 65), tile(channels, 64)
    assert meeting.finish_cycles - apart.finish_cycles == pytest.approx((32 - 12) * cycles)
    assert meeting.evicted_cycles == 0
    pixels = Microkernel("w", 16, {"w": 16, "k": 20}, ("c",))  # and here in the output
    apart, meeting = tile(pixels, 65), tile(pixels, 64)
    assert meeting.finish_cycles == apart.finish_cycles
    assert apart.evicted_cycles == 0
    assert meeting.evicted_cycles == (20 - 12) * max(cycles, EVICTED_SUMS_CYCLES)
