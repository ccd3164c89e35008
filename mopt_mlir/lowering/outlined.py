"""What LLVM forgets of loop counters when a parallel region is outlined, said again.

The counters of loops around it arrive as parameters, of which nothing is known: what happens in
every eighth step of a reduction is then asked for in each. (On a Zen 3 with two cores a 1x1 layer
of 1024 channels in two halves around the parallel loop takes a third more time.)
"""

from __future__ import annotations

from math import gcd
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.lowering.values import constant
from mopt_mlir.operations import ancestors, find


def keep_multiples(module: Any) -> None:
    """Say again in OpenMP regions of which power of two the counters of loops around them are
    multiples."""
    bindings = bindings_of(module)
    arith, ir = bindings.arith, bindings.ir
    for region in find(module, "omp.parallel"):
        for loop in (around for around in ancestors(region) if around.name == "scf.for"):
            counter, power = loop.regions[0].blocks[0].arguments[0], _power_of_two(loop)
            uses = [use for use in counter.uses if region in ancestors(use.owner.operation)]
            if power < 2 or not uses:
                continue
            entry = ir.InsertionPoint.at_block_begin(region.regions[0].blocks[0])
            with module.context, entry, loop.location:
                same = arith.andi(counter, arith.constant(counter.type, -power))
            for use in uses:
                use.owner.operands[use.operand_number] = same


def _power_of_two(loop: Any) -> int:
    """The largest of which the counter of `loop` is always a multiple, as far as can be told."""
    first, step = constant(loop.operands[0]), constant(loop.operands[2])
    common = 1 if first is None or step is None else gcd(first, step)
    return common & -common
