"""Generated code computes what the operation says, for any plan: random problems, random plans.

No solver is involved: plans are drawn from all over the space that `Plan.check` allows, sizes that
divide nothing and lanes that lie apart in the output included (vectors are whole or half ones, and
register tiles have up to five places along dims without lanes).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest

import mopt_mlir
from benchmarks.workloads import DTYPES, Array, Workload, random_workloads
from mopt_mlir.bindings import bindings, bindings_of
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.rewrite import rewrite
from mopt_mlir.linalg.extract import extract
from mopt_mlir.machine import host
from mopt_mlir.microkernel import MOST_ACCUMULATORS, Microkernel
from mopt_mlir.normal_form import normalise
from mopt_mlir.pipeline.loading import load_module, run_passes
from mopt_mlir.pipeline.pass_registry import create
from mopt_mlir.plan import LEVELS, PREFETCH_LEVELS, Level, Plan
from mopt_mlir.planning.plan_attribute import attach
from mopt_mlir.planning.planned import PlannedConvolution
from mopt_mlir.planning.planner import convolutions
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import streams_whole_vectors

VECTOR_BYTES = host().vector_bits // 8


def small(workload: Workload) -> Workload:
    """The same kind of convolution at a size that scalar packing code gets through quickly. One in
    three has rows of whole vectors, whether they are of output channels or of pixels."""
    k, w = 1 + workload.k % 40, workload.w
    if workload.c % 3 == 0:
        lanes = VECTOR_BYTES // np.dtype(DTYPES[workload.element]).itemsize
        k, w = (-(-size // lanes) * lanes for size in (k, w))
    return replace(
        workload,
        k=k,
        w=w,
        c=1 + workload.c % 20,
        h=1 + workload.h % 16,
        r=1 + workload.r % 4,
        s=1 + workload.s % 4,
    )


def random_plan(generator: random.Random, problem: Problem, threads: int) -> Plan:
    bits = min(generator.choice([256, 512]), host().vector_bits)
    full = bits // 8 // problem.output.element.size
    pixels = [dim for dim in problem.parallel_dims if problem.input.runs_along(dim)]
    lanes = generator.choice(pixels) if pixels and generator.random() < 0.4 else "k"
    vector = generator.choice([full, full, full // 2])
    tile = {lanes: vector * generator.randint(1, 2)}
    for dim in problem.parallel_dims:
        if dim != lanes and generator.random() < 0.6:
            room = MOST_ACCUMULATORS * vector // prod(tile.values())
            tile[dim] = generator.randint(1, min(5, problem.extent(dim) + 1, room))
    reduction = list(problem.reduction_dims)
    generator.shuffle(reduction)
    kernel = Microkernel(lanes, vector, tile, tuple(reduction))
    levels: list[Level] = []
    outer = dict(problem.extents)
    for name in LEVELS:
        if generator.random() < 0.7:
            outer = {dim: _size(generator, outer[dim], kernel.extent(dim)) for dim in outer}
            order = list(problem.names)
            generator.shuffle(order)
            levels.append(Level(name, tuple(order), outer))
    in_place = lanes != "k" or problem.weights.runs_along("k")
    packing = generator.choice(
        [*(["none"] if in_place else []), "whole", *(v.name for v in levels)]
    )
    plan = Plan("random", threads, kernel, tuple(levels), {}, packing)
    plan = replace(
        plan,
        nontemporal=streams_whole_vectors(problem.output, kernel) and generator.random() < 0.3,
        prefetch=generator.choice(PREFETCH_LEVELS),
    )
    if threads > 1:
        ways = [threads] if threads < 4 or generator.random() < 0.3 else [2, threads // 2]
        dims = generator.sample(problem.parallel_dims, len(problem.parallel_dims))
        if len(ways) > 1:  # dims that have several register tiles to split come first
            sizes = {dim: plan.core_tile(dim, problem.extent(dim)) for dim in dims}
            dims.sort(key=lambda dim: sizes[dim] <= kernel.extent(dim))
        plan = _split(replace(plan, parallel=dict(zip(dims, ways, strict=False))), problem)
    plan.check(problem)
    return plan


def _size(generator: random.Random, outer: int, unit: int) -> int:
    if generator.random() < 0.3:
        return outer
    size = generator.randint(1, outer)
    return min(outer, max(unit, size // unit * unit))


def _split(plan: Plan, problem: Problem) -> Plan:
    """Cut the inner levels down to one core's share."""
    share = {dim.name: plan.core_tile(dim.name, dim.extent) for dim in problem.dims}
    inner = [
        replace(level, tile={dim: min(size, share[dim]) for dim, size in level.tile.items()})
        for level in plan.levels[1:]
    ]
    return replace(plan, levels=(*plan.levels[:1], *inner))


