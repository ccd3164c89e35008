"""The bytes of `dense_resource` attributes, which the bindings cannot read.

MLIR's bytecode has them as they lie in memory. (Its text has them, too, in hexadecimal: weights of
100 MB take two seconds to print and to read like that, here a fifth of one.) The format is
described in MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from mopt_mlir.bindings import Bindings

_HEADER = 4
"""Bytes: the magic number, which the version and the producer follow."""

_RESOURCES = 5
"""The section that has the contents of resources."""

_IS_ALIGNED = 0x80
"""The bit beside a section's number that says that it begins at a multiple of something."""


def resource_bytes(attribute: Any, bindings: Bindings) -> memoryview | None:
    """The bytes of a `dense_resource`; None if the module lacks them."""
    ir = bindings.ir
    with attribute.context:
        module = ir.Module.create(ir.Location.unknown())
    module.operation.attributes["mopt.contents"] = attribute
    written = BytesIO()
    module.operation.write_bytecode(written)
    section = _section(written.getbuffer(), _RESOURCES)
    if not section:
        return None
    _, start = _number(section, 0)  # the alignment
    size, start = _number(section, start)
    padded = section[start:]  # to the alignment; nothing comes after the only resource
    return padded[len(padded) - size :]


def _section(bytecode: memoryview, wanted: int) -> memoryview:
    """The contents of a section; of one that is not there, none."""
    _, position = _number(bytecode, _HEADER)
    while bytecode[position]:  # the producer's name ends with a 0
        position += 1
    position += 1
    while position < len(bytecode):
        kind = bytecode[position]
        length, position = _number(bytecode, position + 1)
        if kind & _IS_ALIGNED:
            alignment, position = _number(bytecode, position)
            position += -position % alignment
        if kind & ~_IS_ALIGNED == wanted:
            return bytecode[position : position + length]
        position += length
    return bytecode[:0]


def _number(data: memoryview, position: int) -> tuple[int, int]:
    """A number and where it ends. As many zeros as its first byte ends with, so many bytes follow;
    the lowest 1 is not a part of it."""
    first = data[position]
    more = (first & -first).bit_length() - 1 if first else 8
    end = position + 1 + more
    return int.from_bytes(data[position:end], "little") >> min(more + 1, 8), end
