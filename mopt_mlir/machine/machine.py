"""`Machine`: what the model needs to know of a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from mopt_mlir.machine.ranges import check_range
from mopt_mlir.problem import ElementType
from mopt_mlir.wording import guess

CACHE_NAMES = ("L1", "L2", "L3")

PREFETCH_LEVELS = ("L1", "L2", "both")
"""Caches that code can ask for lines into."""

VECTOR_BITS = (128, 256, 512)
"""Widths of x86 vector registers: SSE, AVX, AVX-512."""

DRAM_BANDWIDTHS = ("dram_bandwidth", "dram_write_bandwidth", "dram_stream_bandwidth")
"""Fields of one core; each has a companion of all cores, with `_all` at its end."""


@dataclass(frozen=True)
class Cache:
    """One cache."""

    name: str
    size: int
    """Bytes; of one core's instance if the cache is private."""
    line: int
    """Bytes."""
    ways: int
    shared: bool
    """Between cores."""
    bandwidth: float
    """GB/s at which one core reads from it."""
    bandwidth_all: float
    """GB/s at which all cores together do."""
    exposed: float | None = None
    """The part of the time of what is read from it that the objective counts beside the slowest
    resource's; None for that of any CPU, `model.cost.EXPOSED`."""
    busy_bandwidth: float | None = None
    """GB/s at which one core reads from it while it computes, as the objective has it; None for
    all of `bandwidth`."""

    @property
    def way_bytes(self) -> int:
        """How far apart addresses are that fall on the same set."""
        return self.size // self.ways


