"""Caches as generated code: least recently used, written back, allocated on a miss of a store.

Each set of a cache is a circular list of the lines in it, most recently used first, so that an
access costs the same whatever the associativity; full associativity is a single set. Lines are
numbered from 0 on, over all memory that the traced code touches, and each cache has an array of
nodes, one for each line and behind these one for each set, which is where its list begins:

    node of a line: previous, next, state (0: not in this cache, 1: is, 3: is and was written to)
    node of a set:  least recent, most recent, number of lines

A miss fetches the line from the next cache. What is displaced is put into the next cache if it was
written to, without fetching it from further out: all of it is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mopt_mlir.machine.machine import Cache

from .trace import ADVISE, FREE, LOAD, STORE, STREAM

PREVIOUS, NEXT, STATE = 0, 1, 2

READ, WRITTEN = 0, 1
"""Whether a line was first touched by a load or by a store, in counts `[region, how]`."""

_DIRTY = 2  # bit of a state

_COMMON = f"""
%node = type {{ i32, i32, i32 }}

@accesses = external global i64
@moved = external global [0 x i64]
@streamed = external global [0 x i64]
@outside = external global i64

define internal void @{FREE}(ptr %block) {{
  ret void
}}
define internal i32 @{ADVISE}(ptr %block, i64 %size, i32 %advice) {{
  ret i32 0
}}

define internal ptr @field(ptr %nodes, i32 %node, i32 %field) alwaysinline {{
  %wide = zext i32 %node to i64
  %pointer = getelementptr %node, ptr %nodes, i64 %wide, i32 0
  %wide.field = zext i32 %field to i64
  %found = getelementptr i32, ptr %pointer, i64 %wide.field
  ret ptr %found
}}
define internal i32 @get(ptr %nodes, i32 %node, i32 %field) alwaysinline {{
  %pointer = call ptr @field(ptr %nodes, i32 %node, i32 %field)
  %value = load i32, ptr %pointer
  ret i32 %value
}}
define internal void @set(ptr %nodes, i32 %node, i32 %field, i32 %value) alwaysinline {{
  %pointer = call ptr @field(ptr %nodes, i32 %node, i32 %field)
  store i32 %value, ptr %pointer
  ret void
}}
define internal void @unlink(ptr %nodes, i32 %line) alwaysinline {{
  %before = call i32 @get(ptr %nodes, i32 %line, i32 {PREVIOUS})
  %after = call i32 @get(ptr %nodes, i32 %line, i32 {NEXT})
  call void @set(ptr %nodes, i32 %before, i32 {NEXT}, i32 %after)
  call void @set(ptr %nodes, i32 %after, i32 {PREVIOUS}, i32 %before)
  ret void
}}
define internal void @push(ptr %nodes, i32 %set, i32 %line) alwaysinline {{
  %first = call i32 @get(ptr %nodes, i32 %set, i32 {NEXT})
  call void @set(ptr %nodes, i32 %line, i32 {PREVIOUS}, i32 %set)
  call void @set(ptr %nodes, i32 %line, i32 {NEXT}, i32 %first)
  call void @set(ptr %nodes, i32 %first, i32 {PREVIOUS}, i32 %line)
  call void @set(ptr %nodes, i32 %set, i32 {NEXT}, i32 %line)
  ret void
}}
define internal void @add(ptr %counts, i32 %at, i64 %amount) alwaysinline {{
  %wide = zext i32 %at to i64
  %pointer = getelementptr i64, ptr %counts, i64 %wide
  %old = load i64, ptr %pointer
  %new = add i64 %old, %amount
  store i64 %new, ptr %pointer
  ret void
}}
"""

_CACHE = f"""
@{{name}}.nodes = external global [0 x %node]
@{{name}}.fills = external global [0 x i64]
@{{name}}.written = external global [0 x i64]

