"""Building vector IR, and what else a microkernel needs besides affine loops and accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from mopt_mlir.bindings import Bindings
from mopt_mlir.buffers import CHECKED
from mopt_mlir.codegen.affine import AffineBuilder
from mopt_mlir.codegen.index import Index
from mopt_mlir.layouts import is_row_major, layout_of
from mopt_mlir.operations import defining_op
from mopt_mlir.vector_access import STORED_IN_PARTS_BYTES

_LOCALITY = {"L1": 3, "L2": 2}
"""Of a prefetch, by the cache that it is to reach."""


class Builder(AffineBuilder):
    """Emits operations at the current insertion point of `bindings`' context.

    Constants go to the start of `entry`, a block that dominates everything emitted, once each.
    """

    def __init__(self, bindings: Bindings, location: Any, entry: Any) -> None:
        super().__init__(bindings, location)
        self._entry = entry
        self._constants: dict[tuple[Any, ...], Any] = {}

    # ---- vectors in memory -------------------------------------------------------------------

    def vector_load(
        self, memref: Any, indices: Sequence[Index], lanes: int, valid: int, name: str
    ) -> Any:
        """`lanes` consecutive elements, of which only the first `valid` are touched."""
        vector_type = self.vector_type(lanes, memref.type.element_type)
        if valid == lanes:
            map_, operands = self.map_of(indices)
            with self.named(name):
                return self.bindings.affine.AffineVectorLoadOp(
                    vector_type, memref, operands, self.ir.AffineMapAttr.get(map_)
                ).result
        values = [self._value(index) for index in indices]
        with self.named(name):
            return self.bindings.vector.MaskedLoadOp(
                vector_type, memref, values, self.mask(lanes, valid), self.zeros(vector_type)
            ).result

    def vector_store(
        self,
        vector: Any,
        memref: Any,
        indices: Sequence[Index],
        valid: int,
        nontemporal: bool = False,
    ) -> None:
        """Store the first `valid` lanes of `vector` to consecutive elements.

        With `nontemporal`, a whole vector goes past the caches; it must have been checked that its
        address is aligned.
        """
        lanes = vector.type.shape[0]
        if nontemporal and valid == lanes:
            values = [self._value(index) for index in indices]
            size = lanes * element_bytes(vector)
            store = self.bindings.vector.StoreOp(
                vector, memref, values, nontemporal=True, alignment=size, loc=self.location
            )
            store.attributes[CHECKED] = self.ir.UnitAttr.get()
            return
        if valid == lanes:
            self._store_whole(vector, memref, indices)
        elif lanes * element_bytes(vector) <= STORED_IN_PARTS_BYTES:
            *outer, inner = indices
            for first, size in _parts(valid):
                where = [*outer, inner + first]
                if size == 1:
                    self.store(self.extract(vector, first), memref, where)
                else:
                    self._store_whole(self._part(vector, first, size), memref, where)
        else:
            values = [self._value(index) for index in indices]
            self.bindings.vector.MaskedStoreOp(
                memref, values, self.mask(lanes, valid), vector, loc=self.location
            )

    def _store_whole(self, vector: Any, memref: Any, indices: Sequence[Index]) -> None:
        map_, operands = self.map_of(indices)
        attribute = self.ir.AffineMapAttr.get(map_)
        self.bindings.affine.AffineVectorStoreOp(
            vector, memref, operands, attribute, loc=self.location
        )

    def _part(self, vector: Any, first: int, size: int) -> Any:
        """`size` lanes of `vector` from `first` on."""
        type_ = self.vector_type(size, vector.type.element_type)
        return self.bindings.vector.ExtractStridedSliceOp(
            type_, vector, [first], [size], [1], loc=self.location
        ).result

    def _value(self, index: Index) -> Any:
        if not index.terms:
            return self.constant(self.ir.IndexType.get(), index.constant)
        if index.constant == 0 and len(index.terms) == 1 and index.terms[0][1] == 1:
            return index.terms[0][0]
        return self.applied("i", index)

    # ---- prefetches --------------------------------------------------------------------------

    def step_if_reached(self, name: str, index: Index, end: int, step: int) -> Index:
        """`step` where `index`, which is never negative, is at `end` or beyond, else 0.

        Only prefetches may use it, as it is not affine. A quotient would be, but rounds down below
        zero, too, which takes more instructions than the prefetches that it would be for.
        """
        arith, type_ = self.bindings.arith, self.ir.IndexType.get()
        limit, zero = self.constant(type_, end), self.constant(type_, 0)
        is_there = arith.cmpi(arith.CmpIPredicate.uge, self._value(index), limit)
        with self.named(name):
            return Index.of(arith.select(is_there, self.constant(type_, step), zero))

    def prefetch(
        self, memref: Any, indices: Sequence[Index], into: str = "L1", write: bool = False
    ) -> None:
        """Ask for the cache line of an element, which may lie outside of the memref, `into` a cache
        and those around it, perhaps to `write` to it. (That counts for L1 only: x86 has no such
        prefetch into L2, so that LLVM would ask for it into L1.)"""
        ir = self.ir
        i32, i1 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(1)
        attributes = {
            "isWrite": ir.IntegerAttr.get(i1, int(write and into == "L1")),
            "isDataCache": ir.IntegerAttr.get(i1, 1),
            "localityHint": ir.IntegerAttr.get(i32, _LOCALITY[into]),
        }
        map_, operands = self.map_of(indices)
        is_affine = all(map(_is_affine, operands))
        if is_affine:
            attributes["map"] = ir.AffineMapAttr.get(map_)
        else:
            operands = [self._value(index) for index in indices]
        ir.Operation.create(
            "affine.prefetch" if is_affine else "memref.prefetch",
            operands=[memref, *operands],
            attributes=attributes,
            loc=self.location,
        )

    # ---- memrefs and stores past the caches --------------------------------------------------

    def collapse(self, memref: Any, groups: Sequence[Sequence[int]], name: str) -> Any:
        """`memref` with each group of axes as one axis; the axes of a group must be dense.

        MLIR asks for one type of the result: strides are left out of it only if they were left out
        before, and an axis with a single element, whose stride says nothing, has no part in them.
        """
        if all(len(group) == 1 for group in groups):
            return memref
        ir, old = self.ir, memref.type
        shape = [prod(old.shape[i] for i in group) for group in groups]
        layout = None
        if not is_row_major(old):
            strides, offset = old.get_strides_and_offset()
            inner = [[i for i in group if old.shape[i] > 1] or group[:1] for group in groups]
            layout = ir.StridedLayoutAttr.get(offset, [strides[axes[-1]] for axes in inner])
        type_ = ir.MemRefType.get(shape, old.element_type, layout, old.memory_space)
        i64 = ir.IntegerType.get_signless(64)
        reassociation = ir.ArrayAttr.get(
            [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, i) for i in group]) for group in groups]
        )
        with self.named(name):
            return self.bindings.memref.CollapseShapeOp(type_, memref, reassociation).result

    def aligned(self, memref: Any, size: int) -> Any:
        """Whether the first element of `memref` lies at a multiple of `size` bytes (an i1)."""
        arith, memref_ops = self.bindings.arith, self.bindings.memref
        index = self.ir.IndexType.get()
        pointer = memref_ops.ExtractAlignedPointerAsIndexOp(memref, loc=self.location).result
        element = self.constant(index, element_bytes(memref))
        layout = layout_of(memref.type)
        if layout is None or layout.offset != 0:
            offset = memref_ops.ExtractStridedMetadataOp(memref, loc=self.location).results[1]
            shift = arith.MulIOp(offset, element, loc=self.location).result
            pointer = arith.AddIOp(pointer, shift, loc=self.location).result
        rest = arith.RemUIOp(pointer, self.constant(index, size), loc=self.location).result
        zero = self.constant(index, 0)
        return arith.CmpIOp(arith.CmpIPredicate.eq, rest, zero, loc=self.location).result

    def either(
        self, condition: Any, then: Callable[[], None], otherwise: Callable[[], None]
    ) -> None:
        """`scf.if` on a value that is known at run time only."""
        scf = self.bindings.scf
        operation = scf.IfOp(condition, has_else=True, loc=self.location)
        for block, body in ((operation.then_block, then), (operation.else_block, otherwise)):
            with self.ir.InsertionPoint(block):
                body()
                scf.YieldOp([])

    def fence(self) -> None:
        """Order nontemporal stores before whatever follows.

        Assembly, because `llvm.fence` does not say what it does to memory, and without that buffers
        are not deallocated around it.
        """
        self.bindings.llvm.InlineAsmOp(
            None, [], "sfence", "~{memory}", has_side_effects=True, loc=self.location
        )

    # ---- vectors -----------------------------------------------------------------------------

    def vector_type(self, lanes: int, element: Any) -> Any:
        return self.ir.VectorType.get([lanes], element)

    def mask(self, lanes: int, valid: int) -> Any:
        """True in the first `valid` lanes."""

        def create() -> Any:
            type_ = self.vector_type(lanes, self.ir.IntegerType.get_signless(1))
            sizes = self.ir.DenseI64ArrayAttr.get([valid])
            with self.named(f"first_{valid}"):
                return self.bindings.vector.ConstantMaskOp(type_, sizes).result

        return self._once(("mask", lanes, valid), create)

    def constant(self, type_: Any, value: float) -> Any:
        """A scalar constant of an index or float type."""
        ir = self.ir

        def create() -> Any:
            kind = ir.IntegerAttr if isinstance(type_, ir.IndexType) else ir.FloatAttr
            operation = self.bindings.arith.ConstantOp(
                type_, kind.get(type_, value), loc=self.location
            )
            return operation.result

        return self._once(("constant", str(type_), value), create)

    def zeros(self, vector_type: Any) -> Any:
        """A vector of zeros."""
        ir = self.ir

        def create() -> Any:
            zero = ir.FloatAttr.get(vector_type.element_type, 0.0)
            splat = ir.DenseElementsAttr.get_splat(vector_type, zero)
            with self.named("zeros"):
                return self.bindings.arith.ConstantOp(vector_type, splat).result

        return self._once(("zeros", str(vector_type)), create)

    def poison(self, type_: Any) -> Any:
        """A value that nobody looks at."""

        def create() -> Any:
            location = self.named("unused")
            return self.ir.Operation.create("ub.poison", results=[type_], loc=location).result

        return self._once(("poison", str(type_)), create)

    def _once(self, key: tuple[Any, ...], create: Callable[[], Any]) -> Any:
        if key not in self._constants:
            with self.ir.InsertionPoint.at_block_begin(self._entry):
                self._constants[key] = create()
        return self._constants[key]

    def broadcast(self, vector_type: Any, scalar: Any) -> Any:
        return self.bindings.vector.BroadcastOp(vector_type, scalar, loc=self.location).result

    def outer_product(self, vector: Any, scalar: Any, accumulator: Any) -> Any:
        """`accumulator + vector * scalar`: one fused multiply-add per lane."""
        return self.bindings.vector.OuterProductOp(
            accumulator.type, vector, scalar, acc=accumulator, loc=self.location
        ).result

    def add(self, first: Any, second: Any) -> Any:
        return self.bindings.arith.AddFOp(first, second, loc=self.location).result

    def shuffle(self, first: Any, second: Any, lanes: Sequence[int]) -> Any:
        """The given lanes of `first` and `second`, which are numbered on from `first`'s."""
        vector = self.bindings.vector
        return vector.ShuffleOp(first, second, list(lanes), loc=self.location).result

    def extract(self, vector: Any, lane: int) -> Any:
        return self.bindings.vector.ExtractOp(vector, [], [lane], loc=self.location).result

    def insert(self, scalar: Any, vector: Any, lane: int) -> Any:
        return self.bindings.vector.InsertOp(scalar, vector, [], [lane], loc=self.location).result


def element_bytes(value: Any) -> int:
    """Bytes of an element of a memref or vector of floats."""
    width: int = value.type.element_type.width
    return width // 8


def _parts(valid: int) -> list[tuple[int, int]]:
    """The first and the number of lanes of each part that `valid` lanes are stored in: powers of
    two, the largest first."""
    found, first = [], 0
    for bit in reversed(range(valid.bit_length())):
        if valid >> bit & 1:
            found.append((first, 1 << bit))
            first += 1 << bit
    return found


def _is_affine(value: Any) -> bool:
    """Whether affine accesses may use it: it is not from arithmetic beside them."""
    operation = defining_op(value)
    return operation is None or not operation.name.startswith("arith.")
