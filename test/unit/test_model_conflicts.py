"""Lines that meet in a set of a cache, counted by hand."""

from dataclasses import replace

import pytest

from mopt_mlir import conv2d
from mopt_mlir.machine import by_name
from mopt_mlir.model.conflicts import conflicting_lines, crowded_lines
from mopt_mlir.model.microkernel import (
    EVICTED_STORE_CYCLES,
    EVICTED_SUMS_CYCLES,
    RegisterTile,
    tile_kinds,
)
from mopt_mlir.plan import Microkernel

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

    def tile(kernel: Microkernel, height: int) -> RegisterTile:
        problem = conv2d(k=80, h=height, w=64, c=8, r=1, s=1)
        return tile_kinds(problem, machine, kernel, panels=kernel.lanes == "k")[0].tile

    channels = Microkernel("k", 16, {"k": 32, "w": 4}, ("c",))  # sums wait elsewhere
    apart, meeting = tile(channels, 65), tile(channels, 64)
    assert meeting.finish - apart.finish == pytest.approx((32 - 12) * cycles)
    assert meeting.store_conflicts == 0
    pixels = Microkernel("w", 16, {"w": 16, "k": 20}, ("c",))  # and here in the output
    apart, meeting = tile(pixels, 65), tile(pixels, 64)
    assert meeting.finish == apart.finish
    assert apart.store_conflicts == 0
    assert meeting.store_conflicts == (20 - 12) * max(cycles, EVICTED_SUMS_CYCLES)
