"""Replacing convolutions by the loop nests of their plans, on memrefs and on tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from numpy.typing import NDArray

from mopt_mlir.bindings import Bindings
from mopt_mlir.buffers import ALIGNMENT
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.nest import NestEmitter
from mopt_mlir.codegen.operands import Operands
from mopt_mlir.codegen.packing import pack_constant
from mopt_mlir.codegen.rereading import WRITABLE_RESULT, keep_what_is_read_later
from mopt_mlir.linalg.extract import Convolution
from mopt_mlir.normal_form import Groups
from mopt_mlir.operations import enclosing_module, free_symbols
from mopt_mlir.planning.planned import PlannedConvolution

_DISTINCT = "mopt.distinct"
"""An attribute that differs from operation to operation."""


def rewrite(convolutions: Sequence[PlannedConvolution], bindings: Bindings) -> None:
    """Replace the operation of every convolution by the loop nest of its plan.

    Folds the fill or bias that initialised the output into the first write, and packs constant
    weights now, into globals of the module, each kind of panels once. Where several of a module
    would get the same nest, it is generated once, in a private function that each of them calls.
    """
    keys = [(enclosing_module(c.operation), c.key) for c in convolutions]
    uses = Counter(keys)
    functions: dict[tuple[Any, tuple[str, ...]], Any] = {}
    packed: dict[tuple[Any, ...], str] = {}
    results = []
    for planned, key in zip(convolutions, keys, strict=True):
        operation, (module, _) = planned.operation, key
        builder = Builder(bindings, operation.location, _block_of_function(operation))
        with bindings.ir.InsertionPoint(operation), operation.location:
            buffer = _output_buffer(builder, planned.convolution)
            operands = _operands(builder, planned, buffer, module, packed)
            if uses[key] == 1:
                NestEmitter(builder, planned.problem, planned.plan, operands).emit()
            else:
                if key not in functions:
                    functions[key] = _outline(builder, planned, operands, module)
                bindings.func.CallOp(functions[key], list(operands.present().values()))
            if planned.convolution.on_tensors:
                result = _to_tensor(builder, buffer, planned.convolution.output.type)
                operation.results[0].replace_all_uses_with(result)
                results.append(result)
        superfluous = _superfluous(planned)  # read off the operation, which has to be there for it
        operation.erase()
        for other in superfluous:
            if all(not list(result.uses) for result in other.results):
                other.erase()
    keep_what_is_read_later(results)


def _block_of_function(operation: Any) -> Any:
    """The block around `operation` among those of its function (or of what else stands in a
    module)."""
    block, owner = operation.block, operation.parent.operation
    while "builtin.module" not in (owner.name, owner.parent.operation.name):
        block, owner = owner.block, owner.parent.operation
    return block


# ---- one site ----------------------------------------------------------------------------------


def _operands(
    builder: Builder,
    planned: PlannedConvolution,
    buffer: Any,
    module: Any,
    packed: dict[tuple[Any, ...], str],
) -> Operands:
    """Those of one convolution, of which the output is `buffer`, where its nest or call goes."""
    convolution, groups = planned.convolution, planned.groups
    fill, bias = _initial(builder, convolution)
    panels = weights = None
    if planned.packs_constant:
        panels = _constant_panels(builder, planned, module, packed)
    else:
        weights = _view(builder, convolution.weights, groups, "weights")
    return Operands(
        input=_view(builder, convolution.input, groups, "input"),
        weights=weights,
        panels=panels,
        bias=bias,
        fill=fill,
        output=builder.collapse(buffer, groups["output"], "output"),
    )


def _view(builder: Builder, value: Any, groups: Groups, name: str) -> Any:
    if isinstance(value.type, builder.ir.RankedTensorType):
        value = _to_buffer(builder, value)
    return builder.collapse(value, groups[name], name)


def _buffer_type(builder: Builder, tensor: Any) -> Any:
    return builder.ir.MemRefType.get(tensor.shape, tensor.element_type)


def _to_buffer(builder: Builder, tensor: Any) -> Any:
    """`tensor` in memory, to be read by what follows. To bufferisation it is read here, so that no
    pass should take two of these for one, as the buffer may be written to between them: cse does
    not, unless they are copies of one."""
    ir = builder.ir
    return ir.Operation.create(
        "bufferization.to_buffer",
        results=[_buffer_type(builder, tensor.type)],
        operands=[tensor],
        attributes={
            "read_only": ir.UnitAttr.get(),
            _DISTINCT: ir.Attribute.parse("distinct[0]<unit>"),
        },
        loc=builder.location,
    ).result


def _to_tensor(builder: Builder, buffer: Any, type_: Any) -> Any:
    unit = builder.ir.UnitAttr.get()
    return builder.ir.Operation.create(
        "bufferization.to_tensor",
        results=[type_],
        operands=[buffer],
        attributes={"restrict": unit, WRITABLE_RESULT: unit},
        loc=builder.location,
    ).result


def _output_buffer(builder: Builder, convolution: Convolution) -> Any:
    """The memref to write: the operand itself, or a new buffer for a result on tensors."""
    if not convolution.on_tensors:
        return convolution.output
    memref = builder.bindings.memref
    with builder.named("result"):
        buffer = memref.AllocOp(
            _buffer_type(builder, convolution.output.type), [], [], alignment=ALIGNMENT
        ).memref
    if convolution.initializer is None:
        memref.CopyOp(_to_buffer(builder, convolution.output), buffer, loc=builder.location)
    return buffer


def _initial(builder: Builder, convolution: Convolution) -> tuple[Any, Any]:
    """The fill and the bias of `Operands`."""
    initializer = convolution.initializer
    if initializer is None:
        return None, None
    bias = initializer.bias
    if bias is not None and isinstance(bias.type, builder.ir.RankedTensorType):
        bias = _to_buffer(builder, bias)
    return initializer.fill, bias


def _constant_panels(
    builder: Builder, planned: PlannedConvolution, module: Any, packed: dict[tuple[Any, ...], str]
) -> Any:
    """The memref of a global that holds the packed weights. It is new unless one of those that were
    `packed`, by module and contents, holds the same."""
    contents = pack_constant(planned.problem, planned.plan.microkernel, planned.constant)
    digest = sha256(contents.data).digest()
    key = module, contents.shape, contents.dtype.str, digest
    element = planned.convolution.output.type.element_type
    memref_type = builder.ir.MemRefType.get(contents.shape, element)
    if key not in packed:
        packed[key] = _new_constant(builder, contents, memref_type, module)
    with builder.named("panels"):
        return builder.bindings.memref.GetGlobalOp(memref_type, packed[key]).result


def _new_constant(builder: Builder, contents: NDArray[Any], type_: Any, module: Any) -> str:
    """The name of a new constant of `module`, of the memref `type_`."""
    ir = builder.ir
    name = next(free_symbols(module, "packed_weights"))
    tensor_type = ir.RankedTensorType.get(type_.shape, type_.element_type)
    value = ir.DenseResourceElementsAttr.get_from_buffer(
        contents, name, tensor_type, alignment=ALIGNMENT
    )
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        builder.bindings.memref.GlobalOp(
            name,
            ir.TypeAttr.get(type_),
            sym_visibility="private",
            initial_value=value,
            constant=True,
            alignment=ALIGNMENT,
        )
    return name


def _superfluous(planned: PlannedConvolution) -> list[Any]:
    """What may go with the operation if nothing else uses it: the fill or bias, and constant plain
    weights."""
    found = []
    if planned.convolution.initializer is not None:
        found.append(planned.convolution.initializer.operation)
    if planned.packs_constant:
        found += _sources(planned.convolution.weights)
    return found


def _sources(weights: Any) -> list[Any]:
    """What constant weights come from: a constant, perhaps behind casts; users first."""
    found = [weights.owner.operation]
    while found[-1].name in ("memref.cast", "bufferization.to_buffer"):
        found.append(found[-1].operands[0].owner.operation)
    return found


# ---- shared nests ------------------------------------------------------------------------------


def _outline(builder: Builder, planned: PlannedConvolution, operands: Operands, module: Any) -> Any:
    """A private function with the nest of `planned`, whose parameters are the operands."""
    ir, func = builder.ir, builder.bindings.func
    present = operands.present()
    types = [value.type for value in present.values()]
    name = next(free_symbols(module, "convolution"))
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        function = func.FuncOp(name, (types, []), visibility="private")
    block = ir.Block.create_at_start(function.body, types, list(map(builder.named, present)))
    inside = Builder(builder.bindings, builder.location, block)
    parameters = replace(operands, **dict(zip(present, block.arguments, strict=True)))
    with ir.InsertionPoint(block):
        NestEmitter(inside, planned.problem, planned.plan, parameters).emit()
        func.ReturnOp([])
    return function
