"""Native functions as Python built-ins (PyCFunction), to keep ctypes out of calls.

ctypes converts arguments and looks for what to do with them at every call. With cold caches, in
which none of its code is left, that takes 9 us on a Zen 4, a tenth of a small convolution. Python
calls a built-in function of no arguments in 2: here one whose `self` has the pointers to pass.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mopt_mlir.lowering.jit import LoadedCode
from mopt_mlir.lowering.native import compile_text
from mopt_mlir.lowering.target import host

_SYMBOL = "mopt_builtin"
_NO_ARGUMENTS = 4  # METH_NOARGS of Python's C interface


class _MethodDefinition(ctypes.Structure):
    """Python's PyMethodDef. It has to live as long as functions of it, which may be through their
    `self`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_WORD = (1 << 64) - 1


class _Pointers(bytes):
    """Addresses, 8 bytes each: of a function, and of its arguments. `alive` is what these need."""

    alive: Any


def calling(address: int, pointers: Sequence[int], alive: Any = None) -> Callable[[], None]:
    """What calls the native function at `address`, which returns nothing, with `pointers`; it
    keeps `alive` alive. Other threads of Python run meanwhile."""
    definition, code = _definition(len(pointers))
    wrapped = (pointer & _WORD for pointer in pointers)  # less than 0 in front of a far offset
    values = _Pointers(struct.pack(f"={1 + len(pointers)}Q", address, *wrapped))
    values.alive = alive, definition, code  # the cache may have others, of another thread
    function: Callable[[], None] = _new_function()(ctypes.addressof(definition), values, None)
    return function


@cache
def _new_function() -> Any:
    """Python's PyCFunction_NewEx. (ctypes makes a class for its type, which takes as long as all
    the rest of a call whose arguments are checked: 14 of 30 us on a Zen 3.)"""
    type_ = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return type_(("PyCFunction_NewEx", ctypes.pythonapi))


@cache
def _definition(count: int) -> tuple[_MethodDefinition, LoadedCode]:
    """The built-in function for so many pointers, and its code."""
    code = LoadedCode(compile_text(_text(count), host(), [_SYMBOL]), [_SYMBOL])
    return _MethodDefinition(b"call", code.address(_SYMBOL), _NO_ARGUMENTS, None), code


def _text(count: int) -> str:
    """LLVM IR of a function as Python's C interface wants it. (No names of that interface are
    left to the linker: where Python is a library, they might be found nowhere.)"""
    places = [
        f"  %at{i} = getelementptr ptr, ptr %values, i64 {i}\n  %value{i} = load ptr, ptr %at{i}\n"
        for i in range(1 + count)
    ]
    arguments = ", ".join(f"ptr %value{i}" for i in range(1, 1 + count))
    none = f"ptr inttoptr (i64 {id(None)} to ptr)"
    return f"""
define ptr @{_SYMBOL}(ptr %self, ptr %nothing) {{
  %values = call ptr {_python("PyBytes_AsString")}(ptr %self)
{"".join(places)}
  %thread = call ptr {_python("PyEval_SaveThread")}()
  call void %value0({arguments})
  call void {_python("PyEval_RestoreThread")}(ptr %thread)
  call void {_python("Py_IncRef")}({none})
  ret {none}
}}
"""


def _python(name: str) -> str:
    """A function of Python's C interface, as LLVM IR calls it."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    return f"inttoptr (i64 {address} to ptr)"
