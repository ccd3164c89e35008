"""Packing weights into panels, in the nest or at compile time.

`panels[k / width][reduction…][width] = weights[k][reduction…]`: what one register tile reads in a
step of the reduction is contiguous, and the steps follow each other. Lanes beyond the last output
channel are zero, so that whole vectors can always be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Panels
from mopt_mlir.codegen.panel_copy import PanelCopy
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.microkernel import Microkernel
from mopt_mlir.problem import Problem


def panel_shape(problem: Problem, kernel: Microkernel, sizes: Mapping[str, int]) -> list[int]:
    """Shape of the panels of a block of weights of `sizes` elements per dim, 1 where none is given:
    weights of a single channel may have no dim for it."""
    channel = problem.out_channel
    width = kernel.extent(channel)
    reduction = (sizes.get(dim, 1) for dim in kernel.reduction)
    return [-(-sizes.get(channel, 1) // width), *reduction, width]


def pack_constant(problem: Problem, kernel: Microkernel, weights: NDArray[Any]) -> NDArray[Any]:
    """The panels of constant `weights`, whose axes, but for those of one element, are those of the
    problem's weights tensor."""
    channel = problem.out_channel
    order = (channel, *kernel.reduction)
    used = [axis.dims[0] for axis in problem.weights.axes if axis.dims]
    kept = weights.reshape([problem.extent(dim) for dim in used])
    plain = kept.transpose([used.index(dim) for dim in order if dim in used])
    plain = plain.reshape([problem.extent(dim) for dim in order])
    shape = panel_shape(problem, kernel, problem.extents)
    padding = shape[0] * shape[-1] - problem.extent(channel)
    padded = np.pad(plain, [(0, padding)] + [(0, 0)] * len(kernel.reduction))
    split = padded.reshape([shape[0], shape[-1], *shape[1:-1]])
    return np.ascontiguousarray(np.moveaxis(split, 1, -1))


def emit_packing(copy: PanelCopy, cores: int) -> None:
    """Fill the panels of a block of weights, which as many `cores` share."""
    builder, panels = copy.builder, copy.panels
    extent, width = copy.problem.extent(panels.channel), panels.width

    def pack_panel(panel: Index) -> None:
        first = panels.starts[panels.channel] + panel * width
        builder.whole_or_rest(first, width, extent, partial(copy.emit, panel, first))

    count = panels.memref.type.shape[0]
    if count == 1:
        pack_panel(Index())
        return
    bounds = [Index(constant=count), *_cut(builder, panels, copy.ranges[panels.channel])]
    if cores > 1:
        share = -(-count // cores)
        with (
            builder.parallel(["panels"], [Index()], [bounds], [share]) as (start,),
            builder.loop("panel", start, [start + share, *bounds]) as panel,
        ):
            pack_panel(panel)
    else:
        with builder.loop("panel", Index(), bounds) as panel:
            pack_panel(panel)


def _cut(builder: Builder, panels: Panels, range_: Range) -> list[Index]:
    """The number of panels that the range really covers, where outer bounds may cut it short."""
    if range_.exact:
        return []
    start, width = panels.starts[panels.channel], panels.width
    return [builder.apply("panels", end - start + (width - 1), width) for end in range_.ends[1:]]
