"""From a linalg operation to a `Convolution`: the problem, its operands and what initialises it.

Named and generic operations in every layout take the same path: MLIR says whether an operation is
a convolution and which loop plays which role, the indexing maps give the linear forms. A generic
operation without filter loops, as one of 1x1 is once its unit dims are folded, MLIR does not take
for a convolution; its loops are told by the operands that they index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.buffers import ADDRESSABLE_BYTES
from mopt_mlir.layouts import Layout, layout_of
from mopt_mlir.linalg.initializer import Initializer, initializer_of
from mopt_mlir.linalg.memory import Memory
from mopt_mlir.operations import ancestors
from mopt_mlir.problem import (
    TENSORS,
    Dim,
    ElementType,
    LinearForm,
    NoPlanError,
    Problem,
    Role,
    Tensor,
)

IMAGE_NAMES = ("d", "h", "w")
FILTER_NAMES = ("q", "r", "s")


class UnsupportedError(Exception):
    """Why an operation is left as it is; the text completes a remark."""


@dataclass(frozen=True)
class Convolution:
    """A supported operation. `initializer` is None where the output's old contents count.

    Operands are read off the operation when asked for: rewriting one that produces a tensor changes
    those of its consumers.
    """

    operation: Any
    problem: Problem
    on_tensors: bool
    initializer: Initializer | None

    @property
    def input(self) -> Any:
        return self.operation.operands[0]

    @property
    def weights(self) -> Any:
        return self.operation.operands[1]

    @property
    def output(self) -> Any:
        return self.operation.operands[2]


def extract(operation: Any, bindings: Bindings, memory: Memory | None = None) -> Convolution:
    """The convolution that `operation` (any linalg op) computes. If several of a module are asked
    for, `memory` is what is known of that.

    Raises UnsupportedError with the reason where this compiler cannot tile it.
    """
    if not (bindings.linalg.isa_convolution_op(operation) or _is_contraction(operation, bindings)):
        raise UnsupportedError(_why_not(operation))
    _check_place(operation, bindings)
    if len(operation.operands) != 3:
        raise UnsupportedError("it has other operands than input, weights and output")
    _check_body(operation)
    types = [operand.type for operand in operation.operands]
    for type_ in types:
        _check_type(type_, bindings)
    (element,) = {str(type_.element_type) for type_ in types}  # or its body would convert them
    on_tensors = isinstance(types[2], bindings.ir.RankedTensorType)  # all of them, MLIR sees to it
    memory = memory or Memory(bindings)
    if not on_tensors:
        _check_output(operation, memory)
    problem = _problem(operation, types, ElementType(element), bindings)
    try:
        problem.check_size()
    except NoPlanError as error:
        raise UnsupportedError(str(error)) from None
    output = operation.operands[2]
    initializer = initializer_of(operation, output, problem, on_tensors, memory)
    problem = replace(problem, accumulates=initializer is None)
    return Convolution(operation, problem, on_tensors, initializer)


def _why_not(operation: Any) -> str:
    if operation.name == "linalg.generic" and len(operation.operands) == 3:
        return "MLIR sees no convolution of input, weights and output, in this order, in it"
    return "it is not a convolution"


def _check_place(operation: Any, bindings: Bindings) -> None:
    """Raise UnsupportedError outside of functions, and inside of other symbol tables, such as a
    module of kernels for a GPU: they have no place for the globals and functions we generate."""
    for depth, around in enumerate(ancestors(operation)):
        if around.name == "builtin.module":
            if depth == 0:
                raise UnsupportedError("it is in no function")
            return
        try:
            bindings.ir.SymbolTable(around)
        except TypeError:
            continue
        raise UnsupportedError(f"it is in a {around.name}")


def _check_body(operation: Any) -> None:
    """Only `acc + a * b`: MLIR also calls pooling, integer and mixed-type variants convolutions,
    and any other operations between the same loops."""
    block = operation.regions[0].blocks[0]
    body = [op.operation.name for op in block.operations]
    if body == ["arith.mulf", "arith.addf", "linalg.yield"]:
        if _adds_products(block):
            return
        raise UnsupportedError("its body does not add input times weights to the output")
    if "complex.mul" in body:
        raise UnsupportedError("its elements are complex; f32 and f64 are supported")
    if "arith.muli" in body:
        raise UnsupportedError("its elements are integers; f32 and f64 are supported")
    if "math.fma" in body:
        raise UnsupportedError("its body is math.fma; arith.mulf and arith.addf are supported")
    if "arith.mulf" not in body:
        raise UnsupportedError("it does not multiply and accumulate")
    raise UnsupportedError(f"its body is not acc + a * b on one float type ({', '.join(body)})")


def _adds_products(block: Any) -> bool:
    """Whether a multiplication, an addition and a yield compute `acc + a * b` of the elements that
    the body is given, where both sums and products may have their operands in either order."""
    product, sum_, last = (op.operation for op in block.operations)
    *factors, accumulator = block.arguments
    expected = (
        (product, factors),
        (sum_, [accumulator, product.result]),
        (last, [sum_.result]),
    )
    return all(list(op.operands) in (values, values[::-1]) for op, values in expected)


def _check_type(type_: Any, bindings: Bindings) -> None:
    ir = bindings.ir
    if not isinstance(type_, (ir.MemRefType, ir.RankedTensorType)):
        raise UnsupportedError(f"its operand type {type_} is neither a memref nor a tensor")
    if not type_.has_static_shape:
        raise UnsupportedError(f"its operand type {type_} has a dynamic shape")
    if str(type_.element_type) not in ("f32", "f64"):
        raise UnsupportedError(
            f"its element type is {type_.element_type}; f32 and f64 are supported"
        )
    if 0 in type_.shape:
        raise UnsupportedError(f"its operand type {type_} has no elements")
    if prod(type_.shape) * type_.element_type.width >= 8 * ADDRESSABLE_BYTES:
        raise UnsupportedError(f"its operand type {type_} has more bytes than there are addresses")
    if isinstance(type_, ir.RankedTensorType) and type_.encoding is not None:
        raise UnsupportedError(f"its operand type {type_} has an encoding")
    if isinstance(type_, ir.MemRefType) and type_.memory_space is not None:
        raise UnsupportedError(f"its operand type {type_} is in another memory space")


def _check_output(operation: Any, memory: Memory) -> None:
    """Only memory of its own: what a nest writes, and what initialised it before, is not to be read
    again. (Buffers that merely may overlap are the caller's business, as for linalg itself.)"""
    *inputs, output = operation.operands
    for name, operand in zip(TENSORS[:-1], inputs, strict=True):
        if memory.is_same(operand, output):
            raise UnsupportedError(f"its output is its {name}, too; give it another buffer")


def _problem(operation: Any, types: list[Any], element: ElementType, bindings: Bindings) -> Problem:
    indexed = _forms(operation, bindings)
    roles = _roles(_loops(indexed))
    forms = [
        [LinearForm(tuple((roles[loop][0], c) for loop, c in axis.terms)) for axis in form]
        for form in indexed
    ]
    for operand, form in zip(TENSORS, forms, strict=True):
        loops = [dim for axis in form for dim in axis.dims]
        if len(loops) != len(set(loops)):  # a diagonal
            raise UnsupportedError(f"one of its loops moves along two axes of the {operand}")
    extents = _extents(forms[1:], types[1:])
    order = "nkdhwcqrs"
    dims = tuple(
        Dim(name, extents[name], role)
        for name, role in sorted(roles.values(), key=lambda item: order.index(item[0]))
    )
    input_, weights, output = (
        Tensor(name, element, tuple(axes), _strides(type_, axes, extents, bindings))
        for name, axes, type_ in zip(TENSORS, forms, types, strict=True)
    )
    return Problem(dims, input_, weights, output)


@dataclass(frozen=True)
class _Loops:
    """The names of loops by their roles."""

    batch: list[str]
    pixels: list[str]
    channels: list[str]
    summed: list[str]
    taps: list[str]


def _forms(operation: Any, bindings: Bindings) -> list[list[LinearForm]]:
    """How each operand is indexed, by loops that are named by their positions."""
    maps = indexing_maps(operation, bindings)
    names = {position: str(position) for position in range(maps[0].n_dims if maps else 0)}
    return [[_linear_form(expr, names, bindings) for expr in map_.results] for map_ in maps]


def _loops(forms: list[list[LinearForm]]) -> _Loops:
    """The loops of a convolution by the operands that they index. Raises UnsupportedError if it is
    none of one kind of channels in and one out, with a filter along each axis of the image."""
    image, weights, output = ({loop for axis in form for loop in axis.dims} for form in forms)
    if image & weights & output:
        raise UnsupportedError("it is a depthwise or grouped convolution")
    parts = (image & output) - weights, (weights & output) - image, (image & weights) - output
    pixels, channels, summed = parts
    if image | weights | output != pixels | channels | summed:
        raise UnsupportedError("one of its loops has no role in a convolution")
    beside: set[str] = set()  # loops that share an axis of the image with another one
    for axis in forms[0]:
        if len(axis.terms) > 1:
            if len(axis.terms) > 2 or len(pixels & {*axis.dims}) != 1:
                raise UnsupportedError("it sums up others than an image and a filter dim")
            beside |= {*axis.dims}
    alone = sorted(pixels - beside, key=int)
    # pixels over which no filter loop moves, as its unit dim was folded, look like a batch
    first = max(len(pixels) - len(IMAGE_NAMES), 0)
    if beside:
        first = 1 if len(pixels) <= 1 + len(IMAGE_NAMES) else len(alone)
    return _Loops(
        batch=alone[:first],
        pixels=sorted({*alone[first:]} | pixels & beside, key=int),
        channels=sorted(channels, key=int),
        summed=sorted(summed - beside, key=int),
        taps=sorted(summed & beside, key=int),
    )


def _is_contraction(operation: Any, bindings: Bindings) -> bool:
    """Whether a `linalg.generic` is a convolution without filter loops. Named contractions, such as
    `linalg.matmul`, are left to passes that are made for them."""
    if operation.name != "linalg.generic" or len(operation.operands) != 3:
        return False
    try:
        loops = _loops(_forms(operation, bindings))
    except UnsupportedError:
        return False
    return bool(loops.pixels) and (len(loops.channels), len(loops.summed), loops.taps) == (1, 1, [])


def _roles(loops: _Loops) -> dict[str, tuple[str, Role]]:
    """Name and role of each loop."""
    roles: dict[str, tuple[str, Role]] = {}
    for found, names, role, text in (
        (loops.batch, ("n",), Role.BATCH, "batch"),
        (loops.channels, ("k",), Role.OUT_CHANNEL, "output channel"),
        (loops.summed, ("c",), Role.CHANNEL, "input channel"),
        (loops.pixels, IMAGE_NAMES, Role.IMAGE, "image"),
        (loops.taps, FILTER_NAMES, Role.FILTER, "filter"),
    ):
        if len(found) > len(names):
            most = "1 is" if len(names) == 1 else f"{len(names)} are"
            raise UnsupportedError(f"it has {len(found)} {text} dims; {most} supported")
        for loop, name in zip(found, names[len(names) - len(found) :], strict=True):
            roles[loop] = (name, role)
    return roles


def indexing_maps(operation: Any, bindings: Bindings) -> list[Any]:
    """The affine maps of a linalg operation; empty for one that has none (`linalg.yield`)."""
    attributes = bindings.linalg.get_indexing_maps(operation)
    return [attribute.value for attribute in attributes or ()]


def _linear_form(expr: Any, names: dict[int, str], bindings: Bindings) -> LinearForm:
    ir = bindings.ir
    if isinstance(expr, ir.AffineDimExpr):
        return LinearForm(((names[expr.position], 1),))
    if isinstance(expr, ir.AffineConstantExpr) and expr.value == 0:
        return LinearForm(())
    if isinstance(expr, ir.AffineAddExpr):
        left = _linear_form(expr.lhs, names, bindings)
        return LinearForm(left.terms + _linear_form(expr.rhs, names, bindings).terms)
    if isinstance(expr, ir.AffineMulExpr) and isinstance(expr.rhs, ir.AffineConstantExpr):
        terms = _linear_form(expr.lhs, names, bindings).terms
        return LinearForm(tuple((dim, c * expr.rhs.value) for dim, c in terms))
    raise UnsupportedError(f"its access {expr} is not a sum of multiples of loops")


def _extents(forms: list[list[LinearForm]], types: list[Any]) -> dict[str, int]:
    """Loop extents, read off the axes of weights and output that are a single dim."""
    extents = {}
    for axes, type_ in zip(forms, types, strict=True):
        for axis, size in zip(axes, type_.shape, strict=True):
            if len(axis.terms) != 1 or axis.terms[0][1] != 1:
                raise UnsupportedError("its weights or output are not indexed by plain loops")
            extents[axis.terms[0][0]] = size
    return extents


def _strides(
    type_: Any, axes: list[LinearForm], extents: dict[str, int], bindings: Bindings
) -> tuple[int | None, ...]:
    """The strides of a `Tensor` with `axes`; None where they are not known, and where nobody need
    know them: on an axis of several elements of which only the first is used."""
    used = [any(extents[dim] > 1 for dim in axis.dims) for axis in axes]
    return tuple(
        stride if moves or type_.shape[i] == 1 else None
        for i, (stride, moves) in enumerate(zip(_steps(type_, bindings), used, strict=True))
    )


def _steps(type_: Any, bindings: Bindings) -> tuple[int | None, ...]:
    """From one element to the next on each axis, if it is known. Plans count on steps that go
    forward, and on those of rows that lie apart."""
    ir = bindings.ir
    if isinstance(type_, ir.RankedTensorType):
        strides: list[int | None] = []
        step = 1
        for size in reversed(type_.shape):
            strides.append(step)
            step *= size
        return tuple(reversed(strides))
    layout = layout_of(type_)
    if layout is None:
        raise UnsupportedError(f"the layout of {type_} is not strided")
    return tuple(
        None if stride is None or stride < 0 or _overlap(axis, type_.shape, layout) else stride
        for axis, stride in enumerate(layout.strides)
    )


def _overlap(axis: int, shape: list[int], layout: Layout) -> bool:
    """Whether rows along the axis after `axis` begin inside of the rows before them.

    If only a part of each row is read, these parts may follow each other in memory, but the rows
    cannot be made one: better not to know how far apart they are.
    """
    if axis + 1 == len(shape) or shape[axis] == 1:
        return False
    step, unit = layout.strides[axis : axis + 2]
    if not step or not unit:
        return False
    return step % unit == 0 and 0 < step // unit < shape[axis + 1]
