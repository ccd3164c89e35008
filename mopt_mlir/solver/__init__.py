"""The solver: the best plan of the model, with a proven lower bound on every other."""

from mopt_mlir.solver.candidates import candidates
from mopt_mlir.solver.certified import solve

__all__ = ["candidates", "solve"]
