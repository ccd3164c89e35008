"""Shapes of the values in a function, as far as they follow from what it is called with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.func_ops import functions_of, name_of
from mopt_mlir.lowering.arithmetic import computed, is_arithmetic
from mopt_mlir.lowering.shape_rules import ALIKE, SHAPES
from mopt_mlir.lowering.sizes import (
    Extent,
    Scalar,
    Shape,
    Size,
    Unknown,
    operands_first,
)
from mopt_mlir.operations import LOOP_BOUNDS, defining_op, inside

_DIMS = ("tensor.dim", "memref.dim")
_LOOP_VARIABLES = 1  # arguments of the body of a loop in front of what it carries

_DEEPEST = 16
"""Calls inside of calls that are looked through: a function may call itself without end."""

_MOST = 4096
"""Calls that one call from outside is looked through: calls by several calls multiply."""

_FRAMES = count()


class CallFrame:
    """One call of a function: the shapes of its values, and its integers.

    `given` has the shape, or the value, of each argument in a call of the frame `caller`;
    unless they are there the function is called from outside, and sizes are in terms of the
    arguments of that call.
    """

    def __init__(
        self,
        function: Any,
        given: Sequence[Shape | Size] | None = None,
        caller: CallFrame | None = None,
    ) -> None:
        self.function = function
        self._root: CallFrame = self if caller is None else caller._root
        if caller is None:
            self.depth = 0
            self._others: dict[Any, CallFrame] = {}
            self._functions = {name_of(f): f for f in functions_of(function.parent)}
        else:
            self.depth = caller.depth + 1
            self._others, self._functions = caller._others, caller._functions
        self._ir = bindings_of(function).ir
        self._dynamic = self._ir.ShapedType.get_dynamic_size()
        self._number = next(_FRAMES)
        self._shapes: dict[Any, Shape] = {}
        self._numbers: dict[Any, Size] = {}
        self._calls: dict[Any, CallFrame | None] = {}
        for position, argument in enumerate(function.regions[0].blocks[0].arguments):
            if self.has_shape(argument):
                dynamic = [Extent(position, axis) for axis in range(argument.type.rank)]
                known = dynamic if given is None else given[position]
                assert isinstance(known, Sequence)
                self._shapes[argument] = self._completed(argument, known)
            else:
                value = Scalar(position) if given is None else given[position]
                assert not isinstance(value, tuple)
                self._numbers[argument] = value

    def has_shape(self, value: Any) -> bool:
        """Whether `value` is a ranked tensor or memref."""
        return isinstance(value.type, self._ir.RankedTensorType | self._ir.MemRefType)

    def is_dynamic(self, value: Any) -> bool:
        """Whether its type leaves a size open."""
        return self.has_shape(value) and not value.type.has_static_shape

    def shape(self, value: Any) -> Shape:
        """The shape of a ranked tensor or memref."""
        chain = []  # of values that have the shape of the next one: too many to recurse, perhaps
        while value not in self._shapes and (source := self._alike(value)) is not None:
            chain.append(value)
            value = source
        if value not in self._shapes:
            known = self._shape_of(value) if self.is_dynamic(value) else None
            self._shapes[value] = self._completed(value, known)
        for other in reversed(chain):
            self._shapes[other] = self._completed(other, self._shapes[value])
            value = other
        return self._shapes[value]

    def number(self, value: Any) -> Size:
        """The value of an integer."""
        for part in operands_first(value, self._numbers_in, self._numbers):
            self._numbers[part] = self._number_of(part)
        return self._numbers[value]

    def callee(self, call: Any) -> CallFrame | None:
        """The frame that a `func.call` makes; None if there is no such function in the module,
        too deep a recursion, or too much of it.

        Calls with the same arguments share one, unless they give back something of a size that may
        be another one each time.
        """
        if call not in self._calls:
            self._calls[call] = self._activate(call)
        return self._calls[call]

    def is_lost(self, call: Any) -> bool:
        """Whether nobody knows what a `func.call` demands, as there were too many calls, or calls
        inside of calls, to look through all of them."""
        name = call.attributes["callee"].value
        if name not in self._functions or self.callee(call) is not None:
            return False
        return self._root.leaves_sizes_open(name)

    def leaves_sizes_open(self, name: str) -> bool:
        """Whether a function, or one that it calls, has values whose types leave sizes open."""
        names, seen = [name], {name}
        while names:
            for operation in inside(self._functions[names.pop()]):
                if any(map(self.is_dynamic, (*operation.operands, *operation.results))):
                    return True
                if operation.name == "func.call":
                    callee = operation.attributes["callee"].value
                    if callee in self._functions and callee not in seen:
                        names.append(callee)
                        seen.add(callee)
        return False

    def sizes(self, operation: Any, name: str, dynamic: Iterator[Any]) -> Shape:
        """A list of sizes: those that are constant in attribute `static_<name>`, the others from
        the operands `dynamic`."""
        static = operation.attributes[f"static_{name}"]
        return tuple(self.number(next(dynamic)) if n == self._dynamic else n for n in static)

    def slice(self, operation: Any, source: int) -> tuple[Shape, Shape, Shape]:
        """Offsets, sizes and strides of a slice whose operands begin with `source` others."""
        dynamic = iter(list(operation.operands)[source:])
        offsets, sizes, strides = (
            self.sizes(operation, name, dynamic) for name in ("offsets", "sizes", "strides")
        )
        return offsets, sizes, strides

    def _activate(self, call: Any) -> CallFrame | None:
        name = call.attributes["callee"].value
        if name not in self._functions or self.depth == _DEEPEST:
            return None
        given = [self.shape(v) if self.has_shape(v) else self.number(v) for v in call.operands]
        is_shared = not any(map(self.is_dynamic, call.results))
        key = (name, *given) if is_shared else (self._number, call)
        if key not in self._others:
            if len(self._others) == _MOST:
                return None
            self._others[key] = CallFrame(self._functions[name], given, self)
        return self._others[key]

    def _completed(self, value: Any, known: Sequence[Size] | None) -> Shape:
        return tuple(
            n
            if n != self._dynamic
            else Unknown((self._number, value, axis))
            if known is None
            else known[axis]
            for axis, n in enumerate(value.type.shape)
        )

    def _unknown(self, value: Any) -> Size:
        return Unknown((self._number, value))

    def _numbers_in(self, value: Any) -> Sequence[Any]:
        """The integers that `_number_of` asks for."""
        operation = defining_op(value)
        if operation is None:
            return ()
        if operation.name in _DIMS:
            return (operation.operands[1],)
        return list(operation.operands) if is_arithmetic(operation) else ()

    def _number_of(self, value: Any) -> Size:
        operation = defining_op(value)
        if operation is None:
            return self._unknown(value)
        numbers = [self.number(integer) for integer in self._numbers_in(value)]
        if operation.name in _DIMS:
            (axis,), source = numbers, operation.operands[0]
            shape = self.shape(source) if self.has_shape(source) else ()
            if isinstance(axis, int) and 0 <= axis < len(shape):
                return shape[axis]
            return self._unknown(value)
        found = computed(operation, numbers) if is_arithmetic(operation) else None
        return self._unknown(value) if found is None else found

    def _alike(self, value: Any) -> Any:
        """The operand that has the shape of `value`, if that is open; None if there is none."""
        operation = defining_op(value)
        if operation is None or not self.is_dynamic(value):
            return None
        operands = list(operation.operands)
        if operation.name in ALIKE:
            found = operands[ALIKE[operation.name]]
        elif operation.name.startswith("linalg."):
            found = operands[len(operands) - len(operation.results) + self._position(value)]
        elif operation.name.startswith(("arith.", "math.")):
            if operation.name == "arith.select" and not self.has_shape(operands[0]):
                return None  # the choices may have two sizes
            return next(filter(self.has_shape, operands), None)
        else:
            return None
        return found if self.has_shape(found) else None

    def _shape_of(self, value: Any) -> Shape | None:
        """The shape of a value whose type leaves it open; None if it is not known."""
        operation = defining_op(value)
        if operation is None:
            return self._shape_of_iterated(value)
        if operation.name in SHAPES:
            return SHAPES[operation.name](self, operation)
        if operation.name == "func.call":
            return self._shape_of_call(operation, self._position(value))
        if operation.name in ("scf.for", "scf.if"):
            return self._shape_of_region(operation, self._position(value))
        if operation.name == "scf.forall":
            return self._shape_of_shared(operation, self._position(value) - len(operation.results))
        return None

    def _position(self, result: Any) -> int:
        return int(self._ir.OpResult(result).result_number)

    def _shape_of_iterated(self, value: Any) -> Shape | None:
        """That of a value which a loop hands on from one iteration to the next, if all have it."""
        loop = value.owner.owner.operation
        number = int(self._ir.BlockArgument(value).arg_number)
        if loop.name == "scf.forall":
            return self._shape_of_shared(loop, number - len(value.owner.arguments))
        position = number - _LOOP_VARIABLES
        if loop.name != "scf.for" or position < 0:
            return None
        initial = self.shape(loop.operands[LOOP_BOUNDS + position])
        known = dict(self._shapes), dict(self._numbers), dict(self._calls)
        others = dict(self._others)
        self._shapes[value] = initial
        yielded = self.shape(_last(loop.regions[0]).operands[position])
        if yielded == initial:
            return initial
        # without what was derived from a wrong assumption
        self._shapes, self._numbers, self._calls = known
        self._others.clear()
        self._others.update(others)
        return None

    def _shape_of_shared(self, loop: Any, position: int) -> Shape | None:
        """Of an output of an `scf.forall`, counted from behind."""
        return self.shape(loop.operands[len(loop.operands) + position])

    def _shape_of_region(self, operation: Any, position: int) -> Shape | None:
        if operation.name == "scf.for":
            block = operation.regions[0].blocks[0]
            return self.shape(block.arguments[_LOOP_VARIABLES + position])
        first, second = (self.shape(_last(r).operands[position]) for r in operation.regions)
        return first if first == second else None

    def _shape_of_call(self, call: Any, position: int) -> Shape | None:
        frame = self.callee(call)
        if frame is None or len(frame.function.regions[0].blocks) > 1:
            return None
        return frame.shape(_last(frame.function.regions[0]).operands[position])


def _last(region: Any) -> Any:
    operations = list(region.blocks[0].operations)
    return operations[-1].operation
