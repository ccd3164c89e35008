"""What a cache keeps, line by line."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class LeastRecentlyUsed:
    """At most `ways` lines, of which the one goes that was not read for longest."""

    def __init__(self, ways: int) -> None:
        self._ways = ways
        self._lines: OrderedDict[Hashable, None] = OrderedDict()

    def fetches(self, line: Hashable) -> bool:
        """Read a line: whether it was not there."""
        missing = line not in self._lines
        self._lines[line] = None
        self._lines.move_to_end(line)
        if len(self._lines) > self._ways:
            self._lines.popitem(last=False)
        return missing
