"""What archspec, LLVM and the operating system say of the machine that this process runs on.

archspec and LLVM tell which CPU it is, sysfs its caches, the scheduler's affinity mask its cores.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from mopt_mlir.machine.vector_unit import AVX512

if TYPE_CHECKING:
    from archspec.cpu import Microarchitecture

SYSFS = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
CGROUP = Path("/sys/fs/cgroup")

_AMX, _PREFETCH_CODE = "amx-tile", "prefetchi"
"""Instructions, by LLVM's names, that came with Sapphire Rapids and with Granite Rapids."""

_WITH_AMX: Mapping[str, tuple[str, ...]] = {
    "sapphirerapids": (),
    "emeraldrapids": ("sapphirerapids",),
    "graniterapids": ("sapphirerapids",),
    "graniterapids-d": ("graniterapids", "sapphirerapids"),
    "diamondrapids": ("graniterapids", "sapphirerapids"),
}
"""CPUs, by LLVM's names, and the ones before them up to the one that archspec knows."""


@dataclass(frozen=True)
class CacheFacts:
    """What the OS says of one cache; 0 where it does not know."""

    size: int
    line: int
    ways: int
    sharers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class HostFacts:
    """What is known of a host."""

    architecture: str
    """`platform.machine()`."""
    cpu: str
    """LLVM's name."""
    lineage: tuple[str, ...]
    """That name and archspec's names of the microarchitecture and its ancestors, nearest first, all
    of them with features that the OS enables."""
    features: frozenset[str]
    """The vector extensions."""
    threads: frozenset[int] = frozenset({0})
    """The logical CPUs that this process may run on."""
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Those of the same core, of each logical CPU."""
    caches: Mapping[str, CacheFacts] = field(default_factory=dict)
    """Those of the logical CPU `typical`, which stands for all."""
    last_sharers: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Those that share its L3, of each logical CPU that has one."""
    quota: float | None = None
    """How many CPUs' time a container has, None if it is not limited."""
    model: str = ""
    """The CPU's marketing name."""
    typical: int = 0

    @property
    def is_x86(self) -> bool:
        return _is_x86(self.architecture)

    @property
    def cores(self) -> int:
        """Physical cores that this process may use at the same time: the second thread of a core
        adds no vector unit, and a container may have the time of fewer."""
        there = self.cores_of(self.threads)
        return there if self.quota is None else max(1, min(there, ceil(self.quota)))

    def cores_of(self, cpus: Iterable[int]) -> int:
        """Physical cores of some logical CPUs."""
        return len(self.one_per_core(cpus))

    def one_per_core(self, cpus: Iterable[int]) -> tuple[int, ...]:
        """The first on each core of some logical CPUs, in their order."""
        first: dict[frozenset[int], int] = {}
        for cpu in cpus:
            first.setdefault(self.siblings.get(cpu, frozenset({cpu})), cpu)
        return tuple(first.values())

    @property
    def installed_cores(self) -> int:
        """Physical cores of the machine, whatever this process may use of them."""
        return len({*self.siblings.values()}) or self.cores_of(self.threads)

    @property
    def domains(self) -> int:
        """Instances of the last cache that the cores are spread over."""
        return len(self._sharing_groups(self.places[: self.cores]))

    def sharing(self, cpus: Sequence[int]) -> int:
        """How many of these logical CPUs, on cores of their own, have a last cache in common at
        the most."""
        return max(map(len, self._sharing_groups(cpus)))

    @property
    def places(self) -> tuple[int, ...]:
        """A logical CPU on each core: neighbours share a last cache, the first ones that of the
        typical core, and those without one are the last."""
        near = self.last_sharers.get(self.typical, frozenset())

        def order(cpu: int) -> tuple[bool, bool, int, int]:
            last = self.last_sharers.get(cpu, frozenset())
            return cpu not in near, not last, min(last, default=0), cpu

        return tuple(sorted(self.one_per_core(sorted(self.threads)), key=order))

    def by_last_cache(self, cpus: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Logical CPUs in groups that share a last cache, of which those without one are another;
        all are one group where no last cache is known."""
        groups: dict[frozenset[int], list[int]] = {}
        for cpu in cpus:
            groups.setdefault(self.last_sharers.get(cpu, frozenset()), []).append(cpu)
        return tuple(map(tuple, groups.values()))

    def _sharing_groups(self, cpus: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """`by_last_cache` without those that have none: small cores beside the others."""
        return self.by_last_cache([cpu for cpu in cpus if cpu in self.last_sharers] or cpus)


def observe(
    sysfs: Path = SYSFS,
    threads: frozenset[int] | None = None,
    cpuinfo: Path = CPUINFO,
    cgroup: Path = CGROUP,
    typical: int | None = None,
) -> HostFacts:
    """Ask archspec, LLVM and the OS, about `threads` or those that this process may run on, of
    which `typical`, or the first, stands for all.

    Leaves out what they do not say.
    """
    import archspec.cpu
    from llvmlite import binding as llvm

    architecture = platform.machine()
    threads = threads or affinity()
    typical = min(threads) if typical is None else typical
    target = archspec.cpu.host()
    cpu, lineage = "", _lineage(target)
    if _is_x86(architecture):
        features = llvm.get_host_cpu_features()
        instructions = frozenset(name for name, enabled in features.items() if enabled)
        cpu, lineage = _microarchitecture(llvm.get_host_cpu_name(), instructions, target)
    return HostFacts(
        architecture=architecture,
        cpu=cpu,
        lineage=lineage,
        features=_vectors(target),
        threads=threads,
        siblings=_siblings(sysfs),
        caches=_caches(sysfs / f"cpu{typical}"),
        last_sharers=_last_sharers(sysfs),
        quota=_quota(cgroup),
        model=model_name(cpuinfo),
        typical=typical,
    )


def _is_x86(architecture: str) -> bool:
    return architecture.lower() in ("x86_64", "amd64")


def _microarchitecture(
    name: str, instructions: frozenset[str], target: Microarchitecture
) -> tuple[str, tuple[str, ...]]:
    """LLVM's name of the host, or "", and its lineage. LLVM calls it `name` and finds
    `instructions`, archspec holds it for `target`.

    Hypervisors hide features that matter to no convolution, and archspec then falls back to a
    generic `target`. LLVM goes by family and model, so its name is the better one as long as no
    vector extension is hidden: its CPU would bring instructions that trap. If family and model are
    hidden as well, instructions tell that no CPU of that name has.
    """
    if _AMX in instructions and name not in _WITH_AMX:
        name = "graniterapids" if _PREFETCH_CODE in instructions else "sapphirerapids"
    nearest = _nearest(name)
    if nearest is None or not _vectors(nearest) <= frozenset(target.features):
        return "", _lineage(target)
    return name, lineage_of(name)


def lineage_of(name: str) -> tuple[str, ...]:
    """The CPU with this name of LLVM's, then archspec's names of it and of its ancestors, nearest
    first; nothing if archspec knows none of them."""
    nearest = _nearest(name)
    if nearest is None:
        return ()
    return tuple(dict.fromkeys((name, *_WITH_AMX.get(name, ()), *_lineage(nearest))))


def _nearest(name: str) -> Microarchitecture | None:
    """What archspec knows that comes closest to the CPU with this name of LLVM's."""
    import archspec.cpu

    known = (name, *_WITH_AMX.get(name, ()))[-1]
    found = [target for target in archspec.cpu.TARGETS.values() if known in _llvm_names(target)]
    # an old clang calls a new CPU by the name of its ancestor
    return min(found, key=lambda target: len(target.ancestors), default=None)


def _lineage(target: Microarchitecture) -> tuple[str, ...]:
    return (target.name, *(ancestor.name for ancestor in target.ancestors))


def _vectors(target: Microarchitecture) -> frozenset[str]:
    return frozenset(target.features) & AVX512.features


def _llvm_names(target: Microarchitecture) -> frozenset[str]:
    names = {entry.get("name", target.name) for entry in target.compilers.get("clang", ())}
    # archspec knows one Ice Lake, LLVM tells the server part from the client's
    return frozenset(names | {"icelake-server"} if target.name == "icelake" else names)


_BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "KMP_AFFINITY", "GOMP_CPU_AFFINITY")
"""Variables by which OpenMP is asked to bind threads to cores."""

