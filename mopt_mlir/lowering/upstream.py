"""Upstream passes run on the caller's own module, with failures as located diagnostics."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import Diagnostic, Failure, collected_from, current_sink, sink


def run_upstream(module: Any, *passes: str) -> None:
    """Run upstream passes, each given as in a textual pipeline, in order on a `builtin.module`.

    MLIR's diagnostics go to the sink, once the passes are done: the sink of a pass of ours hands
    errors to MLIR, which would hand them to us again. Raises Failure, after these, if the module is
    invalid or a pass fails.

    What the passes are given is verified, and not again after each of them: that is a fifth of the
    time that compiling takes. The result is when the next ones are given it, or by the pass manager
    around the pass of ours.
    """
    bindings = bindings_of(module)
    pipeline = f"builtin.module({','.join(passes)})"
    reported: list[Diagnostic] = []
    try:
        with module.context as context, sink(reported.append), collected_from(context):
            module.verify()
            manager = bindings.passmanager.PassManager.parse(pipeline)
            manager.enable_verifier(False)
            manager.run(module)
    except bindings.ir.MLIRError:
        raise Failure(f"{pipeline} failed") from None
    finally:
        for diagnostic in reported:
            current_sink()(diagnostic)
