"""`Machine`: what the model and the code generator need to know of a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mopt_mlir.problem import ElementType

CACHE_NAMES = ("L1", "L2", "L3")

VECTOR_BITS = (128, 256, 512)
"""Widths of x86 vector registers: SSE, AVX, AVX-512."""

FREQUENCY_LIMIT = 10.0
"""GHz no CPU reaches: a larger figure was given in MHz or Hz."""


@dataclass(frozen=True)
class Cache:
    """One cache. `bandwidth` is the GB/s at which one core reads from it, `bandwidth_all` the GB/s
    of all cores together; `size` is bytes, of one core's instance if the cache is private."""

    name: str
    size: int
    line: int
    ways: int
    shared: bool
    bandwidth: float
    bandwidth_all: float


@dataclass(frozen=True)
class Machine:
    """A CPU.

    `cpu` is LLVM's name of it. `vector_bits` and `vector_registers` describe the vector unit that
    code is generated for, `fma_per_cycle` vector FMAs and `loads_per_cycle` vector loads issued
    per cycle, `fma_latency` cycles. `frequency` is GHz under full vector load. `caches` is L1 to
    L3; `dram_bandwidth` GB/s for one core, `dram_bandwidth_all` for all. `capacity_factor` is the
    part of a cache that a tile may fill (MODEL: a real LRU that sees interleaved accesses behaves
    like a smaller one).
    """

    name: str
    cpu: str
    cores: int
    frequency: float
    vector_bits: int
    vector_registers: int
    fma_per_cycle: int
    loads_per_cycle: int
    fma_latency: int
    caches: tuple[Cache, ...]
    dram_bandwidth: float
    dram_bandwidth_all: float
    capacity_factor: float = 0.75

    def cache(self, name: str) -> Cache:
        return next(cache for cache in self.caches if cache.name == name)

    def lanes(self, element: ElementType) -> int:
        """Elements of a vector register."""
        return self.vector_bits // (8 * element.size)

    def peak(self, element: ElementType, threads: int = 1) -> float:
        """GFLOP/s of `threads` cores that do nothing but FMAs."""
        return 2.0 * self.lanes(element) * self.fma_per_cycle * self.frequency * threads

    def with_cores(self, cores: int, domains: int = 1) -> Machine:
        """This machine with `cores` cores spread over `domains` instances of its last cache.

        Bandwidths of all cores follow: private caches add up; what is shared gives each core its
        own bandwidth until the figure of this machine, times `domains`, is reached.
        """

        def total(one: float, limit: float) -> float:
            return min(one * cores, limit * domains)

        caches = tuple(
            replace(
                cache,
                bandwidth_all=total(cache.bandwidth, cache.bandwidth_all)
                if cache.shared
                else cache.bandwidth * cores,
            )
            for cache in self.caches
        )
        dram = total(self.dram_bandwidth, self.dram_bandwidth_all)
        return replace(self, cores=cores, caches=caches, dram_bandwidth_all=dram)

    def override(self, fields: Mapping[str, str]) -> Machine:
        """This machine with fields replaced, e.g. `{"cores": "2", "L2.size": "524288"}`.

        Another number of cores also changes the bandwidths of all cores, see `with_cores`, except
        those given themselves. The name records what was replaced. Raises ValueError, naming the
        field, for an unknown one or an impossible value.
        """
        machine = self
        for key, text in fields.items():
            machine = _set(machine, key, _parse(key, text, _kind(key)))
        if machine.cores != self.cores and machine.cores > 0:
            machine = machine.with_cores(machine.cores)
        for cache in machine.caches:
            if not cache.shared:
                total = cache.bandwidth * machine.cores
                machine = _set(machine, f"{cache.name}.bandwidth_all", total)
        for key, text in fields.items():
            if key.endswith("bandwidth_all"):
                machine = _set(machine, key, float(text))
        machine.check()
        suffix = "".join(f",{key}={text}" for key, text in fields.items())
        return replace(machine, name=self.name + suffix)

    def check(self) -> None:
        """Raise ValueError, naming the field, where a figure cannot be that of a CPU."""
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)


def field_kinds(cls: type[Machine] | type[Cache]) -> dict[str, type]:
    """The fields that a machine file or an override may set, and the type of each."""
    kinds = {"str": str, "int": int, "float": float, "bool": bool}
    return {f.name: kinds[f.type] for f in fields(cls) if f.name != "name" and f.type in kinds}


def _kind(key: str) -> type:
    """The type of the field `key`, which is that of a machine or, dotted, of a cache."""
    cache, dot, name = key.rpartition(".")
    known = field_kinds(Cache) if dot else field_kinds(Machine)
    if name not in known or (dot and cache not in CACHE_NAMES):
        names = ", ".join([*field_kinds(Machine), *(f"L1.{name}" for name in field_kinds(Cache))])
        raise ValueError(f"unknown field '{key}'; known: {names} (and L2, L3)")
    return known[name]


def _parse(key: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{key}: '{text}' is neither true nor false")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        noun = {int: "an integer", float: "a number"}[kind]
        raise ValueError(f"{key}: '{text}' is not {noun}") from None


def _set(machine: Machine, key: str, value: Any) -> Machine:
    cache_name, dot, name = key.rpartition(".")
    if not dot:
        return replace(machine, **{name: value})
    return replace(
        machine,
        caches=tuple(
            replace(cache, **{name: value}) if cache.name == cache_name else cache
            for cache in machine.caches
        ),
    )


def _problems(machine: Machine) -> Iterator[str]:
    """What is wrong, as `field: why`."""
    for name, kind in field_kinds(Machine).items():
        value = getattr(machine, name)
        if kind is str and not value:
            yield f"{name}: is empty"
        # `not >` rather than `<=`, so that a NaN is caught as well
        if kind in (int, float) and not 0 < value < float("inf"):
            yield f"{name}: {value} is not positive and finite"
    if machine.frequency > FREQUENCY_LIMIT:
        yield f"frequency: {machine.frequency} is not a clock in GHz"
    if machine.vector_bits not in VECTOR_BITS:
        yield f"vector_bits: {machine.vector_bits} is not one of 128, 256, 512"
    if machine.capacity_factor > 1:
        yield f"capacity_factor: {machine.capacity_factor} is more than the whole cache"
    if machine.dram_bandwidth_all < machine.dram_bandwidth:
        yield "dram_bandwidth_all: all cores cannot read less than one, dram_bandwidth"
    if tuple(cache.name for cache in machine.caches) != CACHE_NAMES:
        yield f"caches: must be {', '.join(CACHE_NAMES)} in that order"
    for cache in machine.caches:
        yield from (f"{cache.name}.{problem}" for problem in _cache_problems(cache))
    for inner, outer in zip(machine.caches, machine.caches[1:], strict=False):
        if outer.size <= inner.size:
            yield f"{outer.name}.size: {outer.size} is not larger than {inner.name}'s {inner.size}"


def _cache_problems(cache: Cache) -> Iterator[str]:
    for name, kind in field_kinds(Cache).items():
        value = getattr(cache, name)
        if kind in (int, float) and not 0 < value < float("inf"):
            yield f"{name}: {value} is not positive and finite"
            return  # the checks below divide by these
    if cache.line & (cache.line - 1):
        yield f"line: {cache.line} is not a power of two"
    if cache.size % (cache.line * cache.ways):
        yield f"size: {cache.size} is not a multiple of {cache.ways} ways of {cache.line} bytes"
    if cache.bandwidth_all < cache.bandwidth:
        yield "bandwidth_all: all cores cannot read less than one, bandwidth"
