"""Memory, as code generation, lowering and what calls the code agree on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""

ADDRESSABLE_BYTES = 1 << 63
"""Where the strides of a larger type overflow, MLIR ends the process."""

SCRATCH = "mopt.scratch"
"""An attribute that marks memory for packed weights and partial sums, which lowering keeps from
call to call."""

CHECKED = "mopt.checked"
"""An attribute that marks an access to an aligned address that runs only where it is aligned."""

WRITABLE = "bufferization.writable"
"""MLIR's attribute of a tensor parameter that says whether the function may write to it."""

MANUAL = "bufferization.manual_deallocation"
"""MLIR's attribute of what is allocated and freed by hand, which its own deallocation leaves as it
is."""

OWNED = "mopt.owned"
"""An attribute that marks what frees a buffer only where the function itself has allocated it, as
automatic deallocation does, behind conditions."""


VIEWS = frozenset(
    {
        "memref.assume_alignment",
        "memref.cast",
        "memref.collapse_shape",
        "memref.expand_shape",
        "memref.memory_space_cast",
        "memref.reinterpret_cast",
        "memref.reshape",
        "memref.subview",
        "memref.transpose",
        "memref.view",
    }
)
"""Operations whose one result is in the memory of their first operand."""


def aligned_bytes(size: int, alignment: int = ALIGNMENT) -> NDArray[np.uint8]:
    """`size` bytes of memory that begin at a multiple of `alignment`."""
    import numpy as np

    memory = np.empty(size + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size]
