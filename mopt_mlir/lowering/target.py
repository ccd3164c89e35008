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
from mopt_mlir.lowering.optimiser import optimise
from mopt_mlir.machine.spec import HOST
from mopt_mlir.machine.vector_unit import AVX2, VectorUnit, widest

_LIST_CPUS = """
import sys
sys.path[:] = [path for path in sys.path if path]  # no files of the working directory
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.Target.from_default_triple().create_target_machine(cpu="help")
"""

_VECTOR_EXTENSIONS = ("avx", "fma")  # how their names begin

_PROBE = """
define void @callee{i}(ptr %p) "target-cpu"="x86-64" "target-features"="+{feature}" {{
  store volatile i32 {i}, ptr %p
  ret void
}}
define void @caller{i}(ptr %p) "target-cpu"="{target.cpu}" "target-features"="{target.features}" {{
  call void @callee{i}(ptr %p)
  ret void
}}
"""
"""Two functions, the first of which LLVM inlines into the second where `target` has `feature`."""

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
    """The target for a CPU that LLVM knows, e.g. `znver5`, or for the host if `name` is HOST.

    Raises UserError, with similar names, if LLVM does not know it, and for a CPU without AVX2 and
    FMA.
    """
    if name == HOST:
        target = host()
    elif name in known_cpus():
        target = Target(name, _WIDE_VECTORS)
    else:
        close = get_close_matches(name.lower(), known_cpus(), 3, 0.5)
        hint = (
            f"did you mean {' or '.join(close)}?"
            if close
            else "such as haswell, skylake-avx512 or znver4"
        )
        raise UserError(f"LLVM knows no CPU '{name}'; {hint}")
    if widest(vector_features(target)) is None:
        raise UserError(
            f"CPU '{name}' has no AVX2 and FMA, which the generated code needs; "
            "the least that serves is haswell or x86-64-v3"
        )
    return target


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
    lacking = sorted(vector_features(target) - vector_features(host()))
    if lacking:
        raise UserError(
            f"code for '{target.cpu}' does not run here: this CPU lacks {', '.join(lacking)}"
        )


def vector_unit(target: Target) -> VectorUnit:
    """The widest vectors that `target` computes with."""
    return widest(vector_features(target)) or AVX2


@cache
def vector_features(target: Target) -> frozenset[str]:
    """The vector extensions of `target`, by LLVM's names, e.g. `avx2` and `fma`.

    LLVM has no list to be read, but it inlines a function only where all features that the function
    may use are there. So for each extension a function that has it is called from one for `target`.
    """
    import llvmlite.binding as llvm

    names = sorted(f for f in llvm.get_host_cpu_features() if f.startswith(_VECTOR_EXTENSIONS))
    # of a 32-bit CPU as well, for which LLVM would end the process
    target = Target(target.cpu, f"{target.features},+64bit")
    functions = (_PROBE.format(i=i, feature=f, target=target) for i, f in enumerate(names))
    machine = target.machine()
    module = llvm.parse_assembly("\n".join(functions), llvm.create_context())
    module.triple = machine.triple
    optimise(module, machine, llvm.create_pipeline_tuning_options(speed_level=2))
    callers = (str(module.get_function(f"caller{i}")) for i in range(len(names)))
    return frozenset(f for f, text in zip(names, callers, strict=True) if "@callee" not in text)
