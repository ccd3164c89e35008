"""Machines by name: the shipped ones, the host, a file, and any of them with overrides."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import files
from mopt_mlir.machine.machine import Machine

SHIPPED = Path(__file__).parent
"""The machine files lie beside this module, also in a wheel."""

HOST = "host"


@cache
def names() -> tuple[str, ...]:
    """Names of the shipped machines."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


@cache
def shipped(name: str) -> files.MachineFile:
    """The shipped file of a machine in `names()`."""
    return files.read(SHIPPED / f"{name}.toml")


def by_name(name: str) -> Machine:
    """A shipped machine. Raises UserError, with the known names, for another name."""
    if name not in names():
        raise UserError(_unknown(name))
    return shipped(name).machine


def host() -> Machine:
    """The machine that this process runs on. Raises UserError if it is not x86-64 with AVX2."""
    from mopt_mlir.machine import detection

    return detection.machine_of(detection.observe(), tuple(map(shipped, names())))


def resolve(spec: str) -> Machine:
    """The machine that `spec` names: `host`, a shipped name or the path of a `.toml` file.

    Overrides may follow, as in `znver5,cores=2,L2.size=524288`. Raises UserError, saying what
    would be accepted, if there is no such machine, file, field or value.
    """
    base, *overrides = (part.strip() for part in spec.split(","))
    if base.endswith(".toml"):
        machine = files.read(Path(base)).machine
    else:
        machine = host() if base == HOST else by_name(base)
    fields: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key or not value:
            raise UserError(f"machine '{spec}': '{override}' is not of the form field=value")
        fields[key.strip()] = value.strip()
    try:
        return machine.override(fields) if fields else machine
    except ValueError as error:
        raise UserError(f"machine '{spec}': {error}") from None


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    known = (HOST, *names())
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return (
        f"unknown machine '{name}'; {hint}known: {', '.join(known)}, and the path of a .toml file"
    )
