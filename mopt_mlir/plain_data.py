"""Reading plain data, of JSON or of attributes, one named field after the other.

What has another form than it should is refused by its name: nothing is converted, and nothing that
is spelt wrongly is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mopt_mlir.wording import instead_of

T = TypeVar("T")


class DataError(ValueError):
    """Data is not what it should be; says which field, and how."""


@dataclass(frozen=True)
class Record:
    """A dictionary by the name of `what`, whose own `path` is empty or ends in a dot.

    Whatever reads a field raises DataError, with the path to it, if it is missing or of another
    kind.
    """

    data: Mapping[str, Any]
    what: str
    path: str = ""

    @staticmethod
    def of(data: Any, known: Sequence[str], what: str, path: str = "") -> Record:
        """`data` as a record. Raises DataError if it is none, or has a field that is not known."""
        if not isinstance(data, Mapping):
            where = f"{path.rstrip('.')} = {data!r}" if path else what
            raise DataError(f"{where} is not a dictionary")
        for name in data:
            if name not in known:
                hint = instead_of(str(name), known)
                raise DataError(f"{what} has no field '{path}{name}'; {hint}")
        return Record(data, what, path)

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def text(self, name: str) -> str:
        return _text(*self._field(name))

    def integer(self, name: str) -> int:
        return _integer(*self._field(name))

    def number(self, name: str) -> float:
        return _number(*self._field(name))

    def truth(self, name: str) -> bool:
        value, path = self._field(name)
        if not isinstance(value, bool):
            raise DataError(f"{path} = {value!r} is neither true nor false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(*item) for item in _items(*self._field(name)))

    def texts_by_name(self, name: str) -> dict[str, str]:
        return _by_name(_text, *self._field(name))

    def integers_by_name(self, name: str) -> dict[str, int]:
        return _by_name(_integer, *self._field(name))

    def numbers_by_name(self, name: str) -> dict[str, float]:
        return _by_name(_number, *self._field(name))

    def numbers_by_names(self, name: str) -> dict[str, dict[str, float]]:
        def numbers(value: Any, path: str) -> dict[str, float]:
            return _by_name(_number, value, path)

        return _by_name(numbers, *self._field(name))

    def record(self, name: str, known: Sequence[str]) -> Record:
        value, path = self._field(name)
        return Record.of(value, known, self.what, f"{path}.")

    def records(self, name: str, known: Sequence[str]) -> list[Record]:
        items = _items(*self._field(name))
        return [Record.of(value, known, self.what, f"{path}.") for value, path in items]

    def _field(self, name: str) -> tuple[Any, str]:
        """What stands there, and the path to it."""
        if name not in self.data:
            raise DataError(f"{self.what} lacks '{self.path}{name}'")
        return self.data[name], f"{self.path}{name}"


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{path} = {value!r} is not a text")
    return value


def _integer(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"{path} = {value!r} is not an integer")
    return value


def _number(value: Any, path: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(f"{path} = {value!r} is not a number")
    return value  # 1 is to come back as 1


def _items(value: Any, path: str) -> list[tuple[Any, str]]:
    """The items of a list, each with the path to it."""
    if not isinstance(value, list | tuple):
        raise DataError(f"{path} = {value!r} is not a list")
    return [(item, f"{path}[{i}]") for i, item in enumerate(value)]


def _by_name(read: Callable[[Any, str], T], value: Any, path: str) -> dict[str, T]:
    if not isinstance(value, Mapping):
        raise DataError(f"{path} = {value!r} is not a dictionary")
    return {str(name): read(item, f"{path}[{name}]") for name, item in value.items()}


def check_sizes(what: str, sizes: Mapping[str, int], allowed: set[str]) -> None:
    """Raise DataError, naming `what` they are, where `sizes` have a dim that is not among `allowed`
    or a size that is not positive."""
    for dim, size in sizes.items():
        if dim not in allowed:
            raise DataError(f"{what} names '{dim}'; allowed: {', '.join(sorted(allowed))}")
        if size < 1:
            raise DataError(f"{what}[{dim}] = {size} is not positive")
