"""From buffers to the LLVM dialect: upstream's conversions, in the order that composes."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import Failure, UserError, describe, emit
from mopt_mlir.func_ops import is_public
from mopt_mlir.layouts import layout_of
from mopt_mlir.lowering.addresses import forget_bounds, share_addresses
from mopt_mlir.lowering.fallback import keep_marks, linalg_to_loops, mark_loops
from mopt_mlir.lowering.library import call_accurate_functions, check_names
from mopt_mlir.lowering.order import hide_constants
from mopt_mlir.lowering.outlined import keep_multiples
from mopt_mlir.lowering.quotients import shift_quotients
from mopt_mlir.lowering.scratch import reuse_scratch
from mopt_mlir.lowering.stack import free_stack_early
from mopt_mlir.lowering.unroll import is_unrolled, unroll_reductions
from mopt_mlir.lowering.upstream import run_upstream
from mopt_mlir.lowering.values import hidden, trips
from mopt_mlir.operations import defined_by, find, inside

_TO_LOOPS = (
    "convert-vector-to-scf{full-unroll=true}",
    "lower-affine",
    "canonicalize",
    "cse",
)

_TO_LLVM = (
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",  # the address arithmetic of expand-strided-metadata
    "memref-expand",
    "arith-expand",
    "convert-vector-to-llvm{vector-contract-lowering=outerproduct"
    " vector-transpose-lowering=shuffle1d}",
    "convert-complex-to-standard",
    "convert-complex-to-llvm",
    "convert-math-to-llvm",
    "convert-math-to-libm",  # what LLVM has no intrinsic for
    "convert-index-to-llvm",
    "finalize-memref-to-llvm",
    "convert-arith-to-llvm",
    "convert-openmp-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",  # canonicalisation introduces ub.poison
    "reconcile-unrealized-casts",
    "canonicalize",
    "cse",
)

_SINGLE = ("memref.load", "memref.store")
_VECTORS = ("vector.load", "vector.store")
_PARTIAL_VECTORS = (
    *("vector.maskedload", "vector.maskedstore", "vector.gather", "vector.scatter"),
    *("vector.expandload", "vector.compressstore"),
    *("vector.transfer_read", "vector.transfer_write"),
)
_STORED_FIRST = ("memref.store", "vector.store", "vector.transfer_write")
"""Accesses whose first operand is stored; that of others is the buffer."""

_CAST = "builtin.unrealized_conversion_cast"
"""Between an operation that was lowered and one that was not."""

_LINKAGE = "llvm.linkage"
"""The attribute of a function by which upstream's lowering knows its linkage."""

_MODULE = "builtin.module"
_IN_MODULES = (_MODULE, "arith.constant")
"""What may stand in a module beside symbols: canonicalisation puts constants there."""

_LOWERED = ("llvm", "omp")

_WAYS_OUT = {"linalg.softmax": "; on tensors of floats MLIR can take it apart"}
"""What to do about operations that are left, where we know."""


def lower_to_llvm(module: Any, threads: int) -> None:
    """Lower a module without tensors to the LLVM and OpenMP dialects.

    `threads` is the size of the team of a parallel loop: 0 leaves it to the OpenMP runtime, 1 makes
    the loop serial. Raises Failure, after an error at each culprit, if something is left over,
    and UserError where a function has a name that generated code calls.
    """
    check_names(module)
    _check_places(module)
    _check_layouts(module)
    _check_expansions(module)
    run_upstream(module, "expand-realloc")  # into copies, which become loops
    linalg_to_loops(module)
    run_upstream(module, *_TO_LOOPS)
    shift_quotients(module)
    mark_loops(module)
    unroll_reductions(module)
    if threads != 1:
        run_upstream(module, f"convert-scf-to-openmp{{num-threads={threads}}}")
        keep_multiples(module)
    free_stack_early(module)
    _bits_as_bytes(module)
    reuse_scratch(module)
    is_open = share_addresses(module)
    _hide_second_trips(module)
    call_accurate_functions(module)
    _keep_to_itself(module)
    run_upstream(module, *_TO_LLVM)
    forget_bounds(module, is_open=is_open)
    hide_constants(module)
    keep_marks(module)
    _check_lowered(module)


def _check_places(module: Any) -> None:
    """Raise UserError where code stands in a module itself: nothing runs it, and what becomes a
    branch or a call there would end the process."""
    for inner in find(module, _MODULE):
        for view in inner.regions[0].blocks[0].operations:
            operation = view.operation
            is_there = "sym_name" in operation.attributes or operation.name in _IN_MODULES
            if not is_there and operation.name.partition(".")[0] not in _LOWERED:
                message = f"'{operation.name}' is in no function; put it into one"
                raise UserError(message, describe(operation.location))


