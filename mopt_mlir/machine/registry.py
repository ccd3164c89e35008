"""Machines by name: the shipped ones, the host, a file, and any of them with overrides."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.diagnostics import describe as place_of
from mopt_mlir.machine import calibration, detection, facts, files
from mopt_mlir.machine.dlti import described, refined
from mopt_mlir.machine.machine import Machine
from mopt_mlir.machine.provenance import (
    FILE,
    MODULE,
    SHIPPED_FILE,
    Described,
    Source,
    describe_file,
)
from mopt_mlir.machine.spec import AUTO, HOST, MachineSpec
from mopt_mlir.wording import guess

SHIPPED = Path(__file__).parent
"""The machine files lie beside this module, also in a wheel."""


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


def host(seen: facts.HostFacts | None = None) -> Machine:
    """The machine that this process runs on, as calibrated if it was (see `calibration`); `seen` is
    what is known of it, unless that is to be found out.

    Raises UserError if it is not x86-64 with AVX2 and FMA.
    """
    return describe_host(seen).machine


def describe_host(seen: facts.HostFacts | None = None) -> Described:
    """`host`, with the source of each figure."""
    seen = facts.observe() if seen is None else seen
    known = tuple(map(shipped, names()))
    identity = calibration.Identity.of(seen)
    stored = calibration.stored(identity)
    if stored is not None:
        try:
            return detection.describe_host(seen, known, stored)
        except ValueError as error:
            calibration.ignore(identity, str(error))
    try:
        return detection.describe_host(seen, known)
    except ValueError as error:
        why = f"what the system says of this host makes no machine: {error}"
        raise UserError(f"{why}; name another one instead, see mopt-machine --help") from None


def resolve(spec: str, module: Any = None) -> Machine:
    """The machine that `spec` names: `auto`, `host`, a shipped name or the path of a `.toml` file.

    `auto` is the host with what `module`, of any MLIR bindings, says of its machine. Overrides may
    follow, as in `znver5,cores=2,L2.size=524288`. Raises UserError, saying what would be accepted,
    if there is no such machine, file, field or value, and TypeError for what is no text.
    """
    if not isinstance(spec, str):
        raise TypeError(f"a machine is named by a text, not by {type(spec).__name__}")
    return describe(spec, module).machine


def describe(spec: str, module: Any = None) -> Described:
    """`resolve`, with the source of each figure."""
    named = MachineSpec.parse(spec)
    found = _base(named.base, module)
    try:
        return found.override(named.overrides) if named.overrides else found
    except ValueError as error:
        raise UserError(f"machine '{spec}': {error}") from None


def _base(name: str, module: Any) -> Described:
    if name.endswith(".toml"):
        return describe_file(files.read(Path(name)), FILE)
    if name == AUTO:
        return _refined(describe_host(), module)
    if name == HOST:
        return describe_host()
    if name in names():
        return describe_file(shipped(name), SHIPPED_FILE)
    raise UserError(_unknown(name))


def _refined(host: Described, module: Any) -> Described:
    try:
        machine = host.machine if module is None else refined(host.machine, described(module))
        return host.changed(machine, Source(MODULE, "its target attributes"))
    except ValueError as error:
        raise UserError(
            f"the target attributes of the module do not describe a machine: {error}; "
            "correct them, or name a machine, e.g. machine=host",
            place_of(module.location),
        ) from None


def _unknown(name: str) -> str:
    known = (AUTO, HOST, *names())
    hint = guess(name.lower(), known)
    others = f"known: {', '.join(known)}, and the path of a .toml file"
    return f"unknown machine '{name}'; {hint and hint + ' '}{others}"
