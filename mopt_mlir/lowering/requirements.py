"""What the operations of a function demand of the sizes that its argument types leave open.

Loops over buffers take their number of iterations from one operand and go through all of them; MLIR
makes it the caller's duty that the others are as large. Here the demands are collected, in terms of
the arguments, so that a call which would violate one is refused before it touches memory. What a
function computes itself (the indices of its own loads, the offsets of slices in loops) is its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mopt_mlir.lowering.demands import Requirement, demands_of, unknown
from mopt_mlir.lowering.shapes import CallFrame
from mopt_mlir.lowering.sizes import Size, compute, fold, is_known
from mopt_mlir.operations import inside


def requirements(function: Any) -> tuple[Requirement, ...]:
    """What `function`, which is called from outside, demands of the sizes of its arguments."""
    return _of_frame(CallFrame(function), {})


def _of_frame(
    frame: CallFrame, known: dict[CallFrame, tuple[Requirement, ...]]
) -> tuple[Requirement, ...]:
    """What a frame demands, with those that it makes: each once, in the order of calls."""
    if frame not in known:
        known[frame] = ()  # to itself it says nothing new
        taken: dict[Any, Size] = {}
        found = (
            _where_taken(requirement, _taken(frame, operation.block, taken))
            for operation in inside(frame.function)
            for requirement in _demanded(frame, operation, known)
        )
        known[frame] = tuple(dict.fromkeys(one for one in found if one is not None))
    return known[frame]


def _demanded(
    frame: CallFrame, operation: Any, known: dict[CallFrame, tuple[Requirement, ...]]
) -> Iterable[Requirement]:
    """What is demanded by an operation, if it is carried out."""
    if operation.name == "func.call":
        callee = frame.callee(operation)
        if callee is not None:
            return _of_frame(callee, known)
        return [unknown(operation)] if frame.is_lost(operation) else []
    if operation.name == "func.call_indirect":
        is_open = any(map(frame.is_dynamic, operation.operands))
        return [unknown(operation)] if is_open else []
    return demands_of(frame, operation)


def _where_taken(requirement: Requirement, taken: Size) -> Requirement | None:
    """What is demanded of an operation that is carried out if `taken`: nothing if it never is."""
    size = requirement.size
    nothing = 0 if size is None else size
    needed = 1 if requirement.needed is None else requirement.needed
    needed = compute("select", taken, needed, nothing)
    if needed == nothing:
        return None
    return replace(requirement, needed=None if size is None and needed == 1 else needed)


def _taken(frame: CallFrame, block: Any, known: dict[Any, Size]) -> Size:
    """Whether a block is carried out where its function is, 1 or 0: if the branches and loops are
    taken which it is in, as far as it is known when. `known` has blocks that were asked for."""
    chain: dict[Any, Size] = {}  # with the condition of each; what nothing reaches may be a circle
    at: Any | None = block
    while at is not None and at not in known and at not in chain:
        before, chain[at] = _before(frame, at)
        at = before
    taken = known.get(at, 1)
    for one, condition in reversed(chain.items()):
        taken = known[one] = taken if condition == 1 else compute("select", taken, condition, 0)
    return taken


def _before(frame: CallFrame, block: Any) -> tuple[Any | None, Size]:
    """The block that is carried out if this one is, if there is a single one, and whether this one
    is then; 1 if nothing is known."""
    before = _only_block_before(block)
    around = block.owner.operation
    if before is not None:
        condition = _is_followed_by(frame, before, block)
    elif around == frame.function.operation:
        return None, 1
    else:
        before, condition = around.block, _is_carried_out(frame, around, block)
    return before, condition if is_known(condition) else 1


def _only_block_before(block: Any) -> Any | None:
    """The one that a block always comes after, if there is a single one."""
    before = list(block.predecessors)
    return before[0] if len(before) == 1 else None


def _is_followed_by(frame: CallFrame, before: Any, block: Any) -> Size:
    """Whether `block` comes next where `before` ends; 1 if nothing is known."""
    *_, end = before.operations
    branch = end.operation
    if branch.name != "cf.cond_br":
        return 1
    condition = frame.number(branch.operands[0])
    return condition if branch.successors[0] == block else compute("eq", condition, 0)


def _is_carried_out(frame: CallFrame, around: Any, block: Any) -> Size:
    """Whether an operation carries `block` out, one of its own; 1 if nothing is known."""
    region = next(i for i, one in enumerate(around.regions) if block in list(one.blocks))
    if around.name == "scf.if":
        taken = frame.number(around.operands[0])
        return compute("eq", taken, 0) if region else taken
    if around.name == "scf.index_switch":
        value, cases = frame.number(around.operands[0]), list(around.attributes["cases"])
        if region:
            return compute("eq", value, cases[region - 1])
        return fold("mul", [1, *(compute("ne", value, case) for case in cases)])
    if around.name == "scf.for" and "unsignedCmp" not in around.attributes:
        return compute("lt", *map(frame.number, list(around.operands)[:2]))
    return 1
