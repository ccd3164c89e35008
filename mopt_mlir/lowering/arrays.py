"""Arguments of compiled functions: arrays that fit a parameter exactly, and scalars."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from mopt_mlir.buffers import ALIGNMENT, aligned_bytes
from mopt_mlir.lowering.signature import Parameter

Array = NDArray[Any]

DTYPES: Mapping[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.intp),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
}
"""numpy's types for the elements of entry points."""

C_TYPES: Mapping[str, Any] = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "index": ctypes.c_ssize_t,
}
"""C's types for scalar parameters and results."""

_OVERLAP_WORK = 1_000_000  # of numpy's exact search; some milliseconds

_DLPACK_CPU = 1
_DLPACK_VERSION = (1, 0)  # the first that can say "read-only"
_DLPACK_FLAGS = 3 * ctypes.sizeof(ctypes.c_void_p)  # offset: after version, context, deleter
_DLPACK_READ_ONLY = 1


class Buffer(NamedTuple):
    """An array that was checked, the address of its first element, and the memory that it lies in:
    from `begin` up to `end`."""

    array: Array
    address: int
    begin: int
    end: int


class BufferArgument:
    """Checks arrays against a buffer parameter.

    Nothing is copied, so an array must have the parameter's element type, shape and strides.
    """

    def __init__(self, parameter: Parameter, where: str) -> None:
        assert parameter.shape is not None
        self.dtype = DTYPES[parameter.element]
        self._alignment = max(self.dtype.alignment, parameter.alignment)
        self._dense = parameter.dense
        self._where = where
        self._written = parameter.access != "read"
        self._shape = parameter.shape
        size = self.dtype.itemsize
        self._strides = tuple(None if s is None else s * size for s in parameter.strides)
        shape = [extent for extent in self._shape if extent is not None]
        steps = [stride for stride in self._strides if stride is not None]
        is_known = len(shape) == len(steps) == len(self._shape)  # whatever the offset
        self._reach = reach(shape, steps, size) if is_known else (0, 0)
        # then no array is right
        self._shares = is_known and self._written and _overlap(shape, steps, size)

    def bind(self, value: Any) -> Buffer:
        """The memory of `value`, an array or what exports DLPack.

        Raises TypeError for what is not an array on the CPU or has another element type, ValueError
        for another shape, other strides, elements that are not aligned, and where memory would be
        written to that must not be, or that several elements share.
        """
        if (  # the usual case, in little time
            type(value) is np.ndarray
            and value.dtype == self.dtype
            and value.shape == self._shape
            and value.strides == self._strides
            and (value.flags.writeable or not self._written)
            and not self._shares
        ):
            return self._buffer(value, self._reach)
        array, writable = _as_array(value, self._where, self._written)
        if array.dtype != self.dtype:
            raise TypeError(f"{self._where}: expected elements of {self.dtype}, got {array.dtype}")
        if array.shape != self._shape and not _matches(array.shape, self._shape):
            expected = _tuple_text(self._shape)
            raise ValueError(f"{self._where}: expected shape {expected}, got {array.shape}")
        if array.strides != self._strides:
            self._check_strides(array)
        if self._written and not writable:
            raise ValueError(f"{self._where}: the function writes to it, but it is read-only")
        if self._written and _overlap(array.shape, array.strides, array.itemsize):
            raise ValueError(
                f"{self._where}: the function writes to it, but elements share memory (its strides "
                f"are {array.strides} bytes)"
            )
        return self._buffer(array, reach(array.shape, array.strides, array.itemsize))

    def empty(self) -> Buffer:
        """A new array for a result of static shape, with the strides that it is written with. Those
        that are left open are such that no two elements share memory. It begins with a cache line,
        so that whole vectors do not cross any."""
        shape = [extent or 0 for extent in self._shape]
        if self._dense:
            memory = aligned_bytes(math.prod(shape) * self.dtype.itemsize)
            array = memory.view(self.dtype).reshape(shape)
            return self._buffer(array, (0, array.nbytes))
        strides = completed(shape, self._strides, self.dtype.itemsize)
        _, array = allocate(shape, strides, self.dtype)
        return self._buffer(array, reach(shape, strides, self.dtype.itemsize))

    def _buffer(self, array: Array, reach: tuple[int, int]) -> Buffer:
        first, end = reach
        address = self._address(array)
        return Buffer(array, address, address + first, address + end)

    def _address(self, array: Array) -> int:
        address: int = array.__array_interface__["data"][0]
        if address % self._alignment:
            raise ValueError(
                f"{self._where}: its address {address:#x} is not a multiple of "
                f"{self._alignment} bytes"
            )
        return address

    def _check_strides(self, array: Array) -> None:
        """Strides matter only along axes of more than one element."""
        if 0 in array.shape or (self._dense and array.flags.c_contiguous):
            return
        if self._dense:
            raise ValueError(
                f"{self._where}: expected a dense row-major array, got strides of "
                f"{array.strides} bytes; numpy.ascontiguousarray makes a copy"
            )
        for extent, got, expected in zip(array.shape, array.strides, self._strides, strict=True):
            if extent > 1 and expected is not None and got != expected:
                raise ValueError(
                    f"{self._where}: expected strides of {_tuple_text(self._strides)} bytes, "
                    f"got {array.strides}"
                )
            if extent > 1 and got % self.dtype.itemsize:
                raise ValueError(
                    f"{self._where}: a stride of {got} bytes is not a whole number of elements"
                )


