"""What the tools print for people: tables and text, on standard output."""

from __future__ import annotations

import sys
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 110  # columns where the output is no terminal whose width could be asked for

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


def print_tables(*parts: Table | str, width: int = WIDTH) -> None:
    """Print `parts` as wide as the terminal, or with `width` columns where there is none.

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
        width=None if terminal else width,
        force_terminal=terminal or None,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part, highlight=False)
    # the names of files need not be UTF-8
    write_output("-", text.getvalue().encode(errors="surrogateescape"))
