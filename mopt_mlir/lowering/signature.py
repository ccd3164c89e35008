"""What a caller of a function has to pass, and how: no MLIR."""

from __future__ import annotations

from dataclasses import dataclass, field

CONVENTIONS = ("llvm.bareptr", "llvm.emit_c_interface")
"""Attributes of functions that ask upstream's lowering for bare pointers, or for descriptors."""

C_INTERFACE = "_mlir_ciface_"
"""What upstream puts in front of the name of a function that takes descriptors."""

SCALARS = ("f32", "f64", "index", "i1", "i8", "i16", "i32", "i64")
ELEMENTS = (*SCALARS, "f16", "complex<f32>", "complex<f64>")
"""Types of parameters and of elements that C and numpy have, too."""


@dataclass(frozen=True)
class Parameter:
    """A parameter or result: a scalar or a buffer. None stands for sizes, strides and offsets that
    are not known at compile time."""

    name: str
    element: str
    shape: tuple[int | None, ...] | None = None
    """None of a scalar."""
    strides: tuple[int | None, ...] = ()
    """In elements."""
    offset: int | None = 0
    """In elements."""
    dense: bool = True
    """Whether the elements lie in row-major order without gaps, whatever the sizes turn out to be.
    """
    access: str = "read"
    """"read" (never written to), "write" (may be), or "result": what the function returned before
    tensors became buffers."""
    position: int = 0
    """The number of that result."""
    alignment: int = 1
    """Bytes at a multiple of which the first element is, where the function assumes more than the
    type says."""

    @property
    def is_static(self) -> bool:
        """Whether shape, strides and offset are known, so that a bare pointer says it all."""
        return self.shape is None or None not in (*self.shape, *self.strides, self.offset)

    def __str__(self) -> str:
        """As MLIR writes the type, e.g. `memref<4x?xf32, strided<[?, 1]>>`."""
        if self.shape is None:
            return self.element
        extents = "".join(f"{_text(extent)}x" for extent in self.shape)
        if self.dense:
            return f"memref<{extents}{self.element}>"
        strides = ", ".join(map(_text, self.strides))
        offset = "" if self.offset == 0 else f", offset: {_text(self.offset)}"
        return f"memref<{extents}{self.element}, strided<[{strides}]{offset}>>"


@dataclass(frozen=True)
class Entry:
    """A function that can be called from C.

    `parameters` are in the order of the C parameters; `results` are returned by value (tensor
    results of static shape are parameters instead). `location` is that of the function, as
    diagnostics have it.
    """

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...] = ()
    location: str = field(default="", compare=False)

    @property
    def takes_pointers(self) -> bool:
        """Whether buffers are passed as bare pointers; otherwise as pointers to descriptors."""
        static = all(p.is_static for p in self.parameters)
        return static and len(self.results) <= 1 and all(r.shape is None for r in self.results)

    @property
    def convention(self) -> str:
        """The attribute that asks upstream's lowering for such a function."""
        return CONVENTIONS[0 if self.takes_pointers else 1]

    def __str__(self) -> str:
        """As a declaration, e.g. `@conv(input: memref<4xf32>, output: memref<4xf32>)`."""
        parameters = ", ".join(f"{p.name}: {p}" for p in self.parameters)
        results = f" -> ({', '.join(map(str, self.results))})" if self.results else ""
        return f"@{self.name}({parameters}){results}"

    @property
    def symbol(self) -> str:
        """The name of the function in native code."""
        return self.name if self.takes_pointers else C_INTERFACE + self.name


def _text(size: int | None) -> str:
    return "?" if size is None else str(size)
