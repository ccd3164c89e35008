"""oneDNN through the driver in onednn_driver.cpp, which `make bench-peers` builds."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..protocol import Protocol
from ..workloads import aligned
from .interface import Prepared, Task, UnavailableError

DRIVER = Path(sys.prefix, "lib", "libmopt_onednn.so")
"""Beside libdnnl.so, in the environment of the peers."""

REORDERS = {Protocol.PAPER: 0, Protocol.CONSTANT_WEIGHTS: 1, Protocol.NHWC: 2}
"""Which reorders are timed, as in the driver: all, those of the images, none."""

_MESSAGE = 1024  # bytes
_NO_ARGUMENTS = 4  # METH_NOARGS of Python's C interface


def create(name: str) -> OneDnn:
    return OneDnn()


class OneDnn:
    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL(str(DRIVER))
        except OSError as error:
            raise UnavailableError(f"its driver cannot be loaded: {error}") from None
        self._driver.onednn_version.restype = ctypes.c_char_p
        self._driver.onednn_create.restype = ctypes.c_void_p
        self._driver.onednn_implementation.restype = ctypes.c_char_p
        for name in ("implementation", "collect", "destroy"):
            getattr(self._driver, f"onednn_{name}").argtypes = [ctypes.c_void_p]
        run = ctypes.cast(self._driver.onednn_builtin, ctypes.c_void_p)
        self._definition = _MethodDefinition(b"run", run, _NO_ARGUMENTS, None)

    @property
    def version(self) -> str:
        text: bytes = self._driver.onednn_version()
        return text.decode()

    def prepare(self, task: Task) -> Prepared:
        workload, protocol = task.workload, task.configuration.protocol
        output = aligned(workload.output_shape, np.float32)
        output[...] = np.nan
        convolution = _Convolution(self._driver, task, REORDERS[protocol], output)
        handle = convolution.handle

        def result() -> np.ndarray:
            self._driver.onednn_collect(convolution.handle)
            return output

        implementation = self._driver.onednn_implementation(handle).decode()
        return Prepared(self._run(handle), result, implementation)

    def _run(self, handle: int | None) -> Callable[[], None]:
        """What runs the convolution as directly as our own code is called: with cold caches ctypes
        takes several microseconds for each call."""
        new = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        run: Callable[[], None] = new(("PyCFunction_NewEx", ctypes.pythonapi))(
            ctypes.addressof(self._definition), handle, None
        )
        return run


class _MethodDefinition(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Convolution:
    """Owns the driver's convolution."""

    def __init__(self, driver: ctypes.CDLL, task: Task, reorders: int, output: np.ndarray) -> None:
        w = task.workload
        nhwc = w.layout.startswith("nhwc")
        rows, columns = w.input_shape[1:3] if nhwc else w.input_shape[2:4]
        sizes = (w.n, w.k, w.h, w.w, w.c, w.r, w.s, rows, columns, *w.strides, *w.dilations)
        message = ctypes.create_string_buffer(_MESSAGE)
        self._driver = driver
        self._alive = task.input, task.weights, output
        self.handle: int | None = driver.onednn_create(
            (ctypes.c_int64 * len(sizes))(*sizes),
            int(nhwc),
            reorders,
            *(ctypes.c_void_p(array.ctypes.data) for array in self._alive),
            message,
            ctypes.c_size_t(_MESSAGE),
        )
        if not self.handle:
            raise UnavailableError(message.value.decode(errors="replace"))

    def __del__(self) -> None:
        if self.handle:
            self._driver.onednn_destroy(self.handle)
