"""What a peer is: anything that can prepare a convolution and run it again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..protocol import Configuration
    from ..workloads import Array, Workload


class UnavailableError(Exception):
    """A peer is not installed, or cannot do what is asked: it says why, and is left out."""


@dataclass(frozen=True)
class Task:
    """A convolution to prepare. `workload` and the arrays are in the protocol's layout (images
    NCHW or NHWC, weights KCRS or RSCK); the arrays stay as they are while it is measured. `flush`
    is what is called before each run then, if caches are to be cold: whoever times several ways to
    choose from does the same."""

    workload: Workload
    configuration: Configuration
    input: Array
    weights: Array
    flush: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Prepared:
    """`run` does the timed work once; `output` then gives the result in the protocol's layout.

    `detail` names what was chosen inside, such as a library's kernel, for the record.
    """

    run: Callable[[], Any]
    output: Callable[[], Array]
    detail: str = ""


class Peer(Protocol):
    """A library or compiler. Constructing it raises UnavailableError if it is not installed.

    `version` is what is measured. `prepare` may take its time; it raises UnavailableError for a
    task that it does not support.
    """

    @property
    def version(self) -> str: ...

    def prepare(self, task: Task) -> Prepared: ...
