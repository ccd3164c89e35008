"""Which MLIR Python bindings are in use: the caller's own, else upstream `mlir`.

`mlir` and `torch_mlir` offer the same API over libraries that must not be mixed, so code that
builds IR never imports a dialect at the top: it asks `bindings_of(op)` and uses what it gets.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Bindings:
    """The modules of one binding package, loaded when first asked for."""

    package: str

    @cached_property
    def ir(self) -> Any:
        with _uninterrupted():
            return import_module(f"{self.package}.ir")

    @cached_property
    def passmanager(self) -> Any:
        return import_module(f"{self.package}.passmanager")

    @cached_property
    def execution_engine(self) -> Any:
        return import_module(f"{self.package}.execution_engine")

    def __getattr__(self, dialect: str) -> Any:
        """The Python module of a dialect: `bindings.affine`, `bindings.vector`, …"""
        if dialect.startswith("_"):
            raise AttributeError(dialect)
        module = import_module(f"{self.package}.dialects.{dialect}")
        self.__dict__[dialect] = module
        return module


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keep Ctrl-C until the end of the `with` block: one that comes while the extension sets itself
    up crashes the process instead of ending it. (To block the signal would not do: a thread of
    another library may take it, and Python goes on in the main thread.)"""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is None:  # one that is not Python's
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


@cache
def bindings(package: str = "mlir") -> Bindings:
    """The bindings that live in `package` (`mlir`, `torch_mlir`, …)."""
    return Bindings(package)


def bindings_of(handle: Any) -> Bindings:
    """The bindings that `handle` (a module, operation, context, pass manager, …) comes from.

    Raises TypeError if it is not an object of any MLIR Python bindings.
    """
    for cls in type(handle).__mro__:
        package, marker, _ = cls.__module__.partition("._mlir_libs")
        if marker:
            return bindings(package)
        package, marker, _ = cls.__module__.partition(".dialects.")
        if marker:
            return bindings(package)
    raise TypeError(f"{type(handle).__name__} is not an object of MLIR's Python bindings")
