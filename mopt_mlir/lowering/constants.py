"""Large constants, kept out of LLVM's text: printing and parsing weights would take minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import bindings_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes; a cache line and the largest vector register."""

_SMALL = 4096  # bytes; below that, text is quick

Constants = Mapping[str, "NDArray[np.uint8]"]
"""The bytes of constants by symbol, each at a multiple of ALIGNMENT."""


def take_constants(module: Any) -> Constants:
    """Turn the large constants of a module of the LLVM dialect into external symbols.

    Returns their bytes; whoever links the code has to provide the symbols.
    """
    ir = bindings_of(module).ir
    taken = {}
    with module.context:
        for op in module.regions[0].blocks[0].operations:
            if op.operation.name != "llvm.mlir.global" or "value" not in op.attributes:
                continue
            data = _bytes_of(op.operation, op.attributes["value"])
            if data is not None and data.nbytes >= _SMALL:
                taken[op.attributes["sym_name"].value] = _aligned(data)
                del op.attributes["value"]
                op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
    return taken


def _bytes_of(op: Any, value: Any) -> NDArray[np.uint8] | None:
    import numpy as np

    from mopt_mlir.constants import resource_bytes

    ir = bindings_of(op).ir
    if isinstance(value, ir.DenseFPElementsAttr | ir.DenseIntElementsAttr):
        if str(ir.ShapedType(value.type).element_type) in ("i1", "bf16"):
            return None  # packed bits, and what numpy has no type for
        return np.ascontiguousarray(np.array(value)).reshape(-1).view(np.uint8)
    data = resource_bytes(op, bindings_of(op)) if _is_resource(value) else None
    return None if data is None else np.frombuffer(data, np.uint8)


def _is_resource(value: Any) -> bool:
    return str(value).startswith("dense_resource")


def _aligned(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    import numpy as np

    buffer = np.empty(data.nbytes + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    copy = buffer[start : start + data.nbytes]
    copy[:] = data
    return copy
