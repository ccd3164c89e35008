"""Why a plan is what it is: loop nest, use of every memory level, bottleneck, and runners-up."""

from mopt_mlir.explain.analysis import explain
from mopt_mlir.explain.explanation import Explanation

__all__ = ["Explanation", "explain"]
