"""Tensors to buffers: results written in place, temporaries freed, nothing leaked."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.buffers import ADDRESSABLE_BYTES, ALIGNMENT, MANUAL, OWNED, VIEWS, WRITABLE
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.func_ops import (
    argument_attributes,
    declarations_of,
    functions_of,
    name_of,
    set_argument_attributes,
)
from mopt_mlir.lowering.aliases import copy_aliases, read_where_used
from mopt_mlir.lowering.parameters import is_stored
from mopt_mlir.lowering.results import is_buffer, results_to_parameters
from mopt_mlir.lowering.upstream import run_upstream
from mopt_mlir.operations import (
    defined_by,
    defining_op,
    directly_in,
    enclosing_module,
    find,
    free_symbols,
    inside,
)

_BUFFERIZE = (
    "convert-elementwise-to-linalg",
    f"one-shot-bufferize{{bufferize-function-boundaries=true buffer-alignment={ALIGNMENT}"
    " function-boundary-type-conversion=identity-layout-map allow-return-allocs-from-loops=true}",
    "canonicalize",
)
_BEFORE_FREEING = (
    "lower-affine",  # deallocation knows scf.parallel, not affine.parallel
    "expand-realloc{emit-deallocs=false}",  # what is left behind is freed like all else
)
_FREE = (
    "ownership-based-buffer-deallocation",
    "canonicalize",
    "buffer-deallocation-simplification",
    "convert-bufferization-to-memref",
    "canonicalize",
    "cse",
)

_INLINE = "inline{default-pipeline=}"
_NO_INLINE = "no_inline"
_KEPT = "mopt.kept"
"""Marks calls that are `no_inline` for now only, also where inlining copies them."""


def bufferize(module: Any) -> None:
    """Replace tensors by buffers in a `builtin.module`, and buffers that functions return by
    parameters; if it has neither tensors nor such functions, leave it as it is.

    A tensor parameter becomes a buffer that is only read (unless it says `bufferization.writable`),
    a tensor result of static shape a trailing parameter, marked `mopt.result`, that the result
    is written to. A result of dynamic shape is returned in a new buffer that the caller frees.
    Raises Failure, and UserError for operations that are not lowered here.
    """
    _check_dialects(module)
    _check_inner_modules(module)
    _check_sizes(module)
    _check_pointers(module)
    if not (_has_tensors(module) or _returns_buffers(module)):
        return
    _inline_returned_buffers(module)
    _protect_parameters(module)
    copy_aliases(module)
    read_where_used(module)
    known = set(_variables(module))
    run_upstream(module, *_BUFFERIZE)
    _order_constants(module, known)
    results_to_parameters(module)
    run_upstream(module, *_BEFORE_FREEING)
    _keep_manual_deallocations(module)
    run_upstream(module, *_FREE)
    _mark_automatic_deallocations(module)


def _check_dialects(module: Any) -> None:
    """Raise UserError where a model has not been turned into linalg yet."""
    for operation in inside(module):
        if operation.name.startswith("tosa."):
            raise UserError(
                f"'{operation.name}' is not lowered here: turn TOSA into linalg first, with MLIR's "
                "passes tosa-to-linalg-named, tosa-to-linalg and tosa-to-arith on each func.func",
                describe(operation.location),
            )


def _check_inner_modules(module: Any) -> None:
    """Raise UserError where a module inside of this one has tensors: MLIR's bufferisation leaves
    such modules alone."""
    for operation in inside(module):
        is_inner = operation.name == "func.func" and operation.parent.operation != module
        if is_inner and _has_tensors(operation):
            raise UserError(
                f"@{name_of(operation)} computes with tensors in a module inside of another: lower "
                "that module by itself, or move the function out of it",
                describe(operation.location),
            )


def _check_sizes(module: Any) -> None:
    """Raise UserError for a buffer or tensor whose elements nobody can count: MLIR, asked for its
    strides, ends the process."""
    ir = bindings_of(module).ir
    for operation in inside(module):
        types = [value.type for value in defined_by(operation)]
        if operation.name == "func.func":
            signature = operation.attributes["function_type"].value
            types += [*signature.inputs, *signature.results]
        for type_ in types:
            is_static = isinstance(type_, ir.ShapedType) and type_.has_rank
            if is_static and type_.has_static_shape and prod(type_.shape) >= ADDRESSABLE_BYTES:
                message = f"{type_} has more elements than there are addresses"
                raise UserError(message, describe(operation.location))


def _check_pointers(module: Any) -> None:
    """Raise UserError for a pointer to a function of tensors: MLIR's bufferisation changes the
    function, and neither pointers nor calls through them."""
    ir = bindings_of(module).ir
    tensors = (ir.RankedTensorType, ir.UnrankedTensorType)
    for pointer in find(module, "func.constant"):
        type_ = pointer.result.type
        if list(pointer.result.uses) and any(
            isinstance(part, tensors) for part in (*type_.inputs, *type_.results)
        ):
            raise UserError(
                f"the tensors of @{pointer.attributes['value'].value} become buffers, and calls "
                "through a pointer do not know that: let it take buffers and write its results to "
                "them, or call it by its name",
                describe(pointer.location),
            )


def _has_tensors(root: Any) -> bool:
    ir = bindings_of(root).ir
    tensors = (ir.RankedTensorType, ir.UnrankedTensorType)
    return any(isinstance(value.type, tensors) for op in inside(root) for value in defined_by(op))


def _returns_buffers(module: Any) -> bool:
    functions = (*functions_of(module), *declarations_of(module))
    results = (r for f in functions for r in f.attributes["function_type"].value.results)
    return any(is_buffer(result) for result in results)


def _inline_returned_buffers(module: Any) -> None:
    """Inline the functions that return buffers: bufferisation passes ownership with these, but
    where buffers came before it, callers may write through them, and free them or not.

    Raises UserError where such a call stays, which MLIR cannot inline.
    """
    ir = bindings_of(module).ir
    returning = {
        name_of(function)
        for function in functions_of(module)
        if any(is_buffer(type_) for type_ in function.attributes["function_type"].value.results)
    }

    def calls() -> tuple[list[Any], list[Any]]:
        """The calls of functions that return buffers, and all others."""
        found = [call for call in find(module, "func.call") if enclosing_module(call) == module]
        ours = [call for call in found if call.attributes["callee"].value in returning]
        return ours, [call for call in found if call not in ours]

    ours, others = calls()
    if not ours:
        return
    kept = [call for call in others if _NO_INLINE not in call.attributes]
    for call in kept:
        call.attributes[_NO_INLINE] = call.attributes[_KEPT] = ir.UnitAttr.get(call.context)
    run_upstream(module, _INLINE)
    ours, others = calls()
    for call in others:
        if _KEPT in call.attributes:
            del call.attributes[_NO_INLINE], call.attributes[_KEPT]
    for call in ours:
        raise UserError(
            f"@{call.attributes['callee'].value} returns a buffer, and this call of it cannot be "
            "inlined: let it write to a parameter instead",
            describe(call.location),
        )


def _protect_parameters(module: Any) -> None:
    """Forbid writing into tensor parameters, which bufferisation would do where it saves a copy."""
    ir = bindings_of(module).ir
    with module.context:
        read_only = ir.Attribute.parse("false")
        for function in functions_of(module):
            parameters = function.regions[0].blocks[0].arguments
            attributes = argument_attributes(function)
            for parameter, known in zip(parameters, attributes, strict=True):
                if isinstance(parameter.type, ir.RankedTensorType):
                    known.setdefault(WRITABLE, read_only)
            set_argument_attributes(function, attributes)


def _order_constants(module: Any, known: Collection[str]) -> None:
    """Number the constants that bufferisation made, all variables but those `known` before, as they
    are used: MLIR makes them in the order of functions' addresses, which differs from process to
    process. Those that nothing uses go."""
    ir = bindings_of(module).ir
    made = {name: op for name, op in _variables(module).items() if name not in known}
    uses: dict[str, list[Any]] = {}
    for use in find(module, "memref.get_global"):
        name = use.attributes["name"].value
        if name in made and enclosing_module(use) == module:
            uses.setdefault(name, []).append(use)
    for name in made.keys() - uses.keys():
        made[name].erase()
    constants = {made[name]: of_one for name, of_one in uses.items()}
    others = [op for op in directly_in(module) if op not in constants]
    names = free_symbols(module, "constant")
    for constant, of_one in constants.items():
        name = next(names)
        constant.attributes["sym_name"] = ir.StringAttr.get(name, module.context)
        for use in of_one:
            use.attributes["name"] = ir.FlatSymbolRefAttr.get(name, module.context)
        constant.move_before(others[0])


def _variables(module: Any) -> dict[str, Any]:
    """The variables and constants of a module, those inside of it left out, by name."""
    return {name_of(op): op for op in directly_in(module) if op.name == "memref.global"}


def _keep_manual_deallocations(module: Any) -> None:
    """Mark buffers that the module frees itself, or puts into others, which automatic deallocation
    must not touch. (Canonicalisation drops such marks where it makes sizes static.)"""
    ir = bindings_of(module).ir
    for op in find(module, "memref.alloc"):
        if is_stored(op.result):  # nobody knows how long it is in use
            op.attributes[MANUAL] = ir.UnitAttr.get(op.context)
    for op in find(module, "memref.dealloc"):
        op.attributes[MANUAL] = ir.UnitAttr.get(op.context)
        if (owner := _allocation(op.operands[0])) is not None:
            owner.attributes[MANUAL] = ir.UnitAttr.get(op.context)
        else:
            raise UserError(
                f"'{op.name}' frees what several allocations, or callers, may have given: where a "
                "module has tensors, or functions that return buffers, free what 'memref.alloc' "
                "returned, in the same function",
                describe(op.location),
            )


def _mark_automatic_deallocations(module: Any) -> None:
    for op in find(module, "memref.dealloc"):
        if MANUAL not in op.attributes:
            op.attributes[OWNED] = bindings_of(op).ir.UnitAttr.get(op.context)


def _allocation(buffer: Any) -> Any | None:
    """The `memref.alloc` that a buffer is what it returned, or a view of it; None if it is not."""
    owner = defining_op(buffer)
    while owner is not None and owner.name in VIEWS:
        owner = defining_op(owner.operands[0])
    return owner if owner is not None and owner.name == "memref.alloc" else None
