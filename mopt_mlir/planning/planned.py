"""A convolution of a module and the plan for it."""

from __future__ import annotations

from dataclasses import dataclass
from json import dumps
from typing import Any

from mopt_mlir.linalg.extract import Convolution
from mopt_mlir.normal_form import Groups
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem


@dataclass(frozen=True)
class PlannedConvolution:
    """A convolution in normal form and its plan; `constant` is weights known at compile time."""

    convolution: Convolution
    problem: Problem
    groups: Groups
    plan: Plan
    constant: Any = None

    @property
    def operation(self) -> Any:
        return self.convolution.operation

    @property
    def packs_constant(self) -> bool:
        return self.constant is not None and self.plan.packing == "whole"

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for two whose loop nests are the same but for the operands."""
        convolution, initializer = self.convolution, self.convolution.initializer
        values = [convolution.input, convolution.weights, convolution.output]
        initial = "accumulate"
        if initializer is not None:
            initial = "fill" if initializer.bias is None else f"bias {initializer.bias.type}"
        return (
            *(str(value.type) for value in values),
            initial,
            str(self.packs_constant),
            repr(self.problem),
            dumps(self.plan.as_dict(), sort_keys=True),
        )
