"""What wrote the output of a convolution just before it: a fill, or a bias that was broadcast.

Generated code starts its sums from the scalar or the bias instead, and the output is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.layouts import layout_of
from mopt_mlir.linalg.memory import Memory
from mopt_mlir.operations import defining_op
from mopt_mlir.problem import Problem, Role


@dataclass(frozen=True)
class Initializer:
    """What the output holds before the convolution accumulates into it.

    `operation` wrote it: it filled it with a scalar, or, if `has_bias`, it broadcast a
    one-dimensional operand along every dim but the output channel. Which value that is, is read off
    the operation when asked for, as its operands are replaced where what produces them is.
    """

    operation: Any
    has_bias: bool = False

    @property
    def fill(self) -> Any:
        return None if self.has_bias else self.operation.operands[0]

    @property
    def bias(self) -> Any:
        return self.operation.operands[0] if self.has_bias else None


def initializer_of(
    operation: Any, output: Any, problem: Problem, on_tensors: bool, memory: Memory
) -> Initializer | None:
    """The fill or bias broadcast that wrote `output` before `operation`, if there is one, and
    nothing that is between them could tell whether it is done later."""
    if not on_tensors:
        return _initializer_in_memory(operation, output, problem, memory)
    writer = defining_op(output)
    return None if writer is None else _initializer(writer, problem, memory.bindings)


def _initializer_in_memory(
    operation: Any, output: Any, problem: Problem, memory: Memory
) -> Initializer | None:
    if any(memory.may_coincide(value, output) for value in list(operation.operands)[:-1]):
        return None  # it reads what was written
    writer, between = _previous_writer(operation, output, memory)
    found = None if writer is None else _initializer(writer, problem, memory.bindings)
    if found is None or not found.has_bias:
        return found
    changes = (memory.may_access(other, found.bias, by_writing=True) for other in between)
    return None if memory.may_share(found.bias, output) or any(changes) else found


def _previous_writer(operation: Any, output: Any, memory: Memory) -> tuple[Any, Sequence[Any]]:
    """The operation of linalg that last wrote memref `output`, and those between it and
    `operation`, none of which accesses `output`; None if something else may have."""
    between: list[Any] = []
    for candidate in memory.before(operation):
        operands = candidate.operands
        if candidate.name.startswith("linalg.") and len(operands) and operands[-1] == output:
            return candidate, between
        if candidate == output.owner or memory.may_access(candidate, output):
            break
        between.append(candidate)
    return None, between


def _initializer(writer: Any, problem: Problem, bindings: Bindings) -> Initializer | None:
    """`writer` as a fill, or as a broadcast of a vector over the output channel, or None."""
    if writer.name == "linalg.fill":
        return Initializer(writer)
    axes = _broadcast_axes(writer, bindings)
    if axes is None:
        return None
    source = writer.operands[0]
    if not isinstance(source.type, bindings.ir.ShapedType):
        return Initializer(writer)
    k = problem.by_role(Role.OUT_CHANNEL)
    channel = [i for i, axis in enumerate(problem.output.axes) if k and axis.dims == k]
    if not channel or axes != channel or not _is_strided(source.type, bindings):
        return None
    return Initializer(writer, has_bias=True)


def _broadcast_axes(writer: Any, bindings: Bindings) -> list[int] | None:
    """The axes of the output along which the one operand that `writer` copies there varies: none
    for a scalar. None if `writer` does anything else."""
    ir = bindings.ir
    if writer.name not in ("linalg.broadcast", "linalg.generic") or len(writer.operands) != 2:
        return None
    block = writer.regions[0].blocks[0]
    body = [op.operation for op in block.operations]
    if len(body) != 1 or body[0].operands[0] != block.arguments[0]:
        return None
    if writer.name == "linalg.broadcast":
        added = list(writer.attributes["dimensions"])
        return [axis for axis in range(writer.operands[1].type.rank) if axis not in added]
    if writer.attributes["operandSegmentSizes"][0] != 1:
        return None  # it has two outputs, and yields what they hold
    source, target = (attribute.value for attribute in writer.attributes["indexing_maps"])
    if target != ir.AffineMap.get_identity(target.n_dims, target.context):
        return None
    loops = list(source.results)
    if not all(isinstance(loop, ir.AffineDimExpr) for loop in loops):
        return None
    return [loop.position for loop in loops]


def _is_strided(type_: Any, bindings: Bindings) -> bool:
    """Whether elements lie at a fixed distance, as in anything but a memref with another layout."""
    return isinstance(type_, bindings.ir.RankedTensorType) or layout_of(type_) is not None