class ScalarArgument:
    """Turns Python's and numpy's numbers into what ctypes passes for a scalar parameter."""

    def __init__(self, parameter: Parameter, where: str) -> None:
        self._where = where
        self._element = parameter.element
        self._c_type = C_TYPES[parameter.element]

    def bind(self, value: Any) -> Any:
        """`value` as a C number. Raises TypeError for another kind of value and ValueError for one
        that does not fit."""
        if self._element in ("f32", "f64"):
            try:
                number = self._c_type(value)
                if math.isinf(number.value) and not math.isinf(value):
                    raise OverflowError
            except TypeError:
                raise TypeError(f"{self._where}: expected a number, got {_kind(value)}") from None
            except OverflowError:
                raise ValueError(f"{self._where}: it is too large for {self._element}") from None
            return number
        try:
            number = int(value) if isinstance(value, np.bool_) else operator.index(value)
        except TypeError:
            raise TypeError(f"{self._where}: expected an integer, got {_kind(value)}") from None
        if self._c_type(number).value != number:
            raise ValueError(f"{self._where}: {number} does not fit {self._element}")
        return self._c_type(number)


def overlap(first: Buffer, second: Buffer) -> bool:
    """Whether two buffers share memory; in doubt they do."""
    if first.end <= second.begin or second.end <= first.begin:
        return False
    try:
        # numpy's stubs know two values of max_work only
        return bool(np.shares_memory(first.array, second.array, _OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def allocate(
    shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any], alignment: int = ALIGNMENT
) -> tuple[Array, Array]:
    """New memory, and an array in it of `strides` in bytes whose first element, which need not be
    the lowest, lies at a multiple of `alignment`."""
    begin, end = reach(shape, strides, dtype.itemsize)
    ahead = begin % alignment
    memory = aligned_bytes(ahead + end - begin, alignment)[ahead:].view(dtype)
    return memory, as_strided(memory[-begin // dtype.itemsize :], shape, strides)


def completed(shape: Sequence[int], strides: Sequence[int | None], size: int) -> list[int]:
    """`strides`, in bytes, with those that are None beyond all that the others reach, of elements
    of `size` bytes."""
    axes = zip(shape, strides, strict=True)
    apart = size + sum(abs(step) * max(extent - 1, 0) for extent, step in axes if step is not None)
    found: list[int] = []
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride is None:
            stride, apart = apart, apart * max(extent, 1)
        found.append(stride)
    return found[::-1]


def reach(shape: Sequence[Any], strides: Sequence[Any], size: int) -> tuple[int, int]:
    """Where memory begins and ends, in bytes from element 0; it begins before with a negative
    stride."""
    if 0 in shape:
        return 0, 0
    steps = [int((n - 1) * stride) for n, stride in zip(shape, strides, strict=True)]
    return sum(min(step, 0) for step in steps), size + sum(max(step, 0) for step in steps)


def _overlap(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    """Whether elements of `size` bytes, `strides` bytes apart, share memory, as far as little work
    tells: an axis may take smaller steps than the elements inside of it reach, and meet none."""
    if 0 in shape:
        return False
    inside = size
    axes = zip(map(abs, strides), shape, strict=True)
    for stride, extent in sorted(axis for axis in axes if axis[1] != 1):
        if stride < inside:
            break
        inside += (extent - 1) * stride
    else:
        return False
    if math.prod(shape) > _OVERLAP_WORK:
        return True
    offsets = np.zeros(1, np.int64)
    for stride, extent in zip(strides, shape, strict=True):
        offsets = np.add.outer(offsets, stride * np.arange(extent)).ravel()
    return bool(np.diff(np.sort(offsets)).min(initial=size) < size)


def _as_array(value: Any, where: str, write: bool) -> tuple[Array, bool]:
    """The memory of `value` as an array, and whether it may be written to."""
    if isinstance(value, np.ndarray):
        return value, value.flags.writeable
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        raise TypeError(
            f"{where}: expected a numpy array or an object with __dlpack__ and __dlpack_device__, "
            f"got {_kind(value)}"
        )
    if value.__dlpack_device__()[0] != _DLPACK_CPU:
        raise TypeError(f"{where}: the data is not in the memory of the CPU")
    try:
        array: Array = np.from_dlpack(value)
        return array, not write or array.flags.writeable or _exports_writable(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(f"{where}: {error}") from None


def _exports_writable(producer: Any) -> bool:
    """Whether memory that is exported through DLPack may be written to.

    numpy marks what comes from older producers as read-only, because they cannot say; but then the
    protocol obliges them to export writable memory only.
    """
    try:
        capsule = producer.__dlpack__(max_version=_DLPACK_VERSION)
    except TypeError:
        return True
    name = b"dltensor_versioned"
    if not _of_capsules("PyCapsule_IsValid", ctypes.c_int)(capsule, name):
        return True
    tensor = _of_capsules("PyCapsule_GetPointer", ctypes.c_void_p)(capsule, name)
    flags = ctypes.c_uint64.from_address(tensor + _DLPACK_FLAGS).value
    return not flags & _DLPACK_READ_ONLY


def _of_capsules(name: str, result: type) -> Callable[[Any, bytes], Any]:
    """A function of Python's C API; not `ctypes.pythonapi`'s own object, whose types all packages
    of the process share."""
    prototype = ctypes.PYFUNCTYPE(result, ctypes.py_object, ctypes.c_char_p)
    return prototype((name, ctypes.pythonapi))


def _matches(sizes: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(sizes) == len(expected) and all(
        e is None or e == s for s, e in zip(sizes, expected, strict=True)
    )


def _tuple_text(sizes: tuple[int | None, ...]) -> str:
    texts = ["?" if size is None else str(size) for size in sizes]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _kind(value: Any) -> str:
    return type(value).__name__