; %slot is where a miss counts, -1 for a line that comes from the cache inside.
define internal void @{{name}}(i32 %line, i32 %state, i32 %slot) noinline {{{{
  %old = call i32 @get(ptr @{{name}}.nodes, i32 %line, i32 {STATE})
  %number = {{remainder}} i32 %line, {{sets}}
  %set = add i32 %number, {{lines}}
  %is.here = icmp ne i32 %old, 0
  br i1 %is.here, label %hit, label %miss
hit:
  %joined = or i32 %old, %state
  call void @set(ptr @{{name}}.nodes, i32 %line, i32 {STATE}, i32 %joined)
  %first = call i32 @get(ptr @{{name}}.nodes, i32 %set, i32 {NEXT})
  %is.first = icmp eq i32 %first, %line
  br i1 %is.first, label %done, label %move
move:
  call void @unlink(ptr @{{name}}.nodes, i32 %line)
  call void @push(ptr @{{name}}.nodes, i32 %set, i32 %line)
  ret void
miss:
  %is.fetched = icmp sge i32 %slot, 0
  br i1 %is.fetched, label %fetch, label %place
fetch:
  call void @add(ptr @{{name}}.fills, i32 %slot, i64 1)
  {{fetch}}
  br label %place
place:
  %count = call i32 @get(ptr @{{name}}.nodes, i32 %set, i32 {STATE})
  %is.full = icmp eq i32 %count, {{ways}}
  br i1 %is.full, label %displace, label %grow
grow:
  %more = add i32 %count, 1
  call void @set(ptr @{{name}}.nodes, i32 %set, i32 {STATE}, i32 %more)
  br label %enter
displace:
  %last = call i32 @get(ptr @{{name}}.nodes, i32 %set, i32 {PREVIOUS})
  %last.state = call i32 @get(ptr @{{name}}.nodes, i32 %last, i32 {STATE})
  call void @unlink(ptr @{{name}}.nodes, i32 %last)
  call void @set(ptr @{{name}}.nodes, i32 %last, i32 {STATE}, i32 0)
  %dirty = and i32 %last.state, {_DIRTY}
  %is.dirty = icmp ne i32 %dirty, 0
  br i1 %is.dirty, label %write, label %enter
write:
  %region = call i32 @region(i32 %last)
  call void @add(ptr @{{name}}.written, i32 %region, i64 1)
  {{write}}
  br label %enter
enter:
  call void @set(ptr @{{name}}.nodes, i32 %line, i32 {STATE}, i32 %state)
  call void @push(ptr @{{name}}.nodes, i32 %set, i32 %line)
  br label %done
done:
  ret void
}}}}
"""

_ACCESS = """
define internal void @{name}(ptr %pointer, i64 %bytes) noinline {{
  %address = ptrtoint ptr %pointer to i64
  %count = load i64, ptr @accesses
  %more = add i64 %count, 1
  store i64 %more, ptr @accesses
  %is.enough = icmp ugt i64 %count, {limit}
  br i1 %is.enough, label %done, label %check
check:
  %end = add i64 %address, %bytes
  %inside = sub i64 %end, 1
  %wide = lshr i64 %address, {shift}
  %wide.last = lshr i64 %inside, {shift}
  %first = trunc i64 %wide to i32
  %last = trunc i64 %wide.last to i32
  %is.outside = icmp uge i64 %wide.last, {lines}
  br i1 %is.outside, label %stray, label %begin
stray:
  %strays = load i64, ptr @outside
  %one.more = add i64 %strays, 1
  store i64 %one.more, ptr @outside
  ret void
begin:
  %region = call i32 @region(i32 %first)
  {count}
  {touch}
done:
  ret void
}}
"""

_COUNT = """%twice = shl i32 %region, 1
  %slot = or i32 %twice, {how}
  call void @add(ptr @moved, i32 %slot, i64 %bytes)"""

_TOUCH = """br label %each
each:
  %line = phi i32 [ %first, %begin ], [ %following, %each ]
  {calls}
  %following = add i32 %line, 1
  %is.last = icmp eq i32 %line, %last
  br i1 %is.last, label %done, label %each"""


@dataclass(frozen=True)
class Level:
    """A simulated cache."""

    name: str
    sets: int
    ways: int

    @staticmethod
    def of(cache: Cache, full: bool = False) -> Level:
        """`cache`; with `full` associativity if asked for."""
        lines = cache.size // cache.line
        return Level(cache.name, 1 if full else lines // cache.ways, lines if full else cache.ways)


Hierarchy = Sequence[Level]
"""Caches from the innermost on."""


@dataclass(frozen=True)
class Layout:
    """Memory in regions, one behind the other: `starts[i]` is the first line of region `i`, and
    `lines` how many there are in all."""

    starts: tuple[int, ...]
    lines: int
    line_bytes: int


@dataclass(frozen=True)
class Counts:
    """What passed into one cache, in lines: `fills[region, how]` were fetched into it, and
    `written[region]` were written back from it."""

    fills: NDArray[np.int64]
    written: NDArray[np.int64]


@dataclass(frozen=True)
class Simulation:
    """Hierarchies of caches that see the same accesses, as LLVM IR and the memory that it uses.

    `limit` is the number of accesses after which no more are looked at.
    """

    layout: Layout
    hierarchies: Mapping[str, Hierarchy]
    limit: int
    symbols: Mapping[str, NDArray[np.generic]]

    @staticmethod
    def of(layout: Layout, hierarchies: Mapping[str, Hierarchy], limit: int) -> Simulation:
        """Empty caches."""
        regions = len(layout.starts)
        symbols: dict[str, NDArray[np.generic]] = {
            "accesses": np.zeros(1, np.int64),
            "moved": np.zeros((regions, 2), np.int64),
            "streamed": np.zeros(regions, np.int64),
            "outside": np.zeros(1, np.int64),
        }
        for title, hierarchy in hierarchies.items():
            for level in hierarchy:
                name = f"{title}.{level.name}"
                symbols[f"{name}.nodes"] = _empty(layout.lines, level.sets)
                symbols[f"{name}.fills"] = np.zeros((regions, 2), np.int64)
                symbols[f"{name}.written"] = np.zeros(regions, np.int64)
        return Simulation(layout, hierarchies, limit, symbols)

    def ir(self) -> str:
        """Definitions of what `trace.traced` calls."""
        caches = [text for title in self.hierarchies for text in self._caches(title)]
        calls = [f"{title}.{hierarchy[0].name}" for title, hierarchy in self.hierarchies.items()]
        return "".join(
            [_COMMON, self._region(), *caches, *self._accesses(calls)],
        )

    @property
    def accesses(self) -> int:
        return int(self.symbols["accesses"][0])

    @property
    def outside(self) -> int:
        """Accesses that were not to the memory of the layout."""
        return int(self.symbols["outside"][0])

    @property
    def moved(self) -> NDArray[np.int64]:
        """Bytes between registers and the innermost cache, `[region, how]`."""
        return self.symbols["moved"].astype(np.int64)

    @property
    def streamed(self) -> NDArray[np.int64]:
        """Bytes stored past the caches, `[region]`."""
        return self.symbols["streamed"].astype(np.int64)

    def counts(self, hierarchy: str) -> dict[str, Counts]:
        """By cache. Lines that were written to and are still in a cache count as written back."""
        found: dict[str, Counts] = {}
        dirty = np.zeros(self.layout.lines, bool)
        for level in self.hierarchies[hierarchy]:
            name = f"{hierarchy}.{level.name}"
            states = self.symbols[f"{name}.nodes"][: self.layout.lines, STATE].astype(np.int32)
            dirty |= (states & _DIRTY) != 0
            before = np.concatenate([[0], np.cumsum(dirty)])  # dirty lines below each line
            left = np.diff(before[[*self.layout.starts, self.layout.lines]])
            written = self.symbols[f"{name}.written"].astype(np.int64) + left
            found[level.name] = Counts(self.symbols[f"{name}.fills"].astype(np.int64), written)
        return found

    def _region(self) -> str:
        """A function that gives the region of a line."""
        lines = ["define internal i32 @region(i32 %line) alwaysinline {"]
        total = "0"
        for number, start in enumerate(self.layout.starts[1:], 1):
            lines += [
                f"  %is.past{number} = icmp uge i32 %line, {start}",
                f"  %past{number} = zext i1 %is.past{number} to i32",
                f"  %total{number} = add i32 {total}, %past{number}",
            ]
            total = f"%total{number}"
        return "\n".join([*lines, f"  ret i32 {total}", "}", ""])

    def _caches(self, title: str) -> list[str]:
        hierarchy = self.hierarchies[title]
        texts = []
        for level, outer in zip(hierarchy, [*hierarchy[1:], None], strict=True):
            fetch = write = ""
            if outer is not None:
                fetch = f"call void @{title}.{outer.name}(i32 %line, i32 1, i32 %slot)"
                write = f"call void @{title}.{outer.name}(i32 %last, i32 {1 | _DIRTY}, i32 -1)"
            power = level.sets & (level.sets - 1) == 0
            texts.append(
                _CACHE.format(
                    name=f"{title}.{level.name}",
                    remainder="and" if power else "urem",
                    sets=level.sets - 1 if power else level.sets,
                    ways=level.ways,
                    lines=self.layout.lines,
                    fetch=fetch,
                    write=write,
                )
            )
        return texts

    def _accesses(self, caches: Sequence[str]) -> list[str]:
        texts = []
        common = {
            "limit": self.limit,
            "shift": self.layout.line_bytes.bit_length() - 1,
            "lines": self.layout.lines,
        }
        for name, how, state in ((LOAD, READ, 1), (STORE, WRITTEN, 1 | _DIRTY)):
            calls = "\n  ".join(
                f"call void @{cache}(i32 %line, i32 {state}, i32 %slot)" for cache in caches
            )
            count, touch = _COUNT.format(how=how), _TOUCH.format(calls=calls)
            texts.append(_ACCESS.format(name=name, count=count, touch=touch, **common))
        count = _COUNT.format(how=WRITTEN)
        touch = "call void @add(ptr @streamed, i32 %region, i64 %bytes)\n  br label %done"
        texts.append(_ACCESS.format(name=STREAM, count=count, touch=touch, **common))
        return texts


def _empty(lines: int, sets: int) -> NDArray[np.int32]:
    """The nodes of an empty cache."""
    nodes = np.zeros((lines + sets, 3), np.int32)
    heads = np.arange(lines, lines + sets, dtype=np.int32)
    nodes[lines:, PREVIOUS] = nodes[lines:, NEXT] = heads
    return nodes
