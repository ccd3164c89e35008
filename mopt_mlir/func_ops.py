"""What the bindings lack about `func.func`: all of a module's, and their parameters' attributes."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.operations import defining_op, directly_in, enclosing_module, find

CALLS = ("func.call", "func.call_indirect")

VISIBILITY = "sym_visibility"
"""The attribute that functions which are private have."""

PARAMETER_NAME = "mopt.name"
"""The attribute that gives a parameter its name; without it parameter 0 is called `arg0`."""


def functions_of(module: Any) -> list[Any]:
    """The `func.func` operations of a module that have a body."""
    return [op for op in _all_functions(module) if len(op.regions[0].blocks)]


def public_functions(module: Any) -> list[Any]:
    """Those of them that can be called from outside."""
    return [function for function in functions_of(module) if is_public(function)]


def declarations_of(module: Any) -> list[Any]:
    """The functions that have none: they are defined elsewhere."""
    return [op for op in _all_functions(module) if not len(op.regions[0].blocks)]


def functions_called(call: Any) -> list[Any]:
    """The functions that a call may run, of those that have a body: one, or none; through a pointer
    that may be any, all to which there are pointers of its type."""
    names = _names_called(call)
    return [f for f in functions_of(enclosing_module(call)) if name_of(f) in names]


def parameters_given(call: Any, number: int) -> list[Any]:
    """The parameters that the operand `number` of a call becomes, of `functions_called`."""
    if call.name == "func.call_indirect":
        if number == 0:  # the pointer itself
            return []
        number -= 1
    return [f.regions[0].blocks[0].arguments[number] for f in functions_called(call)]


def _names_called(call: Any) -> set[str]:
    if call.name == "func.call":
        return {call.attributes["callee"].value}
    pointer = call.operands[0]
    constant = defining_op(pointer)
    if constant is not None and constant.name == "func.constant":
        return {constant.attributes["value"].value}
    constants = find(enclosing_module(call), "func.constant")
    return {c.attributes["value"].value for c in constants if c.result.type == pointer.type}


def _all_functions(module: Any) -> list[Any]:
    return [op for op in directly_in(module) if op.name == "func.func"]


def name_of(function: Any) -> str:
    """The symbol of a function."""
    name: str = function.attributes["sym_name"].value
    return name


def is_public(function: Any) -> bool:
    """Whether a function can be called from outside its module."""
    attributes = function.attributes
    return VISIBILITY not in attributes or attributes[VISIBILITY].value == "public"


def argument_attributes(function: Any) -> list[dict[str, Any]]:
    """The attributes of each parameter of a function."""
    if "arg_attrs" not in function.attributes:
        return [{} for _ in function.attributes["function_type"].value.inputs]
    dictionaries = function.attributes["arg_attrs"]
    return [{item.name: item.attr for item in dictionary} for dictionary in dictionaries]


def set_argument_attributes(function: Any, attributes: list[dict[str, Any]]) -> None:
    """Replace the attributes of all parameters of a function."""
    _set_attributes(function, "arg_attrs", attributes)


def set_result_attributes(function: Any, attributes: list[dict[str, Any]]) -> None:
    """Replace the attributes of all results of a function."""
    _set_attributes(function, "res_attrs", attributes)


def _set_attributes(function: Any, which: str, attributes: list[dict[str, Any]]) -> None:
    ir = bindings_of(function).ir
    with function.context:
        function.attributes[which] = ir.ArrayAttr.get(
            [ir.DictAttr.get(known) for known in attributes]
        )