_unbound: set[int] = set()
"""The CPUs from before that."""


def remember_affinity() -> None:
    """Call it before OpenMP is loaded, which may bind the thread that first uses it, as a rule the
    main one, to one core: `affinity` then goes on with those from before."""
    if any(name in os.environ for name in _BINDING):
        _unbound.update(affinity())


def affinity() -> frozenset[int]:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0) | _unbound)
    return frozenset(range(os.cpu_count() or 1))


def pin(cpu: int) -> None:
    """Have the calling thread run on a logical CPU, if the OS allows it."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # it was taken away meanwhile: the scheduler decides
            os.sched_setaffinity(0, {cpu})  # 0 is the calling thread


@cache
def model_name(cpuinfo: Path = CPUINFO) -> str:
    """The CPU's own name for itself, or what Python calls the processor."""
    named = re.search(r"^model name\s*:\s*(.+)$", text_of(cpuinfo), re.MULTILINE)
    return " ".join(named[1].split()) if named else platform.processor()


@cache
def _siblings(sysfs: Path) -> dict[int, frozenset[int]]:
    """Of every logical CPU that is online."""
    return {
        int(cpu.name[3:]): siblings
        for cpu in sysfs.glob("cpu[0-9]*")
        if (siblings := _cpu_list(text_of(cpu / "topology/thread_siblings_list")))
    }


@cache
def _last_sharers(sysfs: Path) -> dict[int, frozenset[int]]:
    """Of every logical CPU that is online those that share its L3, as far as sysfs tells."""
    return {
        cpu: last.sharers
        for cpu in _siblings(sysfs)
        if (last := _caches(sysfs / f"cpu{cpu}").get("L3")) is not None
    }


def _quota(cgroup: Path) -> float | None:
    """How many CPUs' time this process's container has, by version 2 of cgroups or by 1."""
    new = text_of(cgroup / "cpu.max").split()
    old = [text_of(cgroup / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    for quota, period in (new, old) if len(new) == 2 else (old,):
        if quota.isdigit() and period.isdigit() and int(quota) and int(period):
            return int(quota) / int(period)
    return None


def _caches(cpu: Path) -> dict[str, CacheFacts]:
    """Data and unified caches by name; empty where sysfs does not describe them."""
    caches = {}
    for index in sorted(cpu.glob("cache/index*")):
        if text_of(index / "type") in ("Data", "Unified"):
            caches[f"L{text_of(index / 'level')}"] = CacheFacts(
                size=_bytes(text_of(index / "size")),
                line=_bytes(text_of(index / "coherency_line_size")),
                ways=_bytes(text_of(index / "ways_of_associativity")),
                sharers=_cpu_list(text_of(index / "shared_cpu_list")),
            )
    return caches


def text_of(path: Path) -> str:
    """What the system says there, without space around it; nothing if it does not."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
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
