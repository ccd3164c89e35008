"""A plan as the dictionary attribute `mopt.plan` of an operation, and back.

`attach_plan` and `attached_plan` are for programs that use this package; what is wrong there is
located. `attach` and `attached` are for those who know the operation and its bindings already.
"""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import Bindings, bindings_of
from mopt_mlir.diagnostics import UserError, describe, emit
from mopt_mlir.linalg.extract import UnsupportedError, extract
from mopt_mlir.normal_form import normalised
from mopt_mlir.plain_attributes import to_attribute, to_data
from mopt_mlir.plain_data import DataError
from mopt_mlir.plan import Plan
from mopt_mlir.wording import counted

NAME = "mopt.plan"

PLAN_ANEW = f"or leave out '{NAME}' to have it planned anew"
"""The way out with each plan that does not suit what is asked for."""


def attach_plan(operation: Any, plan: Plan) -> None:
    """Have `operation`, a convolution of any MLIR Python bindings, carry `plan` as its attribute
    `mopt.plan`, in place of another one: `mopt-tile` then does what it says.

    Raises UserError, located at the operation, if that is not what `mopt-tile` takes, or if `plan`
    does not fit it; TypeError for what is no operation of MLIR's bindings, or no Plan.
    """
    if not isinstance(plan, Plan):
        kind = type(plan).__name__
        raise TypeError(f"a plan is a Plan, as Plan.from_dict makes of a dictionary, not {kind}")
    bindings, operation = _operation_of(operation)
    with operation.context, operation.location:
        try:
            if not operation.name.startswith("linalg."):
                raise UnsupportedError("it is not a convolution")
            plan.check(normalised(extract(operation, bindings).problem))
        except UnsupportedError as reason:
            message = f"'{operation.name}' is not tiled: {reason}"
            raise UserError(message, describe(operation.location)) from None
        except DataError as error:
            raise _refused(operation, error) from None
        attach(operation, plan, bindings)


def attached_plan(operation: Any) -> Plan | None:
    """The plan that `operation`, of any MLIR Python bindings, carries as its attribute `mopt.plan`,
    or None.

    Raises UserError, located at the operation, if the attribute is no plan; TypeError for what is
    no operation of MLIR's bindings. Whether the plan fits the operation is for `mopt-tile` to say.
    """
    bindings, operation = _operation_of(operation)
    try:
        return attached(operation, bindings)
    except DataError as error:
        raise _refused(operation, error) from None


def _operation_of(handle: Any) -> tuple[Bindings, Any]:
    bindings = bindings_of(handle)
    if not hasattr(handle, "operation"):
        raise TypeError(f"a plan is carried by an operation, not by a {type(handle).__name__}")
    return bindings, handle.operation


def _refused(operation: Any, reason: DataError) -> UserError:
    return UserError(f"'{NAME}': {reason}", describe(operation.location))


def warn_of_other_threads(plan: Plan, threads: int, location: Any) -> None:
    """Warn of a plan that an operation carries for other threads than were asked for: it is taken
    as it is."""
    if plan.threads != threads:
        emit(
            "warning",
            location,
            f"its plan is for {counted(plan.threads, 'thread')}, but threads={threads} was asked "
            f"for; ask for threads={plan.threads}, {PLAN_ANEW}",
        )


def attach(operation: Any, plan: Plan, bindings: Bindings) -> None:
    """Set `mopt.plan` on `operation`."""
    operation.attributes[NAME] = to_attribute(plan.as_dict(), bindings)


def attached(operation: Any, bindings: Bindings) -> Plan | None:
    """The plan that `operation` carries, or None.

    Raises DataError, naming what is missing or of the wrong kind, if the attribute is no plan.
    """
    if NAME not in operation.attributes:
        return None
    attribute = operation.attributes[NAME]
    if not isinstance(attribute, bindings.ir.DictAttr):
        raise DataError("the plan is not a dictionary attribute")
    return Plan.from_dict(to_data(attribute, "the plan", bindings))