def _check_layouts(module: Any) -> None:
    """Raise UserError where a memref has a layout that LLVM's descriptors cannot express."""
    ir = bindings_of(module).ir
    for operation in inside(module):
        for value in defined_by(operation):
            if isinstance(value.type, ir.MemRefType) and layout_of(value.type) is None:
                raise UserError(
                    f"the layout of '{value.type}' is not strided, and cannot be lowered to LLVM: "
                    "order its sizes as they lie in memory, or give it a strided layout",
                    describe(value.location),
                )


def _check_expansions(module: Any) -> None:
    """Raise UserError where upstream's lowering would abort the process."""
    for operation in find(module, "memref.expand_shape"):
        shaped = operation.results[0].type
        for group in operation.attributes["reassociation"]:
            if sum(shaped.is_dynamic_dim(axis.value) for axis in group) > 1:
                raise UserError(
                    f"'{operation.name}' leaves two sizes open that one axis is split into: make "
                    "one of them a constant",
                    describe(operation.location),
                )


def _hide_second_trips(module: Any) -> None:
    """Make the upper bound of loops that run twice something that LLVM cannot see through.

    It would turn their induction variable into a choice of two constants, which scalar evolution
    does not understand: loop strength reduction then keeps a pointer of its own for each pixel of a
    register tile, far more than there are registers, instead of one and constant distances.
    """
    bindings = bindings_of(module)
    ir = bindings.ir
    for loop in find(module, "scf.for"):
        is_ours = isinstance(loop.operands[1].type, ir.IndexType)
        if trips(loop) != 2 or is_unrolled(loop) or not is_ours:
            continue
        with module.context, ir.InsertionPoint(loop), loop.location:
            loop.operands[1] = hidden(bindings, loop.operands[1])


def _bits_as_bytes(module: Any) -> None:
    """Load and store elements of less than a byte as bytes: MLIR 22 aborts on single ones, and
    packs those of vectors. Raises UserError for other accesses of vectors to such.

    The descriptors of the two buffers are the same, so the cast between them goes away.
    """
    bindings = bindings_of(module)
    ir = bindings.ir
    for access in find(module, *_SINGLE, *_VECTORS, *_PARTIAL_VECTORS):
        operands = list(access.operands)
        stored = [operands.pop(0)] if access.name in _STORED_FIRST else []
        buffer, *indices = operands
        type_ = buffer.type
        if not isinstance(type_.element_type, ir.IntegerType) or type_.element_type.width >= 8:
            continue
        if access.name in _PARTIAL_VECTORS:
            raise UserError(
                f"'{access.name}' of elements of less than a byte is not lowered: extend them to "
                "i8, or use vector.load and vector.store",
                describe(access.location),
            )
        with module.context, ir.InsertionPoint(access), access.location:
            byte = ir.IntegerType.get_signless(8)
            bytes_ = ir.MemRefType.get(type_.shape, byte, type_.layout, type_.memory_space)
            cast = ir.Operation.create(_CAST, results=[bytes_], operands=[buffer]).result
            moved = stored[0].type if stored else access.result.type
            wide = ir.VectorType.get(moved.shape, byte) if access.name in _VECTORS else byte
            if stored:
                extended = bindings.arith.extui(wide, stored[0])
                ir.Operation.create(access.name, [], [extended, cast, *indices])
            else:
                loaded = ir.Operation.create(access.name, [wide], [cast, *indices]).result
                access.result.replace_all_uses_with(bindings.arith.trunci(moved, loaded))
        access.erase()


def _keep_to_itself(module: Any) -> None:
    """Give private functions that the module defines internal linkage, unless they have one: to
    upstream's lowering all functions are external, and those of two modules would clash."""
    ir = bindings_of(module).ir
    with module.context:
        internal = ir.Attribute.parse("#llvm.linkage<internal>")
        for function in find(module, "func.func"):
            is_defined = bool(len(function.regions[0].blocks))
            if is_defined and not is_public(function) and _LINKAGE not in function.attributes:
                function.attributes[_LINKAGE] = internal


def _check_lowered(module: Any) -> None:
    left: dict[str, Any] = {}
    for op in inside(module):
        if op.name.partition(".")[0] not in _LOWERED and op.name != _MODULE:
            left.setdefault(op.name, op.location)
    culprits = {name: at for name, at in left.items() if name != _CAST} or left
    for name, location in culprits.items():
        emit("error", location, f"'{name}' cannot be lowered to LLVM{_WAYS_OUT.get(name, '')}")
    if left:
        raise Failure("operations are left that cannot be lowered to LLVM")
