"""How much room a tile takes in a cache: whole lines, and more where rows fall on few sets.

Which lines there are depends on where the rows of a tensor begin; a plan has to fit by this count.
"""

from __future__ import annotations

from collections.abc import Mapping

from mopt_mlir.machine.machine import Machine
from mopt_mlir.model.conflicts import PAGE, row_pitch
from mopt_mlir.model.footprint import MemoryAxis, memory_axes, occupied
from mopt_mlir.model.packing import PACKED_COPIES
from mopt_mlir.problem import TENSORS, Problem, Role, Tensor

HALF_PAGE = PAGE // 2
"""Bytes. (Weights in place whose rows lie so far apart, own plans on Zen 4 that change, medians of
eight comparisons: M8 takes 5%, M7 2, R10 1% less time, R12 as much, Y19 3% more; in two of them R10
and R12 took 1.2 to 1.5 times as long without. If rows a quarter of a page apart counted as well,
four others would take 1 to 3% more. Rows whole pages apart should take a page, but a plan of M9
that does not find so much takes 6% less time than those that do.)"""


def usable(machine: Machine, level: str) -> float:
    """Bytes of the cache `level` that tiles may fill."""
    return machine.capacity_factor * machine.cache(level).size


def line_bytes(problem: Problem, machine: Machine, tensor: Tensor, level: str, panels: bool) -> int:
    """Bytes of the lines in which `tensor` moves into the cache `level`; 0 for weights that are
    packed into `panels`, which have no gaps."""
    return 0 if panels and tensor is problem.weights else machine.cache(level).line


def line_axes(
    problem: Problem, machine: Machine, tensor: Tensor, level: str, panels: bool
) -> tuple[MemoryAxis, ...]:
    """The axes of `tensor` with the lines of `line_bytes`."""
    return memory_axes(problem, tensor, line_bytes(problem, machine, tensor, level, panels))


def room_axes(
    problem: Problem, machine: Machine, tensor: Tensor, level: str, panels: bool
) -> tuple[MemoryAxis, ...]:
    """The axes of `tensor` in the units in which it takes room in the cache `level`: lines or,
    where rows lie so far apart that their lines share few sets, the part of a page that each row
    blocks. (A way of L1 is a page or less, and pages fill the sets of L2.)

    - Input with channels last, in L1 and L2: see `_pixel_bytes`. If pixels lie half a page apart,
      those that a stride leaves out take room as well, which none of a tile can use; whole pages
      apart they use that of the others.
    - Weights in place, in L2: HALF_PAGE, if rows lie that far apart or further.
    """
    line = line_bytes(problem, machine, tensor, level, panels)
    if tensor is problem.input and level in ("L1", "L2"):
        room = _pixel_bytes(problem, machine, level)
        gaps = room > 0 and row_pitch(problem, tensor) == HALF_PAGE
        return memory_axes(problem, tensor, max(line, room), gaps=gaps)
    if level == "L2" and tensor is problem.weights and not panels:
        line = HALF_PAGE if row_pitch(problem, tensor) >= HALF_PAGE else line
    return memory_axes(problem, tensor, line)


def _pixel_bytes(problem: Problem, machine: Machine, level: str) -> int:
    """The room that a pixel takes, at least, in the cache `level` because of where the others are:
    the part `pixel_room` of the distance between them, which counts as its greatest common divisor
    with a page, and as a way of the cache at most. 0 if channels do not lie together, or the
    machine does not say what part.

    (Own plans of AVX2 code on Zen 3: with constant weights and warm caches those of Table 1 take 9%
    less time, Y19 41%, Y4 4% more; with other weights and cold caches 3% less, Y19 35%, but M8 11
    to 24% more, and 94 layers of four sets 1% less. Where the pixels that a stride leaves out take
    room as well, two of the 94 change: one of 1x3 taps and 512 channels takes 32 and 36% less time,
    warm and cold, M8 4% more and 5% less. Rows of pixels take no more than their lines: of six 1x1
    layers with channels in front, cold, four would take 2 to 18% more time, two 6% less.)
    """
    channels = [dim for dim in problem.by_role(Role.CHANNEL) if problem.extent(dim) > 1]
    channels_last = any(problem.input.pitch(dim) == 1 for dim in channels)
    part = (machine.pixel_room or 0.0) if channels_last else 0.0
    cache = machine.cache(level)
    return int(part * min(row_pitch(problem, problem.input), cache.way_bytes))


def cache_bytes(
    problem: Problem,
    machine: Machine,
    level: str,
    tile: Mapping[str, int],
    *,
    panels: bool,
    packs: bool = False,
) -> dict[str, int]:
    """Bytes of the cache `level` that a tile takes, per tensor, in units of `room_axes`; `panels`
    says whether the weights are packed, `packs` whether that happens whenever a tile of this level
    is entered. Their sum is what has to fit into `usable`."""
    bytes_ = {
        name: tensor.element.size
        * occupied(room_axes(problem, machine, tensor, level, panels), tile)
        for name, tensor in zip(TENSORS, problem.tensors, strict=True)
    }
    if packs:
        bytes_["weights"] = int(bytes_["weights"] * PACKED_COPIES[level])
    return bytes_
