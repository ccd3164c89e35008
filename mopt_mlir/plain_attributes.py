"""Plain data (numbers, text, lists and dictionaries) as attributes, and back."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.plain_data import DataError
from mopt_mlir.unicode_text import is_unicode

MOST_BITS = 64
"""Of an integer: asked for the value of a larger one, MLIR ends the process."""


def to_attribute(data: Any, bindings: Bindings) -> Any:
    """`data` as an attribute of the current context; its integers have at most MOST_BITS."""
    ir = bindings.ir
    if isinstance(data, str):
        return ir.StringAttr.get(data)
    if isinstance(data, bool):
        return ir.BoolAttr.get(data)
    if isinstance(data, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(MOST_BITS), data)
    if isinstance(data, float):
        return ir.FloatAttr.get(ir.F64Type.get(), data)
    if isinstance(data, dict):
        return ir.DictAttr.get({key: to_attribute(value, bindings) for key, value in data.items()})
    return ir.ArrayAttr.get([to_attribute(value, bindings) for value in data])


def to_data(attribute: Any, what: str, bindings: Bindings) -> Any:
    """The inverse of `to_attribute`. Raises DataError, with `what` it is, for other attributes."""
    if not is_unicode(attribute):
        raise DataError(f"{what} holds text that is not UTF-8")
    return _data(attribute, what, bindings)


def _data(attribute: Any, what: str, bindings: Bindings) -> Any:
    ir = bindings.ir
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    if isinstance(attribute, ir.IntegerAttr) and getattr(attribute.type, "width", 0) > MOST_BITS:
        raise DataError(f"{what} holds {attribute}; its integers have at most {MOST_BITS} bits")
    if isinstance(attribute, (ir.StringAttr, ir.IntegerAttr, ir.FloatAttr)):
        return attribute.value
    if isinstance(attribute, ir.DictAttr):
        return {item.name: _data(item.attr, what, bindings) for item in attribute}
    if isinstance(attribute, ir.ArrayAttr):
        return [_data(item, what, bindings) for item in attribute]
    raise DataError(f"{what} holds {attribute}, which is no number, text, list or dictionary")
