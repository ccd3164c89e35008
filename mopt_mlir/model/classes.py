"""Which orders of a level's tile loops need to be looked at (paper, Sec. 4, for any accesses).

What an order decides, per tensor, is which loops lie inside the innermost loop that moves the
tensor (its tile is reused over them) and whether that loop slides along an axis with a halo (then
consecutive tiles overlap). Orders that agree on this have the same data volume; an order that
reuses a subset of what another reuses, for every tensor, is never better. What is left after both
reductions are the *classes*: eight of the 5040 orders of a 2-d convolution.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mopt_mlir.model.footprint import axes
from mopt_mlir.problem import Problem

Access = tuple[frozenset[str], frozenset[str]]
"""The dims present in a tensor, and those of them that slide along an axis with a halo."""


@dataclass(frozen=True)
class Reuse:
    """What an order of tile loops means for one tensor.

    `inside` are the absent dims whose loops lie inside the tensor's innermost present loop: its
    tile stays in the cache over them. `overlap` is the dim of that present loop if consecutive
    tiles along it share a halo.
    """

    inside: frozenset[str]
    overlap: str | None = None

    def covers(self, other: Reuse) -> bool:
        """Whether this is at least as much reuse as `other` for any tile sizes."""
        return self.inside >= other.inside and other.overlap in (None, self.overlap)


@dataclass(frozen=True)
class PermutationClass:
    """A class of loop orders: its innermost loops as a name, an order, the reuse per tensor.

    `reuse` is in the order of `Problem.tensors`.
    """

    name: str
    order: tuple[str, ...]
    reuse: tuple[Reuse, ...]


def reuse_of(problem: Problem, order: tuple[str, ...]) -> tuple[Reuse, ...]:
    """The reuse that the loops of `order` (outermost first) give to each tensor of `problem`."""
    return _reuse(_accesses(problem), order)


def class_name(problem: Problem, order: Sequence[str], live: Collection[str]) -> str:
    """The innermost loops of `order` up to the first that moves the input, of those that are
    `live`, which run more than once: the paper's class with innermost `wt, kt` is `wk`. It is
    `none` where there are none."""
    return _name(_accesses(problem), tuple(dim for dim in order if dim in live))


def permutation_classes(problem: Problem) -> tuple[PermutationClass, ...]:
    """The orders that suffice at one level of tiling; loops that never iterate are put outermost.

    The order of the result is fixed by the order of the problem's dims, innermost dim first.
    """
    moving = tuple(dim.name for dim in problem.dims if dim.extent > 1)
    still = tuple(dim.name for dim in problem.dims if dim.extent == 1)
    found = _classes(_accesses(problem), moving)
    return tuple(PermutationClass(c.name, still + c.order, c.reuse) for c in found)


def _accesses(problem: Problem) -> tuple[Access, ...]:
    moving = {dim.name for dim in problem.dims if dim.extent > 1}
    accesses = []
    for tensor in problem.tensors:
        sliding = {
            dim
            for axis in axes(problem, tensor)
            if axis.filter is not None
            for dim in (axis.image, axis.filter)
        }
        accesses.append((tensor.dims & moving, frozenset(sliding & moving)))
    return tuple(accesses)


def _reuse(accesses: tuple[Access, ...], order: tuple[str, ...]) -> tuple[Reuse, ...]:
    reuse = []
    for present, sliding in accesses:
        inside: set[str] = set()
        overlap = None
        for dim in reversed(order):
            if dim in present:
                overlap = dim if dim in sliding else None
                break
            inside.add(dim)
        reuse.append(Reuse(frozenset(inside), overlap))
    return tuple(reuse)


@lru_cache(maxsize=64)
def _classes(accesses: tuple[Access, ...], dims: tuple[str, ...]) -> tuple[PermutationClass, ...]:
    orders = _innermost_first(accesses, dims, ())
    by_reuse: dict[tuple[Reuse, ...], tuple[str, ...]] = {}
    for order in orders:
        by_reuse.setdefault(_reuse(accesses, order), order)
    return tuple(
        PermutationClass(_name(accesses, order), order, reuse)
        for reuse, order in by_reuse.items()
        if not any(_dominates(other, reuse) for other in by_reuse)
    )


def _innermost_first(
    accesses: tuple[Access, ...], dims: tuple[str, ...], inner: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """Orders that end with `inner`, one for each way of deciding the reuse of every tensor."""
    rest = tuple(dim for dim in dims if dim not in inner)
    if not rest or all(present & set(inner) for present, _ in accesses if present):
        return [rest + inner]
    return [
        order for dim in reversed(rest) for order in _innermost_first(accesses, dims, (dim, *inner))
    ]


def _dominates(better: tuple[Reuse, ...], worse: tuple[Reuse, ...]) -> bool:
    return better != worse and all(b.covers(w) for b, w in zip(better, worse, strict=True))


def _name(accesses: tuple[Access, ...], order: tuple[str, ...]) -> str:
    present = accesses[0][0]
    moving = [position for position, dim in enumerate(order) if dim in present]
    return "".join(order[moving[-1] :] if moving else order) or "none"
