"""One convolution of a module as a module of its own, to be measured apart from the rest."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.buffers import ALIGNMENT
from mopt_mlir.linalg.extract import Convolution
from mopt_mlir.operations import enclosing_module

ENTRY = "convolution"
"""The name of the function in such a module."""

_WEIGHTS = "weights"


def isolate(convolution: Convolution, constant: Any, bindings: Bindings) -> tuple[Any, Any]:
    """A new module in the context of `convolution`, and the copy of its operation in there.

    The module has one function, ENTRY, whose parameters are the operands: input, weights and
    output, and whose result is that of the operation if it has one. Where the weights are
    `constant` (an array of their shape) they belong to the module instead. An output that something
    initialises is filled with zeros, another one is accumulated into.
    """
    ir, operation = bindings.ir, convolution.operation
    types = [operand.type for operand in operation.operands]
    parameters = types if constant is None else [types[0], types[2]]
    with operation.location:
        module = ir.Module.create()
        attributes = enclosing_module(operation).attributes
        for name in attributes:  # what the target is like
            module.operation.attributes[name] = attributes[name]
        with ir.InsertionPoint(module.body):
            signature = parameters, [result.type for result in operation.results]
            function = bindings.func.FuncOp(ENTRY, signature)
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            image, *weights, output = block.arguments
            if constant is not None:
                weights = [_constant(module, types[1], constant, bindings)]
            if convolution.initializer is not None:
                output = _zeroed(output, bindings)
            copy = operation.clone()
            for position, operand in enumerate((image, *weights, output)):
                copy.operation.operands[position] = operand
            bindings.func.ReturnOp(list(copy.operation.results))
    return module.operation, copy.operation


def _zeroed(output: Any, bindings: Bindings) -> Any:
    """`output` after a `linalg.fill`: itself, or the result on tensors."""
    type_ = output.type
    zero = bindings.arith.ConstantOp(type_.element_type, 0.0).result
    filled = bindings.linalg.fill(zero, outs=[output])
    return filled if isinstance(type_, bindings.ir.RankedTensorType) else output


def _constant(module: Any, type_: Any, elements: Any, bindings: Bindings) -> Any:
    """A value of the memref or tensor `type_` with these elements."""
    ir = bindings.ir
    tensor = ir.RankedTensorType.get(type_.shape, type_.element_type)
    contents = ir.DenseResourceElementsAttr.get_from_buffer(
        elements, _WEIGHTS, tensor, alignment=ALIGNMENT
    )
    if type_ == tensor:
        return bindings.arith.ConstantOp(tensor, contents).result
    dense = ir.MemRefType.get(type_.shape, type_.element_type)
    with ir.InsertionPoint.at_block_begin(module.body):
        bindings.memref.GlobalOp(
            _WEIGHTS,
            ir.TypeAttr.get(dense),
            sym_visibility="private",
            initial_value=contents,
            constant=True,
            alignment=ALIGNMENT,
        )
    weights = bindings.memref.GetGlobalOp(dense, _WEIGHTS).result
    return weights if type_ == dense else bindings.memref.CastOp(type_, weights).result