def with_plan(text: str, generator: random.Random, threads: int) -> str:
    """The module with a random plan attached to its convolution."""
    return attached(text, lambda problem: random_plan(generator, problem, threads))


def attached(text: str, plan_of: Callable[[Problem], Plan]) -> str:
    """The module with the plan of its convolution attached to it."""
    mlir = bindings()
    with mlir.ir.Context(), mlir.ir.Location.unknown():
        module = mlir.ir.Module.parse(text)
        function = next(op for op in module.body.operations if op.operation.name == "func.func")
        operation = next(
            op.operation
            for op in function.regions[0].blocks[0].operations
            if op.operation.name.startswith("linalg.conv")
        )
        problem, _ = normalise(extract(operation, mlir).problem)
        attach(operation, plan_of(problem), mlir)
        return str(module)


def check(workload: Workload, text: str, seed: int) -> None:
    """What `text`, the workload with a plan, computes is right."""
    input_, weights, output = workload.operands(seed)
    mopt_mlir.compile(text, require_tiled=True)["conv"](input_, weights, output)
    reference = workload.reference(input_, weights)
    assert workload.error(output, reference, input_, weights) < 1


INITIAL = (
    None,
    "0.0",
    "1.5",
    "memref<KxELEMENT>",
    "memref<KxELEMENT, strided<[3], offset: 2>>",
)
"""What writes the output before: nothing, a fill, or a bias of a type."""


def initialized(workload: Workload, initial: str | None) -> str:
    """The module of `workload`; with a bias its function has that as its last parameter."""
    if initial is None or "memref" not in initial:
        text = workload.mlir(fill=initial is not None)
        return text.replace("constant 0.0", f"constant {initial}")
    bias = initial.replace("K", str(workload.k)).replace("ELEMENT", workload.element)
    output = f"memref<{'x'.join(map(str, workload.output_shape))}x{workload.element}>"
    others = [0, 2, 3] if workload.layout.startswith("nchw") else [0, 1, 2]
    text = workload.mlir(fill=False).replace(") {", f", %bias: {bias}) {{", 1)
    broadcast = f"linalg.broadcast ins(%bias : {bias}) outs(%output : {output})"
    return text.replace("linalg.conv", f"{broadcast} dimensions = {others}\n  linalg.conv", 1)


def bias_of(workload: Workload, initial: str) -> Array:
    """Numbers for a parameter of the type `initial`."""
    numbers = np.random.default_rng(0).standard_normal(3 * workload.k + 2)
    numbers = numbers.astype(DTYPES[workload.element])
    return numbers[2::3] if "strided" in initial else numbers[: workload.k]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("seed", range(30))
