"""Unrolling the reduction loops of microkernels, as far as stepping and jumping weighs.

Each trip of a loop takes a few instructions besides. With the 12 multiply-adds of a register tile
in 16 registers, and the 8 loads that these need, they are a fifth of all. A core that starts four
instructions at a time has no slots for that, and neither has one that shares its front end with
another thread.

A loop of few trips vanishes. Of a longer one several trips become one, and a second loop takes what
is left over, which LLVM would do around the sums of the first, and spill them. So all that LLVM is
told is which loops are to vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.fallback import ANNOTATION, NOT_VECTORISED
from mopt_mlir.lowering.order import keep_in_order
from mopt_mlir.lowering.values import constant, hidden, operands_of, trips
from mopt_mlir.operations import find

WIDE = 24
"""Multiply-adds of a body beside which stepping and jumping hardly weighs: it is left as it is."""

ENOUGH = 48
"""Multiply-adds that a body has at least when several trips of its loop have become one."""

MOST = 128
"""Multiply-adds of a body whose loops have vanished: code is to stay in the instruction cache."""

MOST_INSIDE = 192
"""The same of a body that another loop of the reduction is around, one over filter taps. (Three 3x3
layers with channels last, whose tiles have 16 channels, take 3 to 5, 4 to 5 and 5 to 17% less time
than with trips of four or eight channels; AVX2 code on a Zen 3. Two 1x1 layers, whose channels have
no loop around, take 1 to 5% more without theirs. With up to 320 multiply-adds two 3x3 layers take 4
to 5% more, two 2% less.)"""

LONG = 24
"""A loop of fewer trips is left as it is rather than that some of them are left to a second loop,
to get to which takes some ten cycles each time."""

LEAST_VECTORS = 2
"""Multiply-adds of a scalar. If there is one, LLVM sums up in the register of the scalar, so that
sums wander from step to step, and are spilled to be back in time for the next trip. (A body like
that waits for its loads more than for anything else.)"""

MOST_VECTORS = 16
"""Multiply-adds of a scalar. Their sums pass through assembly in registers of their own, of which
any CPU that code is generated for has so many, and some have no more; LLVM gives up where there are
too few."""

REGISTER_BITS = (128, 256)
"""Of the vectors that are passed through assembly: any CPU that code is generated for has registers
for them. (With 512 bits register tiles are large, and reductions are left as they are.)"""

_PRODUCT = "vector.outerproduct"
_BULKY = ("scf.for", "scf.while", "scf.parallel", "func.call")


def unroll_reductions(module: Any) -> None:
    """Unroll the innermost loops over outer products, and those around them that are innermost
    then."""
    for loop in find(module, "scf.for"):  # inner loops come first
        body, inner = _body(loop), _inner(loop)
        lower, upper, *_ = loop.operands
        step = constant(loop.operands[2])
        if not step or not loop.results or "unsignedCmp" in loop.attributes:
            continue  # a reduction carries sums
        if any(find(operation, *_BULKY) for operation in body if operation not in inner):
            continue
        number, most = (_trips(of(lower, upper), step) for of in (_length, _longest))
        together = _together(_products(loop), number, most, _room(loop), has_inner=bool(inner))
        by_scalar = _by_scalar(body)
        if together is None or not all(_can_be_kept_in_order(same, body) for same in by_scalar):
            continue
        for same in by_scalar:
            keep_in_order(same)
        if together == trips(loop):
            loop.attributes[ANNOTATION] = _vanishing(loop)
        else:
            _split(loop, number, together, together * step)


def is_unrolled(loop: Any) -> bool:
    """Whether a loop is marked to vanish."""
    if ANNOTATION not in loop.attributes:
        return False
    return bool(loop.attributes[ANNOTATION] == _vanishing(loop))


def _body(loop: Any) -> list[Any]:
    return [operation.operation for operation in loop.regions[0].blocks[0].operations]


def _inner(loop: Any) -> list[Any]:
    return [operation for operation in _body(loop) if operation.name == "scf.for"]


def _products(loop: Any) -> int:
    """The multiply-adds of a body, in which there may be a loop that vanishes; 0 if it stays."""
    inner = _inner(loop)
    if not inner:
        return sum(map(len, _by_scalar(_body(loop))))
    if len(inner) > 1 or not is_unrolled(inner[0]):
        return 0
    return _products(inner[0]) * (trips(inner[0]) or 0)


def _by_scalar(body: Sequence[Any]) -> list[list[Any]]:
    """The outer products of a body, those with the same scalar together."""
    products = (operation for operation in body if operation.name == _PRODUCT)
    return [list(same) for _, same in groupby(products, key=lambda product: product.operands[1])]


def _room(loop: Any) -> int:
    """How many multiply-adds a loop may leave behind if it vanishes."""
    around = loop.parent
    inside = around.name == "scf.for" and len(around.results) and not _inner(loop)
    return MOST_INSIDE if inside else MOST


def _together(
    products: int, number: int | None, most: int | None, room: int, has_inner: bool
) -> int | None:
    """How many trips become one, of the `number` (at most `most`) of a loop whose body has so many
    multiply-adds: all of them if the loop is to vanish, which has to leave at most `room`; None if
    it is left as it is.

    Of counts that leave as much, one is best that is a power of two, as what happens in every
    second or fourth step is decided beforehand then. (A 1x1 layer whose tiles of 96 channels do not
    divide the 512 that there are takes 6 to 16% less time if eight rather than five steps of ten
    multiply-adds become one; AVX2 code on a Zen 4 that is shared with other threads.)"""
    if not products or number == 0:
        return None
    if number is not None and products * number <= room and (has_inner or products < WIDE):
        return number
    if products >= WIDE:
        return None
    counts = range(-(-ENOUGH // products), MOST // products + 1)
    if most is not None:
        counts = range(counts[0], min(counts[-1], most // 2) + 1)
    if not counts:
        return None
    together = min(counts, key=lambda count: ((number or 0) % count, count & (count - 1) > 0))
    leaves_some = number is None or number % together
    return None if leaves_some and most is not None and most < LONG else together


def _trips(length: int | None, step: int) -> int | None:
    return None if length is None else max(0, -(-length // step))


def _length(lower: Any, upper: Any) -> int | None:
    """How far it is from one bound of a loop to the other, if that is always the same: in all, or
    through a tile."""
    if sum_ := operands_of(upper, "arith.addi"):
        start, length = sum_
        return constant(length) if start == lower else None
    start, end = constant(lower), constant(upper)
    return None if start is None or end is None else end - start


def _longest(lower: Any, upper: Any) -> int | None:
    """How far it is at most: the last tile may be smaller."""
    ends = operands_of(upper, "arith.minsi")
    if ends is None:
        return _length(lower, upper)
    lengths = [_longest(lower, end) for end in ends]
    return min((length for length in lengths if length is not None), default=None)


def _split(loop: Any, number: int | None, together: int, length: int) -> None:
    """Let a loop in front of `loop` take its trips, of which there are `number`, so many at a time,
    and `loop` what is left. So many trips go through `length`. The new loop counts from 0 by 1:
    where it ends LLVM can then tell without a comparison of its own."""
    bindings = bindings_of(loop)
    ir, arith, scf = bindings.ir, bindings.arith, bindings.scf
    lower, upper, _, *sums = loop.operands
    word = lower.type
    with loop.context, ir.InsertionPoint(loop), loop.location:
        zero, one = arith.constant(word, 0), arith.constant(word, 1)
        stride = arith.constant(word, length)
        if number is None:
            is_empty = arith.cmpi(arith.CmpIPredicate.sge, lower, upper)
            distance = arith.select(is_empty, zero, arith.subi(upper, lower))
            rounds = arith.divsi(distance, stride)
        else:
            rounds = arith.constant(word, number // together)
        front = scf.ForOp(zero, rounds, one, sums)
        front.attributes[ANNOTATION] = loop.attributes[ANNOTATION]
        with ir.InsertionPoint(front.body):
            start = arith.addi(lower, arith.muli(front.induction_variable, stride))
            trip = loop.clone()
            trip.operands[0], trip.operands[1] = zero, stride
            scf.YieldOp(trip.results)
        counter = trip.regions[0].blocks[0].arguments[0]
        with ir.InsertionPoint.at_block_begin(counter.owner):
            place = arith.addi(start, counter)
        counter.replace_all_uses_except(place, place.owner.operation)
        first = constant(lower)
        if number is None or first is None:
            left = arith.addi(lower, arith.muli(rounds, stride))
        else:
            left = arith.constant(word, first + number // together * length)
    trip.attributes[ANNOTATION] = _vanishing(loop)
    for i, value in enumerate(front.inner_iter_args):
        trip.operands[3 + i] = value
    if number is not None and number % together == 0:
        for result, value in zip(loop.results, front.results, strict=True):
            result.replace_all_uses_with(value)
        loop.erase()
        return
    loop.operands[0] = left
    for i, value in enumerate(front.results):
        loop.operands[3 + i] = value
    if isinstance(word, ir.IndexType):
        _hide_steps(loop)


def _hide_steps(loop: Any) -> None:
    """Make the counter of `loop` something of which LLVM does not know how it goes on.

    Behind a loop that takes most of the trips, loop strength reduction would give each pixel of the
    register tile a pointer of its own. All of these are stepped around the loop, whether it runs or
    not, from memory to memory: there are not so many registers.
    """
    bindings = bindings_of(loop)
    block = loop.regions[0].blocks[0]
    counter = block.arguments[0]
    with loop.context, bindings.ir.InsertionPoint.at_block_begin(block), loop.location:
        place = hidden(bindings, counter)
    counter.replace_all_uses_except(place, block.operations[0].operation)


def _can_be_kept_in_order(products: Sequence[Any], body: Sequence[Any]) -> bool:
    """Whether the sums of so many multiply-adds of a scalar, or of a vector, may be passed behind
    the last of them, as none is used before, and all have registers."""
    ir = bindings_of(products[0]).ir
    before = body[: body.index(products[-1]) + 1]
    for product in products:
        type_ = product.results[0].type
        if type_.rank != 1 or type_.scalable:
            return False
        if not isinstance(type_.element_type, ir.F32Type | ir.F64Type):
            return False
        if type_.shape[0] * type_.element_type.width not in REGISTER_BITS:
            return False
        users = (use.owner.operation for use in product.results[0].uses)
        if any(_ancestor(user, body) in before for user in users):
            return False
    return LEAST_VECTORS <= len(products) <= MOST_VECTORS


def _ancestor(operation: Any, body: Sequence[Any]) -> Any:
    """What there is around an operation in a body that it is in."""
    while operation not in body:
        operation = operation.parent.operation
    return operation


def _vanishing(loop: Any) -> Any:
    text = f"#llvm.loop_annotation<{NOT_VECTORISED}, unroll = <full = true>>"
    return bindings_of(loop).ir.Attribute.parse(text, loop.context)
