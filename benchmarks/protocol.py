"""What is timed: the protocols, and the configuration that one run of the benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .workloads import Workload


class Protocol(str, Enum):
    """Where layouts change, inside or outside the timed call."""

    PAPER = "paper"
    CONSTANT_WEIGHTS = "constant-weights"
    NHWC = "nhwc"

    @property
    def class_(self) -> str:
        """The letter that tables use."""
        return {"paper": "A", "constant-weights": "B", "nhwc": "C"}[self.value]

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self]

    @property
    def constant_weights(self) -> bool:
        """Whether the weights are known when the operator is prepared, and packed then."""
        return self is not Protocol.PAPER

    @property
    def layout(self) -> str:
        """The layout of a `Workload` in this protocol."""
        return "nhwc_hwcf" if self is Protocol.NHWC else "nchw_fchw"

    def workload(self, operator: Workload) -> Workload:
        """`operator` in this protocol's layout."""
        return replace(operator, layout=self.layout)


_DESCRIPTIONS = {
    Protocol.PAPER: "plain NCHW input and output, plain KCRS weights that may change from call to "
    "call; packing, reordering and changes of layout are timed",
    Protocol.CONSTANT_WEIGHTS: "NCHW input and output; constant weights, packed beforehand",
    Protocol.NHWC: "constant weights, and images in the layout that suits best, NHWC for us: "
    "nothing but the convolution is timed",
}

ISAS = ("native", "avx2")


@dataclass(frozen=True)
class Configuration:
    """One benchmark: `cold` flushes the caches before each run, `isa` limits the instructions."""

    protocol: Protocol
    cold: bool
    threads: int = 1
    isa: str = "native"

    @property
    def title(self) -> str:
        """As in `A cold, 2 cores`."""
        cores = "1 core" if self.threads == 1 else f"{self.threads} cores"
        isa = "" if self.isa == "native" else f", {self.isa.upper()}"
        return f"{self.protocol.class_} {'cold' if self.cold else 'warm'}, {cores}{isa}"

    @property
    def slug(self) -> str:
        """The title as the name of a file: `a-cold-2`."""
        isa = "" if self.isa == "native" else f"-{self.isa}"
        temperature = "cold" if self.cold else "warm"
        return f"{self.protocol.class_.lower()}-{temperature}-{self.threads}{isa}"
