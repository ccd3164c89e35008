"""What tools are given that take lists of operators as well as modules."""

from __future__ import annotations

from pathlib import Path

from mopt_mlir.diagnostics import UserError
from mopt_mlir.pipeline.source import Source, read
from mopt_mlir.planning.operators import LISTS, is_list
from mopt_mlir.wording import guess


def list_or_source(name: str) -> str | Source:
    """A list, by its name, or else the module in the file of that name, read. Raises UserError for
    a file that cannot be read, with the list that may have been meant."""
    if is_list(name):
        return name
    if name != "-" and not Path(name).exists() and (hint := guess(name, LISTS)):
        raise UserError(f"there is no such file; {hint}", name)
    return read(name)
