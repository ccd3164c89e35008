"""The text of a pass pipeline, `builtin.module(canonicalize,mopt-tile{threads=2},func.func(cse))`.

MLIR parses pipelines itself, but knows nothing of passes that are defined in Python; here a text is
taken apart into its elements, each with the place where it stands, and nothing is interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mopt_mlir.diagnostics import UserError
from mopt_mlir.pipeline.options import matching_end

NAME = re.compile(r"[\w.-]+")
"""A pass or an op."""


@dataclass(frozen=True)
class Element:
    """`name`, `name{options}` or `anchor(elements)`; `text` is all of it, as it is written."""

    name: str
    text: str
    location: str
    options: str = ""
    nested: tuple[Element, ...] | None = None

    def walk(self) -> Iterator[Element]:
        """This element and all that are nested in it."""
        yield self
        for element in self.nested or ():
            yield from element.walk()


def read_pipeline(text: str, where: str) -> Element:
    """The one element `anchor(...)` that a pipeline is; `where` is what diagnostics call the text.

    Raises UserError if it is malformed.
    """
    reader = _Reader(text, where)
    pipeline = reader.element()
    reader.expect_end()
    if pipeline.nested is None:
        wrapped = f"builtin.module({text.strip()})"
        raise UserError(f"a pipeline names the op it runs on: {wrapped}", pipeline.location)
    return pipeline


def read_elements(text: str, where: str) -> tuple[Element, ...]:
    """The elements of a pipeline that is written without its anchor: `canonicalize,cse`."""
    reader = _Reader(text, where)
    elements = reader.elements()
    reader.expect_end()
    return elements


class _Reader:
    """A recursive-descent parser; each method reads on from where the one before stopped."""

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.at = 0

    def elements(self) -> tuple[Element, ...]:
        """Elements separated by commas, none at the end of the text or in front of `)`."""
        if self.peek() in ("", ")"):
            return ()
        found = [self.element()]
        while self.peek() == ",":
            self.at += 1
            found.append(self.element())
        return tuple(found)

    def element(self) -> Element:
        self.peek()
        start = self.at
        name = NAME.match(self.text, start)
        if not name:
            raise self.error("a pass or an op name is expected here")
        self.at = name.end()
        options, nested = "", None
        if self.peek() == "{":
            options = self.braced()
        elif self.peek() == "(":
            nested = self.parenthesised()
        text = self.text[start : self.at].strip()
        return Element(name[0], text, self.location(start), options, nested)

    def braced(self) -> str:
        start = self.at
        end = matching_end(self.text, start)
        if end is None:
            raise self.error("no } closes this {")
        self.at = end
        return self.text[start + 1 : end - 1]

    def parenthesised(self) -> tuple[Element, ...]:
        start = self.at
        self.at += 1
        found = self.elements()
        if self.peek() != ")":
            if self.at == len(self.text):
                self.at = start
                raise self.error("no ) closes this (")
            raise self.error("expected , or ) here")
        self.at += 1
        return found

    def expect_end(self) -> None:
        if self.peek():
            raise self.error("expected , or the end here; options stand in {} behind a pass's name")

    def peek(self) -> str:
        """The next character that is not a space, "" at the end."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def error(self, message: str) -> UserError:
        return UserError(message, self.location(self.at))

    def location(self, at: int) -> str:
        line = self.text.count("\n", 0, at) + 1
        return f"{self.where}:{line}:{at - self.text.rfind(chr(10), 0, at)}"
