"""The microkernels that the model can price for a problem.

Two families: lanes over the output channels (weights in packed panels, unless the channels are
contiguous; input broadcast; any layout and stride), and lanes over a dim that the weights lack and
that is contiguous in input and output (input vectors, weights broadcast from where they are).
"""

from __future__ import annotations

from collections.abc import Iterator

from mopt_mlir.machine.machine import Machine
from mopt_mlir.microkernel import MOST_ACCUMULATORS, Microkernel
from mopt_mlir.problem import Problem, Role


def menu(problem: Problem, machine: Machine) -> tuple[Microkernel, ...]:
    """All microkernels for `problem`, which is in normal form, on `machine`."""
    return (*_channel_lanes(problem, machine), *_contiguous_lanes(problem, machine))


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
    order, channel = reduction_order(problem), problem.out_channel
    for vector, vectors in _vectors(problem, machine, channel):
        for rows in _pixel_tiles(problem, _max_rows(machine, vectors)):
            yield Microkernel(channel, vector, {channel: vectors * vector, **rows}, order)


def _contiguous_lanes(problem: Problem, machine: Machine) -> Iterator[Microkernel]:
    """Lanes over a dim that is contiguous in input and output; rows are output channels."""
    order, channel = reduction_order(problem), problem.out_channel
    for lanes in problem.parallel_dims:
        if lanes in problem.weights.dims or problem.extent(lanes) == 1:
            continue
        if not (problem.input.runs_along(lanes) and problem.output.runs_along(lanes)):
            continue
        for vector, vectors in _vectors(problem, machine, lanes):
            most = min(_max_rows(machine, vectors), problem.extent(channel))
            for rows in range(1, most + 1):
                yield Microkernel(lanes, vector, {lanes: vectors * vector, channel: rows}, order)


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
