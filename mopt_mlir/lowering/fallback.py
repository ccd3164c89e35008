"""linalg operations that were not tiled, as plain loops that LLVM can vectorise.

A loop can be vectorised if its iterations are independent and neighbours in memory. So the last
parallel dim of the output becomes the innermost loop: behind the reductions, whose sums LLVM must
not reorder. All other loops are marked as not to be vectorised. The opposite, to ask for it where
it is wanted, would make LLVM warn wherever it cannot or would rather not.
"""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.lowering.operations import find
from mopt_mlir.lowering.pipeline import run_upstream

_FREE = "mopt.vectorise"  # on a loop that LLVM may vectorise
_GIVEN = "mopt.given"  # on a loop that is not the lowering's own

_ANNOTATION = "llvm.loop_annotation"
"""An attribute that a loop keeps until it is a branch."""

_NOT_VECTORISED = "#llvm.loop_annotation<vectorize = <disable = true>>"


def linalg_to_loops(module: Any) -> None:
    """Lower the linalg operations of a bufferised module to `scf.for`. Raises PassFailure."""
    bindings = bindings_of(module)
    _copies_to_linalg(module)
    run_upstream(module, "linalg-generalize-named-ops")
    for generic in find(module, "linalg.generic"):
        _put_output_last(generic, bindings)
    with module.context:
        unit = bindings.ir.UnitAttr.get()
    for loop in find(module, "scf.for"):
        loop.attributes[_GIVEN] = unit
    run_upstream(module, "convert-linalg-to-loops")
    for loop in find(module, "scf.for"):
        body = [op.operation.name for op in loop.regions[0].blocks[0].operations]
        if _GIVEN in loop.attributes:
            del loop.attributes[_GIVEN]
        elif "scf.for" not in body:
            loop.attributes[_FREE] = unit


def mark_loops(module: Any) -> None:
    """Keep LLVM from vectorising any `scf.for` but those that `linalg_to_loops` has made."""
    with module.context:
        keep_off = bindings_of(module).ir.Attribute.parse(_NOT_VECTORISED)
    for loop in find(module, "scf.for"):
        if _FREE in loop.attributes:
            del loop.attributes[_FREE]
        else:
            loop.attributes[_ANNOTATION] = keep_off


def keep_marks(module: Any) -> None:
    """Give the marks of loops, which are branches by now, the name that LLVM IR is made from."""
    for branch in find(module, "llvm.br"):
        if _ANNOTATION in branch.attributes:
            branch.attributes["loop_annotation"] = branch.attributes[_ANNOTATION]
            del branch.attributes[_ANNOTATION]


def _copies_to_linalg(module: Any) -> None:
    """Make loops of the copies between buffers with gaps: upstream calls a runtime library that
    nobody links. Copies between dense buffers become `memcpy`."""
    bindings = bindings_of(module)
    for copy in find(module, "memref.copy"):
        source, target = copy.operands
        if not all(isinstance(v.type, bindings.ir.MemRefType) for v in (source, target)):
            continue
        with module.context, bindings.ir.InsertionPoint(copy), copy.location:
            dense = bindings.ir.AffineMap.get_identity(source.type.rank)
            if any(v.type.affine_map != dense for v in (source, target)):
                bindings.linalg.copy(source, outs=[target])
                copy.erase()


def _put_output_last(generic: Any, bindings: Bindings) -> None:
    """Move the loop over the last axis of the first output to the innermost place.

    The order of the reductions among themselves stays, and with it every rounding.
    """
    ir = bindings.ir
    inputs = generic.attributes["operandSegmentSizes"][0]
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    output, loops = maps[inputs].results, maps[inputs].n_dims
    if not len(output) or not isinstance(output[-1], ir.AffineDimExpr):
        return
    inner = output[-1].position
    order = [*(loop for loop in range(loops) if loop != inner), inner]
    with generic.context:
        moved = ir.AffineMap.get(
            loops, 0, [ir.AffineDimExpr.get(order.index(loop)) for loop in range(loops)]
        )
        generic.attributes["indexing_maps"] = ir.ArrayAttr.get(
            [
                ir.AffineMapAttr.get(
                    ir.AffineMap.get(loops, 0, [result.compose(moved) for result in map_.results])
                )
                for map_ in maps
            ]
        )
        kinds = list(generic.attributes["iterator_types"])
        generic.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in order])
        for index in find(generic, "linalg.index"):
            old = index.attributes["dim"]
            index.attributes["dim"] = ir.IntegerAttr.get(old.type, order.index(old.value))
