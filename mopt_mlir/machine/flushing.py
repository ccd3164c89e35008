"""Flushing the caches of this host before cold runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mopt_mlir.cache_flush import CacheFlush, FlushedCpus, memory_of
from mopt_mlir.machine.facts import HostFacts, observe, pin
from mopt_mlir.machine.registry import host


def host_flush() -> CacheFlush:
    """What flushes the caches of all cores: to be kept while cold runs are measured, no longer."""
    return CacheFlush(_all_cpus(), largest_cache(), pin)


def flush_bytes() -> int:
    """What a `host_flush` takes of memory."""
    return memory_of(_all_cpus(), largest_cache())


def flushed(facts: HostFacts, cpus: Sequence[int]) -> FlushedCpus:
    """How the caches of logical CPUs are flushed. Under a quota no more of them read at the same
    time than it has time for: all of them would use it up at once, and what follows would wait."""
    at_once = len(cpus) if facts.quota is None else facts.cores
    return FlushedCpus(facts.by_last_cache(cpus), at_once)


def _all_cpus() -> FlushedCpus:
    facts = observe()
    return flushed(facts, facts.places)


@cache
def largest_cache() -> int:
    """Bytes of this host's largest cache."""
    return max(cache.size for cache in host().caches)
