"""How many distinct elements of a tensor a tile touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
        if self.filter is None:
            return tile[self.image]
        return self.moved(tile[self.image], tile[self.filter], 1, 1)

    def moved(self, points: int, taps: int, runs: int, pieces: int) -> int:
        """Elements that enter when `points` image points come in `runs` runs and `taps` filter
        points in `pieces` pieces: the sum of the extents of all tiles (an upper bound of it, if
        the last run is shorter than the dilation or the last piece than the stride)."""
        own = min(self.stride * pieces, taps)
        return points * own + min(self.dilation * runs, points) * (taps - own)


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


@lru_cache(maxsize=64)
def axes(problem: Problem, tensor: Tensor) -> tuple[Axis, ...]:
    """The axes of `tensor`; axes that never move (extent 1) are kept, with one of their dims."""
    return tuple(axis_of(problem, form) for form in tensor.axes if any(c for _, c in form.terms))


def footprint(problem: Problem, tensor: Tensor, tile: Mapping[str, int]) -> int:
    """Distinct elements of `tensor` in a tile (paper, Eq. 4, with strides and dilations)."""
    return prod(axis.extent(tile) for axis in axes(problem, tensor))
