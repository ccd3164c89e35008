"""What a pass of ours is: a frozen dataclass whose fields are its command-line options.

The class docstring is the pass's `--help` text. Loading a pass must be cheap, because `--help`
loads all of them: a pass module imports MLIR, numpy or the solver where it uses them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, ClassVar, TypeVar

from mopt_mlir.diagnostics import UserError
from mopt_mlir.pipeline.options import given_options, option, options_of, parse_options_text

__all__ = ["Pass", "help_of", "option", "parse_options"]

_P = TypeVar("_P", bound="Pass")


@dataclass(frozen=True)
class Pass(ABC):
    """A pass over one `builtin.module`; derive a frozen dataclass, set `name`, define `run`."""

    name: ClassVar[str]

    def check(self) -> None:  # noqa: B027 (most passes have nothing to check)
        """Raise UserError where an option makes no sense, as far as that shows without a module.

        Called when the pass is added to a pipeline, so that what is wrong is located there.
        """

    @abstractmethod
    def run(self, module: Any) -> None:
        """Rewrite `module`, the `builtin.module` operation of any MLIR Python bindings, whose
        context is the current one.

        Raises Failure after having emitted an error, or UserError for what a user got wrong;
        the module is then in an unspecified state and must not be used.
        """

    def __str__(self) -> str:
        """As in a textual pipeline, e.g. `mopt-tile{machine=znver5 threads=2}`."""
        given = given_options(self)
        return f"{self.name}{{{given}}}" if given else self.name


def help_of(cls: type[Pass]) -> str:
    """The text that `--help` shows for a pass: its own docstring, or nothing."""
    return cleandoc(cls.__dict__.get("__doc__") or "")


def parse_options(cls: type[_P], text: str) -> _P:
    """An instance of `cls` from options as MLIR writes them: `machine=znver5 threads=2`.

    Raises UserError for an unknown option, one given twice, or a value of the wrong kind.
    """
    values: dict[str, Any]
    try:
        values = parse_options_text(options_of(cls), text)
    except UserError as error:
        raise UserError(f"{cls.name}: {error.message}") from None
    return cls(**values)
