"""Where accumulators come from and go to: fill, bias, partial sums, the output.

`vector_access.storing_way` says which of three ways they take to the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Condition, Index
from mopt_mlir.codegen.operands import Operands, Position, indices_of
from mopt_mlir.codegen.partials import Partials
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.register_tile import RegisterTile
from mopt_mlir.codegen.transpose import transpose
from mopt_mlir.layouts import layout_of
from mopt_mlir.problem import Problem
from mopt_mlir.vector_access import dim_along_output, runs, storing_way


@dataclass(frozen=True)
class Accumulators:
    """The values of the accumulators of the register `tile` at `start`.

    Between two visits they are in `partials`, if there are any, else in the output.
    """

    builder: Builder
    problem: Problem
    operands: Operands
    tile: RegisterTile
    start: Mapping[str, Index]
    partials: Partials | None = None

    # ---- initial values ----------------------------------------------------------------------

    def initial(self, reduction: Mapping[str, Range]) -> list[Any]:
        """Accumulators at the start of the reduction tile `reduction`.

        The first tile of the reduction takes the fill or the bias, any other the partial sums, if
        these are in scratch memory. What is in the output is not read before the end (`finish`):
        nothing waits for it until then.
        """
        if self._accumulates and self.partials is None:
            return self._zeros()
        begin = self._zeros if self._accumulates else self._fresh
        resume = self._zeros if self.partials is None else self._restore
        types = [self._vector_type] * self.tile.count
        return self.builder.branch(self.when_first(reduction), begin, resume, types)

    def _restore(self) -> list[Any]:
        assert self.partials is not None
        return self.partials.load(self.builder, self.tile.count)

    @property
    def _vector_type(self) -> Any:
        return self.builder.vector_type(
            self.tile.kernel.vector, self.operands.output.type.element_type
        )

    @property
    def _accumulates(self) -> bool:
        """Whether the output's contents count."""
        return self.operands.fill is None and self.operands.bias is None

    def _zeros(self) -> list[Any]:
        return [self.builder.zeros(self._vector_type)] * self.tile.count

    def _fresh(self) -> list[Any]:
        if self.operands.bias is None:
            value = self.builder.broadcast(self._vector_type, self.operands.fill)
            return [value] * self.tile.count
        channel = self.problem.out_channel
        loaded: dict[tuple[int, int], Any] = {}
        values = []
        for vector in self.tile.vectors:
            for scalar in self.tile.scalars:
                offset = vector.offset(channel) + scalar.offset(channel)
                index = [self.start[channel] + offset]
                valid = vector.valid if self.tile.kernel.lanes == channel else 1
                if (offset, valid) not in loaded:
                    loaded[offset, valid] = self._bias(index, valid, channel)
                values.append(loaded[offset, valid])
        return values

    def _bias(self, index: list[Index], valid: int, channel: str) -> Any:
        bias, builder, vector_type = self.operands.bias, self.builder, self._vector_type
        if self.tile.kernel.lanes != channel:
            return builder.broadcast(vector_type, builder.load(bias, index, "bias"))
        layout = layout_of(bias.type)
        if layout is not None and layout.strides == (1,):
            return builder.vector_load(bias, index, self.tile.kernel.vector, valid, "bias")
        vector = builder.zeros(vector_type)
        for lane in range(valid):
            vector = builder.insert(builder.load(bias, [index[0] + lane], "bias"), vector, lane)
        return vector

    # ---- the output --------------------------------------------------------------------------

    def finish(self, accumulators: Sequence[Any], reduction: Mapping[str, Range]) -> None:
        """Store the accumulators after the reduction tile `reduction`, or add them to the output if
        what is there counts."""
        write = partial(self._write, accumulators)
        add = partial(self._write, accumulators, onto=True)
        if self.partials is not None:
            last = add if self._accumulates else write
            save = partial(self._save, accumulators)
            self.builder.branch(self.when_last(reduction), last, save)
        elif self._accumulates:
            add()
        else:
            self.builder.branch(self.when_first(reduction), write, add)

    def _save(self, accumulators: Sequence[Any]) -> None:
        assert self.partials is not None
        self.partials.store(self.builder, accumulators)

    def when_first(
        self, reduction: Mapping[str, Range], since: Mapping[str, Index] | None = None
    ) -> list[Condition]:
        """The conditions under which no reduction tile precedes `reduction`, or none from `since`
        on, an index of each dim (0 where it has none); none, so always, if none can."""
        since = since or {}
        steps = [part.start - since.get(dim, Index()) for dim, part in reduction.items()]
        return [step.is_zero() for step in steps if step.terms]

    def when_last(self, reduction: Mapping[str, Range]) -> list[Condition]:
        """The conditions under which no reduction tile follows `reduction`; none, so always, if
        none can."""
        return [
            end.at_least(self.problem.extent(dim))
            for dim, part in reduction.items()
            for end in part.ends
            if end.terms
        ]

    def _write(self, accumulators: Sequence[Any], *, onto: bool = False) -> None:
        """Store every valid element of the accumulators to the output, or its sum with what is
        there, if `onto` that."""
        way = storing_way(self.problem, self.tile.kernel, len(self.tile.scalars))
        if way == "vectors":
            self._write_vectors(accumulators, onto)
        elif way == "transposed":
            self._write_transposed(accumulators, onto)
        else:
            self._write_elements(accumulators, onto)

    def _write_vectors(self, accumulators: Sequence[Any], onto: bool) -> None:
        for v, vector in enumerate(self.tile.vectors):
            for q, scalar in enumerate(self.tile.scalars):
                where = self._output(vector, scalar)
                value = accumulators[self.tile.number(v, q)]
                past = self.operands.nontemporal
                self._store(value, self.operands.output, where, vector.valid, onto, past)

    def _store(
        self,
        value: Any,
        memory: Any,
        where: list[Index],
        valid: int,
        onto: bool,
        nontemporal: bool = False,
    ) -> None:
        """Store the first `valid` lanes of `value` to consecutive elements of `memory`."""
        if onto:
            there = self.builder.vector_load(memory, where, self.tile.kernel.vector, valid, "acc")
            value = self.builder.add(value, there)
        self.builder.vector_store(value, memory, where, valid, nontemporal)

    def _output(self, vector: Position, scalar: Position, lane: int = 0) -> list[Index]:
        point = {
            dim: start + vector.offset(dim) + scalar.offset(dim)
            for dim, start in self.start.items()
        }
        point[self.tile.kernel.lanes] = point[self.tile.kernel.lanes] + lane
        return indices_of(self.problem.output, point)

    # ---- transposed --------------------------------------------------------------------------

    def _memory(self, groups: Sequence[Sequence[int]]) -> Any:
        """The output, its last two axes joined if any of `groups` goes on into the next row."""
        output, along = self.operands.output, dim_along_output(self.problem, self.tile.kernel)
        assert along is not None
        columns = [[self.tile.scalars[q].offset(along) for q in group] for group in groups]
        if all(run[-1] - run[0] == len(run) - 1 for run in columns):
            return output
        axes = range(len(output.type.shape))
        return self.builder.collapse(output, [*((i,) for i in axes[:-2]), axes[-2:]], "rows")

    def _run_start(
        self, memory: Any, vector: Position, run: Sequence[int], lane: int
    ) -> list[Index]:
        """Where scalars that follow each other begin in `memory`."""
        where = self._output(vector, self.tile.scalars[run[0]], lane)
        if memory is self.operands.output:
            return where
        *outer, row, column = where
        return [*outer, row * self.operands.output.type.shape[-1] + column]

    def _transpose(self, rows: list[Any]) -> list[Any]:
        missing = self.tile.kernel.vector - len(rows)
        padding = [self.builder.poison(rows[0].type)] * missing if missing else []
        return transpose(self.builder, rows + padding, self.problem.output.element.size)

    def _write_transposed(self, accumulators: Sequence[Any], onto: bool) -> None:
        scalars = tuple(scalar.offsets for scalar in self.tile.scalars)
        found = runs(self.problem.output, scalars, self.tile.kernel.vector)
        memory = self._memory(found)
        for v, vector in enumerate(self.tile.vectors):
            for run in found:
                rows = [accumulators[self.tile.number(v, q)] for q in run]
                for lane, column in enumerate(self._transpose(rows)[: vector.valid]):
                    where = self._run_start(memory, vector, run, lane)
                    self._store(column, memory, where, len(run), onto)

    # ---- element by element ------------------------------------------------------------------

    def _write_elements(self, accumulators: Sequence[Any], onto: bool) -> None:
        for v, vector in enumerate(self.tile.vectors):
            for q, scalar in enumerate(self.tile.scalars):
                for lane in range(vector.valid):
                    where = self._output(vector, scalar, lane)
                    value = self.builder.extract(accumulators[self.tile.number(v, q)], lane)
                    if onto:
                        there = self.builder.load(self.operands.output, where, "acc")
                        value = self.builder.add(value, there)
                    self.builder.store(value, self.operands.output, where)
