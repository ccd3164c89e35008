"""The lines of a tensor that a tile touches, where rows of it are shorter than a line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import gcd

from mopt_mlir.model.footprint import MemoryAxis, memory_axes
from mopt_mlir.problem import Problem, Tensor


@dataclass(frozen=True)
class _Rows(MemoryAxis):
    """An axis whose points are short rows of others, which fill it without gaps."""

    @property
    def whole(self) -> int:
        if not self.joined:
            return super().whole
        return int(self.span(self.points, self.taps)) + min(self.image_pitch, self.tap_pitch)


@lru_cache(maxsize=256)
def parts_in_lines(problem: Problem, tensor: Tensor, line_bytes: int) -> tuple[MemoryAxis, ...]:
    """As `memory_axes`, but without the dims along whose rows the lines of the next axis lie: those
    with rows shorter than a line, so that any point of them brings in what a whole row does."""
    parts = memory_axes(problem, tensor, line_bytes)
    line = line_bytes // tensor.element.size
    pitches = {part: _pitches(problem, tensor, part) for part in parts}
    known = [(min(apart), part) for part, apart in pitches.items() if apart]
    if len(known) < sum(part.points * part.taps > 1 for part in parts):
        return parts
    ordered = sorted(known, key=lambda pair: pair[0])
    short = [part for (_, part), (pitch, _) in pairwise(ordered) if pitch <= line]
    if not short or ordered[: len(short)] != [(min(pitches[part]), part) for part in short]:
        return parts
    (_, first), *rest = ordered[len(short) :]
    if any(part.axis.filter for part in short) or max(pitches[first]) > line:
        return parts
    image, tap = pitches[first][0], pitches[first][-1]
    row = _Rows(first.axis, first.points, first.taps, line, image_pitch=image, tap_pitch=tap)
    apart = [pitch for _, part in rest for pitch in pitches[part]]
    joined = not apart or min(apart) <= row.whole
    row = replace(row, grain=gcd(line, *apart), joined=joined)
    return (row, *(replace(part, line=0) for _, part in rest))


def _pitches(problem: Problem, tensor: Tensor, part: MemoryAxis) -> tuple[int, ...]:
    """Elements of memory from one image point of an axis to the next, and from one filter point, as
    far as it has several; nothing if that is not known."""
    dims = [dim for dim in (part.axis.image, part.axis.filter) if dim and problem.extent(dim) > 1]
    found = [abs(pitch) for dim in dims if (pitch := tensor.pitch(dim))]
    return tuple(found) if len(found) == len(dims) else ()
