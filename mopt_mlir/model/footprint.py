"""How many distinct elements of a tensor a tile touches, and how much of memory they occupy.

Memory moves in cache lines. Along the axis whose elements lie closest, the *contiguous* one, a tile
occupies whole lines (paper, Sec. 12); along the others its elements lie in different lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import Any

import numpy as np

from mopt_mlir.problem import LinearForm, NoPlanError, Problem, Role, Tensor


@dataclass(frozen=True)
class Axis:
    """One axis of a tensor as the model sees it: a plain dim, or an image dim with a filter dim.

    A tile of `I` image and `F` filter points touches `I*min(s, F) + min(d, I)*(F - min(s, F))`
    distinct elements of the axis, where `s` and `d` are stride and dilation divided by their
    greatest common divisor: each image point brings `min(s, F)` elements of its own, and the rest
    of the filter's reach, the *halo*, is paid once per run of image points. Along a plain dim
    (`filter` is None) the tile touches just its `I` points.
    """

    image: str
    filter: str | None = None
    stride: int = 1
    dilation: int = 1

    def extent(self, tile: Mapping[str, int]) -> int:
        """Distinct elements of this axis that a tile touches."""
        return self.touched(tile[self.image], tile[self.filter] if self.filter else 1)

    def touched(self, points: int, taps: int, *, gaps: bool = False) -> int:
        """Distinct elements under `points` image and `taps` filter points (1 where there is no
        filter); with `gaps` also those that the stride leaves out between two image points."""
        own = self.stride if gaps else min(self.stride, taps)
        return points * own + min(self.dilation, points) * (taps - own)

    def apart(self, dim: str) -> int:
        """How far apart points of a dim are, at least, that have elements in common: 1 if
        neighbours have, or none."""
        if self.filter is None or dim not in (self.image, self.filter):
            return 1
        return self.dilation if dim == self.image else self.stride


def axis_of(problem: Problem, form: LinearForm) -> Axis:
    """Classify one axis of a tensor of `problem`.

    Raises NoPlanError for an axis that mixes more than two dims, or two of which neither is a
    filter dim: the model has no closed form for it.
    """
    terms = [(dim, abs(c)) for dim, c in form.terms if c and problem.extent(dim) > 1]
    if not terms:
        terms = [(dim, 1) for dim, c in form.terms if c][:1]
    if not terms:
        raise NoPlanError("an axis is indexed by a constant")
    if len(terms) == 1:
        return Axis(terms[0][0])
    taps = [term for term in terms if term[0] in problem.by_role(Role.FILTER)]
    if len(terms) > 2 or len(taps) != 1:
        names = " + ".join(f"{c}*{dim}" for dim, c in form.terms)
        raise NoPlanError(f"axis {names} is not an image dim with at most one filter dim")
    (image, stride), (tap, dilation) = sorted(terms, key=lambda term: term in taps)
    common = gcd(stride, dilation)
    return Axis(image, tap, stride // common, dilation // common)


@dataclass(frozen=True)
class MemoryAxis:
    """One axis of a tensor in memory: how much of it a tile occupies.

    An image point owns the elements up to the next one, which come along in its lines, so that
    several tiles never occupy less than one that covers them all.
    """

    axis: Axis
    points: int
    """The whole extent of its image dim, 1 where there is none."""
    taps: int
    """The whole extent of its filter dim, 1 where there is none."""
    line: int = 0
    """Elements of a cache line, of the contiguous axis; 0 of the others."""
    image_pitch: int = 1
    """Elements of memory from one image point to the next."""
    tap_pitch: int = 1
    """Elements of memory from one filter point to the next."""
    grain: int = 1
    """Elements of a line at multiples of which rows begin."""
    joined: bool = True
    """Whether each row begins where the one before ends."""
    gaps: bool = False
    """Whether elements count that a stride leaves out."""

    @property
    def plain(self) -> bool:
        """Whether tiles occupy as many elements as they have points."""
        return self.axis.filter is None and not self.line

    @property
    def whole(self) -> int:
        """Elements of a tile that spans the axis: it runs on into the next row, if they are joined,
        so that no line is brought in for a part of it, unless its points lie lines apart."""
        if not self.line:
            return self.axis.touched(self.points, self.taps, gaps=self.gaps)
        if self.joined:
            span = int(self.span(self.points, self.taps)) + 1
            return min(span, int(self.in_lines(self.points, self.taps)))
        return int(self._in_lines(self.points, self.taps, self.grain))

    def span(self, points: Any, taps: Any) -> Any:
        """Elements of memory from the first element of a tile to the last. (Numbers or arrays.)"""
        return self.image_pitch * (points - 1) + self.tap_pitch * (taps - 1)

    def in_elements(self, points: Any, taps: Any) -> Any:
        """Elements of the axis that a tile touches, as `Axis.touched`. (Numbers or arrays.)"""
        own = self.axis.stride if self.gaps else np.minimum(self.axis.stride, taps)
        return points * own + np.minimum(self.axis.dilation, points) * (taps - own)

    def in_lines(self, points: Any, taps: Any) -> Any:
        """Elements of the lines that a tile occupies which does not span the axis: on average over
        the places in a line where it can begin, which are the multiples of its own size that fall
        on the grain. (Numbers or arrays.)"""
        return self._in_lines(points, taps, np.gcd(self.grain, points * self.image_pitch))

    def _in_lines(self, points: Any, taps: Any, grain: Any) -> Any:
        if self.image_pitch > self.line:  # no two points share a line
            if self.tap_pitch > self.line:
                return self.in_elements(points, taps) * self.line
            return points * self._on_average(
                self.tap_pitch * taps, np.gcd(self.grain, self.image_pitch)
            )
        if self.tap_pitch > self.line:
            return taps * self._on_average(self.image_pitch * points, grain)
        gap = max(self.image_pitch, self.tap_pitch)
        return self._on_average(self.span(points, taps) + gap, grain)

    def _on_average(self, span: Any, grain: Any) -> Any:
        """Elements of the lines of `span` consecutive ones."""
        return self.line + (span - 1) // grain * grain

    def occupied(self, points: int, taps: int) -> int:
        """Elements of memory that a tile of `points` by `taps` occupies."""
        if not self.line:
            return self.axis.touched(points, taps, gaps=self.gaps)
        if points == self.points and taps == self.taps:
            return self.whole
        return int(self.in_lines(points, taps))


@lru_cache(maxsize=64)
def axes(problem: Problem, tensor: Tensor) -> tuple[Axis, ...]:
    """The axes of `tensor`; axes that never move (extent 1) are kept, with one of their dims."""
    return tuple(axis_of(problem, form) for form in tensor.axes if any(c for _, c in form.terms))


@lru_cache(maxsize=256)
def memory_axes(
    problem: Problem, tensor: Tensor, line_bytes: int, *, gaps: bool = False
) -> tuple[MemoryAxis, ...]:
    """The axes of `tensor` as `axes`, one of them with its lines of `line_bytes`: that whose
    elements lie closest. None has, where nothing is known of the memory or for lines of 0 bytes,
    which stand for memory that moves in elements. With `gaps` those along the next axis count."""
    plain = [
        MemoryAxis(axis, problem.extent(axis.image), problem.extent(axis.filter or ""))
        for axis in axes(problem, tensor)
    ]
    pitches = _pitches(problem, tensor)
    if not line_bytes or not pitches:
        return tuple(plain)
    closest = min(pitches, key=lambda axis: min(pitches[axis].values()))
    line = max(1, line_bytes // tensor.element.size)
    others = {axis: pitches[axis] for axis in pitches if axis != closest}
    rows = min(others, key=lambda axis: min(others[axis].values()), default=None)
    found = []
    for part in plain:
        if part.axis == closest:
            image = pitches[closest].get(closest.image, 1)
            tap = pitches[closest].get(closest.filter or "", image)
            part = replace(part, line=line, image_pitch=image, tap_pitch=tap)
            apart = [pitch for by_dim in others.values() for pitch in by_dim.values()]
            known = _is_known(problem, tensor)  # or rows may begin anywhere
            part = replace(
                part,
                grain=gcd(line, *apart) if known else 1,
                joined=known and _joined(problem, part, rows, pitches),
            )
        elif part.axis == rows:
            part = replace(part, gaps=gaps)
        found.append(part)
    return tuple(found)


def _joined(
    problem: Problem,
    part: MemoryAxis,
    rows: Axis | None,
    pitches: Mapping[Axis, Mapping[str, int]],
) -> bool:
    """Whether the rows along a contiguous axis follow each other: the next axis, `rows`, steps from
    one to the next, with no gap between them, and leaves none out."""
    if rows is None:
        return True
    span = part.span(part.points, part.taps) + max(part.image_pitch, part.tap_pitch)
    if min(pitches[rows].values()) > span:
        return False
    image, taps = problem.extent(rows.image), problem.extent(rows.filter or "")
    reach = rows.dilation * (taps - 1) if rows.filter else 0
    return rows.touched(image, taps) == rows.stride * (image - 1) + reach + 1


def _is_known(problem: Problem, tensor: Tensor) -> bool:
    """Whether the strides of all axes that move are known."""
    return all(
        stride is not None or all(problem.extent(dim) == 1 for dim in form.dims)
        for form, stride in zip(tensor.axes, tensor.strides, strict=True)
    )


def _pitches(problem: Problem, tensor: Tensor) -> dict[Axis, dict[str, int]]:
    """Elements of memory from one value of a dim to the next, for the axes that move and are
    known."""
    found = {}
    for form, stride in zip(tensor.axes, tensor.strides, strict=True):
        moves = {dim: abs(c) for dim, c in form.terms if c and problem.extent(dim) > 1}
        if moves and stride:
            found[axis_of(problem, form)] = {dim: c * stride for dim, c in moves.items()}
    return found


def footprint(problem: Problem, tensor: Tensor, tile: Mapping[str, int]) -> int:
    """Distinct elements of `tensor` in a tile (paper, Eq. 4, with strides and dilations)."""
    return prod(axis.extent(tile) for axis in axes(problem, tensor))


def occupied(parts: Iterable[MemoryAxis], tile: Mapping[str, int]) -> int:
    """Elements of memory that a tile of a tensor with the axes `parts` occupies in a cache: its
    elements, rounded to whole lines along the contiguous axis."""
    return prod(
        part.occupied(tile[part.axis.image], tile[part.axis.filter] if part.axis.filter else 1)
        for part in parts
    )


def joined_dims(problem: Problem) -> tuple[str, ...]:
    """The dims of the output, the innermost in memory first, up to the first whose points do not
    follow each other even if all those before it are whole. An axis whose stride is not known is
    taken to be where it is in a dense array."""
    output, dense = problem.output, 1
    joined: list[str] = []
    innermost_first = list(zip(reversed(output.axes), reversed(output.strides), strict=True))
    if None not in output.strides:
        innermost_first.sort(key=lambda part: abs(part[1] or 0))
    for axis, stride in innermost_first:
        extents = {dim: problem.extent(dim) for dim in axis.dims if problem.extent(dim) > 1}
        if extents and stride not in (dense, None):
            break
        joined += extents
        dense *= prod(extents.values())
    return tuple(joined)


def output_runs(problem: Problem, tile: Mapping[str, int]) -> int:
    """Pieces of memory, apart from each other, that tiles of the output write: rows of pixels, of
    channels, or several whole ones that follow each other. Dims that `tile` lacks count as 1."""
    runs = problem.points(problem.output.dims)
    for dim in joined_dims(problem):
        extent = problem.extent(dim)
        runs = runs // extent * -(-extent // tile.get(dim, 1))
        if tile.get(dim, 1) < extent:
            break
    return runs
