"""Transposing a square of vector registers with a log2 network of shuffles.

x86 shuffles are cheap inside 128-bit blocks (unpack) and between whole blocks (shuff32x4 and
perm2f128), so the network transposes inside the blocks first and then the blocks themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mopt_mlir.codegen.builder import Builder

BLOCK_BYTES = 16  # the unit inside which x86 unpack instructions work


def transpose(builder: Builder, rows: Sequence[Any], element_size: int) -> list[Any]:
    """The columns of `rows`: V vectors of V lanes each (V a power of two)."""
    lanes = len(rows)
    block = min(BLOCK_BYTES // element_size, lanes)
    mixed: list[Any] = []
    for first in range(0, lanes, block):
        mixed += _inside_blocks(builder, rows[first : first + block], lanes, block)
    columns: list[Any] = [None] * lanes
    for i in range(block):
        columns[i::block] = _between_blocks(builder, mixed[i::block], lanes, block)
    return columns


def _inside_blocks(builder: Builder, rows: Sequence[Any], lanes: int, block: int) -> list[Any]:
    """Row i of the result holds, in every block, that block's column i of all `rows`."""
    rows, grain = list(rows), 1
    while grain < block:
        low, high = _unpack(lanes, block, grain, 0), _unpack(lanes, block, grain, block // 2)
        result: list[Any] = [None] * block
        stride = grain
        for i in range(block):
            if i & stride:
                continue
            # Chunks of `grain` elements that belong to the same column sit in rows that are
            # `stride` apart; the low halves keep the row's place, the high halves the other's.
            result[i] = builder.shuffle(rows[i], rows[i + stride], low)
            result[i + stride] = builder.shuffle(rows[i], rows[i + stride], high)
        rows, grain = result, grain * 2
    return _bit_reversed(rows)


def _unpack(lanes: int, block: int, grain: int, half: int) -> list[int]:
    """Lane numbers that interleave chunks of `grain` elements of one half of every block."""
    picked = []
    for start in range(half, lanes, block):
        for chunk in range(start, start + block // 2, grain):
            picked += [*range(chunk, chunk + grain), *range(lanes + chunk, lanes + chunk + grain)]
    return picked


def _bit_reversed(rows: list[Any]) -> list[Any]:
    bits = (len(rows) - 1).bit_length()
    order = [int(format(i, f"0{bits}b")[::-1], 2) if bits else 0 for i in range(len(rows))]
    return [rows[i] for i in order]


def _between_blocks(builder: Builder, rows: Sequence[Any], lanes: int, block: int) -> list[Any]:
    """Transposes a square of blocks: even blocks of both rows into one, odd blocks into another."""
    if len(rows) == 1:
        return list(rows)
    starts = list(range(0, 2 * lanes, block))
    even = [lane for start in starts[0::2] for lane in range(start, start + block)]
    odd = [lane for start in starts[1::2] for lane in range(start, start + block)]
    pairs = list(zip(rows[0::2], rows[1::2], strict=True))
    columns: list[Any] = [None] * len(rows)
    columns[0::2] = _between_blocks(
        builder, [builder.shuffle(a, b, even) for a, b in pairs], lanes, block
    )
    columns[1::2] = _between_blocks(
        builder, [builder.shuffle(a, b, odd) for a, b in pairs], lanes, block
    )
    return columns
