"""How many distinct elements of a tensor a tile touches, and how much of memory they occupy.

Memory moves in cache lines. Along the axis whose elements lie closest, the *contiguous* one, a tile
occupies whole lines (paper, Sec. 12); along the others its elements lie in different lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod

from mopt_mlir.problem import LinearForm, Problem, Role, Tensor


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

    def touched(self, points: int, taps: int) -> int:
        """The same for `points` image and `taps` filter points (1 where there is no filter)."""
        own = min(self.stride, taps)
        return points * own + min(self.dilation, points) * (taps - own)


def axis_of(problem: Problem, form: LinearForm) -> Axis:
    """Classify one axis of a tensor of `problem`.

    Raises ValueError for an axis that mixes more than two dims, or two of which neither is a filter
    dim: the model has no closed form for it.
    """
    terms = [(dim, abs(c)) for dim, c in form.terms if c and problem.extent(dim) > 1]
    if not terms:
        terms = [(dim, 1) for dim, c in form.terms if c][:1]
    if not terms:
        raise ValueError("an axis is indexed by a constant")
    if len(terms) == 1:
        return Axis(terms[0][0])
    taps = [term for term in terms if term[0] in problem.by_role(Role.FILTER)]
    if len(terms) > 2 or len(taps) != 1:
        names = " + ".join(f"{c}*{dim}" for dim, c in form.terms)
        raise ValueError(f"axis {names} is not an image dim with at most one filter dim")
    (image, stride), (tap, dilation) = sorted(terms, key=lambda term: term in taps)
    common = gcd(stride, dilation)
    return Axis(image, tap, stride // common, dilation // common)


@dataclass(frozen=True)
class MemoryAxis:
    """One axis of a tensor in memory: how much of it a tile occupies.

    `points` and `taps` are the whole extents of its image and filter dim (1 where there is none).
    Only of the contiguous axis `line` is not 0: it is the elements of a cache line, and `step` and
    `reach` are the elements from one image or filter point to the next. An image point owns the
    elements up to the next one, which come along in its lines, so that several tiles never occupy
    less than one that covers them all.
    """

    axis: Axis
    points: int
    taps: int
    line: int = 0
    step: int = 1
    reach: int = 1

    @property
    def plain(self) -> bool:
        """Whether tiles occupy as many elements as they have points."""
        return self.axis.filter is None and not self.line

    @property
    def whole(self) -> int:
        """Elements of a tile that spans the axis: it runs on into the next row, so that no line is
        brought in for a part of it."""
        if not self.line:
            return self.axis.touched(self.points, self.taps)
        span = self.step * (self.points - 1) + self.reach * (self.taps - 1) + 1
        return min(span, self.rounded(self.points, self.taps))

    def rounded(self, points: int, taps: int) -> int:
        """Elements of the lines that a tile occupies which starts with a line and does not span
        the axis. (Only operators: numbers or arrays.)"""
        if self.step > self.line:  # no two points share a line
            per_point = taps if self.reach > self.line else -(-self.reach * taps // self.line)
            lines = points * per_point
        elif self.reach > self.line:
            lines = taps * -(-self.step * points // self.line)
        else:
            span = self.step * (points - 1) + self.reach * (taps - 1) + max(self.step, self.reach)
            lines = -(-span // self.line)
        return lines * self.line

    def occupied(self, points: int, taps: int) -> int:
        """Elements of memory that a tile of `points` by `taps` occupies."""
        if not self.line:
            return self.axis.touched(points, taps)
        if points == self.points and taps == self.taps:
            return self.whole
        return self.rounded(points, taps)


@lru_cache(maxsize=64)
def axes(problem: Problem, tensor: Tensor) -> tuple[Axis, ...]:
    """The axes of `tensor`; axes that never move (extent 1) are kept, with one of their dims."""
    return tuple(axis_of(problem, form) for form in tensor.axes if any(c for _, c in form.terms))


@lru_cache(maxsize=256)
def memory_axes(problem: Problem, tensor: Tensor, line_bytes: int) -> tuple[MemoryAxis, ...]:
    """The axes of `tensor` as `axes`, one of them with its lines of `line_bytes`: that whose
    elements lie closest. None has, where nothing is known of the memory or for lines of 0 bytes,
    which stand for memory that moves in elements."""
    plain = [
        MemoryAxis(axis, problem.extent(axis.image), problem.extent(axis.filter or ""))
        for axis in axes(problem, tensor)
    ]
    steps = _steps(problem, tensor)
    if not line_bytes or not steps:
        return tuple(plain)
    closest = min(steps, key=lambda axis: min(steps[axis].values()))
    line = max(1, line_bytes // tensor.element.size)
    found = []
    for part in plain:
        if part.axis == closest:
            step = steps[closest].get(closest.image, 1)
            reach = steps[closest].get(closest.filter or "", step)
            part = replace(part, line=line, step=step, reach=reach)
        found.append(part)
    return tuple(found)


def _steps(problem: Problem, tensor: Tensor) -> dict[Axis, dict[str, int]]:
    """Elements of memory from one value of a dim to the next, for the axes that move and are
    known."""
    found = {}
    for form, stride in zip(tensor.axes, tensor.strides, strict=True):
        steps = {dim: abs(c) for dim, c in form.terms if c and problem.extent(dim) > 1}
        if steps and stride:
            found[axis_of(problem, form)] = {dim: c * stride for dim, c in steps.items()}
    return found


def footprint(problem: Problem, tensor: Tensor, tile: Mapping[str, int]) -> int:
    """Distinct elements of `tensor` in a tile (paper, Eq. 4, with strides and dilations)."""
    return prod(axis.extent(tile) for axis in axes(problem, tensor))


def occupied(problem: Problem, tensor: Tensor, tile: Mapping[str, int], line_bytes: int) -> int:
    """Elements of memory that a tile of `tensor` occupies in a cache: its elements, rounded to
    whole lines of `line_bytes` along the contiguous axis."""
    return prod(
        part.occupied(tile[part.axis.image], tile[part.axis.filter] if part.axis.filter else 1)
        for part in memory_axes(problem, tensor, line_bytes)
    )