@dataclass(frozen=True)
class Machine:
    """A CPU. An optional field is None where it was not measured, unless it says otherwise."""

    name: str
    cpu: str
    """LLVM's name of it."""
    cores: int
    frequency: float
    """GHz under full vector load."""

    vector_bits: int
    """Of the vector registers that code is generated for."""
    vector_registers: int
    fma_per_cycle: int
    """FMAs that are issued in a cycle."""
    loads_per_cycle: int
    """Loads that are issued in a cycle."""
    fma_latency: int
    """Cycles."""

    caches: tuple[Cache, ...]
    """L1 to L3."""
    dram_bandwidth: float
    """GB/s at which one core reads from memory."""
    dram_bandwidth_all: float
    """GB/s at which all cores together do."""

    unit_bits: int | None = None
    """How much of a vector is executed in one go: a wider one takes several issue slots. None where
    vectors are not wider."""
    evicted_store_cycles: float | None = None
    """How long a store waits for a line of L1 that stores to others of its set have evicted."""
    saved_line_cycles: float | None = None
    """What each line of sums costs that is stored to be gone on with later."""
    crossing_cycles: float | None = None
    """How long a core waits for a load that crosses a line, besides the slot that it takes more."""
    issue_norm: float | None = None
    """The exponent of the norm in which the issue slots of multiply-adds and loads add up in the
    objective, the less they overlap the lower; None for that of any CPU, `model.microkernel`'s."""
    loop_cycles: float | None = None
    """What an outer product costs beyond its multiply-adds and loads."""
    queued_stores: int | None = None
    """Issue slots of vector stores in a row that a core takes without waiting."""
    misprediction_cycles: float | None = None
    """What a branch costs that a core takes wrongly."""

    capacity_factor: float = 0.75
    """The part of a cache that a tile may fill: with accesses that take turns, the least recently
    used lines of a full one would be what is needed next."""
    pixel_room: float | None = None
    """The part of the distance between pixels, all channels of each together in memory, that a
    pixel in a tile takes of L1 and L2, see `model.room`. None where it takes no more than its
    lines."""

    dram_write_bandwidth: float | None = None
    """GB/s at which the stores of one core reach memory through its caches, each line being read
    first and written back later."""
    dram_write_bandwidth_all: float | None = None
    """Those of all cores."""
    dram_stream_bandwidth: float | None = None
    """The same of one core for non-temporal stores, which pass the caches by."""
    dram_stream_bandwidth_all: float | None = None
    """Those of all cores."""

    prefetch_into: str = "L1"
    """The cache into which generated code asks for output and for what later register tiles read,
    one of PREFETCH_LEVELS; `both` is L2, and for input, shortly before it is read, L1 as well."""

    def cache(self, name: str) -> Cache:
        """The cache called `name`, which must be one of CACHE_NAMES."""
        return next(cache for cache in self.caches if cache.name == name)

    @property
    def at_rest(self) -> Machine:
        """This machine while it computes nothing, so that caches are as fast as they can be."""
        caches = tuple(replace(cache, busy_bandwidth=None) for cache in self.caches)
        return replace(self, caches=caches)

    def lanes(self, element: ElementType) -> int:
        """Elements of a vector register."""
        return self.vector_bits // (8 * element.size)

    def peak(self, element: ElementType, threads: int = 1) -> float:
        """GFLOP/s of `threads` cores that do nothing but FMAs."""
        per_cycle = self.fma_per_cycle / self.slots(self.vector_bits)
        return 2.0 * self.lanes(element) * per_cycle * self.frequency * threads

    def slots(self, bits: int) -> int:
        """Issue slots that an operation on a vector of `bits` takes."""
        return -(-bits // (self.unit_bits or bits))

    def with_cores(self, cores: int, domains: int = 1) -> Machine:
        """This machine with `cores` cores spread over `domains` instances of its last cache.

        Bandwidths of all cores follow: private caches add up; what is shared gives each core its
        own bandwidth until the figure of this machine, times `domains`, is reached.
        """

        def total(one: float, limit: float) -> float:
            return max(one, min(one * cores, limit * domains))

        caches = tuple(
            replace(
                cache,
                bandwidth_all=total(cache.bandwidth, cache.bandwidth_all)
                if cache.shared
                else cache.bandwidth * cores,
            )
            for cache in self.caches
        )
        machine = replace(self, cores=cores, caches=caches)
        for name in DRAM_BANDWIDTHS:
            one, limit = getattr(self, name), getattr(self, f"{name}_all")
            if one is not None and limit is not None:
                machine = machine.with_field(f"{name}_all", total(one, limit))
        return machine

    def with_field(self, key: str, value: Any) -> Machine:
        """This machine with one field replaced: `cores`, or dotted that of a cache: `L2.size`."""
        cache_name, dot, name = key.rpartition(".")
        if not dot:
            return replace(self, **{name: value})
        return replace(
            self,
            caches=tuple(
                replace(cache, **{name: value}) if cache.name == cache_name else cache
                for cache in self.caches
            ),
        )

    def values(self) -> dict[str, str | int | float | bool | None]:
        """Every field by the key of `with_field`, in the order of a machine file."""
        own = {name: getattr(self, name) for name in field_kinds(Machine)}
        of_caches = {
            f"{cache.name}.{name}": getattr(cache, name)
            for cache in self.caches
            for name in field_kinds(Cache)
        }
        return own | of_caches

    def totals(self) -> dict[str, float]:
        """The bandwidths of all cores together, by the key of `with_field`, as far as known."""
        values = {f"{cache.name}.bandwidth_all": cache.bandwidth_all for cache in self.caches}
        values |= {f"{name}_all": getattr(self, f"{name}_all") for name in DRAM_BANDWIDTHS}
        return {key: value for key, value in values.items() if value is not None}

    def override(self, fields: Mapping[str, str]) -> Machine:
        """This machine with fields replaced, e.g. `{"cores": "2", "L2.size": "524288"}`.

        Another number of cores also changes the bandwidths of all cores, see `with_cores`, and that
        of one core those of a private cache, except where they are given themselves. The name
        records what was replaced. Raises ValueError, naming the field, for an unknown one or an
        impossible value.
        """
        machine = self
        for key, text in fields.items():
            value = _parse(key, text, _kind(key))
            check_range(key, value)  # before anything is derived from it
            machine = machine.with_field(key, value)
        if machine.cores != self.cores:
            machine = machine.with_cores(machine.cores)
        for cache in machine.caches:
            one_core = {f"{cache.name}.bandwidth", f"{cache.name}.shared"}
            if not cache.shared and one_core & fields.keys():
                total = cache.bandwidth * machine.cores
                machine = machine.with_field(f"{cache.name}.bandwidth_all", total)
        for key, text in fields.items():
            if key.endswith("bandwidth_all"):
                machine = machine.with_field(key, float(text))
        machine.check()
        suffix = "".join(f",{key}={text}" for key, text in fields.items())
        return replace(machine, name=self.name + suffix)

    def check(self) -> None:
        """Raise ValueError, naming the field, where a figure cannot be that of a CPU."""
        for key, value in self.values().items():
            check_range(key, value)
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)


