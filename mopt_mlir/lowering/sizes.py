"""Sizes of dynamic shapes, in terms of the arguments that a function is called with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary


@dataclass(frozen=True)
class Extent:
    """The size of a buffer argument along an axis."""

    argument: int
    axis: int


@dataclass(frozen=True)
class Scalar:
    """The value of a scalar argument."""

    argument: int


@dataclass(frozen=True, eq=False)
class Computed:
    """The result of one of `OPERATIONS`: made by `compute`, which makes equal ones once, so that
    what is used twice takes no longer."""

    operation: str
    operands: tuple[Size, ...]
    is_known: bool
    is_natural: bool


@dataclass(frozen=True)
class Unknown:
    """What depends on more than the arguments: equal to itself only, as `identity` says."""

    identity: tuple[Any, ...]


Size = int | Extent | Scalar | Computed | Unknown
Shape = tuple[Size, ...]


def _quotient(a: int, b: int) -> int:
    """Rounded towards zero, as machines do it."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: Mapping[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "quotient": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),
    # to divide by zero is a mistake of the module's own, and none of ours to report
    "floor": lambda a, b: a // b if b else 0,
    "ceil": lambda a, b: -(-a // b) if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "select": lambda condition, a, b: a if condition else b,
}
"""What sizes are computed with."""


_COMPUTED: WeakValueDictionary[tuple[str, tuple[Size, ...]], Computed] = WeakValueDictionary()
"""Those that are in use."""

_LOCK = Lock()  # threads may compile at the same time


def compute(operation: str, *operands: Size) -> Size:
    """One of `OPERATIONS` on sizes, carried out if these are numbers, or if one of them that is a
    number decides which of the others it is."""
    if operation == "select" and isinstance(operands[0], int):
        return operands[1] if operands[0] else operands[2]
    numbers = [size for size in operands if isinstance(size, int)]
    if len(numbers) == len(operands):
        return int(OPERATIONS[operation](*numbers))
    key = operation, operands
    with _LOCK:
        if (known := _COMPUTED.get(key)) is None:
            natural = _is_natural(operation, operands)
            known = Computed(operation, operands, all(map(is_known, operands)), natural)
            _COMPUTED[key] = known
    return known


def fold(operation: str, sizes: Iterable[Size]) -> Size:
    """One of `OPERATIONS` on the first two sizes, on its result and the third, and so on."""
    first, *others = sizes
    for size in others:
        first = compute(operation, first, size)
    return first


def unsigned(size: Size, bits: int) -> Size:
    """What a signed number of so many bits is if it is taken for an unsigned one."""
    return size if is_natural(size) else compute("mod", size, 1 << bits)


def wrapped(size: Size, bits: int) -> Size:
    """The signed number in the last bits of another one; of a single bit, 0 or 1."""
    if bits == 1:
        return compute("mod", size, 2)
    half = 1 << (bits - 1)
    return compute("sub", compute("mod", compute("add", size, half), 2 * half), half)


def is_natural(size: Size) -> bool:
    """Whether it is known that a size is not negative, whatever the arguments are."""
    if isinstance(size, int):
        return size >= 0
    if not isinstance(size, Computed):
        return isinstance(size, Extent)
    return size.is_natural


def _is_natural(operation: str, operands: Sequence[Size]) -> bool:
    if operation in _NEVER_NEGATIVE:
        return True
    natural = list(map(is_natural, operands))
    if operation == "max":
        return any(natural)
    if operation == "mod":
        return natural[1]
    return operation != "sub" and all(natural[operation == "select" :])


_NEVER_NEGATIVE = ("eq", "ne", "lt", "le", "gt", "ge")


def evaluate(size: Size, arguments: Sequence[Any], done: dict[Size, int]) -> int:
    """The value of a size that is known, for bound arguments, each a `Buffer` or a C scalar.

    What was computed is added to those that are `done`.
    """
    for part in operands_first(size, operands_of_size, done):
        if isinstance(part, int):
            done[part] = part
        elif isinstance(part, Extent):
            done[part] = int(arguments[part.argument].array.shape[part.axis])
        elif isinstance(part, Scalar):
            done[part] = int(arguments[part.argument].value)
        else:
            assert isinstance(part, Computed)
            done[part] = int(OPERATIONS[part.operation](*(done[o] for o in part.operands)))
    return done[size]


def operands_of_size(size: Size) -> Sequence[Size]:
    """What a size is computed from, if it is."""
    return size.operands if isinstance(size, Computed) else ()


def operands_first(
    value: Any, operands: Callable[[Any], Iterable[Any]], done: Container[Any]
) -> Iterator[Any]:
    """`value` and all that it is computed from, each behind its operands, but for what is `done` by
    then. (Chains of operations may be longer than Python lets functions call each other.)"""
    pending = [value]
    while pending:
        if pending[-1] in done:
            pending.pop()
        elif missing := [part for part in operands(pending[-1]) if part not in done]:
            pending += missing
        else:
            yield pending[-1]


def is_known(size: Size) -> bool:
    """Whether a size depends on nothing but the arguments."""
    if isinstance(size, Computed):
        return size.is_known
    return not isinstance(size, Unknown)
