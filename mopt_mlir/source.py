"""An MLIR module as a user gives it: text or bytecode, and the name it has in diagnostics."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import (
    Diagnostic,
    Failure,
    Sink,
    UserError,
    collected_from,
    current_sink,
    kind_of,
    sink,
)

SPLIT_MARKER = "// -----"
"""A line of its own between the chunks of a file, as in MLIR's tests."""

_BYTECODE_MAGIC = b"ML\xefR"
_UNNAMED = "-"  # what MLIR's parser calls a text; it has no parameter for the name


@dataclass(frozen=True)
class Source:
    """`data` is what stands in the file `name` from line `line` on."""

    name: str
    data: bytes
    line: int = 1

    @property
    def is_bytecode(self) -> bool:
        return self.data.startswith(_BYTECODE_MAGIC)

    @property
    def lines(self) -> list[str]:
        """Its text, empty for bytecode."""
        return [] if self.is_bytecode else self.data.decode(errors="replace").split("\n")

    def chunks(self, marker: str = SPLIT_MARKER) -> Iterator[Source]:
        """The parts between lines that are `marker`; each knows on which line it begins."""
        if self.is_bytecode:
            yield self
            return
        start, line = 0, self.line
        pattern = rb"^[ \t]*" + re.escape(marker.encode()) + rb"[ \t\r]*$\n?"
        for match in re.finditer(pattern, self.data, re.MULTILINE):
            yield replace(self, data=self.data[start : match.start()], line=line)
            line += self.data.count(b"\n", start, match.end())
            start = match.end()
        yield replace(self, data=self.data[start:], line=line)


def read(path: str | PathLike[str]) -> Source:
    """The source at `path`, standard input for "-". Raises UserError if it cannot be read."""
    name = fspath(path)
    if not name:
        raise UserError("the name of the input file is empty")
    try:
        if name == "-" and sys.stdin is None:
            raise UserError("standard input is closed", "<stdin>")
        if name == "-":
            return Source("<stdin>", sys.stdin.buffer.read())
        with open(name, "rb") as file:
            # MLIR's locations are UTF-8, which names of files need not be
            return Source(name.encode(errors="backslashreplace").decode(), file.read())
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", name) from None


def parse(source: Source, context: Any) -> Any:
    """The `builtin.module` of `source`, verified, its locations naming the source's own file.

    Diagnostics go to the sink; raises Failure after them if the source is not valid.
    """
    ir = bindings_of(context).ir
    data = source.data if source.is_bytecode else b"\n" * (source.line - 1) + source.data
    try:
        with sink(_naming(source.name)), collected_from(context):
            module = ir.Module.parse(data, context)
    except ir.MLIRError:
        raise Failure(f"{source.name} does not parse") from None
    if not source.is_bytecode:
        _name_locations(module, source.name)
    return module


def _naming(name: str) -> Sink:
    outer = current_sink()

    def forward(diagnostic: Diagnostic) -> None:
        # without a line where it is about all of the source, as of damaged bytecode
        if f"{diagnostic.location}:".startswith(f"{_UNNAMED}:"):
            location = name + diagnostic.location.removeprefix(_UNNAMED)
            diagnostic = replace(diagnostic, location=location)
        outer(diagnostic)

    return forward


def _name_locations(module: Any, name: str) -> None:
    """Set the name of the file in each location that the parser made."""
    ir = bindings_of(module).ir

    def named(location: Any) -> Any:
        if kind_of(location) != "file" or location.filename != _UNNAMED:
            return location
        at = location.start_line, location.start_col
        return ir.Location.file(name, *at, context=module.context)

    def visit(operation: Any) -> Any:
        operation.location = named(operation.location)
        for region in operation.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.set_location(named(argument.location))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
