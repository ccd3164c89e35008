"""The iteration space of a convolution-like operator and how it reads and writes its tensors.

A `Problem` knows no MLIR: it is what the model, the solver and the code generator share. Dims are
named as in the literature: `n` batch, `k` output channel, `c` input channel, then image dims
(`h`, `w`; `d` in front for 3-d, `w` alone for 1-d) and filter dims (`r`, `s`; `q` in front). An
operator without some dim (a matmul has no filter, `linalg.conv_2d` no channels) simply lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod
from operator import index
from typing import SupportsIndex

MOST_POINTS = 1 << 22
"""The largest extent of a dim that plans are made for, and that image dims are fused into: 2048 by
2048 pixels. The planner lists the tile sizes of a dim, and looks at each of its points for
bounds."""

MOST_BYTES = 1 << 60
"""The largest tensor: the planner counts with integers of 64 bits."""

TENSORS = ("input", "weights", "output")
"""The names of `Problem.tensors`, in their order."""

WEIGHTS, OUTPUT = 1, 2
"""The positions of these among them."""


class NoPlanError(ValueError):
    """There is no plan for a problem; says why."""


class Role(str, Enum):
    """What a dim of the iteration space does; `CHANNEL` and `FILTER` are the reductions."""

    BATCH = "batch"
    OUT_CHANNEL = "out_channel"
    IMAGE = "image"
    CHANNEL = "channel"
    FILTER = "filter"

    @property
    def is_reduction(self) -> bool:
        return self in (Role.CHANNEL, Role.FILTER)


class ElementType(str, Enum):
    F32 = "f32"
    F64 = "f64"

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return 4 if self is ElementType.F32 else 8


@dataclass(frozen=True)
class Dim:
    """One loop of the iteration space, from 0 to `extent` - 1."""

    name: str
    extent: int
    role: Role


@dataclass(frozen=True)
class LinearForm:
    """`sum(coefficient * dim)`: the index along one axis of a tensor, e.g. `2*h + 1*r`."""

    terms: tuple[tuple[str, int], ...]

    @staticmethod
    def of(**terms: int) -> LinearForm:
        return LinearForm(tuple(terms.items()))

    def coefficient(self, dim: str) -> int:
        """Coefficient of `dim`, 0 where it is absent."""
        return next((c for name, c in self.terms if name == dim), 0)

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    def reach(self, sizes: Mapping[str, int]) -> int:
        """From the first to the last index that a tile of `sizes` reads; dims that are not in it
        count as 1."""
        return sum(coefficient * (sizes.get(dim, 1) - 1) for dim, coefficient in self.terms)


@dataclass(frozen=True)
class Tensor:
    """One operand: a linear form per axis, and the distance in elements between neighbours on it.

    `strides` is None on an axis whose stride is not known at compile time.
    """

    name: str
    element: ElementType
    axes: tuple[LinearForm, ...]
    strides: tuple[int | None, ...]

    @cached_property
    def dims(self) -> frozenset[str]:
        """The dims that are *present* in this tensor (paper, Sec. 2.2)."""
        return frozenset(dim for axis in self.axes for dim in axis.dims)

    def pitch(self, dim: str) -> int | None:
        """Elements of memory from one value of `dim` to the next: 0 where it is not present, None
        if not known."""
        return self._pitches.get(dim, 0)

    @cached_property
    def _pitches(self) -> Mapping[str, int | None]:
        """Of each dim; looked up, as the solver asks many thousand times."""
        found: dict[str, int | None] = {}
        for axis, stride in zip(self.axes, self.strides, strict=True):
            for dim, coefficient in axis.terms:
                before = found.get(dim, 0)
                if stride is None and coefficient:
                    found[dim] = None
                elif stride is not None and before is not None:
                    found[dim] = before + coefficient * stride
        return found

    def runs_along(self, dim: str) -> bool:
        """Whether vectors can run along `dim`: its values are neighbours on the last axis."""
        return bool(self.axes) and self.pitch(dim) == 1 and self.axes[-1].coefficient(dim) == 1


@dataclass(frozen=True)
class Problem:
    """`output[...] += input[...] * weights[...]` over all values of `dims`.

    `accumulates` says that what the output holds before counts; otherwise the sums start from a
    scalar or a bias, and the output need not be read.
    """

    dims: tuple[Dim, ...]
    input: Tensor
    weights: Tensor
    output: Tensor
    accumulates: bool = False

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.input, self.weights, self.output

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(dim.name for dim in self.dims)

    @cached_property
    def extents(self) -> Mapping[str, int]:
        return {dim.name: dim.extent for dim in self.dims}

    @cached_property
    def parallel_dims(self) -> tuple[str, ...]:
        return tuple(dim.name for dim in self.dims if not dim.role.is_reduction)

    @cached_property
    def reduction_dims(self) -> tuple[str, ...]:
        return tuple(dim.name for dim in self.dims if dim.role.is_reduction)

    @cached_property
    def pixel_dims(self) -> tuple[str, ...]:
        """Dims of input and output alike: loops over them read the same weights again."""
        return tuple(dim for dim in self.parallel_dims if dim in self.input.dims)

    def check_size(self) -> None:
        """Raise NoPlanError for a problem that is too large to be planned."""
        for dim in self.dims:
            if dim.extent > MOST_POINTS:
                raise NoPlanError(
                    f"its loop over {dim.name} has {dim.extent} iterations, and plans are made for "
                    f"at most {MOST_POINTS}; split it"
                )
        for name, tensor in zip(TENSORS, self.tensors, strict=True):
            if (size := tensor.element.size * self._elements(tensor)) > MOST_BYTES:
                raise NoPlanError(f"its {name} of {size} bytes is larger than any memory; split it")

    def _elements(self, tensor: Tensor) -> int:
        """Of the smallest box that has all that is read or written."""
        return prod(
            1 + sum(abs(c) * (self.extent(dim) - 1) for dim, c in form.terms)
            for form in tensor.axes
        )

    def extent(self, dim: str) -> int:
        """Extent of `dim`, 1 where the problem lacks it."""
        return self.extents.get(dim, 1)

    def points(self, dims: Iterable[str]) -> int:
        """The product of the extents of `dims`."""
        return prod(map(self.extent, dims))

    def by_role(self, role: Role) -> tuple[str, ...]:
        return tuple(dim.name for dim in self.dims if dim.role is role)

    @property
    def out_channel(self) -> str:
        """The dim of the output channels, of which a problem in normal form has one."""
        (channel,) = self.by_role(Role.OUT_CHANNEL)
        return channel

    @property
    def flops(self) -> int:
        """Floating-point operations: one multiplication and one addition per point."""
        total = 2
        for dim in self.dims:
            total *= dim.extent
        return total


def conv2d(
    *,
    k: int,
    h: int,
    w: int,
    c: int,
    r: int,
    s: int,
    n: int = 1,
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    layout: str = "nchw",
    weights: str = "fchw",
    element: ElementType | str = ElementType.F32,
) -> Problem:
    """A dense 2-d convolution of `n` images, from `c` to `k` channels, with filters of `r` by `s`
    taps; `h`, `w` are output sizes and the input is already padded.

    All of them, and `stride` and `dilation`, of rows and columns, are 1 or more, in elements; plans
    are made for sizes up to MOST_POINTS. `layout` is `nchw` or `nhwc` (input and output), `weights`
    is `fchw`, `hwcf` or `fhwc`, and `element` `f32` or `f64`. Raises ValueError for another layout
    or element, and for a size, stride or dilation that is not a positive integer.
    """
    element = ElementType(element)
    sizes = {"n": n, "k": k, "h": h, "w": w, "c": c, "r": r, "s": s}
    extents = {name: _positive(name, size) for name, size in sizes.items()}
    sh, sw = _pair("stride", stride)
    dh, dw = _pair("dilation", dilation)
    rows, columns = LinearForm.of(h=sh, r=dh), LinearForm.of(w=sw, s=dw)
    n_, k_, c_ = LinearForm.of(n=1), LinearForm.of(k=1), LinearForm.of(c=1)
    h_, w_, r_, s_ = (LinearForm.of(**{d: 1}) for d in "hwrs")
    images = {
        "nchw": ((n_, c_, rows, columns), (n_, k_, h_, w_)),
        "nhwc": ((n_, rows, columns, c_), (n_, h_, w_, k_)),
    }
    filters = {"fchw": (k_, c_, r_, s_), "hwcf": (r_, s_, c_, k_), "fhwc": (k_, r_, s_, c_)}
    if layout not in images:
        raise ValueError(f"unknown layout {layout!r}; known: {', '.join(images)}")
    if weights not in filters:
        raise ValueError(f"unknown weight layout {weights!r}; known: {', '.join(filters)}")
    roles = (
        *(Role.BATCH, Role.OUT_CHANNEL, Role.IMAGE, Role.IMAGE),
        *(Role.CHANNEL, Role.FILTER, Role.FILTER),
    )
    dims = tuple(Dim(d, extents[d], role) for d, role in zip("nkhwcrs", roles, strict=True))
    input_axes, output_axes = images[layout]
    return Problem(
        dims,
        dense("input", element, input_axes, extents),
        dense("weights", element, filters[weights], extents),
        dense("output", element, output_axes, extents),
    )


def _positive(name: str, value: SupportsIndex) -> int:
    """Also of numpy's integers. Raises ValueError for what is none, or not positive."""
    try:
        number = index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} is {value!r}, not a positive integer")
    return number


def _pair(name: str, value: SupportsIndex | tuple[SupportsIndex, SupportsIndex]) -> tuple[int, int]:
    """For rows and for columns."""
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"{name} is {value!r}, neither a number nor one for rows and for columns")
    rows, columns = (_positive(name, one) for one in pair)
    return rows, columns


def dense(
    name: str, element: ElementType, axes: tuple[LinearForm, ...], extents: Mapping[str, int]
) -> Tensor:
    """A tensor in row-major order without gaps."""
    strides: list[int | None] = []
    step = 1
    for axis in reversed(axes):
        strides.append(step)
        step *= 1 + axis.reach(extents)
    return Tensor(name, element, axes, tuple(reversed(strides)))
