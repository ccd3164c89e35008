"""Machines and calibrations as text, as JSON and as machine files."""

from __future__ import annotations

import json
from typing import Any

from mopt_mlir.machine.calibration import Calibration
from mopt_mlir.machine.provenance import DERIVED, Described, Value
from mopt_mlir.machine.quantities import QUANTITIES
from mopt_mlir.machine.ranges import RANGES
from mopt_mlir.problem import ElementType
from mopt_mlir.wording import columns, counted

_UNITLESS = ("capacity_factor", "pixel_room", "exposed", "issue_norm")

UNITS = {
    **{name: found.unit for name, found in RANGES.items() if name not in _UNITLESS},
    **dict.fromkeys(("vector_bits", "unit_bits"), "bits"),
}
"""Of the fields of `Machine` and `Cache`; the others are names, counts and ratios."""

_NOTE_COLUMN = 40  # of a machine file


def text_of(described: Described) -> str:
    """A line per field: its key, value, unit and source; and the peaks that follow."""
    rows = [
        (key, _text(value), unit_of(key), str(described.sources[key]))
        for key, value in described.machine.values().items()
    ]
    for element in ElementType:
        peak = f"{described.machine.peak(element):g}"
        rows.append((f"peak {element.value}", peak, "GFLOP/s", "derived: one core doing only FMAs"))
    return "\n".join([f"machine {described.machine.name}", *columns(rows, figures=(1,))])


def json_of(described: Described) -> str:
    """An object: `name`, and `fields` with the value, unit and source of each."""
    fields = {
        key: {
            "value": value,
            "unit": unit_of(key),
            "source": described.sources[key].origin,
            "detail": described.sources[key].detail,
        }
        for key, value in described.machine.values().items()
    }
    return json.dumps({"name": described.machine.name, "fields": fields}, indent=2)


def toml_of(described: Described) -> str:
    """A machine file, with the sources as comments, that can be read again: what is derived from
    the cores of private caches is left out, so that it follows them when they are edited."""
    private = {cache.name for cache in described.machine.caches if not cache.shared}
    lines = [f"# {_one_line(described.machine.name)}"]
    table = ""
    for key, value in described.machine.values().items():
        cache, _, name = key.rpartition(".")
        if cache != table:
            lines += ["", f"[{cache}]"]
            table = cache
        follows = name == "bandwidth_all" and cache in private
        derived = follows and described.sources[key].origin == DERIVED
        if value is not None and not derived:
            note = "; ".join(filter(None, (unit_of(key), str(described.sources[key]))))
            lines.append(f"{f'{name} = {_toml(value)}':<{_NOTE_COLUMN - 1}} # {_one_line(note)}")
    return "\n".join(lines)


def table_of(calibration: Calibration) -> str:
    """What was measured: a line per quantity, a column per number of cores."""
    counts = list(calibration.figures[QUANTITIES[0].name])
    head = ("", *(counted(n, "core") for n in counts), "")
    rows = [
        (q.name, *(f"{calibration.figures[q.name][n]:.1f}" for n in counts), q.unit)
        for q in QUANTITIES
    ]
    figures = range(1, len(counts) + 1)
    return "\n".join([str(calibration.identity), *columns([head, *rows], figures)])


def unit_of(key: str) -> str:
    """The unit of a field; empty for a name, a count or a ratio."""
    return UNITS.get(key.rpartition(".")[2], "")


def _text(value: Value) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _toml(value: Any) -> str:
    # TOML's strings, numbers and booleans are written as JSON's
    return json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
