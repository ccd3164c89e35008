"""Shared libraries, linked by the system's C compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from mopt_mlir.diagnostics import UserError
from mopt_mlir.lowering.native import NativeModule
from mopt_mlir.lowering.openmp import find_openmp
from mopt_mlir.output import temporary_file

_COMPILERS = ("cc", "gcc", "clang")
_WAY_OUT = "set CC to a C compiler, such as cc"


def link_shared(code: NativeModule) -> bytes:
    """The contents of a shared library with `code`.

    Parallel code is linked with the OpenMP runtime of this Python environment, whose directory
    becomes the library's run path. Raises UserError if there is no C compiler, if it fails, and
    where there is no room for temporary files.
    """
    command = [*_compiler(), "-shared"]
    with temporary_file("code.o", code.object()) as source:
        target = source.with_name("code.so")
        command += ["-o", str(target), str(source), "-Wl,-z,defs", "-lm"]
        if code.needs_openmp:
            runtime = find_openmp()
            # not -Wl, which is split at each comma of a path
            command += [str(runtime), "-Xlinker", "-rpath", "-Xlinker", str(runtime.parent)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise UserError(f"'{command[0]}' cannot be run: {error.strerror}; {_WAY_OUT}") from None
        if done.returncode:
            message = done.stderr.strip() or f"exit code {done.returncode}"
            raise UserError(f"'{command[0]}' cannot link the shared library: {message}")
        if not target.exists():
            raise UserError(f"'{command[0]}' did not write the shared library; {_WAY_OUT}")
        return target.read_bytes()


def check_compiler() -> None:
    """Raise UserError if there is no C compiler."""
    _compiler()


def _compiler() -> list[str]:
    """The C compiler: `$CC` if it is set, else the first that is installed."""
    variable = os.environ.get("CC", "")
    try:
        given = shlex.split(variable)
    except ValueError as error:
        why = str(error).lower()
        raise UserError(f"CC={variable} is no command: {why}; {_WAY_OUT}") from None
    for command in [given] if given else [[name] for name in _COMPILERS]:
        if shutil.which(command[0]):
            return command
    tried = given[0] if given else ", ".join(_COMPILERS)
    raise UserError(
        f"a shared library needs a C compiler, but there is none ({tried}): "
        "install one, set CC, or write an object file (.o)"
    )
