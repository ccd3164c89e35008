"""linalg operations that were not tiled, as plain loops that LLVM can vectorise.

Upstream's loops end in the reductions of an operation, which jump through memory, and whose sums
LLVM must not reorder; so the loops are interchanged first. All other loops of a module are marked
as not to be vectorised. The opposite, to ask for it where it is wanted, would make LLVM warn
wherever it cannot or would rather not.
"""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.layouts import is_row_major, layout_of
from mopt_mlir.lowering.upstream import run_upstream
from mopt_mlir.operations import find

_FREE = "mopt.vectorise"  # on a loop that LLVM may vectorise
_GIVEN = "mopt.given"  # on a loop that is not the lowering's own

ANNOTATION = "llvm.loop_annotation"
"""An attribute that a loop keeps until it is a branch."""

NOT_VECTORISED = "vectorize = <disable = true>"
_REDUCTION = "#linalg.iterator_type<reduction>"
_STRICT = "#arith.fastmath<none>"
_FUSE = "#arith.fastmath<contract>"
_FUSE_AND_REORDER = "#arith.fastmath<reassoc,contract>"
_WORTH_VECTORS = 8  # iterations


def linalg_to_loops(module: Any) -> None:
    """Lower the linalg operations of a bufferised module to `scf.for`. Raises Failure."""
    bindings = bindings_of(module)
    _copies_to_linalg(module)
    run_upstream(module, "linalg-generalize-named-ops")
    for generic in find(module, "linalg.generic"):
        _order_loops(generic, bindings)
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
        keep_off = bindings_of(module).ir.Attribute.parse(
            f"#llvm.loop_annotation<{NOT_VECTORISED}>"
        )
    for loop in find(module, "scf.for"):
        if _FREE in loop.attributes:
            del loop.attributes[_FREE]
        else:
            loop.attributes[ANNOTATION] = keep_off


def keep_marks(module: Any) -> None:
    """Give the marks of loops, which are branches by now, the name that LLVM IR is made from."""
    for branch in find(module, "llvm.br"):
        if ANNOTATION in branch.attributes:
            branch.attributes["loop_annotation"] = branch.attributes[ANNOTATION]
            del branch.attributes[ANNOTATION]


def _copies_to_linalg(module: Any) -> None:
    """Make loops of the copies between buffers with gaps: upstream calls a runtime library that
    nobody links. Copies between dense buffers become `memcpy`."""
    bindings = bindings_of(module)
    for copy in find(module, "memref.copy"):
        source, target = copy.operands
        if not all(isinstance(v.type, bindings.ir.MemRefType) for v in (source, target)):
            continue
        with module.context, bindings.ir.InsertionPoint(copy), copy.location:
            if not all(is_row_major(v.type) for v in (source, target)):
                bindings.linalg.copy(source, outs=[target])
                copy.erase()


def _order_loops(generic: Any, bindings: Bindings) -> None:
    """Make the innermost loop one that LLVM can vectorise.

    That is the loop over the last axis of the first output, unless another operand jumps through
    memory along it and there is a reduction along which none does (as in a matrix-vector product).
    The sum of such a reduction may be computed in another order. As in tiled code, products are
    added to sums without being rounded.
    """
    ir = bindings.ir
    inputs = generic.attributes["operandSegmentSizes"][0]
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    kinds = [str(kind) for kind in generic.attributes["iterator_types"]]
    reductions = [loop for loop, kind in enumerate(kinds) if kind == _REDUCTION]
    axes = list(maps[inputs].results)
    last = [axis.position for axis in axes[-1:] if isinstance(axis, ir.AffineDimExpr)]
    smooth = (loop for loop in (*last, *reductions) if _is_smooth(generic, maps, loop, bindings))
    innermost = next(smooth, last[0] if last else None)
    if reductions:
        _relax(generic, _FUSE_AND_REORDER if innermost in reductions else _FUSE)
    if innermost is None:
        return
    others = [loop for loop in range(len(kinds)) if loop != innermost]
    _interchange(generic, maps, [*others, innermost], bindings)


def _is_smooth(generic: Any, maps: list[Any], loop: int, bindings: Bindings) -> bool:
    """Whether each operand stays, or moves on by one element, from one iteration of `loop` to the
    next, for so many iterations that vectors are worth it."""
    ir = bindings.ir
    extents = set()
    for operand, map_ in zip(generic.operands, maps, strict=True):
        start, second = (_first_point(map_, loop, value, bindings) for value in (0, 1))
        steps = [b - a for a, b in zip(start, second, strict=True)]
        if not any(steps):
            continue
        if any(steps[:-1]) or steps[-1] != 1 or _last_stride(operand.type) != 1:
            return False
        if map_.results[-1] == ir.AffineDimExpr.get(loop, generic.context):
            extents.add(operand.type.shape[-1])
    dynamic = ir.ShapedType.get_dynamic_size()
    return bool(extents) and all(n >= _WORTH_VECTORS or n == dynamic for n in extents)


def _first_point(map_: Any, loop: int, value: int, bindings: Bindings) -> list[int]:
    """What an indexing map gives where `loop` is at `value` and all others are at 0."""
    ir, context = bindings.ir, map_.context
    point = [
        ir.AffineConstantExpr.get(value if i == loop else 0, context) for i in range(map_.n_dims)
    ]
    constants = ir.AffineMap.get(0, 0, point, context)
    return [ir.AffineConstantExpr(result.compose(constants)).value for result in map_.results]


def _last_stride(type_: Any) -> int | None:
    layout = layout_of(type_)
    return None if layout is None else layout.strides[-1]


def _relax(generic: Any, flags: str) -> None:
    """Give LLVM more freedom in what the body sums up, where nothing else was said."""
    parse = bindings_of(generic).ir.Attribute.parse
    strict, relaxed = (parse(text, generic.context) for text in (_STRICT, flags))
    for operation in find(generic, "arith.addf", "arith.mulf"):
        if operation.attributes["fastmath"] == strict:
            operation.attributes["fastmath"] = relaxed


def _interchange(generic: Any, maps: list[Any], order: list[int], bindings: Bindings) -> None:
    """Put the loops of an operation into `order`, which lists their old numbers."""
    ir = bindings.ir
    loops = len(order)
    with generic.context:
        new = [ir.AffineDimExpr.get(order.index(loop)) for loop in range(loops)]
        moved = ir.AffineMap.get(loops, 0, new)
        composed = [
            ir.AffineMap.get(loops, 0, [result.compose(moved) for result in map_.results])
            for map_ in maps
        ]
        kinds = list(generic.attributes["iterator_types"])
        generic.attributes["indexing_maps"] = ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(map_) for map_ in composed]
        )
        generic.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in order])
        for index in find(generic, "linalg.index"):
            old = index.attributes["dim"]
            index.attributes["dim"] = ir.IntegerAttr.get(old.type, order.index(old.value))
