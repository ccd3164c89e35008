"""The machine that a plan is made for: vector unit, caches, bandwidths, cores."""

from mopt_mlir.machine.machine import Cache, Machine
from mopt_mlir.machine.registry import by_name, host, names, resolve

__all__ = ["Cache", "Machine", "by_name", "host", "names", "resolve"]
