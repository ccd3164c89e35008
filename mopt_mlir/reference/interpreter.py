"""Runs functions of linalg operations on buffers or tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.operations import directly_in
from mopt_mlir.reference.numbers import Array, NotInReferenceError, Numbers
from mopt_mlir.reference.scalars import evaluate_scalar, unsupported
from mopt_mlir.reference.shapes import SHAPE_OPERATIONS, padded
from mopt_mlir.reference.structured import Structured

_RESOURCE = re.compile(r'"0x([0-9A-Fa-f]+)"')
_RESOURCE_HEADER = 4  # bytes of alignment in front of a resource's elements


@dataclass(frozen=True)
class Outcome:
    """`arguments` are the function's arguments as it leaves them, `results` what it returns."""

    arguments: list[Numbers]
    results: list[Numbers]


def evaluate(module: Any, name: str, arguments: Sequence[Any]) -> Outcome:
    """Run the function `name` of a module on copies of `arguments`, everything real in float64.

    The limits of what comes out are those of a correct program that computes in the types of the
    module, in whatever order it sums. Raises UserError if there is no such function, and
    NotInReferenceError, located, for what the reference does not know, or has no limits for.
    """
    interpreter = _Interpreter(module)
    values = [Numbers.exact(argument) for argument in arguments]
    results = interpreter.call(name, values)
    if any(_unlimited(numbers).any() for numbers in (*values, *results)):
        raise _unbounded(interpreter.unbounded)
    return Outcome(values, results)


class _Interpreter:
    """Runs the functions of one module, operation by operation."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.unbounded: Any = None
        """The first operation of which a result may be anything."""
        self._globals: dict[str, Numbers] = {}

    def call(self, name: str, arguments: Sequence[Numbers]) -> list[Numbers]:
        """What the function returns; arguments that are buffers are updated in place."""
        block = _function(self.module, name).regions[0].blocks[0]
        values = dict(zip(block.arguments, arguments, strict=True))
        for nested in block.operations:
            operation = nested.operation
            operands = [values[value] for value in operation.operands]
            if operation.name == "func.return":
                return operands
            results = self._located(operation, operands, values)
            self._look_at(operation, results)
            values.update(zip(operation.results, results, strict=True))
        raise AssertionError("a function of one block ends in func.return")

    def _located(
        self, operation: Any, operands: list[Numbers], values: Mapping[Any, Numbers]
    ) -> Sequence[Numbers]:
        """`_run`, with the location of `operation` for what is inside of it and has none."""
        try:
            return self._run(operation, operands, values)
        except NotInReferenceError as error:
            if error.location:
                raise
            where = describe(operation.location)
            raise NotInReferenceError(error.message, where) from None

    def _look_at(self, operation: Any, results: Sequence[Numbers]) -> None:
        if self.unbounded is None and any(_unlimited(result).any() for result in results):
            self.unbounded = operation

    def _run(
        self, operation: Any, operands: list[Numbers], values: Mapping[Any, Numbers]
    ) -> Sequence[Numbers]:
        if operation.name.startswith("linalg."):
            return self._run_structured(operation, operands, values)
        if operation.name == "func.call":
            return self.call(operation.attributes["callee"].value, operands)
        if operation.name == "memref.get_global":
            return [self._global(operation.attributes["name"].value)]
        if operation.name == "arith.constant":
            return [self._constant(operation, operation.attributes["value"])]
        if operation.name == "tensor.pad":
            return [padded(operation, operands, values)]
        if operation.name == "arith.select" and self._is_buffer(operation.results[0]):
            condition, *buffers = operands
            if condition.unsure:
                raise unsupported(operation)
            return [buffers[0 if condition.value else 1]]  # itself: it may be written to
        if operation.name in SHAPE_OPERATIONS:
            return SHAPE_OPERATIONS[operation.name](operation, operands)
        return [evaluate_scalar(operation, operands)]

    def _run_structured(
        self, operation: Any, operands: list[Numbers], values: Mapping[Any, Numbers]
    ) -> Sequence[Numbers]:
        structured = Structured.of(operation)
        outputs = operands[structured.inputs :]
        if len(operation.results):  # tensors: the operands keep their values
            outputs = [output.copy() for output in outputs]
        operands = operands[: structured.inputs] + outputs
        structured.run(operands, values)
        self._look_at(operation, outputs)
        return outputs[: len(operation.results)]

    def _is_buffer(self, value: Any) -> bool:
        ir = bindings_of(self.module).ir
        return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)

    def _global(self, name: str) -> Numbers:
        if name not in self._globals:
            ir = bindings_of(self.module).ir
            definition = ir.SymbolTable(self.module)[name].operation
            known = "initial_value" in definition.attributes
            value = definition.attributes["initial_value"] if known else None
            if not known or isinstance(value, ir.UnitAttr):
                message = f"the reference cannot tell what @{name} holds: it is not initialized"
                raise NotInReferenceError(message, describe(definition.location))
            self._globals[name] = self._constant(definition, value).copy()
        return self._globals[name]

    def _constant(self, operation: Any, attribute: Any) -> Numbers:
        ir = bindings_of(operation).ir
        if isinstance(attribute, ir.DenseElementsAttr):
            try:
                return Numbers.exact(np.array(attribute))
            except TypeError:  # numpy has no such element type
                raise unsupported(operation) from None
        if not isinstance(attribute.type, ir.ShapedType):
            return Numbers.exact(attribute.value)
        match = _RESOURCE.search(operation.get_asm(large_resource_limit=None))
        dtype = {"f32": np.float32, "f64": np.float64}.get(str(attribute.type.element_type))
        if match is None or dtype is None:
            raise unsupported(operation)
        data = bytes.fromhex(match[1])[_RESOURCE_HEADER:]
        return Numbers.exact(np.frombuffer(data, dtype).reshape(attribute.type.shape))


def _unlimited(numbers: Numbers) -> Array:
    return np.isneginf(numbers.low) & np.isposinf(numbers.high)


def _unbounded(operation: Any) -> NotInReferenceError:
    return NotInReferenceError(
        f"the reference cannot bound the error of '{operation.name}': something that is not exact "
        "may be 0 where it divides, or where a function is not defined",
        describe(operation.location),
    )


def _function(module: Any, name: str) -> Any:
    """The function `name`. Raises UserError if there is none, and one of its kind for branches."""
    for operation in directly_in(module):
        if operation.name == "func.func" and operation.attributes["sym_name"].value == name:
            if len(operation.regions[0].blocks) != 1:
                lack = "it has branches" if len(operation.regions[0].blocks) else "it has no body"
                message = f"the reference does not know what function '{name}' does: {lack}"
                raise NotInReferenceError(message, describe(operation.location))
            return operation
    raise UserError(
        f"the reference finds no func.func '{name}': it knows functions as they are before they "
        "are lowered to other dialects; check the module that this one was made from"
    )
