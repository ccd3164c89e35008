"""Compile a source: to the LLVM dialect, or all the way, to functions in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mopt_mlir.compiler.executable import Executable, load
from mopt_mlir.compiler.lowered import LoweredModule, lower_module
from mopt_mlir.compiler.mismatches import warn_of_mismatches
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.pipeline.loading import errors_raised, load_module
from mopt_mlir.pipeline.pass_base import Pass

if TYPE_CHECKING:
    from mopt_mlir.lowering.target import Target


def compile(
    source: Any,
    *,
    machine: str = "auto",
    threads: int = 1,
    cpu: str | None = None,
    require_tiled: bool = False,
    passes: str | None = None,
    plan_cache: bool = True,
    candidates: int = 1,
    jobs: int = 1,
) -> Executable:
    """Compile `source` to native code in this process.

    `source` is a path, MLIR text, bytecode, or a module of any MLIR Python bindings, which is left
    as it is. The others are:

    - `machine`: what convolutions are tiled for, a known one, a .toml file, or `auto`: the host,
      with what the module says of its target, or the known machine closest to `cpu`;
    - `threads`: cores to use;
    - `cpu`: LLVM's name of the CPU to generate code for, the host unless given;
    - `require_tiled`: refuse what cannot be tiled, which is compiled to plain loops with a warning;
    - `passes`: what runs in the place of mopt-tile, as between the parentheses of a pipeline, where
      `mopt-tile{machine=... threads=...}` says itself what it plans for;
    - `plan_cache`: whether plans are kept on disk;
    - `candidates`: plans of each convolution to measure on this host, to take the fastest;
    - `jobs`: processes that plan, each another convolution, unless several candidates are measured.

    Raises TypeError for an argument of another type, and UserError, which carries the location, for
    whatever else is wrong.
    """
    options = CompileOptions(
        machine=machine,
        threads=threads,
        cpu=cpu,
        require_tiled=require_tiled,
        passes=passes,
        plan_cache=plan_cache,
        candidates=candidates,
        jobs=jobs,
    )
    return compile_with(source, options)


def compile_with(source: Any, options: CompileOptions) -> Executable:
    """`compile` for whoever has its options together."""
    target = options.target_here()
    return load(lower_source(source, options, target), target)


def lower_source(source: Any, options: CompileOptions, target: Target) -> LoweredModule:
    """Tile the convolutions of `source` and lower all of it to the LLVM dialect.

    `source` is that of `load_module`, `target` what code will be generated for. Raises UserError.
    """
    first = options.first_passes()
    if isinstance(first, Pass):
        first.check()  # a wrong name is not a mistake in the source
    with errors_raised():
        module = load_module(source)
        warn_of_mismatches(module, options, target)
        if options.candidates > 1:
            from mopt_mlir.compiler.choosing import choose_plans  # loads the solver

            choose_plans(module, options, target)
        return lower_module(module, options)
