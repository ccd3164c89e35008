"""A compiled function as a Python callable: arguments checked, results allocated, no MLIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mopt_mlir.lowering.arrays import Array, Buffer, BufferArgument, ScalarArgument, overlap
from mopt_mlir.lowering.conventions import Call, preparation
from mopt_mlir.lowering.demands import Requirement
from mopt_mlir.lowering.jit import LoadedCode
from mopt_mlir.lowering.signature import Entry, Parameter
from mopt_mlir.lowering.sizes import Size


class Function:
    """Call it with one argument per parameter; tensor results are returned as new arrays, or
    written to the arrays given as `out`.

    What does not fit raises TypeError or ValueError, naming the argument, and nothing is called;
    neither is anything if sizes that the types leave open do not fit `requirements`.
    """

    def __init__(
        self, entry: Entry, code: LoadedCode, requirements: Sequence[Requirement] = ()
    ) -> None:
        self.entry = entry
        self._requirements = requirements
        self._code = code  # keeps the machine code in memory
        self._prepare = preparation(entry, code.address(entry.symbol))
        given = [p for p in entry.parameters if p.access != "result"]
        results = [p for p in entry.parameters if p.access == "result"]
        self._arguments = [_argument(p, entry) for p in given]
        self._results = [BufferArgument(p, _where(p, entry)) for p in results]
        positions = [p.position for p in (*entry.results, *results)]
        self._order = sorted(range(len(positions)), key=positions.__getitem__)
        self._apart = tuple(_apart(entry.parameters))

    def __repr__(self) -> str:
        return f"<compiled {self.entry}>"

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        """Run the function: its result, a tuple of several, or None.

        `out` is an array for the tensor result, or a sequence of arrays for several.
        """
        return self.bind(*arguments, out=out)()

    def bind(self, *arguments: Any, out: Any = None) -> Callable[[], Any]:
        """Check the arguments once, and return what calls the function with them.

        Every call of that writes to the same results. The arrays must stay as they are: what is
        bound is their memory.
        """
        if len(arguments) != len(self._arguments):
            names = ", ".join(p.name for p in self.entry.parameters if p.access != "result")
            raise TypeError(
                f"{self.entry.name}: expected {len(self._arguments)} arguments ({names}), "
                f"got {len(arguments)}"
            )
        values = [bind.bind(v) for bind, v in zip(self._arguments, arguments, strict=True)]
        results = self._outputs(out)
        values += results
        for first, second in self._apart:
            if overlap(values[first], values[second]):
                raise ValueError(self._overlap_message(first, second))
        sizes: dict[Size, int] = {}
        for requirement in self._requirements:
            if violation := requirement.violation(values, sizes):
                raise ValueError(f"{self.entry.name}: {violation}")
        call, alive = self._prepare(values), (self._code, values)
        if not self._order:
            return _Direct(call, alive)
        return _Bound(call, tuple(result.array for result in results), self._order, alive)

    def _outputs(self, out: Any) -> list[Buffer]:
        if out is None:
            return [result.empty() for result in self._results]
        if not self._results:
            raise TypeError(f"{self.entry.name}: out is for tensor results of static shape")
        given = tuple(out) if isinstance(out, list | tuple) else (out,)
        if len(given) != len(self._results):
            raise TypeError(
                f"{self.entry.name}: it has {len(self._results)} tensor results, "
                f"but out has {len(given)} arrays"
            )
        return [result.bind(array) for result, array in zip(self._results, given, strict=True)]

    def _overlap_message(self, first: int, second: int) -> str:
        names = self.entry.parameters[first].name, self.entry.parameters[second].name
        return f"{self.entry.name}: '{names[0]}' is written to and overlaps '{names[1]}'"


class _Direct(partial[Any]):
    """A call of a function without results, whose arguments were checked. `alive` is what the
    pointers inside of it need.

    No code in Python runs between the caller and the native function: with cold caches a few lines
    of it take 5 us, a twentieth of a small convolution.
    """

    alive: Any

    def __new__(cls, call: Call, alive: Any) -> _Direct:
        self = super().__new__(cls, call)
        self.alive = alive
        return self


@dataclass(frozen=True)
class _Bound:
    """A call whose arguments were checked. `order` sorts what it returns by value and the `arrays`
    of other results; `alive` is what the pointers inside `call` need."""

    call: Call
    arrays: tuple[Array, ...]
    order: Sequence[int]
    alive: Any

    def __call__(self) -> Any:
        returned = (*(self.call() or ()), *self.arrays)
        return returned[0] if len(self.order) == 1 else tuple(returned[i] for i in self.order)


def _argument(parameter: Parameter, entry: Entry) -> BufferArgument | ScalarArgument:
    kind = ScalarArgument if parameter.shape is None else BufferArgument
    return kind(parameter, _where(parameter, entry))


def _where(parameter: Parameter, entry: Entry) -> str:
    return f"{entry.name}: argument '{parameter.name}'"


def _apart(parameters: Sequence[Parameter]) -> list[tuple[int, int]]:
    """Pairs of buffers that must not overlap: what is written to, and any other."""
    buffers = [i for i, p in enumerate(parameters) if p.shape is not None]
    written = {i for i in buffers if parameters[i].access != "read"}
    return [(i, j) for i in written for j in buffers if i != j and (j not in written or j < i)]
