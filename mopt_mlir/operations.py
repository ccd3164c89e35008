"""The operations of a module."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of


def inside(root: Any) -> list[Any]:
    """`root` and all operations inside, from the innermost out, as they are before any changes."""
    advance = bindings_of(root).ir.WalkResult.ADVANCE
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        found.append(operation)
        return advance

    root.walk(visit)
    return found


def find(root: Any, *names: str) -> list[Any]:
    """The operations `inside` that are called one of `names`."""
    return [operation for operation in inside(root) if operation.name in names]
