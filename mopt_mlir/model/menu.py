"""The microkernels that the model can price for a problem.

Three families: lanes over the output channels (weights in packed panels, unless the channels are
contiguous; input broadcast; any layout and stride), lanes over a dim that the weights lack and that
is contiguous in input and output (input vectors, weights broadcast from where they are), and lanes
over groups that are contiguous in all three (input vectors times weight vectors, as in a depthwise
convolution with channels last). Of the last no code is generated yet: no operation becomes a
problem with groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import MOST_ACCUMULATORS, Microkernel
from mopt_mlir.problem import NoPlanError, Problem, Role


class NoMicrokernelError(NoPlanError):
    """No family of microkernels can compute this problem."""


def menu(problem: Problem, machine: Machine) -> tuple[Microkernel, ...]:
    """All microkernels for `problem` on `machine`.

    Raises NoMicrokernelError where no family applies: no output channels to run the lanes over, and
    no other dim that is contiguous in both input and output.
    """
    kernels = (
        *_channel_lanes(problem, machine),
        *_contiguous_lanes(problem, machine),
        *_group_lanes(problem, machine),
    )
    if not kernels:
        raise NoMicrokernelError(
            "no dim to vectorise: the problem has no output channel, and no image dim is "
            "contiguous in both input and output"
        )
    return kernels


def reduction_order(problem: Problem) -> tuple[str, ...]:
    """Reduction loops, outermost first: the dim with the largest pitch in the input first, so that
    the broadcasts (and packed weights) are read in memory order."""
    pitches = {dim: problem.input.pitch(dim) for dim in problem.reduction_dims}
    known = {dim: pitch for dim, pitch in pitches.items() if pitch is not None}
    if len(known) == len(pitches):
        return tuple(sorted(pitches, key=lambda dim: -known[dim]))
    return tuple(sorted(pitches, key=lambda dim: _axis_index(problem, dim)))


def _channel_lanes(problem: Problem, machine: Machine) -> Iterator[Microkernel]:
    """Lanes over output channels; rows are pixels, or whole rows of pixels of a small image."""
    order = reduction_order(problem)
    for channel in problem.by_role(Role.OUT_CHANNEL):
        for vector, vectors in _vectors(problem, machine, channel):
            for rows in _pixel_tiles(problem, _max_rows(machine, vectors)):
                yield Microkernel(channel, vector, {channel: vectors * vector, **rows}, order)


def _contiguous_lanes(problem: Problem, machine: Machine) -> Iterator[Microkernel]:
    """Lanes over a dim that is contiguous in input and output; rows are output channels."""
    order = reduction_order(problem)
    channel = next(iter(problem.by_role(Role.OUT_CHANNEL)), None)
    for lanes in problem.parallel_dims:
        if lanes in problem.weights.dims or problem.extent(lanes) == 1:
            continue
        if not (problem.input.runs_along(lanes) and problem.output.runs_along(lanes)):
            continue
        for vector, vectors in _vectors(problem, machine, lanes):
            most = _max_rows(machine, vectors) if channel else 1
            for rows in range(1, min(most, problem.extent(channel or "")) + 1):
                tile = {lanes: vectors * vector}
                yield Microkernel(
                    lanes, vector, {**tile, channel: rows} if channel else tile, order
                )


def _group_lanes(problem: Problem, machine: Machine) -> Iterator[Microkernel]:
    """Lanes over groups that are contiguous in all tensors; rows are pixels."""
    order = reduction_order(problem)
    for lanes in problem.by_role(Role.GROUP):
        if problem.extent(lanes) == 1:
            continue
        if not all(tensor.runs_along(lanes) for tensor in problem.tensors):
            continue
        for vector, vectors in _vectors(problem, machine, lanes):
            for rows in _pixel_tiles(problem, _max_rows(machine, vectors)):
                yield Microkernel(lanes, vector, {lanes: vectors * vector, **rows}, order)


def _vectors(problem: Problem, machine: Machine, dim: str) -> Iterator[tuple[int, int]]:
    """(elements of a vector, vectors) along `dim`; shorter vectors only where one covers it."""
    lanes, extent = machine.lanes(problem.output.element), problem.extent(dim)
    for vectors in range(1, -(-extent // lanes) + 1):
        if _max_rows(machine, vectors) < 1:
            break
        yield lanes, vectors
    for shorter in (lanes // 2, lanes // 4):
        if shorter >= max(extent, 2):
            yield shorter, 1


def _max_rows(machine: Machine, vectors: int) -> int:
    """Rows whose accumulators fit in registers beside `vectors` vectors and one broadcast, and for
    which code is generated."""
    return min(machine.vector_registers - vectors - 1, MOST_ACCUMULATORS) // vectors


def _pixel_tiles(problem: Problem, most: int) -> Iterator[dict[str, int]]:
    """Register tiles over output pixels: a piece of a row, or several whole rows."""
    images = [dim for dim in problem.by_role(Role.IMAGE) if problem.extent(dim) > 1]
    images = sorted(images, key=lambda dim: _output_index(problem, dim))
    images = images or [dim for dim in problem.by_role(Role.BATCH) if problem.extent(dim) > 1]
    if not images:
        yield {}
        return
    row, width = images[-1], problem.extent(images[-1])
    for pixels in range(1, min(most, width) + 1):
        yield {row: pixels}
    if len(images) > 1:
        for rows in range(2, min(most // width, problem.extent(images[-2])) + 1):
            yield {images[-2]: rows, row: width}


def _output_index(problem: Problem, dim: str) -> int:
    return next(i for i, axis in enumerate(problem.output.axes) if dim in axis.dims)


def _axis_index(problem: Problem, dim: str) -> int:
    return next(i for i, axis in enumerate(problem.input.axes) if dim in axis.dims)
