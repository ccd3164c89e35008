"""Buffers on the stack: what loops and scopes have there is free again when they end.

Upstream keeps to that in scopes only, and its scopes cannot hold the branches that loops become.
"""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.func_ops import CALLS, parameters_given
from mopt_mlir.lowering.parameters import is_stored
from mopt_mlir.operations import BRANCHES, YIELDS, ancestors, find, handed_on


def free_stack_early(module: Any) -> None:
    """Let no iteration of a loop take new stack: buffers of static size move out of loops, others
    are freed at the end of each iteration, or of the `memref.alloca_scope` that they are in."""
    _hoist_allocas(module)
    _free_in_loops(module)
    _inline_scopes(module)


def _hoist_allocas(module: Any) -> None:
    """Move stack buffers of static size out of loops, up to the function or the OpenMP region.

    In a loop each iteration would take new stack; in the body of an OpenMP loop they would keep a
    `memref.alloca_scope` alive, which cannot hold the branches that loops are lowered to. Those
    that a later iteration may still read stay: it has another one of its own.
    """
    for alloca in find(module, "memref.alloca"):
        scope = _scope(alloca)
        if scope is not None and not len(alloca.operands) and not _is_passed_on(alloca):
            alloca.move_before(scope.regions[0].blocks[0].operations[0])


def _scope(alloca: Any) -> Any | None:
    """The function or the OpenMP region that a stack buffer is in, if it is in one."""
    scopes = ("func.func", "omp.parallel")
    return next((around for around in ancestors(alloca) if around.name in scopes), None)


def _is_passed_on(alloca: Any) -> bool:
    """Whether a loop around hands a stack buffer, or a view of it, on to its next iteration, a
    branch to what comes next, or it is put into another buffer, also in functions that it is given
    to."""
    loops = {around for around in ancestors(alloca) if around.name not in BRANCHES}
    values, seen = [alloca.result], {alloca.result}
    while values:
        for use in values.pop().uses:
            user, number = use.owner.operation, use.operand_number
            if user.name.startswith("cf.") or (user.name == "memref.store" and number == 0):
                return True
            if user.name in CALLS and any(map(is_stored, parameters_given(user, number))):
                return True
            if user.name in (*YIELDS, "scf.condition") and user.parent.operation in loops:
                return True
            found = handed_on(user, number) or _views(user)
            values += [other for other in found if other not in seen]
            seen |= {*found}
    return False


def _views(operation: Any) -> list[Any]:
    return [result for result in operation.results if str(result.type).startswith("memref")]


def _free_in_loops(module: Any) -> None:
    """Free what an iteration of a loop still has on the stack, buffers of dynamic size, at its end,
    unless a later one may read it."""
    ir = bindings_of(module).ir
    loops = find(module, "scf.for", "scf.forall", "scf.parallel", "scf.while")
    for loop, block in ((one, region.blocks[0]) for one in loops for region in one.regions):
        allocas = [op for part in block.operations for op in find(part.operation, "memref.alloca")]
        if not allocas or any(map(_is_passed_on, allocas)):
            continue
        with module.context, loop.location:
            with ir.InsertionPoint.at_block_begin(block):
                saved = _stack(ir)
            with ir.InsertionPoint.at_block_terminator(block):
                _restore_stack(ir, saved)


def _inline_scopes(module: Any) -> None:
    """Dissolve each `memref.alloca_scope`, such as those that convert-scf-to-openmp puts around the
    bodies of loops: it cannot hold the branches that loops are lowered to.

    What is on the stack when it begins is restored at its end, if after `_hoist_allocas` there is
    something in it to free: buffers of dynamic size, and those that are passed on.
    """
    ir = bindings_of(module).ir
    for scope in find(module, "memref.alloca_scope"):
        *body, terminator = scope.regions[0].blocks[0].operations
        if find(scope, "memref.alloca"):
            with module.context, scope.location:
                with ir.InsertionPoint(scope):
                    saved = _stack(ir)
                with ir.InsertionPoint(terminator):
                    body.append(_restore_stack(ir, saved))
        for operation in body:
            operation.operation.move_before(scope)
        for result, value in zip(scope.results, terminator.operands, strict=True):
            result.replace_all_uses_with(value)
        scope.erase()


def _stack(ir: Any) -> Any:
    """Where the stack ends now."""
    pointer = ir.Type.parse("!llvm.ptr")
    return ir.Operation.create("llvm.intr.stacksave", [pointer]).result


def _restore_stack(ir: Any, end: Any) -> Any:
    """The operation that lets the stack end there again."""
    return ir.Operation.create("llvm.intr.stackrestore", operands=[end])
