"""Random problems and machines so small that every plan can be enumerated."""

from __future__ import annotations

import random
from dataclasses import replace

from mopt_mlir.machine import Cache, Machine
from mopt_mlir.problem import Problem, conv2d


def random_machine(rng: random.Random) -> Machine:
    """Caches that hold little, of short or long lines, and memory that is fast or slow; `clock`
    makes handing out work to other cores cheap or dear. On some an operation takes two slots; those
    with some sizes of L1 know what part of the time of L2 or L3 is exposed, how much slower L2 is
    while a core computes, and that multiply-adds and loads hinder each other."""
    line, l1 = rng.choice([16, 64]), rng.choice([256, 512, 768, 1024])
    clock = rng.choice([1.0, 0.1, 0.01])
    speed = clock * rng.choice([0.2, 1.0, 4.0])
    writes = {}
    if rng.random() < 0.5:
        stream = rng.choice([1.8, 2.5])
        writes = {
            "dram_write_bandwidth": 2 * speed,
            "dram_write_bandwidth_all": 3 * speed,
            "dram_stream_bandwidth": stream * speed,
            "dram_stream_bandwidth_all": (stream + 1) * speed,
        }
    return Machine(
        name="tiny",
        cpu="x86-64",
        cores=4,
        frequency=clock,
        vector_bits=128,
        vector_registers=rng.choice([4, 6]),
        fma_per_cycle=2,
        loads_per_cycle=2,
        fma_latency=4,
        unit_bits=64 if clock == 0.1 else None,
        issue_norm={512: 4.0}.get(l1),
        caches=(
            Cache("L1", l1, line, 4, False, 60 * speed, 240 * speed),
            Cache(
                "L2",
                2 * l1,
                line,
                4,
                False,
                12 * speed,
                48 * speed,
                {768: 0.4}.get(l1),
                {768: 8 * speed}.get(l1),
            ),
            Cache("L3", 4 * l1, line, 4, True, 6 * speed, 12 * speed, {256: 0.2}.get(l1)),
        ),
        dram_bandwidth=3 * speed,
        dram_bandwidth_all=4 * speed,
        **writes,
    )


def random_convolution(rng: random.Random) -> Problem:
    return conv2d(
        n=rng.choice([1, 1, 1, 2]),
        k=rng.choice([1, 2, 4, 5, 8, 9, 12]),
        h=rng.choice([1, 1, 2, 3]),
        w=rng.choice([1, 3, 4, 6, 8]),
        c=rng.choice([1, 2, 3, 4, 6]),
        r=rng.choice([1, 1, 2, 3]),
        s=rng.choice([1, 1, 2, 3]),
        stride=rng.choice([1, 1, 2, 3]),
        dilation=rng.choice([1, 1, 2]),
        layout=rng.choice(["nchw", "nhwc"]),
        weights=rng.choice(["fchw", "hwcf", "fhwc"]),
    )


def tilings(problem: Problem) -> int:
    """About how many there are: three nested sizes along each dim."""
    number = 1
    for dim in problem.dims:
        sizes = min(dim.extent, 3) if dim.name == "k" else dim.extent
        number *= sizes * (sizes + 1) * (sizes + 2) // 6
    return number


def random_case(seed: int) -> tuple[Problem, Machine, int, bool]:
    rng = random.Random(seed)
    problem = random_convolution(rng)
    while not 50 < tilings(problem) < 5000:
        problem = random_convolution(rng)
    if seed % 3 == 0 and problem.output.runs_along("k"):
        problem = with_pixels_apart(problem)
    return problem, random_machine(rng), rng.choice([1, 2, 4]), rng.random() < 0.3


def with_pixels_apart(problem: Problem) -> Problem:
    """The problem with channels of its output that are part of 128 of each pixel."""
    *outer, channel = problem.output.strides
    strides = (*(128 * (step or 0) // problem.extent("k") for step in outer), channel)
    return replace(problem, output=replace(problem.output, strides=strides))


STREAMS = (1.0, 1.8, 2.5)
"""GB/s of stores past the caches, where ordinary ones reach 2."""


def streaming_machine(stream: float) -> Machine:
    """One that the output of small problems does not fit into. Short runs of it cost about as much
    as its volume, if it goes through the caches."""
    machine = random_machine(random.Random(1))
    caches = (
        replace(cache, size=cache.size // 2, bandwidth=speed, bandwidth_all=speed)
        for cache, speed in zip(machine.caches, (60.0, 12.0, 6.0), strict=True)
    )
    return replace(
        machine,
        frequency=1.0,
        caches=tuple(caches),
        dram_bandwidth=3.0,
        dram_bandwidth_all=3.0,
        dram_write_bandwidth=2.0,
        dram_write_bandwidth_all=2.0,
        dram_stream_bandwidth=stream,
        dram_stream_bandwidth_all=stream,
    )
