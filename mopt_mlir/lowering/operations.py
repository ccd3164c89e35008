"""Finding operations."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of


def find(root: Any, *names: str) -> list[Any]:
    """The operations inside `root` called one of `names`, collected before anything is changed."""
    ir = bindings_of(root).ir
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    return found
