"""Operators to plan: the convolutions of a module, of a list in JSON, or of Table 1.

A list names the fields of its rows, of which these must be there, sizes in elements:

    {"fields": ["name", "k", "h", "w", "c", "r", "s"], "operators": [["R2", 64, 56, 56, 64, 3, 3]]}

`h`, `w` are output sizes and the input is already padded. Further fields are `n`, `stride` and
`dilation` (a number, or one for rows and one for columns), `layout` (`nchw_fchw`, `nhwc_hwcf` or
`nhwc_fhwc`, as linalg's operations are named) and `element` (`f32` or `f64`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.normal_form import normalised
from mopt_mlir.operations import ancestors
from mopt_mlir.problem import ElementType, Problem, conv2d

if TYPE_CHECKING:
    from mopt_mlir.linalg.extract import Convolution

TABLE1 = "table1"
"""The name of the list that comes with this package: the convolutions of Yolo-9000, ResNet-18 and
MobileNet that Table 1 of the paper measures."""

OF_LISTS_ONLY = (
    "that weights are constant can be said of lists only: a module has its constants itself"
)
"""The refusal of an option that would change nothing."""

LISTS: Mapping[str, Path] = {TABLE1: Path(__file__).with_name("table1.json")}
"""The lists that come with this package, by name."""

_SIZES = ("k", "h", "w", "c", "r", "s")
_REQUIRED = ("name", *_SIZES)
_PAIRS = ("stride", "dilation")
_OPTIONAL = ("n", *_PAIRS, "layout", "element")
_LAYOUTS = ("nchw_fchw", "nhwc_hwcf", "nhwc_fhwc")
_LARGEST = 2**31 - 1  # elements along one dim, as in most frameworks
_ELEMENTS = tuple(element.value for element in ElementType)


@dataclass(frozen=True)
class Operator:
    """A convolution by name; `location` is where a user finds it."""

    name: str
    problem: Problem
    constant_weights: bool = False
    location: str = ""


def is_list(source: Any) -> bool:
    """Whether `source` is what `read_list` reads: `table1`, or a path that ends in .json."""
    if not isinstance(source, str | PathLike):
        return False
    name = fspath(source)
    return isinstance(name, str) and (name in LISTS or name.endswith(".json"))


def read_list(source: str | PathLike[str], constant_weights: bool = False) -> tuple[Operator, ...]:
    """The operators of a list. Raises UserError, located in it, if it has another form."""
    name = fspath(source)
    try:
        text = LISTS.get(name, Path(name)).read_bytes()
    except (OSError, ValueError) as error:  # such as for a NUL in the name
        raise UserError(f"cannot read it: {getattr(error, 'strerror', error)}", name) from None
    try:
        data = json.loads(text)
    except UnicodeDecodeError:
        raise UserError("it is not UTF-8 text", name) from None
    except RecursionError:
        raise UserError("it is nested too deeply", name) from None
    except json.JSONDecodeError as error:
        location = f"{name}:{error.lineno}:{error.colno}"
        raise UserError(f"not JSON: {error.msg}", location) from None
    except ValueError:  # of Python's own, see sys.set_int_max_str_digits
        raise UserError("a number in it has thousands of digits", name) from None
    try:
        rows = _rows(data)
    except ValueError as error:
        raise UserError(str(error), name) from None
    operators = []
    for index, row in enumerate(rows):
        try:
            operators.append(Operator(row["name"], _problem(row), constant_weights, name))
        except ValueError as error:
            raise UserError(f"operators[{index}]: {error}", name) from None
    return tuple(operators)


def operators_of(module: Any) -> tuple[Operator, ...]:
    """The convolutions of a module of any MLIR bindings, named after their functions.

    Those of a function with several are numbered. Emits a remark for each operation that is none,
    but might have been.
    """
    from mopt_mlir.bindings import bindings_of
    from mopt_mlir.linalg.constants import constant_value
    from mopt_mlir.planning.planner import convolutions

    bindings = bindings_of(module)
    found = convolutions(module, bindings)
    return tuple(
        Operator(
            name,
            normalised(convolution.problem),
            constant_value(convolution.weights, bindings) is not None,
            describe(convolution.operation.location),
        )
        for name, convolution in zip(names_of(found), found, strict=True)
    )


def names_of(convolutions: Sequence[Convolution]) -> list[str]:
    """The names of all convolutions of a module: those of their functions, numbered where one has
    several."""
    functions = [_function(convolution.operation) for convolution in convolutions]
    several, seen = Counter(functions), Counter[str]()
    names = []
    for function in functions:
        seen[function] += 1
        names.append(f"{function}#{seen[function]}" if several[function] > 1 else function)
    return names


def _function(operation: Any) -> str:
    """The name of the symbol around `operation`."""
    symbols = (around for around in ancestors(operation) if "sym_name" in around.attributes)
    symbol = next(symbols, None)
    return "module" if symbol is None else str(symbol.attributes["sym_name"].value)


def _rows(data: Any) -> list[dict[str, Any]]:
    """Field -> value of each operator. Raises ValueError where `data` is no such table."""
    if not isinstance(data, dict) or not {"fields", "operators"} <= data.keys():
        raise ValueError('not an object with "fields" and "operators"')
    fields, rows = data["fields"], data["operators"]
    if not isinstance(fields, list) or not isinstance(rows, list):
        raise ValueError('"fields" and "operators" must be lists')
    for field in _REQUIRED:
        if field not in fields:
            raise ValueError(f'"fields" lacks "{field}"')
    for field in fields:
        if field not in (*_REQUIRED, *_OPTIONAL):
            known = ", ".join((*_REQUIRED, *_OPTIONAL))
            raise ValueError(f'"fields" has {json.dumps(field)}; known: {known}')
        if fields.count(field) > 1:
            raise ValueError(f'"fields" has "{field}" more than once')
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(fields):
            raise ValueError(f"operators[{index}]: not a list of {len(fields)} values")
    return [dict(zip(fields, row, strict=True)) for row in rows]


def _problem(row: Mapping[str, Any]) -> Problem:
    """The normalised problem of one row. Raises ValueError, naming the field."""
    if not _is_name(row["name"]):
        raise ValueError(f"name: {json.dumps(row['name'])} is not a name")
    layout, _, weights = _one_of(_LAYOUTS, row, "layout").partition("_")
    problem = conv2d(
        **{field: _size(row[field], field) for field in _SIZES},
        n=_size(row.get("n", 1), "n"),
        stride=_pair(row, "stride"),
        dilation=_pair(row, "dilation"),
        layout=layout,
        weights=weights,
        element=ElementType(_one_of(_ELEMENTS, row, "element")),
    )
    return normalised(problem)


def _is_name(value: Any) -> bool:
    """Whether `value` can be printed: JSON's strings may hold halves of characters."""
    return isinstance(value, str) and value != "" and not re.search("[\ud800-\udfff]", value)


def _size(value: Any, field: str) -> int:
    if type(value) is not int or not 1 <= value <= _LARGEST:  # not isinstance: true is no number
        raise ValueError(f"{field}: {json.dumps(value)} is not a positive integer below 2^31")
    return value


def _pair(row: Mapping[str, Any], field: str) -> tuple[int, int]:
    value = row.get(field, 1)
    if isinstance(value, list) and len(value) == 2:
        return _size(value[0], field), _size(value[1], field)
    if isinstance(value, list):
        raise ValueError(f"{field}: {json.dumps(value)} is neither a number nor a pair of two")
    return _size(value, field), _size(value, field)


def _one_of(known: Sequence[str], row: Mapping[str, Any], field: str) -> str:
    """The value of `field`, by default the first of those known."""
    value = row.get(field, known[0])
    if value not in known:
        raise ValueError(f"{field}: {json.dumps(value)} is not one of {', '.join(known)}")
    return str(value)
