"""What is known of values before they run: constants, operands, how often loops do."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.operations import LOOP_BOUNDS, defining_op
from mopt_mlir.plain_attributes import MOST_BITS


def trips(loop: Any) -> int | None:
    """How often an `scf.for` or `affine.for` with constant bounds runs; None if they are not
    constant, or not signed, or steps are of 0, as they may be where it never runs."""
    if "unsignedCmp" in loop.attributes:
        return None
    if loop.name == "affine.for":
        lower, upper = (_single(loop.attributes[f"{end}BoundMap"]) for end in ("lower", "upper"))
        step: int | None = loop.attributes["step"].value
    else:
        lower, upper, step = map(constant, list(loop.operands)[:LOOP_BOUNDS])
    if lower is None or upper is None or not step:
        return None
    return max(0, -((lower - upper) // step))


def _single(attribute: Any) -> int | None:
    """The value of an affine map that has one, a constant."""
    bound, *others = attribute.value.results
    is_constant = isinstance(bound, bindings_of(attribute).ir.AffineConstantExpr)
    return int(bound.value) if is_constant and not others else None


def constant(value: Any) -> int | None:
    """The value of an `arith.constant`, if it is one, of at most MOST_BITS."""
    operation = defining_op(value)
    if operation is None or operation.name != "arith.constant" or is_wide(value.type):
        return None
    return int(operation.attributes["value"].value)


def is_wide(type_: Any) -> bool:
    """Whether an integer type, or `index`, has more than MOST_BITS."""
    return getattr(type_, "width", 0) > MOST_BITS


def operands_of(value: Any, name: str) -> list[Any] | None:
    """The operands of the operation that `value` is a result of, if that is called `name`."""
    operation = defining_op(value)
    return None if operation is None or operation.name != name else list(operation.operands)


def hidden(bindings: Bindings, value: Any) -> Any:
    """An index as an empty piece of assembly gives it back, so that LLVM knows nothing of it."""
    ir, arith = bindings.ir, bindings.arith
    word = arith.index_cast(ir.IntegerType.get_signless(64), value)
    return arith.index_cast(ir.IndexType.get(), hidden_register(ir, word))


def hidden_register(ir: Any, value: Any) -> Any:
    """The same of what a general register of LLVM holds: a word or a pointer."""
    attributes = {
        "asm_string": ir.StringAttr.get(""),
        "constraints": ir.StringAttr.get("=r,0"),
    }
    return ir.Operation.create("llvm.inline_asm", [value.type], [value], attributes).result
