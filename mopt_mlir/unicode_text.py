"""Text in attributes and locations, which MLIR does not ask to be UTF-8; the bindings do."""

from __future__ import annotations

import re
from typing import Any

_ESCAPED = re.compile(rb"\\(\\|[0-9A-F]{2})")


def is_unicode(attribute: Any) -> bool:
    """Whether all text in `attribute` is UTF-8. Asked for other text, the bindings raise a
    RuntimeError or end the process."""
    try:
        unescaped(str(attribute)).decode()
    except (UnicodeDecodeError, RuntimeError):  # the latter if MLIR does not escape it
        return False
    return True


def printable(text: str) -> str:
    """`text`, with bytes of a file's name that are not UTF-8 written as `\\xe9`: MLIR, and files,
    take no others."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def unescaped(printed: str) -> bytes:
    """What MLIR has printed, with the bytes that it has escaped."""
    return _ESCAPED.sub(_byte, printed.encode())


def _byte(escaped: re.Match[bytes]) -> bytes:
    return b"\\" if escaped[1] == b"\\" else bytes.fromhex(escaped[1].decode())
