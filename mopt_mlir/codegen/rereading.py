"""Results of convolutions, on tensors, that others read after somebody may have written to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from mopt_mlir.operations import handed_on

WRITABLE_RESULT = "writable"
"""The attribute of `bufferization.to_tensor` by which results may be written to in place."""

_LINALG = "linalg."
_RESHAPING = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def keep_what_is_read_later(results: Iterable[Any]) -> None:
    """Let nobody write in place to those of the `results`, of `bufferization.to_tensor`, that a
    convolution reads behind another use.

    A pass that folds, as `canonicalize` does, has the convolution read the buffer itself, and then
    bufferisation does not know that the tensor is read there. Where it does know, writing in place
    in front of that read is not possible either, so that little is lost.
    """
    order = _Order()
    for result in results:
        reads: list[int] = []
        others: list[int] = []
        for user in _users(result):
            (reads if _reads_buffer(user) else others).append(order.place(user, result))
        if reads and others and max(reads) >= min(others):
            del result.owner.operation.attributes[WRITABLE_RESULT]


def _users(result: Any) -> Iterator[Any]:
    """The operations that use a tensor, or what folding may make the tensor itself."""
    values, seen = [result], {result}
    while values:
        value = values.pop()
        for use in value.uses:
            user = use.owner.operation
            forms = _forms(user, use.operand_number)
            if not forms:
                yield user
                forms = _perhaps(user, value)
            values += [form for form in forms if form not in seen]
            seen |= {*forms}


def _forms(user: Any, number: int) -> list[Any]:
    """The results, and what they are in a loop, that are operand `number` of `user`, which does not
    read it: another shape of it, or what branches and loops hand on."""
    if user.name in _RESHAPING or (user.name.startswith(_LINALG) and _only_yields(user, number)):
        return list(user.results)
    return handed_on(user, number)


def _perhaps(user: Any, value: Any) -> list[Any]:
    """The results of `user` that folding may make its operand `value`, as that of a product by one:
    any of as many elements, except where linalg computes. Nobody knows all that folds, and a result
    that is taken for one of these in vain is not written to in place, which is no more than slow.
    """
    if user.name.startswith(_LINALG):
        return []
    size = _size(value)
    return [result for result in user.results if None in (size, of := _size(result)) or of == size]


def _size(value: Any) -> int | None:
    """The number of elements; None where that is not known, and 0 of what is no tensor."""
    type_ = value.type
    if not hasattr(type_, "shape"):
        return 0
    return prod(type_.shape) if type_.has_static_shape else None


def _only_yields(linalg: Any, number: int) -> bool:
    """Whether all that an operation does is to hand on its operand `number`."""
    if not len(linalg.regions) or not len(linalg.regions[0].blocks):
        return False
    block = linalg.regions[0].blocks[0]
    (*before, last) = block.operations
    return not before and [*last.operands] == [block.arguments[number]]


def _reads_buffer(user: Any) -> bool:
    return user.name == "bufferization.to_buffer" and "read_only" in user.attributes


class _Order:
    """Where operations stand in their blocks, of which each is looked at once."""

    def __init__(self) -> None:
        self._places: dict[Any, dict[Any, int]] = {}

    def place(self, user: Any, value: Any) -> int:
        """That of what is around `user` in the block of `value`, or of `user` itself: behind all of
        them if it is in another block of the same region, or outside of it, which is run later."""
        block = value.owner.operation.block
        if block not in self._places:
            operations = (operation.operation for operation in block.operations)
            self._places[block] = {operation: place for place, operation in enumerate(operations)}
        places = self._places[block]
        while user not in places:
            around = user.parent
            if around is None or user.block.region == block.region:
                return len(places)
            user = around.operation
        return places[user]
