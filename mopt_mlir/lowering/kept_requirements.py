"""What functions demand of sizes, kept in `mopt.entry`: once a module is lowered, its operations do
not tell any more.

As plain data it is a list of sizes, each a number, `extent ARGUMENT AXIS`, `scalar ARGUMENT`, or an
operation on earlier ones, which are given by their place in the list; and a list of requirements,
whose sizes are places in the other. (Numbers are text as they may have more bits than attributes.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.lowering.demands import Requirement
from mopt_mlir.lowering.entries import ENTRY, read_entry
from mopt_mlir.lowering.signature import Parameter
from mopt_mlir.lowering.sizes import (
    OPERATIONS,
    Computed,
    Extent,
    Scalar,
    Size,
    compute,
    operands_first,
    operands_of_size,
)
from mopt_mlir.plain_attributes import to_attribute, to_data
from mopt_mlir.plain_data import DataError, Record

_FIELD = "requirements"
_SIZES = ("size", "needed")
_FIELDS = ("location", "operation", "operand", "axis", "exact", *_SIZES)


def keep_requirements(function: Any, requirements: Sequence[Requirement]) -> None:
    """Write to the attribute `mopt.entry` of an entry function what it demands."""
    bindings = bindings_of(function)
    with function.context:
        fields = {item.name: item.attr for item in function.attributes[ENTRY]}
        fields[_FIELD] = to_attribute(as_data(requirements), bindings)
        function.attributes[ENTRY] = bindings.ir.DictAttr.get(fields)


def kept_requirements(function: Any) -> tuple[Requirement, ...] | None:
    """The inverse of `keep_requirements`; None if nothing is said. Raises UserError, located at the
    function, if it is something else."""
    attribute = function.attributes[ENTRY]
    if _FIELD not in attribute:
        return None
    parameters = read_entry(function).parameters
    try:
        data = to_data(attribute[_FIELD], f"'{_FIELD}'", bindings_of(function))
        return from_data(data, parameters)
    except DataError as error:
        raise UserError(f"'{ENTRY}': {error}", describe(function.location)) from None


def as_data(requirements: Sequence[Requirement]) -> dict[str, Any]:
    """Requirements as plain data."""
    places: dict[Size, int] = {}
    texts: list[str] = []

    def place(size: Size) -> int:
        for part in operands_first(size, operands_of_size, places):
            texts.append(_text(part, places))
            places[part] = len(places)
        return places[size]

    demands = []
    for requirement in requirements:
        fields = {name: getattr(requirement, name) for name in _FIELDS}
        known = {name: place(fields[name]) for name in _SIZES if fields[name] is not None}
        demands.append({name: fields[name] for name in _FIELDS if name not in _SIZES} | known)
    return {"sizes": texts, "demands": demands}


def _text(size: Size, places: Mapping[Size, int]) -> str:
    if isinstance(size, Extent):
        return f"extent {size.argument} {size.axis}"
    if isinstance(size, Scalar):
        return f"scalar {size.argument}"
    if isinstance(size, Computed):
        return " ".join([size.operation, *(str(places[part]) for part in size.operands)])
    assert isinstance(size, int), "what cannot be told has no size"
    return str(size)


def from_data(data: Any, parameters: Sequence[Parameter]) -> tuple[Requirement, ...]:
    """The inverse of `as_data`, for a function of these parameters. Raises DataError."""
    record = Record.of(data, ("sizes", "demands"), f"'{_FIELD}'")
    sizes: list[Size] = []
    for text in record.texts("sizes"):
        sizes.append(_size(text, sizes, parameters))

    def size(demand: Record, name: str) -> Size | None:
        if name not in demand:
            return None
        if not 0 <= (place := demand.integer(name)) < len(sizes):
            raise DataError(f"{demand.path}{name} = {place} is the place of no size")
        return sizes[place]

    return tuple(
        Requirement(
            demand.text("location"),
            demand.text("operation"),
            demand.integer("operand"),
            demand.integer("axis"),
            size(demand, "size"),
            size(demand, "needed"),
            demand.truth("exact"),
        )
        for demand in record.records("demands", _FIELDS)
    )


def _size(text: str, earlier: Sequence[Size], parameters: Sequence[Parameter]) -> Size:
    kind, *words = text.split(" ")
    try:
        if not words:
            return int(kind)
        numbers = tuple(map(int, words))
    except ValueError:
        raise DataError(f"'{text}' is no size") from None
    shapes = {argument: parameter.shape for argument, parameter in enumerate(parameters)}
    shape = shapes.get(numbers[0], ())
    if kind == "extent" and len(numbers) == 2 and 0 <= numbers[1] < len(shape or ()):
        return Extent(*numbers)
    if kind == "scalar" and len(numbers) == 1 and shape is None:
        return Scalar(*numbers)
    is_complete = len(numbers) == (3 if kind == "select" else 2)
    if kind in OPERATIONS and is_complete and all(0 <= n < len(earlier) for n in numbers):
        return compute(kind, *(earlier[n] for n in numbers))
    raise DataError(f"'{text}' is no size of this function")
