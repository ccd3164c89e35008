"""The memrefs of one convolution, the places in them, and packed weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.upcoming import NextBlock
from mopt_mlir.problem import Tensor


@dataclass(frozen=True)
class Operands:
    """Memrefs whose axes are those of the problem's tensors.

    There are either `weights`, or `panels` of all of them that were packed beforehand. The output
    starts from the scalar `fill`, from `bias` (a memref over the output channel), or, if both are
    None, from what it holds. It is written past the caches if `nontemporal` is set.
    """

    input: Any
    weights: Any
    panels: Any
    bias: Any
    fill: Any
    output: Any
    nontemporal: bool = False

    def present(self) -> dict[str, Any]:
        """The values that there are, by name, in the order of a shared nest's parameters."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        del named["nontemporal"]
        return {name: value for name, value in named.items() if value is not None}


def indices_of(tensor: Tensor, point: Mapping[str, Index]) -> list[Index]:
    """The indices of the element of `tensor` that the iteration `point` accesses."""
    indices = []
    for axis in tensor.axes:
        index = Index()
        for dim, coefficient in axis.terms:
            index = index + point[dim] * coefficient
        indices.append(index)
    return indices


@dataclass(frozen=True)
class Position:
    """Offsets of a vector or scalar inside the register tile, and how many lanes are inside it."""

    offsets: tuple[tuple[str, int], ...]
    valid: int

    def offset(self, dim: str) -> int:
        return dict(self.offsets).get(dim, 0)


@dataclass(frozen=True)
class Panels:
    """Packed weights: `memref[panel, *reduction, lane]`, `width` output channels in a panel.

    The block starts at `starts[dim]` of the weights; the reduction axes are in the order
    `reduction`. `next_block` is the one that these panels will hold next, if that is known.
    """

    memref: Any
    width: int
    channel: str
    reduction: tuple[str, ...]
    starts: Mapping[str, Index]
    next_block: NextBlock | None = None

    def panel_of(self, builder: Builder, ranges: Mapping[str, Range]) -> Index:
        """Which panel holds the register tile that begins at the start of `ranges`."""
        offset = ranges[self.channel].start - self.starts[self.channel]
        return builder.apply("panel", offset, self.width)

    def indices_of(self, panel: Index, point: Mapping[str, Index], lane: Index) -> list[Index]:
        """The indices of `lane` of `panel` at the reduction point `point` of the weights."""
        return [panel, *(point[dim] - self.starts[dim] for dim in self.reduction), lane]
