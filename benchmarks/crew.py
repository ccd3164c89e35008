"""The workers of one benchmark: who takes part, who is left out and why, who fails at what."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import environment
from .peers import REGISTRY
from .protocol import Configuration
from .results import Failure
from .workers import Worker, WorkerError


@dataclass
class Progress:
    """Called as a benchmark goes on: with a message for the user, and with what is being done.
    Silent unless replaced."""

    warn: Callable[[str], None] = lambda message: None
    step: Callable[[str], None] = lambda what: None


class Crew:
    """A worker for each of `peers` that is installed and suits the configuration.

    `python` is the interpreter that has the peers, `cpus` are the cores to measure on. Use it in a
    `with` statement, which ends the processes. `unavailable` says why a peer was left out,
    `failures` what peers could not do.
    """

    def __init__(
        self,
        peers: Sequence[str],
        configuration: Configuration,
        cpus: Sequence[int],
        python: str,
        progress: Progress,
    ) -> None:
        self.configuration, self.cpus, self.python = configuration, cpus, python
        self.progress = progress
        self.workers: dict[str, Worker] = {}
        self.unavailable: dict[str, str] = {}
        self.failures: list[Failure] = []
        self._stack = ExitStack()
        with self._stack:  # ends those started if one more cannot be
            for peer in peers:
                progress.step(f"starting {peer}")
                self._hire(peer)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def versions(self) -> dict[str, str]:
        return {peer: worker.version for peer, worker in self.workers.items()}

    def ask(self, peer: str, operator: str, call: str, **arguments: Any) -> dict[str, Any] | None:
        """The answer of a peer's worker, or None after its failure was noted."""
        try:
            return self.workers[peer].ask(call, **arguments)
        except WorkerError as reason:
            self.failures.append(Failure(operator, peer, str(reason)))
            self.progress.warn(f"{operator}: {peer} failed: {reason}")
        if not self.workers[peer].is_alive:  # the next operator gets a new process
            del self.workers[peer]
            self._hire(peer)
        return None

    def _hire(self, peer: str) -> None:
        reason = unsuitable(peer, self.configuration)
        if reason is None:
            try:
                self.workers[peer] = self._stack.enter_context(self._worker(peer))
            except WorkerError as error:
                reason = str(error)
        if reason is not None:
            self.unavailable[peer] = reason
            self.progress.warn(f"{peer} is left out: {reason}")

    def _worker(self, peer: str) -> Worker:
        return Worker(
            peer,
            sys.executable if REGISTRY[peer].own else self.python,
            environment.worker_environment(self.configuration.threads, self.configuration.isa),
            self.cpus,
            environment.available_cpus(),
        )


def unsuitable(peer: str, configuration: Configuration) -> str | None:
    """Why a peer cannot take part in a configuration, or None."""
    entry = REGISTRY[peer]
    if configuration.protocol not in entry.protocols:
        return f"not for protocol {configuration.protocol.value}"
    if configuration.isa != "native" and not entry.limits_isa:
        return f"cannot be limited to {configuration.isa.upper()}"
    return None
