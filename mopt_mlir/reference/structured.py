"""linalg operations on numbers, through their indexing maps and their bodies: the part of the
reference that knows about loops. Named and generic operations are the same to it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.operations import defining_op
from mopt_mlir.reference.numbers import Array, Numbers, finite, rounding
from mopt_mlir.reference.scalars import (
    ADDITIONS,
    CASTS,
    FUSED,
    MULTIPLICATIONS,
    NARROWING,
    evaluate_scalar,
    rounded_to,
    unsupported,
)

Axis = tuple[Mapping[int, int], int]
"""One result of an indexing map: coefficients by loop, and a constant."""


@dataclass(frozen=True)
class Structured:
    """A linalg operation: its loops, and how each operand is indexed by them."""

    operation: Any
    accesses: tuple[tuple[Axis, ...], ...]
    inputs: int
    loops: int

    @staticmethod
    def of(operation: Any) -> Structured:
        """Raises NotInReferenceError for indexing maps that are not linear, or none."""
        maps = bindings_of(operation).linalg.get_indexing_maps(operation)
        if maps is None:
            raise unsupported(operation)
        try:
            accesses = tuple(tuple(map(_axis, attribute.value.results)) for attribute in maps)
        except ValueError:
            raise unsupported(operation) from None
        return Structured(operation, accesses, _inputs(operation), maps[0].value.n_dims)

    @property
    def reductions(self) -> list[int]:
        """The loops that no output is indexed by."""
        outputs = self.accesses[self.inputs :]
        indexed = {loop for access in outputs for terms, _ in access for loop in terms}
        return [loop for loop in range(self.loops) if loop not in indexed]

    def extents(self, shapes: Sequence[Sequence[int]]) -> list[int]:
        """Iterations of each loop, from the axes that a loop indexes alone."""
        extents: dict[int, int] = {}
        for access, shape in zip(self.accesses, shapes, strict=True):
            for (terms, constant), size in zip(access, shape, strict=True):
                if list(terms.values()) == [1] and constant == 0:
                    extents[next(iter(terms))] = size
        if len(extents) < self.loops:
            raise unsupported(self.operation)
        return [extents[loop] for loop in range(self.loops)]

    def rounding(self, extents: Sequence[int], terms: Array) -> Array:
        """How far an output may be off by the roundings of its reduction, in whatever order, if the
        magnitudes of all terms add up to `terms`."""
        summands = prod(extents[loop] for loop in self.reductions)
        repeated = self._count((*ADDITIONS, FUSED, NARROWING))
        count = summands * repeated + self._count(MULTIPLICATIONS)
        return rounding(self.elements, terms, count) if self.elements else np.zeros(())

    @property
    def elements(self) -> list[str]:
        """The types that the body rounds to."""
        found = (rounded_to(op.operation) for op in self.body.operations)
        return sorted({element for element in found if element is not None})

    def flops(self, extents: Sequence[int]) -> int:
        """Floating-point operations of the whole iteration space."""
        each = self._count(ADDITIONS + MULTIPLICATIONS) + 2 * self._count((FUSED,))
        return prod(extents) * each

    def _count(self, names: tuple[str, ...]) -> int:
        return sum(op.operation.name in names for op in self.body.operations)

    @property
    def body(self) -> Any:
        return self.operation.regions[0].blocks[0]

    def run(self, operands: Sequence[Numbers], outer: Mapping[Any, Numbers]) -> None:
        """Run on the operands; outputs are updated in place.

        `outer` are the values that the body may use from around the operation.
        """
        extents = self.extents([operand.shape for operand in operands])
        if 0 in extents:
            return
        outputs = self.accesses[self.inputs :]
        if any(len(terms) > 1 for access in outputs for terms, _ in access):
            raise unsupported(self.operation)  # which adds to an element from several iterations
        if self._is_contraction():
            _contract(self, operands, extents)
        else:
            _iterate(self, operands, extents, outer)

    def _is_contraction(self) -> bool:
        """Whether the body is `out + a * b`."""
        operations = [op.operation for op in self.body.operations if op.operation.name not in CASTS]
        if [op.name for op in operations] != ["arith.mulf", "arith.addf", "linalg.yield"]:
            return False
        product_, sum_, yielded = operations
        factors = {self._source(value) for value in product_.operands}
        summands = {self._source(value) for value in sum_.operands}
        results = [self._source(value) for value in yielded.operands]
        return (
            len(self.accesses) == 3
            and factors == {0, 1}
            and summands == {2, product_.result}
            and results == [sum_.result]
        )

    def _source(self, value: Any) -> Any:
        """What `value` is, seen through casts: the number of an argument of the body, or the result
        of an operation."""
        operation = defining_op(value)
        if operation is None:
            argument = bindings_of(value).ir.BlockArgument(value)
            return argument.arg_number if value.owner == self.body else value
        return self._source(operation.operands[0]) if operation.name in CASTS else value


def count_flops(operation: Any) -> int | None:
    """Floating-point operations of a linalg operation, None if a shape is not static."""
    if operation.name in ("linalg.yield", "linalg.index"):
        return 0
    structured = Structured.of(operation)
    types = [operand.type for operand in operation.operands]
    if not all(getattr(type_, "has_static_shape", True) for type_ in types):
        return None
    extents = structured.extents([tuple(getattr(type_, "shape", ())) for type_ in types])
    return structured.flops(extents)


def _inputs(operation: Any) -> int:
    """How many of the operands are inputs; the others are outputs."""
    if "operandSegmentSizes" in operation.attributes:
        return int(operation.attributes["operandSegmentSizes"][0])
    operands = len(operation.operands)
    return operands // 2 if operation.name == "linalg.reduce" else operands - 1


def _axis(expression: Any) -> Axis:
    """Raises ValueError for what is not linear."""
    kind = type(expression).__name__
    if kind == "AffineDimExpr":
        return {expression.position: 1}, 0
    if kind == "AffineConstantExpr":
        return {}, expression.value
    if kind not in ("AffineAddExpr", "AffineMulExpr"):
        raise ValueError(kind)
    (left, left_constant), (right, right_constant) = _axis(expression.lhs), _axis(expression.rhs)
    if kind == "AffineAddExpr":
        terms = {loop: left.get(loop, 0) + right.get(loop, 0) for loop in {**left, **right}}
        return terms, left_constant + right_constant
    if left and right:
        raise ValueError(kind)
    factor = right_constant if left else left_constant
    terms = {loop: coefficient * factor for loop, coefficient in {**left, **right}.items()}
    return terms, left_constant * right_constant


def _view(
    op: Structured, position: int, array: Array, axes: Mapping[int, int], fixed: Mapping[int, int]
) -> Array:
    """What an operand looks like to the loops `axes` (loop -> extent), which become the axes of the
    view in that order, where the other loops have the values in `fixed`.

    A loop that does not index the operand gets a stride of 0. Nothing is copied.
    """
    strides = dict.fromkeys(axes, 0)
    start: list[Any] = []
    layout = zip(op.accesses[position], array.strides, array.shape, strict=True)
    for (terms, constant), stride, size in layout:
        first = constant + sum(terms[loop] * fixed[loop] for loop in terms if loop in fixed)
        steps = [(loop, factor) for loop, factor in terms.items() if loop in axes]
        ends = [factor * (axes[loop] - 1) for loop, factor in steps]
        if first + sum(min(end, 0) for end in ends) < 0:
            raise _outside(op.operation)
        if first + sum(max(end, 0) for end in ends) >= size:
            raise _outside(op.operation)
        start.append(slice(first, None))
        for loop, factor in steps:
            strides[loop] += factor * stride
    return as_strided(array[(*start, ...)], tuple(axes.values()), tuple(strides.values()))


def _seen(
    op: Structured,
    position: int,
    numbers: Numbers,
    axes: Mapping[int, int],
    fixed: Mapping[int, int],
) -> Numbers:
    """`_view` of values and of errors."""
    return numbers.map(lambda array: _view(op, position, array, axes, fixed))


def _outside(operation: Any) -> UserError:
    message = f"'{operation.name}' accesses elements outside of an operand"
    return UserError(message, describe(operation.location))


def _points(loops: Sequence[int], extents: Sequence[int]) -> Iterator[dict[int, int]]:
    for point in product(*(range(extents[loop]) for loop in loops)):
        yield dict(zip(loops, point, strict=True))


def _contract(op: Structured, operands: Sequence[Numbers], extents: Sequence[int]) -> None:
    """`out += a * b`, one matrix product for each filter tap: for all values of the reduction loops
    that share an axis with another loop."""
    axes = [terms for access in op.accesses for terms, _ in access]
    shared = {loop for terms in axes if len(terms) > 1 for loop in terms}
    taps = [loop for loop in op.reductions if loop in shared]

    def seen(position: int, fixed: Mapping[int, int]) -> tuple[Numbers, str]:
        """An operand, and the letters of its axes."""
        indexing = {loop for terms, _ in op.accesses[position] for loop in terms} - fixed.keys()
        used = {loop: extents[loop] for loop in sorted(indexing)}
        view = _seen(op, position, operands[position], used, fixed)
        return view, "".join(ascii_letters[loop] for loop in used)

    output, output_axes = seen(2, {})
    terms = output.magnitude
    for fixed in _points(taps, extents):
        (a, a_axes), (b, b_axes) = seen(0, fixed), seen(1, fixed)
        terms += _accumulate(f"{a_axes},{b_axes}->{output_axes}", a, b, output)
    output.assign(output.widened(op.rounding(extents, terms)))


def _accumulate(subscripts: str, a: Numbers, b: Numbers, output: Numbers) -> Array:
    """`output += a * b` but for roundings. Returns the sums of the magnitudes of the products."""

    def product(left: Array, right: Array) -> Array:
        return np.asarray(np.einsum(subscripts, left, right, optimize=True))

    products = product(a.value, b.value)
    added = Numbers(products, products, products)
    if not a.is_exact:
        added = added.widened(product(a.error, b.magnitude))
    if not b.is_exact:
        added = added.widened(product(finite(a.value), b.error))
    for sums, more in zip(output.parts, added.parts, strict=True):
        sums += more
    return product(a.magnitude, b.magnitude)


def _iterate(
    op: Structured,
    operands: Sequence[Numbers],
    extents: Sequence[int],
    outer: Mapping[Any, Numbers],
) -> None:
    """Any body: the reduction loops one by one, the others at once."""
    axes = {loop: extents[loop] for loop in range(op.loops) if loop not in op.reductions}
    for access in op.accesses[op.inputs :]:
        if {loop for terms, _ in access for loop in terms} != set(axes):
            raise unsupported(op.operation)
    sums: list[Array | None] = [None] * len(operands)
    for fixed in _points(op.reductions, extents):
        views = [_seen(op, i, operand, axes, fixed) for i, operand in enumerate(operands)]
        if op.reductions and sums[-1] is None:
            sums[op.inputs :] = [view.magnitude for view in views[op.inputs :]]
        seen = [replace(view, terms=terms) for view, terms in zip(views, sums, strict=True)]
        values = ChainMap(dict(zip(op.body.arguments, seen, strict=True)), dict(outer))
        results = _run_body(op, values, axes, fixed)
        if len(results) > 1:  # of which one may be what is in another one's output
            results = [replace(result.copy(), terms=result.terms) for result in results]
        for output, result in zip(views[op.inputs :], results, strict=True):
            output.assign(result)
        sums = [None] * op.inputs + [result.magnitude for result in results]
    if op.reductions:
        for output, terms in zip(views[op.inputs :], sums[op.inputs :], strict=True):
            output.assign(output.widened(op.rounding(extents, np.asarray(terms))))


def _run_body(
    op: Structured,
    values: MutableMapping[Any, Numbers],
    axes: Mapping[int, int],
    fixed: Mapping[int, int],
) -> list[Numbers]:
    """What the body yields for arrays of elements."""
    for nested in op.body.operations:
        operation = nested.operation
        operands = [values[value] for value in operation.operands]
        if operation.name == "linalg.yield":
            return operands
        if operation.name == "linalg.index":
            loop = operation.attributes["dim"].value
            values[operation.result] = Numbers.exact(_index(loop, axes, fixed))
        else:
            values[operation.result] = evaluate_scalar(operation, operands)
    raise AssertionError("the body of a linalg operation ends in linalg.yield")


def _index(loop: int, axes: Mapping[int, int], fixed: Mapping[int, int]) -> Array:
    """The number of the iteration, as an array that broadcasts over `axes`."""
    if loop in fixed:
        return np.asarray(fixed[loop])
    shape = [extent if other == loop else 1 for other, extent in axes.items()]
    return np.arange(axes[loop]).reshape(shape)
