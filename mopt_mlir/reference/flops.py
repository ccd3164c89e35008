"""How many floating-point operations a function does, as far as its text tells."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.operations import defining_op, directly_in
from mopt_mlir.reference.scalars import ADDITIONS, FUSED, MULTIPLICATIONS
from mopt_mlir.reference.structured import count_flops

_FLOPS = {**dict.fromkeys(ADDITIONS + MULTIPLICATIONS, 1), FUSED: 2, "vector.fma": 2}
"""Per element of the result. Whatever else a function does is free."""

_UNCOUNTED = (
    *("vector.contract", "vector.outerproduct", "vector.reduction"),
    *("vector.multi_reduction", "vector.scan"),
)


def flops_of(module: Any, name: str) -> int | None:
    """Floating-point operations of one call of the function `name`.

    None where that depends on the arguments: on a shape that is not static, a number of iterations
    that is not constant, a branch.
    """
    return _of_function(module, name, ())


def _of_function(module: Any, name: str, callers: tuple[str, ...]) -> int | None:
    for function in directly_in(module):
        if function.name == "func.func" and function.attributes["sym_name"].value == name:
            region = function.regions[0]
            if name in callers or len(region.blocks) != 1:
                return None
            return _of_region(region, module, (*callers, name))
    return None


def _of_region(region: Any, module: Any, callers: tuple[str, ...]) -> int | None:
    """Of running through the operations of a region once, whatever order they have."""
    total = 0
    for block in region.blocks:
        for nested in block.operations:
            count = _of_operation(nested.operation, module, callers)
            if count is None:
                return None
            total += count
    return total


def _of_operation(operation: Any, module: Any, callers: tuple[str, ...]) -> int | None:
    name = operation.name
    if name == "func.call":
        return _of_function(module, operation.attributes["callee"].value, callers)
    if name.startswith("linalg."):
        try:
            return count_flops(operation)
        except UserError:  # an operation that the reference does not know
            return None
    if name in _FLOPS:
        elements = _elements(operation.results[0].type)
        return None if elements is None else _FLOPS[name] * elements
    if name in _UNCOUNTED:
        return None
    inside = 0
    for region in operation.regions:
        count = _of_region(region, module, callers)
        if count is None:
            return None
        inside += count
    if not inside:
        return 0
    iterations = _iterations(operation)
    return None if iterations is None else iterations * inside


def _elements(type_: Any) -> int | None:
    """Of a vector or tensor of static shape, 1 of a scalar."""
    if not getattr(type_, "has_static_shape", True):
        return None
    shape: list[int] = getattr(type_, "shape", [])
    return prod(shape)


def _iterations(operation: Any) -> int | None:
    """How often a loop whose bounds are constants runs; None for any other operation."""
    bounds: Sequence[list[int | None]]
    attributes, operands = operation.attributes, list(operation.operands)
    if operation.name == "affine.for":
        maps = (attributes[f"{which}BoundMap"].value for which in ("lower", "upper"))
        bounds = (*map(_constants, maps), [attributes["step"].value])
    elif operation.name == "affine.parallel":
        maps = (attributes[f"{which}BoundsMap"].value for which in ("lower", "upper"))
        bounds = (*map(_constants, maps), [step.value for step in attributes["steps"]])
    elif operation.name == "scf.for":
        bounds = ([_constant(operands[0])], [_constant(operands[1])], [_constant(operands[2])])
    elif operation.name == "scf.parallel":
        rank = len(operation.regions[0].blocks[0].arguments)
        constants = [_constant(operand) for operand in operands]
        bounds = [constants[i * rank : (i + 1) * rank] for i in range(3)]
    else:
        return None
    if len({len(bound) for bound in bounds}) != 1:  # a bound that is a minimum or maximum
        return None
    iterations = 1
    for lower, upper, step in zip(*bounds, strict=True):
        if lower is None or upper is None or not step:
            return None
        iterations *= max(0, -(-(upper - lower) // step))
    return iterations


def _constants(map_: Any) -> list[int | None]:
    return [getattr(result, "value", None) for result in map_.results]


def _constant(value: Any) -> int | None:
    operation = defining_op(value)
    if operation is None or operation.name != "arith.constant":
        return None
    return int(operation.attributes["value"].value)
