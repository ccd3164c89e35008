"""The operators to measure: Table 1 of the paper, or a JSON file of the same form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.normal_form import normalised
from mopt_mlir.planning import operators
from mopt_mlir.problem import ElementType, Problem, conv2d
from mopt_mlir.wording import instead_of

from .workloads import LAYOUTS, TABLE1, Workload

_FIXED = {"layout": LAYOUTS[0], "element": "f32"}
"""Fields of a list that a benchmark does not leave open: who measures chooses the layout."""


def read_operators(spec: str, only: Sequence[str] = (), layout: str = LAYOUTS[0]) -> list[Workload]:
    """The operators of Table 1 (`table1`) or of a list (see `planning.operators`), in its order and
    in `layout`; only those in `only`, if any are. Raises UserError, located in the file."""
    operators.read_list(spec)  # refuses what is not a list of operators
    path = TABLE1 if spec == operators.TABLE1 else Path(spec)
    data = json.loads(path.read_bytes())
    rows = [dict(zip(data["fields"], row, strict=True)) for row in data["operators"]]
    try:
        workloads = [replace(_workload(row), layout=layout) for row in rows]
        _check_names([workload.name for workload in workloads])
        return _selected(workloads, only)
    except ValueError as error:
        raise UserError(str(error), spec) from None


def version(spec: str, layout: str = LAYOUTS[0]) -> str:
    """What identifies the operators of a list, with their sizes and layout."""
    return sha256(repr(read_operators(spec, layout=layout)).encode()).hexdigest()[:12]


def _workload(row: dict[str, Any]) -> Workload:
    for field, value in _FIXED.items():
        if row.pop(field, value) != value:
            raise ValueError(f"{row['name']}: {field} is not {value}, which is all we measure")
    pairs = {f"{field}s": _pair(row.pop(field, 1)) for field in ("stride", "dilation")}
    return Workload(**(row | pairs))


def _pair(value: int | list[int]) -> tuple[int, int]:
    rows, columns = value if isinstance(value, list) else (value, value)
    return rows, columns


def problem_of(workload: Workload) -> Problem:
    """What the planner sees of a workload."""
    layout, _, weights = workload.layout.partition("_")
    sizes = {name: getattr(workload, name) for name in "nkhwcrs"}
    problem = conv2d(
        **sizes,
        stride=workload.strides,
        dilation=workload.dilations,
        layout=layout,
        weights=weights,
        element=ElementType(workload.element),
    )
    return normalised(problem)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ValueError("there are no operators")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two operators are called '{twice}'")


def _selected(workloads: list[Workload], only: Sequence[str]) -> list[Workload]:
    names = [workload.name for workload in workloads]
    for name in only:
        if name not in names:
            raise ValueError(f"no operator '{name}'; {instead_of(name, names)}")
    return [workload for workload in workloads if not only or workload.name in only]
