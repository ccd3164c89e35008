"""The solver against plain enumeration of every plan of 200 random tiny problems.

`MOPT_ENUMERATIONS=2000` looks at more of them than a usual run.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from plain_enumeration import Enumeration
from problems import conv1d, conv3d, matmul
from tiny_cases import random_case, random_machine

from mopt_mlir.machine import Machine
from mopt_mlir.problem import Problem, conv2d
from mopt_mlir.solver import proof, solve

PROBLEMS = int(os.environ.get("MOPT_ENUMERATIONS", "200"))
GAP = 0.002


@pytest.fixture(autouse=True)
def _scip_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are SCIP's, although these problems have few tilings."""
    monkeypatch.setattr(proof, "FEW_TILINGS", 0)
    monkeypatch.setattr(proof, "MOST_TILINGS", 0)


def check(problem: Problem, machine: Machine, threads: int, constant: bool) -> None:
    best = Enumeration(problem, machine, threads, constant).best()
    if best == inf:
        with pytest.raises(ValueError, match="fits into the caches"):
            solve(problem, machine, threads, constant_weights=constant)
        return
    plan = solve(problem, machine, threads, constant_weights=constant, gap=GAP)
    plan.check(problem)
    assert plan.prediction is not None
    assert plan.prediction.lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= plan.prediction.cost <= best * (1 + GAP + 1e-9)
    # tiles of such problems are shorter than lines, of which the bound knows less
    assert plan.prediction.gap <= 0.015


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_the_optimum_is_found_and_bounded(seed: int) -> None:
    check(*random_case(seed))


def test_outputs_that_are_written_past_the_caches() -> None:
    problem = conv2d(k=9, h=3, w=8, c=2, r=1, s=1)
    rng = random.Random(1)
    machine = random_machine(rng)
    small = replace(machine, caches=tuple(replace(c, size=c.size // 2) for c in machine.caches))
    check(problem, small, 1, constant=False)
    plan = solve(problem, small)
    assert plan.nontemporal
    assert not solve(problem, replace(small, dram_stream_bandwidth=1e-9)).nontemporal


def test_outputs_that_a_cache_would_hold_and_that_pass_it() -> None:
    problem = conv2d(k=9, h=3, w=8, c=2, r=1, s=1)
    machine = random_machine(random.Random(1))
    roomy = replace(
        machine,
        caches=tuple(
            replace(cache, size=16 * cache.size, bandwidth=speed, bandwidth_all=4 * speed)
            for cache, speed in zip(machine.caches, (60.0, 12.0, 6.0), strict=True)
        ),
        dram_bandwidth=3.0,
        dram_bandwidth_all=3.0,
        dram_write_bandwidth=0.5,
        dram_write_bandwidth_all=0.5,
        dram_stream_bandwidth=3.0,
        dram_stream_bandwidth_all=3.0,
    )
    check(problem, roomy, 1, constant=False)
    assert solve(problem, roomy).nontemporal
    even = replace(roomy, dram_write_bandwidth=3.0, dram_write_bandwidth_all=3.0)
    check(problem, even, 1, constant=False)
    assert not solve(problem, even).nontemporal


@pytest.mark.parametrize("channels", [10, 14, 18, 20])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_that_begin_at_lines(channels: int, seed: int) -> None:
    """They occupy fewer lines than smaller ones that do not."""
    problem = conv2d(k=4, h=1, w=1, c=channels, r=1, s=1, layout="nhwc", weights="fhwc")
    check(problem, random_machine(random.Random(seed)), 1, constant=seed % 2 > 0)


@pytest.mark.parametrize(
    "sizes",
    [
        {"w": 12, "stride": (1, 20)},
        {"w": 6, "s": 3, "stride": (1, 24)},
        {"w": 6, "s": 3, "dilation": (1, 20)},
        {"w": 5, "s": 2, "stride": (1, 32), "dilation": (1, 32)},
        {"w": 7, "s": 2, "stride": (1, 18), "dilation": (1, 36)},
    ],
)
def test_points_that_are_lines_apart(sizes: dict[str, Any]) -> None:
    """What lies between them never moves, and no point moves twice for two taps."""
    problem = conv2d(**{"k": 4, "h": 1, "c": 2, "r": 1, "s": 1} | sizes)
    for seed in range(2):
        check(problem, random_machine(random.Random(seed)), 1, constant=False)


@pytest.mark.parametrize(
    "problem",
    [
        matmul(6, 9, 5),
        conv1d(5, 9, 3, 3),
        conv1d(4, 9, 2, 4, stride=2),
        conv3d(4, 2, 1, 6, 2, 2, 1, 2),
    ],
    ids=["matmul", "1-d", "1-d strided", "3-d"],
)
def test_other_problems(problem: Problem) -> None:
    rng = random.Random(8)
    for threads in (1, 3):
        check(problem, random_machine(rng), threads, constant=False)
