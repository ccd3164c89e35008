"""Keep the loads of a microkernel next to the multiply-adds that use them.

LLVM would load several steps' operands together, or keep those that two steps share, and spill sums
to have registers for that. Nothing is loaded across a piece of assembly that may change all memory,
except for what cannot change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.values import hidden_register
from mopt_mlir.operations import find

_ASSEMBLY = "llvm.inline_asm"


def keep_in_order(products: Sequence[Any]) -> None:
    """Pass what is summed up with a scalar through an empty piece of assembly, across which LLVM
    loads nothing. It would keep the scalars that two steps share in registers, or load one before
    the last one is done with, and spill sums for that."""
    last, sums = products[-1], [product.results[0] for product in products]
    with last.context, bindings_of(last).ir.InsertionPoint.after(last), last.location:
        passed, assembly = _passed(bindings_of(last).ir, sums)
    for value, replacement in zip(sums, passed, strict=True):
        value.replace_all_uses_except(replacement, assembly)


def hide_constants(module: Any) -> None:
    """Let the loads of `keep_in_order` come, in the LLVM dialect, from addresses of which LLVM does
    not know that they are those of constants.

    It knows that nothing changes these, so that it loads the weights of the next step with those of
    this one, four vectors at a time: one or two more than there are registers for beside twelve
    sums. (Constant weights, AVX2 code on a Zen 3: 23 layers took 2 to 19% longer like that.)
    """
    ir = bindings_of(module).ir
    constants = {
        symbol.attributes["sym_name"].value
        for symbol in find(module, "llvm.mlir.global")
        if "constant" in symbol.attributes
    }
    is_in_order = _InOrder()
    for function in find(module, "llvm.func"):
        hidden: dict[str, Any] = {}
        for address in find(function, "llvm.mlir.addressof"):
            name = address.attributes["global_name"].value
            if name in constants and any(map(is_in_order, _loads(address.result))):
                if name not in hidden:
                    hidden[name] = _hidden(ir, function, address)
                address.result.replace_all_uses_with(hidden[name])
                address.erase()


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
    assembly = ir.Operation.create(_ASSEMBLY, [together], values, attributes)
    passed = []
    for i, value in enumerate(values):
        position = {"position": ir.DenseI64ArrayAttr.get([i])}
        part = ir.Operation.create("llvm.extractvalue", [value.type], assembly.results, position)
        passed.append(part.result)
    return passed, assembly


def _loads(pointer: Any) -> Iterator[Any]:
    """The loads from a pointer, and from those that begin with it."""
    for use in pointer.uses:
        user = use.owner.operation
        if user.name == "llvm.load":
            yield user
        elif user.name == "llvm.getelementptr":
            yield from _loads(user.result)


class _InOrder:
    """Whether the assembly of `keep_in_order` is in the block of a load: it is empty, but for what
    it promises to change. Each block is looked through once."""

    def __init__(self) -> None:
        self._known: dict[Any, bool] = {}

    def __call__(self, load: Any) -> bool:
        if load.block not in self._known:
            self._known[load.block] = any(map(_is_barrier, load.block.operations))
        return self._known[load.block]


def _is_barrier(operation: Any) -> bool:
    return (
        operation.name == _ASSEMBLY
        and "has_side_effects" in operation.attributes
        and not operation.attributes["asm_string"].value
    )


def _hidden(ir: Any, function: Any, address: Any) -> Any:
    """An address, hidden at the beginning of `function`: LLVM moves assembly out of no loop."""
    first = function.regions[0].blocks[0]
    with function.context, ir.InsertionPoint.at_block_begin(first), address.location:
        return hidden_register(ir, address.clone().result)
