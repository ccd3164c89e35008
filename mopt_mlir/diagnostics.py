"""Located messages to the user: errors, warnings, remarks and notes in MLIR's format.

The bindings can emit errors only, so ours go through one channel: by default a line
`file:line:col: severity: text` on stderr; a driver that verifies or collects diagnostics installs
its own sink with `sink(...)`. `collected_from(context)` brings MLIR's own diagnostics into that
channel, `errors_into(context)` takes our errors to whoever listens to MLIR's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.unicode_text import unescaped


class UserError(Exception):
    """What a user did wrong, with a way out: tools print it and exit with 1. `location` is that of
    a `Diagnostic`."""

    def __init__(self, message: str, location: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}" if self.location else self.message


class Failure(Exception):  # noqa: N818 (what it says has been emitted as an error already)
    """Something was given up *after* an error diagnostic that says why."""


NOT_TILED = "not tiled"
"""The topic of remarks on operations that `mopt-tile` and `mopt-analyze` leave as they are."""


@dataclass(frozen=True)
class Diagnostic:
    """A message to the user; as a text, it is a line as MLIR's tools print it.

    `severity` is "error", "warning", "remark" or "note". `location` is "file:line:col", "file" for
    all of it, or "" if unknown. `topic` is what it is about, such as NOT_TILED, for sinks that
    treat that differently.
    """

    severity: str
    location: str
    message: str
    topic: str = ""

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity}: {self.message}"


Sink = Callable[[Diagnostic], None]


def to_stderr(message: object) -> None:
    """Print `message` where somebody reads it; what nobody can be told must not end the run."""
    if sys.stderr is not None:  # print would take stdout instead
        with suppress(OSError):
            print(message, file=sys.stderr, flush=True)


_sink: ContextVar[Sink] = ContextVar("diagnostic_sink", default=to_stderr)


@contextmanager
def sink(handler: Sink) -> Iterator[None]:
    """Send diagnostics to `handler` inside the `with` block: those of the thread that enters it, as
    each thread (more exactly, each `contextvars.Context`) has a sink of its own."""
    token = _sink.set(handler)
    try:
        yield
    finally:
        _sink.reset(token)


def current_sink() -> Sink:
    """Where diagnostics go now, for a sink that passes them on."""
    return _sink.get()


@contextmanager
def without(topic: str) -> Iterator[None]:
    """Drop the diagnostics on `topic` inside the `with` block."""
    outer = current_sink()
    with sink(lambda diagnostic: None if diagnostic.topic == topic else outer(diagnostic)):
        yield


def emit(severity: str, location: Any, message: str, topic: str = "") -> None:
    """Emit a diagnostic at an MLIR location (of any bindings), or at one as `Diagnostic` has it.

    Errors that `errors_into` takes to MLIR lose their `topic`.
    """
    text = location if isinstance(location, str) else describe(location)
    _sink.get()(Diagnostic(severity, text, message, topic))


@contextmanager
def collected_from(context: Any) -> Iterator[None]:
    """Send what MLIR itself reports on `context` to the sink of now, inside the `with` block.

    Errors come to the sink instead of into the MLIRError that the bindings raise.
    """
    target = current_sink()

    def handle(diagnostic: Any) -> bool:
        severity = diagnostic.severity.name.lower()
        try:
            message = diagnostic.message
        except RuntimeError:
            message = "MLIR quotes text that is not UTF-8"
        target(Diagnostic(severity, describe(diagnostic.location), message))
        for note in diagnostic.notes:
            handle(note)
        return True

    errors_before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    handler = context.attach_diagnostic_handler(handle)
    try:
        yield
    finally:
        handler.detach()
        context.emit_error_diagnostics = errors_before


@contextmanager
def errors_into(context: Any) -> Iterator[None]:
    """Emit our errors through MLIR, as its own passes do: the caller's handlers on `context` see
    them, and an MLIRError that follows carries them. The rest still goes to the sink."""
    outer = current_sink()

    def forward(diagnostic: Diagnostic) -> None:
        if diagnostic.severity == "error":
            location = _to_location(diagnostic.location, context)
            location.emit_error(diagnostic.message)
        else:
            outer(diagnostic)

    with sink(forward):
        yield


def describe(location: Any) -> str:
    """An MLIR location as `Diagnostic` has it; of the first part that has one if it is compound."""
    kind = kind_of(location)
    if kind == "file":
        position = f":{location.start_line}:{location.start_col}" if location.start_line else ""
        return f"{file_of(location)}{position}"  # lines count from 1; a module is at line 0
    if kind == "name":
        return describe(location.child_loc)
    if kind == "callsite":
        return describe(location.callee)
    if kind == "fused":
        return next((text for text in map(describe, location.locations) if text), "")
    return ""


_FILE = re.compile(r'loc\("([^"]*)"')


def file_of(location: Any) -> str:
    """The file of a location of that kind, as MLIR prints it where its name is not UTF-8: asked for
    that, the bindings end the process."""
    printed = _FILE.match(str(location))
    if printed is not None and "\\" in printed[1]:
        try:
            return unescaped(printed[1]).decode()
        except UnicodeDecodeError:
            return printed[1]
    return str(location.filename)


def kind_of(location: Any) -> str:
    """ "file", "name", "callsite", "fused", or "" for a location of another kind.

    The bindings of LLVM 22 have one class and predicates, later ones a class for each kind.
    """
    for kind, cls in _KINDS.items():
        predicate = getattr(location, f"is_a_{kind}", None)
        if predicate() if predicate else type(location).__name__ == cls:
            return kind
    return ""


_KINDS = {
    "file": "FileLineColLoc",
    "name": "NameLoc",
    "callsite": "CallSiteLoc",
    "fused": "FusedLoc",
}


def _to_location(text: str, context: Any) -> Any:
    ir = bindings_of(context).ir
    name, _, column = text.rpartition(":")
    name, _, line = name.rpartition(":")
    if line.isdecimal() and column.isdecimal():
        return ir.Location.file(name, int(line), int(column), context=context)
    if text:
        return ir.Location.file(text, 0, 0, context=context)
    return ir.Location.unknown(context=context)
