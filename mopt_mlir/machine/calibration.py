"""What was measured on this machine, kept in the user's cache directory.

One file per CPU model and number of cores, so that a home directory may be shared by different
machines. It is written at one stroke and read with distrust: whatever is wrong with it, it is
ignored with a remark, and the machine is the one of the shipped file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from mopt_mlir.cache_directory import ENVIRONMENT, cache_directory
from mopt_mlir.diagnostics import UserError, emit
from mopt_mlir.machine.facts import HostFacts
from mopt_mlir.machine.machine import Machine
from mopt_mlir.machine.quantities import PEAKS, QUANTITIES
from mopt_mlir.output import check_output, write_output
from mopt_mlir.problem import ElementType

FORMAT = 1
"""Of the file; a file of another format is measured anew."""

Figures = Mapping[str, Mapping[int, float]]
"""Of each quantity, by name, for each number of cores that were busy: GFLOP/s or GB/s."""


@dataclass(frozen=True)
class Identity:
    """Which machines a calibration holds for: those with this CPU and as many cores.

    `model` is the CPU's marketing name, which hypervisors may hide, `cpu` LLVM's name for it.
    """

    model: str
    cpu: str
    cores: int

    @staticmethod
    def of(facts: HostFacts) -> Identity:
        return Identity(facts.model, facts.cpu or facts.lineage[0], facts.installed_cores)

    def __str__(self) -> str:
        return f"{self.model or 'unnamed CPU'} ({self.cpu}), {self.cores} cores"


@dataclass(frozen=True)
class Calibration:
    """What was measured. `date` is the day, `remarks` say what is doubtful about the figures."""

    identity: Identity
    date: str
    figures: Figures
    remarks: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """The most cores that were measured together."""
        return max(next(iter(self.figures.values())))

    def one_core(self) -> dict[str, float]:
        """The fields of a machine that hold for one core, by the keys of `Machine.values`."""
        return {q.field: self.figures[q.name][1] for q in QUANTITIES if q.field}

    def all_cores(self, machine: Machine) -> dict[str, float]:
        """The fields that depend on the number of cores of `machine`.

        Between the numbers that were measured figures are interpolated. Beyond them private caches
        add up; of what is shared it is only known that it is not less than what was measured.
        """
        cores = min(machine.cores, self.threads)
        private = {cache.name for cache in machine.caches if not cache.shared}
        known = machine.totals()
        flops_per_cycle = machine.peak(ElementType.F32) / machine.frequency
        clock = self._at(PEAKS[0].name, cores) / cores / flops_per_cycle
        fields = {"frequency": round(clock, 3)}
        for quantity in (q for q in QUANTITIES if q.field):
            key, total = f"{quantity.field}_all", self._at(quantity.name, cores)
            if cores < machine.cores and quantity.level in private:
                total *= machine.cores / cores
            elif cores < machine.cores:
                total = max(total, known.get(key, 0.0))
            fields[key] = max(total, self.figures[quantity.name][1])
        return fields

    def _at(self, name: str, cores: int) -> float:
        figures = self.figures[name]
        low = max(n for n in figures if n <= cores)
        high = min(n for n in figures if n >= cores)
        if low == high:
            return figures[low]
        return figures[low] + (figures[high] - figures[low]) * (cores - low) / (high - low)


def path_of(identity: Identity) -> Path | None:
    """Where the calibration of a machine is kept; None if the user has no cache directory."""
    directory = cache_directory()
    name = f"{identity.model} {identity.cpu} {identity.cores} cores".lower()
    slug = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    return None if directory is None else directory / "calibration" / f"{slug}.json"


def stored(identity: Identity) -> Calibration | None:
    """The calibration of a machine, None if there is none.

    Also None, after a remark, for a file that cannot be used: damaged, of another version or
    another machine.
    """
    path = path_of(identity)
    if path is None:
        return None
    try:
        calibration = from_json(path.read_bytes())
        if calibration.identity != identity:
            raise ValueError(f"it is of another machine, {calibration.identity}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        ignore(identity, why or "it cannot be read")
        return None
    return calibration


@cache
def ignore(identity: Identity, why: str) -> None:
    """Say, once in a process, that the stored calibration of a machine is not used."""
    way_out = "measure again with mopt-machine --calibrate, or remove it with --forget"
    emit("remark", str(path_of(identity)), f"the calibration is ignored: {why}; {way_out}")


def store(calibration: Calibration) -> Path:
    """Keep a calibration, in place of an earlier one. Raises UserError if that is not possible."""
    path = prepare(calibration.identity)
    write_output(path, to_json(calibration))
    return path


def prepare(identity: Identity) -> Path:
    """Where `store` will write; UserError if it will not be able to."""
    path = path_of(identity)
    way_out = f"set {ENVIRONMENT} to a directory that can be written"
    if path is None:
        raise UserError(f"there is no cache directory to keep the calibration in; {way_out}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the directory: {error.strerror}; {way_out}"
        raise UserError(why, str(path.parent)) from None
    check_output(path)
    return path


def forget(identity: Identity) -> Path | None:
    """Remove the calibration of a machine: its path, or None if there was none.

    Raises UserError if it cannot be removed.
    """
    path = path_of(identity)
    try:
        if path is None:
            return None
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot remove it: {error.strerror}", str(path)) from None
    return path


def to_json(calibration: Calibration) -> bytes:
    """The content of a calibration file."""
    identity = calibration.identity
    data = {
        "format": FORMAT,
        "model": identity.model,
        "cpu": identity.cpu,
        "cores": identity.cores,
        "date": calibration.date,
        "units": {quantity.name: quantity.unit for quantity in QUANTITIES},
        "figures": {
            name: {str(threads): round(figure, 3) for threads, figure in figures.items()}
            for name, figures in calibration.figures.items()
        },
        "remarks": list(calibration.remarks),
    }
    return f"{json.dumps(data, indent=2)}\n".encode()


def from_json(data: bytes) -> Calibration:
    """Read a calibration file. Raises ValueError, saying what is wrong with it."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is damaged, not JSON") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it is damaged, or not a calibration at all")
    if content["format"] != FORMAT:
        raise ValueError("it was made by another version")
    try:
        return Calibration(
            Identity(*(_typed(content, key, kind) for key, kind in _IDENTITY.items())),
            _typed(content, "date", str),
            _figures(_typed(content, "figures", dict)),
            tuple(map(str, _typed(content, "remarks", list))),
        )
    except KeyError as missing:
        raise ValueError(f"it is damaged, without {missing}") from None


_IDENTITY = {"model": str, "cpu": str, "cores": int}


def _typed(content: Mapping[str, Any], key: str, kind: type) -> Any:
    value = content[key]
    if type(value) is not kind:
        raise ValueError(f"it is damaged, '{key}' is {value!r}")
    return value


def _figures(content: Mapping[str, Any]) -> Figures:
    figures = {q.name: _by_threads(q.name, _typed(content, q.name, dict)) for q in QUANTITIES}
    counts = {tuple(of_threads) for of_threads in figures.values()}
    if len(counts) > 1 or any(1 not in threads for threads in counts):
        raise ValueError("it is damaged, numbers of cores are missing")
    return figures


def _by_threads(name: str, content: Mapping[str, Any]) -> dict[int, float]:
    for threads, figure in content.items():
        counts = threads.isdecimal() and int(threads) > 0
        if not counts or type(figure) is not float or not 0 < figure < inf:
            raise ValueError(f"it is damaged, '{name}' for {threads} cores is {figure!r}")
    return dict(sorted((int(threads), figure) for threads, figure in content.items()))
