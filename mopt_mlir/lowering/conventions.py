"""How arguments reach native code: as bare pointers, or in MLIR's memref descriptors.

A descriptor is `{allocated, aligned, offset, sizes[rank], strides[rank]}`: two pointers, then
64-bit integers that count elements. Upstream's C interface takes pointers to descriptors. It
returns a buffer, or several results, through a pointer to them that comes first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mopt_mlir.lowering.arrays import C_TYPES, DTYPES, Array, Buffer, reach
from mopt_mlir.lowering.builtin import calling
from mopt_mlir.lowering.signature import Entry, Parameter

_SIZES = 3  # where the sizes begin in a descriptor, in words

Call = Callable[[], tuple[Any, ...] | None]
"""Calls a function with its arguments, and returns its results by value, if it has any."""

Prepare = Callable[[Sequence[Any]], Call]
"""From bound arguments (a Buffer or C scalar per parameter) to a call with them."""


def preparation(entry: Entry, address: int) -> Prepare:
    """How to call the native function of `entry`, which lies at `address`."""
    return (_with_pointers if entry.takes_pointers else _with_descriptors)(entry, address)


def _with_pointers(entry: Entry, address: int) -> Prepare:
    result = C_TYPES[entry.results[0].element] if entry.results else None
    function = _prototype(entry, result, 0)(address)
    offsets = [_offset(parameter) for parameter in entry.parameters]
    has_scalars = _has_scalars(entry)

    def prepare(values: Sequence[Any]) -> Call:
        arguments = [
            value.address - offset if isinstance(value, Buffer) else value
            for value, offset in zip(values, offsets, strict=True)
        ]
        if result:
            return lambda: (function(*arguments),)
        return partial(function, *arguments) if has_scalars else calling(address, arguments)

    return prepare


def _with_descriptors(entry: Entry, address: int) -> Prepare:
    by_pointer = len(entry.results) > 1 or any(r.shape is not None for r in entry.results)
    result = C_TYPES[entry.results[0].element] if entry.results and not by_pointer else None
    function = _prototype(entry, result, int(by_pointer))(address)

    class Results(ctypes.Structure):
        _fields_ = [(f"r{i}", _result_type(r)) for i, r in enumerate(entry.results)]

    has_scalars = _has_scalars(entry)

    def prepare(values: Sequence[Any]) -> Call:
        given = [
            _descriptor(value, parameter) if isinstance(value, Buffer) else value
            for value, parameter in zip(values, entry.parameters, strict=True)
        ]
        if not (result or by_pointer or has_scalars):
            return calling(address, [ctypes.addressof(d) for d in given], given)
        arguments = [
            ctypes.byref(value) if parameter.shape is not None else value
            for value, parameter in zip(given, entry.parameters, strict=True)
        ]
        if result:
            return lambda: (function(*arguments),)
        if not by_pointer:
            return partial(function, *arguments)

        def call() -> tuple[Any, ...]:
            results = Results()
            function(ctypes.byref(results), *arguments)
            fields = [getattr(results, f"r{i}") for i in range(len(entry.results))]
            return _take(fields, entry.results)

        return call

    return prepare


def _has_scalars(entry: Entry) -> bool:
    return any(parameter.shape is None for parameter in entry.parameters)


def _prototype(entry: Entry, result: Any, result_pointers: int) -> Any:
    types = [ctypes.c_void_p] * result_pointers
    for parameter in entry.parameters:
        types.append(ctypes.c_void_p if parameter.shape is not None else C_TYPES[parameter.element])
    return ctypes.CFUNCTYPE(result, *types)


def _offset(parameter: Parameter) -> int:
    """Bytes from where a buffer begins, for MLIR, to its first element."""
    if parameter.shape is None:
        return 0
    return (parameter.offset or 0) * DTYPES[parameter.element].itemsize


def _words(rank: int) -> Any:
    return ctypes.c_int64 * (_SIZES + 2 * rank)


def _descriptor(buffer: Buffer, parameter: Parameter) -> Any:
    array = buffer.array
    begin = buffer.address - _offset(parameter)
    words = _words(array.ndim)
    return words(begin, begin, parameter.offset or 0, *array.shape, *_strides(array))


def _strides(array: Array) -> list[int]:
    """In elements. Along an axis of one element numpy's may be any number; upstream expects that of
    a dense array, of which it makes those of the axes that are joined with it."""
    strides: list[int] = []
    dense = 1
    for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        strides.append(dense if extent == 1 else stride // array.itemsize)
        dense = max(extent, 1) * abs(strides[-1])
    return strides[::-1]


def _result_type(result: Parameter) -> Any:
    return C_TYPES[result.element] if result.shape is None else _words(len(result.shape))


def _take(values: Sequence[Any], results: Sequence[Parameter]) -> tuple[Any, ...]:
    """Scalars, and copies of the buffers that descriptors describe, which are freed: once, since
    the same one may have been returned twice."""
    pairs = list(zip(values, results, strict=True))
    try:
        return tuple(v if r.shape is None else _copy_of(v, r, len(r.shape)) for v, r in pairs)
    finally:  # also if there is no memory for copies
        for allocated in {value[0] for value, result in pairs if result.shape is not None}:
            _free()(allocated)


def _copy_of(descriptor: Any, result: Parameter, rank: int) -> Array:
    sizes, strides = descriptor[_SIZES : _SIZES + rank], descriptor[_SIZES + rank :]
    dtype = DTYPES[result.element]
    address = descriptor[1] + descriptor[2] * dtype.itemsize
    if 0 in sizes:
        return np.empty(sizes, dtype)
    steps = [stride * dtype.itemsize for stride in strides]
    begin, end = reach(sizes, steps, dtype.itemsize)
    memory = memoryview((ctypes.c_uint8 * (end - begin)).from_address(address + begin))
    elements = np.frombuffer(memory, dtype)[-begin // dtype.itemsize :]
    return as_strided(elements, sizes, steps).copy()


@cache
def _free() -> Any:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    return free
