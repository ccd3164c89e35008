"""What the tools print for people: tables and text, on standard output."""

from __future__ import annotations

import sys
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_UNBOUNDED = 1 << 16  # columns: more than any table has

CLASSES_NOTE = """\
classes: at L3, L2 and L1, the innermost loop over tiles that moves the input and those inside it,
outermost first; in "wk" k is the innermost, and w is around it
"""
BOTTLENECK_NOTE = """\
bottleneck: what the model expects to take longest: computing, packing weights, moving data from a
memory level, or handing out work to cores (parallel)
"""
GAP_NOTE = """\
gap: by how much another of the solver's plans could at most be better in the model, proven
"""
"""What columns mean that several tables of plans have, for the notes below them."""


def print_tables(*parts: Table | str) -> None:
    """Print `parts`, tables no wider than the terminal, or as wide as their contents where there is
    none.

    Brackets and colons in them are no markup, as users' names have some. Raises UserError if
    standard output cannot be written.
    """
    from rich.console import Console

    from mopt_mlir.output import write_output

    terminal = sys.stdout is not None and sys.stdout.isatty()
    # into a text first: what goes wrong with standard output is for `write_output` to say
    text = StringIO()
    console = Console(
        file=text,
        width=None if terminal else _UNBOUNDED,
        force_terminal=terminal or None,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part, highlight=False)
    # the names of files need not be UTF-8
    write_output("-", text.getvalue().encode(errors="surrogateescape"))
