"""Phrases and columns that messages and reports share."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from difflib import get_close_matches


def guess(name: str, known: Iterable[str]) -> str:
    """`did you mean 'cores'?`, or nothing if no known name is close."""
    near = get_close_matches(name, list(known), 1)
    return f"did you mean '{near[0]}'?" if near else ""


def instead_of(name: str, known: Iterable[str]) -> str:
    """What may have been meant by `name`, or else all that there is: the end of a message."""
    names = list(known)
    return guess(name, names) or f"known: {', '.join(names) or 'none'}"


def counted(number: int, noun: str) -> str:
    """`1 core`, `2 cores`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def columns(rows: Sequence[Sequence[str]], figures: Container[int]) -> list[str]:
    """Lines of columns as wide as their cells; those of `figures` are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in figures else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
