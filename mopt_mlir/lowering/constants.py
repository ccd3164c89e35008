"""Large constants, and what variables begin with, kept out of LLVM's text: printing and parsing
weights would take minutes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from mopt_mlir.bindings import bindings_of
from mopt_mlir.buffers import ALIGNMENT, aligned_bytes
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.operations import directly_in, find

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALL = 4096  # bytes; below that, text is quick

_CONVERTIBLE = ("i8", "i16", "i32", "i64", "index", "f16", "f32", "f64")
"""Elements whose bytes numpy knows."""

_ZEROS = ("0", "0.000000e+00")
"""As MLIR prints them."""


class Constant(NamedTuple):
    """The bytes of a constant, at a multiple of `alignment`; those of a variable, which code may
    write to, are writable."""

    data: NDArray[np.uint8]
    alignment: int


Constants = Mapping[str, Constant]
"""By symbol."""


def take_constants(module: Any) -> Constants:
    """Turn the large constants and variables of a module of the LLVM dialect, and those that lie in
    resources, into external symbols.

    Returns their bytes; whoever links the code has to provide the symbols. Raises UserError for a
    constant whose bytes the module lacks: MLIR would end the process when it translates that.
    """
    ir = bindings_of(module).ir
    taken = {}
    with module.context:
        for op in find(module, "llvm.mlir.constant"):
            if _is_resource(_value(op), ir):
                _resource(op)
        for op in directly_in(module):  # those of modules inside have no code
            if op.name != "llvm.mlir.global" or "value" not in op.attributes:
                continue
            is_resource = _is_resource(_value(op), ir)
            data = _resource(op) if is_resource else _elements(op, ir)
            if data is not None and (is_resource or data.nbytes >= _SMALL):
                own = _aligned(data, _alignment(op))
                own.data.flags.writeable = "constant" not in op.attributes
                taken[op.attributes["sym_name"].value] = own
                del op.attributes["value"]
                op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
    return taken


def _value(op: Any) -> Any:
    """The attribute `value`; None if the bindings have no class for it: complex numbers."""
    try:
        return op.attributes["value"]
    except TypeError:
        return None


def _is_resource(value: Any, ir: Any) -> bool:
    """By its text, as the bindings have no class for it. Those that they have may be long texts."""
    known = ir.DenseElementsAttr | ir.IntegerAttr | ir.FloatAttr
    return not isinstance(value, known) and str(value).startswith("dense_resource")


def _elements(op: Any, ir: Any) -> NDArray[np.uint8] | None:
    import numpy as np

    value = _value(op)
    if not isinstance(value, ir.DenseFPElementsAttr | ir.DenseIntElementsAttr):
        return None
    if str(ir.ShapedType(value.type).element_type) not in _CONVERTIBLE:
        return None  # packed bits, and what numpy has no type for
    if value.is_splat and str(value.get_splat_value()).partition(" ")[0] in _ZEROS:
        return None  # of which LLVM needs no text
    return np.ascontiguousarray(np.array(value)).reshape(-1).view(np.uint8)


def _resource(op: Any) -> NDArray[np.uint8]:
    import numpy as np

    from mopt_mlir.linalg.resources import resource_bytes

    bindings = bindings_of(op)
    value = op.attributes["value"]
    data = resource_bytes(value, bindings)
    type_ = bindings.ir.ShapedType(value.type)
    size = prod(type_.shape) * _size(type_.element_type, bindings.ir)
    if data is None:
        raise UserError(
            f"the module lacks the contents of {value}, {size} bytes: print it without "
            "--mlir-elide-elementsattrs-if-larger and --mlir-elide-resource-strings-if-larger",
            describe(op.location),
        )
    if len(data) != size:
        message = f"the contents of {value} are {len(data)} bytes instead of {size}"
        raise UserError(message, describe(op.location))
    return np.frombuffer(data, np.uint8)


def _size(element: Any, ir: Any) -> int:
    """Bytes of an element in a resource."""
    if isinstance(element, ir.ComplexType):
        return 2 * _size(element.element_type, ir)
    return 8 if isinstance(element, ir.IndexType) else -(-element.width // 8)


def _alignment(op: Any) -> int:
    """What code may rely on of a global's address, in bytes."""
    said = op.attributes["alignment"].value if "alignment" in op.attributes else 1
    return max(ALIGNMENT, said)


def _aligned(data: NDArray[np.uint8], alignment: int) -> Constant:
    copy = aligned_bytes(data.nbytes, alignment)
    copy[:] = data
    return Constant(copy, alignment)
