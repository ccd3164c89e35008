"""Where accumulators come from and go to: fill, bias, partial sums, the output.

Three ways to the output, by its layout: lanes next to each other in memory are whole vectors; lanes
across it while another dim of the register tile lies along it are transposed in registers; anything
else goes element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.operands import Operands, Position, element
from mopt_mlir.codegen.partials import Partials
from mopt_mlir.codegen.ranges import Range
from mopt_mlir.codegen.transpose import transpose
from mopt_mlir.problem import Problem, Role

_FAR = 1 << 40
"""Elements between neighbours of which nothing is known: they do not follow each other."""


@dataclass(frozen=True)
class AccumulatorTile:
    """The accumulators of one register tile, numbered `vector * len(scalars) + scalar`.

    Between two visits they are in `partials`, if there are any, else in the output.
    """

    builder: Builder
    problem: Problem
    operands: Operands
    lanes: int
    lane_dim: str
    vectors: tuple[Position, ...]
    scalars: tuple[Position, ...]
    start: Mapping[str, Index]
    partials: Partials | None = None

    # ---- initial values ----------------------------------------------------------------------

    def initial(self, reduction: Mapping[str, Range]) -> list[Any]:
        """Accumulators at the start of the reduction tile `reduction`.

        The first tile of the reduction takes the fill, the bias or the output's contents, any other
        what the one before has left.
        """
        accumulates = self.operands.fill is None and self.operands.bias is None
        begin = self._read if accumulates else self._fresh
        resume = self._read if self.partials is None else self._restore
        conditions = self.is_first(reduction)
        if not conditions or begin == resume:
            return begin()
        type_ = self.builder.vector_type(self.lanes, self.operands.output.type.element_type)
        count = len(self.vectors) * len(self.scalars)
        return self.builder.branch(conditions, begin, resume, [type_] * count)

    def _restore(self) -> list[Any]:
        assert self.partials is not None
        tile = self.partials.tile(self.builder, self.start)
        return self.partials.load(self.builder, tile, len(self.vectors) * len(self.scalars))

    def _fresh(self) -> list[Any]:
        vector_type = self.builder.vector_type(self.lanes, self.operands.output.type.element_type)
        if self.operands.bias is None:
            value = self.builder.broadcast(vector_type, self.operands.fill)
            return [value] * (len(self.vectors) * len(self.scalars))
        (channel,) = self.problem.by_role(Role.OUT_CHANNEL)
        loaded: dict[tuple[int, int], Any] = {}
        values = []
        for vector in self.vectors:
            for scalar in self.scalars:
                offset = vector.offset(channel) + scalar.offset(channel)
                index = [self.start[channel] + offset]
                valid = vector.valid if self.lane_dim == channel else 1
                if (offset, valid) not in loaded:
                    loaded[offset, valid] = self._bias(vector_type, index, valid, channel)
                values.append(loaded[offset, valid])
        return values

    def _bias(self, vector_type: Any, index: list[Index], valid: int, channel: str) -> Any:
        bias, builder = self.operands.bias, self.builder
        if self.lane_dim != channel:
            return builder.broadcast(vector_type, builder.load(bias, index, "bias"))
        strides, _ = bias.type.get_strides_and_offset()
        if strides[0] == 1:
            return builder.vector_load(bias, index, self.lanes, valid, "bias")
        vector = builder.zeros(vector_type)
        for lane in range(valid):
            vector = builder.insert(builder.load(bias, [index[0] + lane], "bias"), vector, lane)
        return vector

    # ---- the output --------------------------------------------------------------------------

    def finish(self, accumulators: Sequence[Any], reduction: Mapping[str, Range]) -> None:
        """Store the accumulators after the reduction tile `reduction`."""
        partials, conditions = self.partials, self.is_last(reduction)
        if partials is None or not conditions:
            self.write(accumulators)
            return

        def save() -> None:
            partials.store(self.builder, partials.tile(self.builder, self.start), accumulators)

        self.builder.branch(conditions, lambda: self.write(accumulators), save)

    def is_first(self, reduction: Mapping[str, Range]) -> list[tuple[Index, bool]]:
        """The conditions of `Builder.branch` under which no reduction tile precedes `reduction`."""
        return [(part.start, True) for part in reduction.values() if part.start.terms]

    def is_last(self, reduction: Mapping[str, Range]) -> list[tuple[Index, bool]]:
        """The conditions of `Builder.branch` under which no reduction tile follows `reduction`."""
        return [
            (end + -self.problem.extent(dim), False)
            for dim, part in reduction.items()
            for end in part.ends
            if end.terms
        ]

    def write(self, accumulators: Sequence[Any]) -> None:
        """Store every valid element of the accumulators to the output."""
        if self.problem.output.runs_along(self.lane_dim):
            for v, vector in enumerate(self.vectors):
                for q, scalar in enumerate(self.scalars):
                    where = self._output(vector, scalar)
                    value = accumulators[v * len(self.scalars) + q]
                    self.builder.vector_store(
                        value,
                        self.operands.output,
                        where,
                        vector.valid,
                        self.operands.nontemporal,
                    )
        elif (along := self._transposable()) is not None:
            self._write_transposed(accumulators, along)
        else:
            for value, where in self._elements(accumulators):
                self.builder.store(value, self.operands.output, where)

    def _read(self) -> list[Any]:
        if self.problem.output.runs_along(self.lane_dim):
            return [
                self.builder.vector_load(
                    self.operands.output,
                    self._output(vector, scalar),
                    self.lanes,
                    vector.valid,
                    "acc",
                )
                for vector in self.vectors
                for scalar in self.scalars
            ]
        if (along := self._transposable()) is not None:
            return self._read_transposed(along)
        return self._read_elements()

    def _output(self, vector: Position, scalar: Position, lane: int = 0) -> list[Index]:
        point = {
            dim: start + vector.offset(dim) + scalar.offset(dim)
            for dim, start in self.start.items()
        }
        point[self.lane_dim] = point[self.lane_dim] + lane
        return element(self.problem.output, point)

    # ---- transposed --------------------------------------------------------------------------

    def _transposable(self) -> str | None:
        """A dim of the scalars that lies along the output's memory, if any."""
        if len(self.scalars) < 2 or self.lanes < 2:
            return None
        dims = [dim for dim, _ in self.scalars[0].offsets]
        return next((dim for dim in dims if self.problem.output.runs_along(dim)), None)

    def _runs(self) -> list[list[int]]:
        """Scalars in groups of up to `lanes` that follow each other in memory: along a row, and on
        into the next one if they are whole rows."""
        dims = [dim for dim, _ in self.scalars[0].offsets]
        rows = frozenset[str]().union(*(axis.dims for axis in self.problem.output.axes[-2:]))
        steps = {dim: self.problem.output.step(dim) if dim in rows else None for dim in dims}
        runs: list[list[int]] = []
        before = None
        for q, scalar in enumerate(self.scalars):
            place = sum(scalar.offset(dim) * (step or _FAR) for dim, step in steps.items())
            if before is None or place != before + 1 or len(runs[-1]) == self.lanes:
                runs.append([])
            runs[-1].append(q)
            before = place
        return runs

    def _memory(self, runs: Sequence[Sequence[int]], along: str) -> Any:
        """The output, its last two axes joined if any of `runs` goes on into the next row."""
        output = self.operands.output
        columns = [[self.scalars[q].offset(along) for q in run] for run in runs]
        if all(run[-1] - run[0] == len(run) - 1 for run in columns):
            return output
        axes = range(len(output.type.shape))
        return self.builder.collapse(output, [*((i,) for i in axes[:-2]), axes[-2:]], "rows")

    def _start(self, memory: Any, vector: Position, run: Sequence[int], lane: int) -> list[Index]:
        """Where scalars that follow each other begin in `memory`."""
        where = self._output(vector, self.scalars[run[0]], lane)
        if memory is self.operands.output:
            return where
        *outer, row, column = where
        return [*outer, row * self.operands.output.type.shape[-1] + column]

    def _transpose(self, rows: list[Any]) -> list[Any]:
        missing = self.lanes - len(rows)
        padding = [self.builder.poison(rows[0].type)] * missing if missing else []
        return transpose(self.builder, rows + padding, self.problem.output.element.size)

    def _write_transposed(self, accumulators: Sequence[Any], along: str) -> None:
        runs = self._runs()
        memory = self._memory(runs, along)
        for v, vector in enumerate(self.vectors):
            for run in runs:
                rows = [accumulators[v * len(self.scalars) + q] for q in run]
                for lane, column in enumerate(self._transpose(rows)[: vector.valid]):
                    where = self._start(memory, vector, run, lane)
                    self.builder.vector_store(column, memory, where, len(run))

    def _read_transposed(self, along: str) -> list[Any]:
        values: list[Any] = [None] * (len(self.vectors) * len(self.scalars))
        runs = self._runs()
        memory = self._memory(runs, along)
        for v, vector in enumerate(self.vectors):
            for run in runs:
                places = [self._start(memory, vector, run, lane) for lane in range(vector.valid)]
                columns = [
                    self.builder.vector_load(memory, where, self.lanes, len(run), "acc")
                    for where in places
                ]
                columns += [self.builder.poison(columns[0].type)] * (self.lanes - vector.valid)
                rows = transpose(self.builder, columns, self.problem.output.element.size)
                for q, row in zip(run, rows, strict=False):
                    values[v * len(self.scalars) + q] = row
        return values

    # ---- element by element ------------------------------------------------------------------

    def _elements(self, accumulators: Sequence[Any]) -> list[tuple[Any, list[Index]]]:
        return [
            (
                self.builder.extract(accumulators[v * len(self.scalars) + q], lane),
                self._output(vector, scalar, lane),
            )
            for v, vector in enumerate(self.vectors)
            for q, scalar in enumerate(self.scalars)
            for lane in range(vector.valid)
        ]

    def _read_elements(self) -> list[Any]:
        vector_type = self.builder.vector_type(self.lanes, self.operands.output.type.element_type)
        values = []
        for vector in self.vectors:
            for scalar in self.scalars:
                value = self.builder.zeros(vector_type)
                for lane in range(vector.valid):
                    where = self._output(vector, scalar, lane)
                    loaded = self.builder.load(self.operands.output, where, "acc")
                    value = self.builder.insert(loaded, value, lane)
                values.append(value)
        return values
