"""linalg operations that stand for several others: what they are made of."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.operations import find

PART = "mopt.part"
"""The attribute of operations that something else was made of: nobody expects them to be tiled."""

_MARK = "mopt.decompose"
_SCRIPT = f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @decompose(%module: !transform.any_op {{transform.readonly}}) {{
    %marked = transform.structured.match attributes {{{_MARK}}} in %module
        : (!transform.any_op) -> !transform.any_op
    transform.structured.decompose_interface %marked : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}
"""
"""MLIR has no pass for it."""


def decompose(module: Any) -> None:
    """Replace each `linalg.softmax` on tensors of floats in a `builtin.module` by the operations
    that it is made of: a maximum, exponentials, a sum and quotients. Those on buffers MLIR cannot
    take apart; at those of other elements it would end the process.
    """
    bindings = bindings_of(module)
    on_tensors = [
        operation
        for operation in find(module, "linalg.softmax")
        if operation.results and _has_floats(operation)
    ]
    if not on_tensors:
        return
    try:
        interpreter = import_module(f"{bindings.package}.dialects.transform.interpreter")
    except ImportError:  # some bindings come without it; what is left is reported in the end
        return
    before = set(find(module, "linalg.generic"))
    with module.context:
        unit = bindings.ir.UnitAttr.get()
        for operation in on_tensors:
            operation.attributes[_MARK] = unit
        script = bindings.ir.Module.parse(_SCRIPT)
        (sequence,) = script.body.operations
        interpreter.apply_named_sequence(module, sequence, script)
        for operation in find(module, "linalg.generic"):
            if operation not in before:
                operation.attributes[PART] = unit


def _has_floats(operation: Any) -> bool:
    kind = bindings_of(operation).ir.FloatType
    return all(isinstance(value.type.element_type, kind) for value in operation.operands)
