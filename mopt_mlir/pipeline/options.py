"""Options as fields of a frozen dataclass: of our passes, and of mopt-opt itself.

A field's default gives the type of its option; its name, with dashes for underscores, is what the
user types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from mopt_mlir.diagnostics import UserError
from mopt_mlir.wording import instead_of

Value = str | int | float | bool

_V = TypeVar("_V", str, int, float, bool)

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_CLOSING = {"'": "'", '"': '"', "{": "}"}
_NEED_BRACES = frozenset((*_CLOSING, ",", "(", ")", "}"))
"""Characters that end a value, or begin a quoted one."""

_KINDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class Option:
    """One option: `name` as the user types it, `field` as the dataclass has it.

    `bare` is the text that an option stands for when it is given without a value; None if it needs
    one.
    """

    name: str
    field: str
    default: Value
    help: str
    bare: str | None

    def parse(self, text: str | None) -> Value:
        """The value that `text` denotes; UserError if it is not of the default's type."""
        text = self.bare if text is None else text
        if text is None:
            raise UserError(f"option '{self.name}' needs a value")
        try:
            return _BOOLEANS[text.lower()] if self.is_flag else type(self.default)(text)
        except (ValueError, KeyError):
            kind = _KINDS[type(self.default)]
            hint = "; spaces go between options, not commas" if "," in text else ""
            raise UserError(f"{self.name}='{text}' is not {kind}{hint}") from None

    @property
    def default_text(self) -> str:
        """The default, as one would give it on a command line."""
        return _quoted(self.default)

    @property
    def is_flag(self) -> bool:
        return isinstance(self.default, bool)


def option(default: _V, help: str, *, name: str = "", bare: str | None = None) -> _V:
    """A dataclass field that is an option: its default and type, and its line in `--help`."""
    metadata = {"help": help, "name": name, "bare": bare}
    value: _V = field(default=default, metadata=metadata)
    return value


def options_of(cls: type) -> dict[str, Option]:
    """The options of a dataclass by name, in the order of its fields."""
    options = map(_option, fields(cls))
    return {option.name: option for option in options}


def given_options(instance: Any) -> str:
    """The options of `instance` that differ from their defaults: `machine=znver5 threads=2`."""
    return " ".join(
        f"{option.name}={_quoted(value)}"
        for option in options_of(type(instance)).values()
        if (value := getattr(instance, option.field)) != option.default
    )


def parse_options_text(options: dict[str, Option], text: str) -> dict[str, Value]:
    """Values by field, from options as MLIR writes them: `machine=znver5 threads=2`.

    A value with spaces goes between quotes or braces. Raises UserError for an unknown option, one
    given twice, or a value of the wrong kind.
    """
    values: dict[str, Value] = {}
    for word in _words(text):
        key, equals, value = word.partition("=")
        option = options.get(key.replace("_", "-"))
        if option is None:
            raise UserError(f"no option is called '{key}'{_way_out(key, options)}")
        if option.field in values:
            raise UserError(f"option '{option.name}' is given twice")
        values[option.field] = option.parse(_unquoted(value) if equals else None)
    return values


def matching_end(text: str, start: int) -> int | None:
    """The end (exclusive) of the quotes or braces that open at `start`; None if they stay open."""
    if text[start] != "{":
        return text.find(text[start], start + 1) + 1 or None
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return None


def _words(text: str) -> Iterator[str]:
    """The parts of `text` between spaces that are not inside quotes or braces."""
    start = at = 0
    while at < len(text):
        if text[at].isspace():
            if start < at:
                yield text[start:at]
            at += 1
            start = at
        elif text[at] in _CLOSING:
            end = matching_end(text, at)
            if end is None:
                raise UserError(f"no {_CLOSING[text[at]]} closes the {text[at]} in '{text}'")
            at = end
        else:
            at += 1
    if start < at:
        yield text[start:]


def _unquoted(value: str) -> str:
    if value[:1] in _CLOSING and matching_end(value, 0) == len(value):
        return value[1:-1].strip()
    return value


def _quoted(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    needs_braces = not text or any(c.isspace() or c in _NEED_BRACES for c in text)
    return f"{{{text}}}" if needs_braces else text


def _option(item: Field[Any]) -> Option:
    assert item.default is not MISSING, f"option '{item.name}' needs a default"
    name = item.metadata.get("name") or item.name.replace("_", "-")
    bare = item.metadata.get("bare")
    if isinstance(item.default, bool):
        bare = "true"
    return Option(name, item.name, item.default, item.metadata.get("help", ""), bare)


def _way_out(key: str, options: dict[str, Option]) -> str:
    return f"; {instead_of(key, options)}" if options else "; there are none"