def test_random_plans(any_threads: None, seed: int, threads: int) -> None:
    generator = random.Random(1000 * threads + seed)
    (workload,) = random_workloads(1, seed)
    workload = small(workload)
    initial = generator.choice(INITIAL)
    text = with_plan(initialized(workload, initial), generator, threads)
    executable = mopt_mlir.compile(
        text, machine="auto,cores=4", threads=threads, require_tiled=True
    )
    input_, weights, output = workload.operands(seed)
    old, more = output.copy(), []
    if initial is not None and "memref" in initial:
        more = [bias_of(workload, initial)]
        old[...] = more[0].reshape((-1, 1, 1) if workload.layout.startswith("nchw") else (-1,))
    elif initial is not None:
        old[...] = float(initial)
    reference = workload.reference(input_, weights, old)
    executable["conv"](input_, weights, output, *more)
    assert workload.error(output, reference, input_, weights) < 1


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("h", [1, 9])
def test_nothing_to_reduce(seed: int, h: int) -> None:
    """One tap of one channel; with a single pixel only output channels are left."""
    workload = Workload("scale", k=1 + 7 * seed, h=h, w=h, c=1, r=1, s=1)
    check(workload, with_plan(workload.mlir(), random.Random(seed), 1), seed)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("h", [1, 3])
def test_patches(seed: int, h: int) -> None:
    """One channel, and filters as wide as their stride: taps and pixels are one run of memory."""
    s = 2 + 7 * (seed % 3)
    workload = Workload("patches", k=24, h=h, w=37, c=1, r=1, s=s, strides=(1, s))
    check(workload, with_plan(workload.mlir(), random.Random(seed), 1), seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "workload",
    [
        Workload("column", k=9, h=50, w=1, c=5, r=3, s=1),
        Workload("every other row", k=9, h=50, w=1, c=5, r=1, s=1, strides=(2, 2)),
        Workload("pointwise column", k=9, h=50, w=1, c=5, r=1, s=1),
        Workload("one channel", k=9, h=5, w=40, c=1, r=3, s=3, layout="nhwc_hwcf"),
        Workload("one channel to one", k=1, h=5, w=40, c=1, r=3, s=3, layout="nhwc_fhwc"),
    ],
    ids=lambda workload: workload.name,
)
def test_last_axes_of_one_element(workload: Workload, seed: int) -> None:
    check(workload, with_plan(workload.mlir(), random.Random(seed), 1), seed)


@pytest.mark.parametrize("taps", [None, 1])
@pytest.mark.parametrize("seed", range(6))
def test_constant_weights(seed: int, taps: int | None) -> None:
    (workload,) = random_workloads(1, 500 + seed)
    workload = small(workload)
    if taps is not None:
        workload = replace(workload, r=taps, s=taps)
    input_, weights, output = workload.operands(seed)
    generator = random.Random(seed)
    text = with_plan(workload.mlir(constant=weights), generator, 1)
    mopt_mlir.compile(text, require_tiled=True)["conv"](input_, output)
    reference = workload.reference(input_, weights)
    assert workload.error(output, reference, input_, weights) < 1
    assert np.isfinite(output).all()


def test_single_elements_are_never_cut_short() -> None:
    """Pieces of two of three taps: the last one is short, but not the taps inside it."""
    pieces = Range.whole(3).tile(Index.of("piece"), 2, 1)
    assert not pieces.exact
    tap = pieces.tile(Index.of("tap"), 1, 2)
    assert tap.exact
    assert tap.ends == (Index.of("tap") + 1,)


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([72], [0]),
        ([72, 27], [1, 0]),  # the third piece is short
        ([72, 27, 9], [2]),  # but 72 are nine times eight
        ([64, 27, 9], [2, 0]),
        ([72, 12, 8], [2, 1]),
        ([72, 24, 8], [2]),
        ([70, 40, 15, 5], [3]),
        ([70, 40, 15, 10], [3, 2, 1, 0]),  # of 15 it is ten and five
        ([66, 40, 15, 5], [3, 0]),
        ([20, 10, 6, 3], [3, 1]),  # twice three, though they begin at multiples of two
    ],
)
def test_only_bounds_that_can_matter_are_kept(sizes: list[int], kept: list[int]) -> None:
    """Of a tile inside of tiles, by how many are around it, and one of the extent. They are enough
    for all tiles that there are, one by one."""
    extent, *tiles = sizes
    range_ = Range.whole(extent)
    bounds = [Index(constant=extent)]
    found = [(0, [extent])]
    for at, size in enumerate(tiles):
        start = Index.of(f"start {at}")
        range_ = range_.tile(start, size, at + 1)
        bounds.append(start + size)
        found = [
            (inner, [*ends, inner + size])
            for outer, ends in found
            for inner in range(outer, min(ends), size)
        ]
    assert range_.ends == tuple(bounds[number] for number in kept)
    for _, ends in found:
        assert min(ends) == min(ends[number] for number in kept)
    assert range_.exact == ({min(ends) - start for start, ends in found} == {sizes[-1]})


