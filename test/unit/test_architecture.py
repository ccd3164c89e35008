"""What docs/architecture.md says of the packages, held against their imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text()
ROWS = re.findall(r"^\| `(\w+)/` \| .* \| (.*?) ?\|$", DOCUMENT, re.MULTILINE)
ORDER = [package for package, _ in ROWS]

LIBRARIES = {"MLIR": "mlir", "SCIP": "pyscipopt", "LLVM": "llvmlite"}
THROUGH_BINDINGS = "mopt_mlir.bindings"
"""The one module that imports MLIR itself: its Python bindings may be another framework's."""


def sources() -> Iterator[tuple[str, Path]]:
    """The files of each package, and under an empty name the modules beside them."""
    for path in (ROOT / "mopt_mlir").rglob("*.py"):
        inside = path.relative_to(ROOT / "mopt_mlir").parts
        yield (inside[0] if len(inside) > 1 else ""), path
    for path in (ROOT / "passes").glob("*.py"):
        yield "passes", path


FILES = {
    ".".join(path.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__"): path
    for _, path in sources()
}


def imports(path: Path) -> Iterator[str]:
    """The modules that a file names in import statements, wherever these stand."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative imports are not followed here"
            inner = {f"{node.module}.{name.name}" for name in node.names} & FILES.keys()
            yield from inner
            if len(inner) < len(node.names):
                yield str(node.module)


def packages_of(module: str) -> set[str]:
    """The package of ours that `module` is in, if it is in one."""
    parts = module.split(".")
    inside = parts[0] == "mopt_mlir" and len(parts) > 1
    return {parts[1]} & set(ORDER) if inside else set()


def test_the_document_has_all_packages() -> None:
    folders = {path.parent.name for path in (ROOT / "mopt_mlir").glob("*/__init__.py")}
    assert sorted(ORDER) == sorted(folders | {"passes"})


def test_the_document_has_all_single_modules() -> None:
    rows = re.findall(r"^\| (`\w+\.py`.*?) \|", DOCUMENT, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]
    modules = {path.name for path in (ROOT / "mopt_mlir").glob("*.py")} - {"__init__.py"}
    assert sorted(named) == sorted(modules)


@pytest.mark.parametrize("package", ORDER)
def test_packages_import_from_those_above_them_only(package: str) -> None:
    above = set(ORDER[: ORDER.index(package) + 1])
    for owner, path in sources():
        if owner == package:
            used = set[str]().union(*map(packages_of, imports(path)))
            assert used <= above, f"{path.name} imports from {sorted(used - above)}"


@pytest.mark.parametrize(("package", "libraries"), ROWS)
def test_packages_import_the_libraries_that_are_said(package: str, libraries: str) -> None:
    said = {name.strip() for name in libraries.split(",")} - {""}
    for owner, path in sources():
        if owner != package:
            continue
        names = set(imports(path))
        used = {
            n for n, library in LIBRARIES.items() if any(m.split(".")[0] == library for m in names)
        }
        used |= {"MLIR"} if THROUGH_BINDINGS in names else set()
        assert used <= said, f"{path.name} uses {sorted(used - said)}"


def test_no_imports_run_in_a_circle() -> None:
    """Between files, also those that are imported when a function runs; those for annotations
    alone need no file to be there."""
    needs = {
        module: {name for name in imports(path) if name in FILES and name != module}
        for module, path in FILES.items()
    }
    while free := {module for module, needed in needs.items() if not needed & needs.keys()}:
        needs = {module: needed for module, needed in needs.items() if module not in free}
    assert not needs, f"in circles, or behind them: {sorted(needs)}"
