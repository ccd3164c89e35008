"""Flushing the caches of this host before a cold run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from mopt_mlir.cache_flush import CacheFlush, FlushedCpus
from mopt_mlir.machine.facts import HostFacts, observe
from mopt_mlir.machine.registry import host


def flush_caches() -> None:
    """Flush the caches of all cores, see `CacheFlush`."""
    facts = observe()
    with CacheFlush(flushed(facts, facts.places), _largest_cache(), _pin) as flush:
        flush()


def flushed(facts: HostFacts, cpus: Sequence[int]) -> FlushedCpus:
    """How the caches of logical CPUs are flushed. Under a quota no more of them read at the same
    time than it has time for: all of them would use it up at once, and what follows would wait."""
    at_once = len(cpus) if facts.quota is None else facts.cores
    return FlushedCpus(facts.by_last_cache(cpus), at_once)


@cache
def _largest_cache() -> int:
    return max(cache.size for cache in host().caches)


def _pin(cpu: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # it was taken away meanwhile: the scheduler decides
            os.sched_setaffinity(0, {cpu})  # 0 is the calling thread
