"""Worker processes seen from the benchmark: started, asked, and stopped while others run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from select import select
from types import TracebackType
from typing import IO, Any

import mopt_mlir
from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine.facts import observe
from mopt_mlir.machine.flushing import flushed, largest_cache

PACKAGE = Path(__file__).resolve().parent
COMPILER = Path(str(mopt_mlir.__file__)).resolve().parent

TIMEOUT = 3600.0  # seconds for one answer; a tuner's preparation is the longest
_GRACE = 5.0  # seconds to end by itself
_LOG_TAIL = 3  # lines of a dead worker's output that go into the message

# The peers' Python may have neither the compiler nor this package on its path, and the directories
# that hold them also hold much that must not get onto it.
_BOOTSTRAP = """
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
compiler, package, module, *arguments = sys.argv[1:]
for name, place in ("mopt_mlir", compiler), ("benchmarks", package):
    spec = spec_from_file_location(name, place + "/__init__.py",
                                   submodule_search_locations=[place])
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
import_module(module).main(*arguments)
"""


class WorkerError(Exception):
    """A peer refused or failed; the message says why."""


class Worker:
    """A peer in its own process. It is stopped (SIGSTOP) unless it is answering, so that threads
    that spin while they wait for work do not take the cores from the others.

    It runs on `cpus`; the caches of `flush_cpus` are flushed. `module` has the `main` that serves
    it. Raises WorkerError if the peer is not installed, UserError if `python` cannot be started or
    this host is not known.
    """

    def __init__(
        self,
        peer: str,
        python: str,
        environment: Mapping[str, str],
        cpus: Sequence[int],
        flush_cpus: Sequence[int],
        module: str = "benchmarks.worker",
    ) -> None:
        self.peer = peer
        flush = {**asdict(flushed(observe(), flush_cpus)), "cache_bytes": largest_cache()}
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        arguments = [
            str(COMPILER),
            str(PACKAGE),
            module,
            peer,
            json.dumps(list(cpus)),
            json.dumps(flush),
        ]
        try:
            self._process = subprocess.Popen(
                [python, "-c", _BOOTSTRAP, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=dict(environment),
                text=True,
            )
        except OSError as error:
            self._log.close()
            raise UserError(f"cannot start {python}: {error.strerror}") from None
        try:
            self.version: str = self._answer(TIMEOUT)["version"]
        except BaseException:
            self.close()
            raise
        self._signal(signal.SIGSTOP)

    def ask(self, call: str, timeout: float = TIMEOUT, **arguments: Any) -> dict[str, Any]:
        """The worker's answer. Raises WorkerError for a refusal, and if the process ended or did
        not answer in `timeout` seconds, after which it is gone."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
            return self._answer(timeout)
        except BrokenPipeError:
            raise WorkerError(self._post_mortem()) from None
        finally:
            self._signal(signal.SIGSTOP)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        self._signal(signal.SIGCONT)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # the last request did not reach it
                    stream.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, timeout: float) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select([stdout], [], [], timeout)
        if not ready:
            self._process.kill()
            raise WorkerError(f"no answer for {timeout:.0f} seconds")
        line = stdout.readline()
        if not line:
            raise WorkerError(self._post_mortem())
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _post_mortem(self) -> str:
        """How the process ended, and the last it said."""
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:  # it closed its output, but lives
            self._process.kill()
            code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._log.seek(0)
        tail = self._log.read().decode(errors="replace").strip().splitlines()[-_LOG_TAIL:]
        return f"its process ended with {how}" + (f": {' / '.join(tail)}" if tail else "")

    def _signal(self, number: int) -> None:
        if self.is_alive:
            os.kill(self._process.pid, number)
