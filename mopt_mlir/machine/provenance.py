"""A machine together with where each of its figures comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mopt_mlir.machine.files import MachineFile
from mopt_mlir.machine.machine import Cache, Machine, optional_fields

Value = str | int | float | bool | None

SHIPPED_FILE = "shipped file"
FILE = "file"
SYSTEM = "OS"
CALIBRATION = "calibration"
MODULE = "module"
OVERRIDE = "override"
DERIVED = "derived"
DEFAULT = "default"


@dataclass(frozen=True)
class Source:
    """Where a figure comes from: `origin` is one of the constants above, `detail` says more."""

    origin: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.origin}: {self.detail}" if self.detail else self.origin


@dataclass(frozen=True)
class Described:
    """A machine, and the source of every field, by the keys of `Machine.values`."""

    machine: Machine
    sources: Mapping[str, Source]

    def with_fields(self, fields: Mapping[str, Value], source: Source) -> Described:
        """This machine with `fields`, which come from `source`, replaced."""
        machine = self.machine
        for key, value in fields.items():
            machine = machine.with_field(key, value)
        return Described(machine, {**self.sources, **dict.fromkeys(fields, source)})

    def changed(self, machine: Machine, source: Source) -> Described:
        """`machine` in place of this one; where it differs, that comes from `source`."""
        before = self.machine.values()
        differs = [key for key, value in machine.values().items() if value != before[key]]
        return Described(machine, {**self.sources, **dict.fromkeys(differs, source)})

    def override(self, fields: Mapping[str, str]) -> Described:
        """`Machine.override`, with the sources of what it changes."""
        follows = Source(DERIVED, "from what was overridden")
        described = self.changed(self.machine.override(fields), follows)
        given = {key: Source(OVERRIDE, f"{key}={text}") for key, text in fields.items()}
        return replace(described, sources={**described.sources, **given})


def describe_file(file: MachineFile, origin: str) -> Described:
    """The machine of a file, which is a SHIPPED_FILE one or a FILE of the user's."""
    name = f"{file.machine.name}.toml"
    sources = {key: Source(origin, _note(name, file, key)) for key in file.machine.values()}
    for cache in file.machine.caches:
        total = f"{cache.name}.bandwidth_all"
        if not cache.shared and total not in file.notes:
            sources[total] = Source(DERIVED, f"{cache.name}.bandwidth times cores")
    of_caches = [f"{c.name}.{key}" for c in file.machine.caches for key in optional_fields(Cache)]
    for key in (*optional_fields(Machine), *of_caches):
        if key not in file.notes:
            sources[key] = Source(DEFAULT)
    return Described(file.machine, sources)


def _note(name: str, file: MachineFile, key: str) -> str:
    note = file.notes.get(key)
    return f"{name}, {note}" if note else name
