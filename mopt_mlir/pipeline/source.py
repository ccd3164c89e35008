"""An MLIR module as a user gives it: text or bytecode, and the name it has in diagnostics."""

from __future__ import annotations

import os
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
    describe,
    emit,
    file_of,
    kind_of,
    sink,
)
from mopt_mlir.operations import find, inside
from mopt_mlir.output import temporary_file
from mopt_mlir.unicode_text import is_unicode

SPLIT_MARKER = "// -----"
"""A line of its own between the chunks of a file, as in MLIR's tests."""

_BYTECODE_MAGIC = b"ML\xefR"
_MAPPED_BYTES = (1 << 16) + 64
"""LLVM maps files of four pages and more, unless they end with a page."""
_SYMBOLS = ("func.func", "llvm.func", "llvm.mlir.global", "memref.global")
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
        pattern = rb"^[ \t]*" + re.escape(os.fsencode(marker)) + rb"[ \t\r]*$\n?"
        for match in re.finditer(pattern, self.data, re.MULTILINE):
            yield replace(self, data=self.data[start : match.start()], line=line)
            line += self.data.count(b"\n", start, match.end())
            start = match.end()
        yield replace(self, data=self.data[start:], line=line)


def read(path: str | PathLike[str]) -> Source:
    """The source at `path`, standard input for "-". Raises UserError if it cannot be read."""
    name = fspath(path)
    if not name or "\0" in name:
        raise UserError(
            "the name of the input file " + ("has a null in it" if name else "is empty")
        )
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
    if source.is_bytecode:
        module = _parse_bytecode(source, context)
    else:
        module = _parse_text(source, context)
    _check_symbols(module, source)
    return module


def _parse_text(source: Source, context: Any) -> Any:
    ir = bindings_of(context).ir
    try:
        with sink(_naming(source.name, _UNNAMED)), collected_from(context):
            module = ir.Module.parse(b"\n" * (source.line - 1) + source.data, context)
    except ir.MLIRError:
        raise Failure(f"{source.name} does not parse") from None
    _name_locations(module, source.name)
    return module


def _parse_bytecode(source: Source, context: Any) -> Any:
    """From a file that is mapped into memory. Elsewhere bytecode begins anywhere, and MLIR refuses
    it, if it has large constants, where it does not begin at a multiple of their alignment."""
    ir = bindings_of(context).ir
    with temporary_file("bytecode", _large(source.data)) as path:
        try:
            with sink(_naming(source.name, str(path))), collected_from(context):
                return ir.Module.parseFile(str(path), context)
        except ir.MLIRError:
            raise Failure(f"{source.name} does not parse") from None


def _check_symbols(module: Any, source: Source) -> None:
    """Raise Failure, after an error at each, for functions and variables whose names cannot be
    read, or are none to linkers."""
    wrong = False
    for operation in find(module.operation, *_SYMBOLS):
        name = operation.attributes["sym_name"]
        if not is_unicode(name):
            problem = "is not UTF-8"
        elif not name.value or "\0" in name.value:
            problem = "has a null in it" if name.value else "is empty"
        else:
            continue
        location = describe(operation.location) or source.name
        emit("error", location, f"the name {name} {problem}; give it another one")
        wrong = True
    if wrong:
        raise Failure(f"{source.name} has names that cannot be used")


def _large(bytecode: bytes) -> bytes:
    """Bytecode so large that MLIR maps it, what follows the name of its producer moved by whole
    lines: that name is longer. (The header is the magic number, a version, and the name, which ends
    with a zero; the version takes as many bytes as its first one has zeros at the end, and one.)
    """
    start = len(_BYTECODE_MAGIC)
    version = bytecode[start : start + 1] or b"\1"
    end = bytecode.find(b"\0", start + (version[0] & -version[0]).bit_length())
    return bytecode[:end] + b" " * _MAPPED_BYTES + bytecode[end:]


def _naming(name: str, unnamed: str) -> Sink:
    """What calls the source by its name, not by the one that the parser knows."""
    outer = current_sink()

    def forward(diagnostic: Diagnostic) -> None:
        # without a line where it is about all of the source, as of damaged bytecode
        if f"{diagnostic.location}:".startswith(f"{unnamed}:"):
            location = name + diagnostic.location.removeprefix(unnamed)
            message = diagnostic.message.rstrip()  # a name of a producer is longer than it was
            diagnostic = replace(diagnostic, location=location, message=message)
        outer(diagnostic)

    return forward


def _name_locations(module: Any, name: str) -> None:
    """Set the name of the file in each location that the parser made."""
    ir = bindings_of(module).ir

    def named(location: Any) -> Any:
        if kind_of(location) != "file" or file_of(location) != _UNNAMED:
            return location
        at = location.start_line, location.start_col
        return ir.Location.file(name, *at, context=module.context)

    for operation in inside(module.operation):
        operation.location = named(operation.location)
        for region in operation.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.set_location(named(argument.location))
