"""How a machine is named: `znver5`, `host,cores=2`, `mine.toml,L2.size=524288`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mopt_mlir.diagnostics import UserError

HOST = "host"
"""The machine that this process runs on."""

AUTO = "auto"
"""The host, as far as the module to compile does not describe its machine, see `dlti`."""


@dataclass(frozen=True)
class MachineSpec:
    """`base` is AUTO, HOST, the name of a shipped machine or the path of a `.toml` file;
    `overrides` are values of its fields, as text."""

    base: str
    overrides: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MachineSpec:
        """Raises UserError where an override is not of the form field=value, or given twice."""
        base, *overrides = (part.strip() for part in text.split(","))
        fields: dict[str, str] = {}
        for override in overrides:
            key, equals, value = (part.strip() for part in override.partition("="))
            if not (key and equals and value):
                raise UserError(f"machine '{text}': '{override}' is not of the form field=value")
            if key in fields:
                raise UserError(f"machine '{text}': '{key}' is given twice")
            fields[key] = value
        return cls(base, fields)

    def but(self, key: str, value: object) -> MachineSpec:
        """The same with another value of a field."""
        return replace(self, overrides={**self.overrides, key: str(value)})

    def __str__(self) -> str:
        return ",".join([self.base, *(f"{key}={value}" for key, value in self.overrides.items())])
