"""A report as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from mopt_mlir.explain.explanation import Explanation
from mopt_mlir.explain.report import Report, Section, report
from mopt_mlir.wording import columns

WIDTH = 100
"""Columns of sentences; tables and listings are as wide as they have to be."""

_INDENT = "  "


def to_text(explanations: tuple[Explanation, ...]) -> str:
    """The reports, one below the other."""
    return "\n\n".join("\n".join(_lines(report(e))) for e in explanations)


def _lines(told: Report) -> Iterator[str]:
    yield told.title
    yield "=" * len(told.title)
    for sentence in told.summary:
        yield from wrap(sentence, WIDTH, subsequent_indent=_INDENT)
    for section in told.sections:
        yield ""
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield section.title
    yield "-" * len(section.title)
    for sentence in section.sentences:
        yield from wrap(sentence, WIDTH)
    if section.sentences:
        yield ""
    yield from (_INDENT + line for line in section.listing)
    if section.table is not None:
        header, text = section.table.header, section.table.text
        figures = set(range(len(header))) - set(text)
        yield from (_INDENT + line for line in columns((header, *section.table.rows), figures))
