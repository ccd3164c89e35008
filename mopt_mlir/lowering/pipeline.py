"""Upstream passes run on the caller's own module, with failures as located diagnostics."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import collected_from
from mopt_mlir.pass_base import PassFailure


def run_upstream(module: Any, *passes: str) -> None:
    """Run upstream passes, each given as in a textual pipeline, in order on a `builtin.module`.

    MLIR's diagnostics go to the sink. Raises PassFailure after an error among them.
    """
    bindings = bindings_of(module)
    pipeline = f"builtin.module({','.join(passes)})"
    with module.context as context, collected_from(context):
        manager = bindings.passmanager.PassManager.parse(pipeline)
        try:
            manager.run(module)
        except bindings.ir.MLIRError:
            raise PassFailure(f"{pipeline} failed") from None
