"""Files of lines of JSON: a head that says what was measured, then a record in each line.

Lines are only ever added, each as soon as it is known, so that a run can be interrupted at any time
and continued: a last line that was cut off is dropped. Files may be compressed (`.xz`), to be kept.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import check_output, write_output
from mopt_mlir.plan import Plan

FORMAT = 1
COMPRESSED = ".xz"
MEASUREMENTS = "mopt-validate measurements"
VOLUMES = "mopt-validate volumes"

OF_VOLUMES = "-volumes"
"""How the name of a file with the volumes of a trial ends, behind the trial's."""

_DURATIONS = ("rounds", "final_rounds", "seconds")
"""Fields of a head, beside `must_agree`, that must agree as well: plans that were measured already
are not measured once more for others."""

_LATER = ("machine figures", "seconds", "samples")
"""What must agree but in files of earlier versions, which do not have it."""

_DIGITS = 5  # of seconds, which are not known any better


@dataclass(frozen=True)
class Subject:
    """A plan of an operator. `role` says where it is from: `own`, the model's choice; `candidate`,
    one of the others that `candidates=5` offers; `sample`; or `again`, the reference once more,
    which shows the noise. (What the model chooses may change, see `Choice`.)"""

    operator: str
    role: str
    plan: Plan

    @property
    def key(self) -> str:
        """What identifies the plan among those of the operator, today and in other trials; `again`
        is one of its own. (The cache that it prefetches into is the same for all of a machine.)"""
        data = plan_data(self.plan)
        del data["prefetch"]
        text = json.dumps([data, self.is_again], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:12]

    @property
    def is_again(self) -> bool:
        return self.role == "again"


@dataclass(frozen=True)
class Start:
    """The first record of an operator: its sizes, layout, and the plan that all others are timed
    beside.

    `peak_gflops` is the FMA peak at that time.
    """

    operator: str
    sizes: dict[str, Any]
    reference: Plan
    peak_gflops: float


@dataclass(frozen=True)
class Choice:
    """The keys of what the model chose of an operator when it was last asked: its own plan, then
    the other candidates."""

    operator: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Measurement:
    """A plan that was timed: in each round `reference[i]` seconds of the reference plan, right
    after it `seconds[i]` of this one. `final` rounds are those in which the foremost plans met once
    more. `error` is in units of what rounding can explain."""

    subject: Subject
    final: bool
    seconds: tuple[tuple[float, ...], ...]
    reference: tuple[tuple[float, ...], ...]
    compile_seconds: float
    error: float | None
    counters: dict[str, float]


@dataclass(frozen=True)
class Latency:
    """What the core had of its caches before or after rounds of an operator: nanoseconds of a load
    that depends on the one before, through a part of each cache and through memory, by name (see
    `latency`)."""

    operator: str
    nanoseconds: dict[str, float]


@dataclass(frozen=True)
class Failed:
    """A plan that could not be measured, and why."""

    subject: Subject
    reason: str


@dataclass(frozen=True)
class Simulated:
    """Bytes that a plan moves, by hierarchy (`associative`, `full`), resource and tensor. `misses`
    are lines fetched into each cache of the machine's hierarchy, `valgrind` what valgrind counts of
    these, if it was asked. `picked` is one that was simulated for its slowest memory only."""

    subject: Subject
    volumes: dict[str, dict[str, dict[str, int]]]
    accesses: int
    misses: dict[str, int]
    valgrind: dict[str, int] = field(default_factory=dict)
    picked: bool = False


Record = Start | Choice | Latency | Measurement | Failed | Simulated


class Log(Protocol):
    """Takes records as they come."""

    def __call__(self, record: Record) -> None: ...


def operator_of(record: Record) -> str:
    """The operator that a record belongs to."""
    if isinstance(record, Start | Choice | Latency):
        return record.operator
    return record.subject.operator


def passes(records: Sequence[Record]) -> dict[str, list[Measurement]]:
    """What counts of each plan of an operator, by key: the passes of its final rounds, if there are
    any, or the first rounds."""
    found: dict[str, list[Measurement]] = {}
    for record in records:
        if isinstance(record, Measurement):
            known = found.setdefault(record.subject.key, [])
            if not known or record.final > known[-1].final:
                known[:] = [record]
            elif record.final:
                known.append(record)
    return found


def joined(records: Sequence[Record]) -> dict[str, Measurement]:
    """One measurement of each plan of an operator, by key: of all that counts of it, with the
    largest error of all passes."""
    errors: dict[str, list[float | None]] = {}
    for record in records:
        if isinstance(record, Measurement):
            errors.setdefault(record.subject.key, []).append(record.error)
    return {
        key: replace(
            each[-1],
            error=_largest(errors[key]),
            seconds=tuple(chain.from_iterable(one.seconds for one in each)),
            reference=tuple(chain.from_iterable(one.reference for one in each)),
        )
        for key, each in passes(records).items()
    }


def _largest(errors: Sequence[float | None]) -> float | None:
    known = [error for error in errors if error is not None]
    return max(known) if len(known) == len(errors) else None


def plan_data(plan: Plan) -> dict[str, Any]:
    """A plan as plain data, without what the model predicted of it."""
    return replace(plan, prediction=None).as_dict()


