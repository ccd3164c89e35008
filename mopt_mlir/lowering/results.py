"""Results that are buffers become trailing parameters, so that callers say where they go.

Upstream's `buffer-results-to-out-params` is all or nothing for a module and does not expect one
buffer to be returned twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.func_ops import (
    argument_attributes,
    declarations_of,
    functions_of,
    name_of,
    set_argument_attributes,
)
from mopt_mlir.lowering.parameters import is_taken_to_be_aligned
from mopt_mlir.operations import defining_op, enclosing_module, find

RESULT = "mopt.result"
"""The attribute of a parameter that used to be a result: which one."""


def results_to_parameters(module: Any) -> None:
    """Rewrite the functions whose buffer results all have static shapes, and the calls to them;
    also of those that are only declared, as their definitions are compiled like that.

    A buffer that the function allocates and returns becomes the parameter itself; what it returns
    otherwise (a parameter, a constant, a buffer returned before) is copied. Raises UserError for
    uses of declared functions that return buffers of other shapes, as nobody knows who frees these,
    and for pointers to functions that are rewritten: who calls through them is not known.
    """
    bindings = bindings_of(module)
    with module.context, bindings.ir.Location.unknown():
        changed = {
            name_of(function)
            for function in functions_of(module)
            if _rewrite_function(bindings, function)
        }
        calls = [call for call in find(module, "func.call") if enclosing_module(call) == module]
        pointers = [op for op in find(module, "func.constant") if enclosing_module(op) == module]
        called = {call.attributes["callee"].value for call in calls}
        called |= {pointer.attributes["value"].value for pointer in pointers}
        for declaration in declarations_of(module):
            if name_of(declaration) in called and _rewrite_declaration(bindings, declaration):
                changed.add(name_of(declaration))
        _check_pointers(pointers, changed)
        for call in calls:
            if call.attributes["callee"].value in changed:
                _rewrite_call(bindings, call)


def _check_pointers(pointers: Sequence[Any], changed: Collection[str]) -> None:
    for pointer in pointers:
        name = pointer.attributes["value"].value
        if name in changed:
            raise UserError(
                f"@{name} returns a buffer, which becomes a parameter, and calls through a pointer "
                "do not know that: let it write to a parameter instead, or call it by its name",
                describe(pointer.location),
            )


def _rewrite_function(bindings: Bindings, function: Any) -> bool:
    ir = bindings.ir
    type_ = function.attributes["function_type"].value
    buffers = [is_buffer(result) for result in type_.results]
    if not any(buffers) or not all(has_static_shape(result) for result in type_.results):
        return False
    attributes = argument_attributes(function)
    index = ir.IndexType.get()
    blocks = list(function.regions[0].blocks)
    returns = [
        op for block in blocks for op in block.operations if op.operation.name == "func.return"
    ]
    parameters = []
    for position, result in enumerate(type_.results):
        if buffers[position]:
            parameters.append(blocks[0].add_argument(result, function.location))
            attributes.append({RESULT: ir.IntegerAttr.get(index, position)})
    for op in returns:
        _rewrite_return(bindings, op, buffers, parameters, may_replace=len(returns) == 1)
    inputs = [argument.type for argument in blocks[0].arguments]
    scalars = [r for r, buffer in zip(type_.results, buffers, strict=True) if not buffer]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, scalars))
    set_argument_attributes(function, attributes)
    _keep_attributes_of_scalars(ir, function, buffers)
    return True


def _keep_attributes_of_scalars(ir: Any, function: Any, buffers: list[bool]) -> None:
    """Drop the attributes of results that are buffers, of which no result is left."""
    if "res_attrs" not in function.attributes:
        return
    known = zip(function.attributes["res_attrs"], buffers, strict=True)
    function.attributes["res_attrs"] = ir.ArrayAttr.get(
        [one for one, buffer in known if not buffer]
    )


def _rewrite_declaration(bindings: Bindings, function: Any) -> bool:
    ir = bindings.ir
    type_ = function.attributes["function_type"].value
    is_one = [is_buffer(result) for result in type_.results]
    buffers = [result for result, one in zip(type_.results, is_one, strict=True) if one]
    if not buffers:
        return False
    if not all(has_static_shape(result) for result in buffers):
        raise UserError(
            f"@{name_of(function)} is defined elsewhere, and it is not known who frees the buffers "
            "of dynamic shape that it returns: let it write to parameters instead",
            describe(function.location),
        )
    scalars = [result for result in type_.results if not is_buffer(result)]
    inputs = [*type_.inputs, *buffers]
    attributes = [*argument_attributes(function), *({} for _ in buffers)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, scalars))
    set_argument_attributes(function, attributes)
    _keep_attributes_of_scalars(ir, function, is_one)
    return True


def _rewrite_return(
    bindings: Bindings, op: Any, buffers: list[bool], parameters: list[Any], *, may_replace: bool
) -> None:
    values = list(op.operands)
    entry = parameters[0].owner
    targets = iter(parameters)
    returned = [i for i, buffer in enumerate(buffers) if buffer]
    for index in returned:
        value, target = op.operands[index], next(targets)
        if may_replace and _is_own_allocation(value, entry):
            allocation = value.owner
            value.replace_all_uses_with(target)
            allocation.erase()
        else:
            with bindings.ir.InsertionPoint(op):
                bindings.memref.CopyOp(value, target, loc=op.location)
    scalars = [op.operands[i] for i in range(len(values)) if i not in returned]
    with bindings.ir.InsertionPoint(op):
        bindings.func.ReturnOp(scalars, loc=op.location)
    op.operation.erase()


def _rewrite_call(bindings: Bindings, call: Any) -> None:
    ir = bindings.ir
    with ir.InsertionPoint(call):
        buffers = {
            index: bindings.memref.AllocOp(result.type, [], [], loc=call.location).result
            for index, result in enumerate(call.results)
            if is_buffer(result.type)
        }
        scalars = [r.type for i, r in enumerate(call.results) if i not in buffers]
        operands = [*call.operands, *buffers.values()]
        new = bindings.func.CallOp(scalars, call.attributes["callee"], operands, loc=call.location)
    left = iter(new.operation.results)
    for index, result in enumerate(call.results):
        result.replace_all_uses_with(buffers[index] if index in buffers else next(left))
    call.erase()


def _is_own_allocation(value: Any, entry: Any) -> bool:
    operation = defining_op(value)
    if operation is None or operation.name != "memref.alloc":
        return False
    if is_taken_to_be_aligned(value):
        return False  # what a caller gives need not be
    return bool(operation.block == entry)


def is_buffer(type_: Any) -> bool:
    """Whether a type is a memref, ranked or not."""
    ir = bindings_of(type_).ir
    return isinstance(type_, ir.MemRefType | ir.UnrankedMemRefType)


def has_static_shape(type_: Any) -> bool:
    """Whether a type leaves no size open."""
    ir = bindings_of(type_).ir
    if not isinstance(type_, ir.ShapedType):
        return True
    return bool(type_.has_rank and type_.has_static_shape)
