"""Where in a loop nest an operation goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mopt_mlir.codegen.operands import Panels
from mopt_mlir.codegen.partials import Partials
from mopt_mlir.codegen.ranges import Range, Ranges
from mopt_mlir.codegen.upcoming import Upcoming


@dataclass(frozen=True)
class Place:
    """Where the next operation goes: what the open loops cover of each dim, the packed
    weights if they are filled, and the memory that they will be packed into if it is allocated.
    `share` is what the core covers of each dim: all of it, or a part of a tile of L3. `upcoming` is
    what is read and written next. `partials` are the partial sums, if they have memory of their
    own."""

    ranges: Ranges
    share: Ranges
    upcoming: Upcoming
    panels: Panels | None = None
    panel_memory: Any = None
    partials: Partials | None = None

    def at(self, dim: str, range_: Range) -> Place:
        return replace(self, ranges={**self.ranges, dim: range_})

    @property
    def sums_memory(self) -> Any:
        """That of `partials`."""
        return None if self.partials is None else self.partials.memref

    @property
    def deeper(self) -> int:
        """The depth of a loop that is opened here."""
        return 1 + max(range_.depth for range_ in self.ranges.values())
