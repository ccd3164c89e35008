"""Which memory buffers are in, and which operations access it, as far as a module tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from mopt_mlir.bindings import Bindings
from mopt_mlir.buffers import VIEWS
from mopt_mlir.func_ops import name_of
from mopt_mlir.operations import count_inputs, defining_op, enclosing_module, find, inside

_CONFINED = ("arith.", "linalg.", "math.", "memref.")
"""Dialects whose operations access the memory of their operands only."""

_ACCESS_NOTHING = VIEWS | {
    "affine.apply",
    "memref.alloc",
    "memref.alloca",
    "memref.dim",
    "memref.get_global",
    "tensor.empty",
}
"""Operations that access no elements of floats (the shape that `memref.reshape` reads has none)."""


_PARTS = frozenset({"memref.reinterpret_cast", "memref.subview", "memref.view"})
"""Views that may be of a part of a buffer."""

_PLACES = ("static_offsets", "static_sizes", "static_strides")
"""Attributes that say which part, beside the operands."""


@dataclass(frozen=True)
class _Origin:
    """A parameter or an allocation, which is a value, or the name of a variable or a constant."""

    kind: Literal["parameter", "allocation", "variable", "constant"]
    identity: Any


@dataclass(frozen=True)
class _Access:
    """Memory that an operation reads or may write; `origin` is None if it may be any."""

    origin: _Origin | None
    is_write: bool


class Memory:
    """What is known of the memory of a module, which must not be changed meanwhile: its blocks,
    operations and calls are looked at once."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self._blocks: dict[Any, list[Any]] = {}  # the operations of each
        self._numbers: dict[Any, int] = {}  # of these operations in their blocks
        self._accesses: dict[Any, tuple[_Access, ...]] = {}  # by operation
        self._origins: dict[Any, _Origin | None] = {}  # by buffer
        self._uses: dict[Any, dict[str, list[Any]]] = {}  # of functions, by module and name

    def before(self, operation: Any) -> Iterator[Any]:
        """The operations in front of `operation` in its block, the nearest first."""
        block = operation.block
        if block not in self._blocks:
            self._blocks[block] = [other.operation for other in block.operations]
            self._numbers |= {other: number for number, other in enumerate(self._blocks[block])}
        for number in reversed(range(self._numbers[operation])):
            yield self._blocks[block][number]

    def may_share(self, one: Any, other: Any) -> bool:
        """Whether two buffers, one of which is written to, may have elements in common. The
        parameters of a function lie apart, and from the module's variables: whoever calls it sees
        to that, unless it is the module itself.
        """
        return self._may_be_one(self._origin(one), self._origin(other))

    def may_coincide(self, one: Any, other: Any) -> bool:
        """Whether two buffers, one of which is written to, may have elements in common, as
        `may_share`, where different parts of one are taken to lie apart."""
        (_, parts), (_, others) = _way_to(one), _way_to(other)
        # of two ways the longer one may begin, or end, with parts that are all of a buffer
        alike = all(map(_are_alike, parts, others)) or all(
            map(_are_alike, reversed(parts), reversed(others))
        )
        return alike and self.may_share(one, other)

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether two buffers are one, or the same part of one, as far as their function tells."""
        (root, parts), (other_root, others) = _way_to(one), _way_to(other)
        if root != other_root or len(parts) != len(others):
            return False
        return all(map(_are_alike, parts, others))

    def may_access(self, operation: Any, buffer: Any, *, by_writing: bool = False) -> bool:
        """Whether an operation, or one inside of it, may read or write elements of `buffer`, or may
        write them."""
        if operation not in self._accesses:
            self._accesses[operation] = tuple(self._accesses_of(operation))
        origin = self._origin(buffer)
        return any(
            self._may_be_one(access.origin, origin)
            for access in self._accesses[operation]
            if access.is_write or not by_writing
        )

    def _accesses_of(self, operation: Any) -> Iterator[_Access]:
        for inner in inside(operation):
            if inner.name in _ACCESS_NOTHING:
                continue
            if not inner.name.startswith(_CONFINED):
                yield _Access(None, True)
                continue
            inputs = count_inputs(inner)
            for number, value in enumerate(inner.operands):
                if self._is_memory(value):
                    yield _Access(self._origin(value), number >= inputs)

    def _is_memory(self, value: Any) -> bool:
        """Whether a value is a buffer, or a tensor, which may become a part of one."""
        ir = self.bindings.ir
        buffers = ir.MemRefType | ir.UnrankedMemRefType
        return isinstance(value.type, buffers | ir.RankedTensorType | ir.UnrankedTensorType)

    def _may_be_one(
        self,
        one: _Origin | None,
        other: _Origin | None,
        seen: frozenset[tuple[_Origin, _Origin]] = frozenset(),
    ) -> bool:
        """Whether two origins may be the same memory; `seen` are those that callers ask it for."""
        if one is None or other is None or one == other:
            return True
        parameters = [origin.identity for origin in (one, other) if origin.kind == "parameter"]
        if not parameters or (one, other) in seen:
            return False
        seen |= {(one, other)}
        return any(
            use.name != "func.call"
            or self._may_be_one(self._given(one, use), self._given(other, use), seen)
            for use in self._uses_of(parameters[0].owner.owner)
        )

    def _given(self, origin: _Origin, call: Any) -> _Origin | None:
        """What `origin`, which may be a parameter of the function called, is to the caller."""
        if origin.kind != "parameter":
            return origin
        return self._origin(call.operands[origin.identity.arg_number])

    def _origin(self, buffer: Any) -> _Origin | None:
        """What `buffer` is a part of; None if that is not known."""
        if buffer not in self._origins:
            self._origins[buffer] = self._origin_of(buffer)
        return self._origins[buffer]

    def _origin_of(self, buffer: Any) -> _Origin | None:
        while (owner := defining_op(buffer)) is not None:
            if owner.name in ("memref.alloc", "memref.alloca"):
                return _Origin("allocation", buffer)
            if owner.name == "memref.get_global":
                return self._global(owner)
            if owner.name not in VIEWS:
                return None
            buffer = owner.operands[0]
        block = buffer.owner
        function = block.owner.operation
        is_parameter = function.name == "func.func" and block == function.regions[0].blocks[0]
        return _Origin("parameter", buffer) if is_parameter else None

    def _global(self, access: Any) -> _Origin:
        name = access.attributes["name"]
        symbols = self.bindings.ir.SymbolTable(enclosing_module(access))
        is_known = name.value in symbols
        is_constant = is_known and "constant" in symbols[name.value].operation.attributes
        return _Origin("constant" if is_constant else "variable", name)

    def _uses_of(self, function: Any) -> list[Any]:
        """The calls of `function` in its module, and pointers to it."""
        module = enclosing_module(function)
        if module not in self._uses:
            names = {"func.call": "callee", "func.constant": "value"}
            uses = self._uses[module] = defaultdict(list)
            for use in find(module, *names):
                uses[use.attributes[names[use.name]].value].append(use)
        return self._uses[module].get(name_of(function), [])


def _way_to(buffer: Any) -> tuple[Any, list[Any]]:
    """What `buffer` is a part of, or another form, and the operations that take parts on the way
    from there, each of the part before."""
    parts = []
    while (view := defining_op(buffer)) is not None and view.name in VIEWS:
        if view.name in _PARTS:
            parts.append(view)
        buffer = view.operands[0]
    return buffer, parts[::-1]


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two operations take the same part, of whatever they take it of."""

    def described(view: Any) -> list[Any]:
        known = (view.attributes[name] for name in _PLACES if name in view.attributes)
        return [view.name, view.result.type, *known, *list(view.operands)[1:]]

    return described(one) == described(other)
