"""The plan cache: what it returns is what was stored, whatever happens to its files."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from problems import conv3d

from mopt_mlir.cache_directory import cache_directory
from mopt_mlir.diagnostics import Diagnostic
from mopt_mlir.machine import Machine, by_name
from mopt_mlir.plan import Plan
from mopt_mlir.planning import plan_cache as module
from mopt_mlir.planning.plan_cache import PlanCache, plan_key
from mopt_mlir.problem import conv2d
from mopt_mlir.solver import solve

PROBLEM = conv2d(k=16, h=6, w=14, c=8, r=3, s=3)
MACHINE = by_name("znver5")
OPTIONS: dict[str, str | float] = {"gap": 0.005, "solver": "exact"}
KEY = plan_key(PROBLEM, MACHINE, 1, OPTIONS)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return solve(PROBLEM, MACHINE)


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


def entry(cache: PlanCache, key: str = KEY) -> Path:
    path = cache._path(key)
    assert path is not None
    return path


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def python(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)])


# Keys


def test_a_key_is_the_same_in_every_process() -> None:
    program = """if True:
        from mopt_mlir.machine import by_name
        from mopt_mlir.problem import conv2d
        from mopt_mlir.planning.plan_cache import plan_key
        problem = conv2d(k=16, h=6, w=14, c=8, r=3, s=3)
        print(plan_key(problem, by_name("znver5"), 1, {"solver": "exact", "gap": 0.005}))
    """
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    printed = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert printed.strip() == KEY


def other(value: object) -> object:
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (replace(value[0], size=value[0].size // 2), *value[1:])
    return 3 if value is None else value * 2  # type: ignore[operator]


@pytest.mark.parametrize("field", [field.name for field in fields(Machine)])
def test_every_figure_of_the_machine_is_part_of_the_key(field: str) -> None:
    changed = replace(MACHINE, **{field: other(getattr(MACHINE, field))})
    assert plan_key(PROBLEM, changed, 1, OPTIONS) != KEY


def test_problem_threads_options_and_version_are_part_of_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [
        KEY,
        plan_key(conv2d(k=16, h=6, w=14, c=8, r=3, s=3, stride=2), MACHINE, 1, OPTIONS),
        plan_key(conv2d(k=16, h=6, w=14, c=8, r=3, s=3, layout="nhwc"), MACHINE, 1, OPTIONS),
        plan_key(PROBLEM, MACHINE, 2, OPTIONS),
        plan_key(PROBLEM, MACHINE, 1, {**OPTIONS, "gap": 0.01}),
        plan_key(PROBLEM, MACHINE, 1, {**OPTIONS, "solver": "algorithm1"}),
    ]
    monkeypatch.setattr(module, "version", lambda: "another")
    keys.append(plan_key(PROBLEM, MACHINE, 1, OPTIONS))
    assert len(set(keys)) == len(keys)


def test_the_version_follows_the_sources_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "solver").mkdir()
    monkeypatch.setattr(module, "__file__", str(tmp_path / "planning" / "plan_cache.py"))
    versions = set()
    for text in ("WEIGHT = 0.05", "WEIGHT = 0.06"):
        (tmp_path / "model" / "cost.py").write_text(text)
        versions.add(module.version.__wrapped__())
    assert len(versions) == 2


def test_the_version_knows_the_passes_which_lie_beside_the_package_in_a_checkout() -> None:
    versions = {module.version((name,)) for name in ("tile.py", "lower_to_llvm.py", "nothing.py")}
    assert len(versions) == 3


def test_the_version_covers_every_module_that_solving_loads() -> None:
    program = """if True:
        import sys
        from mopt_mlir.machine import by_name
        from mopt_mlir.problem import conv2d
        from mopt_mlir.solver import solve
        solve(conv2d(k=16, h=6, w=14, c=8, r=3, s=3), by_name("znver5"))
        print(*(module.__file__ for name, module in sys.modules.items() if "mopt_mlir." in name))
    """
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    root = Path(module.__file__).parents[1]
    loaded = {path.relative_to(root) for path in map(Path, printed.split()) if path.match("*.py")}
    covered = {path.relative_to(root) for glob in module._SOURCES for path in root.glob(glob)}
    # what a machine is made from shows in its figures, and messages are no part of a plan
    messages = {"diagnostics.py", "unicode_text.py", "wording.py"}
    beside = {"bindings.py", "cache_directory.py", "output.py", *messages}
    uncovered = {path for path in loaded - covered if path.parent.name != "machine"}
    assert {str(path) for path in uncovered} <= beside
    assert Path("solver/certified.py") in covered & loaded


# Entries


def test_a_stored_plan_comes_back_to_the_last_bit(cache: PlanCache, plan: Plan) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, plan)
    kept = PlanCache(cache._root).get(KEY)
    assert kept is not None
    assert kept == plan
    assert repr(kept.as_dict()) == repr(plan.as_dict())  # also the order, and 1 is not 1.0


def test_the_directory_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    monkeypatch.setenv("MOPT_CACHE_DIR", str(tmp_path / "mine"))
    PlanCache().put(KEY, plan)
    assert len(files(tmp_path / "mine")) == 1
    monkeypatch.delenv("MOPT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "mopt-mlir"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-20],
    "zeros": lambda data: bytes(len(data)),
    "a digit changed": lambda data: data.replace(b'"vector": 16', b'"vector": 18'),
    "more behind it": lambda data: data + b"{}",
    "another format": lambda data: data.replace(b"mopt-plan 1", b"mopt-plan 2"),
    "no text": lambda data: b"\xff\xfe" + data,
    "only a plan": lambda data: data.partition(b"\n")[2],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_told_not_used_and_replaced(
    cache: PlanCache, plan: Plan, told: list[Diagnostic], damage: Callable[[bytes], bytes]
) -> None:
    cache.put(KEY, plan)
    path = entry(cache)
    data = path.read_bytes()
    path.write_bytes(damage(data))
    assert path.read_bytes() != data
    assert cache.get(KEY) is None
    assert [(one.severity, one.location) for one in told] == [("remark", str(path))]
    assert "this entry of the plan cache is damaged; its plan is not used" in told[0].message
    cache.put(KEY, plan)
    assert cache.get(KEY) == plan
    assert len(told) == 1


def test_a_pipe_in_place_of_an_entry_keeps_nobody_waiting(cache: PlanCache, plan: Plan) -> None:
    cache.put(KEY, plan)
    entry(cache).unlink()
    os.mkfifo(entry(cache))
    assert cache.get(KEY) is None
    cache.put(KEY, plan)
    assert cache.get(KEY) == plan


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, ""), OSError(errno.ENAMETOOLONG, "")]
)
def test_a_directory_that_cannot_be_searched_has_no_entries(
    cache: PlanCache, plan: Plan, error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, plan)

    def stat(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "stat", stat)
    assert cache.get(KEY) is None


def test_every_single_damaged_byte_is_noticed(
    cache: PlanCache, plan: Plan, told: list[Diagnostic]
) -> None:
    cache.put(KEY, plan)
    data = entry(cache).read_bytes().removesuffix(b"\n")
    for position in range(len(data)):
        flipped = bytes([data[position] ^ 1])
        entry(cache).write_bytes(data[:position] + flipped + data[position + 1 :])
        assert cache.get(KEY) is None, position
    assert len(told) == len(data)


def test_an_entry_under_another_name_is_not_used(
    cache: PlanCache, plan: Plan, told: list[Diagnostic]
) -> None:
    cache.put(KEY, plan)
    other_key = KEY[:2] + KEY[2:][::-1]
    entry(cache).rename(entry(cache, other_key))
    assert cache.get(other_key) is None
    assert len(told) == 1


def test_a_well_formed_entry_that_is_no_plan_is_not_used(
    cache: PlanCache, plan: Plan, told: list[Diagnostic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "as_dict", lambda self: {"machine": "znver5"})
    cache.put(KEY, plan)
    assert cache.get(KEY) is None
    assert "the plan lacks" in told[0].message


# Trouble while writing


def fails(error: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    return fail


def test_a_full_disk_leaves_nothing_behind_and_is_told_once(tmp_path: Path) -> None:
    """Real writes that fail in their middle: of a process whose files may have 512 bytes."""
    program = """if True:
        import resource, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from test_plan_cache import KEY, MACHINE, PROBLEM
        from mopt_mlir.solver import solve
        from mopt_mlir.planning.plan_cache import PlanCache
        plan = solve(PROBLEM, MACHINE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
        for _ in range(3):
            cache = PlanCache(Path(sys.argv[1]))
            cache.put(KEY, plan)
            assert cache.get(KEY) is None
    """
    command = [sys.executable, "-c", program, str(tmp_path / "plans"), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("remark: plans cannot be stored: File too large") == 1
    assert "set MOPT_CACHE_DIR to another directory" in done.stderr
    assert files(tmp_path) == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fails_is_told_once(
    cache: PlanCache,
    plan: Plan,
    told: list[Diagnostic],
    monkeypatch: pytest.MonkeyPatch,
    error: int,
) -> None:
    monkeypatch.setattr(os, "replace", fails(error))
    cache.put(KEY, plan)
    cache.put(KEY, plan)
    assert [one.message.partition(";")[0] for one in told] == [
        f"plans cannot be stored: {os.strerror(error)}"
    ]
    assert files(entry(cache).parent) == []
    assert cache.get(KEY) is None


@pytest.mark.parametrize("error", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_read_only_directory_is_no_cache_and_nothing_to_tell(
    cache: PlanCache,
    plan: Plan,
    told: list[Diagnostic],
    monkeypatch: pytest.MonkeyPatch,
    error: int,
) -> None:
    monkeypatch.setattr(Path, "mkdir", fails(error))
    cache.put(KEY, plan)
    assert cache.get(KEY) is None
    assert told == []


def test_a_file_in_place_of_the_directory_is_told(
    tmp_path: Path, plan: Plan, told: list[Diagnostic]
) -> None:
    (tmp_path / "plans").write_text("a file")
    cache = PlanCache(tmp_path / "plans")
    cache.put(KEY, plan)
    assert cache.get(KEY) is None
    assert cache.clear() == 0
    assert [one.severity for one in told] == ["remark"]


def test_without_a_home_there_is_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    for name in ("MOPT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert cache_directory() is None


def test_no_home_is_no_cache(
    plan: Plan, told: list[Diagnostic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cache_directory", lambda: None)
    cache = PlanCache()
    cache.put(KEY, plan)
    assert cache.get(KEY) is None
    assert cache.clear() == 0
    assert told == []


def test_a_killed_writer_leaves_no_entry_and_its_remains_are_removed_later(
    tmp_path: Path, cache: PlanCache, plan: Plan, told: list[Diagnostic]
) -> None:
    program = """if True:
        import os, signal, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from test_plan_cache import KEY, MACHINE, PROBLEM
        from mopt_mlir.solver import solve
        from mopt_mlir.planning.plan_cache import PlanCache
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        PlanCache(Path(sys.argv[1])).put(KEY, solve(PROBLEM, MACHINE))
    """
    writer = python(program, tmp_path / "plans", Path(__file__).parent)
    assert writer.wait() == -signal.SIGKILL
    (remains,) = files(tmp_path)
    assert remains.suffix == ".tmp"
    assert cache.get(KEY) is None
    cache.put(KEY, plan)
    assert cache.get(KEY) == plan
    assert remains.exists()  # perhaps of somebody who still writes
    os.utime(remains, (0, 0))
    cache.put(KEY, plan)
    assert files(tmp_path) == [entry(cache)]
    assert told == []


WRITE_FOR_EVER = """if True:
    import sys
    from itertools import cycle
    from pathlib import Path
    from mopt_mlir.planning.plan_cache import PlanCache
    cache, source, keys = PlanCache(Path(sys.argv[1])), PlanCache(Path(sys.argv[2])), sys.argv[3:]
    plan = source.get(keys[0])
    for key in cycle(keys):
        cache.put(key, plan)
"""


def test_processes_that_write_at_once_and_are_killed_never_show_a_broken_entry(
    tmp_path: Path, plan: Plan, told: list[Diagnostic]
) -> None:
    keys = [f"{number:064x}" for number in range(8)]
    PlanCache(tmp_path / "source").put(keys[0], plan)
    cache = PlanCache(tmp_path / "plans")
    for _ in range(2):
        arguments = (tmp_path / "plans", tmp_path / "source", *keys)
        writers = [python(WRITE_FOR_EVER, *arguments) for _ in range(3)]
        try:
            while not any(cache.get(key) for key in keys):
                assert all(writer.poll() is None for writer in writers)
            for _ in range(300):
                for key in keys:
                    assert cache.get(key) in (None, plan)
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
    assert all(cache.get(key) in (None, plan) for key in keys)
    assert told == []


# Room


def test_the_cache_stays_as_small_as_is_promised(cache: PlanCache) -> None:
    """16,384 plans below 64 MB, also if all of them are as large as plans can be."""
    sizes = {"k": 4096, "d": 128, "h": 1024, "w": 1024, "c": 4096, "q": 3, "r": 7, "s": 7}
    largest = solve(conv3d(**sizes), by_name("i9-10980xe"), 18, gap=0.5)
    cache.put(KEY, largest)
    assert 256 * module.SHELF_ENTRIES == 16_384  # one shelf for each byte that a key begins with
    assert entry(cache).stat().st_size * 16_384 < 64_000_000


def test_the_oldest_plans_make_room(
    cache: PlanCache, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHELF_ENTRIES", 3)
    keys = [f"{number:064x}" for number in range(5)]
    for age, key in enumerate(keys):
        cache.put(key, plan)
        os.utime(entry(cache, key), (1000 + age, 1000 + age))
    cache.put(KEY, plan)  # in another subdirectory
    assert [key for key in keys if cache.get(key)] == keys[2:]
    assert cache.get(KEY) == plan


def test_two_may_clear_at_once(
    cache: PlanCache, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one removes a directory after it was listed."""
    cache.put(KEY, plan)
    shelves = list(cache._shelves())
    assert cache.clear() == 1
    monkeypatch.setattr(PlanCache, "_shelves", lambda _: iter(shelves))
    assert cache.clear() == 0


def test_clear_removes_plans_and_nothing_else(cache: PlanCache, plan: Plan, tmp_path: Path) -> None:
    cache.put(KEY, plan)
    remains = entry(cache).with_name(f"{KEY[2:]}.1f-0a.tmp")
    remains.write_bytes(b"")
    for name in ("mine.txt", "ab/mine.txt", f"{KEY[:2]}/mine.txt", f"mine/{KEY[2:]}"):
        (tmp_path / "plans" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "plans" / name).write_text("mine")
    assert cache.clear() == 1
    assert cache.clear() == 0
    assert {path.read_text() for path in files(tmp_path)} == {"mine"}
    assert len(files(tmp_path)) == 4
