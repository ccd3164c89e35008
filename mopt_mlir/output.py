"""Output files that are either complete or as they were before."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from stat import S_IMODE
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread
from uuid import uuid4

from mopt_mlir.diagnostics import UserError

_STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Other names of standard output, which may be a file that has more in it: not to be replaced."""


_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


def canonical(path: str | PathLike[str]) -> str:
    """The name of an output, "-" for all of standard output's."""
    name = fspath(path)
    return "-" if name in _STDOUT else name


def check_output(path: str | PathLike[str]) -> None:
    """Raise UserError if `path` cannot be written, before work is spent on what goes there."""
    name = canonical(path)
    if name == "-" and sys.stdout is None:
        raise UserError("standard output is closed")
    if name == "-":
        return
    if not name:
        raise UserError("the name of the output file is empty")
    try:
        if (number := _descriptor(name)) is not None:
            os.fstat(number)
            return
        directory = os.path.dirname(os.path.realpath(name))
    except (OSError, ValueError) as error:  # closed, a lost working directory, a NUL in the name
        raise UserError(f"cannot write it: {getattr(error, 'strerror', error)}", name) from None
    if os.path.isdir(name):
        raise UserError("cannot write it: it is a directory", name)
    if name.endswith(os.sep):
        raise UserError("cannot write it: it names a directory, and there is none", name)
    if not os.path.isdir(directory):
        raise UserError(f"cannot write it: there is no directory '{directory}'", name)
    if os.path.exists(name) and not os.access(name, os.W_OK):
        raise UserError("cannot write it: the file is read-only", name)
    if not _is_device(name) and not os.access(directory, os.W_OK):
        raise UserError(f"cannot write it: the directory '{directory}' is read-only", name)


def check_keeps(source: str, outputs: Iterable[str | PathLike[str]]) -> None:
    """Raise UserError if one of `outputs` would replace the file `source`, which is the input.
    (What "-" stands for is not known, and a pipe or a device is not replaced.)"""
    if source == "-" or not os.path.isfile(source):
        return
    for name in map(canonical, outputs):
        with suppress(OSError):  # the working directory was removed, as `check_output` tells
            if name != "-" and os.path.realpath(name) == os.path.realpath(source):
                raise UserError("it would overwrite the input; give the output another name", name)


def make_directory(path: Path) -> None:
    """Create a directory for output, if there is none. Raises UserError if that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create it: {error.strerror}", str(path)) from None


def write_output(path: str | PathLike[str], data: bytes) -> None:
    """Put `data` into the file `path` at one stroke, or write it to standard output for "-".

    A link is followed, an existing file keeps its permissions, pipes, devices and open files that
    are named by their descriptor are written to directly. Raises UserError, and leaves a file as it
    was, if that is not possible.
    """
    name = canonical(path)
    check_output(name)
    try:
        if name == "-":
            _write_stdout(data)
        elif (number := _descriptor(name)) is not None:
            with os.fdopen(os.dup(number), "wb") as descriptor:
                descriptor.write(data)
        elif _is_device(name):
            with open(name, "wb") as device:
                device.write(data)
        else:
            real = os.path.realpath(name)
            beside = os.path.join(os.path.dirname(real), f".mopt-{uuid4().hex}.tmp")
            mode = S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else None
            replace_file(real, data, beside, mode)
    except BrokenPipeError:
        raise UserError("the reader closed the pipe before it had all of the output") from None
    except OSError as error:
        file = "<stdout>" if name == "-" else name
        raise UserError(f"cannot write it: {error.strerror}", file) from None


def replace_file(
    path: str | PathLike[str], data: bytes, temporary: str | PathLike[str], mode: int | None = None
) -> None:
    """Put `data` into the file `path` at one stroke, by way of a new file `temporary` in the same
    directory, which is gone in any case. `mode` are the permissions, by default a new file's.

    Raises OSError, and leaves `path` as it was, if that is not possible.
    """
    with _tidied_up():
        try:
            with open(temporary, "xb") as file:
                if mode is not None:
                    os.chmod(temporary, mode)  # first: nobody else may read what was private
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory that is gone after the `with` block. Raises UserError if there cannot be one."""
    with _tidied_up(), ExitStack() as stack:
        with room_for_temporary_files():
            path = stack.enter_context(TemporaryDirectory(prefix="mopt-"))
        yield Path(path)


@contextmanager
def temporary_file(name: str, data: bytes) -> Iterator[Path]:
    """A file `name` with `data`, in a directory of its own that is gone after the `with` block.

    Raises UserError if there is no room for it.
    """
    with temporary_directory() as directory:
        path = directory / name
        with room_for_temporary_files():
            path.write_bytes(data)
        yield path


@contextmanager
def room_for_temporary_files() -> Iterator[None]:
    """Inside, temporary files are written. Raises UserError for an OSError."""
    try:
        yield
    except OSError as error:
        why = f"cannot write a temporary file: {error.strerror or error}"
        raise UserError(f"{why}; set TMPDIR to a directory that has room") from None


@contextmanager
def _tidied_up() -> Iterator[None]:
    """Inside, SIGTERM is an exception first, as an interrupt is: temporary files are removed before
    the process ends of it."""
    is_main = current_thread() is main_thread()  # no other one can say what a signal does
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    told_to_end = False

    def leave(*_: object) -> None:
        nonlocal told_to_end
        told_to_end = True
        raise KeyboardInterrupt  # whatever runs inside knows that one

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if told_to_end:
            os.kill(os.getpid(), signal.SIGTERM)


def _descriptor(name: str) -> int | None:
    """The number of the open file that has this name: what is in it already stays there."""
    if name == "/dev/stderr":
        return 2
    found = _DESCRIPTOR.fullmatch(name)
    return int(found[1]) if found else None


def _is_device(name: str) -> bool:
    return os.path.exists(name) and not os.path.isfile(name)


def _write_stdout(data: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError:
        # What is left in the buffer must not raise once more when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
