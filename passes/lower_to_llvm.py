"""`mopt-lower-to-llvm`: everything that is left in the module to the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.ranges import MOST_CORES
from mopt_mlir.pipeline.pass_base import Pass, option


@dataclass(frozen=True)
class LowerToLLVMPass(Pass):
    """Lower the whole module to the LLVM dialect, ready for translation to LLVM IR.

    Tensors are bufferised: a tensor result of a public function becomes an output parameter that is
    written in place. Temporaries are freed; a `memref.alloc` with its own `memref.dealloc`, or
    whose buffer is stored in another one, is left as it is. A public function of which all shapes,
    strides and offsets are known, and which returns no buffer and at most one scalar, gets a plain
    C entry point, one pointer per buffer; any other public function `f` gets `_mlir_ciface_f`,
    which takes MLIR's memref descriptors. The attribute `mopt.entry` on each of them describes its
    parameters. A function that is only declared is called like these. What is private and not used,
    such as plain weights that were packed, is dropped.

    linalg operations that are still there become plain loops, ordered such that LLVM can vectorise
    the innermost ones. LLVM vectorises no others. A `linalg.softmax` on tensors is taken apart
    first.

    `affine.parallel` and `scf.parallel` become OpenMP parallel loops unless `threads` is 1.
    """

    name: ClassVar[str] = "mopt-lower-to-llvm"

    threads: int = option(0, help="threads of a parallel loop; 0 leaves it to OpenMP, 1 is serial")

    def check(self) -> None:
        if not 0 <= self.threads <= MOST_CORES:
            raise UserError(f"{self.name}: threads={self.threads} is not from 0 to {MOST_CORES}")

    def run(self, module: Any) -> None:
        from mopt_mlir.linalg.decomposition import decompose
        from mopt_mlir.lowering.accesses import mark_accesses
        from mopt_mlir.lowering.bufferize import bufferize
        from mopt_mlir.lowering.entries import annotate_entries
        from mopt_mlir.lowering.to_llvm import lower_to_llvm
        from mopt_mlir.lowering.upstream import run_upstream

        run_upstream(module, "symbol-dce")
        decompose(module)
        bufferize(module)
        annotate_entries(module)
        lower_to_llvm(module, self.threads)
        mark_accesses(module)
