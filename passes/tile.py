"""`mopt-tile`: rewrite every convolution into tiled loops around a vector microkernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mopt_mlir.bindings import bindings_of
from mopt_mlir.planning.planning_pass import PlanningPass


@dataclass(frozen=True)
class TilePass(PlanningPass):
    """Rewrite every supported convolution into affine loops around an outer-product microkernel.

    Where an operation carries no plan (`mopt.plan`, see mopt-analyze), one is solved for first. The
    result is a band of loops per memory level in the plan's order, `affine.parallel` for the split
    between cores, packing of the weights inside the nest, and `vector.outerproduct` on
    register-sized vectors whose accumulators are carried through the reduction:

        output[k block][pixel] += panels[k block][c, r, s][k lane] * input[c, pixel + (r, s)]

    A fill or bias that initialises the output is folded into the first write; constant weights that
    the plan packs as a whole are packed now. Operations that are not supported stay and get a
    remark that says why.
    """

    name: ClassVar[str] = "mopt-tile"

    def run(self, module: Any) -> None:
        from mopt_mlir.codegen.rewrite import rewrite

        with module.context, module.location:
            rewrite(self.planner(module).planned(), bindings_of(module))
