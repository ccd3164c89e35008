"""Replacing a convolution by its loop nest, on memrefs and on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.nest import Nest
from mopt_mlir.codegen.operands import Operands
from mopt_mlir.codegen.packing import SCRATCH_ALIGNMENT, pack_constant
from mopt_mlir.extract import Convolution, Groups
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class Target:
    """A convolution in normal form and its plan; `constant` is weights known at compile time."""

    convolution: Convolution
    problem: Problem
    groups: Groups
    plan: Plan
    constant: Any = None


def rewrite(target: Target, module: Any, bindings: Bindings) -> None:
    """Replace the operation of `target` by the loop nest of its plan.

    Folds the fill or bias that initialised the output into the first write, and packs constant
    weights now, into a global of `module`.
    """
    convolution = target.convolution
    operation = convolution.operation
    builder = Builder(bindings, operation.location)
    with bindings.ir.InsertionPoint(operation), operation.location:
        output = _output_buffer(builder, convolution)
        operands = Operands(
            _view(builder, convolution.input, target.groups, "input"),
            _view(builder, convolution.weights, target.groups, "weights"),
            builder.collapse(output, target.groups["output"], "output"),
            *_initial(builder, convolution),
        )
        panels = None
        if target.constant is not None and target.plan.packing == "whole":
            panels = _constant_panels(builder, target, module)
        Nest(builder, target.problem, target.plan, operands, panels).emit()
        if convolution.on_tensors:
            result = _to_tensor(builder, output, convolution.output.type)
            operation.results[0].replace_all_uses_with(result)
    operation.erase()
    _erase_initializer(convolution)


def _view(builder: Builder, value: Any, groups: Groups, name: str) -> Any:
    if isinstance(value.type, builder.ir.RankedTensorType):
        value = _to_buffer(builder, value, read_only=True)
    return builder.collapse(value, groups[name], name)


def _buffer_type(builder: Builder, tensor: Any) -> Any:
    return builder.ir.MemRefType.get(tensor.shape, tensor.element_type)


def _to_buffer(builder: Builder, tensor: Any, read_only: bool) -> Any:
    unit = builder.ir.UnitAttr.get()
    return builder.ir.Operation.create(
        "bufferization.to_buffer",
        results=[_buffer_type(builder, tensor.type)],
        operands=[tensor],
        attributes={"read_only": unit} if read_only else {},
        loc=builder.location,
    ).result


def _to_tensor(builder: Builder, buffer: Any, type_: Any) -> Any:
    unit = builder.ir.UnitAttr.get()
    return builder.ir.Operation.create(
        "bufferization.to_tensor",
        results=[type_],
        operands=[buffer],
        attributes={"restrict": unit, "writable": unit},
        loc=builder.location,
    ).result


def _output_buffer(builder: Builder, convolution: Convolution) -> Any:
    """The memref to write: the operand itself, or a new buffer for a result on tensors."""
    if not convolution.on_tensors:
        return convolution.output
    memref = builder.bindings.memref
    with builder.named("result"):
        buffer = memref.AllocOp(
            _buffer_type(builder, convolution.output.type), [], [], alignment=SCRATCH_ALIGNMENT
        ).memref
    if convolution.initializer is None:
        initial = _to_buffer(builder, convolution.output, read_only=True)
        memref.CopyOp(initial, buffer, loc=builder.location)
    return buffer


def _initial(builder: Builder, convolution: Convolution) -> tuple[Any, Any]:
    """The fill and the bias of `Operands`."""
    initializer = convolution.initializer
    if initializer is None:
        return None, None
    bias = initializer.bias
    if bias is not None and isinstance(bias.type, builder.ir.RankedTensorType):
        bias = _to_buffer(builder, bias, read_only=True)
    return initializer.fill, bias


def _constant_panels(builder: Builder, target: Target, module: Any) -> Any:
    """A global that holds the packed weights, and the memref that reads it."""
    ir = builder.ir
    packed = pack_constant(target.problem, target.plan.microkernel, target.constant)
    element = target.convolution.output.type.element_type
    symbols = ir.SymbolTable(module)
    number = 0
    while f"packed_weights_{number}" in symbols:
        number += 1
    name = f"packed_weights_{number}"
    tensor_type = ir.RankedTensorType.get(packed.shape, element)
    memref_type = ir.MemRefType.get(packed.shape, element)
    contents = ir.DenseResourceElementsAttr.get_from_buffer(
        packed, name, tensor_type, alignment=SCRATCH_ALIGNMENT
    )
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        builder.bindings.memref.GlobalOp(
            name,
            ir.TypeAttr.get(memref_type),
            sym_visibility="private",
            initial_value=contents,
            constant=True,
            alignment=SCRATCH_ALIGNMENT,
        )
    with builder.named("panels"):
        return builder.bindings.memref.GetGlobalOp(memref_type, name).result


def _erase_initializer(convolution: Convolution) -> None:
    """Drop the fill or bias whose effect the nest now has, if nothing else reads it."""
    initializer = convolution.initializer
    if initializer is None:
        return
    used = any(True for result in initializer.operation.results for _ in result.uses)
    if not used:
        initializer.operation.erase()
