"""What wrote the output of a convolution just before it: a fill, or a bias that was broadcast.

Generated code starts its sums from the scalar or the bias instead, and the output is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.problem import Problem, Role


@dataclass(frozen=True)
class Initializer:
    """What the output holds before the convolution accumulates into it.

    `operation` wrote it; `fill` is the scalar it filled with, or `bias` a one-dimensional operand
    that it broadcast along every dim but the output channel.
    """

    operation: Any
    fill: Any = None
    bias: Any = None


def initializer_of(
    operation: Any, output: Any, problem: Problem, on_tensors: bool, bindings: Bindings
) -> Initializer | None:
    """The fill or bias broadcast that wrote `output` just before `operation`, if any."""
    if on_tensors:
        writer = None if isinstance(output.owner, bindings.ir.Block) else output.owner
    else:
        writer = _previous_writer(operation, output)
    if writer is None:
        return None
    writer = writer.operation
    if writer.name == "linalg.fill":
        return Initializer(writer, fill=writer.operands[0])
    return _bias(writer, problem, bindings)


WRITE_NOTHING = frozenset(
    {
        "affine.apply",
        "memref.alloc",
        "memref.alloca",
        "memref.cast",
        "memref.collapse_shape",
        "memref.expand_shape",
        "memref.get_global",
        "memref.subview",
        "tensor.empty",
    }
)
"""Operations that may stand between an initializer and a convolution, as may all of `arith`."""


def _previous_writer(operation: Any, output: Any) -> Any:
    """The operation that last wrote memref `output`, if nothing else could have come between."""
    writer = None
    for candidate in operation.block.operations:
        candidate = candidate.operation
        if candidate == operation:
            return writer
        if candidate.name in WRITE_NOTHING or candidate.name.startswith("arith."):
            continue
        writes = candidate.name.startswith("linalg.") and len(candidate.operands) > 0
        writer = candidate if writes and candidate.operands[-1] == output else None
    return None


def _bias(writer: Any, problem: Problem, bindings: Bindings) -> Initializer | None:
    """`writer` as a broadcast of a vector over the output channel, or None."""
    k = problem.by_role(Role.OUT_CHANNEL)
    channel = [i for i, axis in enumerate(problem.output.axes) if axis.dims == k]
    if not k or writer.name not in ("linalg.broadcast", "linalg.generic"):
        return None
    if len(writer.operands) != 2 or len(writer.operands[0].type.shape) != 1:
        return None
    body = [op.operation for op in writer.regions[0].blocks[0].operations]
    block = writer.regions[0].blocks[0]
    if len(body) != 1 or body[0].operands[0] != block.arguments[0]:
        return None
    if writer.name == "linalg.broadcast":
        dimensions = list(writer.attributes["dimensions"])
        rank = len(problem.output.axes)
        free = [i for i in range(rank) if i not in dimensions]
    else:
        source, target = (m.value for m in writer.attributes["indexing_maps"])
        if target != bindings.ir.AffineMap.get_identity(target.n_dims):
            return None
        expr = source.results[0]
        if not isinstance(expr, bindings.ir.AffineDimExpr):
            return None
        free = [expr.position]
    return Initializer(writer, bias=writer.operands[0]) if free == channel else None
