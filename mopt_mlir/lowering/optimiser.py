"""LLVM's optimiser, through llvmlite."""

from __future__ import annotations

from typing import Any


def optimise(module: Any, machine: Any, options: Any) -> None:
    """Run LLVM's default pipeline on a module, for a target machine, with tuning options."""
    import llvmlite.binding as llvm
    from llvmlite.binding.ffi import ObjectRef
    from llvmlite.binding.newpassmanagers import NewPassManager

    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    try:
        manager.run(module, builder)
    finally:
        # llvmlite 0.50 frees no pass manager: the `_dispose` that it inherits first does nothing
        if type(manager)._dispose is ObjectRef._dispose:
            NewPassManager._dispose(manager)
            manager.detach()
