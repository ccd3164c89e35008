"""MLIR's `// expected-error@+1 {{…}}` comments: what a source expects, against what it got.

    expected-(error|warning|remark|note)[-re] [@(+N|-N|above|below|unknown)] [N] {{text}}

`text` is part of the message; after `-re`, its parts between further `{{…}}` are regular
expressions. Without `@` the diagnostic is expected on the comment's own line, `@below` on the next
line without such a comment, `@above` on the one before, `@unknown` anywhere that is not a line of
the source. A number is how often the diagnostic is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mopt_mlir.diagnostics import Diagnostic
from mopt_mlir.pipeline.source import Source

_EXPECTATION = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)?"
    r" *(?:@(?P<line>[+-]\d+|above|below|unknown))? *(?P<count>\d+)? *\{\{(?P<text>.*)\}\}\s*$"
)
_MISSPELT = re.compile(r"expected-(?:error|warning|remark|note)\b.*\{\{")


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that the comment at `location` expects `count` times on `line`, None for a
    diagnostic at no line of the source."""

    severity: str
    line: int | None
    pattern: re.Pattern[str]
    text: str
    count: int
    location: str

    def matches(self, diagnostic: Diagnostic, name: str) -> bool:
        return (
            diagnostic.severity == self.severity
            and _line(diagnostic, name) == self.line
            and self.pattern.search(diagnostic.message) is not None
        )


def expectations(source: Source) -> tuple[list[Expectation], list[Diagnostic]]:
    """What the comments of `source` expect, and an error for each that cannot be understood."""
    found: list[Expectation] = []
    errors: list[Diagnostic] = []
    lines = source.lines
    for index, line in enumerate(lines):
        match = _EXPECTATION.search(line)
        before = len(line[: match.start()].encode()) if match else 0  # columns count bytes
        location = f"{source.name}:{source.line + index}:{before + 1}"
        if not match:
            if _MISSPELT.search(line):
                errors.append(Diagnostic("error", location, "malformed expected-… comment"))
            continue
        try:
            text = match["text"]
            pattern = re.compile(_regex(text) if match["regex"] else re.escape(text))
        except re.error as error:
            message = f"invalid regular expression: {error}"
            errors.append(Diagnostic("error", location, message))
            continue
        target = _target(match["line"], index, lines)
        at = None if target is None else source.line + target
        count = int(match["count"] or 1)
        found.append(Expectation(match["severity"], at, pattern, match["text"], count, location))
    return found, errors


def verify(
    source: Source, diagnostics: Iterable[Diagnostic], *, only_expected: bool = False
) -> list[Diagnostic]:
    """The differences, as errors: each unexpected diagnostic, then each that did not come.

    With `only_expected`, diagnostics that nothing expects are accepted.
    """
    expected, errors = expectations(source)
    missing = [expectation.count for expectation in expected]
    for diagnostic in diagnostics:
        candidates = (
            index
            for index, expectation in enumerate(expected)
            if missing[index] and expectation.matches(diagnostic, source.name)
        )
        index = next(candidates, None)
        if index is not None:
            missing[index] -= 1
        elif not (only_expected or _is_automatic(diagnostic)):
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            errors.append(Diagnostic("error", diagnostic.location, message))
    for count, expectation in zip(missing, expected, strict=True):
        if count:
            times = f" ({count} of {expectation.count})" if expectation.count > 1 else ""
            message = (
                f'expected {expectation.severity} "{expectation.text}" was not produced{times}'
            )
            errors.append(Diagnostic("error", expectation.location, message))
    return errors


def _is_automatic(diagnostic: Diagnostic) -> bool:
    """A note that MLIR adds to errors about an operation; mlir-opt turns it off when it verifies,
    which the bindings cannot."""
    return diagnostic.severity == "note" and diagnostic.message.startswith("see current operation:")


def _line(diagnostic: Diagnostic, name: str) -> int | None:
    """The line of a diagnostic in the file `name`; None if it is at none."""
    file, _, position = diagnostic.location.rpartition(":")
    file, _, line = file.rpartition(":")
    return int(line) if file == name and line.isdecimal() and position.isdecimal() else None


def _target(designator: str | None, index: int, lines: list[str]) -> int | None:
    """The index of the line that a comment on line `index` speaks of."""
    if designator is None:
        return index
    if designator == "unknown":
        return None
    if designator in ("above", "below"):
        step = 1 if designator == "below" else -1
        index += step
        while 0 <= index < len(lines) and _EXPECTATION.search(lines[index]):
            index += step
        return index
    return index + int(designator)


def _regex(text: str) -> str:
    """`literal {{regular expression}} literal` as one regular expression."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(f"(?:{part})" if odd else re.escape(part) for odd, part in _alternating(parts))


def _alternating(parts: list[str]) -> Iterator[tuple[bool, str]]:
    return ((bool(index % 2), part) for index, part in enumerate(parts))
