"""Permutation classes: computed from the accesses, they are the paper's eight for a convolution."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from problems import matmul

from mopt_mlir.model.classes import permutation_classes, reuse_of
from mopt_mlir.model.volume import Tiling, cut, live_order, volume, whole
from mopt_mlir.problem import Problem, conv2d


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_has_the_eight_classes_of_the_paper(layout: str, stride: int) -> None:
    problem = conv2d(n=2, k=8, h=8, w=8, c=8, r=3, s=3, stride=stride, layout=layout)
    classes = permutation_classes(problem)
    assert sorted(c.name for c in classes) == ["h", "hk", "r", "rk", "s", "sk", "w", "wk"]
    bands = {c.name: c.order for c in classes}
    # Sec. 4: <{kt, ct, rt, st}, {nt, ht}, wt> and <{nt, kt, ht, wt}, {ct, rt}, st>
    assert set(bands["w"][:4]) == set("kcrs")
    assert set(bands["w"][4:6]) == set("nh")
    assert set(bands["s"][:4]) == set("nkhw")
    assert set(bands["s"][4:6]) == set("cr")
    assert all(bands[name][-2:] == tuple(name) for name in ("wk", "hk", "sk", "rk"))


def test_degenerate_problems_have_fewer_classes() -> None:
    assert {c.name for c in permutation_classes(matmul(4, 5, 6))} == {"n", "c", "ck"}
    pointwise = permutation_classes(conv2d(k=8, h=1, w=64, c=8, r=1, s=1))
    assert len(pointwise) == 3
    assert [c.order[:4] for c in pointwise] == [("n", "h", "r", "s")] * 3
    assert len(permutation_classes(conv2d(k=1, h=1, w=1, c=1, r=1, s=1))) == 1


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_no_order_moves_less_than_the_best_class(stride: int, dilation: int) -> None:
    """All 5040 orders on random tilings of one level, whole and partial tiles."""
    rng = random.Random(stride * 10 + dilation)
    problem = conv2d(n=2, k=6, h=7, w=6, c=4, r=3, s=4, stride=stride, dilation=dilation)
    orders = list(permutations(problem.names))
    classes = [c.order for c in permutation_classes(problem)]
    for _ in range(4):
        tile = {dim.name: rng.randint(1, dim.extent) for dim in problem.dims}
        level = Tiling(tile, {d: cut({problem.extent(d): 1}, tile[d]) for d in problem.names})
        best = min(moved(problem, level, order) for order in classes)
        assert best == min(moved(problem, level, order) for order in orders)


def moved(problem: Problem, level: Tiling, order: tuple[str, ...]) -> int:
    outer = whole(problem)
    reuse = reuse_of(problem, live_order(problem, order, level, outer))
    return sum(
        passes * volume(problem, tensor, how, level, outer)
        for tensor, how, passes in zip(problem.tensors, reuse, (1, 1, 2), strict=True)
    )
