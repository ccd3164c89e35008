"""The memory accesses of generated code, as calls: what a simulated cache is fed with.

What is rewritten is LLVM IR as our lowering gives it to LLVM, so that loops, packing, edges and the
order of accesses are those of the code that runs. Loads become calls and give zeros, stores become
calls and store nothing: no data is needed, addresses are what we like, and LLVM drops the
arithmetic. Prefetches are left out, since they bring forward what is read anyway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LOAD, STORE, STREAM = "mopt_load", "mopt_store", "mopt_stream"
"""What is called with a pointer and a number of bytes; STREAM for stores past the caches."""

FREE, ADVISE = "mopt_free", "mopt_advise"
"""What stands in for functions of the C library that concern scratch memory."""

_BYTES = {"float": 4, "double": 8, "i64": 8, "i32": 4}

_TYPE = r"(?:<(?P<lanes>\d+) x (?P<lane>\w+)>|(?P<scalar>\w+))"
_LOAD = re.compile(rf"  (?P<result>%\S+) = load (?P<type>{_TYPE}), ptr (?P<pointer>%\S+),")
_STORE = re.compile(rf"  store (?P<type>{_TYPE}) \S+, ptr (?P<pointer>%\S+),")
_MASKED_LOAD = re.compile(
    rf"  (?P<result>%\S+) = call (?P<type>{_TYPE}) @llvm\.masked\.load\S*\("
    r"ptr(?: align \d+)? (?P<pointer>%\S+), (?P<mask><\d+ x i1> (?:<[^>]*>|[^,)]+))"
)
_MASKED_STORE = re.compile(
    rf"  call void @llvm\.masked\.store\S*\((?P<type>{_TYPE}) \S+, "
    r"ptr(?: align \d+)? (?P<pointer>%\S+), (?P<mask><\d+ x i1> (?:<[^>]*>|[^,)]+))"
)
_PREFETCH = re.compile(r"  call void @llvm\.prefetch")
_OTHER_ACCESS = re.compile(r"  (%\S+ = )?(load |store |(tail )?call .*@llvm\.(masked|mem))")
_ALLOCATION = re.compile(
    r"  (?P<result>%\S+) = call ptr @aligned_alloc\(i64 \d+, i64 (?P<size>\d+)\)"
)
_LIBRARY = re.compile(r"@(aligned_alloc|free|madvise)\b")
_RENAMED = {"free": FREE, "madvise": ADVISE}


def allocations(text: str) -> list[int]:
    """Bytes of each allocation of scratch memory, in the order of the text."""
    return [int(match["size"]) for match in map(_ALLOCATION.match, text.splitlines()) if match]


def traced(text: str, addresses: Sequence[int] = ()) -> str:
    """LLVM IR with a call in place of each access; whoever links it has to define what is called.
    Scratch memory is at `addresses`, one for each of `allocations`.

    Raises ValueError for an access of a kind that is not known.
    """
    left = iter(addresses)
    lines: list[str] = []
    for line in text.splitlines():
        if _PREFETCH.match(line):
            continue
        if line.startswith("declare") and _LIBRARY.search(line):
            continue
        if match := _ALLOCATION.match(line):
            lines.append(f"  {match['result']} = inttoptr i64 {next(left)} to ptr")
            continue
        line = _LIBRARY.sub(lambda match: f"@{_RENAMED[match[1]]}", line)
        lines += _rewritten(line, f"%mopt.{len(lines)}")
    return "\n".join(lines) + "\n"


def _rewritten(line: str, fresh: str) -> list[str]:
    """`fresh` begins the names of new values."""
    if match := _LOAD.match(line) or _MASKED_LOAD.match(line):
        type_ = match["type"]
        zero = f"  {match['result']} = bitcast {type_} zeroinitializer to {type_}"
        return [*_call(LOAD, match, fresh), zero]
    if match := _STORE.match(line) or _MASKED_STORE.match(line):
        return _call(STREAM if "!nontemporal" in line else STORE, match, fresh)
    if _OTHER_ACCESS.match(line):
        raise ValueError(f"an access of an unknown kind: {line.strip()}")
    return [line]


def _call(function: str, match: re.Match[str], fresh: str) -> list[str]:
    """Lines that call `function`; those that a mask leaves out are the last lanes."""
    lanes, size = int(match["lanes"] or 1), _BYTES[match["lane"] or match["scalar"]]
    call = f"  call void @{function}(ptr {match['pointer']}, i64 "
    if "mask" not in match.re.groupindex:
        return [f"{call}{lanes * size})"]
    bits = f"i{lanes}"
    return [
        f"  {fresh}.bits = bitcast {match['mask']} to {bits}",
        f"  {fresh}.count = call {bits} @llvm.ctpop.{bits}({bits} {fresh}.bits)",
        f"  {fresh}.wide = zext {bits} {fresh}.count to i64",
        f"  {fresh}.bytes = mul i64 {fresh}.wide, {size}",
        f"{call}{fresh}.bytes)",
    ]
