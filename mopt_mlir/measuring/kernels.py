"""The loops that calibration runs, generated and compiled as convolutions are.

All of them are built from vectors as wide as the machine's, and have these parameters in common:

- `arrived`, one zero, and `threads`: a loop starts when so many threads have called it with the
  same `arrived`. So the last of them to call starts all, to within the time of a cache miss.
- `rounds` repeats the whole, so that a run is long enough to be timed.
- `values` is one vector of numbers: what is computed with or written, and where a result goes that
  nobody needs, so that no loop is optimised away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import Bindings, bindings
from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.compiler.compilation import compile
from mopt_mlir.problem import ElementType

if TYPE_CHECKING:
    from mopt_mlir.compiler.executable import Executable

CHAINS = 12
"""FMAs that do not depend on each other: more than latency times throughput on known CPUs (5
cycles, 2 per cycle), fewer than the 16 registers of AVX2."""

UNROLL = 16
"""Vectors per step of a loop over memory: so many that the loop itself costs nothing."""

_PARTIAL_RESULTS = 8  # of a reading loop; as many loads are in flight as the CPU can do
_BITS = 32  # of the integers that memory is read and written as


def step_bytes(vector_bits: int) -> int:
    """What the size of a buffer has to be a multiple of."""
    return UNROLL * vector_bits // 8


@cache
def compiled(vector_bits: int, cpu: str | None = None) -> Executable:
    """The functions of `module`:

    - `fma_f32(arrived, threads, rounds, values)`, `fma_f64`: CHAINS vector FMAs in each round;
    - `read(arrived, threads, rounds, values, buffer)`: each round reads 32-bit integers;
    - `write`, with the same parameters: each round writes them;
    - `stream`: the same with non-temporal stores, for which the buffer has to be aligned to a
      vector.

    `cpu` limits the instructions, as in `mopt_mlir.compile`.
    """
    return compile(module(vector_bits), cpu=cpu, passes="canonicalize")


def module(vector_bits: int) -> Any:
    """The loops as a module of affine and vector operations, of the upstream bindings."""
    own = bindings()
    ir = own.ir
    with ir.Context(), ir.Location.unknown():
        built = ir.Module.create()
        index, integer = ir.IndexType.get(), ir.IntegerType.get_signless(_BITS)
        arrived = ir.MemRefType.get([1], ir.IntegerType.get_signless(64))
        buffer = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], integer)
        values = ir.MemRefType.get([vector_bits // _BITS], integer)
        for name, body in (("read", _read), ("write", _write), ("stream", _stream)):
            _function(own, built, name, (arrived, index, index, values, buffer), body)
        for element, type_ in ((ElementType.F32, ir.F32Type), (ElementType.F64, ir.F64Type)):
            values = ir.MemRefType.get([vector_bits // (8 * element.size)], type_.get())
            name = f"fma_{element.value}"
            _function(own, built, name, (arrived, index, index, values), _fma)
    return built


def _function(
    own: Bindings,
    module: Any,
    name: str,
    types: tuple[Any, ...],
    body: Callable[..., None],
) -> None:
    ir = own.ir
    with ir.InsertionPoint(module.body):
        function = own.func.FuncOp(name, (list(types), []))
    entry = function.add_entry_block()
    with ir.InsertionPoint(entry):
        builder = Builder(own, ir.Location.unknown(), entry)
        arrived, threads, *arguments = entry.arguments
        _wait(builder, arrived, threads)
        body(builder, *arguments)
        own.func.ReturnOp([])


def _wait(builder: Builder, arrived: Any, threads: Any) -> None:
    """Count this thread in, and go on when all are there."""
    own, ir = builder.bindings, builder.ir
    kind, counter = own.arith.AtomicRMWKind.addi, arrived.type.element_type
    first = builder.constant(ir.IndexType.get(), 0)
    expected = own.arith.IndexCastOp(counter, threads).result

    def add(number: int) -> Any:
        value = own.arith.ConstantOp(counter, ir.IntegerAttr.get(counter, number)).result
        return own.memref.AtomicRMWOp(kind, value, arrived, [first]).result

    add(1)
    loop = own.scf.WhileOp([], [])
    with ir.InsertionPoint(loop.before.blocks.append()):
        missing = own.arith.CmpIOp(own.arith.CmpIPredicate.slt, add(0), expected).result
        own.scf.ConditionOp(missing, [])
    with ir.InsertionPoint(loop.after.blocks.append()):
        own.scf.YieldOp([])


def _fma(builder: Builder, rounds: Any, values: Any) -> None:
    lanes = values.type.shape[0]
    x = builder.vector_load(values, [Index()], lanes, lanes, "x")

    def each_round(_: Index, sums: list[Any]) -> list[Any]:
        return [builder.bindings.vector.FMAOp(x, x, partial).result for partial in sums]

    rounds_end = [Index.of(rounds)]
    results = builder.carrying_loop("round", Index(), rounds_end, [x] * CHAINS, each_round)
    total = results[0]
    for partial in results[1:]:
        total = builder.bindings.arith.AddFOp(total, partial).result
    builder.vector_store(total, values, [Index()], lanes)


def _read(builder: Builder, rounds: Any, values: Any, buffer: Any) -> None:
    """A bitwise or of everything: one cycle of latency, and never slower than the loads."""
    lanes, arith = values.type.shape[0], builder.bindings.arith
    start = builder.vector_load(values, [Index()], lanes, lanes, "start")
    size = _size(builder, buffer)
    carried = [start] * _PARTIAL_RESULTS

    def each_step(i: Index, partial: list[Any]) -> list[Any]:
        for at in range(UNROLL):
            x = builder.vector_load(buffer, [i + at * lanes], lanes, lanes, "x")
            slot = at % _PARTIAL_RESULTS
            partial[slot] = arith.OrIOp(partial[slot], x).result
        return partial

    def each_round(_: Index, seen: list[Any]) -> list[Any]:
        return builder.carrying_loop("i", Index(), [size], seen, each_step, UNROLL * lanes)

    results = builder.carrying_loop("round", Index(), [Index.of(rounds)], carried, each_round)
    total = results[0]
    for result in results[1:]:
        total = arith.OrIOp(total, result).result
    builder.vector_store(total, values, [Index()], lanes)


def _write(builder: Builder, rounds: Any, values: Any, buffer: Any) -> None:
    _store(builder, rounds, values, buffer, {})


def _stream(builder: Builder, rounds: Any, values: Any, buffer: Any) -> None:
    alignment = values.type.shape[0] * _BITS // 8
    _store(builder, rounds, values, buffer, {"nontemporal": True, "alignment": alignment})


def _store(builder: Builder, rounds: Any, values: Any, buffer: Any, how: dict[str, Any]) -> None:
    lanes = values.type.shape[0]
    value = builder.vector_load(values, [Index()], lanes, lanes, "value")
    size = _size(builder, buffer)
    with (
        builder.loop("round", Index(), [Index.of(rounds)]),
        builder.loop("i", Index(), [size], UNROLL * lanes) as i,
    ):
        for at in range(UNROLL):
            position = builder.applied("at", i + at * lanes)
            builder.bindings.vector.StoreOp(value, buffer, [position], **how)


def _size(builder: Builder, buffer: Any) -> Any:
    """The elements of a buffer."""
    axis = builder.constant(builder.ir.IndexType.get(), 0)
    return Index.of(builder.bindings.memref.DimOp(buffer, axis).result)
