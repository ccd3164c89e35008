"""Which memory buffers are in, and which operations access it, as far as a module tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from mopt_mlir.bindings import Bindings, enclosing_module
from mopt_mlir.buffers import VIEWS
from mopt_mlir.func_ops import name_of
from mopt_mlir.operations import count_inputs, find, inside

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
        self._called: dict[Any, frozenset[str]] = {}  # by module

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

    def _may_be_one(self, one: _Origin | None, other: _Origin | None) -> bool:
        if one is None or other is None or one == other:
            return True
        parameters = [origin.identity for origin in (one, other) if origin.kind == "parameter"]
        if not parameters or not {one.kind, other.kind} <= {"parameter", "variable"}:
            return False
        return self._is_called(parameters[0].owner.owner)

    def _origin(self, buffer: Any) -> _Origin | None:
        """What `buffer` is a part of; None if that is not known."""
        while not isinstance(buffer.owner, self.bindings.ir.Block):
            owner = buffer.owner.operation
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

    def _is_called(self, function: Any) -> bool:
        """Whether anything in its module calls `function`, or may."""
        module = enclosing_module(function)
        if module not in self._called:
            uses = {"func.call": "callee", "func.constant": "value"}
            found = find(module, *uses)
            self._called[module] = frozenset(use.attributes[uses[use.name]].value for use in found)
        return name_of(function) in self._called[module]
