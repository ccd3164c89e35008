"""How to compile: what the keywords of `mopt_mlir.compile` and the flags of the tools share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import Machine
from mopt_mlir.machine.spec import AUTO, HOST, MachineSpec
from mopt_mlir.planning.solving import check_jobs
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from mopt_mlir.lowering.target import Target
    from mopt_mlir.pipeline.pass_base import Pass

_MOST_CANDIDATES = 100
"""More are taken for a mistake, as each is compiled and timed."""

_KINDS: dict[str, tuple[type, ...]] = {
    "machine": (str,),
    "threads": (int,),
    "cpu": (str, type(None)),
    "require_tiled": (bool,),
    "passes": (str, type(None)),
    "plan_cache": (bool,),
    "candidates": (int,),
    "jobs": (int,),
}


@dataclass(frozen=True)
class CompileOptions:
    """`machine` is what convolutions are tiled for: `auto` is the shipped machine closest to `cpu`
    if that is given, else the host, with what the module says of its target.

    `threads` is the number of cores, `cpu` (LLVM's name) what instructions are selected for.
    `passes` replaces `mopt-tile`, written as between the parentheses of a pipeline, and has to say
    itself how it plans; `threads` is then what code behind it may use, and `machine` what files are
    for. An operation that mopt-tile leaves becomes plain loops with a warning; with `require_tiled`
    it is an error. With `plan_cache` plans are kept on disk, see `planning.plan_cache`. Of so many
    `candidates` per convolution the one is taken that is fastest on this host, see `choosing`; 1
    measures nothing. So many processes plan (`jobs`), each another convolution; where candidates
    are measured, one after the other is planned.

    Raises TypeError for a value of another type, UserError for one that makes no sense.
    """

    machine: str = AUTO
    threads: int = 1
    cpu: str | None = None
    require_tiled: bool = False
    passes: str | None = None
    plan_cache: bool = True
    candidates: int = 1
    jobs: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.machine, Machine):
            raise TypeError(
                "machine is a Machine, and a text that names one is needed, as 'znver5,cores=2' or "
                "'mine.toml' do; or attach the plans that mopt_mlir.solve finds for a Machine with "
                "mopt_mlir.attach_plan"
            )
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                kind = type(value).__name__
                raise TypeError(f"{name}={value!r} is of type {kind}, not {kinds[0].__name__}")
        if self.threads < 1:
            raise UserError(f"threads={self.threads}: at least one thread is needed")
        check_jobs(self.jobs)
        if not 1 <= self.candidates <= _MOST_CANDIDATES:
            raise UserError(f"candidates={self.candidates}: not from 1 to {_MOST_CANDIDATES}")
        if self.passes is not None:
            self._check_passes()

    def _check_passes(self) -> None:
        """Raise UserError for what would only matter to the `mopt-tile` that `passes` replaces."""
        replaced = self._replaced
        if self.candidates > 1:
            raise UserError(f"candidates={self.candidates} are plans for mopt-tile, {replaced}")
        if self.require_tiled:
            raise UserError(f"require_tiled=True is asked of mopt-tile, {replaced}")
        if not self.plan_cache:
            raise UserError(
                f"plan_cache=False is asked of mopt-tile, {replaced}, or say plan-cache=false there"
            )
        if self.jobs > 1:
            raise UserError(f"jobs={self.jobs} plan for mopt-tile, {replaced}, or say so there")

    @property
    def _replaced(self) -> str:
        return f"which passes='{self.passes}' replaces; leave out one of the two"

    @property
    def planned_machine(self) -> str:
        """The machine to plan for, as `mopt_mlir.machine.resolve` takes it."""
        from mopt_mlir.lowering.target import of_cpu

        spec = MachineSpec.parse(self.machine)
        if spec.base != AUTO or self.cpu is None or self.cpu == HOST:
            return self.machine
        return str(replace(spec, base=closest_machine(of_cpu(self.cpu))))

    def first_passes(self) -> str | Pass:
        """What runs in front of the lowering, for `mopt_mlir.add_passes`."""
        from mopt_mlir.pipeline.pass_registry import create

        if self.passes is not None:
            return self.passes
        return create("mopt-tile", **self.planning_options())

    def planning_options(self) -> dict[str, str | int | bool]:
        """The options of a pass that plans."""
        return {
            "machine": self.planned_machine,
            "threads": self.threads,
            "plan_cache": self.plan_cache,
            "jobs": self.jobs,
        }

    def target_here(self) -> Target:
        """What code is for that runs in this process: the host unless `cpu` is given.

        Raises UserError if this host lacks the instructions, or has fewer CPUs than `threads`, and
        for a machine that nobody would plan for.
        """
        from mopt_mlir.lowering.target import of_cpu

        if self.passes is not None and self.machine != AUTO:
            reason = f"machine='{self.machine}' is for mopt-tile, {self._replaced}"
            raise UserError(f"{reason}, or say mopt-tile{{machine=...}} there")
        target = of_cpu(self.cpu or HOST)
        self.check_runs_here(target)
        return target

    def check_runs_here(self, target: Target) -> None:
        """Raise UserError if this host lacks instructions that code for `target` uses, or has fewer
        CPUs than `threads`."""
        from mopt_mlir.lowering.target import check_runs_here
        from mopt_mlir.machine.facts import affinity

        check_runs_here(target)
        available = len(affinity())
        if self.threads > available:
            raise UserError(
                f"threads={self.threads}: this process may run on {counted(available, 'CPU')}; "
                "use fewer threads"
            )

    def target_of_files(self) -> Target:
        """What code in files is for: the CPU of the machine unless `cpu` is given."""
        from mopt_mlir.lowering.target import of_cpu
        from mopt_mlir.machine import resolve

        spec = MachineSpec.parse(self.machine)
        is_host = spec.base in (AUTO, HOST) and "cpu" not in spec.overrides
        return of_cpu(self.cpu or (HOST if is_host else resolve(self.machine).cpu))


def closest_machine(target: Target) -> str:
    """The shipped machine for a CPU with vectors as wide as that of `target`: its own, else that of
    the nearest ancestor, else a generic one."""
    from mopt_mlir.lowering.target import vector_unit
    from mopt_mlir.machine.facts import lineage_of
    from mopt_mlir.machine.registry import names, shipped

    unit = vector_unit(target)
    files = {name: shipped(name) for name in names()}
    fitting = {name: file for name, file in files.items() if file.machine.vector_bits == unit.bits}
    own = (name for name, file in fitting.items() if file.machine.cpu == target.cpu)
    related = (
        name
        for ancestor in lineage_of(target.cpu)
        for name, file in fitting.items()
        if file.microarchitecture == ancestor
    )
    return next(own, None) or next(related, unit.generic_machine)
