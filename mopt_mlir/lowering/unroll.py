"""Unrolling the reduction loops of microkernels, as far as stepping and jumping weighs.

Each trip of a loop takes a few instructions besides. With the 12 multiply-adds of a register tile
in 16 registers, and the 8 loads that these need, they are a fifth of all. A core that starts four
instructions at a time has no slots for that, and neither has one that shares its front end with
another thread.

LLVM unrolls the loops that are marked here, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.fallback import ANNOTATION, NOT_VECTORISED
from mopt_mlir.lowering.operations import find, trips

WIDE = 24
"""Multiply-adds of a body beside which stepping and jumping hardly weighs: it is left as it is."""

ENOUGH = 48
"""Multiply-adds that a body has at least when its loop has been unrolled in part."""

MOST = 128
"""Multiply-adds of a body whose loops have vanished: code is to stay in the instruction cache."""

LEAST_VECTORS = 2
"""Multiply-adds of a scalar. If there is one, LLVM sums up in the register of the scalar, so that
sums wander from step to step, and are spilled to be back in time for the next trip. (A body like
that waits for its loads more than for anything else.)"""

REGISTER_BITS = (128, 256)
"""Of the vectors that are passed through assembly: any CPU that code is generated for has registers
for them. (With 512 bits register tiles are large, and reductions are left as they are.)"""

_PRODUCT = "vector.outerproduct"
_VANISHES = "full = true"


def unroll_reductions(module: Any) -> None:
    """Mark the innermost loops over outer products, and those around them that are innermost then,
    for LLVM to unroll."""
    vanished: list[tuple[Any, int]] = []  # and the multiply-adds that they leave behind
    for loop in find(module, "scf.for"):  # inner loops come first
        body = [operation.operation for operation in loop.regions[0].blocks[0].operations]
        inner = [operation for operation in body if operation.name == loop.name]
        by_scalar = _by_scalar(body)
        if not loop.results:  # no reduction, which carries sums
            continue
        if inner:
            products = sum(left for one, left in vanished if [one] == inner)
        else:
            products = sum(map(len, by_scalar))
        how = _unrolling(products, trips(loop), has_inner=bool(inner))
        if how is None or not all(map(_can_be_kept_in_order, by_scalar)):
            continue
        for same in by_scalar:
            _keep_in_order(same)
        loop.attributes[ANNOTATION] = _annotation(loop, how)
        if how == _VANISHES:
            vanished.append((loop, products * (trips(loop) or 0)))


def is_unrolled(loop: Any) -> bool:
    """Whether a loop is marked to vanish."""
    if ANNOTATION not in loop.attributes:
        return False
    return bool(loop.attributes[ANNOTATION] == _annotation(loop, _VANISHES))


def _by_scalar(body: Sequence[Any]) -> list[list[Any]]:
    """The outer products of a body, those with the same scalar together."""
    products = (operation for operation in body if operation.name == _PRODUCT)
    return [list(same) for _, same in groupby(products, key=lambda product: product.operands[1])]


def _unrolling(products: int, number: int | None, has_inner: bool) -> str | None:
    """How a loop of `number` trips is unrolled whose body has so many multiply-adds. Where it
    stays, no trips are left over: LLVM would spill the sums around a loop that does the rest."""
    if not products or number is None or (products >= WIDE and not has_inner):
        return None
    if products * number <= MOST:
        return _VANISHES
    counts = range(-(-ENOUGH // products), MOST // products + 1)
    count = next((n for n in counts if number % n == 0), None)
    return None if count is None or has_inner else f"count = {count}"


def _can_be_kept_in_order(products: Sequence[Any]) -> bool:
    """Whether the sums of so many multiply-adds of a scalar, or of a vector, may be passed."""
    ir = bindings_of(products[0]).ir
    type_ = products[0].results[0].type
    if len(products) < LEAST_VECTORS or type_.rank != 1 or type_.scalable:
        return False
    is_float = isinstance(type_.element_type, ir.F32Type | ir.F64Type)
    return is_float and type_.shape[0] * type_.element_type.width in REGISTER_BITS


def _keep_in_order(products: Sequence[Any]) -> None:
    """Pass what is summed up with a scalar through an empty piece of assembly, across which LLVM
    loads nothing. It would keep the scalars that two steps share in registers, or load one before
    the last one is done with, and spill sums for that."""
    last, sums = products[-1], [product.results[0] for product in products]
    with last.context, bindings_of(last).ir.InsertionPoint.after(last), last.location:
        passed, assembly = _passed(bindings_of(last).ir, sums)
    for value, replacement in zip(sums, passed, strict=True):
        value.replace_all_uses_except(replacement, assembly)


def _passed(ir: Any, values: Sequence[Any]) -> tuple[list[Any], Any]:
    """`values` as a piece of assembly gives them back, and that."""
    constraints = [*("=v" for _ in values), *map(str, range(len(values))), "~{memory}"]
    attributes = {
        "asm_string": ir.StringAttr.get(""),
        "constraints": ir.StringAttr.get(",".join(constraints)),
        "has_side_effects": ir.UnitAttr.get(),
    }
    types = ", ".join(str(value.type) for value in values)
    together = ir.Type.parse(f"!llvm.struct<({types})>")
    assembly = ir.Operation.create("llvm.inline_asm", [together], values, attributes)
    passed = []
    for i, value in enumerate(values):
        position = {"position": ir.DenseI64ArrayAttr.get([i])}
        part = ir.Operation.create("llvm.extractvalue", [value.type], assembly.results, position)
        passed.append(part.result)
    return passed, assembly


def _annotation(loop: Any, unrolling: str) -> Any:
    text = f"#llvm.loop_annotation<{NOT_VECTORISED}, unroll = <{unrolling}>>"
    return bindings_of(loop).ir.Attribute.parse(text, loop.context)
