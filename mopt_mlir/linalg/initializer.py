"""What wrote the output of a convolution just before it: a fill, or a bias that was broadcast.

Generated code starts its sums from the scalar or the bias instead, and the output is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mopt_mlir.bindings import Bindings, enclosing_module
from mopt_mlir.func_ops import name_of
from mopt_mlir.operations import find
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
    operation: Any, output: Any, problem: Problem, on_tensors: bool, bindings: Bindings
) -> Initializer | None:
    """The fill or bias broadcast that wrote `output` just before `operation`, if any."""
    if on_tensors:
        writer = None if isinstance(output.owner, bindings.ir.Block) else output.owner
    else:
        writer = _previous_writer(operation, output)
    if writer is None:
        return None
    return _initializer(writer.operation, output, problem, bindings)


VIEWS = frozenset(
    {
        "memref.cast",
        "memref.collapse_shape",
        "memref.expand_shape",
        "memref.reinterpret_cast",
        "memref.subview",
        "memref.transpose",
        "memref.view",
    }
)
"""Operations whose result is in the memory of their first operand."""

WRITE_NOTHING = VIEWS | {
    "affine.apply",
    "memref.alloc",
    "memref.alloca",
    "memref.get_global",
    "tensor.empty",
}
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


def _initializer(
    writer: Any, output: Any, problem: Problem, bindings: Bindings
) -> Initializer | None:
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
    if not channel or axes != channel or not _has_strides(source.type, bindings):
        return None
    return None if _may_share_memory(source, output, bindings) else Initializer(writer, True)


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


def _has_strides(type_: Any, bindings: Bindings) -> bool:
    """Whether elements lie at a fixed distance, as in anything but a memref with another layout."""
    if isinstance(type_, bindings.ir.RankedTensorType):
        return True
    try:
        type_.get_strides_and_offset()
    except (ValueError, RuntimeError):
        return False
    return True


def _may_share_memory(bias: Any, output: Any, bindings: Bindings) -> bool:
    """Whether a store to `output` may change `bias`, as far as their origins tell. The parameters
    of a function lie apart, and from the module's variables: whoever calls it sees to that, unless
    it is the module itself.
    """
    if isinstance(output.type, bindings.ir.RankedTensorType):
        return False
    one, other = (_origin(buffer, bindings) for buffer in (bias, output))
    if one is None or other is None or one == other:
        return True
    parameters = [origin.identity for origin in (one, other) if origin.kind == "parameter"]
    if not parameters or not {one.kind, other.kind} <= {"parameter", "variable"}:
        return False
    return _is_called(parameters[0].owner.owner)


@dataclass(frozen=True)
class _Origin:
    """A parameter or an allocation, which is a value, or the name of a variable or a constant."""

    kind: Literal["parameter", "allocation", "variable", "constant"]
    identity: Any


def _origin(buffer: Any, bindings: Bindings) -> _Origin | None:
    """What `buffer` is a part of; None if that is not known."""
    while not isinstance(buffer.owner, bindings.ir.Block):
        owner = buffer.owner.operation
        if owner.name in ("memref.alloc", "memref.alloca"):
            return _Origin("allocation", buffer)
        if owner.name == "memref.get_global":
            return _global(owner, bindings)
        if owner.name not in VIEWS:
            return None
        buffer = owner.operands[0]
    function = buffer.owner.owner.operation
    is_parameter = function.name == "func.func" and buffer.owner == function.regions[0].blocks[0]
    return _Origin("parameter", buffer) if is_parameter else None


def _is_called(function: Any) -> bool:
    """Whether anything in its module calls `function`, or may."""
    uses = {"func.call": "callee", "func.constant": "value"}
    return any(
        use.attributes[uses[use.name]].value == name_of(function)
        for use in find(enclosing_module(function), *uses)
    )


def _global(access: Any, bindings: Bindings) -> _Origin:
    name = access.attributes["name"]
    symbols = bindings.ir.SymbolTable(enclosing_module(access))
    is_constant = name.value in symbols and "constant" in symbols[name.value].operation.attributes
    return _Origin("constant" if is_constant else "variable", name)