NOUNS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
"""What messages call a value of each type that a field may have."""


def field_kinds(cls: type[Machine] | type[Cache]) -> dict[str, type]:
    """The fields that a machine file or an override may set, and the type of each."""
    kinds = {"str": str, "int": int, "float": float, "bool": bool}
    kinds |= {f"{name} | None": kinds[name] for name in ("int", "float")}
    return {f.name: kinds[f.type] for f in fields(cls) if f.name != "name" and f.type in kinds}


def optional_fields(cls: type[Machine] | type[Cache]) -> tuple[str, ...]:
    """The fields that a machine file may leave out, because they have a default."""
    return tuple(f.name for f in fields(cls) if f.default is not MISSING)


def _kind(key: str) -> type:
    """The type of the field `key`, which is that of a machine or, dotted, of a cache."""
    cache, dot, name = key.rpartition(".")
    known = field_kinds(Cache) if dot else field_kinds(Machine)
    if name not in known or (dot and cache not in CACHE_NAMES):
        names = [*field_kinds(Machine), *(f"L1.{name}" for name in field_kinds(Cache))]
        level = cache if cache in CACHE_NAMES else CACHE_NAMES[0]
        hint = guess(key, (name.replace("L1.", f"{level}.") for name in names))
        known_fields = f"known: {', '.join(names)} (and L2, L3)"
        raise ValueError(f"unknown field '{key}'; {hint and hint + ' '}{known_fields}")
    return known[name]


def _parse(key: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{key}: '{text}' is neither true nor false")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{key}: '{text}' is not {NOUNS[kind]}") from None


def _problems(machine: Machine) -> Iterator[str]:
    """What is wrong with figures that are in their ranges, as `field: why`."""
    if not machine.cpu:
        yield "cpu: is empty"
    widths = ", ".join(map(str, VECTOR_BITS))
    if machine.vector_bits not in VECTOR_BITS:
        yield f"vector_bits: {machine.vector_bits} is not one of {widths}"
    if machine.unit_bits is not None and machine.unit_bits not in VECTOR_BITS:
        yield f"unit_bits: {machine.unit_bits} is not one of {widths}"
    if machine.prefetch_into not in PREFETCH_LEVELS:
        *levels, last = PREFETCH_LEVELS
        known = f"{', '.join(levels)} or {last}"
        yield f"prefetch_into: '{machine.prefetch_into}' is not {known}"
    for name in DRAM_BANDWIDTHS:
        one, together = getattr(machine, name), getattr(machine, f"{name}_all")
        if (one is None) != (together is None):
            given, missing = (f"{name}_all", name) if one is None else (name, f"{name}_all")
            yield f"{missing}: missing, {given} is given"
        elif one is not None and together < one:
            verb = "read" if name == "dram_bandwidth" else "write"
            yield f"{name}_all: all cores cannot {verb} less than one, {name}"
    if tuple(cache.name for cache in machine.caches) != CACHE_NAMES:
        yield f"caches: must be {', '.join(CACHE_NAMES)} in that order"
    for cache in machine.caches:
        yield from (f"{cache.name}.{problem}" for problem in _cache_problems(cache))
    for inner, outer in zip(machine.caches, machine.caches[1:], strict=False):
        if outer.size <= inner.size:
            yield f"{outer.name}.size: {outer.size} is not larger than {inner.name}'s {inner.size}"


def _cache_problems(cache: Cache) -> Iterator[str]:
    if cache.line & (cache.line - 1):
        yield f"line: {cache.line} is not a power of two"
    if cache.size % (cache.line * cache.ways):
        yield f"size: {cache.size} is not a multiple of {cache.ways} ways of {cache.line} bytes"
    if cache.bandwidth_all < cache.bandwidth:
        yield "bandwidth_all: all cores cannot read less than one, bandwidth"