@contextmanager
def appending(path: Path, head: Mapping[str, Any]) -> Iterator[tuple[list[Record], Log]]:
    """The records that `path` has, and what adds one to it; a new file begins with `head`.

    Raises UserError if the file cannot be written, or is not one that `head` continues.
    """
    check_output(path)
    if path.exists():
        found, records = read(path)
        check_continues(found, head, path)
        _drop_tail(path)
    else:
        records = []
        write_output(path, (json.dumps(dict(head)) + "\n").encode())
    # without a buffer: closing the file would write the rest of a line once more that failed
    with path.open("ab", buffering=0) as file:

        def log(record: Record) -> None:
            try:
                _add(file, (json.dumps(_as_dict(record)) + "\n").encode())
            except OSError as error:
                raise UserError(f"cannot write it: {error.strerror}", str(path)) from None

        yield records, log


def _add(file: FileIO, line: bytes) -> None:
    """Add a line, or nothing. Raises OSError."""
    end = os.fstat(file.fileno()).st_size
    try:
        while line:
            line = line[file.write(line) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):  # else the next run drops what was cut off
            file.truncate(end)
        raise


def read(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """The head and the records of a file. Raises UserError, located in it, if it is no such file.
    A last line that was cut off does not count."""
    try:
        data = path.read_bytes()
        if path.suffix == COMPRESSED:
            data = lzma.decompress(data)
        lines = data.decode().split("\n")
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", str(path)) from None
    except (lzma.LZMAError, UnicodeDecodeError):
        raise UserError("it is damaged, or no file of mopt-validate", str(path)) from None
    records: list[Record] = []
    head: dict[str, Any] = {}
    for number, line in enumerate(lines[:-1], 1):
        try:
            found = json.loads(line)
            if number == 1:
                head = _checked_head(found)
            else:
                records.append(_from_dict(found))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"not a file of mopt-validate: {error}"
            raise UserError(reason, f"{path}:{number}") from None
    if not head:
        raise UserError("not a file of mopt-validate: it is empty", str(path))
    return head, records


def compress(path: Path, directory: Path) -> None:
    """Keep a file in `directory`, under its name with `.xz`. The same lines give the same bytes."""
    if path.suffix == COMPRESSED:
        write_output(directory / path.name, path.read_bytes())
    else:
        data = lzma.compress(path.read_bytes(), preset=9)
        write_output(directory / (path.name + COMPRESSED), data)


def check_continues(found: Mapping[str, Any], head: Mapping[str, Any], path: Path) -> None:
    """Raise UserError if what `head` stands for must not be added to a file whose head is `found`:
    one file has one host, with the same figures of it, one version of code generation, and one way
    of measuring."""
    known = _agreed(found)
    for key, value in _agreed(head).items():
        if key in _LATER and key not in known:
            continue
        if (before := known.get(key)) != value:
            raise UserError(
                f"cannot resume: measured with {key} {before}, and this is {value}; move the file "
                "away, or write to another directory",
                str(path),
            )


def _agreed(head: Mapping[str, Any]) -> dict[str, Any]:
    """All that must agree."""
    return {**head["must_agree"], **{key: head[key] for key in _DURATIONS if key in head}}


def _checked_head(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or data.get("kind") not in (MEASUREMENTS, VOLUMES):
        raise ValueError("the first line is not its head")
    if data["format"] != FORMAT:
        raise ValueError("it was written by another version")
    return data


def _drop_tail(path: Path) -> None:
    """Remove a last line that was cut off."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        write_output(path, data[: data.rfind(b"\n") + 1])


def _as_dict(record: Record) -> dict[str, Any]:
    if isinstance(record, Start):
        return {"record": "start", **vars(record), "reference": plan_data(record.reference)}
    if isinstance(record, Choice):
        return {"record": "choice", **vars(record)}
    if isinstance(record, Latency):
        return {"record": "latency", **vars(record)}
    subject = record.subject
    data = {"operator": subject.operator, "role": subject.role, "plan": plan_data(subject.plan)}
    own = {name: value for name, value in vars(record).items() if name != "subject"}
    if isinstance(record, Measurement):
        own |= {name: _rounded(own[name]) for name in ("seconds", "reference")}
    return {"record": type(record).__name__.lower(), **data, **own}


def _rounded(rounds: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[float(f"{seconds:.{_DIGITS}g}") for seconds in one] for one in rounds]


def _from_dict(data: dict[str, Any]) -> Record:
    kind = data.pop("record")
    if kind == "start":
        return Start(**{**data, "reference": Plan.from_dict(data["reference"])})
    if kind == "choice":
        return Choice(data["operator"], tuple(data["keys"]))
    if kind == "latency":
        return Latency(**data)
    subject = Subject(data.pop("operator"), data.pop("role"), Plan.from_dict(data.pop("plan")))
    if kind == "measurement":
        rounds = {name: tuple(map(tuple, data[name])) for name in ("seconds", "reference")}
        return Measurement(subject, **(data | rounds))
    if kind == "failed":
        return Failed(subject, **data)
    if kind == "simulated":
        return Simulated(subject, **data)
    raise ValueError(f"'{kind}' is no kind of record")
