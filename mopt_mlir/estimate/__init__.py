"""How long a plan is expected to take, and what it really moves: pure functions on `model`, which
look at one plan more closely than a solver could at all of them. No plan is chosen by it."""

from mopt_mlir.estimate.times import estimate

__all__ = ["estimate"]
