"""Footprints and data volumes against counting, the paper's closed forms and a simulated cache."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from statistics import median

import pytest
from plain_cache import LeastRecentlyUsed

from mopt_mlir.model.classes import permutation_classes, reuse_of
from mopt_mlir.model.footprint import axis_of, footprint, memory_axes, occupied
from mopt_mlir.model.volume import Tiling, cut, live_order, volume, whole
from mopt_mlir.problem import LinearForm, Problem, Tensor, conv2d


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
def test_footprints_count_distinct_elements(stride: int, dilation: int) -> None:
    problem = conv2d(k=2, h=9, w=9, c=2, r=7, s=7, stride=stride, dilation=dilation)
    for points, taps in product((1, 2, 3, 5, 9), (1, 2, 3, 7)):
        touched = {stride * h + dilation * r for h in range(points) for r in range(taps)}
        tile = {"n": 1, "k": 2, "h": points, "w": 1, "c": 2, "r": taps, "s": 1}
        assert footprint(problem, problem.input, tile) == 2 * len(touched)
        assert footprint(problem, problem.weights, tile) == 4 * taps
        assert footprint(problem, problem.output, tile) == 2 * points


def test_an_axis_of_three_dims_is_refused() -> None:
    problem = conv2d(k=2, h=9, w=9, c=2, r=3, s=3)
    with pytest.raises(ValueError, match=r"axis 1\*h \+ 1\*r \+ 1\*s is not an image dim"):
        axis_of(problem, LinearForm.of(h=1, r=1, s=1))


def test_tiles_are_cut_with_partial_ones() -> None:
    tiles = cut({10: 1}, 4)
    assert tiles == {4: 2, 2: 1}
    assert cut(tiles, 3) == {3: 2, 1: 2, 2: 1}
    assert cut({}, 4) == {}


def one_level(problem: Problem, tile: dict[str, int]) -> Tiling:
    return Tiling(tile, {d: cut({problem.extent(d): 1}, tile[d]) for d in problem.names})


def volumes(problem: Problem, tile: dict[str, int], order: tuple[str, ...]) -> dict[str, int]:
    level, outer = one_level(problem, tile), whole(problem)
    reuse = reuse_of(problem, live_order(problem, order, level, outer))
    return {
        tensor.name: volume(problem, tensor, how, level, outer)
        for tensor, how in zip(problem.tensors, reuse, strict=True)
    }


@pytest.mark.parametrize("stride", [1, 2])
def test_closed_forms_of_the_paper(stride: int) -> None:
    """Sec. 4, with T_n T_c (not T_k T_c) in the input's volume, N_h/T_h in Out and Ker where k is
    innermost, and without the factor 2 of the output."""
    extent = {"n": 4, "k": 12, "c": 8, "r": 6, "s": 4, "h": 10, "w": 9}
    tile = {"n": 2, "k": 4, "c": 2, "r": 3, "s": 2, "h": 5, "w": 3}
    problem = conv2d(**extent, stride=stride)
    tn, tk, tc, tr, ts, th, tw = tile.values()
    qn, qk, qc, qr, qs, qh, qw = (extent[d] // tile[d] for d in extent)
    every = qn * qk * qc * qr * qs * qh * qw
    out, ker = tn * tk * th * tw, tk * tc * tr * ts
    st = stride  # at most T_r and T_s, as in the paper
    rows, columns = st * (th - 1) + tr, st * (tw - 1) + ts
    # The input's overlapping axis: without the trips of the innermost loop, over its whole length.
    forms = {
        "w": (
            every // qw * tn * tc * rows * (st * (extent["w"] - 1) + ts),
            qk * qc * qr * qs * ker,
            every * out,
        ),
        "h": (
            every // qh * tn * tc * (st * (extent["h"] - 1) + tr) * columns,
            qk * qc * qr * qs * ker,
            every * out,
        ),
        "s": (
            every // qs * tn * tc * rows * (st * (tw - 1) + extent["s"]),
            every * ker,
            qn * qk * qh * qw * out,
        ),
        "r": (
            every // qr * tn * tc * (st * (th - 1) + extent["r"]) * columns,
            every * ker,
            qn * qk * qh * qw * out,
        ),
    }
    for name, (moved, *others) in list(forms.items()):
        forms[name + "k"] = (moved // qk, every * ker, every * out)
        assert len(others) == 2
    for cls in permutation_classes(problem):
        moved = volumes(problem, tile, cls.order)
        assert (moved["input"], moved["weights"], moved["output"]) == forms[cls.name], cls.name


def test_matrix_multiplication_is_equation_3() -> None:
    """N_i N_j N_k (1/T_i + 1/T_j + 2/N_k) with the reduction innermost."""
    problem = conv2d(k=24, h=1, w=36, c=30, r=1, s=1)
    tile = {"n": 1, "k": 6, "h": 1, "w": 9, "c": 5, "r": 1, "s": 1}
    moved = volumes(problem, tile, ("n", "h", "r", "s", "k", "w", "c"))
    product_ = 24 * 36 * 30
    assert moved["input"] + moved["weights"] + 2 * moved["output"] == (
        product_ // 6 + product_ // 9 + 2 * product_ // 30
    )


def test_loops_that_run_once_do_not_matter() -> None:
    problem = conv2d(k=8, h=8, w=8, c=8, r=3, s=3)
    tile = {**problem.extents, "h": 2}
    classes = permutation_classes(problem)
    assert len({tuple(volumes(problem, tile, c.order).values()) for c in classes}) == 1


@pytest.mark.parametrize(
    ("strides", "elements"),
    [
        ((4 * 4 * 56, 4 * 56, 56, 1), 56),  # each row begins where the one before ends
        ((4 * 4 * 64, 4 * 64, 64, 1), 64),
        ((None, None, None, 1), sum(16 * -(-(start + 56) // 16) for start in range(16)) / 16),
        ((None, 4 * 64, 64, 1), sum(16 * -(-(start + 56) // 16) for start in range(16)) / 16),
    ],
)
def test_rows_at_unknown_distances_may_begin_anywhere_in_lines(
    strides: tuple[int | None, ...], elements: float
) -> None:
    problem = conv2d(n=2, k=8, h=4, w=56, c=4, r=1, s=1)
    axes = memory_axes(problem, replace(problem.input, strides=strides), 64)
    assert occupied(axes, {**dict.fromkeys(problem.names, 1), "w": 56}) == elements


ALPHA = 0.75
"""The part of a real LRU cache that tiles may fill, as in `Machine.capacity_factor`."""


def test_volumes_agree_with_the_misses_of_a_simulated_cache() -> None:
    rng = random.Random(7)
    ratios = []
    for _ in range(24):
        problem, tile = random_tiling(rng)
        cls = rng.choice(permutation_classes(problem))
        capacity = sum(footprint(problem, t, tile) for t in problem.tensors) / ALPHA
        predicted = sum(volumes(problem, tile, cls.order).values())
        ratios.append(lru_misses(problem, tile, cls.order, int(capacity)) / predicted)
    assert 0.95 < median(ratios) < 1.05
    assert sum(0.7 < ratio < 1.1 for ratio in ratios) >= 20, sorted(ratios)


def random_tiling(rng: random.Random) -> tuple[Problem, dict[str, int]]:
    stride, dilation = rng.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
    problem = conv2d(k=8, h=6, w=6, c=4, r=3, s=3, stride=stride, dilation=dilation)
    tile = {}
    for dim in problem.dims:
        divisors = [size for size in range(1, dim.extent + 1) if dim.extent % size == 0]
        tile[dim.name] = rng.choice(divisors)
    return problem, tile


def lru_misses(
    problem: Problem, tile: dict[str, int], order: tuple[str, ...], capacity: int
) -> int:
    """Misses of a fully associative LRU cache of `capacity` elements over the tiled loops."""
    cache = LeastRecentlyUsed(capacity)
    misses = 0
    tiles = [range(0, problem.extent(dim), tile[dim]) for dim in order]
    for corner in product(*tiles):
        start = dict(zip(order, corner, strict=True))
        inside = [range(start[dim], start[dim] + tile[dim]) for dim in problem.names]
        for values in product(*inside):
            point = dict(zip(problem.names, values, strict=True))
            for number, tensor in enumerate(problem.tensors):
                misses += cache.fetches((number, *index(tensor, point)))
    return misses


def index(tensor: Tensor, point: dict[str, int]) -> tuple[int, ...]:
    return tuple(sum(step * point[dim] for dim, step in axis.terms) for axis in tensor.axes)
