"""Phrases that messages and reports share."""

from __future__ import annotations

from collections.abc import Iterable
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