@pytest.mark.parametrize("packing", ["whole", "L2"])
@pytest.mark.parametrize("c", [512, 320, 40, 1024])
@pytest.mark.parametrize("k", [48, 41])
def test_rows_that_crowd_the_cache(k: int, c: int, packing: str) -> None:
    """Rows of 4 KiB, packed some at a time, in blocks that divide them and that do not."""
    workload = Workload("crowded", k=k, h=2, w=3, c=1024, r=1, s=1)
    kernel = Microkernel("k", VECTOR_BYTES // 4, {"k": 24 if VECTOR_BYTES < 64 else 48}, ("c",))
    tile = {"k": k, "w": 6, "c": c}
    plan = Plan("crowded", 1, kernel, (Level("L2", ("c", "k", "w"), tile),), {}, packing)
    check(workload, attached(workload.mlir(), lambda _: plan), 0)


@pytest.mark.parametrize(("panel", "following"), [(64, False), (32, True)])
def test_loops_outside_of_packing_do_not_move_in_panels(panel: int, following: bool) -> None:
    """With one panel for each block of channels there is none that is read next."""
    plan = f"""mopt.plan = {{machine = "znver4", threads = 1,
      microkernel = {{lanes = "k", vector = 16, tile = {{w = 4, k = {panel}}}, reduction = ["c"]}},
      levels = [
        {{name = "L3", order = ["k", "c", "w"], tile = {{k = 64, w = 64, c = 2048}}}},
        {{name = "L1", order = ["k", "c", "w"], tile = {{k = {panel}, w = 8, c = 2048}}}}],
      packing = "L3"}}"""
    types = "memref<1x8x8x4096xf32>", "memref<1x1x4096x64xf32>", "memref<1x8x8x64xf32>"
    module = load_module(
        f"""func.func @f(%x: {types[0]}, %w: {types[1]}, %o: {types[2]}) {{
          linalg.conv_2d_nhwc_hwcf {{{plan}}}
              ins(%x, %w : {types[0]}, {types[1]}) outs(%o : {types[2]})
          return
        }}"""
    )
    run_passes(module, create("mopt-tile"))
    panels = f"memref<{64 // panel}x2048x{panel}xf32>"
    asked = [line for line in str(module).splitlines() if "prefetch" in line and panels in line]
    assert bool(asked) == following


def test_the_order_of_the_dims_of_a_register_tile_does_not_matter() -> None:
    """Attributes sort them, the solver has an order of its own; of four pixels by four either could
    be those of a row."""
    workload = Workload("square", k=16, h=8, w=8, c=64, r=3, s=3, layout="nhwc_hwcf")
    texts = []
    for tile in ({"h": 4, "k": 16, "w": 4}, {"w": 4, "h": 4, "k": 16}):
        plan = Plan("any", 1, Microkernel("k", 16, tile, ("r", "s", "c")), ())
        module = load_module(workload.mlir())
        mlir = bindings_of(module)
        with module.context, module.location:
            (convolution,) = convolutions(module, mlir)
            problem, groups = normalise(convolution.problem)
            rewrite([PlannedConvolution(convolution, problem, groups, plan)], mlir)
        texts.append(str(module))
    assert texts[0] == texts[1]
    assert "affine.prefetch" in texts[0]
