"""The contents of constant weights, where the module knows them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.bindings import Bindings
from mopt_mlir.linalg.resources import resource_bytes
from mopt_mlir.operations import defining_op, enclosing_module
from mopt_mlir.problem import ElementType

DTYPES: Mapping[ElementType, np.dtype[Any]] = {
    ElementType.F32: np.dtype("<f4"),
    ElementType.F64: np.dtype("<f8"),
}


def constant_value(value: Any, bindings: Bindings) -> NDArray[Any] | None:
    """The elements of SSA value `value` (a tensor or memref of f32 or f64) if they are constant.

    Looks at `arith.constant`, also through a read-only `bufferization.to_buffer`, at
    `memref.get_global` of a constant global, and through `memref.cast`; None if `value` comes from
    elsewhere, may be written, or its elements are not in the module.
    """
    owner = defining_op(value)
    if owner is None:
        return None
    if owner.name == "arith.constant":
        return _elements(owner, "value", bindings)
    if owner.name == "bufferization.to_buffer":
        written = "read_only" not in owner.attributes
        return None if written else constant_value(owner.operands[0], bindings)
    if owner.name == "memref.cast":
        return constant_value(owner.operands[0], bindings)
    if owner.name != "memref.get_global":
        return None
    symbols = bindings.ir.SymbolTable(enclosing_module(owner))
    name = owner.attributes["name"].value
    if name not in symbols:
        return None
    definition = symbols[name].operation
    if "constant" not in definition.attributes or "initial_value" not in definition.attributes:
        return None
    if isinstance(definition.attributes["initial_value"], bindings.ir.UnitAttr):
        return None  # uninitialized
    return _elements(definition, "initial_value", bindings)


def _elements(operation: Any, name: str, bindings: Bindings) -> NDArray[Any] | None:
    ir = bindings.ir
    attribute = operation.attributes[name]
    type_ = attribute.type
    if str(type_.element_type) not in tuple(ElementType):
        return None
    if isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat:
            splat = attribute.get_splat_value().value
            return np.full(type_.shape, splat, DTYPES[ElementType(str(type_.element_type))])
        return np.array(attribute)
    data, dtype = resource_bytes(attribute, bindings), DTYPES[ElementType(str(type_.element_type))]
    if data is None or len(data) != prod(type_.shape) * dtype.itemsize:
        return None
    return np.frombuffer(data, dtype).reshape(type_.shape)
