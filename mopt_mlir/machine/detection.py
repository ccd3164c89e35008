"""The machine that this process runs on: facts from the OS, the rest from a shipped file.

archspec and LLVM tell which CPU it is, sysfs its caches, the scheduler's affinity mask its cores.
Latencies, issue widths and bandwidths are those of the shipped machine that is nearest in
archspec's graph of microarchitectures.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.files import MachineFile
from mopt_mlir.machine.machine import Cache, Machine

if TYPE_CHECKING:
    from archspec.cpu import Microarchitecture

SYSFS = Path("/sys/devices/system/cpu")

AVX2 = frozenset({"avx2", "fma"})
AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})


@dataclass(frozen=True)
class CacheFacts:
    """What the OS says of one cache; 0 where it does not know."""

    size: int
    line: int
    ways: int
    sharers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class HostFacts:
    """What is known of a host.

    `architecture` is `platform.machine()`; `cpu` LLVM's name; `lineage` archspec's names of the
    microarchitecture and its ancestors, nearest first, all of them with features that the OS
    enables; `features` the vector extensions. `threads` are the logical CPUs that this process may
    run on, `siblings` maps each to the logical CPUs of its core.
    """

    architecture: str
    cpu: str
    lineage: tuple[str, ...]
    features: frozenset[str]
    threads: frozenset[int] = frozenset({0})
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    caches: Mapping[str, CacheFacts] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        """Physical cores: the second thread of a core adds no vector unit."""
        return len({self.siblings.get(cpu, frozenset({cpu})) for cpu in self.threads})


def observe(sysfs: Path = SYSFS, threads: frozenset[int] | None = None) -> HostFacts:
    """Ask archspec, LLVM and the OS, about `threads` or those that this process may run on.

    Leaves out what they do not say.
    """
    import archspec.cpu

    architecture = platform.machine()
    threads = threads or _affinity()
    target = archspec.cpu.host()
    cpu = ""
    if _is_x86(architecture):
        cpu, target = _microarchitecture(target)
    return HostFacts(
        architecture=architecture,
        cpu=cpu,
        lineage=(target.name, *(ancestor.name for ancestor in target.ancestors)),
        features=frozenset(target.features) & (AVX2 | AVX512),
        threads=threads,
        siblings=_siblings(sysfs, threads),
        caches=_caches(sysfs / f"cpu{min(threads)}"),
    )


def machine_of(facts: HostFacts, shipped: Iterable[MachineFile]) -> Machine:
    """The machine of a host. Raises UserError if it is not x86-64 with AVX2 and FMA."""
    if not _is_x86(facts.architecture):
        raise UserError(
            f"this host is {facts.architecture}, and code is generated for x86-64 only; "
            "name a machine to compile for it, e.g. machine=znver5"
        )
    by_microarchitecture = {file.microarchitecture: file.machine for file in shipped}
    base = next(
        (by_microarchitecture[name] for name in facts.lineage if name in by_microarchitecture), None
    )
    if base is None or not facts.features >= AVX2:
        raise UserError(
            "this host has no AVX2 and FMA, which the generated code needs; "
            "name a machine to compile for another, e.g. machine=haswell"
        )
    wide = facts.features >= AVX512
    last = facts.caches.get("L3")
    sharing = len(facts.threads & last.sharers) if last else 0
    machine = replace(
        base,
        name="host",
        cpu=facts.cpu or base.cpu,
        vector_bits=512 if wide else 256,
        vector_registers=32 if wide else 16,
        caches=_merged(base.caches, facts),
    ).with_cores(facts.cores, domains=-(-len(facts.threads) // sharing) if sharing else 1)
    machine.check()
    return machine


def _is_x86(architecture: str) -> bool:
    return architecture.lower() in ("x86_64", "amd64")


def _microarchitecture(target: Microarchitecture) -> tuple[str, Microarchitecture]:
    """LLVM's name of the host, and archspec's target for it, or "" and `target`.

    Hypervisors hide features that matter to no convolution, and archspec then falls back to a
    generic `target`. LLVM goes by family and model, so its name is the better one as long as no
    vector extension is hidden: its CPU would bring instructions that trap.
    """
    import archspec.cpu
    from llvmlite import binding as llvm

    name = str(llvm.get_host_cpu_name())
    for known in archspec.cpu.TARGETS.values():
        vectors = frozenset(known.features) & (AVX2 | AVX512)
        if name in _llvm_names(known) and vectors <= frozenset(target.features):
            return name, known
    return "", target


def _llvm_names(target: Microarchitecture) -> frozenset[str]:
    names = {entry.get("name", target.name) for entry in target.compilers.get("clang", ())}
    # archspec knows one Ice Lake, LLVM tells the server part from the client's
    return frozenset(names | {"icelake-server"} if target.name == "icelake" else names)


def _affinity() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _siblings(sysfs: Path, threads: Iterable[int]) -> dict[int, frozenset[int]]:
    return {
        cpu: siblings
        for cpu in threads
        if (siblings := _cpu_list(_text(sysfs / f"cpu{cpu}/topology/thread_siblings_list")))
    }


def _caches(cpu: Path) -> dict[str, CacheFacts]:
    """Data and unified caches by name; empty where sysfs does not describe them."""
    caches = {}
    for index in sorted(cpu.glob("cache/index*")):
        if _text(index / "type") in ("Data", "Unified"):
            caches[f"L{_text(index / 'level')}"] = CacheFacts(
                size=_bytes(_text(index / "size")),
                line=_bytes(_text(index / "coherency_line_size")),
                ways=_bytes(_text(index / "ways_of_associativity")),
                sharers=_cpu_list(_text(index / "shared_cpu_list")),
            )
    return caches


def _merged(caches: tuple[Cache, ...], facts: HostFacts) -> tuple[Cache, ...]:
    """`caches` with what the OS says of them, unless that makes no hierarchy."""
    merged = tuple(_observed(cache, facts) for cache in caches)
    ascending = all(inner.size < outer.size for inner, outer in pairwise(merged))
    return merged if ascending else caches


def _observed(cache: Cache, facts: HostFacts) -> Cache:
    known = facts.caches.get(cache.name)
    if known is None or not known.size:
        return cache
    line, ways = known.line or cache.line, known.ways or cache.ways
    core = facts.siblings.get(min(facts.threads), facts.threads)
    return replace(
        cache,
        size=known.size - known.size % (line * ways),
        line=line,
        ways=ways,
        shared=cache.shared or bool(known.sharers - core),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _bytes(text: str) -> int:
    """`48K` -> 49152; 0 where the kernel says nothing usable."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    return int(digits) * unit if digits.isdigit() else 0


def _cpu_list(text: str) -> frozenset[int]:
    """`0-3,8` -> {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
