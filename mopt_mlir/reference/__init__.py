"""What functions compute, in float64 numpy, how far native code may be from it, and how many
operations that takes. It has shapes, loops and arithmetic of its own, so that it and the compiler
cannot be wrong in the same way."""

from mopt_mlir.reference.flops import flops_of
from mopt_mlir.reference.interpreter import Outcome, evaluate
from mopt_mlir.reference.numbers import NotInReferenceError, Numbers

__all__ = ["NotInReferenceError", "Numbers", "Outcome", "evaluate", "flops_of"]
