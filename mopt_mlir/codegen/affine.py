"""Building affine IR at a known place, with names on loops and values.

Everything is written against `Bindings`, so that it works on the caller's own context, and against
`Index`, a linear expression over loop induction variables, so that accesses stay affine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mopt_mlir.bindings import Bindings
from mopt_mlir.codegen.index import Condition, Index


class AffineBuilder:
    """Emits loops, branches and accesses to single elements at the current insertion point of
    `bindings`' context; `Builder` adds vectors to it.
    """

    def __init__(self, bindings: Bindings, location: Any) -> None:
        self.bindings = bindings
        self.ir = bindings.ir
        self.location = location

    # ---- names -------------------------------------------------------------------------------

    def named(self, name: str) -> Any:
        """A location that lets the printer call the next value `name`."""
        return self.ir.Location.name(name, self.location)

    # ---- loops and branches ------------------------------------------------------------------

    def map_of(self, indices: Sequence[Index]) -> tuple[Any, list[Any]]:
        """An affine map with one result per index, and its operands."""
        operands: dict[Any, int] = {}
        for index in indices:
            for value, _ in index.terms:
                operands.setdefault(value, len(operands))
        results = [self._expression(index, operands) for index in indices]
        return self.ir.AffineMap.get(len(operands), 0, results), list(operands)

    def _expression(self, index: Index, positions: dict[Any, int]) -> Any:
        expr = self.ir.AffineExpr
        result = None
        for value, coefficient in index.terms:
            term = expr.get_dim(positions[value]) * coefficient
            result = term if result is None else result + term
        if result is None:
            return expr.get_constant(index.constant)
        return result + index.constant if index.constant else result

    @contextmanager
    def loop(
        self, name: str, start: Index, ends: Sequence[Index], step: int = 1
    ) -> Iterator[Index]:
        """`affine.for name = start to min(ends) step`; yields its induction variable."""
        loop = self._for(name, start, ends, step, ())
        with self.ir.InsertionPoint(loop.body), self.location:
            yield Index.of(loop.induction_variable)
            self.bindings.affine.AffineYieldOp([])

    def carrying_loop(
        self,
        name: str,
        start: Index,
        ends: Sequence[Index],
        carried: Sequence[Any],
        body: Callable[[Index, list[Any]], Sequence[Any]],
        step: int = 1,
    ) -> list[Any]:
        """The final values of a loop around `body`, which takes the index and the `carried` values
        and returns those of the next iteration."""
        loop = self._for(name, start, ends, step, carried)
        with self.ir.InsertionPoint(loop.body), self.location:
            index = Index.of(loop.induction_variable)
            self.bindings.affine.AffineYieldOp(body(index, list(loop.inner_iter_args)))
        return list(loop.results)

    def _for(
        self, name: str, start: Index, ends: Sequence[Index], step: int, carried: Sequence[Any]
    ) -> Any:
        lower, lower_operands = self.map_of([start])
        upper, upper_operands = self.map_of(ends)
        with self.named(name):
            return self.bindings.affine.AffineForOp(
                lower,
                upper,
                step,
                list(carried),
                lower_bound_operands=lower_operands,
                upper_bound_operands=upper_operands,
            )

    @contextmanager
    def parallel(
        self,
        names: Sequence[str],
        starts: Sequence[Index],
        ends: Sequence[Sequence[Index]],
        steps: Sequence[int],
    ) -> Iterator[list[Index]]:
        """`affine.parallel` over several dims; `ends[i]` is a minimum of several bounds."""
        ir = self.ir
        lower, lower_operands = self.map_of(starts)
        upper, upper_operands = self.map_of([end for group in ends for end in group])
        i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)

        def groups(sizes: Sequence[int]) -> Any:
            return ir.DenseElementsAttr.get(np.array(sizes, np.int32), type=i32)

        operation = ir.Operation.create(
            "affine.parallel",
            operands=[*lower_operands, *upper_operands],
            attributes={
                "reductions": ir.ArrayAttr.get([]),
                "lowerBoundsMap": ir.AffineMapAttr.get(lower),
                "lowerBoundsGroups": groups([1] * len(starts)),
                "upperBoundsMap": ir.AffineMapAttr.get(upper),
                "upperBoundsGroups": groups([len(group) for group in ends]),
                "steps": ir.ArrayAttr.get([ir.IntegerAttr.get(i64, step) for step in steps]),
            },
            regions=1,
            loc=self.location,
        )
        index = ir.IndexType.get()
        block = operation.regions[0].blocks.append(
            *([index] * len(names)), arg_locs=[self.named(name) for name in names]
        )
        with ir.InsertionPoint(block):
            yield [Index.of(argument) for argument in block.arguments]
            self.bindings.affine.AffineYieldOp([])

    def branch(
        self,
        conditions: Sequence[Condition],
        then: Callable[[], Sequence[Any] | None],
        otherwise: Callable[[], Sequence[Any] | None] | None = None,
        types: Sequence[Any] = (),
    ) -> list[Any]:
        """`affine.if` on all of `conditions`, with an else if there is something to do `otherwise`;
        `then` alone if there is no condition."""
        if not conditions:
            return list(then() or ())
        ir, affine = self.ir, self.bindings.affine
        positions: dict[Any, int] = {}
        for condition in conditions:
            for value, _ in condition.index.terms:
                positions.setdefault(value, len(positions))
        set_ = ir.IntegerSet.get(
            len(positions),
            0,
            [self._expression(condition.index, positions) for condition in conditions],
            [condition.equality for condition in conditions],
        )
        operation = affine.AffineIfOp(
            set_,
            list(types),
            cond_operands=list(positions),
            has_else=otherwise is not None,
            loc=self.location,
        )
        for body, region in zip((then, otherwise), operation.regions, strict=True):
            if body is not None:
                with ir.InsertionPoint(region.blocks[0]):
                    affine.AffineYieldOp(list(body() or ()))
        return list(operation.results)

    def whole_or_rest(
        self, start: Index, unit: int, extent: int, emit: Callable[[int], None]
    ) -> None:
        """`emit(unit)` for the part of a dim that begins at `start`, or `emit` for what is left of
        its `extent` there, if that is less."""
        rest = extent % unit
        if rest == 0:
            emit(unit)
        elif start.terms:
            self.branch([start.at_most(extent - unit)], lambda: emit(unit), lambda: emit(rest))
        else:
            emit(min(unit, extent - start.constant))

    def apply(self, name: str, index: Index, divisor: int = 1, modulo: int = 0) -> Index:
        """`index floordiv divisor mod modulo` (0 for none): a value of its own, unless it is
        constant, or `index` itself."""
        if not index.terms:
            quotient = index.constant // divisor
            return Index(constant=quotient % modulo if modulo else quotient)
        if divisor == 1 and not modulo:
            return index
        return Index.of(self.applied(name, index, divisor, modulo))

    def applied(self, name: str, index: Index, divisor: int = 1, modulo: int = 0) -> Any:
        """`index floordiv divisor mod modulo` (0 for none), always a value of its own."""
        map_, operands = self.map_of([index])
        expr = map_.results[0]
        if divisor != 1:
            expr = self.ir.AffineExpr.get_floor_div(expr, divisor)
        if modulo:
            expr = self.ir.AffineExpr.get_mod(expr, modulo)
        map_ = self.ir.AffineMap.get(len(operands), 0, [expr])
        with self.named(name):
            return self.bindings.affine.AffineApplyOp(map_, operands).result

    # ---- memory ------------------------------------------------------------------------------

    def load(self, memref: Any, indices: Sequence[Index], name: str) -> Any:
        map_, operands = self.map_of(indices)
        with self.named(name):
            return self.bindings.affine.AffineLoadOp(
                memref.type.element_type, memref, operands, self.ir.AffineMapAttr.get(map_)
            ).result

    def store(self, value: Any, memref: Any, indices: Sequence[Index]) -> None:
        map_, operands = self.map_of(indices)
        attribute = self.ir.AffineMapAttr.get(map_)
        self.bindings.affine.AffineStoreOp(value, memref, operands, attribute, loc=self.location)
