"""Machine files: one commented TOML file per CPU.

Its keys are the fields of `Machine`, and one table `[L1]`, `[L2]`, `[L3]` each with the fields of
`Cache`. `bandwidth_all` may be left out for a private cache: it is `bandwidth` times the cores.
`microarchitecture`, archspec's name of the CPU, or LLVM's where it has none, makes a shipped file
the host's. The comment behind a figure says where it comes from, and is what `mopt-machine` shows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.machine import (
    CACHE_NAMES,
    NOUNS,
    Cache,
    Machine,
    field_kinds,
    optional_fields,
)
from mopt_mlir.machine.ranges import check_range
from mopt_mlir.unicode_text import printable


@dataclass(frozen=True)
class MachineFile:
    """`notes` are the comments behind the fields that the file gives, by key: `cores`, `L1.size`;
    empty where there is none."""

    machine: Machine
    microarchitecture: str | None
    notes: Mapping[str, str] = field(default_factory=dict)


_LINE = re.compile(
    r"""\s*(?:\[(?P<table>[^\]]+)\]\s*(?:\#.*)?  # [L1]
      | (?P<key>\w+)\s*=\s*("[^"]*"|[^"\#]*) # key = value
        \s*(\#\s*(?P<note>.*))?)""",
    re.VERBOSE,
)


def read(path: Path) -> MachineFile:
    """The machine that `path` describes; its name is the file's without `.toml`.

    Raises UserError, located in the file, where it cannot be read or a figure makes no sense.
    """
    try:
        text = path.read_bytes().decode()
        data = _parse_toml(text)
    except OSError as error:
        raise UserError(f"cannot read the machine file: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise UserError("the machine file is not UTF-8 text", str(path)) from None
    except RecursionError:
        raise UserError("the machine file is nested too deeply", str(path)) from None
    except ValueError as error:
        # tomllib says where in its message: "Expected '=' (at line 3, column 8)"
        where = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
        location = f"{path}:{where[1]}:{where[2]}" if where else str(path)
        why = str(error).replace(where[0], "") if where else str(error)
        if type(error) is ValueError:  # of Python's own, see sys.set_int_max_str_digits
            raise UserError("a number in it has thousands of digits", location) from None
        raise UserError(f"not TOML: {why}", location) from None
    try:
        file = machine_from(data, printable(path.stem))
        return replace(file, notes={**file.notes, **_comments(text)})
    except ValueError as error:
        raise UserError(str(error), str(path)) from None


def _parse_toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _comments(text: str) -> dict[str, str]:
    """The comments behind the values of a text that is known to be TOML."""
    comments, table = {}, ""
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
        if line["table"]:
            table = f"{line['table'].strip()}."
        elif line["note"]:
            comments[table + line["key"]] = line["note"].strip()
    return comments


def machine_from(data: Mapping[str, Any], name: str) -> MachineFile:
    """The machine that `data`, a parsed file, describes. Raises ValueError as `field: why`."""
    top = {key: value for key, value in data.items() if key not in CACHE_NAMES}
    microarchitecture = top.pop("microarchitecture", None)
    if not isinstance(microarchitecture, str | None):
        raise ValueError("microarchitecture: is not a string")
    for key in (key for key, value in top.items() if isinstance(value, dict)):
        known = ", ".join(f"[{cache}]" for cache in CACHE_NAMES)
        raise ValueError(f"[{key}]: unknown table; known: {known}")
    values = _typed(top, field_kinds(Machine), optional=optional_fields(Machine), prefix="")
    caches = tuple(_cache(cache, data.get(cache), values["cores"]) for cache in CACHE_NAMES)
    machine = Machine(name=name, caches=caches, **values)
    machine.check()
    given = [*top, *(f"{cache}.{key}" for cache in CACHE_NAMES for key in data[cache])]
    return MachineFile(machine, microarchitecture, dict.fromkeys(given, ""))


def _cache(name: str, table: Any, cores: int) -> Cache:
    if not isinstance(table, dict):
        raise ValueError(f"{name}: missing, a table [{name}] is needed")
    optional = optional_fields(Cache)
    if not table.get("shared"):
        optional = (*optional, "bandwidth_all")
    values = _typed(table, field_kinds(Cache), optional=optional, prefix=f"{name}.")
    values.setdefault("bandwidth_all", values["bandwidth"] * cores)
    return Cache(name=name, **values)


def _typed(
    table: Mapping[str, Any], kinds: Mapping[str, type], *, optional: tuple[str, ...], prefix: str
) -> dict[str, Any]:
    """The values of `table`, each of its kind; integers also serve as floats."""
    for key in table:
        if key not in kinds:
            raise ValueError(f"{prefix}{key}: unknown field; known: {', '.join(kinds)}")
    values: dict[str, Any] = {}
    for key, kind in kinds.items():
        if key not in table:
            if key not in optional:
                raise ValueError(f"{prefix}{key}: missing")
            continue
        value = table[key]
        given = type(value)  # not isinstance: true is no number
        if given is not kind and (given, kind) != (int, float):
            shown = str(value).lower() if given is bool else repr(value)
            raise ValueError(f"{prefix}{key}: {shown} is not {NOUNS[kind]}")
        check_range(f"{prefix}{key}", value)
        values[key] = kind(value)
    return values
