"""The process that compiles and times the plans of an operator, seen from `measure`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

from mopt_mlir.diagnostics import UserError
from mopt_mlir.plan import Plan

from .. import environment
from ..workers import Worker, WorkerError
from ..workloads import Workload
from .records import plan_data
from .session import MODULE

_REFERENCE = "reference"

Pair = tuple[tuple[float, ...], tuple[float, ...]]
"""Seconds of the reference plan, and of another right after it."""


class PlanProcess:
    """Plans of one operator, and its `reference` plan, in a process that is started when it is
    needed, and anew after it has died. Use it in a `with` statement, which ends it.

    `loaded` are the keys of the plans that can be timed.
    """

    def __init__(
        self, workload: Workload, isa: str, cold: bool, cpus: Sequence[int], reference: Plan
    ) -> None:
        self.workload, self.isa, self.cold, self.cpus = workload, isa, cold, cpus
        self.reference = reference
        self.loaded: set[str] = set()
        self._worker: Worker | None = None
        self._counts = False

    def __enter__(self) -> PlanProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def load(self, key: str, plan: Plan) -> dict[str, Any]:
        """Have a plan compiled and checked: `compile_seconds`, `run_seconds`, `error_of_bound`.

        Raises WorkerError if that fails, and UserError if the process cannot be started, or the
        reference plan fails.
        """
        answer = self._ask("load", key=key, plan=plan_data(plan), isa=self.isa)
        self.loaded.add(key)
        return answer

    def time(self, keys: Sequence[str]) -> dict[str, Pair]:
        """One round of plans that are loaded. Raises WorkerError if the process dies."""
        answer = self._ask("round", keys=keys, against=_REFERENCE, cold=self.cold)
        return {
            key: (tuple(reference), tuple(seconds))
            for key, (reference, seconds) in answer["pairs"].items()
        }

    def count(self, key: str) -> dict[str, float]:
        """The hardware's counters over a run of a plan; none where there are none."""
        if not self._counts:
            return {}
        counts: dict[str, float] = self._ask("count", key=key, cold=self.cold)["counters"]
        return counts

    def latencies(self, caches: Mapping[str, int]) -> dict[str, float]:
        """What `latency.Chains` finds now. Raises WorkerError if the process dies, of which a plan
        may be the cause, and UserError for what else goes wrong."""
        try:
            found: dict[str, float] = self._ask("latencies", caches=dict(caches))["nanoseconds"]
        except WorkerError as error:
            if self._worker is None:
                raise
            raise self._unable(error) from None
        return found

    def unload(self, keys: Iterable[str]) -> None:
        """Forget plans, of which some may not be loaded any more."""
        if left := [key for key in keys if key in self.loaded]:
            self._ask("unload", keys=left)
            self.loaded.difference_update(left)

    def _ask(self, call: str, **arguments: Any) -> dict[str, Any]:
        try:
            return self._started().ask(call, **arguments)
        except WorkerError:
            if self._worker is not None and not self._worker.is_alive:
                self._close()
            raise

    def _started(self) -> Worker:
        """The process, with the operator open and the reference loaded. Raises UserError."""
        if self._worker is None:
            try:
                self._worker = Worker(
                    "plans",
                    sys.executable,
                    environment.worker_environment(1, self.isa),
                    self.cpus,
                    environment.available_cpus(),
                    MODULE,
                )
                self._open(self._worker)
            except BaseException as error:
                self._close()  # half open it is of no use
                if isinstance(error, WorkerError):
                    raise self._unable(error) from None
                raise
        return self._worker

    def _unable(self, error: WorkerError) -> UserError:
        """What is wrong with the host, for which no plan may be noted as one that fails."""
        return UserError(
            f"{self.workload.name}: its plans cannot be timed: {error}; what was measured is kept: "
            "mend that, and give the command again"
        )

    def _open(self, worker: Worker) -> None:
        self._counts = bool(worker.ask("hello")["counters"])
        worker.ask("open", workload=asdict(self.workload))
        try:
            worker.ask("load", key=_REFERENCE, plan=plan_data(self.reference), isa=self.isa)
        except WorkerError as error:
            reason = f"{self.workload.name}: the model's own plan fails: {error}"
            raise UserError(reason) from None

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self.loaded = set()
