"""The machine that this process runs on: facts from the OS, the rest from a shipped file.

Latencies, issue widths and bandwidths are those of the shipped machine that is nearest in
archspec's graph of microarchitectures. A calibration, where there is one, replaces the clock and
the bandwidths by what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.calibration import Calibration
from mopt_mlir.machine.facts import HostFacts
from mopt_mlir.machine.files import MachineFile
from mopt_mlir.machine.machine import Cache, Machine
from mopt_mlir.machine.provenance import (
    CALIBRATION,
    DERIVED,
    SHIPPED_FILE,
    SYSTEM,
    Described,
    Source,
    describe_file,
)
from mopt_mlir.machine.spec import HOST
from mopt_mlir.machine.vector_unit import AVX2, widest
from mopt_mlir.wording import counted

_CPU = Source(SYSTEM, "the CPU's model and features")
_CACHES = Source(SYSTEM, "the caches in sysfs")
_CORES = Source(SYSTEM, "cores that this process may run on")
_TOTALS = Source(DERIVED, "from one core, the number of cores and what they share")


def describe_host(
    facts: HostFacts, shipped: Iterable[MachineFile], calibration: Calibration | None = None
) -> Described:
    """The machine of a host, with `calibration` if there is one.

    Raises UserError if the host is not x86-64 with AVX2 and FMA, and ValueError, naming the field,
    if the calibration does not fit the rest.
    """
    host = describe_file(_nearest(facts, shipped), SHIPPED_FILE)
    host = host.with_fields(_vector_unit(facts), _CPU)
    host = host.with_fields(_caches(host.machine, facts), _CACHES)
    if calibration is not None:
        host = host.with_fields(calibration.one_core(), _measured(calibration, 1))
    machine = host.machine.with_cores(facts.cores, facts.domains)
    host = host.with_fields({"cores": machine.cores}, _CORES)
    host = host.with_fields(machine.totals(), _TOTALS)
    if calibration is not None:
        together = _measured(calibration, min(facts.cores, calibration.threads))
        host = host.with_fields(calibration.all_cores(machine), together)
    host.machine.check()
    return replace(host, machine=replace(host.machine, name=HOST))


def _measured(calibration: Calibration, cores: int) -> Source:
    doubtful = ", doubtful" if calibration.remarks else ""
    busy = f"{counted(cores, 'core')} busy"
    return Source(CALIBRATION, f"{busy}, measured {calibration.date}{doubtful}")


def _nearest(facts: HostFacts, shipped: Iterable[MachineFile]) -> MachineFile:
    """The shipped file of the CPU or of its nearest ancestor."""
    if not facts.is_x86:
        raise UserError(
            f"this host is {facts.architecture}, and code is generated for x86-64 only; "
            "name a machine to compile for it, e.g. machine=znver5"
        )
    by_microarchitecture = {file.microarchitecture: file for file in shipped}
    known = (by_microarchitecture.get(name) for name in facts.lineage)
    nearest = next(filter(None, known), None)
    if nearest is None or widest(facts.features) is None:
        raise UserError(
            "this host has no AVX2 and FMA, which the generated code needs; "
            "name a machine to compile for another, e.g. machine=haswell"
        )
    return nearest


def _vector_unit(facts: HostFacts) -> dict[str, str | int]:
    unit = widest(facts.features) or AVX2
    fields = {"vector_bits": unit.bits, "vector_registers": unit.registers}
    return {"cpu": facts.cpu, **fields} if facts.cpu else {**fields}


def _caches(machine: Machine, facts: HostFacts) -> dict[str, int | bool]:
    """What the OS says of the caches of `machine`, unless that makes no hierarchy."""
    known: dict[str, int | bool] = {}
    for cache in machine.caches:
        observed = _observed(cache, facts, is_last=cache is machine.caches[-1])
        known |= {f"{cache.name}.{field}": value for field, value in observed}
    sizes = [known.get(f"{cache.name}.size", cache.size) for cache in machine.caches]
    return known if all(inner < outer for inner, outer in pairwise(sizes)) else {}


def _observed(cache: Cache, facts: HostFacts, *, is_last: bool) -> Iterable[tuple[str, int | bool]]:
    """Of an inner cache that a few cores share each gets its part, as if that were its own."""
    known = facts.caches.get(cache.name)
    if known is None or not known.size:
        return
    line, ways = known.line or cache.line, known.ways or cache.ways
    core = facts.siblings.get(facts.typical, facts.threads)
    size = known.size if is_last else known.size // max(1, facts.cores_of(known.sharers))
    yield "size", size - size % (line * ways)
    yield "line", line
    yield "ways", ways
    yield "shared", is_last and (cache.shared or bool(known.sharers - core))
