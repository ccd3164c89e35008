"""The CPU that native code is for, and LLVM's target machine for it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from mopt_mlir.diagnostics import UserError

_LIST_CPUS = """
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.Target.from_default_triple().create_target_machine(cpu="help")
"""

_WIDE_VECTORS = "-prefer-256-bit"
"""Some AVX-512 CPUs are tuned for 256-bit vectors, in LLVM; the plan has decided that already."""


@dataclass(frozen=True)
class Target:
    """`cpu` is LLVM's name of a CPU of the host's architecture; `features` as in `+avx2,-fma`, on
    top of what the name implies."""

    cpu: str
    features: str

    def machine(self) -> Any:
        """LLVM's target machine, for position-independent code."""
        import llvmlite.binding as llvm

        initialize()
        target = llvm.Target.from_default_triple()
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="small"
        )


@cache
def initialize() -> None:
    """Set up LLVM's code generator, once per process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@cache
def host() -> Target:
    """The CPU that this process runs on, with the features that the system lets it use."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return Target(llvm.get_host_cpu_name(), f"{features},{_WIDE_VECTORS}")


@cache
def of_cpu(name: str) -> Target:
    """The target for a CPU that LLVM knows, e.g. `znver5`, or for the host if `name` is `host`.

    Raises UserError, with similar names, if LLVM does not know it.
    """
    if name == "host":
        return host()
    if name not in known_cpus():
        close = get_close_matches(name.lower(), known_cpus(), 3, 0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "see `clang -mcpu=help`"
        raise UserError(f"LLVM knows no CPU '{name}'; {hint}")
    return Target(name, _WIDE_VECTORS)


@cache
def known_cpus() -> tuple[str, ...]:
    """The CPUs that LLVM knows for the host's architecture.

    LLVM prints them to stderr and in no other way, so that a process of its own has to be asked.
    """
    command = [sys.executable, "-c", _LIST_CPUS]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"LLVM cannot be asked which CPUs it knows: {error}") from None
    listing, _, _ = printed.partition("Available features")
    return tuple(dict.fromkeys(re.findall(r"^  (\S+) +- Select the", listing, re.MULTILINE)))


def check_runs_here(target: Target) -> None:
    """Raise UserError if code for `target` would use vector instructions that this CPU lacks."""
    import llvmlite.binding as llvm

    if target == host():
        return
    ours = llvm.get_host_cpu_features()
    lacking = sorted(f for f in _vector_features(target.cpu) if not ours.get(f, False))
    if lacking:
        raise UserError(
            f"code for '{target.cpu}' does not run here: this CPU lacks {', '.join(lacking)}"
        )


def vector_bits(target: Target) -> int:
    """Bits of the widest vectors that `target` computes with."""
    if target == host():
        features = set(target.features.split(","))
        return 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
    known = _vector_features(target.cpu)
    return 512 if "avx512f" in known else 256 if "avx2" in known else 128


def _vector_features(cpu: str) -> set[str]:
    """The vector extensions that LLVM uses for `cpu`; none if nothing is known of it."""
    import archspec.cpu

    for microarchitecture in archspec.cpu.TARGETS.values():
        clang = microarchitecture.compilers.get("clang", ())
        if cpu in {microarchitecture.name.replace("_", "-"), *(c.get("name") for c in clang)}:
            return {f for f in microarchitecture.features if f.startswith(("avx", "fma"))}
    return set()
