"""Where a benchmark runs: cores, environment variables for all peers alike, and what to record."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import facts
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from mopt_mlir.machine import Machine

ROOT = Path(__file__).resolve().parents[1]
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
"""Where `make bench-peers` installs the peers."""

_GENERATOR = (
    *(f"{name}.py" for name in ("buffers", "func_ops", "layouts", "loop_nest", "microkernel")),
    *(f"{name}.py" for name in ("normal_form", "operations", "plain_attributes", "plain_data")),
    *(f"{name}.py" for name in ("plan", "problem", "vector_access")),
    *(f"machine/{name}.py" for name in ("spec", "vector_unit")),
    *(f"planning/{name}.py" for name in ("plan_attribute", "planned")),
    *(f"{name}/**/*.py" for name in ("codegen", "compiler", "linalg", "lowering", "passes")),
    "pipeline/*.py",
)
"""What the code of a given plan depends on, from where the package looks for its parts; but for the
figures of the machine."""

_FOR_ALL = {
    # Results stay on the heap from call to call. Otherwise large ones are unmapped, and page faults
    # are measured.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that glibc accepts
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    # Threads wait spinning, also while caches are flushed, so that nobody pays for waking them.
    # A worker that is not measured is stopped.
    "OMP_WAIT_POLICY": "active",
    "KMP_BLOCKTIME": "infinite",
    "OMP_DYNAMIC": "false",
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS")
_LOAD_SAMPLES = 25
_LOAD_SECONDS = 0.5
_HASH_DIGITS = 12
_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


def peers_python() -> str:
    """The Python that has the peers: their own environment if there is one."""
    return str(PEERS_PYTHON) if PEERS_PYTHON.exists() else sys.executable


def worker_environment(threads: int, isa: str) -> dict[str, str]:
    """This process's environment with what all workers share."""
    limits = dict.fromkeys(_THREADS, str(threads))
    # Without it a thread that spins and one that works share a core for whole time slices.
    pinned = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"} if threads > 1 else {}
    return {**os.environ, **_FOR_ALL, **limits, **pinned, **(_AVX2 if isa == "avx2" else {})}


def available_cpus() -> list[int]:
    """The logical CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def core_cpus(sysfs: Path = facts.SYSFS, cgroup: Path = facts.CGROUP) -> list[int]:
    """One logical CPU of each core that this process may use at the same time, the last one first:
    the first serve most interrupts."""
    seen = facts.observe(sysfs, cgroup=cgroup)
    return list(seen.one_per_core(reversed(available_cpus()))[: seen.cores])


def choose_cpus(threads: int, sysfs: Path = facts.SYSFS, cgroup: Path = facts.CGROUP) -> list[int]:
    """A logical CPU for each of `threads`, on cores of their own.

    Raises UserError if there are not so many cores.
    """
    cpus = core_cpus(sysfs, cgroup)
    if not 1 <= threads <= len(cpus):
        raise UserError(f"threads={threads}: this process may use {counted(len(cpus), 'core')}")
    return sorted(cpus[:threads])


def machine_of(cpus: Sequence[int]) -> Machine:
    """The host as it is planned for on `cpus`, with all of its cores: a worker that is pinned to
    them finds their caches, and those of the first core may be others."""
    from mopt_mlir.machine import host

    return host(facts.observe(typical=min(cpus)))


def describe_machine(machine: Machine) -> dict[str, Any]:
    """The host: `machine` is what plans are made for; and its operating system."""
    return {
        "cpu": cpu_model(),
        "planned_for": asdict(machine),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
    }


def cpu_model(cpuinfo: Path = facts.CPUINFO) -> str:
    """The CPU's own name for itself, or what kind it is."""
    return facts.model_name(cpuinfo) or platform.machine()


def own_versions() -> dict[str, str]:
    """Of the compiler and what it is built on."""
    names = ("mopt-mlir", "xtc-mlir-python-bindings", "llvmlite", "pyscipopt", "numpy")
    return {name: metadata.version(name) for name in names}


def commit() -> str | None:
    """The checkout's commit, with `-dirty` if files differ from it; None outside a checkout."""
    head = _git("rev-parse", "HEAD")
    if head is None:
        return None
    return head + ("-dirty" if _git("status", "--porcelain", "--untracked-files=no") else "")


def short_commit(commit: str | None) -> str:
    """What `commit` says, with a hash of ten digits."""
    if commit is None:
        return "unknown"
    digits, dirty, _ = commit.partition("-dirty")
    return digits[:10] + dirty


def provenance(machine: Machine) -> dict[str, str]:
    """Hashes of what plans for `machine` and their code depend on, beside the arguments: a commit
    tells only where no file differs from it, and the name of a CPU nothing of a calibration."""
    from mopt_mlir.planning.plan_cache import version

    # the representation of a frozen dataclass has all its fields, and floats exactly
    figures = sha256(repr(machine).encode()).hexdigest()
    return {
        "generator": generator_version(),
        "model": version()[:_HASH_DIGITS],
        "machine figures": figures[:_HASH_DIGITS],
    }


@cache
def generator_version() -> str:
    """A hash of the sources that the code of a given plan depends on."""
    digest = sha256()
    for path in generator_sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_HASH_DIGITS]


def generator_sources() -> list[Path]:
    """These sources, of which `passes` may lie beside the package."""
    import mopt_mlir

    roots = [Path(root) for root in mopt_mlir.__path__]
    return [path for at in _GENERATOR for root in roots for path in sorted(root.glob(at))]


def _git(*arguments: str) -> str | None:
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def load(loadavg: Path = Path("/proc/loadavg")) -> float:
    """How many threads other than this one want to run, on average over half a second; 0 where the
    system does not say. Not the load average: that counts the configuration measured before."""
    samples = []
    for _ in range(_LOAD_SAMPLES):
        try:
            running = loadavg.read_text().split()[3].partition("/")[0]
            samples.append(int(running) - 1)
        except (OSError, IndexError, ValueError):
            return 0.0
        sleep(_LOAD_SECONDS / _LOAD_SAMPLES)
    return sum(samples) / len(samples)


def today() -> str:
    """Date and time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
