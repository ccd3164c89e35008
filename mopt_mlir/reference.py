"""What a function computes, in float64 numpy, and how far native code may be from it.

An interpreter for functions of linalg operations on buffers or tensors. It shares no code with the
compiler, so that the two cannot be wrong in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.reference_linalg import Structured
from mopt_mlir.reference_scalar import evaluate_scalar, magnitude, rounded_to, unsupported
from mopt_mlir.reference_shapes import SHAPE_OPERATIONS, padded

Array = NDArray[Any]

_ROUNDING = {
    "bf16": (2.0**-8, 2.0**-134),
    "f16": (2.0**-11, 2.0**-25),
    "f32": (2.0**-24, 2.0**-150),
    "f64": (2.0**-53, 0.0),
}
"""By element type half the distance from 1 to the next number, which bounds the relative error of a
rounding, and half the smallest number, which bounds the error below the normal numbers."""

_RESOURCE = re.compile(r'"0x([0-9A-Fa-f]+)"')
_RESOURCE_HEADER = 4  # bytes of alignment in front of a resource's elements


@dataclass(frozen=True)
class Outcome:
    """`arguments` are the function's arguments as it leaves them, `results` what it returns.

    `roundings` bounds how many roundings the computation of one element goes through, `elements`
    are the types that numbers are rounded to.
    """

    arguments: list[Array]
    results: list[Array]
    roundings: int
    elements: frozenset[str]


def evaluate(
    module: Any, name: str, arguments: Sequence[Any], *, absolute: bool = False
) -> Outcome:
    """Run the function `name` of a module on copies of `arguments`, everything real in float64.

    With `absolute` each number is replaced by its magnitude and each difference by a sum: what
    comes out bounds the sums of magnitudes that rounding errors are proportional to. Raises
    UserError, located, for an operation that it does not know.
    """
    interpreter = _Interpreter(module, absolute)
    values = [interpreter.number(argument).copy() for argument in arguments]
    results = interpreter.call(name, values)
    elements = frozenset(interpreter.elements)
    return Outcome(values, results, interpreter.roundings, elements)


def error_bounds(
    module: Any, name: str, arguments: Sequence[Any]
) -> tuple[list[Array], list[Array]]:
    """Per element of the arguments and results, how far from `evaluate` a correct program may end
    up that computes in the types of the module, in whatever order it sums.

    A sum of n products is computed with an error of at most (n + 1) u sum(|a| |b|) to first order,
    u being half the distance from 1 to the next number (Higham, Accuracy and Stability of Numerical
    Algorithms, sec. 3.1). For a convolution n is C*R*S. Twice that is allowed, which covers the
    higher orders and float64's own rounding.
    """
    outcome = evaluate(module, name, arguments, absolute=True)
    known = [_ROUNDING[element] for element in outcome.elements]
    relative, absolute = (max(errors) for errors in zip(*known, strict=True)) if known else (0, 0)

    def bound(magnitudes: Array) -> Array:
        return 2 * outcome.roundings * (relative * magnitudes + absolute)

    return list(map(bound, outcome.arguments)), list(map(bound, outcome.results))


class _Interpreter:
    """Runs the functions of one module, operation by operation."""

    def __init__(self, module: Any, absolute: bool) -> None:
        self.module = module
        self.absolute = absolute
        self.roundings = 0
        self.elements: set[str] = set()
        self._globals: dict[str, Array] = {}

    def number(self, value: Any) -> Array:
        """`value` as an array of float64, or of integers."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        elif array.dtype.kind not in "iub":
            raise UserError(f"the reference does not know numbers of type {array.dtype}")
        return np.asarray(magnitude(array)) if self.absolute else array

    def call(self, name: str, arguments: Sequence[Array]) -> list[Array]:
        """What the function returns; arguments that are buffers are updated in place."""
        block = _function(self.module, name).regions[0].blocks[0]
        values = dict(zip(block.arguments, arguments, strict=True))
        for nested in block.operations:
            operation = nested.operation
            operands = [values[value] for value in operation.operands]
            if operation.name == "func.return":
                return operands
            results = self._run(operation, operands, values)
            values.update(zip(operation.results, results, strict=True))
        raise AssertionError("a function of one block ends in func.return")

    def _run(
        self, operation: Any, operands: list[Array], values: Mapping[Any, Array]
    ) -> Sequence[Array]:
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
        if operation.name in SHAPE_OPERATIONS:
            return SHAPE_OPERATIONS[operation.name](operation, operands)
        if (element := rounded_to(operation)) is not None:
            self.roundings += 1
            self.elements.add(element)
        return [np.asarray(evaluate_scalar(operation, operands, self.absolute))]

    def _run_structured(
        self, operation: Any, operands: list[Array], values: Mapping[Any, Array]
    ) -> Sequence[Array]:
        structured = Structured.of(operation)
        outputs = operands[structured.inputs :]
        if len(operation.results):  # tensors: the operands keep their values
            outputs = [output.copy() for output in outputs]
        operands = operands[: structured.inputs] + outputs
        self.roundings += structured.run(operands, values, absolute=self.absolute)
        self.elements |= structured.elements
        return outputs[: len(operation.results)]

    def _global(self, name: str) -> Array:
        if name not in self._globals:
            ir = bindings_of(self.module).ir
            definition = ir.SymbolTable(self.module)[name].operation
            known = "initial_value" in definition.attributes
            value = definition.attributes["initial_value"] if known else None
            if not known or isinstance(value, ir.UnitAttr):
                message = f"the reference cannot tell what @{name} holds: it is not initialized"
                raise UserError(message, describe(definition.location))
            self._globals[name] = self._constant(definition, value).copy()
        return self._globals[name]

    def _constant(self, operation: Any, attribute: Any) -> Array:
        ir = bindings_of(operation).ir
        if isinstance(attribute, ir.DenseElementsAttr):
            try:
                return self.number(np.array(attribute))
            except TypeError:  # numpy has no such element type
                raise unsupported(operation) from None
        if not isinstance(attribute.type, ir.ShapedType):
            return self.number(attribute.value)
        match = _RESOURCE.search(operation.get_asm(large_resource_limit=None))
        dtype = {"f32": np.float32, "f64": np.float64}.get(str(attribute.type.element_type))
        if match is None or dtype is None:
            raise unsupported(operation)
        data = bytes.fromhex(match[1])[_RESOURCE_HEADER:]
        return self.number(np.frombuffer(data, dtype).reshape(attribute.type.shape))


def _function(module: Any, name: str) -> Any:
    """The function `name`. Raises UserError if there is none or it has branches."""
    for nested in module.regions[0].blocks[0].operations:
        operation = nested.operation
        if operation.name == "func.func" and operation.attributes["sym_name"].value == name:
            if len(operation.regions[0].blocks) != 1:
                message = f"the reference knows no branches, and function '{name}' has some"
                raise UserError(message, describe(operation.location))
            return operation
    raise UserError(
        f"the reference finds no func.func '{name}': it knows functions as they are before they "
        "are lowered to other dialects; check the module that this one was made from"
    )
