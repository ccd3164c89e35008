"""What a benchmark leaves behind: a JSON file of records, written whole after each operator."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.output import write_output

from .protocol import Configuration, Protocol
from .summary import Summary

KIND = "mopt-bench run"
FORMAT = 1

_MUST_AGREE = ("commit", "generator", "cpu", "planned for", "model", "machine figures")
"""Of what was measured, so that one file never mixes two of them; and all arguments."""


@dataclass(frozen=True)
class Record:
    """One operator by one peer."""

    operator: str
    protocol: str
    cold: bool
    threads: int
    peer: str
    version: str
    gflops_median: float
    gflops_mean: float
    ci95: float | None
    """Half the width of the mean's 95% confidence interval, in GFLOP/s (see `summary`)."""
    max_rel_err: float | None
    """Relative to the largest value of the float64 reference, None if there were NaNs."""
    share_of_peak: float
    """Relative to `peak_gflops`."""
    share_of_roofline: float
    """Relative to the roofline time max(flops / peak, bytes / DRAM bandwidth)."""
    is_correct: bool
    """Whether rounding can explain `max_rel_err`."""
    isa: str
    flops: int
    bytes: int
    peak_gflops: float
    """The FMA peak measured between the runs."""
    prepare_seconds: float
    detail: str
    seconds: list[list[float]]
    """Those of every run, in rounds that took turns with the other peers."""


@dataclass(frozen=True)
class Failure:
    """An operator that a peer could not do, and why."""

    operator: str
    peer: str
    reason: str


@dataclass
class Results:
    """A file of results. `head` is what holds for all: arguments, machine, versions, commit, date,
    bandwidths in GB/s, and the peers that were left out. `done` are the operators measured."""

    head: dict[str, Any]
    done: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def configuration(self) -> Configuration:
        arguments = self.head["arguments"]
        return Configuration(
            Protocol(arguments["protocol"]),
            arguments["cold"],
            arguments["threads"],
            arguments["isa"],
        )

    def write(self, path: Path) -> None:
        """Replace the file at one stroke. Raises UserError if that is not possible."""
        data = {
            "kind": KIND,
            "format": FORMAT,
            **self.head,
            "done": self.done,
            "failures": [asdict(failure) for failure in self.failures],
            "records": [_finite(asdict(record)) for record in self.records],
        }
        write_output(path, _layout(data).encode())

    @staticmethod
    def read(path: Path) -> Results:
        """Raises UserError if there is no such file, or it is of another kind."""
        data = read_json(path, KIND)
        try:
            records = [_record(record) for record in data.pop("records")]
            failures = [Failure(**failure) for failure in data.pop("failures")]
            return Results(data, data.pop("done"), records, failures)
        except (KeyError, TypeError) as error:
            raise UserError(f"not a complete file of results: {error}", str(path)) from None


def _record(data: dict[str, Any]) -> Record:
    """From a line of a file, of which older ones took all runs for independent."""
    summary = Summary.of(data["seconds"], data["flops"])
    return Record(**{**data, "ci95": summary.ci95})


def check_continues(before: Mapping[str, Any], head: Mapping[str, Any], path: Path) -> None:
    """Raise UserError if a run with `head` must not be added to the file at `path`, whose head is
    `before`."""
    arguments, wanted = before["arguments"], head["arguments"]
    differing = [key for key in wanted if arguments.get(key) != wanted[key]]
    if differing:
        key = differing[0]
        raise UserError(
            f"cannot resume: measured with {key}={arguments.get(key)!r}, not {wanted[key]!r}; "
            "give the same arguments, or another file",
            str(path),
        )
    for key in _MUST_AGREE:
        if _identity(before, key) != _identity(head, key):
            raise UserError(
                f"cannot resume: measured with {key} {_identity(before, key)}, and this is "
                f"{_identity(head, key)}; remove it, or write to another file",
                str(path),
            )


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """The object in a file of mopt-bench. Raises UserError if it is not one of `kind`."""
    data = _parsed(path)
    if not isinstance(data, dict) or data.get("kind") != kind:
        raise UserError(f"not a file of '{kind}'", str(path))
    if data.pop("format", None) != FORMAT:
        raise UserError("written by another version of mopt-bench; measure again", str(path))
    del data["kind"]
    return data


def kind_of(path: Path) -> str:
    """The kind of a file of mopt-bench. Raises UserError if it is none."""
    data = _parsed(path)
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str):
        raise UserError("not a file of mopt-bench", str(path))
    return kind


def _parsed(path: Path) -> Any:
    """What a file of JSON has, which may be compressed (`.xz`)."""
    try:
        data = path.read_bytes()
        return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", str(path)) from None
    except (lzma.LZMAError, ValueError, RecursionError):
        raise UserError("not a JSON file", str(path)) from None


def _identity(head: Mapping[str, Any], key: str) -> Any:
    if key == "planned for":  # hosts of one name may have CPUs of several kinds
        return head["machine"].get("planned_for", {}).get("cpu")
    return head["machine"]["cpu"] if key == "cpu" else head.get(key)


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    floats = (name for name, value in data.items() if isinstance(value, float))
    return {**data, **{name: None for name in floats if not isfinite(data[name])}}


def _layout(data: dict[str, Any]) -> str:
    """JSON with a line for each record, to be read and compared."""
    lists = {key: data[key] for key in ("failures", "records")}
    head = json.dumps({k: v for k, v in data.items() if k not in lists}, indent=1)
    parts = [head[:-2]]
    for key, items in lists.items():
        lines = ",\n  ".join(json.dumps(item) for item in items)
        parts.append(f' "{key}": [\n  {lines}\n ]' if items else f' "{key}": []')
    return ",\n".join(parts) + "\n}\n"
