"""Results of convolutions, on tensors, that others read after somebody may have written to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

WRITABLE = "writable"
"""The attribute of `bufferization.to_tensor` by which results may be written to in place."""


def keep_what_is_read_later(results: Iterable[Any]) -> None:
    """Let nobody write in place to those of the `results`, of `bufferization.to_tensor`, that a
    convolution reads behind another use.

    A pass that folds, as `canonicalize` does, has the convolution read the buffer itself, and then
    bufferisation does not know that the tensor is read there. Where it does know, writing in place
    in front of that read is not possible either, so that little is lost.
    """
    order = _Order()
    for result in results:
        users = [use.owner.operation for use in result.uses]
        reads = [order.place(user, result) for user in users if _reads_buffer(user)]
        others = [order.place(user, result) for user in users if not _reads_buffer(user)]
        if reads and others and max(reads) >= min(others):
            del result.owner.operation.attributes[WRITABLE]


def _reads_buffer(user: Any) -> bool:
    return user.name == "bufferization.to_buffer" and "read_only" in user.attributes


class _Order:
    """Where operations stand in their blocks, of which each is looked at once."""

    def __init__(self) -> None:
        self._places: dict[Any, dict[Any, int]] = {}

    def place(self, user: Any, value: Any) -> int:
        """That of what is around `user` in the block of `value`, or of `user` itself: behind all of
        them if it is in another block of the same region, which is run later."""
        block = value.owner.operation.block
        if block not in self._places:
            operations = (operation.operation for operation in block.operations)
            self._places[block] = {operation: place for place, operation in enumerate(operations)}
        places = self._places[block]
        while user not in places:
            if user.block.region == block.region:
                return len(places)
            user = user.parent.operation
        return places[user]
