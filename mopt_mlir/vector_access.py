"""How the vectors of a microkernel meet its operands in memory.

The model, which prices what code does, and code generation, which does it, both ask here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Literal

from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem, Tensor

Way = Literal["vectors", "transposed", "elements"]
"""How elements get from one order to another: in vectors as they are, in squares of vectors that
are transposed in registers, or one after the other."""

STORED_IN_PARTS_BYTES = 32
"""Vectors up to this wide are stored in parts, of powers of two, where not all of their lanes are:
AVX has no other masked stores than `vmaskmovps`, which takes 12 cycles on Zen 4, two parts take 2.
Those of AVX-512 are as fast as whole stores."""

SHARED_SETS_BYTES = 512
"""Where pixels of channels-last output are a multiple of this apart, the same channels of all of
them fall on every eighth set of L1, or fewer. (Measured on Zen 4, cold, where the reduction is
split: with sums in scratch memory AVX2 code takes 1.1% less time for outputs of 128 channels, 1.5%
less for multiples of 256, up to 10% for 1024, and 0.3% more for other numbers.)"""

_FAR = 1 << 40
"""Elements between neighbours of which nothing is known: they do not follow each other."""

# ---- operands --------------------------------------------------------------------------------


def vector_operand(problem: Problem, kernel: Microkernel) -> Tensor:
    """The operand that is read in vectors: the one that the lane dim runs along."""
    return problem.input if kernel.lanes in problem.input.dims else problem.weights


def scalar_operand(problem: Problem, kernel: Microkernel) -> Tensor:
    """The operand that is read in scalars."""
    return problem.weights if kernel.lanes in problem.input.dims else problem.input


def scalar_dims(problem: Problem, kernel: Microkernel) -> tuple[str, ...]:
    """The dims of the register tile over which its vectors are repeated."""
    read = vector_operand(problem, kernel).dims | {kernel.lanes}
    return tuple(dim for dim in problem.parallel_dims if dim in kernel.tile and dim not in read)


# ---- the output ------------------------------------------------------------------------------


def storing_way(problem: Problem, kernel: Microkernel, scalars: int) -> Way:
    """How a register tile of so many `scalars` goes to the output: lanes next to each other there
    are whole vectors; lanes across it, while scalars lie along it, are transposed."""
    if problem.output.runs_along(kernel.lanes):
        return "vectors"
    if scalars > 1 and kernel.vector > 1 and dim_along_output(problem, kernel) is not None:
        return "transposed"
    return "elements"


def dim_along_output(problem: Problem, kernel: Microkernel) -> str | None:
    """The dim of the scalars that lies along the output's memory, if any does."""
    dims = scalar_dims(problem, kernel)
    return next((dim for dim in dims if problem.output.runs_along(dim)), None)


Offsets = tuple[tuple[str, int], ...]
"""Where a scalar lies in the register tile."""


def scalar_offsets(
    problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]
) -> tuple[Offsets, ...]:
    """The scalars of a register tile of `sizes` elements per dim, row by row."""
    dims = scalar_dims(problem, kernel)
    return tuple(
        tuple(zip(dims, at, strict=True)) for at in product(*(range(sizes[dim]) for dim in dims))
    )


@lru_cache(maxsize=1 << 12)
def runs(output: Tensor, scalars: tuple[Offsets, ...], most: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of `scalars` in groups, of `most` at the most, that follow each other in memory:
    along a row, and on into the next one if they are whole rows."""
    rows = frozenset[str]().union(*(axis.dims for axis in output.axes[-2:]))
    found: list[list[int]] = []
    before = None
    for number, offsets in enumerate(scalars):
        steps = ((output.pitch(dim) if dim in rows else None) or _FAR for dim, _ in offsets)
        place = sum(at * step for (_, at), step in zip(offsets, steps, strict=True))
        if before is None or place != before + 1 or len(found[-1]) == most:
            found.append([])
        found[-1].append(number)
        before = place
    return tuple(map(tuple, found))


def streams_whole_vectors(output: Tensor, kernel: Microkernel) -> bool:
    """Whether the vectors of `kernel` are contiguous in `output`, and all of them are aligned if
    the first one is."""
    strides = output.strides[:-1]
    aligned = all(stride is not None and stride % kernel.vector == 0 for stride in strides)
    return output.runs_along(kernel.lanes) and aligned


def keeps_sums_in_output(problem: Problem, kernel: Microkernel) -> bool:
    """Whether sums wait in the output for the next visit of a register tile. Else they wait in
    scratch memory, as whole registers without gaps: where vectors do not run along the output, or
    where they hold output channels of pixels so far apart that those of a row share few sets of the
    caches, and would evict each other."""
    output = problem.output
    if not output.runs_along(kernel.lanes):
        return False
    if kernel.lanes in problem.input.dims:
        return True
    pixels = problem.pixel_dims
    steps = [output.pitch(dim) for dim in pixels if problem.extent(dim) > 1]
    known = [abs(step) for step in steps if step is not None]
    return not known or min(known) * output.element.size % SHARED_SETS_BYTES != 0


# ---- the weights -----------------------------------------------------------------------------


def needs_panels(problem: Problem, kernel: Microkernel) -> bool:
    """Whether the vectors of `kernel` are weights that do not lie contiguously."""
    return kernel.lanes not in problem.input.dims and not problem.weights.runs_along(kernel.lanes)


def packing_way(problem: Problem, kernel: Microkernel, block: Mapping[str, int]) -> Way:
    """How a block of weights, of `block` elements per dim, gets into its panels: output channels
    next to each other are copied in vectors; where those of a channel are a dense row, and the
    block spans all reduction dims but the outermost, they are transposed."""
    channel = problem.out_channel
    if kernel.extent(channel) % kernel.vector:
        return "elements"
    if problem.weights.runs_along(channel):
        return "vectors"
    inner = kernel.reduction[1:]
    spans = all(block[dim] == problem.extent(dim) for dim in inner)
    return "transposed" if spans and _lies_in_rows(problem, kernel) else "elements"


def is_transposed(problem: Problem, kernel: Microkernel) -> bool:
    """Whether weights are packed in whole vectors that have to be transposed for it."""
    whole = problem.extents
    return needs_panels(problem, kernel) and packing_way(problem, kernel, whole) == "transposed"


def whole_to_pack(problem: Problem, kernel: Microkernel) -> Sequence[str]:
    """The dims that a block of weights has to span to be packed in whole vectors: all reduction
    dims but the outermost, unless vectors run along the lanes, or cannot be used at all."""
    return kernel.reduction[1:] if is_transposed(problem, kernel) else ()


def _lies_in_rows(problem: Problem, kernel: Microkernel) -> bool:
    """Whether the weights of each output channel, the lanes of `kernel`, are a dense row in the
    order of its reduction, so that they can be packed by transposing whole vectors of them."""
    weights = problem.weights
    if kernel.vector == 1 or kernel.lanes not in weights.dims:
        return False
    axes = zip(weights.axes, weights.strides, strict=True)
    used = [(dim, stride) for axis, stride in axes for dim in axis.dims]
    channel = [dim for dim, _ in used].index(kernel.lanes)
    rows = [(dim, stride) for dim, stride in used[channel + 1 :] if problem.extent(dim) > 1]
    order = [dim for dim in kernel.reduction if problem.extent(dim) > 1]
    if not rows or [dim for dim, _ in rows] != order:
        return False
    step = 1
    for dim, stride in reversed(rows):
        if stride != step:
            return False
        step *= problem.extent(dim)
    return True
