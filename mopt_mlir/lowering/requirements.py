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
from mopt_mlir.lowering.shapes import Activation
from mopt_mlir.lowering.sizes import compute, is_known
from mopt_mlir.operations import inside


def requirements(function: Any) -> tuple[Requirement, ...]:
    """What `function`, which is called from outside, demands of the sizes of its arguments."""
    return _of_activation(Activation(function), {})


def _of_activation(
    activation: Activation, known: dict[Activation, tuple[Requirement, ...]]
) -> tuple[Requirement, ...]:
    """What an activation demands, with those that it makes: each once, in the order of calls."""
    if activation not in known:
        known[activation] = ()  # to itself it says nothing new
        found = (
            _where_taken(activation, operation, requirement)
            for operation in inside(activation.function)
            for requirement in _demanded(activation, operation, known)
        )
        known[activation] = tuple(dict.fromkeys(one for one in found if one is not None))
    return known[activation]


def _demanded(
    activation: Activation, operation: Any, known: dict[Activation, tuple[Requirement, ...]]
) -> Iterable[Requirement]:
    """What is demanded by an operation, if it is carried out."""
    if operation.name == "func.call":
        callee = activation.callee(operation)
        if callee is not None:
            return _of_activation(callee, known)
        return [unknown(operation)] if activation.is_lost(operation) else []
    if operation.name == "func.call_indirect":
        is_open = any(map(activation.is_dynamic, operation.operands))
        return [unknown(operation)] if is_open else []
    return demands_of(activation, operation)


def _where_taken(
    activation: Activation, operation: Any, requirement: Requirement
) -> Requirement | None:
    """What is demanded of an operation in branches whose conditions are known: nothing where one of
    them is not taken."""
    block, function = operation.block, activation.function.operation
    size, needed = requirement.size, requirement.needed
    nothing, something = (0, 1) if size is None else (size, needed)
    needed = something if needed is None else needed
    while (around := block.owner.operation) != function:
        if around.name == "scf.if":
            taken = activation.number(around.operands[0])
            if is_known(taken):
                in_first = block == around.regions[0].blocks[0]
                choices = (needed, nothing) if in_first else (nothing, needed)
                needed = compute("select", taken, *choices)
        block = around.block
    if needed == nothing:
        return None
    return replace(requirement, needed=None if size is None and needed == 1 else needed)
