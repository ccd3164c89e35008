"""Plans on disk: a problem that was solved once is not solved again, in any process.

One file per plan, named after the key and put in place by renaming, so that a reader sees a whole
entry or none: whatever writes at the same time, is killed while it writes, or finds the disk full.
What a crash of the machine or anybody else does to a file shows in its checksum. Nothing is locked,
and nothing here fails: without a usable directory there are simply no entries.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from time import time

from mopt_mlir.cache_directory import ENVIRONMENT, cache_directory
from mopt_mlir.diagnostics import emit
from mopt_mlir.machine.machine import Machine
from mopt_mlir.output import replace_file
from mopt_mlir.plan import Plan
from mopt_mlir.problem import Problem

FORMAT = b"mopt-plan 1"
"""The first words of an entry; its checksum and the plan as JSON follow."""

SHELF_ENTRIES = 64
"""Plans in one of the 256 subdirectories; the oldest make room for new ones. An entry takes about
4 KB, so that the cache stays below 64 MB."""

ABANDONED = 3600.0
"""Seconds after which a file that was never put in place is what a killed writer left behind."""

_SOURCES = (
    "problem.py",
    "plan.py",
    "microkernel.py",
    "vector_access.py",
    "plain_data.py",
    "machine/machine.py",
    "model/*.py",
    "solver/*.py",
)
"""The modules that a plan depends on, beside the arguments of `solve`."""

_PACKAGES = ("pyscipopt", "numpy")

_SHELF = re.compile(r"[0-9a-f]{2}")
_ENTRY = re.compile(r"[0-9a-f]{62}(\.[0-9a-f-]+\.tmp)?")

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)
"""Errors of a directory that is not meant to be written: no cache, and nothing to tell."""


def plan_key(
    problem: Problem, machine: Machine, threads: int, options: Mapping[str, str | float]
) -> str:
    """What identifies a plan: a hash of everything that it depends on, all figures of `machine`,
    the `options` of the solver, and this version of the model included.

    A time limit belongs to `options` only if plans that it cut short are stored.
    """
    # the representation of a frozen dataclass has all its fields, and floats exactly
    text = repr((problem, machine, threads, sorted(options.items()), version()))
    return sha256(text.encode()).hexdigest()


@cache
def version(sources: tuple[str, ...] = _SOURCES, packages: tuple[str, ...] = _PACKAGES) -> str:
    """A hash of modules of this package, by default of the model and the solver, and of the
    versions of the packages that they use."""
    digest = sha256(repr([_installed(package) for package in packages]).encode())
    roots = [Path(__file__).parents[1]]
    passes = find_spec("mopt_mlir.passes")  # in a checkout they lie beside the package
    roots += map(Path, passes.submodule_search_locations or ()) if passes is not None else ()
    for pattern in sources:
        for path in sorted({path.resolve() for root in roots for path in root.glob(pattern)}):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _installed(package: str) -> list[str]:
    """What the installer wrote beside `package`, as `numpy-2.4.6.dist-info`; importlib.metadata
    would take longer than all the rest of a process's first look into the cache."""
    found = find_spec(package)
    if found is None or found.origin is None:
        return []
    beside = Path(found.origin).parents[1]
    return sorted(name for name in os.listdir(beside) if name.lower().startswith(f"{package}-"))


class PlanCache:
    """Plans by `plan_key`, in `directory` or that of the user, which need not exist."""

    def __init__(self, directory: Path | None = None) -> None:
        self._root = directory or _plans_of_user()

    def get(self, key: str) -> Plan | None:
        """The plan that was stored, or None. Emits a remark if there is an entry, but a bad one."""
        path = self._path(key)
        try:
            if path is None or not path.is_file():  # a pipe would keep us waiting
                return None
            data = path.read_bytes()
        except OSError:  # not there, not ours to read, no name that a file can have
            return None
        try:
            return _decode(key, data)
        except ValueError as error:
            emit("remark", str(path), f"{error}; its plan is not used but solved for again")
            return None

    def put(self, key: str, plan: Plan) -> None:
        """Store `plan`. Emits a remark, the first time, if it should be possible, but is not."""
        path = self._path(key)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # a name that `_ENTRY` knows again, of this write alone
            writing = f"{path.name}.{os.getpid():x}-{os.urandom(8).hex()}.tmp"
            replace_file(path, _encode(key, plan), path.with_name(writing))
            _tidy(path.parent)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                _complain(str(self._root), error.strerror)

    def clear(self) -> int:
        """Remove all entries, and nothing else. Returns how many there were.

        Raises OSError if one cannot be removed.
        """
        removed = 0
        for shelf in self._shelves():
            for path in _entries(shelf):
                path.unlink(missing_ok=True)
                removed += not path.suffix
            with suppress(OSError):  # it holds what somebody else put there
                shelf.rmdir()
        return removed

    def _path(self, key: str) -> Path | None:
        return self._root / key[:2] / key[2:] if self._root else None

    def _shelves(self) -> Iterator[Path]:
        if self._root and self._root.is_dir():
            yield from (path for path in self._root.iterdir() if _SHELF.fullmatch(path.name))


@cache  # so that it is said once
def _complain(directory: str, reason: str) -> None:
    emit(
        "remark",
        directory,
        f"plans cannot be stored: {reason}; set {ENVIRONMENT} to another directory, or switch the "
        "plan cache off",
    )


def _plans_of_user() -> Path | None:
    directory = cache_directory()
    return directory / "plans" if directory else None


def _encode(key: str, plan: Plan) -> bytes:
    payload = json.dumps(plan.as_dict()).encode()
    return b"%s %s\n%s\n" % (FORMAT, _checksum(key, payload), payload)


def _decode(key: str, data: bytes) -> Plan:
    """The inverse of `_encode`. Raises ValueError if `data` is anything but what it returned."""
    header, _, rest = data.partition(b"\n")
    payload = rest.removesuffix(b"\n")
    if header != b"%s %s" % (FORMAT, _checksum(key, payload)):
        raise ValueError("this entry of the plan cache is damaged")
    return Plan.from_dict(json.loads(payload))


def _checksum(key: str, payload: bytes) -> bytes:
    # of the key as well, so that an entry under another's name is as bad as a damaged one
    return sha256(key.encode() + payload).hexdigest().encode()


def _tidy(shelf: Path) -> None:
    """Remove the oldest entries beyond SHELF_ENTRIES, and what killed writers left."""
    ages = {}
    for path in _entries(shelf):
        try:
            ages[path] = time() - path.stat().st_mtime
        except FileNotFoundError:  # another process tidies as well
            continue
    stored = sorted((path for path in ages if not path.suffix), key=lambda path: ages[path])
    abandoned = [path for path in ages if path.suffix and ages[path] > ABANDONED]
    for path in [*stored[SHELF_ENTRIES:], *abandoned]:
        path.unlink(missing_ok=True)


def _entries(shelf: Path) -> list[Path]:
    """Plans, and with the suffix .tmp what is being written."""
    try:
        return [path for path in shelf.iterdir() if _ENTRY.fullmatch(path.name)]
    except FileNotFoundError:  # another process clears as well
        return []
