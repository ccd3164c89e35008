"""How vectors meet memory: the model prices the stores and the packing that code really has."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.workloads import Workload
from mopt_mlir.bindings import bindings_of
from mopt_mlir.machine import by_name
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.model.microkernel import tile_kinds
from mopt_mlir.model.packing import (
    ELEMENT_CYCLES,
    PACK_CYCLES,
    PACK_ROW_CYCLES,
    REST_CYCLES,
    cycles_per_weight,
    pack_cycles,
)
from mopt_mlir.pipeline.loading import load_module, run_passes
from mopt_mlir.plan import Level, Plan
from mopt_mlir.planning import plan_attribute
from mopt_mlir.planning.planner import convolutions
from mopt_mlir.problem import ElementType, LinearForm, Problem, Tensor, conv2d
from mopt_mlir.vector_access import packing_way

ZEN5 = by_name("znver5")
NCHW = Workload("small", k=10, h=2, w=6, c=4, r=3, s=3)
NHWC = replace(NCHW, layout="nhwc_hwcf")
REDUCTION = ("c", "r", "s")
STORE = re.compile(r"store\b.*?(%arg2|%rows\w*)\[")
"""To the output, or to a view of it whose rows are joined."""

SHUFFLES = {8: 3 * 0.75, 16: 4 * 0.75}
"""Cycles to transpose one accumulator, by its lanes: as many stages as vectors have halves."""


def tiled(workload: Workload, kernel: Microkernel) -> tuple[Problem, str]:
    """The problem of a convolution, and its loop nest with that microkernel and no other tiles."""
    module = load_module(workload.mlir())
    bindings = bindings_of(module)
    with module.context, module.location:
        (convolution,) = convolutions(module, bindings)
        plan = Plan("any", 1, kernel, (), {}, "whole")
        plan_attribute.attach(convolution.operation, plan, bindings)
    run_passes(module, "mopt-tile")
    text: str = module.get_asm(use_name_loc_as_prefix=True)
    return convolution.problem, text


@pytest.mark.parametrize(
    ("workload", "vector", "tile", "stores", "transposed"),
    [
        (NHWC, 16, {"k": 16, "w": 6}, 6, 0),  # rows of ten channels, masked
        (NHWC, 8, {"k": 16, "w": 6}, 6 * 2, 0),  # eight and two of them
        (NCHW, 16, {"k": 16, "w": 6}, 10, 6),  # a row of pixels for each channel there is
        (NCHW, 8, {"k": 16, "w": 6}, 10 * 2, 12),  # four and two pixels
        (NCHW, 16, {"k": 16, "w": 6, "h": 2}, 10, 12),  # two whole rows follow each other
        (NCHW, 8, {"k": 16, "w": 6, "h": 2}, 10 * 2, 24),  # eight and four pixels
        (NCHW, 16, {"k": 16, "w": 1}, 10, 0),  # one pixel: element by element
        (NCHW, 8, {"k": 16}, 10, 0),
        (replace(NCHW, w=20), 16, {"k": 16, "w": 20}, 10 * 2, 20),  # more than a vector
        (replace(NCHW, k=3, w=20), 16, {"w": 32, "k": 3}, 3 * 2, 0),  # lanes along the output
    ],
)
def test_the_model_counts_the_stores_that_code_has(
    workload: Workload, vector: int, tile: dict[str, int], stores: int, transposed: int
) -> None:
    """All register tiles are whole, and so code has one for all of them."""
    lanes = "w" if tile.get("w") == 32 else "k"
    kernel = Microkernel(lanes, vector, tile, REDUCTION)
    problem, text = tiled(workload, kernel)
    assert sum(1 for line in text.splitlines() if STORE.search(line)) == stores
    (kind,) = tile_kinds(problem, ZEN5, kernel, panels=lanes == "k")
    assert kind.tile.finish_cycles == stores + transposed * SHUFFLES[vector]


def test_rows_with_gaps_between_them_are_stored_apart() -> None:
    """Whole rows of an output that is part of a larger one."""
    kernel = Microkernel("k", 16, {"k": 16, "w": 6, "h": 2}, REDUCTION)
    problem = conv2d(k=10, h=2, w=6, c=4, r=3, s=3)
    strides = (*problem.output.strides[:-2], 8, 1)
    padded = replace(problem, output=replace(problem.output, strides=strides))
    finish = [
        tile_kinds(p, ZEN5, kernel, panels=True)[0].tile.finish_cycles for p in (problem, padded)
    ]
    assert finish[1] - finish[0] == 10  # a second store for each channel


CHANNELS = Microkernel("k", 16, {"k": 32}, REDUCTION)
PIXELS = Microkernel("w", 16, {"w": 16, "k": 16}, REDUCTION)
PIXELS_LAST = replace(CHANNELS, reduction=("r", "s", "c"))
PACKED = Workload("packed", k=64, h=2, w=16, c=4, r=3, s=3)
PACKED_NHWC = replace(PACKED, layout="nhwc_hwcf")


@pytest.mark.parametrize(
    ("workload", "kernel", "stores", "cycles"),
    [
        # 36 points by two vectors: two squares and a rest of four points
        (PACKED, CHANNELS, {"vector_store": 2 * (16 + 4)}, PACK_CYCLES["L2"]),
        (PACKED, PIXELS_LAST, {"store": 32}, ELEMENT_CYCLES),  # another order than they lie in
        (PACKED, PIXELS, {"store": 16}, ELEMENT_CYCLES),  # channels, which no vector runs along
        (PACKED_NHWC, PIXELS_LAST, {"vector_store": 2}, PACK_ROW_CYCLES / 32),
    ],
)
def test_weights_are_packed_as_the_model_says(
    workload: Workload, kernel: Microkernel, stores: dict[str, int], cycles: float
) -> None:
    problem, text = tiled(workload, kernel)
    found = re.findall(r"affine\.(\w*store) [^,]*, %(?:panels|packed)\w*\[", text)
    assert Counter(found) == stores
    assert pack_cycles(problem, kernel, "L2") == cycles


@pytest.mark.parametrize(
    ("block", "way"),
    [({}, "transposed"), ({"c": 2}, "transposed"), ({"s": 2}, "elements"), ({"r": 1}, "elements")],
)
def test_blocks_that_cut_rows_are_packed_one_by_one(block: dict[str, int], way: str) -> None:
    """All dims of the reduction but the outermost have to be whole for a transposition."""
    problem = conv2d(k=64, h=2, w=16, c=4, r=3, s=3)
    assert packing_way(problem, CHANNELS, {**problem.extents, **block}) == way


def test_panels_of_other_widths_than_vectors_are_filled_one_by_one() -> None:
    """Where lanes are pixels, panels are as wide as the register tile, whatever the vectors."""
    problem = conv2d(k=12, h=2, w=16, c=4, r=3, s=3, layout="nchw", weights="hwcf")
    kernels = [Microkernel("w", 4, {"w": 4, "k": k}, ("r", "s", "c")) for k in (4, 6)]
    ways = [packing_way(problem, kernel, problem.extents) for kernel in kernels]
    assert ways == ["vectors", "elements"]


@pytest.mark.parametrize(
    ("block", "cycles"),
    [
        ({}, PACK_CYCLES["L2"]),
        (
            {"c": 4},
            (32 * PACK_CYCLES["L2"] + 4 * REST_CYCLES) / 36,
        ),  # rows of two vectors and a rest
        ({"r": 1}, ELEMENT_CYCLES),
    ],
)
def test_what_is_left_over_of_rows_costs_more(block: dict[str, int], cycles: float) -> None:
    problem = conv2d(k=64, h=2, w=16, c=8, r=3, s=3)
    level = Level("L2", problem.names, {**problem.extents, **block})
    plan = Plan("any", 1, CHANNELS, (level,), {}, "L2")
    assert cycles_per_weight(problem, ZEN5, plan) == pytest.approx(cycles)


def test_the_distance_between_values_of_a_dim():
    """Over all axes that it moves along; unknown if one of these has an unknown stride."""
    axes = (LinearForm.of(h=2, r=1), LinearForm.of(h=1, c=0), LinearForm.of(w=1))
    tensor = Tensor("input", ElementType.F32, axes, (100, 10, 1))
    assert [tensor.pitch(dim) for dim in ("h", "r", "w", "c", "k")] == [210, 100, 1, 0, 0]
    tensor = Tensor("input", ElementType.F32, axes, (100, None, 1))
    assert [tensor.pitch(dim) for dim in ("h", "r", "w", "c", "k")] == [None, 100, 1, 0, 0]
