"""Convolutions to measure and to check: their MLIR, their operands, and a float64 reference.

Nothing here imports the compiler, so that the reference stays independent of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_ROOT = Path(__file__).resolve().parents[1]
TABLE1 = next(  # of the compiler's package, which is beside this one in a checkout, else around it
    path
    for path in (_ROOT / "mopt_mlir/planning/table1.json", _ROOT / "planning/table1.json")
    if path.exists()
)

LAYOUTS = ("nchw_fchw", "nhwc_hwcf", "nhwc_fhwc")
DTYPES = {"f32": np.float32, "f64": np.float64}
ALIGNMENT = 64  # bytes: what a caller who cares would give


@dataclass(frozen=True)
class Workload:
    """A convolution; `h`, `w` are output sizes and the input is already padded."""

    name: str
    k: int
    h: int
    w: int
    c: int
    r: int
    s: int
    n: int = 1
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    layout: str = "nchw_fchw"
    element: str = "f32"

    @property
    def flops(self) -> int:
        return 2 * self.n * self.k * self.h * self.w * self.c * self.r * self.s

    @property
    def input_shape(self) -> tuple[int, ...]:
        rows = self.strides[0] * (self.h - 1) + self.dilations[0] * (self.r - 1) + 1
        columns = self.strides[1] * (self.w - 1) + self.dilations[1] * (self.s - 1) + 1
        if self.layout.startswith("nchw"):
            return self.n, self.c, rows, columns
        return self.n, rows, columns, self.c

    @property
    def weights_shape(self) -> tuple[int, ...]:
        shapes = {
            "nchw_fchw": (self.k, self.c, self.r, self.s),
            "nhwc_hwcf": (self.r, self.s, self.c, self.k),
            "nhwc_fhwc": (self.k, self.r, self.s, self.c),
        }
        return shapes[self.layout]

    @property
    def output_shape(self) -> tuple[int, ...]:
        if self.layout.startswith("nchw"):
            return self.n, self.k, self.h, self.w
        return self.n, self.h, self.w, self.k

    def mlir(self, *, fill: bool = True, constant: Array | None = None) -> str:
        """`func.func @conv(input, weights, output)` on memrefs, or `(input, output)` with the
        weights `constant` in the module. Without `fill` it accumulates into the output."""
        types = [
            f"memref<{'x'.join(map(str, shape))}x{self.element}>"
            for shape in (self.input_shape, self.weights_shape, self.output_shape)
        ]
        parameters = [f"%input: {types[0]}", f"%weights: {types[1]}", f"%output: {types[2]}"]
        lines = []
        if constant is not None:
            del parameters[1]
            lines.append(f"%weights = memref.get_global @weights : {types[1]}")
        if fill:
            lines.append(f"%zero = arith.constant 0.0 : {self.element}")
            lines.append(f"linalg.fill ins(%zero : {self.element}) outs(%output : {types[2]})")
        lines.append(
            f"linalg.conv_2d_{self.layout} {{strides = dense<{list(self.strides)}> : tensor<2xi64>,"
            f" dilations = dense<{list(self.dilations)}> : tensor<2xi64>}}"
            f" ins(%input, %weights : {types[0]}, {types[1]}) outs(%output : {types[2]})"
        )
        body = "\n  ".join([*lines, "return"])
        text = f"func.func @conv({', '.join(parameters)}) {{\n  {body}\n}}\n"
        if constant is None:
            return text
        data = constant.astype(DTYPES[self.element]).tobytes().hex()
        return (
            f'memref.global "private" constant @weights : {types[1]} = dense_resource<weights>\n'
            f"{text}{{-# dialect_resources: "
            f'{{builtin: {{weights: "0x{ALIGNMENT:02x}000000{data}"}}}} #-}}\n'
        )

    def operands(self, seed: int) -> tuple[Array, Array, Array]:
        """Random input, weights and output, aligned."""
        generator = np.random.default_rng(seed)
        arrays = []
        for shape in (self.input_shape, self.weights_shape, self.output_shape):
            array = aligned(shape, DTYPES[self.element])
            array[...] = generator.standard_normal(shape)
            arrays.append(array)
        return arrays[0], arrays[1], arrays[2]

    def reference(self, input_: Array, weights: Array, old: Array | None = None) -> Array:
        """The result in float64, tap by tap; accumulated into `old` if given."""
        image, filters = input_.astype(np.float64), weights.astype(np.float64)
        if self.layout.startswith("nhwc"):
            image = image.transpose(0, 3, 1, 2)
            order = (3, 2, 0, 1) if self.layout == "nhwc_hwcf" else (0, 3, 1, 2)
            filters = filters.transpose(order)
        result = np.zeros((self.k, self.n, self.h, self.w))
        for r in range(self.r):
            for s in range(self.s):
                rows = slice(r * self.dilations[0], None, self.strides[0])
                columns = slice(s * self.dilations[1], None, self.strides[1])
                tap = image[:, :, rows, columns][:, :, : self.h, : self.w]
                result += np.tensordot(filters[:, :, r, s], tap, axes=([1], [1]))
        axes = (1, 0, 2, 3) if self.layout.startswith("nchw") else (1, 2, 3, 0)
        result = result.transpose(axes)
        return result if old is None else result + old.astype(np.float64)

    def error(self, result: Array, reference: Array, input_: Array, weights: Array) -> float:
        """Largest error in units of the bound `C * R * S * eps * max|input| * max|weights|`.

        The bound is what accumulating C*R*S products in any order can lose at worst, so that a
        value above 1 is a wrong result, not rounding.
        """
        steps = self.c * self.r * self.s + 1
        scale = float(np.abs(input_).max() * np.abs(weights).max()) + 1.0
        bound = steps * np.finfo(result.dtype).eps * scale
        return float(np.abs(result - reference).max() / bound)


def is_right(error: float | None) -> bool:
    """Whether rounding can explain an error in units of what it can (see `Workload.error`); that of
    a NaN, which JSON has as None, it cannot."""
    return error is not None and error <= 1


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array whose first element is at a multiple of ALIGNMENT."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    array: Array = buffer[start : start + size].view(dtype).reshape(shape)
    return array


def aligned_copy(array: Array) -> Array:
    """A contiguous copy whose first element is at a multiple of ALIGNMENT."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def table1(path: Path = TABLE1) -> list[Workload]:
    """The operators of a JSON file of Table 1's form."""
    data = json.loads(path.read_text())
    workloads = []
    for row in data["operators"]:
        fields = dict(zip(data["fields"], row, strict=True))
        stride = fields.pop("stride")
        workloads.append(Workload(**fields, strides=(stride, stride)))
    return workloads


def random_workloads(count: int, seed: int = 0) -> Iterator[Workload]:
    """Convolutions of every kind: awkward sizes, strides, dilations, batches, layouts, types."""
    generator = random.Random(seed)
    for number in range(count):
        yield Workload(
            f"random{number}",
            k=generator.randint(1, 70),
            c=generator.randint(1, 70),
            h=generator.randint(1, 40),
            w=generator.randint(1, 40),
            r=generator.randint(1, 7),
            s=generator.randint(1, 7),
            n=generator.randint(1, 3),
            strides=(generator.randint(1, 3), generator.randint(1, 3)),
            dilations=(generator.randint(1, 3), generator.randint(1, 3)),
            layout=generator.choice(LAYOUTS),
            element=generator.choice(tuple(DTYPES)),
        )
