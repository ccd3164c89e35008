"""Problems beyond dense 2-d convolutions, built from their accesses."""

from __future__ import annotations

from collections.abc import Mapping

from mopt_mlir.model.footprint import footprint
from mopt_mlir.problem import Dim, ElementType, LinearForm, Problem, Role, dense

ROLES = {
    "n": Role.BATCH,
    "k": Role.OUT_CHANNEL,
    "d": Role.IMAGE,
    "h": Role.IMAGE,
    "w": Role.IMAGE,
    "c": Role.CHANNEL,
    "q": Role.FILTER,
    "r": Role.FILTER,
    "s": Role.FILTER,
}


def problem(
    input_: str, weights: str, output: str, element: ElementType = ElementType.F32, **extents: int
) -> Problem:
    """Axes are written as words, such as `n c 2h+r w+s`; dims are in the order of `extents`."""

    def form(text: str) -> LinearForm:
        terms = ((term[-1], int(term[:-1] or 1)) for term in text.split("+"))
        return LinearForm(tuple(terms))

    tensors = (
        dense(name, element, tuple(form(axis) for axis in text.split()), extents)
        for name, text in (("input", input_), ("weights", weights), ("output", output))
    )
    return Problem(tuple(Dim(d, n, ROLES[d]) for d, n in extents.items()), *tensors)


def matmul(n: int, k: int, c: int) -> Problem:
    return problem("n c", "c k", "n k", n=n, k=k, c=c)


def conv1d(k: int, w: int, c: int, s: int, *, stride: int = 1) -> Problem:
    return problem(f"c {stride}w+s", "k c s", "k w", k=k, w=w, c=c, s=s)


def conv3d(k: int, d: int, h: int, w: int, c: int, q: int, r: int, s: int) -> Problem:
    sizes = {"k": k, "d": d, "h": h, "w": w, "c": c, "q": q, "r": r, "s": s}
    return problem("c d+q h+r w+s", "k c q r s", "k d h w", **sizes)


def tile_bytes(problem: Problem, tile: Mapping[str, int]) -> int:
    """Bytes of the distinct elements that a tile touches: the least room that it can take."""
    return sum(t.element.size * footprint(problem, t, tile) for t in problem.tensors)
