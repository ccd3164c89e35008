"""Buffers for packed weights and partial sums that stay allocated from one call to the next.

A fresh large buffer costs a page fault for every page that is touched, often more than the packing
itself. So each allocation that code generation marked keeps its block in a slot of the module when
it is done with it. A call takes the block out of the slot, or allocates one if the slot is empty
(the first call, another thread is inside, or another core where each packs blocks of its own), and
puts it back; what it finds there instead is freed. Every step is one atomic exchange, so that
functions stay reentrant.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.buffers import ALIGNMENT, SCRATCH
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.operations import find

RELEASE = "mopt_release_scratch"
"""A function of the module that frees the blocks. It runs when a library is unloaded, and is not
seen from outside: other modules of a program have one of the same name."""

_HUGE_PAGE = 1 << 21  # bytes; blocks of at least one are aligned to it, so that they can use them
_MADV_HUGEPAGE = 14  # Linux's advice that a range is worth huge pages


def reuse_scratch(module: Any) -> None:
    """Turn the marked allocations of a module, and their deallocations, into uses of slots.

    Raises UserError where the module has symbols of its own by the names of functions that this
    needs, even without such allocations: whoever loads the code will call RELEASE if it is there;
    and where an allocation and its deallocation are not directly inside the same operation.
    """
    for inner in find(module, "builtin.module"):  # each has symbols of its own
        _reuse_in(inner)


def _reuse_in(module: Any) -> None:
    """`reuse_scratch`, of modules inside of `module` the inner ones first."""
    bindings = bindings_of(module)
    marked = [op for op in find(module, "memref.alloc") if SCRATCH in op.attributes]
    symbols = bindings.ir.SymbolTable(module)
    if RELEASE in symbols and (marked or not _releases(symbols[RELEASE])):
        raise _taken(
            symbols[RELEASE], "generated code frees its buffers in a function of that name"
        )
    if not marked:
        return
    with module.context, bindings.ir.Location.unknown():
        runtime = _Runtime(bindings, module)
        for allocation in marked:
            runtime.replace(allocation)
        runtime.define_release()


def _releases(symbol: Any) -> bool:
    """Whether a symbol by the name of RELEASE can be one: a module may have been lowered before."""
    operation = symbol.operation
    if operation.name != "llvm.func":
        return False
    return str(operation.attributes["function_type"].value) == "!llvm.func<void ()>"


def _taken(symbol: Any, reason: str) -> UserError:
    name = symbol.operation.attributes["sym_name"].value
    return UserError(f"give @{name} another name: {reason}", describe(symbol.operation.location))


class _Runtime:
    """Builds slots and what uses them in the LLVM dialect."""

    def __init__(self, bindings: Bindings, module: Any) -> None:
        self.ir, self.llvm, self.scf = bindings.ir, bindings.llvm, bindings.scf
        self.pointer = self.ir.Type.parse("!llvm.ptr")
        self.i64 = self.ir.IntegerType.get_signless(64)
        self.i32 = self.ir.IntegerType.get_signless(32)
        self.internal = self.ir.Attribute.parse("#llvm.linkage<internal>")
        self.top = self.ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0])
        self.symbols = self.ir.SymbolTable(module)
        self.numbers = count()
        self.slots: list[str] = []

    def replace(self, allocation: Any) -> None:
        """Take the block where it was allocated, give it back where it was freed. Raises UserError
        where passes have moved one of these out of a loop or a branch, but not the other."""
        slot = self._slot()
        type_ = allocation.results[0].type
        size = prod(type_.shape) * type_.element_type.width // 8
        frees = [use.owner for use in allocation.results[0].uses]
        frees = [op.operation for op in frees if op.operation.name == "memref.dealloc"]
        if any(free.parent != allocation.parent for free in frees):
            raise UserError(
                "this memory is freed in another loop or branch than it is allocated in: behind "
                "mopt-tile run no passes that move allocations, such as buffer-loop-hoisting",
                describe(allocation.location),
            )
        with self.ir.InsertionPoint(allocation), allocation.location:
            block = self._take(slot, size)
            memref = self._memref(block, type_)
        for free in frees:
            with self.ir.InsertionPoint(free), free.location:
                self._give(slot, block)
            free.erase()
        allocation.results[0].replace_all_uses_with(memref)
        allocation.erase()

    def _slot(self) -> str:
        names = (f"mopt_scratch_{number}" for number in self.numbers)
        name = next(name for name in names if name not in self.symbols)
        self.slots.append(name)
        with self.top:
            operation = self.ir.Operation.create(
                "llvm.mlir.global",
                attributes={
                    "global_type": self.ir.TypeAttr.get(self.pointer),
                    "sym_name": self.ir.StringAttr.get(name),
                    "linkage": self.internal,
                    "addr_space": self.ir.IntegerAttr.get(self.i32, 0),
                    "visibility_": self.ir.IntegerAttr.get(self.i64, 0),
                },
                regions=1,
            )
        with self.ir.InsertionPoint(operation.regions[0].blocks.append()):
            self.llvm.ReturnOp(arg=self._null())
        return name

    def _take(self, slot: str, size: int) -> Any:
        """The slot's block, or a new one of `size` bytes."""
        block = self._exchange(slot, self._null(), self.llvm.AtomicOrdering.acquire)
        empty = self.llvm.ICmpOp(self.llvm.ICmpPredicate.eq, block, self._null()).result
        choice = self.scf.IfOp(empty, [self.pointer], has_else=True)
        with self.ir.InsertionPoint(choice.then_block):
            self.scf.YieldOp([self._allocate(size)])
        with self.ir.InsertionPoint(choice.else_block):
            self.scf.YieldOp([block])
        return choice.results[0]

    def _give(self, slot: str, block: Any) -> None:
        other = self._exchange(slot, block, self.llvm.AtomicOrdering.acq_rel)
        self._call("free", [other], None)

    def _allocate(self, size: int) -> Any:
        unit = _HUGE_PAGE if size >= _HUGE_PAGE else ALIGNMENT
        rounded = self._integer(-(-size // unit) * unit)
        block = self._call("aligned_alloc", [self._integer(unit), rounded], self.pointer)
        if unit == _HUGE_PAGE:
            advice = self._integer(_MADV_HUGEPAGE, self.i32)
            self._call("madvise", [block, rounded, advice], self.i32)
        return block

    def _memref(self, block: Any, type_: Any) -> Any:
        """`block` as a memref of static shape: a descriptor, behind a cast that lowering undoes."""
        shape = type_.shape
        rank = len(shape)
        sizes = f"array<{rank} x i64>"
        descriptor = self.llvm.PoisonOp(
            self.ir.Type.parse(f"!llvm.struct<(ptr, ptr, i64, {sizes}, {sizes})>")
        ).result
        strides = [prod(shape[i + 1 :]) for i in range(rank)]
        fields: list[tuple[tuple[int, ...], Any]]
        fields = [((0,), block), ((1,), block), ((2,), self._integer(0))]
        fields += [((3, i), self._integer(n)) for i, n in enumerate(shape)]
        fields += [((4, i), self._integer(n)) for i, n in enumerate(strides)]
        for position, value in fields:
            descriptor = self.llvm.InsertValueOp(descriptor, value, list(position)).result
        return self.ir.Operation.create(
            "builtin.unrealized_conversion_cast", results=[type_], operands=[descriptor]
        ).result

    def define_release(self) -> None:
        """A function that empties the slots, also to be run when the code is unloaded."""
        kind = self.ir.TypeAttr.parse("!llvm.func<void ()>")
        with self.top:
            function = self.llvm.LLVMFuncOp(RELEASE, kind, linkage=self.internal)
            self.ir.Operation.create(
                "llvm.mlir.global_dtors",
                attributes={
                    "dtors": self.ir.Attribute.parse(f"[@{RELEASE}]"),
                    "priorities": self.ir.Attribute.parse("[0 : i32]"),
                    "data": self.ir.Attribute.parse("[#llvm.zero]"),
                },
            )
        with self.ir.InsertionPoint(function.regions[0].blocks.append()):
            for slot in self.slots:
                block = self._exchange(slot, self._null(), self.llvm.AtomicOrdering.acquire)
                self._call("free", [block], None)
            self.llvm.ReturnOp()

    # ---- single operations -------------------------------------------------------------------

    def _null(self) -> Any:
        return self.llvm.ZeroOp(self.pointer).result

    def _integer(self, value: int, type_: Any = None) -> Any:
        type_ = type_ or self.i64
        return self.llvm.ConstantOp(type_, self.ir.IntegerAttr.get(type_, value)).result

    def _exchange(self, slot: str, value: Any, ordering: Any) -> Any:
        address = self.llvm.AddressOfOp(self.pointer, slot).result
        return self.llvm.AtomicRMWOp(self.llvm.AtomicBinOp.xchg, address, value, ordering).result

    def _call(self, name: str, arguments: list[Any], result: Any) -> Any:
        """Call a function of the C library, declared when first needed. Raises UserError where the
        module has something else by that name."""
        if name in self.symbols and self.symbols[name].operation.name != "llvm.func":
            raise _taken(self.symbols[name], "generated code calls the C library's function")
        if name not in self.symbols:
            types = ", ".join(str(argument.type) for argument in arguments)
            kind = self.ir.TypeAttr.parse(f"!llvm.func<{result or 'void'} ({types})>")
            with self.top:
                self.symbols.insert(self.llvm.LLVMFuncOp(name, kind).operation)
        call = self.llvm.CallOp(result, arguments, [], [], callee=name)
        return call.result if result else None
