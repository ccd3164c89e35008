"""The vector units that code is generated for."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True)
class VectorUnit:
    """`bits` of a vector, how many `registers` hold one, and the `features` of a CPU that has all
    of it, by LLVM's and archspec's names."""

    name: str
    bits: int
    registers: int
    features: frozenset[str]

    @property
    def generic_machine(self) -> str:
        """The shipped machine for CPUs of which no more is known."""
        return f"generic-{self.name}"


AVX2 = VectorUnit("avx2", 256, 16, frozenset({"avx2", "fma"}))
"""The least that serves."""

AVX512 = VectorUnit(
    "avx512",
    512,
    32,
    AVX2.features | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)


def widest(features: Set[str]) -> VectorUnit | None:
    """The widest unit of a CPU with these features; None if there is none."""
    has = (unit for unit in (AVX512, AVX2) if features >= unit.features)
    return next(has, None)


def with_bits(bits: int) -> VectorUnit:
    """The unit that has vectors of so many bits, AVX2 where none has."""
    return AVX512 if bits == AVX512.bits else AVX2
